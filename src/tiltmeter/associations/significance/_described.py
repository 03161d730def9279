"""What there is to say of a concept and an identity besides the verdict: rates, effects with intervals, log-odds."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltmeter.associations._tables import ASSOCIATIONS
from tiltmeter.associations.significance._counts import Cells
from tiltmeter.associations.significance._verdicts import Block, Verdicts, others_of, standing_of
from tiltmeter.stats import log_odds, stratified_rate_difference

__all__ = ["background_of", "context_names", "described"]

Floats = NDArray[np.float64]
Index = NDArray[np.intp]

PRIOR = 0.1
"""Weight of the prior of the log-odds, as a share of an average identity's mentions: Monroe and others took some 500 of 6,000."""


def background_of(cells: Cells) -> Floats:
    """How large a share of all mentions each concept is, over all contexts and identities: the prior of its log-odds."""
    known = ~np.isnan(cells.mentions)
    count = np.where(known[cells.context], cells.held, 0.0).sum(axis=1)
    share: Floats = np.bincount(cells.concept, count, minlength=len(cells.concepts)) / max(cells.mentions[known].sum(), 1.0)
    return share


def described(
    cells: Cells, background: Floats, block: Block, verdicts: Verdicts, q: Floats, level: float, rows: tuple[Index, Index]
) -> pl.DataFrame:
    """The columns of ASSOCIATIONS from `context` to `q`, for the given rows: tests of the block and identities, (R,) each."""
    test, identity = rows
    held, lists = block.held, block.lists
    standing = standing_of(held, lists)
    others, others_lists = (values[test, identity] for values in others_of(held, lists))
    a, n = held[test, identity], lists[test, identity]
    runner = np.where(standing.first[test] == identity, standing.second[test], standing.first[test])
    b, m = held[test, runner], lists[test, runner]
    effect = stratified_rate_difference(a, n, others, others_lists, level)
    lead = stratified_rate_difference(a, n, b, m, level)
    total, others_total, second, second_total = (part.sum(axis=1) for part in (others, others_lists, b, m))
    odds = _odds(background, block)
    nobody = second_total == 0
    columns = {
        "count": a.sum(axis=1),
        "lists": n.sum(axis=1),
        "mentions": block.mentions[test, identity],
        "others_count": total,
        "others_lists": others_total,
        "rate": _share(a.sum(axis=1), n.sum(axis=1)),
        "others_rate": _share(total, others_total),
        "effect": effect.estimate,
        "low": effect.low,
        "high": effect.high,
        "runner_up_rate": np.where(nobody, np.nan, _share(second, second_total)),
        "runner_up_effect": lead.estimate,
        "runner_up_low": lead.low,
        "runner_up_high": lead.high,
        "log_odds": odds[0][test, identity],
        "z": odds[1][test, identity],
        "score": effect.estimate if verdicts.score is None else verdicts.score[test, identity],
        "p": np.where(verdicts.shown[test, identity], verdicts.p[test], np.nan),
        "q": np.where(verdicts.shown[test, identity], q[test], np.nan),
    }
    whole = {"count", "lists", "mentions", "others_count", "others_lists"}
    frame = pl.DataFrame(columns).with_columns(pl.all().fill_nan(None)).with_columns(pl.col(*whole).cast(pl.Int64))
    named = frame.with_columns(
        context=context_names(cells, block.context[test]),
        concept=cells.concepts.gather(block.concept[test]),
        identity=cells.identities.gather(identity),
        runner_up=pl.when(pl.Series(nobody)).then(None).otherwise(cells.identities.gather(runner)),
    )
    order = list(ASSOCIATIONS)
    return named.select(order[: order.index("q") + 1])


def context_names(cells: Cells, context: Index) -> pl.Series:
    """The names of contexts; null for tests over all of them (-1)."""
    # One name more, null, for tests over all contexts.
    return pl.concat([cells.contexts, pl.Series([None], dtype=pl.String)]).gather(np.where(context < 0, len(cells.contexts), context))


def _odds(background: Floats, block: Block) -> tuple[Floats, Floats]:
    there = (block.lists > 0).any(axis=2).sum(axis=1)
    weight = PRIOR * block.mentions.sum(axis=1) / np.maximum(there, 1)
    prior = np.stack([weight * background[block.concept], weight], axis=1)
    made = log_odds(block.held.sum(axis=2), block.mentions, prior)
    return made.estimate, made.z


def _share(count: Floats, lists: Floats) -> Floats:
    share: Floats = np.divide(count, lists, out=np.full(count.shape, np.nan), where=lists > 0)
    return share
