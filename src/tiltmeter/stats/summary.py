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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiltmeter.stats._ranks import kendall, order_codes, pearson, spearman
from tiltmeter.stats._sample import Sample
from tiltmeter.stats._standards import METHODS, Options, fullest_bin, parsed, sorted_quantile, standards

__all__ = ["STATISTICS", "Options", "Sample", "Statistic", "order_codes", "sorted_quantile", "standards", "summarise"]

Floats = NDArray[np.float64]
SMALLEST_SHARE = 1e-10  # stands for the share of an empty bin in the Kullback-Leibler divergence


def _median(sample: Sample) -> Floats:
    return sample.quantile(0.5)


def _mode(sample: Sample) -> Floats:
    return fullest_bin(sample.ordered, sample.options.width)


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
    missing = None if np.isfinite(place.sum()) else np.isnan(place)
    if missing is not None:
        place[missing] = 0.0
    index = place.astype(np.intp)
    # Rounding matters beside an edge only; there np.histogram asks the edge itself.
    nearest = np.rint(place)
    place -= nearest
    near = np.flatnonzero(np.abs(place, out=place) < 1e-9)
    if near.size:
        edge, lane = nearest.ravel()[near], near // x.shape[-1]
        exact = start[lane] + edge * ((stop[lane] - start[lane]) / bins)
        index.ravel()[near] = np.clip(edge - (lanes.ravel()[near] < exact), 0, bins - 1)
    if missing is not None:
        index[missing] = bins
    index += np.arange(len(lanes))[:, None] * (bins + 1)
    counts = np.bincount(index.ravel(), minlength=len(lanes) * (bins + 1)).reshape(*x.shape[:-1], bins + 1)[..., :bins]
    total = counts.sum(axis=-1, keepdims=True)
    return np.where(counts > 0, counts / total, np.where(total > 0, SMALLEST_SHARE, np.nan))


def _precision(sample: Sample) -> Floats:
    assert sample.baseline is not None
    apart = sample.values - sample.baseline
    within = np.abs(apart, out=apart) <= sample.options.tolerance
    found: Floats = np.count_nonzero(within, axis=-1) / (sample.count if sample.original else sample.pair_count)
    return found


def _pearson(sample: Sample) -> Floats:
    return pearson(*sample.pairs)


def _spearman(sample: Sample) -> Floats:
    return spearman(*sample.pair_ranks)


def _kendall(sample: Sample) -> Floats:
    return kendall(*sample.pair_ranks)


def _selection_rate(sample: Sample) -> Floats:
    name, value = parsed(sample.options.method, METHODS, "method", ("larger", "smaller"))
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


class Statistic(NamedTuple):
    """One entry: how it is computed, whether it needs the baseline, is a share (between 0 and 1), and needs ranks.

    `compute` gets a `Sample` and gives one number for each of its leading axes: shape `sample.values.shape[:-1]`, NaN where it is not
    defined. It is called for many features, groups and resamples at once.
    """

    compute: Callable[[Sample], Floats]
    paired: bool = False
    share: bool = False
    ranked: bool = False


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
    "spearman": Statistic(_spearman, paired=True, ranked=True),
    "kendall": Statistic(_kendall, paired=True, ranked=True),
}


def summarise(sample: Sample, names: Sequence[str], known: Mapping[str, Statistic] = STATISTICS) -> dict[str, Any]:
    """Return each named statistic of a sample, shaped as its leading axes; NaN where it is not defined.

    Statistics that need a baseline are left out where the sample has none. `known` holds those that are meant by the names.
    """
    with np.errstate(all="ignore"):  # 0/0 is how "not defined" arises, and it is what NaN is for
        return {name: known[name].compute(sample) for name in names if sample.baseline is not None or not known[name].paired}
