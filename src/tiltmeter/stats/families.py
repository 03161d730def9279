"""False discovery rate control over families of tests: selection of families, and of tests within the selected families."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tiltmeter.arrays import Floats, Index
from tiltmeter.stats.arithmetic import floats
from tiltmeter.stats.tests import benjamini_hochberg


def hierarchical_q(p: ArrayLike, family: ArrayLike, level: float) -> Floats:
    """Compute q-values that control the false discovery rate of families, and of tests within the selected families.

    Families are selected by the Benjamini-Hochberg procedure on their p-values after Simes (1986), which are valid for independent and
    positively dependent tests. If R of F families are selected, tests within them
    are selected by the same procedure at R / F of the level. This controls the false discovery proportion averaged over selected families.

    Parameters
    ----------
    p
        (T,) p-values; NaN stays NaN.
    family
        (T,) number of each test's family, 0 to F - 1.
    level
        False discovery rate to control. The procedure selects the tests with q < level; q has no meaning at other levels.

    Returns
    -------
    (T,) q-values.

    References
    ----------
    Benjamini and Bogomolov (2014), "Selective inference on multiple families of hypotheses".
    """
    values, families = floats(p), np.asarray(family, dtype=np.intp)
    table = _adjusted(values, families)
    of_family = benjamini_hochberg(np.fmin.reduce(table, axis=1, initial=np.nan))
    tested, selected = int((~np.isnan(of_family)).sum()), int((of_family < level).sum())
    within = table[families, _places(families)]
    q = np.maximum(of_family[families], within * tested / max(selected, 1))
    return np.where(np.isnan(values), np.nan, np.minimum(q, 1.0))


def _adjusted(p: Floats, family: Index) -> Floats:
    """Compute Benjamini-Hochberg adjusted p-values within each family, shape (F, size of the largest family); NaN fills the rest."""
    sizes = np.bincount(family)
    table = np.full((len(sizes), int(sizes.max(initial=0))), np.nan)
    table[family, _places(family)] = p
    return benjamini_hochberg(table, axis=-1)


def _places(family: Index) -> Index:
    """Return the number of each test within its family, from 0, shape (T,)."""
    order, sizes = np.argsort(family, kind="stable"), np.bincount(family)
    places = np.empty_like(family)
    places[order] = np.arange(len(family)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return places
