"""What became of the attempts a metric rests on: the cell of the design that its name and `where` narrow it to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from tiltmeter.study import OUTCOMES

__all__ = ["Cell", "Cells"]


class Cell(NamedTuple):
    """Counts of one cell: attempts, items with a readable answer, and attempts by outcome."""

    n: int = 0
    items: int = 0
    answered: int = 0
    refused: int = 0
    unreadable: int = 0
    empty: int = 0
    failed: int = 0

    @property
    def readable(self) -> float:
        """Share of the attempts that could be read; 0 where there are none."""
        return self.answered / self.n if self.n else 0.0


class Cells:
    """Counts by cell. Each combination of factors is grouped once, whatever the number of metrics."""

    def __init__(self, measures: pl.DataFrame) -> None:
        self._measures = measures
        self._grouped: dict[tuple[str, ...], dict[tuple[str, ...], Cell]] = {}

    def of(self, condition: Mapping[str, str]) -> Cell:
        """Counts of the attempts whose factors have these values (given as text)."""
        factors = tuple(sorted(condition))
        if factors not in self._grouped:
            self._grouped[factors] = self._group(factors)
        return self._grouped[factors].get(tuple(condition[name] for name in factors), Cell())

    def _group(self, factors: tuple[str, ...]) -> dict[tuple[str, ...], Cell]:
        outcome = pl.col("outcome")
        counts = {
            "n": pl.len(),
            "items": pl.col("item").filter(outcome == "answered").n_unique(),
            **{name: (outcome == name).sum() for name in OUTCOMES},
        }
        if not factors:
            table = self._measures.select(**counts)
        else:
            table = self._measures.group_by(pl.col(name).cast(pl.String) for name in factors).agg(**counts)
        cells = table.select(Cell._fields).rows()
        keys = table.select(factors).rows() if factors else [()]
        return {key: Cell(*cell) for key, cell in zip(keys, cells, strict=True)}
