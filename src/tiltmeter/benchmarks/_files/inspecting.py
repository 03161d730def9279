"""Description, checks and sampling of benchmarks.

The checks cover balance, duplicates, leaked names, keywords, baselines, licences and branches.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import polars as pl
from polars import DataFrame, Expr, Int64, Series, String, col

from tiltmeter.benchmarks._tables import Schema
from tiltmeter.errors import InputError

CHECKS: Schema = {
    "check": String,  # one of the names in _CHECKS
    "level": String,  # "note", "warning" (less precise or reliable results) or "problem" (cannot be run)
    "concept": String,  # null: the entire benchmark
    "rows": Int64,  # number of rows concerned
    "finding": String,  # description
    "keys": pl.List(String),  # keys of the first few of these rows
}
_LEVELS = pl.Enum(["problem", "warning", "note"])
_CHECKS = pl.Enum(
    ["prompts", "balance", "duplicates", "names", "keywords", "baselines", "licences", "branches"]
)
FEW = 5
"""Maximum number of keys and names shown."""
UNEVEN = 0.5
"""Warn if the smallest concept has less than this share of the largest one's prompts, as the widths of
intervals will differ."""
ALONE = 0.5
"""Warn if one keyword has more than this share of its concept's prompts, which are then about the keyword
rather than the concept."""


_Row = tuple[str, str, str | None, int, str, list[str]]
"""A row of CHECKS."""

_FOLDED = col.prompt.str.strip_chars().str.to_lowercase()
_USABLE = col.concept.is_not_null() & col.prompt.is_not_null()
_NO_BASELINE = col.baseline.is_null()
_IS_BRANCH = col.branched_from.is_not_null()
_LOOSE = (_IS_BRANCH & (col.root == col.key)) | ~col.root.is_in(col.key.implode())
_WITHOUT_REST = (col.kind == "continuation") & (
    col.prompt.str.strip_chars() == col.baseline.str.strip_chars()
)
_KINDS = ("continuation", "question", "given")
_SIMILAR = col.concept.n_unique().over(col.concept.str.to_lowercase()) > 1
_FOR_SEVERAL = col.concept.drop_nulls().n_unique().over(_FOLDED) > 1


def _is_blank(column: str) -> Expr:
    return col(column).str.strip_chars().fill_null("") == ""


ROW_CHECKS = (
    (
        "prompts",
        "problem",
        _is_blank("concept"),
        "row",
        "without a concept; fill in the concept or remove the row",
    ),
    (
        "prompts",
        "problem",
        _is_blank("prompt"),
        "row",
        "without a prompt; fill in the prompt or remove the row",
    ),
    ("prompts", "problem", col.key.is_duplicated(), "row", "with a duplicate key; keys must be unique"),
    (
        "prompts",
        "warning",
        ~col.kind.is_in(_KINDS),
        "row",
        f"of another kind than those of the built-in templates ({', '.join(_KINDS)})",
    ),
    (
        "prompts",
        "warning",
        _SIMILAR,
        "row",
        "whose concept is also written with other upper and lower case, and counts as another concept",
    ),
    (
        "prompts",
        "warning",
        col.prompt.str.contains(r"\{\w+\}"),
        "prompt",
        "with a placeholder in braces that was not filled in",
    ),
    (
        "prompts",
        "warning",
        _WITHOUT_REST,
        "continuation",
        "with nothing left to continue: prompt and baseline are the same",
    ),
    (
        "duplicates",
        "warning",
        _USABLE & ~pl.struct("concept", _FOLDED).is_first_distinct(),
        "prompt",
        "repeated for the same concept",
    ),
    (
        "duplicates",
        "warning",
        _USABLE & _FOR_SEVERAL,
        "prompt",
        "with the same text for several concepts, so that the concepts cannot be distinguished",
    ),
    (
        "keywords",
        "note",
        ~col.keyword_in_prompt,
        "prompt",
        "cut before the keyword, so that the prompt does not contain it",
    ),
    (
        "baselines",
        "note",
        _NO_BASELINE & _NO_BASELINE.all(),
        "prompt",
        "without a baseline (all prompts): answers are compared without calibration",
    ),
    (
        "baselines",
        "warning",
        _NO_BASELINE & ~_NO_BASELINE.all(),
        "prompt",
        "without a baseline; calibrated values will be missing",
    ),
    (
        "licences",
        "warning",
        col.licence.is_null() & col.source.is_not_null(),
        "prompt",
        "from sources with an unknown licence; check it before publication",
    ),
    ("branches", "note", _IS_BRANCH, "prompt", "branched from those of another concept"),
    ("branches", "warning", _LOOSE, "branch", "without a root; paired comparisons are not possible"),
)
"""Checks of single rows: check, level, condition, noun for the rows, and description."""


def check_benchmark(table: DataFrame) -> DataFrame:
    """Check a benchmark and report problems.

    Parameters
    ----------
    table
        Columns BENCHMARK; `read_benchmark(path, strict=False)` also returns rows that cannot be run.

    Returns
    -------
    Columns CHECKS; problems first, then warnings, then notes. If there are only notes, the benchmark can be
    used without changes.
    """
    checks = (_sizes, _leaked_names, _keyword_shares, _row_flaws, _families)
    rows = [row for check in checks for row in check(table)]
    findings = DataFrame(rows, schema=CHECKS, orient="row")
    return findings.sort(col.level.cast(_LEVELS), col.check.cast(_CHECKS), maintain_order=True)


def _row(check: str, level: str, rows: DataFrame | int, finding: str, concept: str | None = None) -> _Row:
    """Return a row of CHECKS, for a table of rows (whose first keys are listed) or a number of rows."""
    if isinstance(rows, int):
        return check, level, concept, rows, finding, []
    return check, level, concept, rows.height, finding, rows["key"].head(FEW).to_list()


def _sizes(table: DataFrame) -> Iterator[_Row]:
    """Count the prompts of each concept and licence, and check whether concepts can be compared."""
    if table.is_empty():
        yield _row("prompts", "problem", 0, "there are no prompts")
        return
    prompts = _count_of(table.height, "prompt")
    concepts = _count_of(table["concept"].drop_nulls().n_unique(), "concept")
    keywords = _count_of(table["keyword"].drop_nulls().n_unique(), "keyword")
    yield _row("prompts", "note", table.height, f"{prompts} about {concepts}, {keywords}")
    sizes = table.drop_nulls("concept").group_by("concept", maintain_order=True).len("prompts")
    for concept, size in sizes.iter_rows():
        yield _row("balance", "note", size, _count_of(size, "prompt"), concept)
    if sizes.height == 1:
        finding = f"{sizes['concept'][0]} is the only concept; at least two are needed"
        yield _row("balance", "problem", table.height, finding)
    yield from _uneven_sizes(sizes.sort("prompts", maintain_order=True))
    licences = table.drop_nulls("licence").group_by("licence", maintain_order=True).len()
    for licence, size in licences.iter_rows():
        yield _row("licences", "note", size, f"{_count_of(size, 'prompt')} under {licence}")


def _uneven_sizes(sizes: DataFrame) -> Iterator[_Row]:
    """Warn if the smallest concept has far fewer prompts than the largest.

    `sizes` has the columns `concept` and `prompts`, the smallest first.
    """
    if sizes.is_empty():
        return
    smallest, few = sizes.row(0)
    largest, many = sizes.row(-1)
    if few < UNEVEN * many:
        finding = (
            f"{smallest} has {_count_of(few, 'prompt')}, {largest} has {many:,}; "
            f"estimates for {smallest} will be much less precise"
        )
        yield _row("balance", "warning", few, finding, smallest)


def _row_flaws(table: DataFrame) -> Iterator[_Row]:
    """Report the rows that fail one of ROW_CHECKS."""
    for check, level, flawed, noun, finding in ROW_CHECKS:
        rows = table.filter(flawed)
        if rows.height:
            yield _row(check, level, rows, f"{_count_of(rows.height, noun)} {finding}")


def _leaked_names(table: DataFrame) -> Iterator[_Row]:
    """Find prompts that name another concept.

    In a branch, the name of the root's concept indicates a missing replacement.
    """
    names_root = col.named.str.to_lowercase() == col.branched_from.fill_null("").str.to_lowercase()
    leaks = _leaks(table)
    of_roots = leaks.filter(names_root).group_by("concept", "branched_from", maintain_order=True)
    for (concept, root), rows in of_roots:
        branches = _count_of(rows.height, "branch")
        finding = f"{branches} still naming {root}, the concept of the root; add the missing replacements"
        yield _row("names", "warning", rows, finding, str(concept))
    for (concept,), rows in leaks.filter(~names_root).group_by("concept", maintain_order=True):
        counts = rows["named"].value_counts(name="n").sort("n", "named", descending=[True, False])
        prompts = rows.unique("row", maintain_order=True)
        finding = f"{_count_of(prompts.height, 'prompt')} naming another concept ({_first_names(counts)})"
        yield _row("names", "warning", prompts, finding, str(concept))


def _leaks(table: DataFrame) -> DataFrame:
    """Return the rows that name another concept, once per pair of row and concept.

    The columns are `row`, `key`, `concept`, `branched_from` and `named`, the other concept.
    """
    prompts = table.with_row_index("row").drop_nulls(["concept", "prompt"])
    spellings = prompts.select(folded=col.concept.str.to_lowercase(), named="concept")
    spellings = spellings.unique("folded", keep="first", maintain_order=True)
    pattern = _any_name(spellings["named"].to_list())
    matches = prompts.select(
        "row", "key", "concept", "branched_from", folded=col.prompt.str.extract_all(pattern)
    )
    matches = matches.explode("folded").drop_nulls("folded").with_columns(col.folded.str.to_lowercase())
    matches = matches.unique(["row", "folded"], maintain_order=True)
    leaks = matches.join(spellings, on="folded", how="inner", maintain_order="left")
    return leaks.filter(col.named.str.to_lowercase() != col.concept.str.to_lowercase())


def _any_name(names: Collection[str]) -> str:
    """Return a pattern of whole names in any case, longest first ("Papua New Guinea" before "Guinea").

    Word boundaries are required only next to letters or digits.
    """
    longest_first = sorted(names, key=len, reverse=True)
    escaped = [re.sub(r"^(?=\w)|(?<=\w)$", lambda _: r"\b", re.escape(name)) for name in longest_first]
    return "(?i)" + "|".join(escaped)


def _keyword_shares(table: DataFrame) -> Iterator[_Row]:
    """Count the prompts of each keyword, and warn if most of a concept come from one keyword."""
    with_keyword = table.drop_nulls(["concept", "keyword"])
    counts = with_keyword.group_by("concept", "keyword", maintain_order=True).len("n")
    for (concept,), keywords in counts.group_by("concept", maintain_order=True):
        ordered = keywords.sort("n", descending=True, maintain_order=True).select("keyword", "n")
        total = int(ordered["n"].sum())
        keyword, most = ordered.row(0)
        yield _row("keywords", "note", total, _first_names(ordered), str(concept))
        if ordered.height > 1 and most > ALONE * total:
            finding = f"{most:,} of {total:,} prompts come from the keyword {keyword!r} alone"
            yield _row("keywords", "warning", most, finding, str(concept))


def _families(table: DataFrame) -> Iterator[_Row]:
    """Find roots with fewer branches than others."""
    with_roots = table.filter(~col.root.is_in(col.root.filter(_LOOSE).implode()))
    families = with_roots.group_by("root", maintain_order=True).len("n")
    incomplete = families.filter(col.n < col.n.max())
    if incomplete.height and table.select(_IS_BRANCH.any()).item():
        rows = table.filter(col.key.is_in(incomplete["root"].implode()))
        finding = (
            f"{_count_of(incomplete.height, 'root')} with fewer branches than the others; "
            "paired comparisons exclude missing branches"
        )
        yield _row("branches", "note", rows, finding)


def _count_of(number: int, noun: str) -> str:
    plural = "es" if noun.endswith("h") else "s"
    return f"{number:,} {noun}{'' if number == 1 else plural}"


def _first_names(counts: DataFrame) -> str:
    """Format the first few names and their counts."""
    more = f" and {counts.height - FEW:,} more" if counts.height > FEW else ""
    return ", ".join(f"{name} {n:,}" for name, n in counts.head(FEW).iter_rows()) + more


def describe_benchmark(table: DataFrame) -> DataFrame:
    """Count prompts, branches, keywords, baselines and sources of each concept, in the order of the table.

    Returns
    -------
    Columns `concept`, `prompts`, `branches` (prompts branched from another concept), `keywords` (distinct),
    `baselines` (prompts with a baseline), `sources` (distinct), `kinds`, `source_tags`, `licences` (lists of
    distinct values).
    """
    return table.group_by("concept", maintain_order=True).agg(
        prompts=pl.len(),
        branches=_IS_BRANCH.sum(),
        keywords=col.keyword.drop_nulls().n_unique(),
        baselines=col.baseline.count(),
        sources=col.source.drop_nulls().n_unique(),
        kinds=_distinct("kind"),
        source_tags=_distinct("source_tag"),
        licences=_distinct("licence"),
    )


def _distinct(column: str) -> Expr:
    return col(column).drop_nulls().unique(maintain_order=True)


def sample_benchmark(table: DataFrame, size: int, *, seed: int = 123) -> DataFrame:
    """Draw a random sample of about `size` rows, balanced over the concepts of the roots.

    The order of the table is kept.

    Roots are sampled together with all their branches, which preserves pairing. Without branches, the result
    has `size` rows; otherwise as many complete families as fit into `size`, at least one. A smaller sample is
    a subset of a larger one with the same seed.

    Raises
    ------
    InputError
        `size` is less than 1.
    """
    import numpy as np

    if size < 1:
        raise InputError(f"the size of a sample must be at least 1, not {size}")
    concept_of_root = pl.coalesce("branched_from", "concept").first()
    # Roots are sorted first, so that the sample does not depend on the order of the rows in the file.
    families = table.group_by("root").agg(rows=pl.len(), concept=concept_of_root).sort("root")
    lots = np.random.default_rng(seed).permutation(families.height)
    families = families.with_columns(lot=Series(lots))
    families = families.sort(col.lot.rank("ordinal").over("concept"), "lot")
    is_first = pl.int_range(pl.len()) == 0
    drawn = families.filter((col.rows.cum_sum() <= size) | is_first)
    return table.join(drawn, on="root", how="semi", maintain_order="left")
