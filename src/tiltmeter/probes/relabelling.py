"""Attempts with other labels than those read, and what these change in the counts of their items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import polars as pl
from polars import DataFrame, Expr, Float64, col, lit, when

from tiltmeter.probes.analysis import CountedItems
from tiltmeter.schema import REFUSED

if TYPE_CHECKING:
    from tiltmeter.arrays import Floats

ATTEMPT = ("prompt_id", "repetition")
"""Columns that identify an attempt."""


class RelabelledAttempts:
    """Attempts with other labels than those read, and what these change in the counts of their items.

    Parameters
    ----------
    counted
        All attempts with the counts of their items.
    recount
        Function from attempts to one row per item, with the columns of `counted`.
    labels
        The possible labels of an attempt.
    given
        One row per label: ATTEMPT and `said`, sorted by attempt. An attempt may have labels of several
        annotators.
    """

    def __init__(
        self,
        counted: CountedItems,
        recount: Callable[[DataFrame], DataFrame],
        labels: Sequence[str],
        given: DataFrame,
    ) -> None:
        numbered = given.with_columns(number=pl.int_range(pl.len(), dtype=pl.Int32))
        of_attempt = numbered.group_by(ATTEMPT, maintain_order=True).agg(pl.len())
        self._recount = recount
        self._labels = labels
        self._names = counted.names
        self._annotators = of_attempt["len"].to_numpy()
        self._starts = (of_attempt["len"].cum_sum() - of_attempt["len"]).to_numpy()
        items = counted.measures.select(*ATTEMPT, "item")
        labelled = numbered.join(items, on=ATTEMPT).select(
            "number", "said", "item", *(col(name).alias(f"of_{name}") for name in ATTEMPT)
        )
        copies = (
            counted.measures.join(labelled, on="item")
            .sort("number", maintain_order=True)
            .with_columns(item=col.number)
        )
        self._is_labelled = pl.all_horizontal(col(name) == col(f"of_{name}") for name in ATTEMPT)
        self._copies = copies
        """The items of all labelled attempts, one copy for each label."""
        self._as_read = self._averaged(recount(copies))

    def changes(self, label: Expr) -> Floats:
        """Return what this label of each attempt changes in the totals, shape (attempts, columns)."""
        return self._averaged(self._counts(label, self._copies)) - self._as_read

    def possible_changes(self) -> Floats:
        """Return what each possible label changes, shape (attempts, labels, columns)."""
        import numpy as np

        return np.stack([self.changes(lit(label)) for label in (*self._labels, REFUSED)], axis=1)

    def alone(self, label: Expr) -> Floats:
        """Return the totals of each attempt alone with this label, shape (attempts, columns)."""
        return self._averaged(self._counts(label, self._copies.filter(self._is_labelled)))

    def _counts(self, label: Expr, rows: DataFrame) -> DataFrame:
        known = label.is_in(self._labels)
        outcome = (
            when(known).then(lit("answered")).when(label == REFUSED).then(label).otherwise(lit("unreadable"))
        )
        relabelled = rows.with_columns(
            label=when(self._is_labelled).then(when(known).then(label)).otherwise("label"),
            outcome=when(self._is_labelled).then(outcome).otherwise("outcome"),
        )
        return self._recount(relabelled)

    def _averaged(self, counts: DataFrame) -> Floats:
        """Average the columns over the annotators of each attempt."""
        import numpy as np

        values = counts.sort("item").select(self._names).cast(Float64).to_numpy()
        averaged: Floats = np.add.reduceat(values, self._starts, axis=0) / self._annotators[:, None]
        return averaged
