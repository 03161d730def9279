"""Released BADF results: the associations, summarised as in the paper's tables, and the reconstructed counts.

A released row contains a score and a p-value. The integer counts were reconstructed from these and are stored
in a separate file, in one of two formats: for two identities `a`, `c` (lists of the identity and of the other
one with the concept), `n_lists` and `n_mentions`; for more identities `a`, `min`, `max`, `total` (over
identities) and `n` (lists of each identity).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl
from polars import Boolean, DataFrame, Expr, Float64, Int64, Series, String, col, lit, when

from tiltmeter._files.tables import UserTable, read_user_table
from tiltmeter.errors import InputError, check_known
from tiltmeter.schema import Schema, beside, conform

RELEASED: Final[Schema] = {
    "context": String,  # location category
    "identity": String,
    "concept": String,
    "score": Float64,  # distinctiveness, as computed by the released code
    "p": Float64,  # chi-squared, one per concept and location category
    "exclusive": Boolean,  # judged to belong to the identity by definition, so not an association
}
"""Columns of a released table."""

COUNTED: Final = {
    "setting": String,
    "category": String,
    "context": String,
    "identity": String,
    "concept": String,
    "count": Int64,  # number of lists of the identity with the concept
    "least": Int64,  # smallest count over all identities
    "greatest": Int64,
    "total": Int64,
    "lists": Int64,  # number of lists of each identity
    "p": Float64,  # as released
    "identities": Int64,  # number of identities in the category
}
"""Columns of a table of reconstructed counts, with one row per released association."""

TEST: Final = ["context", "concept"]
"""Columns that identify a test."""
_NAMES: Final = ["Location Category", "Demographic Identity", "Phrase"]
_OF_COUNTS: Final = {
    "setting": "setting",
    "cat": "category",
    "loc": "context",
    "id": "identity",
    "phrase": "concept",
}
_SAME: Final = 1e-9
"""Relative tolerance for equal p-values."""


# -- released associations -------------------------------------------------------------------------


def read_released(path: Path) -> DataFrame:
    """Read a file of released associations; return it in the same order, with the columns RELEASED.

    Raises
    ------
    InputError
        A column is missing, a name is empty, a score is negative, a p-value lies outside [0, 1], an answer is
        neither YES nor NO, or an association occurs twice; the message names the file, row and column.
    """
    sheet = read_user_table(path)
    sheet.demand((*_NAMES, "Score", "P-Value", "Prompt Response"))
    sheet.refuse_empty(_NAMES)
    answers = sheet.rows["Prompt Response"].str.strip_chars().str.to_uppercase()
    sheet.refuse(~answers.is_in(["YES", "NO"]), "Prompt Response", "is neither YES nor NO")
    sheet.refuse_repeats(_NAMES)
    return DataFrame(
        {
            "context": sheet.rows["Location Category"],
            "identity": sheet.rows["Demographic Identity"],
            "concept": sheet.rows["Phrase"],
            "score": sheet.numbers("Score", low=0, high=float("inf")),
            "p": sheet.numbers("P-Value", low=0, high=1),
            "exclusive": answers == "YES",
        }
    )


# -- reconstructed counts --------------------------------------------------------------------------


def read_counts(path: Path) -> DataFrame:
    """Read a file of reconstructed counts in either format; return the columns COUNTED.

    Raises
    ------
    InputError
        A column is missing, a value is not a count, the counts of a row are inconsistent, or a row occurs
        twice; the message names the file, row and column.
    """
    sheet = read_user_table(path)
    sheet.demand(_OF_COUNTS)
    # Only the format for two identities has the column c, the count of the other identity.
    has_two_identities = "c" in sheet.rows.columns
    counts = ("a", "c", "n_lists") if has_two_identities else ("a", "min", "max", "total", "n")
    sheet.demand((*counts, "p"))
    sheet.refuse_repeats(list(_OF_COUNTS))
    numbers = [sheet.numbers(name, low=0, high=2**53, whole=True) for name in counts]
    table = sheet.rows.with_columns(*numbers, sheet.numbers("p", low=0, high=1))
    table = table.rename(_OF_COUNTS | {"a": "count", counts[-1]: "lists"})
    if has_two_identities:
        pair = ("count", "c")
        sums = {
            "least": pl.min_horizontal(pair),
            "greatest": pl.max_horizontal(pair),
            "total": pl.sum_horizontal(pair),
        }
        table = table.with_columns(**sums, identities=lit(2))
    else:
        number = col.identity.n_unique().over("setting", "category")
        table = table.rename({"min": "least", "max": "greatest"}).with_columns(identities=number)
    fits = col.count.is_between("least", "greatest") & (col.greatest <= pl.min_horizontal("lists", "total"))
    UserTable(str(path), table).refuse(
        ~fits,
        "count",
        "is inconsistent with the smallest, largest and total count or the number of lists in its row",
    )
    return conform(table, COUNTED)


def counts_behind(
    released: DataFrame, counts: DataFrame, setting: str | None, category: str | None
) -> DataFrame:
    """Return the counts of the rows of `released`, in the same order, with `score` and `exclusive`.

    Setting and category are those given, or the ones whose rows match the released ones.

    Raises
    ------
    InputError
        The given setting and category do not contain every released row, or without them, none or several do.
    """
    for column, value in (("setting", setting), ("category", category)):
        if value is not None:
            check_known(value, counts[column].unique(), f"--{column} {value!r} matches no row of the counts")
            counts = counts.filter(col(column) == value)
    keys = ["context", "identity", "concept"]
    rows = released.select(*keys, "score", "exclusive", p_released="p")
    is_same_p = (col.p - col.p_released).abs() <= _SAME * col.p_released
    matched = rows.join(counts, on=keys, how="inner", maintain_order="left").filter(is_same_p)
    parts = matched.drop("p_released").partition_by("setting", "category")
    complete = [part for part in parts if part.height == released.height]
    if len(complete) == 1:
        return complete[0]
    if complete:
        options = " or ".join(
            f"--setting {part['setting'][0]} --category {part['category'][0]}" for part in complete
        )
        raise InputError(f"several parts of the counts match the released rows: choose one with {options}")
    nearest = ""
    if parts:
        largest = max(parts, key=len)
        name = f"{largest['setting'][0]} {largest['category'][0]}"
        nearest = f" (nearest: {name}, {largest.height} rows)"
    raise InputError(
        f"the counts do not contain all {released.height} released rows with their p-values{nearest}: "
        "give the counts of this file"
    )


def complete_counts(block: DataFrame) -> DataFrame:
    """Complete the counts to a row for every identity of each context and concept.

    This includes identities without a released row. An identity has no released row if its count is the
    smallest, or if the row was left out as exclusive. One hidden count follows from the total. Of two, one is
    the smallest count. Of three, one is the smallest, and the other two follow from the p-value, which
    determines the sum of squares because all identities have the same number of lists. If several hidden
    counts differ, their assignment to identities is unknown (`known` is false): they are assigned in
    descending order to the identities in alphabetical order, which does not affect the released rows.

    Parameters
    ----------
    block
        From `counts_behind`.

    Returns
    -------
    pl.DataFrame
        context, concept, identity, count, lists, mentions, known. The mentions are derived from the scores,
        (count - least) / score; null for an identity without any released row in the context.

    Raises
    ------
    InputError
        The counts of a concept are inconsistent, or its hidden counts cannot be determined.
    """
    identities = block.select(col.identity.unique().sort())
    missing = block["identities"][0] - identities.height
    if missing:
        raise InputError(
            f"{missing} of {block['identities'][0]} identities have no released row, "
            "so their counts are unknown"
        )
    cells = _hidden_counts(block).select(*TEST, "lists", "hidden").join(identities, how="cross")
    cells = beside(cells, block.select(*TEST, "identity", "count"), *TEST, "identity")
    is_hidden = col.count.is_null()
    hidden_count = col.hidden.list.get(is_hidden.cum_sum().over(TEST) - 1, null_on_oob=True)
    are_equal = col.hidden.list.n_unique() == 1
    cells = cells.with_columns(count=pl.coalesce("count", hidden_count), known=~is_hidden | are_equal)

    mentions_of_row = (col.count - col.least) / col.score
    scored = block.filter(col.score > 0).group_by("context", "identity")
    mentions = scored.agg(mentions=mentions_of_row.median().round(0).cast(Int64))
    cells = beside(cells, mentions, "context", "identity")
    return cells.select(*TEST, "identity", "count", "lists", "mentions", "known").sort(*TEST, "identity")


def _hidden_counts(block: DataFrame) -> DataFrame:
    """Return the lists and the hidden counts of each context and concept.

    `hidden` has the counts of the identities without a released row, in descending order.
    """
    k = block["identities"][0]
    shared = ("lists", "total", "least", "greatest", "p")
    concepts = block.group_by(TEST, maintain_order=True).agg(
        col(shared).first(),
        variants=pl.struct(shared).n_unique(),
        absent=(k - pl.len()).cast(Int64),
        remaining=col.total.first() - col.count.sum(),
        squares=(col.count * col.count).sum(),
    )
    _refuse_concepts(concepts.filter(col.variants > 1), "has counts that differ between its rows")
    # One of several hidden counts is the smallest. With two, or if all are the smallest, the total determines
    # the others.
    largest = col.remaining - (col.absent - 1) * col.least
    by_total = pl.concat_list(largest, *[col.least] * k).list.head(col.absent)
    by_p = pl.concat_list(_pair_of_counts(concepts, k), col.least)
    follows_from_total = (col.absent < 3) | (col.remaining == col.absent * col.least)
    hidden = when(follows_from_total).then(by_total).when(col.absent == 3).then(by_p)
    concepts = concepts.with_columns(hidden=hidden.list.sort(descending=True))
    has_sum = col.hidden.list.sum() == col.remaining
    is_in_range = (col.hidden.list.min() >= col.least) & (col.hidden.list.max() <= col.greatest)
    undetermined = concepts.filter((col.absent > 0) & ~(has_sum & is_in_range).fill_null(False))
    _refuse_concepts(undetermined, "has hidden counts that cannot be determined")
    return concepts


def _pair_of_counts(concepts: DataFrame, k: int) -> Expr:
    """Return the two hidden counts in addition to the smallest one.

    They follow from the sum of squares, which the p-value determines.
    """
    from scipy.stats import chi2

    # Chi-squared of a k x 2 table with n lists each: sum (a - E)^2 n / (E (n - E)), where E is the mean
    # count.
    n = col.lists
    expected = col.total / k
    statistic = Series("statistic", chi2.isf(concepts["p"].to_numpy(), k - 1))
    squares = lit(statistic) * expected * (n - expected) / n + k * expected * expected
    pair_sum = col.remaining - col.least
    pair_squares = squares - col.squares - col.least * col.least
    difference = (2.0 * pair_squares - pair_sum * pair_sum).clip(0.0).sqrt()
    difference = difference.round(0).cast(Int64, strict=False)
    return pl.concat_list((pair_sum + difference) // 2, (pair_sum - difference) // 2)


def _refuse_concepts(concepts: DataFrame, problem: str) -> None:
    if concepts.height:
        concept, context = concepts["concept"][0], concepts["context"][0]
        raise InputError(f"the counts cannot be used: {concept!r} in {context!r} {problem}")
