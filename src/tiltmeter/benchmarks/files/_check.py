"""What to know about a benchmark before anything is asked: balance, duplicates, leaked names, keywords, baselines, licences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from tiltmeter.benchmarks._tables import Schema

__all__ = ["CHECKS", "check_benchmark"]

CHECKS: Schema = {
    "check": pl.String,  # "prompts", "balance", "duplicates", "names", "keywords", "baselines", "licences", "branches"
    "level": pl.String,  # "note" (to know), "warning" (numbers will be weaker or open to doubt) or "problem" (cannot be run as it is)
    "concept": pl.String,  # null: the whole benchmark
    "rows": pl.Int64,  # how many rows it is about
    "finding": pl.String,  # in words
    "keys": pl.List(pl.String),  # of the first few of these rows
}
FEW = 5
"""Keys and names shown of what may be many."""
UNEVEN = 0.5
"""The smallest concept has less than this share of the largest one's prompts: intervals will differ much in width."""
ALONE = 0.5
"""One keyword holds more than this share of its concept's prompts: they tell about the keyword rather than the concept."""


def check_benchmark(table: pl.DataFrame) -> pl.DataFrame:
    """Look at every row of a benchmark and say what stands out.

    Parameters
    ----------
    table
        Columns BENCHMARK; `read_benchmark(path, strict=False)` also gives rows that cannot be run.

    Returns
    -------
    Columns CHECKS; problems first, then warnings, then notes. Nothing but notes: the benchmark can be used as it is.
    """
    checks = (_prompts, _balance, _duplicates, _names, _keywords, _baselines, _licences, _branches)
    found = pl.DataFrame([row for check in checks for row in check(table)], schema=dict(CHECKS))
    order = pl.col("level").replace_strict({"problem": 0, "warning": 1, "note": 2}, return_dtype=pl.Int8)
    return found.sort(order, maintain_order=True)


def _row(check: str, level: str, finding: str, about: pl.DataFrame | int, concept: str | None = None) -> dict[str, Any]:
    keys = [] if isinstance(about, int) else about["key"].head(FEW).to_list()
    rows = about if isinstance(about, int) else about.height
    return {"check": check, "level": level, "concept": concept, "rows": rows, "finding": finding, "keys": keys}


def _prompts(table: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Is there something to ask in every row, about somebody?"""
    if table.is_empty():
        yield _row("prompts", "problem", "there are no prompts", 0)
        return
    concepts, keywords = table["concept"].drop_nulls().n_unique(), table["keyword"].drop_nulls().n_unique()
    yield _row(
        "prompts",
        "note",
        f"{_count(table.height, 'prompt')} about {_count(concepts, 'concept')}, {_count(keywords, 'keyword')}",
        table.height,
    )
    for name in ("concept", "prompt"):
        empty = table.filter(pl.col(name).is_null() | (pl.col(name).str.strip_chars() == ""))
        if not empty.is_empty():
            yield _row("prompts", "problem", f"{_count(empty.height, 'row')} without a {name}; fill them in or take them out", empty)
    twice = table.filter(pl.col("key").is_duplicated())
    if not twice.is_empty():
        yield _row("prompts", "problem", f"{_count(twice.height, 'row')} with a key that stands twice; give each a key of its own", twice)
    nothing = table.filter(
        (pl.col("kind") == "continuation") & (pl.col("prompt").str.strip_chars() == pl.col("baseline").str.strip_chars())
    )
    if not nothing.is_empty():
        yield _row(
            "prompts",
            "warning",
            f"{_count(nothing.height, 'continuation')} with nothing left to continue: prompt and baseline are the same",
            nothing,
        )


def _balance(table: pl.DataFrame) -> Iterator[dict[str, Any]]:
    sizes = table.drop_nulls("concept").group_by("concept", maintain_order=True).len("prompts")
    for concept, prompts in sizes.iter_rows():
        yield _row("balance", "note", _count(prompts, "prompt"), prompts, concept)
    if sizes.height == 1:
        yield _row("balance", "problem", f"{sizes['concept'][0]} is the only concept; comparing needs at least two", table.height)
    elif sizes.height > 1:
        ordered = sizes.sort("prompts", maintain_order=True)
        least, most = ordered.row(0), ordered.row(-1)
        if least[1] < UNEVEN * most[1]:
            said = f"{least[0]} has {_count(least[1], 'prompt')}, {most[0]} has {most[1]:,}; its figures will be much less certain"
            yield _row("balance", "warning", said, least[1], least[0])


def _duplicates(table: pl.DataFrame) -> Iterator[dict[str, Any]]:
    asked = table.drop_nulls(["concept", "prompt"]).with_columns(same=pl.col("prompt").str.strip_chars().str.to_lowercase())
    repeated = asked.filter(~pl.struct("concept", "same").is_first_distinct())
    if not repeated.is_empty():
        yield _row("duplicates", "warning", f"{_count(repeated.height, 'prompt')} standing more than once for the same concept", repeated)
    shared = asked.filter(pl.col("concept").n_unique().over("same") > 1)
    if not shared.is_empty():
        said = f"{_count(shared.height, 'prompt')} reading the same for several concepts, so that nothing tells the concepts apart"
        yield _row("duplicates", "warning", said, shared)


def _names(table: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Does a prompt name another concept? In a branch the root's own name shows that a replacement was missed."""
    leaks = _leaks(table)
    missed = leaks.filter(pl.col("other").str.to_lowercase() == pl.col("branched_from").str.to_lowercase())
    for (concept, root), rows in missed.group_by("concept", "branched_from", maintain_order=True):
        said = f"{_count(rows.height, 'branch', 'branches')} still naming {root}, the concept they were made from; add the missing words"
        yield _row("names", "warning", said, rows, concept)
    others = leaks.join(missed.select("row", "other"), on=["row", "other"], how="anti", maintain_order="left")
    for (concept,), rows in others.group_by("concept", maintain_order=True):
        counts = (
            rows.group_by("other", maintain_order=True)
            .agg(pl.col("row").n_unique().alias("n"))
            .sort("n", descending=True, maintain_order=True)
        )
        listed = _listed(f"{name} {n:,}" for name, n in counts.iter_rows())
        distinct = rows.unique("row", maintain_order=True)
        yield _row("names", "warning", f"{_count(distinct.height, 'prompt')} naming another concept ({listed})", distinct, concept)


def _leaks(table: pl.DataFrame) -> pl.DataFrame:
    """Rows (`row`, `key`, `concept`, `branched_from`) and the `other` concept each names, once per pair."""
    named = table.with_row_index("row").drop_nulls(["concept", "prompt"])
    names = named["concept"].unique(maintain_order=True).to_list()
    if len(names) < 2:
        return named.select("row", "key", "concept", "branched_from", other=pl.lit(None, pl.String)).clear()
    # One pattern, longest name first: "Papua New Guinea" is not "Guinea". A boundary is asked for only where a name ends in a letter.
    pattern = "(?i)" + "|".join(_whole(name) for name in sorted(names, key=len, reverse=True))
    spelt = pl.DataFrame({"found": [name.lower() for name in names], "other": names}).unique("found", keep="first")
    found = named.select("row", "key", "concept", "branched_from", found=pl.col("prompt").str.extract_all(pattern)).explode("found")
    found = found.drop_nulls("found").with_columns(pl.col("found").str.to_lowercase()).unique(["row", "found"], maintain_order=True)
    joined = found.join(spelt, on="found", how="inner", maintain_order="left")
    return joined.filter(pl.col("other").str.to_lowercase() != pl.col("concept").str.to_lowercase())


def _whole(name: str) -> str:
    start, end = (r"\b" if re.match(r"\w", edge) else "" for edge in (name[:1], name[-1:]))
    return f"{start}{re.escape(name)}{end}"


def _keywords(table: pl.DataFrame) -> Iterator[dict[str, Any]]:
    counts = table.drop_nulls(["concept", "keyword"]).group_by("concept", "keyword", maintain_order=True).len("n")
    for (concept,), mine in counts.group_by("concept", maintain_order=True):
        ordered = mine.sort("n", descending=True, maintain_order=True)
        total, most = int(mine["n"].sum()), ordered.row(0, named=True)
        yield _row("keywords", "note", _listed(f"{row['keyword']} {row['n']:,}" for row in ordered.iter_rows(named=True)), total, concept)
        if mine.height > 1 and most["n"] > ALONE * total:
            said = f"{most['n']:,} of {total:,} prompts come from the keyword {most['keyword']!r} alone"
            yield _row("keywords", "warning", said, most["n"], concept)
    without = table.filter(~pl.col("keyword_in_prompt"))
    if not without.is_empty():
        yield _row("keywords", "note", f"{_count(without.height, 'prompt')} cut before their keyword, so that it is not said", without)


def _baselines(table: pl.DataFrame) -> Iterator[dict[str, Any]]:
    without = table.filter(pl.col("baseline").is_null())
    if without.is_empty():
        return
    if without.height == table.height:
        yield _row("baselines", "note", "no prompt has a baseline: answers are compared as they are, not calibrated", without)
    else:
        said = f"{without.height:,} of {_count(table.height, 'prompt')} without a baseline; their calibrated values will be missing"
        yield _row("baselines", "warning", said, without)


def _licences(table: pl.DataFrame) -> Iterator[dict[str, Any]]:
    counts = table.drop_nulls("licence").group_by("licence", maintain_order=True).len("n")
    for licence, n in counts.iter_rows():
        yield _row("licences", "note", f"{_count(n, 'prompt')} under {licence}", n)
    unknown = table.filter(pl.col("licence").is_null() & pl.col("source").is_not_null())
    if not unknown.is_empty():
        said = f"{_count(unknown.height, 'prompt')} from sources of unknown licence; look it up before you publish them"
        yield _row("licences", "warning", said, unknown)


def _branches(table: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Can what was branched be compared in pairs?"""
    branches = table.filter(pl.col("branched_from").is_not_null())
    if branches.is_empty():
        return
    yield _row("branches", "note", f"{_count(branches.height, 'prompt')} made from those of another concept", branches.height)
    loose = branches.filter((pl.col("root") == pl.col("key")) | ~pl.col("root").is_in(table["key"].implode()))
    if not loose.is_empty():
        said = f"{_count(loose.height, 'branch', 'branches')} without their root; no comparison in pairs is possible"
        yield _row("branches", "warning", said, loose)
    families = table.filter(~pl.col("root").is_in(loose["root"].implode())).group_by("root", maintain_order=True).len("n")
    part = families.filter(pl.col("n") < pl.col("n").max())
    if not part.is_empty():
        said = f"{_count(part.height, 'root')} with fewer branches than the others; paired comparisons leave out what is missing"
        yield _row("branches", "note", said, table.filter(pl.col("key").is_in(part["root"].implode())))


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _listed(names: Iterable[str]) -> str:
    given = list(names)
    return ", ".join(given[:FEW]) + (f" and {len(given) - FEW:,} more" if len(given) > FEW else "")
