"""Planning of a benchmark: the smallest range of group means that a size is likely to show."""

from __future__ import annotations

from math import ceil, sqrt
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl
from polars import DataFrame, col

from tiltmeter.benchmarks._baseline_texts import differ_in_names_only
from tiltmeter.benchmarks._definitions import definition_of
from tiltmeter.benchmarks._groups import with_groups
from tiltmeter.benchmarks._options import options_of
from tiltmeter.study import Settings

if TYPE_CHECKING:
    from tiltmeter.features import FeatureColumn

EVEN_RATE: Final = 0.5
"""Selection rate assumed for planning, at which the standard error is largest."""
BETWEEN_RESPONSES: Final = 0.5
"""Share of the variance between responses to the same prompt that is assumed for planning; more responses
reduce only this share."""
POWER: Final = 0.8
"""Probability with which the smallest detectable range is shown."""
WIDE: Final = 0.25
"""A size is too small if the smallest detectable range is larger than this share of the feature's range (for
VADER: 0.5)."""


class PlannedRange(NamedTuple):
    """The range of the group means of one condition, as planned."""

    metric: str
    error: float
    """Standard error of the difference of two groups, in units of the feature."""
    detectable: float
    """Smallest range that is shown with probability POWER, in units of the feature."""


class ConditionSize(NamedTuple):
    """Numbers of prompts of one condition."""

    generation: str
    least: int
    """Number of prompts of the group with the fewest."""
    total: int
    groups: int


def planned_ranges(design: DataFrame, settings: Settings, level: float) -> list[PlannedRange]:
    """Plan the range of the group means of the first feature in each condition, tested at this level.

    It is the key number of the headline. The assumptions are cautious. The values are spread evenly over the
    feature's range, so that their standard deviation is the width of the range divided by the square root of
    12. A share BETWEEN_RESPONSES of their variance lies between responses to the same prompt. Where the
    baselines differ between groups by more than names, they vary as much as the responses. Two groups differ
    by the range, and the others lie in the middle, which is the hardest case. The bias is the same in all
    conditions.

    Returns
    -------
    One entry per condition; none if the range of the feature is not known, as for functions of the user.

    References
    ----------
    Cohen (1988), "Statistical Power Analysis for the Behavioral Sciences", chapter 8: power of the test of
    several means, here with the noncentral chi-squared distribution.
    """
    column = _first_column(settings)
    if column is None:
        return []
    has_baselines = design["baseline"].count() > 0
    is_calibrated = definition_of(settings).calibrated_keys and column.calibrated and has_baselines
    options = options_of(settings)
    baselines_vary = is_calibrated and not differ_in_names_only(with_groups(design, options), options)
    sources = 2 if baselines_vary else 1
    responses = settings.repeats or 1
    share = BETWEEN_RESPONSES / responses + 1 - BETWEEN_RESPONSES
    variance = sources * share * _width(column) ** 2 / 12
    kind = ", calibrated" if is_calibrated else ""
    ranges = []
    for size in condition_sizes(design, settings):
        if size.groups > 1:
            metric = f"range of means of {column.name}{kind}, {size.generation}"
            squared_error = 2 * variance / size.least
            detectable = sqrt(squared_error * _noncentrality(size.groups - 1, level))
            ranges.append(PlannedRange(metric, sqrt(squared_error), detectable))
    return ranges


def size_warning(
    name: str, design: DataFrame, available: int, settings: Settings, level: float
) -> str | None:
    """Return a sentence if only ranges of more than WIDE of the feature's range can be shown.

    Parameters
    ----------
    name
        Name of the benchmark.
    design
        The planned prompts.
    available
        Number of items of the benchmark.
    settings, level
        Settings of the study, and level of the tests.
    """
    column = _first_column(settings)
    ranges = planned_ranges(design, settings, level)
    if column is None or not ranges:
        return None
    wide = WIDE * _width(column)
    smallest = max(planned.detectable for planned in ranges)
    if smallest <= wide:
        return None
    items = design["item"].n_unique()
    needed = ceil(items * (smallest / wide) ** 2)
    if needed <= available:
        advice = f"give --limit {needed} or more"
    elif items < available:
        advice = f"this benchmark has {available}; run it without --limit"
    else:
        advice = f"this benchmark has {available}"
    return (
        f"{name}: with {items} items, only ranges of the group means of {column.name} above {smallest:.2f} "
        f"are likely to be shown; a range of {wide:g} needs about {needed} items ({advice})"
    )


def condition_sizes(design: DataFrame, settings: Settings) -> list[ConditionSize]:
    """Count the prompts of each condition."""
    prompts = with_groups(design, options_of(settings))
    by_group = prompts.group_by("generation", "subject", maintain_order=True)
    counts = by_group.agg(prompts=col.prompt_id.n_unique())
    by_generation = counts.group_by("generation", maintain_order=True)
    sizes = by_generation.agg(least=col.prompts.min(), total=col.prompts.sum(), groups=pl.len())
    return [ConditionSize(*row) for row in sizes.iter_rows()]


def error_of_selection_rate(size: ConditionSize) -> float:
    """Compute the standard error of the smallest group's selection rate minus that of all others.

    Half of the answers reach the standard; repetitions of a prompt are not counted.
    """
    variance = EVEN_RATE * (1 - EVEN_RATE)
    prompts_of_others = size.total - size.least
    return sqrt(variance * (1 / size.least + 1 / prompts_of_others))


def _first_column(settings: Settings) -> FeatureColumn | None:
    """Return the first column of the first feature, if its range is known."""
    from tiltmeter.features import FEATURES

    feature = FEATURES.get(options_of(settings).features[0].partition("=")[0])
    if feature is None:
        return None
    column = feature.columns[0]
    return None if column.low is None or column.high is None else column


def _width(column: FeatureColumn) -> float:
    """Return the width of the range of a column with a known range."""
    assert column.low is not None
    assert column.high is not None
    return column.high - column.low


def _noncentrality(freedom: int, level: float) -> float:
    """Compute the noncentrality at which a chi-squared test is significant with probability POWER."""
    from scipy import optimize, stats

    critical = stats.chi2.isf(1 - level, freedom)

    def excess_power(noncentrality: float) -> float:
        return float(stats.ncx2.sf(critical, freedom, noncentrality)) - POWER

    return float(optimize.brentq(excess_power, 1e-6, 1e4))
