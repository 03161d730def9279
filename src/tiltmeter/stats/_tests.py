"""Significance tests of counts, vectorised over many tests.

One-sided comparisons of rates, independence, and multiple testing.

Counts are `a` of `n` in one group and `c` of `m` in the other. All functions take whole counts and return p =
1 where the margins leave nothing to test (an empty group, no successes, or successes only). `greater` is the
recommended one-sided test; `exact_greater` and `z_greater`, between which it chooses, are public as well.
"""

from __future__ import annotations

import math

import numpy as np
import scipy  # loads its submodules on first use
from numpy.typing import ArrayLike

from tiltmeter._arrays import Booleans, Floats
from tiltmeter.stats._arithmetic import count_present, floats, ratio
from tiltmeter.stats._rates import counts_and_sizes

SMALL = 5.0
"""Cochran's rule: below this expected count, the normal approximation of a 2 x 2 table is not used."""
TAIL = 1e-3
"""The normal approximation is not used for smaller p-values."""
NEGLIGIBLE_P = 1e-30
"""Smaller p-values by the normal approximation are significant in any family, and are kept."""
ROUNDING_OF_SUM = 1e-17
"""Terms that are a smaller share of a sum do not change it."""
MOST_COUNTS = 100
"""Largest count in a stratum for which the distribution over strata is computed in the tail."""
TABLE_CELLS = 1 << 21
"""Array elements that exact tests over strata hold in memory at once (16 MiB)."""


def independence_p(a: ArrayLike, n: ArrayLike) -> Floats:
    """Compute p-values of the chi-squared test of independence for tables of k groups x (success, failure).

    Parameters
    ----------
    a
        (tests, k) successes in each group; 0 <= a <= n.
    n
        Sizes of the groups, broadcastable to (tests, k). Empty groups are ignored.

    Returns
    -------
    (tests,) p-values with (non-empty groups - 1) degrees of freedom; Yates' continuity correction is applied
    for two groups only. 1 where fewer than two groups are left, or where there are no successes or no
    failures.

    References
    ----------
    Pearson (1900); Yates (1934), "Contingency tables involving small numbers and the χ² test". Agrees with
    `scipy.stats.chi2_contingency`, which takes one table at a time.
    """
    does, size = counts_and_sizes(a, n)
    total = size.sum(axis=-1, keepdims=True)
    does_all = does.sum(axis=-1, keepdims=True)
    free = (size > 0).sum(axis=-1) - 1
    expected = np.stack([size * does_all, size * (total - does_all)]) / np.maximum(total, 1)
    gap = np.abs(np.stack([does, size - does]) - expected)
    gap -= np.where((free == 1)[..., None], np.minimum(0.5, gap), 0.0)
    statistic = np.nansum(ratio(gap**2, expected), axis=(0, -1))
    p = scipy.special.chdtrc(np.maximum(free, 1), statistic)
    return np.where(free > 0, p, 1.0)


def greater(a: ArrayLike, n: ArrayLike, c: ArrayLike, m: ArrayLike) -> Floats:
    """Compute one-sided p-values for the alternative that the rate a/n is greater than c/m.

    Uses `exact_greater` where the smallest expected count of the 2 x 2 table is below 5 (Cochran's rule) or
    the p-value of `z_greater` is below TAIL, and `z_greater` elsewhere. For groups of unequal size, the
    normal approximation gives much too small p-values in the tail, which decides where many tests are made:
    with 100 successes and a tenth of the members in the group, 1/7 of the exact one at 4 standard deviations.

    Parameters
    ----------
    a
        Count in the group; any shape, the four broadcast together.
    n
        Size of the group.
    c
        Count in the others.
    m
        Size of the others.

    Returns
    -------
    p-values in the broadcast shape.

    Raises
    ------
    ValueError
        If a count is negative or above its size.
    """
    a, n, c, m = counts_and_sizes(a, n, c, m)
    p = z_greater(a, n, c, m)
    does, total = a + c, np.maximum(n + m, 1)
    has_few = np.minimum(does, total - does) * np.minimum(n, m) < SMALL * total
    is_exact = has_few | _is_in_tail(p)
    p[is_exact] = exact_greater(a[is_exact], n[is_exact], c[is_exact], m[is_exact])
    return p


def detectable_share(size: int, others: int, base: float, level: float, power: float = 0.8) -> float:
    """Compute the share of a group at which its test against others is significant with probability `power`.

    Parameters
    ----------
    size, others
        Sizes of the group and of the others.
    base
        Share of the others.
    level
        Confidence level of the one-sided test (`greater`): it is significant if p < 1 - level.
    power
        Probability of significance.

    Returns
    -------
    The share, above which the probability is larger; infinite if not even all of the group suffice.
    """
    counts = np.arange(size + 1)
    p = greater(counts, size, round(base * others), others)
    significant = counts[p < 1 - level]
    if not len(significant):
        return math.inf
    least = significant.min()
    # P(count >= least) of a binomial count is a regularised incomplete beta function of the share.
    return float(scipy.special.betaincinv(least, size - least + 1, power))


def _is_in_tail(p: Floats) -> Booleans:
    """Return whether the normal approximation is replaced: in the tail, but not where p is negligible."""
    is_in_tail: Booleans = (p < TAIL) & (p > NEGLIGIBLE_P)
    return is_in_tail


def z_greater(a: ArrayLike, n: ArrayLike, c: ArrayLike, m: ArrayLike) -> Floats:
    """Compute one-sided p-values for a/n greater than c/m by the normal approximation.

    It has a continuity correction. Arguments and result are those of `greater`. The p-value is half that of
    `independence_p` where a exceeds its expectation by at least half a count.

    References
    ----------
    Yates (1934), "Contingency tables involving small numbers and the χ² test".
    """
    a, n, c, m = counts_and_sizes(a, n, c, m)
    does, total = a + c, np.maximum(n + m, 1)
    sd = np.sqrt(n * m * does * (n + m - does) / total**3)
    expected = does * n / total
    z = ratio(a - 0.5 - expected, sd)
    return np.where(sd > 0, scipy.special.ndtr(-z), 1.0)


def exact_greater(a: ArrayLike, n: ArrayLike, c: ArrayLike, m: ArrayLike) -> Floats:
    """Compute one-sided p-values of Fisher's exact test for a/n greater than c/m.

    The p-value is the hypergeometric probability of `a` or more, given the margins; very small p-values keep
    their relative precision. Arguments and result are those of `greater`.

    References
    ----------
    Fisher (1935), "The logic of inductive inference".
    """
    a, n, c, m = counts_and_sizes(a, n, c, m)
    # Each different table is computed once: many concepts have the same small counts.
    parameters = np.stack([a, *_margins(a, n, c, m)]).reshape(4, -1)
    tables, place = np.unique(parameters, axis=1, return_inverse=True)
    p = _hypergeometric_tail(*tables)
    return np.asarray(p[place]).reshape(a.shape)


def _hypergeometric_tail(count: Floats, total: Floats, size: Floats, successes: Floats) -> Floats:
    """Compute the probability of at least so many successes among the members of a group.

    The terms from `count` on are added until they are negligible; each follows from the one before. SciPy's
    function has one more digit for large groups and takes 150 times as long.

    Parameters
    ----------
    count, total, size, successes
        The count, and the parameters M, n and N of SciPy's hypergeometric distribution, (T,) each.
    """
    lowest = np.maximum(size + successes - total, 0)
    highest = np.minimum(size, successes)
    failures = total - successes
    value = np.clip(count, lowest, highest)
    log_term = (
        _log_choices(successes, value) + _log_choices(failures, size - value) - _log_choices(total, size)
    )
    term = np.where(count > highest, 0.0, np.exp(log_term))
    tail = term.copy()
    going_on = np.flatnonzero((value < highest) & (term > 0))
    while going_on.size:
        at = value[going_on]
        ways = (successes[going_on] - at) * (size[going_on] - at)
        term[going_on] *= ways / ((at + 1) * (failures[going_on] - size[going_on] + at + 1))
        value[going_on] += 1
        tail[going_on] += term[going_on]
        counts_more = (value < highest) & (term > ROUNDING_OF_SUM * tail)
        going_on = going_on[counts_more[going_on]]
    return np.where(count <= lowest, 1.0, np.minimum(tail, 1.0))


def _log_choices(number: Floats, chosen: Floats) -> Floats:
    """Return the logarithm of the number of ways to choose so many of a number."""
    ways: Floats = -scipy.special.betaln(number - chosen + 1, chosen + 1) - np.log1p(number)
    return ways


def stratified_greater(a: ArrayLike, n: ArrayLike, c: ArrayLike, m: ArrayLike) -> Floats:
    """Compute one-sided p-values for a group's rate greater than that of the others, within strata only.

    Strata in which one of the two is empty are ignored. The Cochran-Mantel-Haenszel normal approximation with
    continuity correction is used where the sum of the counts can deviate from its expectation by at least 5
    in both directions (Mantel-Fleiss criterion), except in the tail of small counts (see `greater`).
    Elsewhere the test is exact: the conditional distribution of the sum is a convolution of hypergeometric
    distributions.

    Parameters
    ----------
    a
        (..., strata) counts in the group; the four broadcast together.
    n
        Sizes of the group.
    c
        Counts in the others.
    m
        Sizes of the others.

    Returns
    -------
    (...) p-values.

    Raises
    ------
    ValueError
        If a count is negative or above its size.

    References
    ----------
    Mantel and Haenszel (1959), "Statistical aspects of the analysis of data from retrospective studies of
    disease"; Mantel and Fleiss (1980), "Minimum expected cell size requirements for the Mantel-Haenszel
    one-degree-of-freedom chi-square test"; Mehta, Patel and Gray (1985), "Computing an exact confidence
    interval for the common odds ratio in several 2 x 2 contingency tables".
    """
    a, n, c, m = counts_and_sizes(a, n, c, m)
    does, total = a + c, np.maximum(n + m, 1)
    expected = does * n / total
    variances = n * m * does * (total - does) / (total**2 * np.maximum(total - 1, 1))
    variance = variances.sum(axis=-1)
    lowest, highest = np.maximum(does - m, 0), np.minimum(n, does)
    room_below = (expected - lowest).sum(axis=-1)
    room_above = (highest - expected).sum(axis=-1)
    room = np.minimum(room_below, room_above)
    z = ratio((a - expected).sum(axis=-1) - 0.5, np.sqrt(variance))
    p = np.where((room >= SMALL) & (variance > 0), scipy.special.ndtr(-z), 1.0)
    # Strata with a single possible count have probability 1 for it and do not change the convolution.
    exact = ((room < SMALL) | (_is_in_tail(p) & _is_narrow(n, does))) & (variance > 0)
    p[exact] = _convolved_tail(a[exact], n[exact], c[exact], m[exact])
    return p


def exact_independence_p(a: ArrayLike, n: ArrayLike) -> Floats:
    """Compute exact p-values of the test of independence for groups of equal size.

    The tables are k groups x (success, failure). The p-value is the probability, given the margins, of a
    chi-squared statistic at least as large as the observed one. It is intended for small counts, where the
    chi-squared approximation is unreliable. For groups of equal size, the statistic increases with the sum of
    squared counts, whose distribution is a convolution of (sum, sum of squares) over the groups: for each
    distinct margin, k * total steps on arrays of at most total**3 / 2 elements.

    Parameters
    ----------
    a
        (tests, k) whole counts of successes, 0 <= a <= n.
    n
        (tests,) size of every group of a test.

    Returns
    -------
    (tests,) p-values. For two groups they equal those of the two-sided Fisher exact test.

    References
    ----------
    Agresti (1992), "A survey of exact inference for contingency tables".
    """
    counts, size = np.asarray(a, dtype=np.int64), np.asarray(n, dtype=np.int64)
    # Successes and failures are interchangeable; the rarer of the two gives the shorter convolution.
    groups = counts.shape[1]
    failures_rarer = 2 * counts.sum(axis=1) > groups * size
    rarer = np.where(failures_rarer[:, None], size[:, None] - counts, counts)
    totals_and_sizes = np.column_stack([rarer.sum(axis=1), size])
    margins, margin_of = np.unique(totals_and_sizes, axis=0, return_inverse=True)
    squares = (rarer * rarer).sum(axis=1)
    p = np.empty(len(counts))
    for index, (total, group_size) in enumerate(margins.tolist()):
        tests = margin_of.ravel() == index
        chances = _square_sums(total, group_size, groups)
        tail = np.cumsum(chances[::-1])[::-1]
        p[tests] = tail[squares[tests]] / tail[0]
    return np.minimum(p, 1.0)


def permuted_independence_p(a: ArrayLike, n: ArrayLike, *, draws: int = 9999, seed: int) -> float:
    """Compute the p-value of the permutation test of independence for one table.

    The table is k groups x (success, failure). The statistic is chi-squared; its null distribution is
    estimated by assigning the successes to the groups at random, with fixed margins.

    Parameters
    ----------
    a
        (k,) successes in each group; 0 <= a <= n.
    n
        (k,) sizes of the groups.
    draws
        Number of random tables; no p-value is below 1 / (draws + 1).
    seed
        Random seed; the same seed gives the same tables.

    Returns
    -------
    The p-value (1 + tables with a statistic at least as large) / (1 + draws).

    References
    ----------
    Good (2005), "Permutation, Parametric, and Bootstrap Tests of Hypotheses".
    """
    does, size = np.asarray(a, dtype=np.int64), np.asarray(n, dtype=np.int64)
    does, size = does[size > 0], size[size > 0]
    generator = np.random.Generator(np.random.PCG64(seed))
    dealt = generator.multivariate_hypergeometric(size, int(does.sum()), size=draws, method="marginals")
    # With fixed margins, chi-squared increases with this sum. The factor 1 - 1e-9 allows for rounding errors.
    observed = float((does**2 / size).sum())
    permuted = (dealt**2 / size).sum(axis=1)
    as_large = (permuted >= observed * (1 - 1e-9)).sum()
    return float((1 + as_large) / (draws + 1))


def benjamini_hochberg(p: ArrayLike, axis: int | None = None) -> Floats:
    """Compute the q-value of each p-value.

    It is the smallest false discovery rate at which the test would be reported.

    Parameters
    ----------
    p
        p-values of any shape; NaN (no test was possible) stays NaN and is not counted in its family.
    axis
        Axis along which the tests of one family lie; None: all tests are one family.

    Returns
    -------
    q-values in the shape of `p`.

    Raises
    ------
    ValueError
        If a p-value lies outside [0, 1].

    References
    ----------
    Benjamini and Hochberg (1995), "Controlling the false discovery rate: a practical and powerful approach to
    multiple testing".
    """
    values = floats(p)
    if ((values < 0) | (values > 1)).any():
        raise ValueError("p-values must lie within 0 and 1")
    families = values.reshape(1, -1) if axis is None else np.moveaxis(values, axis, -1)
    # SciPy's `false_discovery_control` does not accept NaN, and importing it takes longer than most analyses.
    order = np.argsort(families, axis=-1)  # NaN comes last
    tested = count_present(families)[..., None]
    ranks = np.arange(1, families.shape[-1] + 1)
    scaled = np.take_along_axis(families, order, axis=-1) * tested / ranks
    smallest = np.fmin.accumulate(scaled[..., ::-1], axis=-1)[..., ::-1]  # of this and all larger p-values
    q = np.empty_like(families)
    np.put_along_axis(q, order, smallest, axis=-1)
    q = np.where(np.isnan(families), np.nan, np.minimum(q, 1.0))
    return q.reshape(values.shape) if axis is None else np.moveaxis(q, -1, axis)


def _margins(a: Floats, n: Floats, c: Floats, m: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the parameters M, n and N of SciPy's hypergeometric distribution.

    They are the total size (at least 1), the size of the group, and the successes.
    """
    return np.maximum(n + m, 1), n, a + c


def _is_narrow(n: Floats, does: Floats) -> Booleans:
    """Return whether the counts of each test have few possible values in each stratum."""
    is_narrow: Booleans = np.minimum(n, does).max(axis=-1, initial=0) <= MOST_COUNTS
    return is_narrow


def _convolved_tail(a: Floats, n: Floats, c: Floats, m: Floats) -> Floats:
    """Compute the probability, given all margins, of a sum of counts at least as large as observed.

    The shape is (tests, strata) -> (tests,).
    """
    p = np.ones(len(a))
    lowest = np.maximum(a + c - m, 0)
    widths = (np.minimum(n, a + c) - lowest).max(axis=-1, initial=0).astype(np.intp) + 1
    # Group tests of similar width, so that one wide table does not enlarge the arrays of all.
    blocks = 1 + a.size * int(widths.max(initial=1)) // TABLE_CELLS
    for tests in np.array_split(np.argsort(widths, kind="stable"), blocks):
        width = int(widths[tests].max(initial=1))
        p[tests] = _block_tail(a[tests], n[tests], c[tests], m[tests], lowest[tests], width)
    return p


def _block_tail(a: Floats, n: Floats, c: Floats, m: Floats, lowest: Floats, width: int) -> Floats:
    """Compute `_convolved_tail` for tests whose strata allow at most `width` counts, from `lowest` on."""
    tests, strata = a.shape
    x = lowest[..., None] + np.arange(width)
    margins = [margin[..., None] for margin in _margins(a, n, c, m)]
    # Fifty times faster than `pmf`, and accurate to nine digits for groups of up to 20,000 members.
    chance = np.exp(scipy.stats.hypergeom.logpmf(x, *margins))
    sums = np.zeros((tests, strata * (width - 1) + 1))
    sums[:, 0] = 1.0
    for stratum in range(strata):
        added = np.zeros_like(sums)
        reach = stratum * (width - 1) + 1
        for step in range(width):
            chance_of_step = chance[:, stratum, step, None]
            added[:, step : step + reach] += sums[:, :reach] * chance_of_step
        sums = added
    start = (a - lowest).sum(axis=-1).astype(np.intp)
    # Sum from the upper end, smallest terms first.
    tails = np.cumsum(sums[:, ::-1], axis=-1)[:, ::-1]
    return np.asarray(np.minimum(tails[np.arange(tests), start], 1.0))


def _square_sums(total: int, size: int, groups: int) -> Floats:
    """Compute the relative probability of each sum of squares of `groups` counts that add up to `total`.

    The shape is (total**2 + 1,).
    """
    ways = np.arange(min(total, size) + 1)
    log_factorial, log_factorial_ways = scipy.special.gammaln(size + 1.0), scipy.special.gammaln(ways + 1.0)
    log = log_factorial - log_factorial_ways - scipy.special.gammaln(size - ways + 1.0)
    weight = np.exp(log - log.max())
    chance = np.zeros((total + 1, total * total + 1))
    chance[0, 0] = 1.0
    for _ in range(groups):
        grown = np.zeros_like(chance)
        for count, share in enumerate(weight):
            square = count * count
            reachable = chance[: total + 1 - count, : total * total + 1 - square]
            grown[count:, square:] += share * reachable
        chance = grown / grown.max()
    return np.asarray(chance[total])
