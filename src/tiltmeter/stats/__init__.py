"""Numbers to estimates: resampling, intervals, tests and lines, in NumPy and SciPy; knows nothing of text or models."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiltmeter.stats.agreement import Agreement, decision_agreement, decision_outcomes, wilson_interval
    from tiltmeter.stats.bootstrap import replayed_totals, resampled_totals
    from tiltmeter.stats.clustering import BCubed, VMeasure, b_cubed, v_measure
    from tiltmeter.stats.contingency import (
        Difference,
        exact_greater,
        greater,
        independence_p,
        rate_difference,
        stratified_greater,
        stratified_rate_difference,
        z_greater,
    )
    from tiltmeter.stats.difference import (
        PairedDifference,
        exchange_difference,
        exchanged_totals,
        independent_difference,
        paired_difference,
    )
    from tiltmeter.stats.disparity import lifted_interval
    from tiltmeter.stats.dixon import DixonTest, critical_value, dixon_test
    from tiltmeter.stats.exact import exact_independence_p
    from tiltmeter.stats.intervals import (
        Interval,
        MaximumEstimate,
        absolute_interval,
        is_constant,
        maximum_interval,
        normal_interval,
        percentile_interval,
        rare_event_interval,
    )
    from tiltmeter.stats.lines import box_line_slope, lsq_linear_slope
    from tiltmeter.stats.log_odds import LogOdds, log_odds
    from tiltmeter.stats.multiple import benjamini_hochberg
    from tiltmeter.stats.permutation import permuted_independence_p, swapped_totals
    from tiltmeter.stats.power import detectable, half_width
    from tiltmeter.stats.ratios import nan_mean, pearson_from_sums, ratio
    from tiltmeter.stats.repeats import Repeats, interval_columns, interval_repeats, nominal_columns, nominal_repeats

__all__ = [
    "Agreement",
    "BCubed",
    "Difference",
    "DixonTest",
    "Interval",
    "LogOdds",
    "MaximumEstimate",
    "PairedDifference",
    "Repeats",
    "VMeasure",
    "absolute_interval",
    "b_cubed",
    "benjamini_hochberg",
    "box_line_slope",
    "critical_value",
    "decision_agreement",
    "decision_outcomes",
    "detectable",
    "dixon_test",
    "exact_greater",
    "exact_independence_p",
    "exchange_difference",
    "exchanged_totals",
    "greater",
    "half_width",
    "independence_p",
    "independent_difference",
    "interval_columns",
    "interval_repeats",
    "is_constant",
    "lifted_interval",
    "log_odds",
    "lsq_linear_slope",
    "maximum_interval",
    "nan_mean",
    "nominal_columns",
    "nominal_repeats",
    "normal_interval",
    "paired_difference",
    "pearson_from_sums",
    "percentile_interval",
    "permuted_independence_p",
    "rare_event_interval",
    "rate_difference",
    "ratio",
    "replayed_totals",
    "resampled_totals",
    "stratified_greater",
    "stratified_rate_difference",
    "swapped_totals",
    "v_measure",
    "wilson_interval",
    "z_greater",
]

_HOMES = {
    "agreement": ("Agreement", "decision_agreement", "decision_outcomes", "wilson_interval"),
    "bootstrap": ("replayed_totals", "resampled_totals"),
    "clustering": ("BCubed", "VMeasure", "b_cubed", "v_measure"),
    "contingency": (
        "Difference",
        "exact_greater",
        "greater",
        "independence_p",
        "rate_difference",
        "stratified_greater",
        "stratified_rate_difference",
        "z_greater",
    ),
    "difference": ("PairedDifference", "exchange_difference", "exchanged_totals", "independent_difference", "paired_difference"),
    "disparity": ("lifted_interval",),
    "dixon": ("DixonTest", "critical_value", "dixon_test"),
    "exact": ("exact_independence_p",),
    "intervals": (
        "Interval",
        "MaximumEstimate",
        "absolute_interval",
        "is_constant",
        "maximum_interval",
        "normal_interval",
        "percentile_interval",
        "rare_event_interval",
    ),
    "lines": ("box_line_slope", "lsq_linear_slope"),
    "log_odds": ("LogOdds", "log_odds"),
    "multiple": ("benjamini_hochberg",),
    "permutation": ("permuted_independence_p", "swapped_totals"),
    "power": ("detectable", "half_width"),
    "ratios": ("nan_mean", "pearson_from_sums", "ratio"),
    "repeats": ("Repeats", "interval_columns", "interval_repeats", "nominal_columns", "nominal_repeats"),
}


def __getattr__(name: str) -> Any:
    # Lazily: NumPy takes a tenth of a second to import, and listing studies must not pay for it.
    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
