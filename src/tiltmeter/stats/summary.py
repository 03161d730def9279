"""Summary statistics of one feature in one group, for many features and many resamples at once.

Every statistic is one entry of `STATISTICS`: a function of a `Sample`, which holds (..., n) values and computes what several statistics
share (sums, moments, the sorted values) once. Missing values are NaN. The leading axes are whatever the caller resamples over.

Two definitions of each: the default, and `original`, which is what the package `sagedbias` computes where the two differ:

                          default                          original
    variance, sd          divisor n - 1                    divisor n
    skewness, kurtosis    adjusted (G1, G2)                biased (g1, g2)
    kl                    ten bins over the common range   each side over its own range
    precision             of pairs with both values        a missing baseline counts as not within
    standard              missing values are ignored       one missing value and nothing is selected
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiltmeter.stats._ranks import EPSILON, kendall, pearson, ranks

__all__ = ["STATISTICS", "Options", "Sample", "Statistic", "sorted_quantile", "standards", "summarise"]

Floats = NDArray[np.float64]
SMALLEST_SHARE = 1e-10  # stands for the share of an empty bin in the Kullback-Leibler divergence
STANDARDS = ("mean", "median", "mode", "quantile", "percentile", "fixed")
METHODS = ("larger", "smaller", "within-range", "within-percentage")


@dataclass(frozen=True)
class Options:
    """What the statistics leave open.

    Attributes:
        width: Bin width of the mode; the first bin begins at the least value of the group.
        quantiles: Both ends of the quantile range.
        percentiles: Both ends of the percentile range.
        bins: Bins of the Kullback-Leibler divergence.
        tolerance: How near the baseline counts as equal, for precision.
        standard: What a value is held against for the selection rate: "mean", "median", "mode=WIDTH", "quantile=Q", "percentile=P" over
            all groups together, or "fixed=VALUE".
        method: "larger" (at least the standard), "smaller" (at most), "within-range=R" or "within-percentage=SHARE" of it.

    Raises:
        ValueError: an option cannot be used; the message names it and what it may be.
    """

    width: float = 0.5
    quantiles: tuple[float, float] = (0.25, 0.75)
    percentiles: tuple[float, float] = (25.0, 75.0)
    bins: int = 10
    tolerance: float = 0.1
    standard: str = "mean"
    method: str = "larger"

    def __post_init__(self) -> None:
        if not self.width > 0:
            raise ValueError(f"the bin width of the mode must be above 0, not {self.width}")
        if self.bins < 1:
            raise ValueError(f"the divergence needs at least one bin, not {self.bins}")
        if not 0 <= self.quantiles[0] <= self.quantiles[1] <= 1:
            raise ValueError(f"the quantile range must lie within 0 and 1, not {self.quantiles}")
        if not 0 <= self.percentiles[0] <= self.percentiles[1] <= 100:
            raise ValueError(f"the percentile range must lie within 0 and 100, not {self.percentiles}")
        _parsed(self.standard, STANDARDS, "standard", optional=("mean", "median", "mode"))
        _parsed(self.method, METHODS, "method", optional=("larger", "smaller"))


def _parsed(given: str, known: Sequence[str], option: str, optional: Sequence[str]) -> tuple[str, float | None]:
    name, _, value = given.partition("=")
    if name not in known:
        raise ValueError(f"the {option} of the selection rate is one of {', '.join(known)}, not {given!r}")
    if not value and name in optional:
        return name, None
    try:
        return name, float(value)
    except ValueError:
        raise ValueError(f"the {option} {name!r} of the selection rate needs a number, such as {name}=0.5, not {given!r}") from None


class Sample:
    """The values of one group in one or more resamples, and what several statistics need of them."""

    def __init__(self, values: Floats, baseline: Floats | None, standard: Floats, options: Options, original: bool) -> None:
        """`values` (C, ..., n), `baseline` the same or None; NaN is missing. `standard` broadcasts against `values`."""
        self.values, self.baseline, self.standard, self.options, self.original = values, baseline, standard, options, original
        self._distinct: tuple[Floats, NDArray[np.intp]] | None = None

    def paired_with(self, baselines: Floats, of: NDArray[np.intp], paired: NDArray[np.bool_]) -> Sample:
        """Return the sample of the `paired` columns (C), each with the row `of` it in `baselines` (B, ..., n)."""
        rows = of[paired]
        standard = self.standard[paired] if len(self.standard) == len(paired) else self.standard
        sample = Sample(self.values[paired], baselines[rows], standard, self.options, self.original)
        sample._distinct = baselines, rows
        return sample

    @cached_property
    def present(self) -> NDArray[np.bool_]:
        """Which values are not missing."""
        return ~np.isnan(self.values)

    @cached_property
    def complete(self) -> bool:
        """Whether none is missing."""
        return bool(self.present.all())

    @cached_property
    def count(self) -> Floats:
        """How many values there are."""
        if self.complete:
            return np.full(self.values.shape[:-1], float(self.values.shape[-1]))
        found: Floats = self.present.sum(axis=-1).astype(np.float64)
        return found

    @cached_property
    def mean(self) -> Floats:
        """Their mean."""
        filled = self.values if self.complete else np.where(self.present, self.values, 0.0)
        found: Floats = filled.sum(axis=-1) / self.count
        return found

    @cached_property
    def deviations(self) -> Floats:
        """Deviations from the mean, 0 where missing."""
        away = self.values - self.mean[..., None]
        return away if self.complete else np.where(self.present, away, 0.0)

    @cached_property
    def squares(self) -> Floats:
        """Squared deviations."""
        return self.deviations * self.deviations

    @cached_property
    def spread(self) -> Floats:
        """Mean squared deviation."""
        found: Floats = self.squares.sum(axis=-1) / self.count
        return found

    @cached_property
    def constant(self) -> NDArray[np.bool_]:
        """Whether the deviations are but rounding."""
        return self.spread <= (EPSILON * self.mean) ** 2

    @cached_property
    def ordered(self) -> Floats:
        """The values sorted, what is missing last."""
        return np.sort(self.values, axis=-1)

    @cached_property
    def pairs(self) -> tuple[Floats, Floats]:
        """Values and baseline, both missing where either is."""
        assert self.baseline is not None
        either = np.isnan(self.values + self.baseline)
        if not either.any():
            return self.values, self.baseline
        return np.where(either, np.nan, self.values), np.where(either, np.nan, self.baseline)

    @cached_property
    def pair_ranks(self) -> tuple[Floats, Floats]:
        """Ranks of `pairs`; a baseline that many columns share is ranked once."""
        x, y = self.pairs
        if self._distinct is None or y is not self.baseline:
            return ranks(x), ranks(y)
        baselines, rows = self._distinct
        return ranks(x), ranks(baselines)[rows]

    def quantile(self, share: float) -> Floats:
        """Return a quantile of the values (linear interpolation)."""
        return sorted_quantile(self.ordered, self.count, share)


def sorted_quantile(ordered: Floats, count: Floats, share: float) -> Floats:
    """Return a quantile along the last axis of sorted values of which the first `count` are present (linear interpolation, type 7)."""
    last = np.maximum(count - 1.0, 0.0)
    place = last * share
    low = np.floor(place).astype(np.intp)
    high = np.minimum(low + 1, last.astype(np.intp))
    below = np.take_along_axis(ordered, low[..., None], axis=-1)[..., 0]
    above = np.take_along_axis(ordered, high[..., None], axis=-1)[..., 0]
    found: Floats = below + (above - below) * (place - low)
    return found


def _median(sample: Sample) -> Floats:
    return sample.quantile(0.5)


def _mode(sample: Sample) -> Floats:
    return _fullest_bin(sample.ordered, sample.options.width)


def _fullest_bin(ordered: Floats, width: float) -> Floats:
    """Middle of the fullest bin (the lowest of equals); bins begin at the least value, edges in it belong to the upper bin."""
    start = ordered[..., :1]
    step = (start + width) - start  # the step that np.arange takes, so that values on an edge fall in the same bin
    bins = np.floor((ordered - start) / step)
    bins += start + (bins + 1.0) * step <= ordered
    bins -= start + bins * step > ordered
    places = np.arange(ordered.shape[-1], dtype=np.int32)
    new = np.ones(ordered.shape, dtype=bool)
    np.not_equal(bins[..., 1:], bins[..., :-1], out=new[..., 1:])
    length = places - np.maximum.accumulate(np.where(new, places, np.int32(0)), axis=-1)
    # NaN equals nothing, so that what is missing makes runs of length 0 behind all others.
    fullest = np.take_along_axis(bins, np.argmax(length, axis=-1)[..., None], axis=-1)[..., 0]
    found: Floats = start[..., 0] + fullest * step[..., 0] + width / 2.0
    return found


def _variance(sample: Sample) -> Floats:
    if sample.original:
        return sample.spread
    return np.where(sample.count > 1, sample.spread * sample.count / (sample.count - 1.0), np.nan)


def _sd(sample: Sample) -> Floats:
    return np.sqrt(_variance(sample))


def _skewness(sample: Sample) -> Floats:
    third = np.einsum("...n,...n->...", sample.squares, sample.deviations) / sample.count
    biased = np.where(sample.constant, np.nan, third / sample.spread**1.5)
    if sample.original:
        return biased
    n = sample.count
    return np.where(n > 2, biased * np.sqrt(n * (n - 1.0)) / (n - 2.0), np.nan)


def _kurtosis(sample: Sample) -> Floats:
    fourth = np.einsum("...n,...n->...", sample.squares, sample.squares) / sample.count
    biased = np.where(sample.constant, np.nan, fourth / sample.spread**2 - 3.0)
    if sample.original:
        return biased
    n = sample.count
    return np.where(n > 3, (n - 1.0) / ((n - 2.0) * (n - 3.0)) * ((n + 1.0) * biased + 6.0), np.nan)


def _range(sample: Sample) -> Floats:
    return sample.quantile(1.0) - sample.quantile(0.0)


def _quantile_range(sample: Sample) -> Floats:
    low, high = sample.options.quantiles
    return sample.quantile(high) - sample.quantile(low)


def _percentile_range(sample: Sample) -> Floats:
    low, high = sample.options.percentiles
    return sample.quantile(high / 100.0) - sample.quantile(low / 100.0)


def _divergence(sample: Sample) -> Floats:
    """Kullback-Leibler divergence from the baseline's histogram to the group's."""
    assert sample.baseline is not None
    x, y, bins = sample.values, sample.baseline, sample.options.bins
    low_x, high_x, low_y, high_y = (end(side, axis=-1) for side in (x, y) for end in (np.fmin.reduce, np.fmax.reduce))
    if not sample.original:
        low_x = low_y = np.minimum(low_x, low_y)
        high_x = high_y = np.maximum(high_x, high_y)
    p, q = _shares(x, low_x, high_x, bins), _shares(y, low_y, high_y, bins)
    found: Floats = (p * np.log(p / q)).sum(axis=-1)
    return found


def _shares(x: Floats, low: Floats, high: Floats, bins: int) -> Floats:
    """Share of the values in each of equally wide bins, as np.histogram counts them (the last bin holds its upper edge)."""
    even = low == high
    start, stop = np.where(even, low - 0.5, low).ravel(), np.where(even, high + 0.5, high).ravel()
    lanes = x.reshape(-1, x.shape[-1])
    place = lanes - start[:, None]
    place *= (bins / (stop - start))[:, None]
    missing = np.isnan(place)
    incomplete = bool(missing.any())
    if incomplete:
        place[missing] = 0.0
    index = place.astype(np.intp)
    # Rounding matters beside an edge only; there np.histogram asks the edge itself.
    near = np.nonzero((np.abs(place - np.rint(place)) < 1e-9).ravel())[0]
    if near.size:
        edge, lane = np.rint(place.ravel()[near]), near // x.shape[-1]
        exact = start[lane] + edge * ((stop[lane] - start[lane]) / bins)
        index.ravel()[near] = np.clip(edge - (lanes.ravel()[near] < exact), 0, bins - 1)
    if incomplete:
        index[missing] = bins
    index += np.arange(len(lanes))[:, None] * (bins + 1)
    counts = np.bincount(index.ravel(), minlength=len(lanes) * (bins + 1)).reshape(*x.shape[:-1], bins + 1)[..., :bins]
    total = counts.sum(axis=-1, keepdims=True)
    return np.where(counts > 0, counts / total, np.where(total > 0, SMALLEST_SHARE, np.nan))


def _precision(sample: Sample) -> Floats:
    assert sample.baseline is not None
    within = np.abs(sample.values - sample.baseline) <= sample.options.tolerance
    count = sample.count if sample.original else (~np.isnan(sample.pairs[0])).sum(axis=-1)
    found: Floats = np.count_nonzero(within, axis=-1) / count
    return found


def _pearson(sample: Sample) -> Floats:
    return pearson(*sample.pairs)


def _spearman(sample: Sample) -> Floats:
    return pearson(*sample.pair_ranks)


def _kendall(sample: Sample) -> Floats:
    return kendall(*sample.pair_ranks)


def _selection_rate(sample: Sample) -> Floats:
    name, value = _parsed(sample.options.method, METHODS, "method", ("larger", "smaller"))
    x, standard = sample.values, sample.standard
    if name == "larger":
        selected = x >= standard
    elif name == "smaller":
        selected = x <= standard
    else:
        assert value is not None
        selected = np.abs(x - standard) <= (value if name == "within-range" else value * standard)
    found: Floats = np.count_nonzero(selected, axis=-1) / sample.count
    return found


def standards(values: Floats, options: Options, original: bool) -> Floats:
    """Return the standard of the selection rate of each row of (C, N) values, all groups together.

    By the original definition a missing value makes it NaN, and counts as greater than all others for the mode.
    """
    name, value = _parsed(options.standard, STANDARDS, "standard", ("mean", "median", "mode"))
    if name == "fixed":
        assert value is not None
        return np.full(len(values), value)
    if name == "mode":
        return _modes(values, value or 0.1, original)
    ordered = np.sort(values, axis=-1)
    count = (~np.isnan(values)).sum(axis=-1).astype(np.float64)
    if name == "mean":
        with np.errstate(invalid="ignore"):
            found: Floats = np.where(np.isnan(values), 0.0, values).sum(axis=-1) / count
    else:
        share = 0.5 if value is None else value / 100.0 if name == "percentile" else value
        found = sorted_quantile(ordered, count, share)
    return np.where(count < values.shape[-1], np.nan, found) if original else found


def _modes(values: Floats, width: float, original: bool) -> Floats:
    modes = _fullest_bin(np.sort(values, axis=-1), width)
    if not original:
        return modes
    for row, column in enumerate(values):
        missing = np.isnan(column)
        if missing.any() and not missing.all():
            edges = np.arange(np.nanmin(column), np.nanmax(column) + width, width)
            modes[row] = edges[np.bincount(np.digitize(column, edges)).argmax() - 1] + width / 2.0
    return modes


class Statistic(NamedTuple):
    """One entry: how it is computed, whether it needs the baseline, and whether it is a share (between 0 and 1)."""

    compute: Callable[[Sample], Floats]
    paired: bool = False
    share: bool = False


def _mean(sample: Sample) -> Floats:
    return sample.mean


STATISTICS: Mapping[str, Statistic] = {
    "mean": Statistic(_mean),
    "median": Statistic(_median),
    "mode": Statistic(_mode),
    "variance": Statistic(_variance),
    "sd": Statistic(_sd),
    "skewness": Statistic(_skewness),
    "kurtosis": Statistic(_kurtosis),
    "range": Statistic(_range),
    "quantile_range": Statistic(_quantile_range),
    "percentile_range": Statistic(_percentile_range),
    "selection_rate": Statistic(_selection_rate, share=True),
    "kl": Statistic(_divergence, paired=True),
    "precision": Statistic(_precision, paired=True, share=True),
    "pearson": Statistic(_pearson, paired=True),
    "spearman": Statistic(_spearman, paired=True),
    "kendall": Statistic(_kendall, paired=True),
}


def summarise(sample: Sample, names: Sequence[str]) -> dict[str, Any]:
    """Return each named statistic of a sample, shaped as its leading axes; NaN where it is not defined.

    Statistics that need a baseline are left out where the sample has none.
    """
    with np.errstate(all="ignore"):  # 0/0 is how "not defined" arises, and it is what NaN is for
        return {name: STATISTICS[name].compute(sample) for name in names if sample.baseline is not None or not STATISTICS[name].paired}
