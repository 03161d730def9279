"""Prompts about a root again as prompts about its targets, and the search for the words to replace.

Both steps of the search ask a judge: which words of a root's texts belong to it, and what their counterparts for a target are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl
from polars import DataFrame, Float64, Int64, Series, String, col, lit

from tiltmeter.benchmarks.benchmark_tables import Schema
from tiltmeter.benchmarks.branching.english_replacement import PARTICLES, replace, whole_words
from tiltmeter.benchmarks.judge_replies import ParsedReply, T, ask_until_read, read_pairs, templates
from tiltmeter.errors import InputError, ProviderError
from tiltmeter.llm_json import object_schema
from tiltmeter.readers import read_yes_no
from tiltmeter.registry import did_you_mean
from tiltmeter.study import Encoder, Judge

REPORT: Schema = {
    "root": String,
    "target": String,
    "rows": Int64,  # branches made
    "unchanged": Int64,  # of these, with the prompt of the root: nothing in it was replaced
    "still_named": Int64,  # of these, with the root's name still in the prompt as a whole word
}


class Branched(NamedTuple):
    """A benchmark with its branches."""

    benchmark: DataFrame
    """BENCHMARK: the rows given, in their order, then the branches, pair after pair in the order of the roots' rows."""
    report: DataFrame
    """REPORT, one row per pair."""


def branch(
    benchmark: DataFrame, replacements: Mapping[str, Mapping[str, Mapping[str, str]]], *, counterfactual_baseline: bool = False
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
        `{root: {target: {old: new}}}`; roots and targets are concepts. The table is the whole of what is replaced: a root's own name is
        an entry like any other word. Words of one text are replaced one way; a table that has both "he: she" and "she: he" swaps them.
        A word that maps to itself is kept, which protects it from a shorter entry. Roots without rows are passed over.
    counterfactual_baseline
        Whether the words of the baseline are replaced too; otherwise it is the root's.

    Raises
    ------
    InputError
        No root has rows, or a pair is in the benchmark already.
    """
    roots = benchmark.filter(col.branched_from.is_null())
    concepts = roots["concept"].unique(maintain_order=True).to_list()
    if not set(replacements) & set(concepts):
        first = next(iter(replacements), "")
        raise InputError(f"nothing can be branched: no prompt is about {first!r} or another root; {did_you_mean(first, concepts)}")
    replaced = ["prompt", "keyword", *(["baseline"] if counterfactual_baseline else [])]
    made, report = [benchmark], []
    pairs = [(root, target) for root in replacements if root in concepts for target in replacements[root]]
    for root, target in pairs:
        rows = roots.filter(concept=root)
        tag = pl.concat_str(lit(": "), "source_tag").fill_null("")
        branches = rows.with_columns(replace(rows[name], replacements[root][target]) for name in replaced).with_columns(
            key=pl.concat_str("key", lit(f"/{target}")),
            concept=lit(target),
            source_tag=pl.concat_str(lit(f"branch of {root}"), tag),
            branched_from="concept",
        )
        name = whole_words([" ".join(root.split())])
        still_named = sum(name.search(prompt) is not None for prompt in branches["prompt"].drop_nulls())
        made.append(branches)
        report.append((root, target, rows.height, (branches["prompt"] == rows["prompt"]).sum(), still_named))
    whole = pl.concat(made)
    if (twice := whole.filter(col.key.is_duplicated())).height:
        raise InputError(
            f"the benchmark has the key {twice['key'][-1]!r} already: its rows were branched before; give the one without branches"
        )
    return Branched(whole, DataFrame(report, schema=REPORT, orient="row"))


# The search for the words to replace

_SHOWN = 15
_WORD = r"\p{L}[\p{L}\p{M}\p{N}]*(?:['’\-\x{2010}\x{2011}][\p{L}\p{M}\p{N}]+)*"
_CLITIC = r"(?i)(?:['’](?:s|ll|d|re|ve|m)|n['’]t)$"
_AT_ONCE = 50
"""Words in one question: answers stay short enough not to be cut off."""
_LONGEST = 80
"""Characters of a counterpart; what is longer is no word but a text."""
_TEXT = {"type": "string"}
_SCHEMA = object_schema(replacements={"type": "array", "items": object_schema(old=_TEXT, new=_TEXT)})


class Proposal(NamedTuple):
    """What a judge proposes; to be looked through before it is used."""

    words: dict[str, str]
    """`{old: new}` in the order of the words asked about: the entry of a replacement table."""
    left_out: dict[str, str]
    """Every other word asked about, and why it has no counterpart."""


def find_descriptors(texts: Series, concept: str, encoder: Encoder, judge: Judge, *, threshold: float | None = None) -> list[str]:
    """Find the words of the texts that are near to a concept, the nearest first.

    Each word is taken once, in its most frequent spelling; articles, prepositions, conjunctions and auxiliaries are none. Without a
    threshold it is looked for by bisection of the sorted similarities: at each guess the judge is asked whether any of the 15 words next
    below it can be associated with the concept. If so (or if the answer cannot be read), the threshold may not go higher. The search
    ends when two values are left, of which the lower is taken (SAGED's rule).

    Parameters
    ----------
    texts
        Strings about the concept, nulls allowed.
    judge
        Only asked for a threshold.
    threshold
        Cosine that the words reach, from -1 to 1; None: to be found.

    Raises
    ------
    InputError
        There are no words.
    Unfinished, ProviderError
        The judge did not answer.
    """
    words = _counted_words(texts)
    if words.is_empty():
        raise InputError(f"the texts about {concept!r} hold no words; choose a concept with sentences")
    vectors = encoder.encode([concept, *words["word"]])
    # To six decimals, so that the order does not hang on how an encoder sums up.
    similarity = Series(vectors[1:] @ vectors[0]).cast(Float64).round(6)
    words = words.with_columns(similarity=similarity).sort("similarity", "word", descending=[True, False])

    def may_go_higher(guess: float) -> bool:
        below = words.filter(col.similarity < guess)["word"].head(_SHOWN)
        fields = {"concept": concept, "words": json.dumps(below.to_list(), ensure_ascii=False)}
        return _ask(judge, "associated", [fields], _read_association)[0].value == "no"

    if threshold is None:
        left = words["similarity"].unique().sort(descending=True).to_list()
        while len(left) > 2:
            middle = len(left) // 2
            left = left[: middle + 1] if may_go_higher(left[middle]) else left[middle:]
        threshold = left[-1]
    return words.filter(col.similarity >= threshold)["word"].to_list()


def propose_replacements(words: Sequence[str], root: str, target: str, judge: Judge) -> Proposal:
    """Ask a judge which words hold the same place for the target as these do for the root.

    The answer is read as JSON, whatever text is around it: a list of old and new words, or an object `{old: new}`. Words that were not
    asked about are passed over. A word given twice (in any case) is asked about once.

    Raises
    ------
    Unfinished, ProviderError
        The judge did not answer.
    """
    asked = list({word.casefold(): word for word in reversed(words)}.values())[::-1]
    parts = [asked[start : start + _AT_ONCE] for start in range(0, len(asked), _AT_ONCE)]
    fields = [{"root": root, "target": target, "words": json.dumps(part, ensure_ascii=False)} for part in parts]
    proposal = Proposal({}, {})
    for part, reply in zip(parts, _ask(judge, "analogous", fields, read_pairs, schema=_SCHEMA), strict=True):
        proposed = {old.strip().casefold(): new for old, new in reply.value or [] if isinstance(old, str)}
        for word in part:
            given = proposed.get(word.casefold())
            new = " ".join(given.split()) if isinstance(given, str) else ""
            if reply.problem:
                proposal.left_out[word] = f"the judge's answer could not be used: {reply.problem}"
            elif not new:
                proposal.left_out[word] = "the judge gave no counterpart"
            elif len(new) > _LONGEST:
                proposal.left_out[word] = f"its counterpart has more than {_LONGEST} characters"
            elif new.casefold() == word.casefold():
                proposal.left_out[word] = "its counterpart is the word itself"
            else:
                proposal.words[word] = new
    return proposal


def _ask(
    judge: Judge, role: str, fields: Sequence[dict[str, str]], read: Callable[[str], ParsedReply[T]], **options: Any
) -> list[ParsedReply[T]]:
    """Ask a question for each set of fields; raises ProviderError where the judge gave no answer."""
    texts = templates("branching", "branching")
    replies = ask_until_read(judge, texts[role], texts[f"{role}_again"], fields, read, tries=2, sampling={"temperature": 0.0}, **options)
    if failed := next((reply.problem for reply in replies if reply.final), None):
        raise ProviderError(f"a question to {judge.name} about the words to replace failed ({failed}); try again later")
    return replies


def _counted_words(texts: Series) -> DataFrame:
    """Each word once, in its most frequent spelling (of equals the first of the alphabet), without clitics; no particles."""
    found = texts.cast(String).str.normalize("NFC").str.extract_all(_WORD).explode().str.replace(_CLITIC, "").rename("word")
    spelt = found.filter(found.str.len_chars() > 1).value_counts().sort("count", "word", descending=[True, False])
    spelt = spelt.with_columns(low=col.word.str.to_lowercase()).unique("low", keep="first", maintain_order=True)
    return spelt.filter(~col.low.is_in(sorted(PARTICLES))).select("word")


def _read_association(answer: str) -> ParsedReply[str]:
    label = read_yes_no(Series([answer], dtype=String), "statement")["label"][0]
    return ParsedReply(label, None if label else "it is neither yes nor no")
