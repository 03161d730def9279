"""Building blocks of reports. Methods produce blocks and renderers write them; neither depends on the other.

Texts are plain and are escaped by the renderer. Numbers are unformatted and are written according to their
kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from polars import DataFrame

MARKS = ("healthy", "cautionary", "critical", "catastrophic")
"""Tiers of a graded metric, best first."""
RANGES = (
    "healthy",
    "at most cautionary",
    "cautionary",
    "cautionary to critical",
    "at least cautionary",
    "critical",
    "at least critical",
    "catastrophic",
)
"""Marks by increasing severity: single tiers, and ranges of tiers that an interval touches."""
UNDECIDED = "undecided"
"""Mark of a metric whose interval reaches from healthy to critical or beyond."""
UNGRADED = "ungraded"
"""Mark of a metric with too few parsed responses or items."""
SEVERITY: Mapping[str, int] = {
    UNGRADED: -1,
    "healthy": 0,
    "at most cautionary": 1,
    UNDECIDED: 2,
    "cautionary": 3,
    "cautionary to critical": 4,
    "at least cautionary": 5,
    "critical": 6,
    "at least critical": 7,
    "catastrophic": 8,
}
"""Order of the marks: by the best and then the worst tier that the interval touches.

Undecided is worse than at most cautionary.
"""
MORE_ITEMS = "a decision needs more items, chosen before the run"
"""What an undecided mark needs."""
REPEATED_LOOKS = (
    "If items are added until a mark is decided, wrong marks are more frequent: "
    "about 12% to 16% instead of 5% at either end, with five looks."
)
"""What adding items until a mark is decided does to the error; `docs/gate.md` has the simulation."""


def range_words(best: str, worst: str) -> str:
    """Return the mark of an interval that reaches from tier `best` to tier `worst`.

    One tier is named alone; from healthy to cautionary is "at most cautionary", up to catastrophic "at least"
    the best tier, from cautionary to critical "cautionary to critical", and from healthy to critical or
    catastrophic "undecided".
    """
    if best == worst:
        return best
    if best == MARKS[0]:
        return f"at most {worst}" if worst == MARKS[1] else UNDECIDED
    return f"at least {best}" if worst == MARKS[-1] else f"{best} to {worst}"


Kind = Literal[
    "text",
    "name",
    "number",
    "quantity",
    "signed",
    "count",
    "percent",
    "probability",
    "interval",
    "mark",
    "code",
]
"""Format of the values of a column.

text: prose, which may wrap. name: a short text that does not wrap. number, signed: three decimals. quantity:
a formatted number with its unit. count: an integer. percent: a share from 0 to 1. probability: p or q, two
digits. interval: a pair (low, high). mark: a `Graded`. code: literal input such as a command.
"""


class Graded(NamedTuple):
    """A mark with the best and the worst tier that the interval reaches, and a note shown in brackets."""

    mark: str
    best: str | None = None
    worst: str | None = None
    note: str = ""


class Band(NamedTuple):
    """The closed range of metric values that receives `mark`."""

    mark: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Parameters
    ----------
    values
        One value per row; None leaves the cell empty.
    rank
        0: always shown. If space is short, columns with the highest rank are omitted first.
    whole
        Whether the column name must not wrap, because it is the name of a model or group.
    links
        Titles of the blocks to which the cells lead, for pages; None without a link.
    """

    name: str
    values: Sequence[Any]
    kind: Kind = "text"
    rank: int = 0
    whole: bool = False
    links: Sequence[str | None] = ()

    @classmethod
    def of(
        cls, rows: DataFrame, source: str, name: str | None = None, kind: Kind = "text", rank: int = 0
    ) -> Column:
        """Return a column of a table, under another name if one is given."""
        return cls(name or source, rows[source].to_list(), kind, rank)


def columns_of(rows: DataFrame, kinds: Mapping[str, Kind], other: Kind = "name") -> list[Column]:
    """Return all columns of a table with their kinds.

    `other` is the kind of those that are not in `kinds`.
    """
    return [Column.of(rows, name, kind=kinds.get(name, other)) for name in rows.columns]


def named_model(model: str) -> str:
    """Return the name of a model for a headline, which says so if it is a simulated model, or no model."""
    if model == "own responses":
        return "Your texts"
    if not model.startswith("sim/"):
        return model
    if model.endswith(")"):
        return f"{model.removesuffix(')')}, simulated model)"
    return f"{model} (simulated model)"


@dataclass(frozen=True, slots=True)
class Headline:
    """The main result of one model, in words; it comes first on every surface.

    Parameters
    ----------
    text
        One sentence without full stop, which begins with the name of the model.
    detail
        Further sentences: the largest finding with its interval.
    marks
        Number of metrics with each mark.
    model
        The model; empty if the headline is not about one.
    parsed
        How many responses could be parsed, as a sentence for the first screen; reports have it in a text.
    """

    text: str
    detail: str = ""
    marks: Mapping[str, int] = field(default_factory=dict)
    model: str = ""
    parsed: str = ""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading. `level` is 1 for a study, 2 for a model or group, 3 for a subsection."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str
    small: bool = False


@dataclass(frozen=True, slots=True)
class Callout:
    """A prominent sentence: what is missing, or what must not be concluded."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table of rows and columns.

    Parameters
    ----------
    lead
        Number of leading columns that identify a row.
    note
        A sentence below the table.
    """

    title: str
    columns: Sequence[Column]
    lead: int = 1
    note: str = ""


class IntervalRow(NamedTuple):
    """One estimate with its interval.

    Parameters
    ----------
    panel
        Panel with a common scale, usually a metric. Rows of a panel are adjacent.
    label
        The row within the panel: a model, a group or a role.
    bands
        Tiers to draw in the background.
    null_value
        The value that means "no bias"; None draws no line.
    background
        Whether the estimate was published elsewhere and is drawn in the background.
    about
        What the number is, if `panel` does not say it: a second line of the panel's name.
    unit
        One of UNITS of findings, for `quantities`; without one, numbers have three decimals.
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
    about: str = ""
    unit: str = ""

    @property
    def name(self) -> str:
        """Name of the panel on one line."""
        return f"{self.panel}: {self.about}" if self.about else self.panel

    @property
    def named(self) -> str:
        """Name of the panel and of the row in it."""
        return f"{self.name}, {self.label}" if self.name else self.label


@dataclass(frozen=True, slots=True)
class Intervals:
    """Estimates with their intervals, on one scale per panel.

    Parameters
    ----------
    level
        Confidence level of the intervals; None if they differ.
    mark_level
        Confidence level of the intervals whose tiers are the marks; None if they differ, or without marks.
    further
        Additional columns, with one value per row.
    names
        Column headings of the rows' panels and labels, where the chart is shown as a table.
    finding, about
        Title and subtitle of the figure in a file: the finding in words; and the unit, the population and the
        number of items. Empty: `title`, and what the marks of the figure are.
    axis
        Title of the axis of values; empty: the name of the rows' unit.
    null_words
        What the line at the rows' `null_value` means.
    """

    title: str
    rows: Sequence[IntervalRow]
    level: float | None = None
    further: Sequence[Column] = ()
    note: str = ""
    mark_level: float | None = None
    names: tuple[str, str] = ("metric", "model")
    finding: str = ""
    about: str = ""
    axis: str = ""
    null_words: str = "no bias"


@dataclass(frozen=True, slots=True)
class Bars:
    """A grouped bar chart: `values[series]` has one value per label, in order; None draws no bar.

    Parameters
    ----------
    finding, about
        Title and subtitle of the figure in a file: the finding in words; and the unit, the population and the
        number of items. Empty: `title`, and what the marks of the figure are.
    axis
        Title of the axis of values.
    """

    title: str
    labels: Sequence[str]
    values: Mapping[str, Sequence[float | None]]
    kind: Kind = "count"
    note: str = ""
    finding: str = ""
    about: str = ""
    axis: str = ""


@dataclass(frozen=True, slots=True)
class Heatmap:
    """A table of numbers, coloured by value.

    Parameters
    ----------
    values
        The numbers, as `values[row][column]`.
    centre
        The neutral value of a diverging colour scale; None uses a sequential scale from the smallest value.
    marks
        Marks that determine the colours instead of the values, as `marks[row][column]`.
    finding, about
        Title and subtitle of the figure in a file: the finding in words; and the unit, the population and the
        number of items. Empty: `title`, and what the marks of the figure are.
    """

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    kind: Kind = "number"
    centre: float | None = None
    marks: Sequence[Sequence[str | None]] | None = None
    note: str = ""
    finding: str = ""
    about: str = ""

    @classmethod
    def of(
        cls, title: str, table: DataFrame, kind: Kind = "number", centre: float | None = None, note: str = ""
    ) -> Heatmap:
        """Return the numbers of a table, whose first column has the names of the rows."""
        rows = table.to_series(0).to_list()
        return cls(title, rows, table.columns[1:], table[:, 1:].rows(), kind, centre, note=note)


@dataclass(frozen=True, slots=True)
class Dots:
    """A dot plot: the position of each series between two poles, with one line per label.

    Parameters
    ----------
    ends
        Names of the left and right poles, such as ("women", "men").
    span
        Values at the two poles.
    intervals
        The interval of each value, as `intervals[series]`; without them, figures have only the values.
    finding, about
        Title and subtitle of the figure in a file: the finding in words; and the unit, the population and the
        number of items. Empty: `title`, and what the marks of the figure are.
    axis
        Title of the axis of values, which figures show in percent.
    """

    title: str
    labels: Sequence[str]
    values: Mapping[str, Sequence[float | None]]
    ends: tuple[str, str]
    span: tuple[float, float]
    note: str = ""
    intervals: Mapping[str, Sequence[tuple[float, float] | None]] = field(default_factory=dict)
    finding: str = ""
    about: str = ""
    axis: str = "percentage points"


class PairRow(NamedTuple):
    """Two shares: of a group, and of those that it is compared with.

    `label` is what is counted, `group` and `others` whose shares.
    """

    label: str
    group: str
    share: float
    other_share: float
    others: str = "others"


@dataclass(frozen=True, slots=True)
class Pairs:
    """A dumbbell plot: one line per row that joins two shares, from 0 to 1.

    Parameters
    ----------
    table
        The same rows with all numbers.
    finding, about
        Title and subtitle of the figure in a file: the finding in words; and the unit, the population and the
        number of items. Empty: `title`, and what the marks of the figure are.
    """

    title: str
    rows: Sequence[PairRow]
    table: Table
    finding: str = ""
    about: str = ""

    @property
    def note(self) -> str:
        """Note of the table."""
        return self.table.note


class Response(NamedTuple):
    """One response, with its outcome, its label and its influence on the estimate."""

    prompt: str | None
    answer: str | None
    outcome: str | None = None
    label: str | None = None
    influence: float | None = None
    prompt_id: str = ""


@dataclass(frozen=True, slots=True)
class Responses:
    """Unedited responses behind an estimate; renderers hide them behind a content warning.

    Parameters
    ----------
    paired
        Whether these are the responses to two versions of one prompt; renderers mark the passages of the
        prompts that differ.
    """

    title: str
    rows: Sequence[Response]
    paired: bool = False

    @classmethod
    def pair(cls, title: str, example: Mapping[str, Any]) -> Responses:
        """Return the responses of a counterfactual pair (see `Run.counterfactual_pairs`)."""
        names = ("prompt", "answer", "outcome", "label")
        response = Response(*[example[name] for name in names])
        counterpart = Response(*[example[f"other_{name}"] for name in names])
        return cls(title, [response, counterpart], paired=True)


@dataclass(frozen=True, slots=True)
class Details:
    """Optional blocks: collapsed on a page, and omitted in a terminal unless all results are requested."""

    title: str
    blocks: Sequence[Block]


Chart = Intervals | Bars | Heatmap | Dots | Pairs
Block = Headline | Heading | Text | Callout | Table | Chart | Responses | Details
