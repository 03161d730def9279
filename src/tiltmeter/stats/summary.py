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

from tiltmeter.arrays import Booleans, Floats, Index
from tiltmeter.stats.arithmetic import count_present, floats, mean_present, sorted_quantile

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


def _name_and_number(given: str) -> tuple[str, float | None]:
    """Split a setting such as "quantile=0.25" into its name and number."""
    name, _, value = given.partition("=")
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
        """Store `values` (C, ..., n), `baseline` of the same shape or None, and `standard`, which broadcasts; NaN is missing.

        `decisions` has the shape of `standard`: whether the values are shares of positive decisions; None:
        they are not.
        """
        self.values, self.baseline, self.standard, self.options, self.formulas = (
            values,
            baseline,
            standard,
            options,
            formulas,
        )
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
        shape = self.values.shape
        return np.full(shape[:-1], float(shape[-1])) if self.complete else floats(self.present.sum(axis=-1))

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
    bins.ravel()[near] = number - (x.ravel()[near] < start.ravel()[lane] + number * step.ravel()[lane])
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
    """Compute the standard of the selection rate for each row of (C, N) values of all groups together, shape (C,).

    If the formulas do not skip missing values, a missing value makes the standard NaN; for the mode it counts
    as larger than all others.
    """
    name, value = _name_and_number(options.standard)
    if name == "fixed":
        return np.full(len(values), value)
    sample = Sample(values, None, floats(np.nan), options, formulas)
    if name == "mode":
        width = value or 0.1
        if not formulas.skips_missing:
            low, high = (end.reduce(values, axis=-1, keepdims=True) for end in (np.fmin, np.fmax))
            values = np.where(sample.present, values, low + width * np.ceil((high - low) / width))
        return fullest_bin(np.sort(values, axis=-1), width)
    if name == "mean":
        found = mean_present(values)
    else:
        found = sample.quantile(0.5 if value is None else value / 100.0 if name == "percentile" else value)
    return found if formulas.skips_missing else np.where(sample.present.all(axis=-1), found, np.nan)


class Statistic(NamedTuple):
    """One statistic: its function, and whether it needs a baseline, is a share (0 to 1), or depends on the order of the values only.

    `compute` takes a `Sample` and returns an array of shape `sample.values.shape[:-1]`, NaN where the
    statistic is undefined. It is called for many features, groups and resamples at once. For `ranked`
    statistics, the values are `order_codes`. `bounds` are the smallest and the largest possible value of a
    smooth statistic, whose sampling distribution is close to normal; None: not smooth. `terms` computes the
    number of each row (NaN where missing) of which the statistic is the mean, so that its standard error is
    known; None: unknown.
    """

    compute: Callable[[Sample], Floats]
    paired: bool = False
    share: bool = False
    ranked: bool = False
    bounds: tuple[float, float] | None = None
    terms: Callable[[Sample], Floats] | None = None


def _variance(sample: Sample) -> Floats:
    n = sample.count
    return (
        np.where(n > 1, sample.spread * n / (n - 1.0), np.nan) if sample.formulas.adjusted else sample.spread
    )


def _skewness(sample: Sample) -> Floats:
    n, third = sample.count, np.einsum("...n,...n->...", sample.squares, sample.deviations)
    biased = np.where(sample.constant, np.nan, third / n / sample.spread**1.5)
    return (
        np.where(n > 2, biased * np.sqrt(n * (n - 1.0)) / (n - 2.0), np.nan)
        if sample.formulas.adjusted
        else biased
    )


def _kurtosis(sample: Sample) -> Floats:
    n, fourth = sample.count, np.einsum("...n,...n->...", sample.squares, sample.squares)
    biased = np.where(sample.constant, np.nan, fourth / n / sample.spread**2 - 3.0)
    if not sample.formulas.adjusted:
        return biased
    return np.where(n > 3, (n - 1.0) / ((n - 2.0) * (n - 3.0)) * ((n + 1.0) * biased + 6.0), np.nan)


def _range_between(sample: Sample, low: float, high: float) -> Floats:
    return sample.quantile(high) - sample.quantile(low)


def _divergence(sample: Sample) -> Floats:
    """Compute the Kullback-Leibler divergence of the group's histogram from the baseline's, in nats."""
    assert sample.baseline is not None
    sides = sample.values, sample.baseline
    lows, highs = ([end(side, axis=-1) for side in sides] for end in (np.fmin.reduce, np.fmax.reduce))
    if sample.formulas.common_bins:
        lows, highs = [np.minimum(*lows)] * 2, [np.maximum(*highs)] * 2
    p, q = (_bin_shares(*side, sample.options.bins) for side in zip(sides, lows, highs, strict=True))
    return np.asarray((p * np.log(p / q)).sum(axis=-1))


def _bin_shares(x: Floats, low: Floats, high: Floats, bins: int) -> Floats:
    """Compute the share of the values in each bin of equal width, as np.histogram counts them (the last bin includes its upper edge)."""
    even = 0.5 * (low == high)
    start, stop = (low - even)[..., None], (high + even)[..., None]
    numbers = bin_numbers(x, start, (stop - start) / bins)
    missing = np.isnan(numbers)
    if missing.any():
        numbers[missing] = bins + 1
    # Two further bins: for values on the upper edge, and for missing values.
    numbers += (bins + 2) * np.arange(low.size).reshape(start.shape)
    counts = np.bincount(numbers.ravel().astype(np.intp), minlength=(bins + 2) * low.size).reshape(
        *low.shape, -1
    )
    counts[..., bins - 1] += counts[..., bins]
    counts = counts[..., :bins]
    total = counts.sum(axis=-1, keepdims=True)
    return np.where(counts > 0, counts / total, np.where(total > 0, SMALLEST_SHARE, np.nan))


def _precision(sample: Sample) -> Floats:
    assert sample.baseline is not None
    away = sample.values - sample.baseline
    within = np.abs(away, out=away) <= sample.options.tolerance
    pairs = sample.pairs[0] if sample.formulas.pairs_only else sample.values
    return np.asarray(
        np.count_nonzero(within, axis=-1) / (sample.count if pairs is sample.values else count_present(pairs))
    )


def _selected(sample: Sample) -> Booleans:
    """Return whether each value reaches the standard; False where it is missing."""
    name, value = _name_and_number(sample.options.method)
    x, standard = sample.values, sample.standard
    if name == "larger":
        return np.asarray(x >= standard)
    if name == "smaller":
        return np.asarray(x <= standard)
    assert value is not None
    return np.asarray(np.abs(x - standard) <= (value if name == "within-range" else value * standard))


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
    """Compute Pearson's correlation of (..., n) pairs, in which both or neither are NaN; NaN where one side is constant."""
    present = x == x  # False for NaN
    count, complete = present.sum(axis=-1), present.all()
    means = [(side if complete else np.where(present, side, 0.0)).sum(axis=-1) / count for side in (x, y)]
    dx, dy = (side - mean[..., None] for side, mean in zip((x, y), means, strict=True))
    if not complete:
        dx, dy = (np.where(present, away, 0.0) for away in (dx, dy))
    sxx, syy, sxy = (np.einsum("...n,...n->...", a, b) for a, b in ((dx, dx), (dy, dy), (dx, dy)))
    # Sums of squares up to these are rounding error of a constant.
    floors = [count * (EPSILON * mean) ** 2 for mean in means]
    varies = (count > 1) & (sxx > floors[0]) & (syy > floors[1])
    return np.where(varies, np.clip(sxy / np.sqrt(sxx * syy), -1.0, 1.0), np.nan)


def order_codes(values: Floats) -> Floats:
    """Compute dense ranks of (..., n) values: whole numbers with the same order and the same ties; NaN stays NaN."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(values, method="dense", axis=-1, nan_policy="omit"))


def _twice_ranks(codes: Floats) -> NDArray[Any]:
    """Compute twice the ranks 1, 2, ... of (..., n) whole numbers, with mean ranks for ties; NaN stays NaN, in an array of floats.

    Number and position are packed into one integer and sorted together, then position and rank: several times
    faster than `argsort`.
    """
    n, missing = codes.shape[-1], np.isnan(codes)
    bits, top = n.bit_length(), np.fmax.reduce(codes, axis=None, initial=n) + 1
    whole: Any = np.uint32 if top * 2**bits < 2**32 else np.uint64
    digits, mask, places = whole(bits), whole((1 << bits) - 1), np.arange(n, dtype=whole)

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

    numbers = np.where(missing, top, codes).astype(whole)
    # The sum of the positions from both ends is the same for all ties.
    twice = placed(numbers) + placed(numbers[..., ::-1])[..., ::-1] + whole(2)
    return np.where(missing, np.nan, twice) if missing.any() else twice


def _kendall(sample: Sample) -> Floats:
    """Compute Kendall's tau-b from all pairs, one distance between positions at a time; NaN where one side is constant.

    Kendall (1945), "The treatment of ties in ranking problems".
    """
    n = sample.values.shape[-1]
    sides = (np.ascontiguousarray(np.moveaxis(ranks, -1, 0)) for ranks in sample.pair_ranks)
    x, y = (side if side.dtype.kind == "f" else side.astype(np.min_scalar_type(2 * n)) for side in sides)
    products, left, right = np.zeros((3, *x.shape), dtype=np.min_scalar_type(-n))
    if all(
        (np.square(side, dtype=np.float64).sum(axis=0) == 2 * n * (n + 1) * (2 * n + 1) / 3).all()
        for side in (x, y)
    ):
        # The sum of squared ranks shows that there are no ties, so each pair is either concordant or
        # discordant.
        for step in range(1, n):
            products[step:] += (x[step:] > x[:-step]) == (y[step:] > y[:-step])
        return floats(4.0 * products.sum(axis=0, dtype=np.float64) / (n * (n - 1)) - 1.0)
    for step in range(1, n):
        a, b = (
            (side[step:] > side[:-step]).view(np.int8) - (side[step:] < side[:-step]).view(np.int8)
            for side in (x, y)
        )
        products[step:] += a * b
        left[step:] += a != 0
        right[step:] += b != 0
    agreeing, varies, varies_too = (part.sum(axis=0, dtype=np.float64) for part in (products, left, right))
    return np.where(varies * varies_too > 0, agreeing / np.sqrt(varies * varies_too), np.nan)


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
        asked = {name: known[name] for name in names if sample.baseline is not None or not known[name].paired}
        coded = sample.coded() if any(one.ranked for one in asked.values()) else sample
        return {name: one.compute(coded if one.ranked else sample) for name, one in asked.items()}
