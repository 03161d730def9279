"""The values of one group in many resamples, and what several statistics need of them, computed once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiltmeter.stats._ranks import EPSILON, order_codes, ranks
from tiltmeter.stats._standards import Options, sorted_quantile

__all__ = ["Sample"]

Floats = NDArray[np.float64]
Whole = NDArray[Any]
LONG = 512  # values from which on putting one in its place is quicker than sorting all


class Sample:
    """The values of one group in one or more resamples, and what several statistics need of them."""

    def __init__(
        self,
        values: Floats,
        baseline: Floats | None,
        standard: Floats,
        options: Options,
        original: bool,
        codes: tuple[Whole, Whole | None] | None = None,
    ) -> None:
        """`values` (C, ..., n), `baseline` the same or None; NaN is missing. `standard` broadcasts against `values`.

        `codes` order the values and the baselines (`order_codes` of all rows they were drawn from), so that ranking resamples is fast.
        """
        self.values, self.baseline, self.standard, self.options, self.original = values, baseline, standard, options, original
        self._codes = codes
        self._distinct: Callable[[], Whole] | None = None

    def paired_with(self, baselines: Floats, of: NDArray[np.intp], paired: NDArray[np.bool_], codes: Whole | None) -> Sample:
        """Return the sample of the `paired` columns (C), each with the row `of` it in `baselines` (B, ..., n) and their `codes`."""
        rows = of[paired]
        values = self.values if paired.all() else self.values[paired]
        standard = self.standard[paired] if len(self.standard) == len(paired) else self.standard
        both = None if codes is None or self._codes is None else (self._codes[0][paired], codes[rows])
        sample = Sample(values, np.take(baselines, rows, axis=0), standard, self.options, self.original, both)
        if codes is not None:
            sample._distinct = lambda: ranks(codes)[rows]
        return sample

    @cached_property
    def present(self) -> NDArray[np.bool_]:
        """Which values are not missing."""
        return ~np.isnan(self.values)

    @cached_property
    def complete(self) -> bool:
        """Whether none is missing."""
        return bool(self.present.all())

    @cached_property
    def count(self) -> Floats:
        """How many values there are."""
        if self.complete:
            return np.full(self.values.shape[:-1], float(self.values.shape[-1]))
        found: Floats = self.present.sum(axis=-1).astype(np.float64)
        return found

    @cached_property
    def mean(self) -> Floats:
        """Their mean."""
        filled = self.values if self.complete else np.where(self.present, self.values, 0.0)
        found: Floats = filled.sum(axis=-1) / self.count
        return found

    @cached_property
    def deviations(self) -> Floats:
        """Deviations from the mean, 0 where missing."""
        away = self.values - self.mean[..., None]
        return away if self.complete else np.where(self.present, away, 0.0)

    @cached_property
    def squares(self) -> Floats:
        """Squared deviations."""
        return self.deviations * self.deviations

    @cached_property
    def spread(self) -> Floats:
        """Mean squared deviation."""
        found: Floats = self.squares.sum(axis=-1) / self.count
        return found

    @cached_property
    def constant(self) -> NDArray[np.bool_]:
        """Whether the deviations are but rounding."""
        return self.spread <= (EPSILON * self.mean) ** 2

    @cached_property
    def ordered(self) -> Floats:
        """The values sorted, what is missing last."""
        return np.sort(self.values, axis=-1)

    @cached_property
    def alone(self) -> NDArray[np.bool_] | None:
        """Where the value or its baseline is missing; None: nowhere."""
        assert self.baseline is not None
        either = np.isnan(self.values + self.baseline)
        return either if either.any() else None

    @cached_property
    def pairs(self) -> tuple[Floats, Floats]:
        """Values and baseline, both missing where either is."""
        assert self.baseline is not None
        if self.alone is None:
            return self.values, self.baseline
        return np.where(self.alone, np.nan, self.values), np.where(self.alone, np.nan, self.baseline)

    @cached_property
    def pair_count(self) -> Floats:
        """How many pairs there are."""
        if self.alone is None:
            return np.full(self.values.shape[:-1], float(self.values.shape[-1]))
        found: Floats = (~self.alone).sum(axis=-1).astype(np.float64)
        return found

    @cached_property
    def pair_ranks(self) -> tuple[Whole, Whole]:
        """Twice the ranks of `pairs`, 0 where missing; a baseline that many columns share is ranked once."""
        x, y = self._codes or (None, None)
        if x is None or y is None:
            n = self.values.shape[-1]
            x, y = (order_codes(side.reshape(-1, n)).reshape(side.shape) for side in self.pairs)
        if self.alone is None and self._distinct is not None:
            return ranks(x), self._distinct()
        return ranks(x, self.alone), ranks(y, self.alone)

    def quantile(self, share: float) -> Floats:
        """Return a quantile of the values (linear interpolation)."""
        size = self.values.shape[-1]
        if "ordered" in self.__dict__ or size < LONG or not self.complete:
            return sorted_quantile(self.ordered, self.count, share)
        place = (size - 1) * share
        low = int(place)
        parted = np.partition(self.values, low, axis=-1)
        below = parted[..., low]
        above = np.min(parted[..., low + 1 :], axis=-1) if low + 1 < size else below
        found: Floats = below + (above - below) * (place - low)
        return found
