"""The stages that write prompts: from sentences, from a user's file, and from each other by branching."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tiltmeter.benchmarks._tables import BENCHMARK, Schema
from tiltmeter.benchmarks.assembling import DROPPED
from tiltmeter.benchmarks.building._needs import Needs, asked_all
from tiltmeter.benchmarks.building._store import Made
from tiltmeter.benchmarks.files import read_benchmark, sample_benchmark
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

if TYPE_CHECKING:
    from tiltmeter.benchmarks.branching import Replacements
    from tiltmeter.benchmarks.spec import Branch, Spec

__all__ = ["LEFT_OUT", "REPLACEMENTS", "branch_prompts", "find_replacements", "given_prompts", "make_prompts"]

REPLACEMENTS: Schema = {
    "root": pl.String,
    "target": pl.String,
    "old": pl.String,
    "new": pl.String,
    "by": pl.String,  # "given" (in the spec), "name" (of the concept) or "judge"
}
LEFT_OUT: Schema = {"root": pl.String, "target": pl.String, "word": pl.String, "reason": pl.String}
"""Words for which the judge has no counterpart, and why."""


def make_prompts(spec: Spec, sentences: pl.DataFrame, needs: Needs) -> Made:
    """Continuations or questions of the sentences, as many as asked for, and what was dropped on the way."""
    from tiltmeter.benchmarks.assembling import continuations, questions

    concepts = list(spec.sought)
    problems: tuple[str, ...] = ()
    if spec.assemble.kind == "question":
        judge = needs.judge("assemble.kind: question")
        made = questions(sentences, judge, check=spec.assemble.check, concepts=concepts, tried_with=list(spec.concepts))
        problems = asked_all(judge, "prompts")
    else:
        made = continuations(sentences, definition=spec.definition, concepts=concepts)
    dropped = made.dropped.select(list(DROPPED))
    benchmark = made.benchmark
    if spec.assemble.kind == "continuation" and spec.assemble.with_keyword:
        kept = pl.col("keyword_in_prompt").fill_null(True)
        cut = benchmark.filter(~kept).with_columns(sentence="baseline", reason=pl.lit("the keyword stands behind the cut"))
        dropped = pl.concat([dropped, cut.select(pl.col(name).cast(kind) for name, kind in DROPPED.items())])
        benchmark = benchmark.filter(kept)
        if lost := [concept for concept in concepts if concept not in set(benchmark["concept"])]:
            raise InputError(
                f"no prompt about {lost[0]!r} holds its keyword: set assemble.with_keyword to false, give it more sources, or take it out"
            )
    return Made({"prompts": _sized(spec, benchmark), "dropped": dropped}, problems, whole=not problems)


def given_prompts(spec: Spec, home: Path) -> Made:
    """The user's own prompts; raises InputError where they are about a concept the spec does not know."""
    path = home / str(spec.assemble.prompts)
    table = read_benchmark(path)
    for concept in table["concept"].unique(maintain_order=True):
        if concept not in spec.concepts:
            hint = did_you_mean(concept, list(spec.concepts))
            raise InputError(f"{path} has prompts about {concept!r}, which is no concept of the spec: {hint}")
    if lacking := [name for name in spec.sought if name not in set(table["concept"])]:
        raise InputError(f"{path} has no prompt about the concept {lacking[0]!r}; write some or take it out of the spec")
    table = table.with_columns(pl.col("domain").fill_null(spec.domain))
    return Made({"prompts": _sized(spec, table), "dropped": pl.DataFrame(schema=dict(DROPPED))})


def _sized(spec: Spec, benchmark: pl.DataFrame) -> pl.DataFrame:
    size = spec.assemble.size
    return (benchmark if size is None else sample_benchmark(benchmark, size, seed=spec.seed)).select(list(BENCHMARK))


def find_replacements(spec: Spec, asked: Branch, home: Path, prompts: pl.DataFrame, needs: Needs) -> Made:
    """What is replaced in which branch: what the spec gives, else the concepts' names, and what the judge proposes."""
    from tiltmeter.benchmarks.branching import read_table

    given: Replacements = {}
    if asked.table is not None:
        given = read_table(home / asked.table if isinstance(asked.table, str) else asked.table)
    pairs = _pairs(spec, asked, given, prompts)
    rows = [_row(root, target, old, new, "given") for root in given for target in given[root] for old, new in given[root][target].items()]
    rows += [_row(root, target, root, target, "name") for root, target in pairs if not given.get(root, {}).get(target)]
    left_out: list[dict[str, Any]] = []
    problems: tuple[str, ...] = ()
    if asked.descriptors is not None:
        proposed, left_out, problems = _proposed(asked, pairs, prompts, needs)
        rows += proposed
    table = pl.DataFrame(rows, schema=dict(REPLACEMENTS)).unique(["root", "target", "old"], keep="first", maintain_order=True)
    return Made({"replacements": table, "left_out": pl.DataFrame(left_out, schema=dict(LEFT_OUT))}, problems, whole=not problems)


def _pairs(spec: Spec, asked: Branch, given: Replacements, prompts: pl.DataFrame) -> list[tuple[str, str]]:
    if asked.pairs != "all":
        return [(root, target) for root, target in asked.pairs]
    if given:
        return [(root, target) for root in given for target in given[root]]
    with_prompts = set(prompts["concept"])
    return [(root, target) for root, target in permutations(spec.concepts, 2) if root in with_prompts]


def _proposed(
    asked: Branch, pairs: list[tuple[str, str]], prompts: pl.DataFrame, needs: Needs
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], tuple[str, ...]]:
    """Words near to each root with what the judge would put in their place for each target, and those for which it has nothing."""
    from tiltmeter.benchmarks.branching import find_descriptors, propose_replacements

    assert asked.descriptors is not None
    judge, encoder = needs.judge("branch.descriptors"), needs.encoder("branch.descriptors")
    threshold = None if asked.descriptors.threshold == "auto" else asked.descriptors.threshold
    columns = ["prompt", "baseline"] if asked.counterfactual_baseline else ["prompt"]
    rows: list[dict[str, Any]] = []
    left_out: list[dict[str, Any]] = []
    for root in dict.fromkeys(root for root, _ in pairs):
        mine = prompts.filter(concept=root).select(columns)
        texts = pl.concat([mine[name].rename("text") for name in columns])
        words = find_descriptors(texts, root, encoder, threshold=threshold, judge=judge).kept
        for target in (target for one, target in pairs if one == root and words):
            proposal = propose_replacements(words, root, target, judge)
            rows += [_row(root, target, old, new, "judge") for old, new in proposal.words.items()]
            left_out += [{"root": root, "target": target, "word": word, "reason": why} for word, why in proposal.left_out.items()]
    return rows, left_out, asked_all(judge, "replacements")


def _row(root: str, target: str, old: str, new: str, by: str) -> dict[str, str]:
    return {"root": root, "target": target, "old": old, "new": new, "by": by}


def branch_prompts(asked: Branch, prompts: pl.DataFrame, replacements: pl.DataFrame) -> Made:
    """The prompts with their branches; prompts in which nothing was replaced, or the root is still named, are told."""
    from tiltmeter.benchmarks.branching import branch

    table: Replacements = {}
    for row in replacements.iter_rows(named=True):
        table.setdefault(row["root"], {}).setdefault(row["target"], {})[row["old"]] = row["new"]
    made = branch(
        prompts,
        table,
        pairs="all" if asked.pairs == "all" else [(root, target) for root, target in asked.pairs],
        direction="both" if asked.direction == "both" else "one way",
        counterfactual_baseline=asked.counterfactual_baseline,
    )
    problems = []
    for root, target, rows, unchanged, still_named in made.report.select("root", "target", "rows", "unchanged", "still_named").iter_rows():
        if unchanged:
            problems.append(
                f"branches: {unchanged:,} of {rows:,} prompts about {root} read the same for {target}: no word in them was replaced"
            )
        if still_named:
            problems.append(
                f"branches: {still_named:,} of {rows:,} prompts about {target} still name {root}; add the missing words to the table"
            )
    return Made({"branches": made.benchmark.select(list(BENCHMARK))}, tuple(problems))
