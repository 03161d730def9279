"""Missing responses compared between groups: refused, unreadable, empty and failed ones.

A model that refuses more requests about one group treats the groups differently, and the responses that
remain are a selection. Every study therefore compares its missing responses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from polars import DataFrame, Expr, col

from tiltmeter import stats
from tiltmeter.comparisons._groups import Groups
from tiltmeter.comparisons._outcomes import ComparedOutcome, Outcome, Row


class MissingMetric(NamedTuple):
    """The metrics of one kind of missing response."""

    outcome: str
    rate: str
    """Name of the rate of a group, and beginning of the names of the comparisons."""
    verb: str
    """What a sentence says that the model does: "refuses"."""

    def as_outcome(self) -> Outcome:
        """Return it as an outcome of all attempts."""
        is_missing = col.outcome == self.outcome
        return Outcome(self.rate, is_missing, is_rate=True, evidence=f"outcome = '{self.outcome}'")


MISSING_OUTCOMES: Final = (
    MissingMetric("refused", "refusal_rate", "refuses"),
    MissingMetric("unreadable", "unreadable_rate", "gives an unreadable answer to"),
    MissingMetric("empty", "empty_rate", "gives an empty answer to"),
    MissingMetric("failed", "failure_rate", "gives no response to"),
)
"""Kinds of missing responses, each compared by itself."""
LEAST_ATTAINABLE: Final = 0.05
"""An outcome is tested only if it could be significant at this level, given how often it occurs at all."""
TESTED: Final = tuple(
    name
    for outcome in (metric.as_outcome() for metric in MISSING_OUTCOMES)
    for name in (outcome.difference, outcome.largest)
)
"""Names of the metrics that test missing responses."""
EVERY_NAME: Final = TESTED + tuple(
    name
    for outcome in (metric.as_outcome() for metric in MISSING_OUTCOMES)
    for name in (outcome.metric, outcome.ratio, outcome.slope)
)
"""Names of all metrics of missing responses."""


def is_missing_test() -> Expr:
    """Return whether a finding tests missing responses; it belongs to the family of the key tests."""
    return col.metric.is_in(TESTED) & col.p.is_not_null()


def tested_metric(metric: str) -> MissingMetric:
    """Return the kind of missing response that a metric tests (one of TESTED)."""
    return MISSING_OUTCOMES[TESTED.index(metric) // 2]


def is_about_missing() -> Expr:
    """Return whether a finding is about missing responses."""
    return col.metric.is_in(EVERY_NAME).fill_null(value=False)


def compare_missing(
    attempts: DataFrame, groups: Groups, comparisons: Sequence[str], level: float, seed: int
) -> list[Row]:
    """Compare each kind of missing response between the groups.

    Parameters
    ----------
    attempts
        One row per attempt: `item`, `group`, `outcome` and clusters (see `attempts_by_group`).
    groups
        The declaration of the groups.
    comparisons
        Comparisons that are asked for besides differences (see `REQUESTED`).
    level
        Confidence level.
    seed
        Seed of the permutations.

    Returns
    -------
    Rows with columns of FINDINGS; none if there are fewer than two groups, or if no response is missing. The
    rate of each group comes first, then the difference of two groups; of several groups, the largest
    difference and that of each group from the reference or from all others. Only one of these comparisons of
    each outcome has a p-value. The others have none, because they are chosen from several.
    """
    rows: list[Row] = []
    occurring = attempts["outcome"].unique().to_list()
    for metric in MISSING_OUTCOMES:
        outcome = metric.as_outcome()
        compared = ComparedOutcome(outcome, attempts, groups, level, seed)
        if metric.outcome not in occurring or len(compared.names) < 2:
            continue
        overall = compared.overall()
        why_untested = _too_few(compared, metric.outcome)
        if why_untested:
            overall["p"] = None
        rows += [*compared.means(), overall | {"note": why_untested or _in_words(compared, metric)}]
        if len(compared.names) > 2:
            rows += compared.differences()
        rows += compared.requested(comparisons)
    return rows


def _in_words(compared: ComparedOutcome, metric: MissingMetric) -> str:
    """Return the difference of the groups with the highest and the lowest rate in words."""
    highest, lowest = compared.extremes
    means, names = compared.sample.means, compared.names
    more = compared.groups.words(names[highest]), float(means[highest])
    less = compared.groups.words(names[lowest]), float(means[lowest])
    groups = compared.groups
    return difference_in_words(groups.verbs.get(metric.outcome, metric.verb), more, less, groups.about)


def difference_in_words(
    verb: str, more: tuple[str, float], less: tuple[str, float], about: str = "requests about"
) -> str:
    """Return a difference in words: "refuses 50% of requests about women, 0% of those about men".

    Parameters
    ----------
    verb
        What the model does.
    more, less
        Name and rate of the groups with the highest and the lowest rate.
    about
        What attempts about a group are called.
    """
    (highest, high), (lowest, low) = more, less
    preposition = about.rpartition(" ")[2]
    return f"{verb} {high:.0%} of {about} {highest}, {low:.0%} of those {preposition} {lowest}"


def _too_few(compared: ComparedOutcome, outcome: str) -> str | None:
    """Return why a difference is not tested, or None if it is.

    A group needs FEWEST_ITEMS items. An outcome that is too rare to be significant, however its cases are
    distributed, is not tested: it would only make the other tests of the family weaker.

    References
    ----------
    Tarone (1990), "A modified Bonferroni method for discrete data".
    """
    sample, names = compared.sample, compared.names
    fewest = int(sample.items.argmin())
    items = int(sample.items[fewest])
    if items < stats.FEWEST_ITEMS:
        name = compared.groups.words(names[fewest])
        return f"{name}: {items} items; a comparison needs at least {stats.FEWEST_ITEMS} in each group"
    sizes = sample.sizes.sum(axis=0)
    cases = float(sample.sums.sum())
    rarer = min(cases, float(sizes.sum()) - cases)
    smallest_share = float(sizes.min() / sizes.sum())
    if len(names) * smallest_share**rarer > LEAST_ATTAINABLE:
        return f"{outcome} too rarely for a test"
    return None
