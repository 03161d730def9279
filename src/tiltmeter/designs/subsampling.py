"""Subsampling of a design's items (--limit), and sample numbers of repeated prompts."""

from __future__ import annotations

import polars as pl
from polars import DataFrame, Expr, Int32, Series, col

from tiltmeter.designs.limits import ItemLimit
from tiltmeter.errors import InputError


def keep_limit(
    prompts: DataFrame, limit: ItemLimit | None, seed: int, name: str, asked: Expr | None = None
) -> DataFrame:
    """Return the prompts of the selected items, in the original order.

    A number keeps that many items, in proportion to the sizes of the strata (column `stratum`), so that a
    limited study estimates the same quantities as the full study. Items are drawn at random with a seed, and
    a smaller limit keeps a subset of a larger one, so that extending a study only requests the added items. A
    share keeps that share of the items, and a range the items numbered first to last (inclusive).

    Parameters
    ----------
    prompts
        One row per prompt, with `item` and `stratum`.
    name
        Name of the probe, for the error message.
    asked
        Whether the item of a prompt can be asked; None: all can. The others are left out. They keep their
        places in the order in which items are drawn, so that the same items are drawn as if all could be
        asked, as far as they can.
    """
    askable = prompts if asked is None else prompts.filter(asked)
    if limit is None:
        return askable
    if isinstance(limit.selection, tuple):
        selected = askable.filter(col.item.is_between(*limit.selection))
        if selected.is_empty():
            raise InputError(
                f"--limit {limit}: {name} has only {askable['item'].n_unique()} items, numbered from 0"
            )
        return selected
    number = askable["item"].n_unique()
    count = limit.selection
    if isinstance(count, float):
        count = max(1, round(count * number))
    if count >= number:
        return askable
    items = prompts.group_by("item", maintain_order=True).agg(col.stratum.first())
    import numpy as np

    rng = np.random.default_rng(seed)
    lots = Series("lot", rng.permutation(items.height))
    offsets = items.select(col.stratum.unique().sort())
    offsets = offsets.with_columns(offset=Series(rng.random(offsets.height)))
    # The k-th item drawn from a stratum of N items gets the position (k - offset) / N, so that every prefix
    # is proportional to the strata.
    turn = col.lot.rank("ordinal").over("stratum")
    position = (turn - col.offset) / pl.len().over("stratum")
    placed = items.with_columns(lots).join(offsets, on="stratum").with_columns(place=position)
    in_order = placed.sort("place", "lot").join(askable, on="item", how="semi", maintain_order="left")
    drawn = in_order.head(count).select("item")
    return askable.join(drawn, on="item", how="semi", maintain_order="left")


def first_samples(*columns: str) -> Expr:
    """Return the sample number of each prompt's first answer.

    Two prompts of a part may have the same text (if the data contains a sentence twice). Each needs its own
    answers, so the second continues the numbering of the first.

    Parameters
    ----------
    *columns
        Columns that are sent to the model in addition to `prompt` and `system`.
    """
    before = col.repetitions.cast(Int32).cum_sum() - col.repetitions
    return before.over("prompt", "system", *columns).cast(Int32)
