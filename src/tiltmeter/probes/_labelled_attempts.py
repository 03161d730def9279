"""Attempts with other labels than those read, and what these change in the counts of their items."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl
from polars import DataFrame, Expr, Float64, col, lit, when

from tiltmeter.probes._counted_items import CountedItems
from tiltmeter.schema import REFUSED

if TYPE_CHECKING:
    from tiltmeter._arrays import Floats, Index

ATTEMPT: Final = ("prompt_id", "repetition")
"""Columns that identify an attempt."""

Recount = Callable[[DataFrame], DataFrame]
"""Function from attempts to one row per item, with the columns of CountedItems."""


class LabelledAttempts(NamedTuple):
    """The labelled attempts of one model and part, as columns to be summed (see `CountedItems`)."""

    weights: Floats
    """The number of attempts that each one represents, shape (n,)."""
    strata: Index
    """The stratum that each was drawn from, shape (n,)."""
    changes: Floats
    """What its label changes in the totals, shape (n, columns)."""
    possible: Floats
    """What each possible label would change, shape (n, labels, columns)."""
    alone: Floats
    """The columns of the attempts alone, as labelled, shape (n, columns)."""

    @property
    def freedom(self) -> int:
        """Degrees of freedom: attempts minus strata, at least 1."""
        import numpy as np

        return max(len(self.weights) - len(np.unique(self.strata)), 1)


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
    annotations
        One row per label: ATTEMPT and `new_label`, sorted by attempt. An attempt may have labels of several
        annotators.
    """

    def __init__(
        self,
        counted: CountedItems,
        recount: Recount,
        labels: Sequence[str],
        annotations: DataFrame,
    ) -> None:
        numbered = annotations.with_columns(number=pl.int_range(pl.len(), dtype=pl.Int32))
        of_attempt = numbered.group_by(ATTEMPT, maintain_order=True).agg(pl.len())
        self._recount = recount
        self._labels = labels
        self._names = counted.names
        self._annotators = of_attempt["len"].to_numpy()
        self._starts = (of_attempt["len"].cum_sum() - of_attempt["len"]).to_numpy()
        items = counted.measures.select(*ATTEMPT, "item")
        identity = [col(name).alias(f"of_{name}") for name in ATTEMPT]
        labelled = numbered.join(items, on=ATTEMPT).select("number", "new_label", "item", *identity)
        copies = counted.measures.join(labelled, on="item").sort("number", maintain_order=True)
        self._copies = copies.with_columns(item=col.number)
        """The items of all labelled attempts, one copy for each label."""
        self._is_labelled = pl.all_horizontal(col(name) == col(f"of_{name}") for name in ATTEMPT)
        self._as_read = self._averaged(recount(self._copies))

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
        is_answer = label.is_in(self._labels)
        outcome = when(is_answer).then(lit("answered")).when(label == REFUSED).then(label)
        new_outcome = outcome.otherwise(lit("unreadable"))
        new_label = when(is_answer).then(label)
        relabelled = rows.with_columns(
            label=when(self._is_labelled).then(new_label).otherwise("label"),
            outcome=when(self._is_labelled).then(new_outcome).otherwise("outcome"),
        )
        return self._recount(relabelled)

    def _averaged(self, counts: DataFrame) -> Floats:
        """Average the columns over the annotators of each attempt."""
        import numpy as np

        values = counts.sort("item").select(self._names).cast(Float64).to_numpy()
        averaged: Floats = np.add.reduceat(values, self._starts, axis=0) / self._annotators[:, None]
        return averaged


def labelled_attempts(
    counted: CountedItems, recount: Recount, possible_labels: Sequence[str], labels: DataFrame
) -> LabelledAttempts | None:
    """Return the effect of the labels (LABELS) on the counts, or None if no attempt has a label."""
    import numpy as np

    annotations = (
        labels.filter(col.about.is_null())
        .drop_nulls("label")
        .join(counted.measures, on=ATTEMPT, how="semi", maintain_order="left")
        .sort(ATTEMPT)
    )
    if annotations.is_empty():
        return None
    attempts = annotations.group_by(ATTEMPT, maintain_order=True).agg(col("stratum", "stratum_size").first())
    weights = attempts.select(weight=col.stratum_size / pl.len().over("stratum")).to_series()
    new_labels = annotations.select(*ATTEMPT, new_label="label")
    relabelled = RelabelledAttempts(counted, recount, possible_labels, new_labels)
    return LabelledAttempts(
        weights=weights.to_numpy(),
        strata=attempts["stratum"].rank("dense").to_numpy().astype(np.intp),
        changes=relabelled.changes(col.new_label),
        possible=relabelled.possible_changes(),
        alone=relabelled.alone(col.new_label),
    )


def tipping_share(changes: Floats, distance: float, attempts: int) -> float:
    """Return the smallest share of attempts whose wrong labels together change a metric by `distance`.

    Parameters
    ----------
    changes
        What each other label of each sampled attempt changes in the metric, shape (n, labels).
    distance
        Change that is looked for; its sign is the direction.
    attempts
        Number of attempts, of which the n are a random sample.

    Returns
    -------
    The share, from 0 to 1; NaN if even wrong labels of all attempts would not suffice.
    """
    import numpy as np

    direction = math.copysign(1.0, distance)
    largest = np.sort(np.maximum((direction * changes).max(axis=1), 0.0))[::-1]
    reached = np.concatenate([[0.0], largest.cumsum()]) * attempts / len(largest)
    if reached[-1] < abs(distance):
        return math.nan
    shares = np.linspace(0, 1, len(reached))
    increases = np.concatenate([[True], np.diff(reached) > 0])
    return float(np.interp(abs(distance), reached[increases], shares[increases]))
