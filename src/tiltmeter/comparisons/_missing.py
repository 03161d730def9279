"""Missing responses compared between groups: refused, unreadable, empty and failed ones.

A model that refuses more requests about one group treats the groups differently, and the responses that
remain are a selection. Every study therefore compares its missing responses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from polars import DataFrame, Expr, col

from tiltmeter import stats
from tiltmeter.comparisons._groups import Groups
from tiltmeter.comparisons._samples import items_by_group, names_of
from tiltmeter.readers.outcomes import outcome_counts


class MissingMetric(NamedTuple):
    """The metrics of one kind of missing response."""

    outcome: str
    rate: str
    """Name of the rate of a group, and beginning of the names of the comparisons."""
    verb: str
    """What a sentence says that the model does: "refuses"."""

    @property
    def difference(self) -> str:
        """Name of the difference of two groups, or of a group and all others."""
        return f"{self.rate}_difference"

    @property
    def largest(self) -> str:
        """Name of the largest difference between several groups."""
        return f"{self.rate}_largest_difference"


MISSING_OUTCOMES: Final = (
    MissingMetric("refused", "refusal_rate", "refuses"),
    MissingMetric("unreadable", "unreadable_rate", "gives an unreadable answer to"),
    MissingMetric("empty", "empty_rate", "gives an empty answer to"),
    MissingMetric("failed", "failure_rate", "gives no response to"),
)
"""Kinds of missing responses, each compared by itself."""
HARM: Final = "outcome_disparity"
"""Harm of unequal service: a request about one group is not answered, and one about another is."""
LEAST_ATTAINABLE: Final = 0.05
"""An outcome is tested only if it could be significant at this level, given how often it occurs at all."""
EVERY_NAME: Final = tuple(
    name for metric in MISSING_OUTCOMES for name in (metric.rate, metric.difference, metric.largest)
)
"""Names of all metrics of missing responses."""


def is_missing_test() -> Expr:
    """Return whether a finding tests missing responses; it belongs to the family of the key tests."""
    names = [name for metric in MISSING_OUTCOMES for name in (metric.difference, metric.largest)]
    return col.metric.is_in(names) & col.p.is_not_null()


def is_about_missing() -> Expr:
    """Return whether a finding is about missing responses."""
    return col.metric.is_in(EVERY_NAME).fill_null(value=False)


def compare_missing(attempts: DataFrame, groups: Groups, level: float, seed: int) -> list[dict[str, Any]]:
    """Compare each kind of missing response between the groups.

    Parameters
    ----------
    attempts
        One row per attempt: `item`, `group`, `outcome` and clusters (see `attempts_by_group`).
    groups
        The declaration of the groups.
    level
        Confidence level.
    seed
        Seed of the permutations.

    Returns
    -------
    Rows with columns of FINDINGS; none if there are fewer than two groups, or if no response is missing. The
    rate of each group comes first, then the difference of two groups; of several groups, the largest
    difference and that of each group from the reference or from all others. Only one comparison of each
    outcome has a p-value. The others have none, because they are chosen from several.
    """
    names = names_of(attempts, groups)
    if len(names) < 2:
        return []
    counted = items_by_group(attempts, names)
    of_groups = attempts.group_by("group").agg(outcome_counts())
    counts = {row["group"]: row for row in of_groups.iter_rows(named=True)}
    rows: list[dict[str, Any]] = []
    for metric in MISSING_OUTCOMES:
        total = sum(counts[name][metric.outcome] for name in names)
        if not total:
            continue
        is_missing = col.outcome == metric.outcome
        sample = counted.sample(is_missing, attempts, is_rate=True, seed=seed)
        for place, name in enumerate(names):
            interval = sample.mean_interval(place, level)
            rows.append(
                {
                    **_described(metric.rate, metric.outcome, groups, counts, [name]),
                    "group": name,
                    "estimate": float(sample.means[place]),
                    "low": interval.low,
                    "high": interval.high,
                    "unit": "share",
                    "method": "Wilson's interval with the effective number of independent attempts",
                }
            )
        rows += _comparisons(metric, sample, names, groups, counts, level)
    return rows


def _comparisons(
    metric: MissingMetric,
    sample: stats.GroupSample,
    names: Sequence[str],
    groups: Groups,
    counts: Mapping[str, Mapping[str, int]],
    level: float,
) -> list[dict[str, Any]]:
    """Return the comparisons of one outcome between all groups."""
    why_untested = _too_few(sample, metric.outcome, names, groups)
    highest, lowest = int(sample.means.argmax()), int(sample.means.argmin())
    ends = [(groups.words(names[place]), float(sample.means[place])) for place in (highest, lowest)]
    note = why_untested or difference_in_words(metric.verb, *ends)
    if len(names) == 2:
        name, compared = metric.difference, (names[0], names[1])
        difference = sample.difference(0, 1, level)
    else:
        name, compared = metric.largest, (names[highest], names[lowest])
        difference = sample.largest_difference(level)
    row = {
        **_described(name, metric.outcome, groups, counts, names),
        **_numbers(difference, note),
        "group": compared[0],
        "group_2": compared[1],
    }
    if why_untested:
        row["p"] = None
    if len(names) == 2:
        return [row]
    return [row, *_of_each_group(metric, sample, names, groups, counts, level)]


def _of_each_group(
    metric: MissingMetric,
    sample: stats.GroupSample,
    names: Sequence[str],
    groups: Groups,
    counts: Mapping[str, Mapping[str, int]],
    level: float,
) -> list[dict[str, Any]]:
    """Return the difference of each of several groups from the reference, or from all others together."""
    described = _described(metric.difference, metric.outcome, groups, counts, names)
    rows = []
    for place, name in enumerate(names):
        if groups.reference is None:
            against = sample.against_others(place).difference(0, 1, level)
            compared = {"group": name}
        elif name != groups.reference:
            against = sample.difference(place, names.index(groups.reference), level)
            compared = {"group": name, "group_2": groups.reference}
        else:
            continue
        numbers = _numbers(against._replace(p=math.nan), None)
        rows.append({**described, **numbers, **compared})
    return rows


def _numbers(difference: stats.GroupDifference, note: str | None) -> dict[str, Any]:
    """Return a difference as columns of FINDINGS."""
    return {
        "estimate": difference.estimate,
        "low": difference.low,
        "high": difference.high,
        "p": difference.p,
        "null_value": 0.0,
        "unit": "difference",
        "note": note,
        "method": "intervals of the rates combined (MOVER); exact or permutation test",
    }


def _described(
    metric: str,
    outcome: str,
    groups: Groups,
    counts: Mapping[str, Mapping[str, int]],
    names: Sequence[str],
) -> dict[str, Any]:
    """Return the columns of a finding about some of the groups, with their counts of outcomes."""
    totals = {
        column: sum(counts[name][column] for name in names)
        for column in next(iter(counts.values()))
        if column != "group"
    }
    evidence = f"outcome = '{outcome}'"
    if isinstance(groups.column, str):
        quoted = ", ".join("'" + name.replace("'", "''") + "'" for name in names)
        evidence += f" AND {groups.column} IN ({quoted})"
    return {
        "metric": metric,
        "attribute": groups.attribute,
        "harm": HARM,
        "evidence": evidence,
        **totals,
    }


def difference_in_words(verb: str, more: tuple[str, float], less: tuple[str, float]) -> str:
    """Return a difference in words: "refuses 50% of requests about women, 0% of those about men".

    Parameters
    ----------
    verb
        What the model does.
    more, less
        Name and rate of the groups with the highest and the lowest rate.
    """
    (highest, high), (lowest, low) = more, less
    return f"{verb} {high:.0%} of requests about {highest}, {low:.0%} of those about {lowest}"


def _too_few(sample: stats.GroupSample, outcome: str, names: Sequence[str], groups: Groups) -> str | None:
    """Return why a difference is not tested, or None if it is.

    A group needs FEWEST_ITEMS items. An outcome that is too rare to be significant, however its cases are
    distributed, is not tested: it would only make the other tests of the family weaker.

    References
    ----------
    Tarone (1990), "A modified Bonferroni method for discrete data".
    """
    fewest = int(sample.items.argmin())
    items = int(sample.items[fewest])
    if items < stats.FEWEST_ITEMS:
        name = groups.words(names[fewest])
        return f"{name}: {items} items; a comparison needs at least {stats.FEWEST_ITEMS} in each group"
    sizes = sample.sizes.sum(axis=0)
    cases = float(sample.sums.sum())
    rarer = min(cases, float(sizes.sum()) - cases)
    smallest_share = float(sizes.min() / sizes.sum())
    if len(names) * smallest_share**rarer > LEAST_ATTAINABLE:
        return f"{outcome} too rarely for a test"
    return None
