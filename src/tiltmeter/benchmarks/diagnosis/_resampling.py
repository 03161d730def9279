"""Which rows stand in which group, in the data, in bootstrap resamples and under permutation of group labels.

A layout is a list, one entry for each group, of (R, n_g) row numbers; the number N, one past the last row, stands for "no row". Every
resample has a generator of its own, so that it is the same whichever others are drawn beside it.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bootstrap", "Layout", "Observed", "Permutation", "Plan"]

Index = NDArray[np.intp]
Layout = list[Index]
FEWEST_UNITS = 5  # units of rarer patterns of groups are resampled together: among fewer there is little to draw


class Plan(Protocol):
    """A way to lay out rows in groups, many times."""

    size: int
    gaps: bool
    """Whether a layout may say "no row"."""

    def layout(self, first: int, last: int) -> Layout:
        """Rows of every group in the resamples `first` to `last` - 1."""
        ...


class Observed:
    """The data as they are: one layout."""

    size = 1
    gaps = False

    def __init__(self, codes: Index, groups: int) -> None:
        self._rows = [np.nonzero(codes == group)[0][None, :] for group in range(groups)]

    def layout(self, first: int, last: int) -> Layout:
        del first, last
        return self._rows


class Permutation:
    """Group labels exchanged among the rows of each unit (all rows, where there are no units)."""

    gaps = False

    def __init__(self, codes: Index, groups: int, units: Index | None, size: int, seed: int) -> None:
        self.size, self._seed = size, seed
        unit = np.zeros(len(codes), dtype=np.intp) if units is None else units
        self._rows = np.argsort(unit, kind="stable")
        self._unit = unit[self._rows].astype(np.float64)
        labels = codes[self._rows]
        self._places = [np.nonzero(labels == group)[0] for group in range(groups)]

    def layout(self, first: int, last: int) -> Layout:
        rows = np.empty((last - first, len(self._rows)), dtype=np.intp)
        for row, number in zip(rows, range(first, last), strict=True):
            # Units stay in their order, and rows within a unit are shuffled by the fraction.
            key = self._unit + np.random.default_rng([self._seed, 1, number]).random(len(row))
            row[:] = self._rows[np.argsort(key)]
        return [rows[:, places] for places in self._places]


class Bootstrap:
    """Units drawn with replacement, from units with the same groups; rows within groups, where there are no units.

    Units that cover the same set of groups form a stratum (all of them, in a complete design; one stratum for each group, where every unit
    is of one group); the units of rare sets form one together. A drawn unit brings all its rows, so that what is paired stays paired.
    """

    gaps = True

    def __init__(self, codes: Index, groups: int, units: Index | None, size: int, seed: int) -> None:
        self.size, self._seed, self._missing = size, seed, len(codes)
        units = np.arange(len(codes)) if units is None else units
        count = int(units.max()) + 1
        strata = _strata(codes, groups, units, count)
        order = np.argsort(strata, kind="stable")
        sizes = np.bincount(strata)
        self._first = np.repeat(np.cumsum(sizes) - sizes, sizes)
        self._sizes = np.repeat(sizes, sizes)
        self._order = order
        self._groups = [self._tables(codes, units, strata, group, count) for group in range(groups)]

    def layout(self, first: int, last: int) -> Layout:
        drawn = np.empty((last - first, len(self._order)), dtype=np.intp)
        for row, number in zip(drawn, range(first, last), strict=True):
            shares = np.random.default_rng([self._seed, 2, number]).random(len(row))
            row[:] = self._order[self._first + (shares * self._sizes).astype(np.intp)]
        return [table[drawn[:, places]].reshape(len(drawn), -1) for places, table in self._groups]

    def _tables(self, codes: Index, units: Index, strata: Index, group: int, count: int) -> tuple[Index, Index]:
        """The draws that may bring a row of a group, and the rows of each unit in it (units x the most rows of one)."""
        rows = np.nonzero(codes == group)[0]
        rows = rows[np.argsort(units[rows], kind="stable")]
        of = units[rows]
        begins = np.concatenate([[True], of[1:] != of[:-1]])
        places = np.arange(len(rows))
        number = places - np.maximum.accumulate(np.where(begins, places, 0))
        table = np.full((count, int(number.max()) + 1), self._missing, dtype=np.intp)
        table[of, number] = rows
        draws = np.nonzero(np.isin(strata[self._order], np.unique(strata[of])))[0]
        return draws, table


def _strata(codes: Index, groups: int, units: Index, count: int) -> Index:
    pairs = np.unique(units.astype(np.int64) * groups + codes)
    # A sum of random numbers, one for each group, names a set of groups.
    names = np.random.default_rng(0).integers(1 << 40, size=groups)
    sets = np.zeros(count, dtype=np.int64)
    np.add.at(sets, pairs // groups, names[pairs % groups])
    _, pattern, sizes = np.unique(sets, return_inverse=True, return_counts=True)
    alone = np.bincount(pairs // groups, minlength=count) == 1
    rare = (sizes[pattern] < FEWEST_UNITS) & ~alone
    found: Index = np.where(rare, len(sizes), pattern)
    return np.unique(found, return_inverse=True)[1]
