"""Two models compared in how often their stories attach each concept to each identity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tiltmeter import stats
from tiltmeter.associations._options import options_of
from tiltmeter.errors import InputError
from tiltmeter.study import CONTRASTS, NotRun, Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tiltmeter.study import Tools

__all__ = ["contrast_of"]

RATE = "difference of shares of lists, Newcombe; p exact where an expected count is below 5, else chi-squared"
LEANING = "difference of two differences of shares, Newcombe's intervals joined by squares"
_CELL = ("identity", "concept")


def contrast_of(first: pl.DataFrame, second: pl.DataFrame, settings: Settings, tools: tuple[Tools, Tools]) -> pl.DataFrame | None:
    """CONTRASTS: two rows for each concept and identity, over all locations; None where either side kept no lists.

    `rate` is the share of the identity's lists that hold the concept, `association` that share minus the others': a model may tell a
    concept more often of everybody, without attaching it to anybody.

    Stories are new in each answer, so the sides are compared as independent groups of lists. Concepts in fewer lists of both sides and all
    identities together than the study's minimum are left out: which side they are of does not decide on that, so that no difference is
    chosen by its size. A phrase belongs to the concept it has in the first run; one that run does not know, to its own run's concept,
    under the first run's name where there is one.
    """
    try:
        lists = [_lists(kept, measures) for kept, measures in zip(tools, (first, second), strict=True)]
        concepts = [kept.kept("concepts").select("phrase", "concept").unique("phrase") for kept in tools]
        mentions = [kept.kept("mentions") for kept in tools]
    except (InputError, NotRun):
        return None
    vocabularies = (concepts[0], _renamed(concepts[1], concepts[0]))
    sizes, held = [], []
    for side, told, vocabulary in zip(lists, mentions, vocabularies, strict=True):
        sizes.append(side.group_by("identity").agg(lists=pl.len().cast(pl.Int64)))
        named = told.join(vocabulary, on="phrase").unique(("attempt", "character", "concept"))
        held.append(named.join(side, on=("attempt", "character")).group_by(_CELL).agg(count=pl.len().cast(pl.Int64)))
    whole = pl.concat(held).group_by("concept").agg(support=pl.col("count").sum())
    common = sizes[0].join(sizes[1], on="identity", suffix="_second")
    cells = whole.filter(pl.col("support") >= options_of(settings).minimum).select("concept").join(common, how="cross")
    cells = cells.join(held[0], on=_CELL, how="left").join(held[1], on=_CELL, how="left", suffix="_second").fill_null(0)
    everybody = [
        pl.col(f"{name}{end}").sum().over("concept").alias(f"all_{name}{end}") for name in ("count", "lists") for end in ("", "_second")
    ]
    return _tested(cells.sort(_CELL).with_columns(everybody), settings.level)


def _lists(kept: Tools, measures: pl.DataFrame) -> pl.DataFrame:
    """The lists of these attempts that could be made."""
    made = kept.kept("lists").filter(pl.col("status") != "missing")
    return made.join(measures.select("attempt").unique(), on="attempt", how="semi").select("attempt", "character", "identity")


def _renamed(own: pl.DataFrame, leading: pl.DataFrame) -> pl.DataFrame:
    """Phrase to concept by the leading vocabulary, which decides wherever it knows the phrase, or the phrase that names its concept."""
    known = own.join(leading.rename({"concept": "direct"}), on="phrase", how="left")
    known = known.join(leading.select(concept="phrase", named="concept"), on="concept", how="left")
    return known.select("phrase", concept=pl.coalesce("direct", "named", "concept"))


def _tested(cells: pl.DataFrame, level: float) -> pl.DataFrame:
    import numpy as np

    a, n, c, m = (cells[name].to_numpy() for name in ("count_second", "lists_second", "count", "lists"))
    rate = stats.rate_difference(a, n, c, m, level)
    p = np.minimum(1.0, 2.0 * np.minimum(stats.greater(a, n, c, m), stats.greater(c, m, a, n)))
    made = [_rows(cells, "rate", {**rate._asdict(), "p": p}, RATE)]
    all_a, all_n, all_c, all_m = (cells[f"all_{name}"].to_numpy() for name in ("count_second", "lists_second", "count", "lists"))
    if (all_n > n).all() and (all_m > m).all():
        before, after = stats.rate_difference(c, m, all_c - c, all_m - m, level), stats.rate_difference(a, n, all_a - a, all_n - n, level)
        estimates, lows, highs = (np.stack(pair, axis=-1) for pair in zip(before, after, strict=True))
        leaning = stats.independent_difference(estimates, lows, highs, level)
        made.append(_rows(cells, "association", {"estimate": after.estimate - before.estimate, **leaning._asdict()}, LEANING))
    return pl.concat(made)


def _rows(cells: pl.DataFrame, metric: str, found: dict[str, NDArray[np.float64]], how: str) -> pl.DataFrame:
    made = cells.with_columns(
        metric=pl.lit(metric),
        subject="identity",
        context=pl.lit(None),
        difference=pl.Series(found["estimate"]),
        **{name: pl.Series(found[name]) for name in ("low", "high", "p")},
        n=pl.min_horizontal("lists", "lists_second"),
        paired=pl.lit(False),
        how=pl.lit(how),
    )
    return made.select(pl.col(name).cast(kind) for name, kind in CONTRASTS.items())
