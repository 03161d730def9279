"""Every prompt about a root again, as a prompt about each target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import polars as pl

from tiltmeter.benchmarks._tables import BENCHMARK
from tiltmeter.benchmarks.branching._replace import replace, whole_words
from tiltmeter.benchmarks.branching._table import Replacements, inverse, read_table
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

__all__ = ["REPORT", "Branched", "branch"]

REPORT: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "root": pl.String,
    "target": pl.String,
    "rows": pl.Int64,  # branches made
    "unchanged": pl.Int64,  # of these, with the prompt of the root: nothing in it was replaced
    "still_named": pl.Int64,  # of these, with the root's name still in the prompt as a whole word
}

_THE_TABLE = "the replacement table"


class Branched(NamedTuple):
    """A benchmark with its branches."""

    benchmark: pl.DataFrame
    """BENCHMARK: the rows given, in their order, then the branches, pair after pair in the order of the roots' rows."""
    report: pl.DataFrame
    """REPORT, one row per pair."""


def branch(
    benchmark: pl.DataFrame,
    replacements: Replacements | Mapping[str, Any],
    *,
    pairs: Literal["all"] | Sequence[tuple[str, str]] = "all",
    direction: Literal["one way", "both"] = "one way",
    counterfactual_baseline: bool = False,
    sources: Sequence[str] | None = None,
) -> Branched:
    """Add to a benchmark what its prompts about each root become for each target.

    A branch keeps the `root` of the row it was made from, so that the two can be compared as a pair, and its `key` is the root's
    with the target behind a slash; its `source_tag` is "branch of ROOT: TAG". Branches are never branched again. A row in which
    nothing was replaced is branched too, and counted.

    Parameters
    ----------
    benchmark
        BENCHMARK. Nothing of it is changed or left out.
    replacements
        `{root: {target: {old: new}}}`, see `read_table`.
    pairs
        (root, target) to be branched; "all": those of the table whose root has rows.
    direction
        "both": targets are branched to their roots as well, by their own table or else by the root's the other way round. Words of one
        text are replaced one way all the same; a table that has both "he: she" and "she: he" swaps them.
    counterfactual_baseline
        Whether the words of the baseline are replaced too; otherwise it is the root's.
    sources
        Source tags of the rows that are branched; None: all.

    Raises
    ------
    InputError
        The table cannot be used; a pair is not in it, has no rows, or stands in the benchmark already; an unknown source tag or direction;
        a table that has no way back.
    """
    table = read_table(replacements)
    if direction not in ("one way", "both"):
        raise InputError(f"unknown direction {direction!r} of branching: {did_you_mean(direction, ('one way', 'both'))}")
    roots = _roots(benchmark, sources)
    made, report = [], []
    for root, target, words in _wanted(table, pairs, direction, roots):
        rows = roots.filter(pl.col("concept") == root)
        branches = _branches(rows, target, words, counterfactual_baseline=counterfactual_baseline)
        made.append(branches)
        named = _named(branches["prompt"], root)
        report.append((root, target, rows.height, (branches["prompt"] == rows["prompt"]).sum(), named))
    whole = pl.concat([benchmark, *(one.select(benchmark.columns) for one in made)])
    if (twice := whole.filter(pl.col("key").is_duplicated())).height:
        raise InputError(
            f"the benchmark has the key {twice['key'][-1]!r} already: its rows were branched before; give the one without branches"
        )
    return Branched(whole, pl.DataFrame(report, schema=dict(REPORT), orient="row"))


def _roots(benchmark: pl.DataFrame, sources: Sequence[str] | None) -> pl.DataFrame:
    """The rows that may be branched."""
    if missing := [name for name in BENCHMARK if name not in benchmark.columns]:
        raise InputError(f"the benchmark lacks the column {missing[0]!r}")
    roots = benchmark.filter(pl.col("branched_from").is_null())
    if sources is None:
        return roots
    known = roots["source_tag"].drop_nulls().unique().sort().to_list()
    for source in sources:
        if source not in known:
            raise InputError(f"no prompt of the benchmark has the source tag {source!r}: {did_you_mean(source, known)}")
    return roots.filter(pl.col("source_tag").is_in(list(sources)))


def _wanted(
    table: Replacements, pairs: Literal["all"] | Sequence[tuple[str, str]], direction: str, roots: pl.DataFrame
) -> list[tuple[str, str, dict[str, str]]]:
    """Root, target and words of each pair, each once."""
    asked = [(root, target) for root, targets in table.items() for target in targets] if pairs == "all" else list(map(_pair, pairs))
    found: dict[tuple[str, str], dict[str, str]] = {}
    for root, target in asked:
        found[root, target] = _entry(table, root, target)
    if direction == "both":
        for root, target in asked:
            if (target, root) not in found:
                own = table.get(target, {}).get(root)
                found[target, root] = inverse(found[root, target], f"{_THE_TABLE}: {root}.{target}") if own is None else own
    concepts = roots["concept"].unique(maintain_order=True).to_list()
    given = set() if pairs == "all" else set(asked)
    for root, target in found:
        if (root, target) in given and root not in concepts:
            raise InputError(f"the pair {root}, {target}: no prompt to be branched is about {root!r}; {did_you_mean(root, concepts)}")
    kept = [(root, target, words) for (root, target), words in found.items() if root in concepts]
    if not kept:
        first = asked[0][0] if asked else ""
        raise InputError(
            f"nothing can be branched: no prompt is about {first!r} or another root asked for; {did_you_mean(first, concepts)}"
        )
    return kept


def _pair(pair: Sequence[str]) -> tuple[str, str]:
    if isinstance(pair, str) or len(pair) != 2:
        raise InputError(f"pairs of branching: {pair!r} is not a root and a target; write [Argentina, Brazil]")
    return pair[0], pair[1]


def _entry(table: Replacements, root: str, target: str) -> dict[str, str]:
    if root not in table:
        raise InputError(f"the pair {root}, {target}: {_THE_TABLE} has no root {root!r}; {did_you_mean(root, list(table))}")
    if target not in table[root]:
        raise InputError(
            f"the pair {root}, {target}: {_THE_TABLE} has no target {target!r} there; {did_you_mean(target, list(table[root]))}"
        )
    return table[root][target]


def _branches(rows: pl.DataFrame, target: str, words: Mapping[str, str], *, counterfactual_baseline: bool) -> pl.DataFrame:
    replaced = ("prompt", "keyword", *(["baseline"] if counterfactual_baseline else []))
    tag = pl.concat_str([pl.lit(": "), pl.col("source_tag")])
    return rows.with_columns(*(replace(rows[name], words) for name in replaced)).with_columns(
        key=pl.concat_str([pl.col("key"), pl.lit(f"/{target}")]),
        concept=pl.lit(target),
        source_tag=pl.concat_str([pl.lit("branch of "), pl.col("concept"), tag.fill_null("")]),
        branched_from=pl.col("concept"),
    )


def _named(prompts: pl.Series, root: str) -> int:
    name = whole_words((" ".join(root.split()),))
    return sum(name.search(prompt) is not None for prompt in prompts.drop_nulls())
