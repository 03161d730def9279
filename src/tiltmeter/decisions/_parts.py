"""The part of a study of decisions: one outcome, compared between the groups of each attribute."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import polars as pl
from polars import DataFrame, Expr, Int32, String, col, lit, when

from tiltmeter.comparisons import ComparisonOptions, Groups
from tiltmeter.datasets import Library
from tiltmeter.decisions._findings import DecisionComparison, Intersection
from tiltmeter.decisions._outcome_values import OutcomeKind
from tiltmeter.schema import DESIGN, MEASURES, RESPONSES, conform
from tiltmeter.study import NO_TOOLS, MeasuredPart, Settings, Tools, as_findings

OUTCOME_DISPARITY: Final = "outcome_disparity"
SELECTED: Final = "selected"
NOT_SELECTED: Final = "not selected"
"""Labels of a decision that is either of two."""
PLACE: Final = "place of the row"
"""Column with the file and the number of a row."""
_RESERVED: Final = {*DESIGN, *RESPONSES, *MEASURES, "value", "set"}
"""Names that columns of attributes cannot have in the design."""


@dataclass(frozen=True, slots=True)
class DecisionRows:
    """The rows of a table of decisions.

    Parameters
    ----------
    table
        One row per decision: the columns of the attributes as text, null if the group is unknown; `item`,
        null throughout without matched sets; and `model`.
    attributes
        Names of the attributes.
    """

    table: DataFrame
    attributes: Sequence[str]

    @property
    def has_items(self) -> bool:
        """Whether rows belong to matched sets."""
        return self.table["item"].null_count() < self.table.height


class Decisions(MeasuredPart):
    """One outcome of decisions that were made.

    Parameters
    ----------
    outcome
        Name of its column.
    kind
        How its values are read.
    rows
        The decisions, in the order of their responses.
    label
        What the outcome is called; the column's name by default.
    """

    study = "decisions"
    harms = (OUTCOME_DISPARITY,)

    def __init__(self, outcome: str, kind: OutcomeKind, rows: DecisionRows, label: str) -> None:
        self.name = outcome
        self.kind = kind
        self.label = label
        self._rows = rows
        self.labels = (SELECTED, NOT_SELECTED) if kind.is_rate else ()
        self.title = f"{label}, by {' and '.join(rows.attributes)}"

    def design(self, library: Library, settings: Settings) -> DataFrame:
        """See Part.design: one row per decision, with its groups in place of a prompt."""
        table = self._rows.table
        items = col.item.rank("dense") - 1 if self._rows.has_items else pl.int_range(pl.len())
        numbered = table.with_columns(item=items.cast(Int32)).with_row_index("row")
        rows = numbered.with_columns(
            prompt_id=pl.format(f"{self.name}/{{}}", "row"),
            part=lit(self.name),
            prompt_index=pl.int_range(pl.len()).over("item"),
            wording=lit("own"),
            prompt=self._described(),
            repetitions=lit(1),
            first_sample=lit(0),
        )
        factors = [col(name).alias(factor_of(name)) for name in self._rows.attributes]
        crossed = [
            pl.concat_str([col(first), col(second)], separator=", ").alias(factor_of(f"{first},{second}"))
            for first, second in combinations(self._rows.attributes, 2)
        ]
        return conform(rows, DESIGN).hstack(rows.select(*factors, *crossed))

    def _described(self) -> Expr:
        """Return what a row is about, in place of its prompt: "applicants.csv, row 3: sex female"."""
        groups = [pl.format(f"{name} {{}}", col(name).fill_null("unknown")) for name in self._rows.attributes]
        return pl.concat_str([col(PLACE), pl.concat_str(groups, separator=", ")], separator=": ")

    def _intersections(self) -> list[Intersection]:
        """Return the intersections of each pair of attributes."""
        return [
            Intersection(
                Groups(f"{first},{second}", factor_of(f"{first},{second}")),
                [Groups(first, factor_of(first)), Groups(second, factor_of(second))],
            )
            for first, second in combinations(self._rows.attributes, 2)
        ]

    def compared_groups(self, settings: Settings) -> Sequence[Groups]:
        """See Part.compared_groups: those of each attribute."""
        reference = ComparisonOptions.of(settings.params).reference
        return [
            Groups(name, factor_of(name), reference=reference, about="rows of", verbs=MISSING_WORDS)
            for name in self._rows.attributes
        ]

    def measure(self, answers: DataFrame, settings: Settings, tools: Tools = NO_TOOLS) -> DataFrame:
        """See MeasuredPart.measure: `value` is the number of the decision; an empty cell has none."""
        value = self.kind.numbers(col.answer)
        is_failed = col.status != "ok"
        has_value = ~is_failed & value.is_not_null()
        outcome = when(is_failed).then(lit("failed")).when(value.is_null()).then(lit("empty"))
        if self.kind.is_rate:
            label = when(value == 1).then(lit(SELECTED)).otherwise(lit(NOT_SELECTED))
        else:
            label = value.cast(String)
        return answers.select(
            outcome=outcome.otherwise(lit("answered")),
            label=when(has_value).then(label),
            value=when(has_value).then(value),
        )

    def analyse(self, measures: DataFrame, settings: Settings, tools: Tools = NO_TOOLS) -> DataFrame:
        """See MeasuredPart.analyse."""
        comparison = DecisionComparison(
            measures=measures,
            attributes=self.compared_groups(settings),
            intersections=self._intersections(),
            is_rate=self.kind.is_rate,
            has_items=self._rows.has_items,
            part=self.name,
            level=settings.level,
            seed=settings.seed,
        )
        return as_findings(comparison.findings(), self, settings, settings.definition)

    def metric_in_words(self, metric: str) -> str:
        """See Part.metric_in_words."""
        return f"{self.label}, {super().metric_in_words(metric)}"


def part_of(outcome: str, kind: OutcomeKind, rows: DecisionRows, *, is_only: bool) -> Decisions:
    """Return the part of an outcome.

    It is called as its column, or if the user named the value that counts as selected, as this value.

    Parameters
    ----------
    is_only
        Whether the study has no other outcome.
    """
    label = outcome
    if kind.selected is not None:
        label = kind.selected if is_only else f"{outcome} = {kind.selected}"
    return Decisions(part_name(outcome), kind, rows, label)


def part_name(outcome: str) -> str:
    """Return the name of the part of an outcome, which can be used in commands.

    Examples
    --------
    >>> part_name("Hired after interview?")
    'hired_after_interview'
    """
    return re.sub(r"[^\w.]+", "_", outcome).strip("_").lower() or "outcome"


def parts_of_design(design: DataFrame, columns: Mapping[str, Any]) -> list[Decisions]:
    """Return the parts of a stored design.

    Parameters
    ----------
    design
        The design.
    columns
        The roles of the user's columns: `outcome`, `group`, and optionally `item`, `label` and `numbers`, the
        outcomes that are numbers.
    """
    attributes = list(columns["group"])
    labels = columns.get("label") or [None]
    selected = None if labels[0] is None else str(labels[0]).lower()
    item = col.item.cast(String) if columns.get("item") else lit(None, String)
    groups = [col(factor_of(name)).alias(name) for name in attributes]
    parts = []
    for outcome in columns["outcome"]:
        is_rate = outcome not in columns.get("numbers", ())
        of_part = design.filter(part=part_name(outcome))
        if of_part.height:
            rows = DecisionRows(of_part.select(*groups, item.alias("item")), attributes)
            kind = OutcomeKind(is_rate, selected if is_rate else None)
            parts.append(part_of(outcome, kind, rows, is_only=len(columns["outcome"]) == 1))
    return parts


MISSING_WORDS: Final = {"empty": "has no outcome for", "failed": "has no outcome for"}
"""What a sentence says of decisions that are missing."""


def factor_of(attribute: str) -> str:
    """Return the name of the column of the design that has the groups of an attribute.

    It can be used in SQL conditions without quotes.

    Examples
    --------
    >>> factor_of("Applicant sex"), factor_of("model")
    ('applicant_sex', 'model_')
    """
    name = re.sub(r"\W+", "_", attribute).strip("_").lower() or "attribute"
    if name[0].isdigit():
        name = f"_{name}"
    return f"{name}_" if name in _RESERVED else name
