"""False discovery rate control over families of tests.

First families are selected, then tests within the selected families.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tiltmeter._arrays import Floats, Index
from tiltmeter.stats._arithmetic import floats, ratio
from tiltmeter.stats._tests import benjamini_hochberg


def hierarchical_q(p: ArrayLike, family: ArrayLike) -> Floats:
    """Compute q-values that control the false discovery rate of families, and of tests within them.

    The procedure at a level selects families by Benjamini and Hochberg (1995) on their p-values after Simes
    (1986), which are valid for independent and positively dependent tests: those whose adjusted p-value is
    below the level. If R of F families are selected, it selects tests within them by the same procedure at R
    / F of the level. This controls the false discovery proportion averaged over the selected families.

    R never falls if the level rises, so a test that is selected at one level is selected at all higher ones.
    The q-value is the smallest of these levels: for each level above 0, up to 1, the procedure selects the
    tests with q below the level, and no others.

    Parameters
    ----------
    p
        (T,) p-values; NaN stays NaN and is in no family.
    family
        (T,) number of each test's family, 0 to F - 1. Families without a p-value do not count in F.

    Returns
    -------
    (T,) q-values, from 0 to 1.

    Raises
    ------
    ValueError
        If a p-value lies outside [0, 1].

    References
    ----------
    Benjamini and Bogomolov (2014), "Selective inference on multiple families of hypotheses"; the q-values
    invert their procedure.
    """
    values, families = floats(p), np.asarray(family, dtype=np.intp)
    table = _adjusted(values, families)
    of_family = benjamini_hochberg(np.fmin.reduce(table, axis=1, initial=np.nan))
    within = table[families, _places(families)]
    q = np.maximum(of_family[families], _smallest_levels(within, of_family))
    return np.where(np.isnan(values), np.nan, np.minimum(q, 1.0))


def _smallest_levels(within: Floats, of_family: Floats) -> Floats:
    """Compute the smallest level at which enough families are selected for each test.

    The family of the test is taken as one of the selected ones.

    At a level between the adjusted p-values of the R-th and the next family, R of F families are selected,
    and a test with the value w within its family is selected above the level w F / R. The result is the
    minimum over R of max(R-th adjusted p-value, w F / R). The first term rises with R and the second falls,
    so the minimum is at one of the two R next to their crossing.

    Parameters
    ----------
    within
        (T,) Benjamini-Hochberg adjusted p-values within each family.
    of_family
        (F,) adjusted p-values of the families; NaN is left out.
    """
    ordered = np.sort(of_family[~np.isnan(of_family)])
    needed = within * len(ordered)
    ranks = np.arange(1, len(ordered) + 1)
    crossing = np.searchsorted(ordered * ranks, needed)  # families selected just before the level suffices
    by_family = np.append(ordered, np.inf)[crossing]
    levels: Floats = np.fmin(by_family, ratio(needed, crossing))
    return levels


def _adjusted(p: Floats, family: Index) -> Floats:
    """Compute Benjamini-Hochberg adjusted p-values within each family.

    The shape is (F, size of the largest family); NaN fills the rest.
    """
    sizes = np.bincount(family)
    table = np.full((len(sizes), int(sizes.max(initial=0))), np.nan)
    table[family, _places(family)] = p
    return benjamini_hochberg(table, axis=-1)


def _places(family: Index) -> Index:
    """Return the number of each test within its family, from 0, shape (T,)."""
    order, sizes = np.argsort(family, kind="stable"), np.bincount(family)
    first = np.cumsum(sizes) - sizes
    places = np.empty_like(family)
    places[order] = np.arange(len(family)) - np.repeat(first, sizes)
    return places
