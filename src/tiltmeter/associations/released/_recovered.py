"""Counts behind released associations: read, matched to the released rows, and completed for the identities that have no row.

A released row gives a score and a p-value; the integer counts behind them were recovered by inversion and come as a file of their
own, in one of two forms: for two identities `a`, `c` (lists of the identity and of the other one with the concept), `n_lists`,
`n_mentions`; for more identities `a`, `min`, `max`, `total` over identities and `n` (lists of each identity).
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tiltmeter.associations.released._rows import ROW, demand, no_repeats, numbers, place, read_rows
from tiltmeter.errors import InputError

__all__ = ["COUNTED", "block_of", "complete_counts", "read_counts"]

COUNTED = {
    "setting": pl.String,
    "category": pl.String,
    "context": pl.String,
    "identity": pl.String,
    "concept": pl.String,
    "count": pl.Int64,  # lists of the identity with the concept
    "least": pl.Int64,  # over all identities
    "greatest": pl.Int64,
    "total": pl.Int64,
    "lists": pl.Int64,  # of each identity
    "p": pl.Float64,  # as released
    "identities": pl.Int64,  # how many there are in the category
}
"""Columns of a table of recovered counts: one row per released association."""

_NAMES = {"setting": "setting", "cat": "category", "loc": "context", "id": "identity", "phrase": "concept"}
_KEYS = ["context", "concept"]


def read_counts(path: Path) -> pl.DataFrame:
    """Recovered counts of a file in either form, with the columns COUNTED.

    Raises
    ------
    InputError
        A column is missing, a value is no count, a count lies outside those it belongs to, or a row stands twice; file, row and
        column are named.
    """
    table = read_rows(path)
    demand(path, table, _NAMES)
    two = "c" in table.columns
    counts = ("a", "c", "n_lists") if two else ("a", "min", "max", "total", "n")
    demand(path, table, (*counts, "p"))
    no_repeats(path, table, list(_NAMES))
    table = table.with_columns(
        *(numbers(path, table, name, low=0, high=2**53, whole=True) for name in counts), numbers(path, table, "p", low=0, high=1)
    )
    a, n = pl.col("a"), pl.col("n_lists" if two else "n")
    if two:
        c = pl.col("c")
        columns = {"least": pl.min_horizontal(a, c), "greatest": pl.max_horizontal(a, c), "total": a + c}
        # Two rows of one test have each the other's count in c, so the form itself says that there are two identities.
        table = table.with_columns(identities=pl.lit(2, pl.Int64))
    else:
        columns = {"least": pl.col("min"), "greatest": pl.col("max"), "total": pl.col("total")}
        table = table.with_columns(identities=pl.col("id").n_unique().over("setting", "cat").cast(pl.Int64))
    read = table.with_columns(**columns)
    odd = read.filter(
        ~(pl.col("least").le(a) & a.le(pl.col("greatest")) & pl.col("greatest").le(n) & pl.col("greatest").le(pl.col("total")))
    )
    if not odd.is_empty():
        raise InputError(
            f"{place(path, odd[ROW][0])}: the counts do not fit together: a = {odd['a'][0]} of {odd[n.meta.output_name()][0]} lists, "
            f"between {odd['least'][0]} and {odd['greatest'][0]}, {odd['total'][0]} in all"
        )
    return read.select(
        *(pl.col(old).alias(new) for old, new in _NAMES.items()),
        a.alias("count"),
        "least",
        "greatest",
        "total",
        n.alias("lists"),
        "p",
        "identities",
    )


def block_of(released: pl.DataFrame, counts: pl.DataFrame, setting: str | None, category: str | None) -> pl.DataFrame:
    """The counts of the rows of `released`, in its order, with its columns `score` and `exclusive` beside them.

    Setting and category are those given, or the ones whose rows are the released ones.

    Raises
    ------
    InputError
        No setting and category of the counts, or several, hold every released row, or those given do not.
    """
    for flag, column, wanted in (("--setting", "setting", setting), ("--category", "category", category)):
        if wanted is not None:
            counts = counts.filter(pl.col(column) == wanted)
            if counts.is_empty():
                raise InputError(f"{flag} {wanted!r} fits no row of the counts")
    keys = ["context", "identity", "concept"]
    rows = released.select(*keys, "score", "exclusive", p_released="p")
    same_p = (pl.col("p") - pl.col("p_released")).abs() <= 1e-9 * pl.col("p_released")
    found = rows.join(counts, on=keys, how="inner", maintain_order="left").filter(same_p)
    sizes = found.group_by("setting", "category", maintain_order=True).len()
    whole = sizes.filter(pl.col("len") == released.height)
    if whole.height == 1:
        return found.join(whole, on=["setting", "category"], how="semi", maintain_order="left").drop("p_released")
    if whole.height > 1:
        fits = " or ".join(f"--setting {row['setting']} --category {row['category']}" for row in whole.iter_rows(named=True))
        raise InputError(f"several parts of the counts fit the released rows: choose one with {fits}")
    near = sizes.sort("len", descending=True).head(1)
    closest = "" if near.is_empty() else f" (nearest: {near['setting'][0]} {near['category'][0]}, {near['len'][0]} rows)"
    raise InputError(
        f"the counts do not hold all {released.height} released rows with their p-values{closest}: give the counts of this file"
    )


def complete_counts(block: pl.DataFrame) -> pl.DataFrame:
    """Counts with a row for every identity of each context and concept, those without a released row included.

    An identity without a released row has the least count, or its row was left out as exclusive. The total gives one hidden
    count; of two, one is the least; of three, one is the least and the p-value, which fixes the sum of squares where all
    identities have as many lists, gives the other two. Where the hidden counts differ and there are several, which hidden
    identity has which cannot be told (`known` is false): they stand in falling order at the identities in alphabetical order,
    which changes nothing about the released rows.

    Parameters
    ----------
    block
        From `block_of`.

    Returns
    -------
    pl.DataFrame
        context, concept, identity, count, lists, mentions, known. Mentions follow from the scores, (count - least) / score;
        null for an identity without any released row in the context.

    Raises
    ------
    InputError
        Counts of one concept contradict each other, or its hidden counts cannot be determined.
    """
    identities = block.select(pl.col("identity").unique().sort())
    if identities.height != block["identities"][0]:
        missing = block["identities"][0] - identities.height
        raise InputError(f"{missing} of the {block['identities'][0]} identities has no released row at all: its counts are not known")
    concepts = _hidden(block)
    everybody = concepts.select(*_KEYS, "lists", "hidden").join(identities, how="cross")
    seen = block.select(*_KEYS, "identity", "count", pl.lit(True).alias("known"))
    absent = everybody.join(seen, on=[*_KEYS, "identity"], how="anti", maintain_order="left").with_columns(
        count=pl.col("hidden").list.get(pl.int_range(pl.len()).over(_KEYS)), known=pl.col("hidden").list.n_unique() == 1
    )
    columns = [*_KEYS, "identity", "count", "lists", "known"]
    present = seen.join(concepts.select(*_KEYS, "lists"), on=_KEYS, maintain_order="left").select(columns)
    mentions = _mentions(block)
    return (
        pl.concat([present, absent.select(columns)])
        .join(mentions, on=["context", "identity"], how="left", maintain_order="left")
        .select(*_KEYS, "identity", "count", "lists", "mentions", "known")
        .sort(*_KEYS, "identity")
    )


def _mentions(block: pl.DataFrame) -> pl.DataFrame:
    """Mentions of each context and identity, by the released score: (count - least) / score, the same for all their rows."""
    scored = block.filter(pl.col("score") > 0)
    inverted = (pl.col("count") - pl.col("least")) / pl.col("score")
    return scored.group_by("context", "identity").agg(mentions=inverted.median().round(0).cast(pl.Int64))


def _hidden(block: pl.DataFrame) -> pl.DataFrame:
    """Per context and concept: lists, and the counts of the identities without a released row, in falling order."""
    k = block["identities"][0]
    count = pl.col("count")
    concepts = block.group_by(_KEYS, maintain_order=True).agg(
        pl.col("lists", "total", "least", "greatest", "p").first(),
        pl.struct("lists", "total", "least", "greatest", "p").n_unique().alias("variants"),
        (k - pl.len()).cast(pl.Int64).alias("absent"),
        (pl.col("total").first() - count.sum()).alias("rest"),
        (count * count).sum().alias("squares"),
    )
    _refuse(concepts.filter(pl.col("variants") > 1), "has counts that differ between its rows")
    least, rest, absent = pl.col("least"), pl.col("rest"), pl.col("absent")
    hidden = (
        pl.when(rest == absent * least)
        .then(pl.concat_list([least] * k).list.head(absent))
        .when(absent == 1)
        .then(pl.concat_list(rest))
        .when(absent == 2)
        .then(pl.concat_list(rest - least, least))
        .when(absent == 3)
        .then(pl.concat_list(_pair(concepts, k), least))
    )
    concepts = concepts.with_columns(hidden=hidden.list.sort(descending=True))
    parts = pl.col("hidden")
    fits = (parts.list.sum() == rest) & (parts.list.min() >= least) & (parts.list.max() <= pl.col("greatest"))
    _refuse(concepts.filter((absent > 0) & ~fits.fill_null(False)), "has hidden counts that cannot be determined")
    return concepts


def _pair(concepts: pl.DataFrame, k: int) -> pl.Expr:
    """The two hidden counts beside the least one, from the sum of squares that the p-value fixes."""
    from scipy.stats import chi2

    # Chi-squared of k x 2 with n lists each: sum (a - E)^2 n / (E (n - E)), E the mean count.
    n, expected = pl.col("lists"), pl.col("total") / k
    statistic = pl.Series("statistic", chi2.isf(concepts["p"].to_numpy(), k - 1))
    squares = pl.lit(statistic) * expected * (n - expected) / n + k * expected * expected
    least, together = pl.col("least"), pl.col("rest") - pl.col("least")
    rest = squares - pl.col("squares") - least * least
    spread = (2.0 * rest - together * together).clip(0.0).sqrt().round(0).cast(pl.Int64, strict=False)
    return pl.concat_list((together + spread) // 2, (together - spread) // 2)


def _refuse(concepts: pl.DataFrame, what: str) -> None:
    if not concepts.is_empty():
        raise InputError(f"the counts cannot be used: {concepts['concept'][0]!r} in {concepts['context'][0]!r} {what}")
