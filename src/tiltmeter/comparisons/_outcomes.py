"""One outcome of the attempts, compared between groups: the findings of all comparisons."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from polars import DataFrame, Expr

from tiltmeter import stats
from tiltmeter.comparisons._groups import Groups
from tiltmeter.comparisons._samples import items_by_group, names_of
from tiltmeter.readers.outcomes import outcome_counts

Row = dict[str, Any]
"""Columns of FINDINGS of one finding."""
HARM: Final = "outcome_disparity"
"""Harm of unequal service: people of different groups get different responses to the same request."""
MOVER: Final = "intervals of the rates combined (MOVER); exact or permutation test"
MOVER_OF_MEANS: Final = "intervals of the means combined (MOVER); permutation test"
WILSON: Final = "Wilson's interval with the effective number of independent attempts"
STUDENT: Final = "interval with Student's t"
REQUESTED: Final = ("ratio", "slope")
"""Comparisons that are made if they are asked for; differences always are."""


class Outcome(NamedTuple):
    """An outcome of an attempt, as a number."""

    metric: str
    """Name of the mean of a group, and beginning of the names of the comparisons."""
    value: Expr
    """Value of an attempt, 0 or 1 if it is a rate; null if the attempt does not count."""
    is_rate: bool
    evidence: str | None = None
    """SQL condition on the measures that the outcome is about; None: all attempts of the groups."""
    feature: str | None = None
    """Name of the feature of a text whose value it is."""

    @property
    def difference(self) -> str:
        """Name of the difference of two groups, or of a group and all others."""
        return f"{self.metric}_difference"

    @property
    def largest(self) -> str:
        """Name of the largest difference between several groups."""
        return f"{self.metric}_largest_difference"

    @property
    def ratio(self) -> str:
        """Name of the ratio of two groups, or of a group and all others."""
        return f"{self.metric}_ratio"

    @property
    def slope(self) -> str:
        """Name of the slope on the number of each group."""
        return f"{self.metric}_slope"


@dataclass(frozen=True)
class ComparedOutcome:
    """The comparisons of one outcome between groups.

    Parameters
    ----------
    outcome
        The outcome.
    attempts
        One row per attempt that counts: `item`, `group`, `outcome` and clusters (see `attempts_by_group`).
    groups
        The declaration of the groups.
    level
        Confidence level.
    seed
        Seed of the permutations.
    """

    outcome: Outcome
    attempts: DataFrame
    groups: Groups
    level: float
    seed: int

    @cached_property
    def names(self) -> list[str]:
        """The groups with attempts, in order; a reference comes last if there are two groups."""
        names = names_of(self.attempts, self.groups)
        if len(names) == 2 and names[0] == self.groups.reference:
            names.reverse()
        return names

    @cached_property
    def sample(self) -> stats.GroupSample:
        """The sums and numbers of attempts of each item and group."""
        items = items_by_group(self.attempts, self.names)
        value, is_rate = self.outcome.value, self.outcome.is_rate
        return items.sample(value, self.attempts, is_rate=is_rate, seed=self.seed)

    @cached_property
    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """The number of attempts with each outcome, by group."""
        of_groups = self.attempts.group_by("group").agg(outcome_counts())
        return {row["group"]: row for row in of_groups.iter_rows(named=True)}

    def means(self) -> list[Row]:
        """Return the mean of each group."""
        rows = []
        for place, name in enumerate(self.names):
            interval = self.sample.mean_interval(place, self.level)
            rows.append(
                {
                    **self.described(self.outcome.metric, [name]),
                    "group": name,
                    "estimate": float(self.sample.means[place]),
                    **_ends(interval.low, interval.high),
                    "unit": "share" if self.outcome.is_rate else "score",
                    "method": WILSON if self.outcome.is_rate else STUDENT,
                }
            )
        return rows

    def overall(self) -> Row:
        """Return the difference of two groups, or the largest difference of several, with its test."""
        highest, lowest = self.extremes
        if len(self.names) == 2:
            metric, compared = self.outcome.difference, self.names
            difference = self.sample.difference(0, 1, self.level)
        else:
            metric, compared = self.outcome.largest, [self.names[highest], self.names[lowest]]
            difference = self.sample.largest_difference(self.level)
        return {
            **self.described(metric, self.names),
            **self._difference(difference),
            "p": difference.p,
            "group": compared[0],
            "group_2": compared[1],
        }

    @cached_property
    def extremes(self) -> tuple[int, int]:
        """The places of the groups with the highest and the lowest mean."""
        return int(self.sample.means.argmax()), int(self.sample.means.argmin())

    def differences(self) -> list[Row]:
        """Return the difference of each group from the reference, or from all others; without tests."""
        rows = []
        for compared, sample in self._pairs():
            difference = sample.difference(0, 1, self.level)
            described = self.described(self.outcome.difference, self.names)
            rows.append({**described, **self._difference(difference), **compared})
        return rows

    def ratios(self) -> list[Row]:
        """Return the ratio of each group to the reference, or to all others; without tests.

        Of two groups without a reference, the first is divided by the second.
        """
        pairs = self._pairs()
        if len(self.names) == 2:
            compared = {"group": self.names[0], "group_2": self.names[1]}
            pairs = [(compared, self.sample)]
        rows = []
        for compared, sample in pairs:
            ratio = sample.mean_ratio(0, 1, self.level)
            if math.isnan(ratio.high):  # a ratio of values that may be negative has no meaning
                continue
            note = None if sample.means[1] else "no ratio: the rate of the second group is 0"
            rows.append(
                {
                    **self.described(self.outcome.ratio, self.names),
                    **_ends(ratio.low, ratio.high),
                    **compared,
                    "estimate": ratio.estimate,
                    "null_value": 1.0,
                    "unit": "quotient",
                    "note": note,
                    "method": "intervals of both means combined (MOVER-R)",
                }
            )
        return rows

    def slopes(self) -> list[Row]:
        """Return the slope of the outcome on the numbers that the groups are named by; none without them."""
        numbers = self.groups.numbers(self.names)
        if numbers is None or len(self.names) < 3:
            return []
        slope = self.sample.slope(numbers, self.level)
        described = self.described(self.outcome.slope, self.names)
        attribute = self.groups.attribute
        row = {**described, **self._difference(slope), "p": slope.p, "unit": "score"}
        return [{**row, "note": f"change with each unit of {attribute}, by least squares over the attempts"}]

    def requested(self, comparisons: Sequence[str]) -> list[Row]:
        """Return the comparisons that are asked for (see REQUESTED)."""
        rows = self.ratios() if "ratio" in comparisons else []
        return rows + (self.slopes() if "slope" in comparisons else [])

    def _pairs(self) -> list[tuple[Row, stats.GroupSample]]:
        """Return what is compared with what, as columns of a finding and a sample of two groups."""
        reference = self.groups.reference
        pairs: list[tuple[Row, stats.GroupSample]] = []
        for place, name in enumerate(self.names):
            if reference not in self.names:
                pairs.append(({"group": name}, self.sample.against_others(place)))
            elif name != reference:
                compared = {"group": name, "group_2": reference}
                pairs.append((compared, self.sample.of_groups([place, self.names.index(reference)])))
        return pairs

    def _difference(self, difference: stats.GroupDifference) -> Row:
        """Return a difference as columns of FINDINGS, without its test."""
        return {
            "estimate": difference.estimate,
            **_ends(difference.low, difference.high),
            "null_value": 0.0,
            "unit": "difference" if self.outcome.is_rate else "score",
            "method": MOVER if self.outcome.is_rate else MOVER_OF_MEANS,
        }

    def described(self, metric: str, names: Sequence[str]) -> Row:
        """Return the columns of a finding about some of the groups, with their counts of outcomes."""
        conditions = [] if self.outcome.evidence is None else [self.outcome.evidence]
        if isinstance(self.groups.column, str):
            quoted = ", ".join("'" + name.replace("'", "''") + "'" for name in names)
            conditions.append(f"{self.groups.column} IN ({quoted})")
        totals = {
            column: sum(self.counts[name][column] for name in names)
            for column in next(iter(self.counts.values()))
            if column != "group"
        }
        return {
            "metric": metric,
            "feature": self.outcome.feature,
            "attribute": self.groups.attribute,
            "harm": HARM,
            "evidence": " AND ".join(conditions) or "TRUE",
            **totals,
        }


def _ends(low: float, high: float) -> Row:
    """Return the ends of an interval; neither if the low one is infinite."""
    if math.isinf(low):
        return {"low": None, "high": None}
    return {"low": low, "high": high}


def compare_outcome(
    outcome: Outcome,
    attempts: DataFrame,
    groups: Groups,
    comparisons: Sequence[str],
    level: float,
    seed: int,
    *,
    has_estimates: bool = False,
) -> list[Row]:
    """Compare an outcome between groups.

    Parameters
    ----------
    outcome
        The outcome.
    attempts
        One row per attempt: `item`, `group`, `outcome`, clusters, and the columns of the outcome's value.
        Attempts whose value is null do not count.
    groups
        The declaration of the groups.
    comparisons
        Those of REQUESTED that are asked for.
    level
        Confidence level.
    seed
        Seed of the permutations.
    has_estimates
        Whether the method has findings of its own for the means and their overall difference.

    Returns
    -------
    Rows with columns of FINDINGS; none if fewer than two groups have a value. Without estimates of the
    method: the mean of each group, and the difference of two groups, or the largest difference of several. In
    any case the differences of several groups from the reference, or of each from all others, and the
    comparisons that are asked for. Only the overall difference and the slope have a p-value.
    """
    counted = attempts.filter(outcome.value.is_not_null())
    compared = ComparedOutcome(outcome, counted, groups, level, seed)
    if len(compared.names) < 2:
        return []
    rows = [] if has_estimates else [*compared.means(), compared.overall()]
    is_new = len(compared.names) > 2 or (has_estimates and groups.reference in compared.names)
    if is_new:
        rows += compared.differences()
    fewest = int(compared.sample.items.min())
    if fewest < stats.FEWEST_ITEMS:
        note = f"{fewest} items in a group; a comparison needs at least {stats.FEWEST_ITEMS} in each group"
        return [row | {"p": None, "note": note} if "p" in row else row for row in rows]
    return rows + compared.requested(comparisons)
