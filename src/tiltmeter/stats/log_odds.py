"""Which words a group uses more than the others do, with rare words held back by what is known of the language at large."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["LogOdds", "log_odds"]


class LogOdds(NamedTuple):
    """Log-odds ratio of each group against the others pooled (natural logarithm), and how many standard errors it is from 0."""

    estimate: NDArray[np.float64]
    z: NDArray[np.float64]


def log_odds(counts: ArrayLike, totals: ArrayLike, prior: ArrayLike) -> LogOdds:
    """Return log-odds ratios with an informative Dirichlet prior, of each group against all others together.

    Args:
        counts: (..., k) uses of a word by each of k groups.
        totals: (..., k), or what broadcasts to it: uses of all words by each group; at least `counts`.
        prior: (..., 2), or what broadcasts to it: the pseudo-counts of the word and of all words together, such as its uses in a
            background corpus, scaled to the weight the prior is to have; word below total.

    Returns:
        Estimates and z of shape (..., k); NaN where a side has nothing to go by: no count of the word with no prior for it,
        or nothing but the word.

    Raises:
        ValueError: if a count is negative or above its total, or a prior negative or its word's above its total.

    Source: Monroe, Colaresi and Quinn (2008), "Fightin' Words", equations 16 (prior), 20 and 22, each group against the rest.
    """
    counts, totals = np.broadcast_arrays(np.asarray(counts, dtype=np.float64), np.asarray(totals, dtype=np.float64))
    prior = np.asarray(prior, dtype=np.float64)
    word, everything = prior[..., :1], prior[..., 1:]
    if (counts < 0).any() or (counts > totals).any():
        raise ValueError("counts must lie between 0 and their totals")
    if (word < 0).any() or (word > everything).any():
        raise ValueError("the prior of a word must lie between 0 and that of all words")
    others, others_totals = counts.sum(axis=-1, keepdims=True) - counts, totals.sum(axis=-1, keepdims=True) - totals
    uses, uses_others = counts + word, others + word
    rest, rest_others = totals + everything - uses, others_totals + everything - uses_others
    told = (uses > 0) & (uses_others > 0) & (rest > 0) & (rest_others > 0)
    ratio = np.divide(uses * rest_others, rest * uses_others, out=np.full(told.shape, np.nan), where=told)
    variance = np.divide(uses + uses_others, uses * uses_others, out=np.full(told.shape, np.nan), where=told)
    estimate = np.log(ratio)
    return LogOdds(estimate, estimate / np.sqrt(variance))
