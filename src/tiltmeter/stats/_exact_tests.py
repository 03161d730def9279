"""Exact tests of two rates, of independent and of matched observations."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import scipy  # loads its submodules on first use

from tiltmeter._arrays import Floats

MOST_TABLES: Final = 1 << 20
"""Number of possible tables above which `independent_rates_p` is Fisher's test."""
TIE: Final = 1e-7
"""Relative difference up to which two probabilities are equal."""
SHARES: Final = 400
"""Number of values of the common rate at which the size of a test is computed."""


def independent_rates_p(a: int, n: int, c: int, m: int) -> float:
    """Compute the two-sided p-value of equal rates a/n and c/m of independent observations.

    The p-value of Boschloo's test is the largest probability, over all common rates, of a table with a
    p-value of Fisher's test as small as the observed one. It is never larger than that of Fisher's test,
    which conditions on the total. With more than MOST_TABLES possible tables it is Fisher's.

    Parameters
    ----------
    a, c
        Numbers of successes.
    n, m
        Numbers of observations, at least 1.

    References
    ----------
    Fisher (1935), "The logic of inductive inference"; Boschloo (1970), "Raised conditional level of
    significance for the 2x2-table when testing the equality of two probabilities".

    Examples
    --------
    >>> round(independent_rates_p(7, 12, 1, 12), 4)
    0.0117
    """
    if (n + 1) * (m + 1) > MOST_TABLES:
        return _fisher_p(a, n, c, m)
    of_tables = _fisher_of_all_tables(n, m)
    rejected = of_tables <= of_tables[a, c] * (1 + TIE)
    chances_first, chances_second = _binomial_chances(n), _binomial_chances(m)
    sizes = ((chances_first @ rejected) * chances_second).sum(axis=1)
    return float(min(sizes.max(), of_tables[a, c]))


def matched_rates_p(first: int, second: int, *, mid_p: bool) -> float:
    """Compute the two-sided p-value of equal rates of matched observations (McNemar's exact test).

    Parameters
    ----------
    first, second
        Numbers of pairs with a success of the first observation only, and of the second only.
    mid_p
        Whether the observed outcome and those as probable count half, which makes the test less
        conservative.

    References
    ----------
    McNemar (1947), "Note on the sampling error of the difference between correlated proportions or
    percentages"; Fagerland, Lydersen and Laake (2013), "The McNemar test for binary matched-pairs data:
    mid-p and asymptotic are better than exact conditional".

    Examples
    --------
    >>> matched_rates_p(8, 0, mid_p=False)
    0.0078125
    """
    discordant = first + second
    if not discordant:
        return 1.0
    smaller = min(first, second)
    below = scipy.special.bdtr(smaller, discordant, 0.5)
    observed = scipy.stats.binom.pmf(smaller, discordant, 0.5)
    if first == second:  # both tails contain the observed outcome
        return float(1.0 - observed / 2) if mid_p else 1.0
    return float(2.0 * below - observed) if mid_p else float(2.0 * below)


def _fisher_p(a: int, n: int, c: int, m: int) -> float:
    """Compute the two-sided p-value of Fisher's test, in which less probable tables are more extreme."""
    total = a + c
    counts = np.arange(max(total - m, 0), min(n, total) + 1)
    chances = scipy.stats.hypergeom.pmf(counts, n + m, n, total)
    return float(min(chances[chances <= chances[a - counts[0]] * (1 + TIE)].sum(), 1.0))


@lru_cache(maxsize=64)
def _fisher_of_all_tables(n: int, m: int) -> Floats:
    """Compute the p-values of `_fisher_p` of all tables with these sizes, shape (n + 1, m + 1)."""
    log_chances = _log_binomials(n)[:, None] + _log_binomials(m)
    p = np.empty((n + 1, m + 1))
    log_totals = _log_binomials(n + m)
    for total in range(n + m + 1):
        first = np.arange(max(total - m, 0), min(n, total) + 1)
        chances = np.exp(log_chances[first, total - first] - log_totals[total])
        ordered = np.sort(chances)
        tails = np.cumsum(ordered)
        last = np.searchsorted(ordered, chances * (1 + TIE), side="right") - 1
        p[first, total - first] = np.minimum(tails[last], 1.0)
    return p


@lru_cache(maxsize=64)
def _binomial_chances(n: int) -> Floats:
    """Return the probability of each number of successes at each of SHARES rates, shape (SHARES, n + 1)."""
    shares = np.sin(np.linspace(0, np.pi / 2, SHARES + 2)[1:-1]) ** 2
    chances: Floats = scipy.stats.binom.pmf(np.arange(n + 1), n, shares[:, None])
    return chances


def _log_binomials(n: int) -> Floats:
    """Return the logarithms of the binomial coefficients of n, shape (n + 1,)."""
    k = np.arange(n + 1)
    logs: Floats = (
        scipy.special.gammaln(n + 1) - scipy.special.gammaln(k + 1) - scipy.special.gammaln(n - k + 1)
    )
    return logs
