"""Summary statistics of features by group, vectorised over features and resamples.

Each statistic is one entry of `STATISTICS`: a function of a `Sample`, which holds (..., n) values and caches
intermediate results (sums, moments, sorted values) that several statistics use. Missing values are NaN. The
leading axes are chosen by the caller, for example features and resamples.

Each statistic has two definitions (`Formulas`): the default, and the original of the package `sagedbias`,
where the two differ:

                          default                          original
    variance, sd          divisor n - 1                    divisor n
    skewness, kurtosis    adjusted (G1, G2)                biased (g1, g2)
    kl                    ten bins over the common range   bins over the range of each side
    precision             share of complete pairs          a missing baseline counts as outside the tolerance
    standard              missing values are ignored       with a missing value, nothing is selected

G1, G2, g1 and g2 are those of Joanes and Gill (1998), "Comparing measures of sample skewness and kurtosis".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiltmeter._arrays import Booleans, Floats, Index
from tiltmeter.stats._arithmetic import count_present, floats, mean_present, sorted_quantile

EPSILON = float(np.finfo(np.float64).eps)
SMALLEST_SHARE = 1e-10
"""Share assigned to empty bins in the Kullback-Leibler divergence."""


@dataclass(frozen=True)
class Formulas:
    """One definition of the statistics and comparisons.

    Attributes
    ----------
    adjusted
        Whether variance, skewness and kurtosis are adjusted for small samples (divisor n - 1, G1, G2).
    common_bins
        Whether the Kullback-Leibler divergence bins both sides over their common range instead of each over
        its own.
    pairs_only
        Whether precision is a share of the complete pairs; otherwise a missing baseline counts as outside the
        tolerance.
    skips_missing
        Whether the standard of the selection rate ignores missing values; otherwise a missing value means
        that nothing is selected.
    proper_comparisons
        Whether comparisons require two groups, and ratios require non-negative values.
    studentised
        Whether intervals of smooth statistics are t intervals with the bootstrap standard error, and tests
        compare studentised values; otherwise intervals are bootstrap percentiles, and tests compare the
        values themselves.
    """

    adjusted: bool = True
    common_bins: bool = True
    pairs_only: bool = True
    skips_missing: bool = True
    proper_comparisons: bool = True
    studentised: bool = True


DEFAULT_FORMULAS = Formulas()
SAGED_FORMULAS = Formulas(
    adjusted=False,
    common_bins=False,
    pairs_only=False,
    skips_missing=False,
    proper_comparisons=False,
    studentised=False,
)
"""Formulas of the package `sagedbias`."""


@dataclass(frozen=True)
class SummaryOptions:
    """Options of the statistics.

    Attributes
    ----------
    width
        Bin width of the mode, in the unit of the feature; the first bin starts at the smallest value of the
        group.
    quantiles
        Lower and upper end of the quantile range, from 0 to 1.
    percentiles
        Lower and upper end of the percentile range, from 0 to 100.
    bins
        Number of bins of the Kullback-Leibler divergence.
    tolerance
        Largest distance from the baseline that counts as equal, for precision.
    standard
        Threshold of the selection rate: "mean", "median", "mode=WIDTH", "quantile=Q" or "percentile=P" of all
        groups together, or "fixed=VALUE".
    method
        Which values are selected: "larger" (at least the standard), "smaller" (at most the standard),
        "within-range=R" or "within-percentage=SHARE" of the standard.
    """

    width: float = 0.5
    quantiles: tuple[float, float] = (0.25, 0.75)
    percentiles: tuple[float, float] = (25.0, 75.0)
    bins: int = 10
    tolerance: float = 0.1
    standard: str = "mean"
    method: str = "larger"


def _name_and_number(setting: str) -> tuple[str, float | None]:
    """Split a setting such as "quantile=0.25" into its name and number."""
    name, _, value = setting.partition("=")
    return name, float(value) if value else None


class Sample:
    """Values of one group in one or more resamples, with cached intermediate results of the statistics."""

    def __init__(
        self,
        values: Floats,
        baseline: Floats | None,
        standard: Floats,
        options: SummaryOptions,
        formulas: Formulas = DEFAULT_FORMULAS,
        decisions: Booleans | None = None,
    ) -> None:
        """Store values and settings; NaN is missing.

        Parameters
        ----------
        values
            Values of the group, shape (C, ..., n).
        baseline
            Baseline of each value, of the same shape; None: there is none.
        standard
            Standard of the selection rate, which broadcasts.
        options, formulas
            Options and definition of the statistics.
        decisions
            Whether the values are shares of positive decisions, in the shape of `standard`; None: they are
            not.
        """
        self.values = values
        self.baseline = baseline
        self.standard = standard
        self.options = options
        self.formulas = formulas
        self.decisions = decisions
        self._shared: tuple[Floats, Index] | None = None

    def paired_with(self, baselines: Floats, of: Index) -> Sample:
        """Pair each column (C) with the row `of` (C,) of `baselines` (B, ..., n).

        Columns with a negative number are dropped.
        """
        paired = of >= 0
        values = self.values if paired.all() else self.values[paired]
        standard = self.standard[paired] if len(self.standard) == len(paired) else self.standard
        decisions = self.decisions
        if decisions is not None and len(decisions) == len(paired):
            decisions = decisions[paired]
        sample = Sample(
            values, np.take(baselines, of[paired], axis=0), standard, self.options, self.formulas, decisions
        )
        sample._shared = baselines, of[paired]
        return sample

    def coded(self) -> Sample:
        """Return the sample with values and baseline replaced by their `order_codes`."""
        baseline = None if self.baseline is None else order_codes(self.baseline)
        return Sample(
            order_codes(self.values), baseline, self.standard, self.options, self.formulas, self.decisions
        )

    @cached_property
    def present(self) -> Booleans:
        """Mask of the values that are not missing."""
        return ~np.isnan(self.values)

    @cached_property
    def complete(self) -> bool:
        """Whether no value is missing."""
        return bool(self.present.all())

    @cached_property
    def count(self) -> Floats:
        """Number of values present."""
        if not self.complete:
            return floats(self.present.sum(axis=-1))
        shape = self.values.shape
        return np.full(shape[:-1], float(shape[-1]))

    @cached_property
    def mean(self) -> Floats:
        """Mean of the values."""
        return np.asarray(self._filled(self.values).sum(axis=-1) / self.count)

    @cached_property
    def deviations(self) -> Floats:
        """Deviations from the mean, 0 where missing."""
        return self._filled(self.values - self.mean[..., None])

    @cached_property
    def squares(self) -> Floats:
        """Squared deviations."""
        return self.deviations * self.deviations

    @cached_property
    def spread(self) -> Floats:
        """Mean squared deviation."""
        return np.asarray(self.squares.sum(axis=-1) / self.count)

    @cached_property
    def constant(self) -> Booleans:
        """Whether the deviations are rounding error only."""
        return self.spread <= (EPSILON * self.mean) ** 2

    @cached_property
    def ordered(self) -> Floats:
        """Sorted values, missing values last."""
        return np.sort(self.values, axis=-1)

    @cached_property
    def pairs(self) -> tuple[Floats, Floats]:
        """Values and baseline, both NaN where either is missing."""
        assert self.baseline is not None
        missing = np.isnan(self.values + self.baseline)
        if not missing.any():
            return self.values, self.baseline
        return np.where(missing, np.nan, self.values), np.where(missing, np.nan, self.baseline)

    @cached_property
    def pair_ranks(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Twice the ranks of `pairs`, whose values are whole numbers (see `coded`)."""
        first, second = self.pairs
        if self._shared is None or second is not self.baseline:
            return _twice_ranks(first), _twice_ranks(second)
        baselines, of = self._shared
        return _twice_ranks(first), _twice_ranks(baselines)[of]

    def quantile(self, share: float) -> Floats:
        """Compute a quantile of the values (linear interpolation)."""
        return sorted_quantile(self.ordered, self.count, share)

    def _filled(self, values: Floats) -> Floats:
        """Replace results for missing values by 0."""
        return values if self.complete else np.where(self.present, values, 0.0)


def bin_numbers(x: Floats, start: Floats, step: Floats) -> Floats:
    """Compute the bin number of (..., n) values.

    Bins start at `start` (..., 1), and a value on an edge belongs to the upper bin.

    Edges are start + number * step, as in `np.histogram` and `np.arange`, regardless of rounding in the
    division.
    """
    place = x - start
    place /= step
    bins, nearest = np.floor(place), np.rint(place)
    place -= nearest
    # Rounding matters near an edge only; there the value is compared with the edge itself.
    near = np.flatnonzero(np.abs(place, out=place) < 1e-9)
    lane, number = near // x.shape[-1], nearest.ravel()[near]
    edge = start.ravel()[lane] + number * step.ravel()[lane]
    bins.ravel()[near] = number - (x.ravel()[near] < edge)
    return bins


def fullest_bin(ordered: Floats, width: float) -> Floats:
    """Compute the mode of sorted (..., n) values: the middle of the fullest bin (the lowest of ties).

    Bins start at the smallest value.
    """
    start = ordered[..., :1]
    step = (start + width) - start  # the step of np.arange, so that values on an edge fall in the same bin
    bins = bin_numbers(ordered, start, step)
    places = np.arange(ordered.shape[-1], dtype=np.int32)
    new = np.ones(ordered.shape, dtype=bool)
    np.not_equal(bins[..., 1:], bins[..., :-1], out=new[..., 1:])
    length = places - np.maximum.accumulate(np.where(new, places, np.int32(0)), axis=-1)
    # NaN is not equal to NaN, so missing values form runs of length 0 at the end.
    fullest = np.take_along_axis(bins, np.argmax(length, axis=-1)[..., None], axis=-1)
    return (start + fullest * step)[..., 0] + width / 2.0


def standards(values: Floats, options: SummaryOptions, formulas: Formulas = DEFAULT_FORMULAS) -> Floats:
    """Compute the standard of the selection rate for each row of (C, N) values, shape (C,).

    The values are those of all groups together. If the formulas do not skip missing values, a missing value
    makes the standard NaN; for the mode it counts as larger than all others.
    """
    name, value = _name_and_number(options.standard)
    if name == "fixed":
        return np.full(len(values), value)
    sample = Sample(values, None, floats(np.nan), options, formulas)
    if name == "mode":
        width = value or 0.1
        if not formulas.skips_missing:
            low = np.fmin.reduce(values, axis=-1, keepdims=True)
            high = np.fmax.reduce(values, axis=-1, keepdims=True)
            beyond = low + width * np.ceil((high - low) / width)
            values = np.where(sample.present, values, beyond)
        return fullest_bin(np.sort(values, axis=-1), width)
    if name == "mean":
        standard = mean_present(values)
    elif value is None:
        standard = sample.quantile(0.5)
    elif name == "percentile":
        standard = sample.quantile(value / 100.0)
    else:
        standard = sample.quantile(value)
    if formulas.skips_missing:
        return standard
    return np.where(sample.present.all(axis=-1), standard, np.nan)


class Statistic(NamedTuple):
    """One statistic: its function and its properties.

    Attributes
    ----------
    compute
        Function of a `Sample`, which returns an array of shape `sample.values.shape[:-1]`, NaN where the
        statistic is undefined. It is called for many features, groups and resamples at once.
    paired
        Whether it needs a baseline.
    share
        Whether it is a share, from 0 to 1.
    ranked
        Whether it depends on the order of the values only; `compute` then gets `order_codes` as values.
    bounds
        Smallest and largest possible value of a smooth statistic, whose sampling distribution is close to
        normal; None: not smooth.
    terms
        Function that computes the number of each row (NaN where missing) of which the statistic is the mean,
        so that its standard error is known; None: unknown.
    """

    compute: Callable[[Sample], Floats]
    paired: bool = False
    share: bool = False
    ranked: bool = False
    bounds: tuple[float, float] | None = None
    terms: Callable[[Sample], Floats] | None = None


def _variance(sample: Sample) -> Floats:
    if not sample.formulas.adjusted:
        return sample.spread
    n = sample.count
    return np.where(n > 1, sample.spread * n / (n - 1.0), np.nan)


def _skewness(sample: Sample) -> Floats:
    n, third = sample.count, np.einsum("...n,...n->...", sample.squares, sample.deviations)
    biased = np.where(sample.constant, np.nan, third / n / sample.spread**1.5)
    if not sample.formulas.adjusted:
        return biased
    adjusted = biased * np.sqrt(n * (n - 1.0)) / (n - 2.0)
    return np.where(n > 2, adjusted, np.nan)


def _kurtosis(sample: Sample) -> Floats:
    n, fourth = sample.count, np.einsum("...n,...n->...", sample.squares, sample.squares)
    biased = np.where(sample.constant, np.nan, fourth / n / sample.spread**2 - 3.0)
    if not sample.formulas.adjusted:
        return biased
    adjusted = (n - 1.0) / ((n - 2.0) * (n - 3.0)) * ((n + 1.0) * biased + 6.0)
    return np.where(n > 3, adjusted, np.nan)


def _range_between(sample: Sample, low: float, high: float) -> Floats:
    return sample.quantile(high) - sample.quantile(low)


def _divergence(sample: Sample) -> Floats:
    """Compute the Kullback-Leibler divergence of the group's histogram from the baseline's, in nats."""
    assert sample.baseline is not None
    bins = sample.options.bins
    low, high = _ends(sample.values)
    baseline_low, baseline_high = _ends(sample.baseline)
    if sample.formulas.common_bins:
        low = baseline_low = np.minimum(low, baseline_low)
        high = baseline_high = np.maximum(high, baseline_high)
    p = _bin_shares(sample.values, low, high, bins)
    q = _bin_shares(sample.baseline, baseline_low, baseline_high, bins)
    return np.asarray((p * np.log(p / q)).sum(axis=-1))


def _ends(values: Floats) -> tuple[Floats, Floats]:
    """Return the smallest and the largest of (..., n) values, shape (...)."""
    low: Floats = np.fmin.reduce(values, axis=-1)
    high: Floats = np.fmax.reduce(values, axis=-1)
    return low, high


def _bin_shares(x: Floats, low: Floats, high: Floats, bins: int) -> Floats:
    """Compute the share of the values in each bin of equal width, as np.histogram counts them.

    The last bin includes its upper edge.
    """
    even = 0.5 * (low == high)
    start, stop = (low - even)[..., None], (high + even)[..., None]
    numbers = bin_numbers(x, start, (stop - start) / bins)
    missing = np.isnan(numbers)
    if missing.any():
        numbers[missing] = bins + 1
    # Two further bins: for values on the upper edge, and for missing values.
    numbers += (bins + 2) * np.arange(low.size).reshape(start.shape)
    counts = np.bincount(numbers.ravel().astype(np.intp), minlength=(bins + 2) * low.size)
    counts = counts.reshape(*low.shape, -1)
    counts[..., bins - 1] += counts[..., bins]
    counts = counts[..., :bins]
    total = counts.sum(axis=-1, keepdims=True)
    share_of_empty = np.where(total > 0, SMALLEST_SHARE, np.nan)
    return np.where(counts > 0, counts / total, share_of_empty)


def _precision(sample: Sample) -> Floats:
    assert sample.baseline is not None
    away = sample.values - sample.baseline
    within = np.abs(away, out=away) <= sample.options.tolerance
    pairs = sample.pairs[0] if sample.formulas.pairs_only else sample.values
    count = sample.count if pairs is sample.values else count_present(pairs)
    return np.asarray(np.count_nonzero(within, axis=-1) / count)


def _selected(sample: Sample) -> Booleans:
    """Return whether each value reaches the standard; False where it is missing."""
    name, value = _name_and_number(sample.options.method)
    x, standard = sample.values, sample.standard
    if name == "larger":
        return np.asarray(x >= standard)
    if name == "smaller":
        return np.asarray(x <= standard)
    assert value is not None
    largest_distance = value if name == "within-range" else value * standard
    return np.asarray(np.abs(x - standard) <= largest_distance)


def _selection_rate(sample: Sample) -> Floats:
    """Compute the share of selected values.

    Of decisions, the mean, because each value is itself the share that was selected.
    """
    rates = np.asarray(np.count_nonzero(_selected(sample), axis=-1) / sample.count)
    return rates if sample.decisions is None else np.where(sample.decisions[..., 0], sample.mean, rates)


def _selections(sample: Sample) -> Floats:
    """Return the numbers of which the selection rate is the mean; NaN where missing."""
    selected = np.where(sample.present, _selected(sample), np.nan)
    return selected if sample.decisions is None else np.where(sample.decisions, sample.values, selected)


def pearson(x: NDArray[Any], y: NDArray[Any]) -> Floats:
    """Compute Pearson's correlation of (..., n) pairs, in which both or neither are NaN.

    NaN where one side is constant.
    """
    present = x == x  # False for NaN
    count, complete = present.sum(axis=-1), bool(present.all())

    def centred(side: NDArray[Any]) -> tuple[Floats, Floats]:
        """Return the mean, and the deviations from it; 0 where missing."""
        mean = (side if complete else np.where(present, side, 0.0)).sum(axis=-1) / count
        deviations = side - mean[..., None]
        return mean, deviations if complete else np.where(present, deviations, 0.0)

    mean_x, dx = centred(x)
    mean_y, dy = centred(y)
    sxx = np.einsum("...n,...n->...", dx, dx)
    syy = np.einsum("...n,...n->...", dy, dy)
    sxy = np.einsum("...n,...n->...", dx, dy)
    # Smaller sums of squares are rounding error of a constant.
    floor_x = count * (EPSILON * mean_x) ** 2
    floor_y = count * (EPSILON * mean_y) ** 2
    varies = (count > 1) & (sxx > floor_x) & (syy > floor_y)
    r = np.clip(sxy / np.sqrt(sxx * syy), -1.0, 1.0)
    return np.where(varies, r, np.nan)


def order_codes(values: Floats) -> Floats:
    """Compute dense ranks of (..., n) values: whole numbers with the same order and ties; NaN stays NaN."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(values, method="dense", axis=-1, nan_policy="omit"))


def _twice_ranks(codes: Floats) -> NDArray[Any]:
    """Compute twice the ranks 1, 2, ... of (..., n) whole numbers, with mean ranks for ties.

    NaN stays NaN, in an array of floats. Number and position are packed into one integer and sorted together,
    then position and rank: several times faster than `argsort`.
    """
    n, missing = codes.shape[-1], np.isnan(codes)
    bits, top = n.bit_length(), np.fmax.reduce(codes, axis=None, initial=n) + 1
    integer: Any = np.uint32 if top * 2**bits < 2**32 else np.uint64
    digits, mask = integer(bits), integer((1 << bits) - 1)
    places = np.arange(n, dtype=integer)

    def placed(numbers: NDArray[Any]) -> NDArray[Any]:
        """Return the position of each number in sorted order, ties in order of appearance."""
        keys: NDArray[Any] = numbers << digits
        keys |= places
        keys.sort()
        keys &= mask
        keys <<= digits
        keys |= places
        keys.sort()
        keys &= mask
        return keys

    numbers = np.where(missing, top, codes).astype(integer)
    # The sum of the positions from both ends is the same for all ties.
    twice = placed(numbers) + placed(numbers[..., ::-1])[..., ::-1] + integer(2)
    return np.where(missing, np.nan, twice) if missing.any() else twice


def _kendall(sample: Sample) -> Floats:
    """Compute Kendall's tau-b from all pairs, one distance between positions at a time.

    NaN where one side is constant.

    References
    ----------
    Kendall (1945), "The treatment of ties in ranking problems".
    """
    n = sample.values.shape[-1]
    first, second = sample.pair_ranks
    x, y = _position_first(first), _position_first(second)
    small = np.min_scalar_type(-n)
    products = np.zeros(x.shape, dtype=small)  # per position, each added over all distances
    if _without_ties(x) and _without_ties(y):
        # Each pair is either concordant or discordant.
        for step in range(1, n):
            products[step:] += (x[step:] > x[:-step]) == (y[step:] > y[:-step])
        concordant = products.sum(axis=0, dtype=np.float64)
        return floats(4.0 * concordant / (n * (n - 1)) - 1.0)
    untied_x, untied_y = np.zeros((2, *x.shape), dtype=small)
    for step in range(1, n):
        signs_x, signs_y = _signs(x, step), _signs(y, step)
        products[step:] += signs_x * signs_y
        untied_x[step:] += signs_x != 0
        untied_y[step:] += signs_y != 0
    agreement = products.sum(axis=0, dtype=np.float64)
    pairs = untied_x.sum(axis=0, dtype=np.float64) * untied_y.sum(axis=0, dtype=np.float64)
    return np.where(pairs > 0, agreement / np.sqrt(pairs), np.nan)


def _position_first(twice_ranks: NDArray[Any]) -> NDArray[Any]:
    """Return (..., n) doubled ranks as a contiguous array (n, ...), in the smallest type of whole numbers."""
    moved = np.ascontiguousarray(np.moveaxis(twice_ranks, -1, 0))
    if moved.dtype.kind == "f":  # with NaN
        return moved
    return moved.astype(np.min_scalar_type(2 * len(moved)))


def _without_ties(twice_ranks: NDArray[Any]) -> bool:
    """Check that no column of (n, ...) doubled ranks has ties: these make the sum of squares smaller."""
    n = len(twice_ranks)
    squares = np.square(twice_ranks, dtype=np.float64).sum(axis=0)
    return bool((squares == 2 * n * (n + 1) * (2 * n + 1) / 3).all())


def _signs(ranks: NDArray[Any], step: int) -> NDArray[np.int8]:
    """Return the signs of the differences between the ranks `step` positions apart."""
    later, earlier = ranks[step:], ranks[:-step]
    return (later > earlier).view(np.int8) - (later < earlier).view(np.int8)


STATISTICS: Mapping[str, Statistic] = {
    "mean": Statistic(
        lambda sample: sample.mean, bounds=(-np.inf, np.inf), terms=lambda sample: sample.values
    ),
    "median": Statistic(lambda sample: sample.quantile(0.5)),
    "mode": Statistic(lambda sample: fullest_bin(sample.ordered, sample.options.width)),
    "variance": Statistic(_variance, bounds=(0.0, np.inf)),
    "sd": Statistic(lambda sample: np.sqrt(_variance(sample)), bounds=(0.0, np.inf)),
    "skewness": Statistic(_skewness),
    "kurtosis": Statistic(_kurtosis),
    "range": Statistic(lambda sample: _range_between(sample, 0.0, 1.0)),
    "quantile_range": Statistic(lambda sample: _range_between(sample, *sample.options.quantiles)),
    "percentile_range": Statistic(
        lambda sample: _range_between(sample, *(end / 100.0 for end in sample.options.percentiles))
    ),
    "selection_rate": Statistic(_selection_rate, share=True, bounds=(0.0, 1.0), terms=_selections),
    "kl": Statistic(_divergence, paired=True),
    "precision": Statistic(_precision, paired=True, share=True, bounds=(0.0, 1.0)),
    "pearson": Statistic(lambda sample: pearson(*sample.pairs), paired=True),
    "spearman": Statistic(lambda sample: pearson(*sample.pair_ranks), paired=True, ranked=True),
    "kendall": Statistic(_kendall, paired=True, ranked=True),
}


def summarise(
    sample: Sample, names: Sequence[str], known: Mapping[str, Statistic] = STATISTICS
) -> dict[str, Any]:
    """Compute the named statistics of a sample.

    Parameters
    ----------
    sample
        The values, shape (..., n), with or without a baseline.
    names
        Names of statistics in `known`.
    known
        Statistics by name.

    Returns
    -------
    An array of shape (...) for each name, NaN where the statistic is undefined. Statistics that need a
    baseline are omitted if the sample has none.
    """
    with np.errstate(all="ignore"):  # undefined statistics arise as 0/0 and become NaN
        wanted = {name: known[name] for name in names}
        if sample.baseline is None:
            wanted = {name: statistic for name, statistic in wanted.items() if not statistic.paired}
        coded = sample.coded() if any(statistic.ranked for statistic in wanted.values()) else sample
        return {
            name: statistic.compute(coded if statistic.ranked else sample)
            for name, statistic in wanted.items()
        }
