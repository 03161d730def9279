"""Findings of decisions: rates or means by group, differences, impact ratios, intersections, matched sets."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import polars as pl
from polars import DataFrame, Int64, String, col

from tiltmeter import stats
from tiltmeter.comparisons import (
    SET,
    ComparedOutcome,
    Groups,
    Outcome,
    Row,
    flip_rates,
    impact_ratios,
    set_ranges,
    shrunk_means,
)
from tiltmeter.schema import FINDINGS, sql_where

SELECTION_RATE: Final = "selection_rate"
MEAN: Final = "mean"
"""Metric of the mean of an outcome that is a number."""
TOO_FEW: Final = "too few to compare"
"""Beginning of the note of a group with fewer than `stats.FEWEST_ITEMS` rows."""


class Intersection(NamedTuple):
    """The intersections of the groups of several attributes."""

    groups: Groups
    attributes: Sequence[Groups]

    def members(self, measures: DataFrame) -> dict[str, tuple[str, ...]]:
        """Return the groups of each intersection, one of each attribute."""
        names = [attribute.group.alias(str(place)) for place, attribute in enumerate(self.attributes)]
        rows = measures.select(self.groups.group.alias("group"), *names).drop_nulls().unique()
        return {group: tuple(of_attributes) for group, *of_attributes in rows.iter_rows()}


@dataclass(frozen=True)
class DecisionComparison:
    """The comparisons of one outcome between the groups of each attribute.

    Parameters
    ----------
    measures
        One row per decision: `item`, `outcome`, `label`, `value` and the factors of the design.
    attributes
        The attributes.
    intersections
        The intersections that are compared as well.
    is_rate
        Whether a decision is either of two.
    has_items
        Whether rows with the same item are a matched set.
    part
        Name of the part.
    level, seed
        Confidence level, and seed of the permutations.
    """

    measures: DataFrame
    attributes: Sequence[Groups]
    intersections: Sequence[Intersection]
    is_rate: bool
    has_items: bool
    part: str
    level: float
    seed: int

    def findings(self) -> DataFrame:
        """Return rows with columns of FINDINGS."""
        rows: list[Row] = []
        for groups in self.attributes:
            compared = self._compared(groups)
            rows += self._of_groups(compared)
            if self.has_items:
                rows += self._of_sets(compared)
        for intersection in self.intersections:
            compared = self._compared(intersection.groups)
            rows += self._of_groups(compared)
            if self.is_rate and len(compared.names) > 1:
                rows += shrunk_means(compared, intersection.members(self.measures))
        kinds = {name: FINDINGS[name] for row in rows for name in row if name in FINDINGS}
        table = DataFrame(rows, schema_overrides=kinds, infer_schema_length=None)
        of_part = pl.concat_str(sql_where(part=self.part), "evidence", separator=" AND ")
        return table.with_columns(evidence=of_part)

    def _of_groups(self, compared: ComparedOutcome) -> list[Row]:
        """Return the mean of each group, and the comparisons of the groups that are large enough.

        The difference of two groups, or the largest one of several, is a key finding with a test.
        """
        sizes = dict(zip(compared.names, compared.sample.items.tolist(), strict=True))
        large = [name for name in compared.names if sizes[name] >= stats.FEWEST_ITEMS]
        rows = []
        for row in compared.means():
            if row["group"] not in large:
                row["note"] = f"{TOO_FEW}: {sizes[row['group']]} of {stats.FEWEST_ITEMS} rows"
            rows.append(row)
        if len(large) < 2:
            return rows
        of_large = _only(compared, large)
        rows.append(of_large.overall() | {"key": True})
        if len(large) > 2:
            rows += of_large.differences()
        return rows + (impact_ratios(of_large) if self.is_rate else [])

    def _of_sets(self, compared: ComparedOutcome) -> list[Row]:
        """Return the flip rate, or the range, within matched sets."""
        if len(compared.names) < 2:
            return []
        if self.is_rate:
            return flip_rates(compared, "label")
        return set_ranges(compared, "value")

    def _compared(self, groups: Groups) -> ComparedOutcome:
        """Return the outcome of the decisions that are about a group of an attribute."""
        attempts = self._decisions(groups)
        metric = SELECTION_RATE if self.is_rate else MEAN
        outcome = Outcome(metric, col.value, is_rate=self.is_rate, evidence="outcome = 'answered'")
        return ComparedOutcome(outcome, attempts, groups, self.level, self.seed)

    def _decisions(self, groups: Groups) -> DataFrame:
        """Return the decisions with an outcome and a group; their matched set differs in this group only."""
        others = [other.group for other in self.attributes if other.attribute != groups.attribute]
        item = pl.struct("item", *others).rank("dense").cast(Int64)
        answered = self.measures.filter(outcome="answered")
        table = answered.select("item", "outcome", "label", "value", group=groups.group.cast(String))
        return table.with_columns(answered.select(item.alias(SET))).drop_nulls("group")


def _only(compared: ComparedOutcome, names: Sequence[str]) -> ComparedOutcome:
    """Return the same comparison of some of the groups."""
    attempts = compared.attempts.filter(col.group.is_in(list(names)))
    return dataclasses.replace(compared, attempts=attempts)
