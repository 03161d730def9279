"""What a report is made of: a closed set of blocks. A method gives blocks, a renderer writes them; neither knows the other.

Every text is plain: a renderer escapes it. A number is a number: a renderer writes it as its kind says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Kind = Literal["text", "name", "number", "signed", "count", "percent", "probability", "interval", "mark", "code"]
"""How the values of a column are written.

text: prose, which may wrap. name: a short text, never broken. number, signed: three decimals. count: a whole number. percent: a share from
0 to 1. probability: p or q, two digits. interval: a pair (low, high). mark: a `Graded`. code: something to type.
"""


class Graded(NamedTuple):
    """A mark with the best and the worst tier its interval reaches."""

    mark: str
    best: str | None = None
    worst: str | None = None


class Band(NamedTuple):
    """One stretch of a metric's range that earns `mark`; both ends belong to it."""

    mark: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Parameters
    ----------
    values
        One per row; None: nothing to say.
    rank
        0: always shown. Others are left out where there is no room, the greatest first.
    whole
        Whether its name is never broken, being that of a model or a group.
    """

    name: str
    values: Sequence[Any]
    kind: Kind = "text"
    rank: int = 0
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Headline:
    """The title of what follows, with the marks counted under it.

    Parameters
    ----------
    level
        1: of a study; 2: of a model or group; 3: below.
    marks
        How many numbers have each mark.
    """

    text: str
    level: int = 2
    marks: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str
    small: bool = False


@dataclass(frozen=True, slots=True)
class Callout:
    """A sentence that must not be overlooked: what is missing, or what not to conclude."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """Rows and columns.

    Parameters
    ----------
    lead
        How many columns, from the left, name a row.
    note
        A sentence below it.
    """

    title: str
    columns: Sequence[Column]
    lead: int = 1
    note: str = ""


class IntervalRow(NamedTuple):
    """One number with its interval.

    Parameters
    ----------
    panel
        What is drawn on one scale: a metric. Its rows stand together.
    label
        The row within the panel: a model, a group, a role.
    bands
        The tiers to draw behind it.
    null_value
        The value that means "no bias"; None: not drawn.
    background
        Whether it was published elsewhere, and is drawn behind.
    """

    panel: str
    label: str
    estimate: float | None
    low: float | None
    high: float | None
    mark: Graded | None = None
    bands: tuple[Band, ...] = ()
    null_value: float | None = None
    background: bool = False


@dataclass(frozen=True, slots=True)
class Intervals:
    """Numbers with their intervals, drawn on one scale for each panel.

    Parameters
    ----------
    level
        Of the intervals; None where they differ.
    further
        More columns, a value per row each.
    """

    title: str
    rows: Sequence[IntervalRow]
    level: float | None = None
    further: Sequence[Column] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """Amounts side by side: `values[series]` has one per label, in order; None: nothing to draw."""

    title: str
    labels: Sequence[str]
    values: Mapping[str, Sequence[float | None]]
    kind: Kind = "count"
    note: str = ""


@dataclass(frozen=True, slots=True)
class Heatmap:
    """A table of numbers, coloured by size.

    Parameters
    ----------
    values
        `values[row][column]`.
    centre
        The value without colour, where colours go both ways; None: the smallest has none.
    marks
        Instead of colours by size: those of these marks, like `values`.
    """

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    kind: Kind = "number"
    centre: float | None = None
    marks: Sequence[Sequence[str | None]] | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Dots:
    """Where each series stands on one line per label, between two ends.

    Parameters
    ----------
    ends
        What the left and the right end mean: ("women", "men").
    span
        Values of the two ends.
    """

    title: str
    labels: Sequence[str]
    values: Mapping[str, Sequence[float | None]]
    ends: tuple[str, str]
    span: tuple[float, float]
    note: str = ""


class Response(NamedTuple):
    """One answer as written, how it was read, and what it did to the number."""

    prompt: str | None
    answer: str | None
    outcome: str | None = None
    label: str | None = None
    influence: float | None = None
    prompt_id: str = ""


@dataclass(frozen=True, slots=True)
class Responses:
    """Answers behind a number, shown as written: renderers fold them behind a content warning."""

    title: str
    rows: Sequence[Response]


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks for readers who ask for more: folded on a page, left out by a terminal unless everything is asked for."""

    title: str
    blocks: Sequence[Block]


Chart = Intervals | Bars | Heatmap | Dots
Block = Headline | Text | Callout | Table | Chart | Responses | Details
