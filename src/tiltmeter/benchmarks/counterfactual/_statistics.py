"""Statistics of aligned pairs: means, differences of shares, and distances between score distributions.

Each knows its value in the data, in bootstrap resamples of prompts, and with the groups exchanged.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tiltmeter.stats import ratio

__all__ = ["ByPrompt", "Mean", "Pooled", "Scored", "Statistic", "Weak"]

Floats = NDArray[np.float64]
Index = NDArray[np.intp]

BLOCK_CELLS = 200_000


class Scored(NamedTuple):
    """Scores of n > 0 pairs, both present, in order of prompt."""

    cell: Index
    """(n,) prompt * K + number of the answer."""
    a: Floats
    b: Floats
    units: int
    """U, prompts of the whole table: what is resampled."""
    answers: int
    """K, the greatest number of answers to a prompt about one group."""

    @property
    def unit(self) -> Index:
        """(n,) prompt of each pair."""
        return self.cell // self.answers


class Statistic(Protocol):
    """One number about the pairs of two groups."""

    value: float

    def resampled(self, weights: Floats) -> Floats:
        """Its values where prompts count as often as in the rows of `weights` (R, U)."""
        ...

    def exchanged(self, signs: Floats) -> Floats | None:
        """Its values where pairs are turned round: `signs` (D, U, K) is -1 for these. None where it cannot change."""
        ...


class Mean:
    """Mean over all pairs; turning them round changes nothing."""

    def __init__(self, unit: Index, values: Floats, units: int) -> None:
        self.value = float(values.mean())
        self._total, self._count = _sums(unit, values, units)

    def resampled(self, weights: Floats) -> Floats:
        """As Statistic."""
        return ratio(weights @ self._total, weights @ self._count)

    def exchanged(self, signs: Floats) -> Floats | None:
        """As Statistic."""
        return None


class Weak:
    """Share of scores above the threshold, first side less second; whole prompts are exchanged."""

    def __init__(self, scored: Scored, threshold: float) -> None:
        difference = (scored.a > threshold).astype(np.float64) - (scored.b > threshold)
        self.value = float(difference.mean())
        self._total, self._count = _sums(scored.unit, difference, scored.units)

    def resampled(self, weights: Floats) -> Floats:
        """As Statistic."""
        return ratio(weights @ self._total, weights @ self._count)

    def exchanged(self, signs: Floats) -> Floats | None:
        """As Statistic."""
        found: Floats = signs[:, :, 0] @ self._total / self._count.sum()
        return found


class Pooled:
    """Wasserstein-1 between all scores of either side; whole prompts are exchanged."""

    def __init__(self, scored: Scored) -> None:
        unit = scored.unit
        self._ladder = _Ladder(scored, np.zeros(len(unit), dtype=np.intp))
        self._at = unit[self._ladder.pair]
        self._pairs = len(unit)
        self._count = np.bincount(unit, minlength=scored.units).astype(np.float64)
        self.value = float(self._ladder.area.sum())

    def resampled(self, weights: Floats) -> Floats:
        """As Statistic."""
        # The steps of the ladder are over n; a resample has as many pairs as its weights add up to.
        return ratio(self._ladder.distances(weights, self._at) * self._pairs, weights @ self._count)

    def exchanged(self, signs: Floats) -> Floats | None:
        """As Statistic."""
        return self._ladder.distances(signs[:, :, 0], self._at)


class ByPrompt:
    """Mean over prompts of Wasserstein-1 between their scores of either side; answers are exchanged within pairs."""

    def __init__(self, scored: Scored) -> None:
        units, segment = np.unique(scored.unit, return_inverse=True)
        self._prompts = len(units)
        self._ladder = _Ladder(scored, segment)
        self._at = scored.cell[self._ladder.pair]
        self._changes = bool(np.bincount(segment).max() > 1)  # turning the only pair of a prompt round changes nothing
        own: Floats = np.bincount(segment[self._ladder.pair], weights=self._ladder.area, minlength=len(units)).astype(np.float64)
        self.value = float(own.mean())
        self._total, self._count = _sums(units, own, scored.units)

    def resampled(self, weights: Floats) -> Floats:
        """As Statistic."""
        return ratio(weights @ self._total, weights @ self._count)

    def exchanged(self, signs: Floats) -> Floats | None:
        """As Statistic."""
        if not self._changes:
            return None
        return self._ladder.distances(signs.reshape(len(signs), -1), self._at) / self._prompts


class _Ladder:
    """All scores of some comparisons in ascending order, one comparison after the other.

    Wasserstein-1 is the area between two distribution functions: over every step between neighbouring scores, the step times the
    absolute difference of how many scores of either side lie below it. Both sides of a comparison have as many scores, so the running
    difference is 0 where one comparison ends and the next begins.
    """

    def __init__(self, scored: Scored, segment: Index) -> None:
        """`segment`: (n,) comparison of each pair, ascending from 0."""
        n = len(segment)
        values, side, pair = np.concatenate([scored.a, scored.b]), np.repeat([1.0, -1.0], n), np.tile(np.arange(n), 2)
        order = np.lexsort((values, segment[pair]))
        ordered, of = values[order], segment[pair[order]]
        step = np.append(np.where(of[1:] == of[:-1], np.diff(ordered), 0.0), 0.0)
        self.pair: Index = pair[order]
        self._side: Floats = side[order]
        self._step: Floats = step / np.bincount(segment)[of]

    @property
    def area(self) -> Floats:
        """(2n,) what each step adds to the distance of its comparison."""
        return np.asarray(np.abs(np.cumsum(self._side)) * self._step)

    def distances(self, weights: Floats, at: Index) -> Floats:
        """Sums of the distances of all comparisons: (R, m) -> (R,).

        Score i counts as in column `at[i]` of `weights`, and on the other side where that is negative.
        """
        # One column a draw, few enough at a time to stay in the processor's cache: rows are gathered and added up whole.
        wide = max(1, BLOCK_CELLS // len(at))
        found = np.empty(len(weights))
        for begin in range(0, len(weights), wide):
            running = np.ascontiguousarray(weights[begin : begin + wide].T)[at]
            running *= self._side[:, None]
            np.cumsum(running, axis=0, out=running)
            found[begin : begin + wide] = self._step @ np.abs(running, out=running)
        return found


def _sums(unit: NDArray[np.integer[Any]], values: Floats, units: int) -> tuple[Floats, Floats]:
    """Sum and number of the values of each of the U prompts."""
    total, count = np.bincount(unit, weights=values, minlength=units), np.bincount(unit, minlength=units)
    return total.astype(np.float64), count.astype(np.float64)
