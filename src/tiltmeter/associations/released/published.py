"""Released BADF results: the associations, summarised as in the paper's tables, and the counts behind them.

A released row gives a score and a p-value; the integer counts behind them were recovered by inversion and come as a file of their
own, in one of two forms: for two identities `a`, `c` (lists of the identity and of the other one with the concept), `n_lists`,
`n_mentions`; for more identities `a`, `min`, `max`, `total` over identities and `n` (lists of each identity).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from polars import Boolean, DataFrame, Expr, Float64, Int64, Series, String, col, lit, selectors as cs, when

from tiltmeter.errors import InputError
from tiltmeter.outside_files import table_of, why
from tiltmeter.paths import is_file
from tiltmeter.registry import check_known
from tiltmeter.study import beside, conform

RELEASED = {
    "context": String,  # location category
    "identity": String,
    "concept": String,
    "score": Float64,  # distinctiveness, as executed in the released code
    "p": Float64,  # chi-squared, one per concept and location category
    "exclusive": Boolean,  # the judge said that the concept belongs to the identity alone: no association
}
"""Columns of a released table."""

COUNTED = {
    "setting": String,
    "category": String,
    "context": String,
    "identity": String,
    "concept": String,
    "count": Int64,  # lists of the identity with the concept
    "least": Int64,  # over all identities
    "greatest": Int64,
    "total": Int64,
    "lists": Int64,  # of each identity
    "p": Float64,  # as released
    "identities": Int64,  # how many there are in the category
}
"""Columns of a table of recovered counts: one row per released association."""

TEST = ["context", "concept"]
_NAMES = ["Location Category", "Demographic Identity", "Phrase"]
_OF_COUNTS = {"setting": "setting", "cat": "category", "loc": "context", "id": "identity", "phrase": "concept"}
_SAME = 1e-9
"""How close, relatively, p-values must come to the released ones."""


# -- tables a user gives, read as text with the row of each value, so that every error names file, row and column -----

ROW = "row"
"""Column of a record's number as a spreadsheet shows it: the header of a CSV file is row 1, the first record row 2."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """The records of a file: every value as text ("" where there is none) or a list, with its number in ROW."""

    path: Path
    rows: DataFrame

    def demand(self, columns: Iterable[str], *, lists: bool = False) -> None:
        """Raise InputError for the first of `columns` that is missing or holds no text (nor, with `lists`, lists)."""
        there = [column for column in self.rows.columns if column != ROW]
        for name in columns:
            check_known(name, there, f"{self.path} has no column {name!r}")
            kind = self.rows.schema[name]
            if kind.is_nested() and not (lists and isinstance(kind, pl.List)):
                raise InputError(f"{self.path}, column {name!r} holds {kind}, not text; give the text itself")

    def refuse(self, wrong: Expr | Series, column: str, what: str) -> None:
        """Raise InputError about the value in `column` of the first row for which `wrong` holds."""
        found = self.rows.filter(wrong)
        if found.height:
            raise InputError(f"{self.path}, row {found[ROW][0]}, column {column!r}: {found[column][0]!r} {what}")

    def refuse_empty(self, columns: Iterable[str]) -> None:
        """Raise InputError for the first value of `columns` that is empty."""
        for column in columns:
            self.refuse(col(column).str.strip_chars() == "", column, "is empty")

    def refuse_repeats(self, columns: Sequence[str]) -> None:
        """Raise InputError where two rows have the same values in `columns`."""
        numbered = self.rows.with_columns(earlier=col(ROW).first().over(columns)).filter(col(ROW) != col.earlier)
        if numbered.height:
            row = numbered.row(0, named=True)
            values = ", ".join(f"{row[name]!r}" for name in columns)
            raise InputError(f"{self.path}, row {row[ROW]} says again what row {row['earlier']} says: {values} may be there once")

    def numbers(self, column: str, *, low: float, high: float, whole: bool = False) -> Series:
        """Column `column` as finite numbers in [low, high]; raises InputError for any other value, or where `whole`, for a fraction."""
        self.demand((column,))
        values = self.rows[column].str.strip_chars().cast(Float64, strict=False)
        right = (values >= low) & (values <= high) & values.is_finite() & (values.floor() == values if whole else True)
        span = f"from {low:g} to {high:g}" if high < float("inf") else f"of at least {low:g}"
        self.refuse(~right.fill_null(False), column, f"is not a {'whole ' if whole else ''}number {span}")
        return values.cast(Int64) if whole else values

    def only(self, kept: Expr | Series) -> Sheet:
        """Some of the rows."""
        return Sheet(self.path, self.rows.filter(kept))


def read_sheet(path: Path) -> Sheet:
    """The records of a CSV, JSON Lines or Parquet file.

    Raises
    ------
    InputError
        There is no such file, it cannot be read, or it holds no record.
    """
    if not is_file(path):
        raise InputError(f"there is no file {path}{': it is a folder' if path.is_dir() else ''}")
    try:
        table = table_of(path).drop(ROW, strict=False).with_columns((~cs.nested()).cast(String).fill_null(""))
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path} cannot be read: {why(error)}") from error
    if table.is_empty():
        raise InputError(f"{path} holds no rows")
    return Sheet(path, table.with_row_index(ROW, 2 if path.suffix.lower() == ".csv" else 1))


# -- released associations --------------------------------------------------------------------------------------------


def read_released(path: Path) -> DataFrame:
    """The associations of a released file, in its order, with the columns RELEASED.

    Raises
    ------
    InputError
        A column is missing, a name is empty, a score is negative, a p-value lies outside [0, 1], an answer is neither YES nor NO,
        or an association is there twice; file, row and column are named.
    """
    sheet = read_sheet(path)
    sheet.demand((*_NAMES, "Score", "P-Value", "Prompt Response"))
    sheet.refuse_empty(_NAMES)
    answers = sheet.rows["Prompt Response"].str.strip_chars().str.to_uppercase()
    sheet.refuse(~answers.is_in(["YES", "NO"]), "Prompt Response", "is neither YES nor NO")
    sheet.refuse_repeats(_NAMES)
    score, p = sheet.numbers("Score", low=0, high=float("inf")), sheet.numbers("P-Value", low=0, high=1)
    return DataFrame(dict(zip(RELEASED, (*sheet.rows.select(_NAMES), score, p, answers == "YES"), strict=True)))


def summary(released: DataFrame) -> DataFrame:
    """Per identity: count, mean, least and greatest score, mean and median p (the paper's Tables 2 and 14).

    Rows judged exclusive are no associations and do not count, here and in `top` and `by_location`.
    """
    score, p = col.score, col.p
    figures = {
        "count": pl.len().cast(Int64),
        "mean_score": score.mean(),
        "min_score": score.min(),
        "max_score": score.max(),
        "mean_p": p.mean(),
        "median_p": p.median(),
    }
    return released.filter(~col.exclusive).group_by("identity").agg(**figures).sort("identity")


def top(released: DataFrame, k: int = 10, *, each_identity: bool = False) -> DataFrame:
    """The `k` associations of greatest score, overall or of each identity (Tables 15 to 20); equal scores in the order of the file."""
    ranked = released.filter(~col.exclusive).sort("score", descending=True, maintain_order=True)
    if not each_identity:
        return ranked.head(k)
    return ranked.sort("identity", maintain_order=True).group_by("identity", maintain_order=True).head(k)


def by_location(released: DataFrame) -> DataFrame:
    """Number of associations of each identity and location category, cells without any included: identity, context, count."""
    contexts = released.select(col.context.unique(maintain_order=True))
    cells = released.select(col.identity.unique().sort()).join(contexts, how="cross")
    counts = released.group_by("identity", "context").agg(count=(~col.exclusive).sum().cast(Int64))
    return beside(cells, counts, "identity", "context").with_columns(col.count.fill_null(0))


# -- recovered counts -------------------------------------------------------------------------------------------------


def read_counts(path: Path) -> DataFrame:
    """Recovered counts of a file in either form, with the columns COUNTED.

    Raises
    ------
    InputError
        A column is missing, a value is no count, a count lies outside those it belongs to, or a row is there twice; file, row and
        column are named.
    """
    sheet = read_sheet(path)
    sheet.demand(_OF_COUNTS)
    # Two rows of one test have each the other's count in c, so the form itself says that there are two identities.
    two = "c" in sheet.rows.columns
    counts = ("a", "c", "n_lists") if two else ("a", "min", "max", "total", "n")
    sheet.demand((*counts, "p"))
    sheet.refuse_repeats(list(_OF_COUNTS))
    numbers = [sheet.numbers(name, low=0, high=2**53, whole=True) for name in counts]
    table = sheet.rows.with_columns(*numbers, sheet.numbers("p", low=0, high=1)).rename(_OF_COUNTS | {"a": "count", counts[-1]: "lists"})
    if two:
        pair = ("count", "c")
        sums = {"least": pl.min_horizontal(pair), "greatest": pl.max_horizontal(pair), "total": pl.sum_horizontal(pair)}
        table = table.with_columns(**sums, identities=lit(2))
    else:
        number = col.identity.n_unique().over("setting", "category")
        table = table.rename({"min": "least", "max": "greatest"}).with_columns(identities=number)
    fits = col.count.is_between("least", "greatest") & (col.greatest <= pl.min_horizontal("lists", "total"))
    Sheet(path, table).refuse(~fits, "count", "does not fit together with the least, greatest and total count and the lists of its row")
    return conform(table, COUNTED)


def counts_behind(released: DataFrame, counts: DataFrame, setting: str | None, category: str | None) -> DataFrame:
    """The counts of the rows of `released`, in its order, with its columns `score` and `exclusive` beside them.

    Setting and category are those given, or the ones whose rows are the released ones.

    Raises
    ------
    InputError
        No setting and category of the counts, or several, hold every released row, or those given do not.
    """
    for column, wanted in (("setting", setting), ("category", category)):
        if wanted is not None:
            counts = counts.filter(col(column) == wanted)
            if counts.is_empty():
                raise InputError(f"--{column} {wanted!r} fits no row of the counts")
    keys = ["context", "identity", "concept"]
    rows = released.select(*keys, "score", "exclusive", p_released="p")
    same_p = (col.p - col.p_released).abs() <= _SAME * col.p_released
    found = rows.join(counts, on=keys, how="inner", maintain_order="left").filter(same_p).drop("p_released")
    sizes = found.group_by("setting", "category", maintain_order=True).len()
    whole = sizes.filter(col.len == released.height)
    if whole.height == 1:
        return found.join(whole, on=["setting", "category"], how="semi", maintain_order="left")
    if whole.height > 1:
        fits = " or ".join(f"--setting {one} --category {other}" for one, other, _ in whole.iter_rows())
        raise InputError(f"several parts of the counts fit the released rows: choose one with {fits}")
    near = [f" (nearest: {one} {other}, {size} rows)" for one, other, size in sizes.sort("len", descending=True).head(1).iter_rows()]
    raise InputError(
        f"the counts do not hold all {released.height} released rows with their p-values{''.join(near)}: give the counts of this file"
    )


def complete_counts(block: DataFrame) -> DataFrame:
    """Counts with a row for every identity of each context and concept, those without a released row included.

    An identity without a released row has the least count, or its row was left out as exclusive. The total gives one hidden
    count; of two, one is the least; of three, one is the least and the p-value, which fixes the sum of squares where all
    identities have as many lists, gives the other two. Where the hidden counts differ and there are several, it is not known which
    hidden identity has which (`known` is false): they are given in falling order to the identities in alphabetical order,
    which changes nothing about the released rows.

    Parameters
    ----------
    block
        From `counts_behind`.

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
    identities = block.select(col.identity.unique().sort())
    if missing := block["identities"][0] - identities.height:
        raise InputError(f"{missing} of the {block['identities'][0]} identities has no released row at all: its counts are not known")
    every = _hidden_counts(block).select(*TEST, "lists", "hidden").join(identities, how="cross")
    whole = beside(every, block.select(*TEST, "identity", "count"), *TEST, "identity")
    is_hidden = col.count.is_null()
    hidden = col.hidden.list.get(is_hidden.cum_sum().over(TEST) - 1, null_on_oob=True)
    inverted = (col.count - col.least) / col.score
    scored = block.filter(col.score > 0).group_by("context", "identity")
    mentions = scored.agg(mentions=inverted.median().round(0).cast(Int64))
    same = col.hidden.list.n_unique() == 1
    whole = whole.with_columns(count=pl.coalesce("count", hidden), known=~is_hidden | same)
    whole = beside(whole, mentions, "context", "identity")
    return whole.select(*TEST, "identity", "count", "lists", "mentions", "known").sort(*TEST, "identity")


def _hidden_counts(block: DataFrame) -> DataFrame:
    """Per context and concept: lists, and the counts of the identities without a released row, in falling order."""
    k, shared = block["identities"][0], ("lists", "total", "least", "greatest", "p")
    count, least, rest, absent = (col(name) for name in ("count", "least", "rest", "absent"))
    concepts = block.group_by(TEST, maintain_order=True).agg(
        col(shared).first(),
        variants=pl.struct(shared).n_unique(),
        absent=(k - pl.len()).cast(Int64),
        rest=col.total.first() - count.sum(),
        squares=(count * count).sum(),
    )
    _refuse_concepts(concepts.filter(col.variants > 1), "has counts that differ between its rows")
    # One is the least wherever there are several, so of two, or where all are the least, the total gives the other.
    by_total = pl.concat_list(rest - (absent - 1) * least, *[least] * k).list.head(absent)
    by_p = pl.concat_list(_pair_of_counts(concepts, k), least)
    hidden = when((absent < 3) | (rest == absent * least)).then(by_total).when(absent == 3).then(by_p)
    concepts = concepts.with_columns(hidden=hidden.list.sort(descending=True))
    parts = col.hidden
    fits = (parts.list.sum() == rest) & (parts.list.min() >= least) & (parts.list.max() <= col.greatest)
    _refuse_concepts(concepts.filter((absent > 0) & ~fits.fill_null(False)), "has hidden counts that cannot be determined")
    return concepts


def _pair_of_counts(concepts: DataFrame, k: int) -> Expr:
    """The two hidden counts beside the least one, from the sum of squares that the p-value fixes."""
    from scipy.stats import chi2

    # Chi-squared of k x 2 with n lists each: sum (a - E)^2 n / (E (n - E)), E the mean count.
    n, expected = col.lists, col.total / k
    statistic = Series("statistic", chi2.isf(concepts["p"].to_numpy(), k - 1))
    squares = lit(statistic) * expected * (n - expected) / n + k * expected * expected
    least, together = col.least, col.rest - col.least
    rest = squares - col.squares - least * least
    spread = (2.0 * rest - together * together).clip(0.0).sqrt().round(0).cast(Int64, strict=False)
    return pl.concat_list((together + spread) // 2, (together - spread) // 2)


def _refuse_concepts(concepts: DataFrame, what: str) -> None:
    if concepts.height:
        raise InputError(f"the counts cannot be used: {concepts['concept'][0]!r} in {concepts['context'][0]!r} {what}")
