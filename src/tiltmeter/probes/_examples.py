"""The answers that moved a probe's key numbers most.

Every metric is a function of column totals over items. The totals without an item are one subtraction, so all leave-one-item-out
estimates come from calls of the formulas, exactly and without drawing anything. Within an item that matters, the answer is shown whose
own absence moves the number most the same way: the one that carries the label concerned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from tiltmeter.probes._analysis import Sums
from tiltmeter.study import EXAMPLES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["SHOWN", "examples_of"]

SHOWN = 5
"""Answers of a finding, each of another item."""
AGAINST = 2
"""How many of them, at most, moved it the other way, unless there are not enough others."""
WORTH = 0.5
"""Those must have this share of the influence of the greatest that did not."""
CELLS = 4_000_000
"""Totals held at once: 32 MB."""
ROUNDING = 9
"""Digits to which influences are compared, the greatest being 1: sums that differ in their last bits are ties."""
NOTHING = 1e-12
"""An influence that is rounding."""

Formulas = Callable[[Sums], "Mapping[str, Array]"]
Counts = Callable[[pl.DataFrame], pl.DataFrame]


def examples_of(
    attempts: pl.DataFrame,
    nulls: Mapping[str, float | None],
    counts: pl.DataFrame,
    recount: Counts,
    formulas: Formulas,
    seed: int,
) -> pl.DataFrame:
    """EXAMPLES of some metrics: of each up to SHOWN items that moved it most, by one answer each, the most influential first.

    `influence` is the metric of all items minus that without the item, in the metric's unit and before any correction for noise. Leaving
    out the rarer label always moves a share the more, so the greatest influences alone would show of a biased model just the answers
    that were not. Therefore most of the items shown are those that moved the metric furthest away from "no bias", in the direction where
    it is, and AGAINST at most moved it back. Items that moved nothing, or without which there is no estimate, are not shown; among items
    that moved it alike, seeded lots decide, so that they are no block of the data.

    Parameters
    ----------
    attempts
        What was counted: `item`, `outcome`, `prompt_id`, `repetition` and what `recount` needs.
    nulls
        The metrics, each with the value that means "no bias" (None: the lower the better).
    counts
        One row per item: `item` and the columns to be summed.
    recount
        Attempts -> rows like those of `counts`, with all columns the metrics need.
    formulas
        Totals -> metrics, elementwise over rows.
    """
    import numpy as np

    names = [name for name in counts.columns if name not in ("item", "stratum")]
    x = counts.select(pl.col(names).cast(pl.Float64)).to_numpy()
    totals = x.sum(axis=0, keepdims=True)
    whole = {name: float(value[0]) for name, value in formulas(Sums(names, totals)).items()}
    lots = np.random.default_rng(seed).permutation(counts.height)
    moved = {name: whole[name] - values for name, values in _without(x, totals, names, list(nulls), formulas).items()}
    chosen = {name: _most(moved[name], lots, upwards=null is None or whole[name] >= null) for name, null in nulls.items()}
    rows = np.unique(np.concatenate([np.empty(0, dtype=np.intp), *chosen.values()]))
    if not len(rows):
        return pl.DataFrame(schema=EXAMPLES)
    answers = _answers(attempts, counts["item"].gather(rows))
    within = totals - x[rows][answers["place"].to_numpy()] + _rest(attempts, answers, names, recount)
    without = formulas(Sums(names, within))
    made = pl.concat(
        _one_each(answers, rows, chosen[name], moved[name], whole[name] - without[name]).with_columns(metric=pl.lit(name)) for name in nulls
    )
    return made.select((pl.col(n) if n in made.columns else pl.lit(None)).cast(kind).alias(n) for n, kind in EXAMPLES.items())


def _without(x: Array, totals: Array, names: Sequence[str], metrics: Sequence[str], formulas: Formulas) -> Mapping[str, Array]:
    """Each metric without each item, shape (items,); a few million totals at a time."""
    import numpy as np

    step = max(1, CELLS // max(1, x.shape[1]))
    found = [formulas(Sums(names, totals - x[first : first + step])) for first in range(0, len(x), step)]
    return {name: np.concatenate([part[name] for part in found]) for name in metrics}


def _most(moved: Array, lots: NDArray[np.int64], *, upwards: bool) -> NDArray[np.intp]:
    """Rows of the items to be shown, the most influential first (see `examples_of`)."""
    import numpy as np

    size = np.where(np.isfinite(moved), np.abs(moved), 0.0)
    size = np.where(size > NOTHING, size, 0.0)
    order = np.lexsort((lots, -np.round(size / max(size.max(initial=0.0), NOTHING), ROUNDING)))
    order = order[size[order] > 0]
    with_it = (moved[order] > 0) == upwards
    forth, back = order[with_it][:SHOWN], order[~with_it][:SHOWN]
    if len(forth):
        back = back[size[back] >= WORTH * size[forth[0]]]
    forth = forth[: SHOWN - min(AGAINST, len(back))]
    kept = np.concatenate([forth, back[: SHOWN - len(forth)]])
    return order[np.isin(order, kept)]


def _answers(attempts: pl.DataFrame, items: pl.Series) -> pl.DataFrame:
    """All attempts of these items with a number (`left_out`), the `place` of the item in `items`, and whether they were `answered`."""
    places = pl.DataFrame({"item": items}).with_row_index("place")
    mine = attempts.select("prompt_id", "repetition", "item", answered=pl.col("outcome") == "answered")
    return mine.join(places, on="item", maintain_order="left").with_row_index("left_out")


def _rest(attempts: pl.DataFrame, answers: pl.DataFrame, names: Sequence[str], recount: Counts) -> Array:
    """Counts of each answer's item without that answer, shape (answers, columns): 0 where it was the only attempt."""
    left = answers.select("item", "left_out", _id="prompt_id", _turn="repetition")
    others = attempts.join(left, on="item", maintain_order="right").filter(
        (pl.col("prompt_id") != pl.col("_id")) | (pl.col("repetition") != pl.col("_turn"))
    )
    counted = recount(others.with_columns(item="left_out").drop("left_out", "_id", "_turn"))
    zero = pl.lit(0.0)
    shaped = counted.select("item", *((pl.col(n) if n in counted.columns else zero).cast(pl.Float64).alias(n) for n in names))
    return (
        answers.select(item="left_out").join(shaped, on="item", how="left", maintain_order="left").select(names).fill_null(0.0).to_numpy()
    )


def _one_each(answers: pl.DataFrame, rows: NDArray[np.intp], chosen: NDArray[np.intp], moved: Array, alone: Array) -> pl.DataFrame:
    """Of each chosen item, in order, the answer whose own influence `alone` is greatest in the item's direction.

    Of several such answers the first that was readable.
    """
    import numpy as np

    ranked = pl.DataFrame({"place": np.searchsorted(rows, chosen), "rank": np.arange(len(chosen)), "influence": moved[chosen]})
    return (
        answers.with_columns(pl.col("place").cast(pl.Int64), alone=pl.Series(alone))
        .join(ranked, on="place", maintain_order="left")
        .with_columns(pull=(pl.col("alone") / pl.col("influence")).round(ROUNDING).fill_nan(float("-inf")))
        .sort("rank", "pull", "answered", "left_out", descending=[False, True, True, False])
        .unique("rank", keep="first", maintain_order=True)
    )
