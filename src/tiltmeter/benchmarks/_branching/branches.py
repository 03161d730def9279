"""Branching of the prompts about a root concept to target concepts, and the search for the words to replace.

Both steps of the search ask a judge: which words in the texts about the root are specific to it, and what
their counterparts for a target are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl
from polars import DataFrame, Float64, Int64, Series, String, col, lit

from tiltmeter._judging.questions import ParsedReply, T
from tiltmeter.benchmarks._branching.english_replacement import PARTICLES, replace, whole_words
from tiltmeter.benchmarks._judge_replies import ask_until_read, read_pairs, templates
from tiltmeter.benchmarks._tables import Schema
from tiltmeter.errors import InputError, ProviderError, did_you_mean
from tiltmeter.models import Encoder
from tiltmeter.models._json_replies import object_schema
from tiltmeter.readers import read_yes_no
from tiltmeter.study import Judge

REPORT: Schema = {
    "root": String,
    "target": String,
    "rows": Int64,  # number of branches
    "unchanged": Int64,  # branches with the same prompt as the root
    "still_named": Int64,  # branches whose prompt still contains the name of the root as a whole word
}


class Branched(NamedTuple):
    """A benchmark with its branches."""

    benchmark: DataFrame
    """BENCHMARK: the given rows in their order, then the branches, pair by pair in the order of the root
    rows."""
    report: DataFrame
    """REPORT, one row per pair."""


def branch(
    benchmark: DataFrame,
    replacements: Mapping[str, Mapping[str, Mapping[str, str]]],
    *,
    counterfactual_baseline: bool = False,
) -> Branched:
    """Add branches to a benchmark: the prompts about each root, rewritten for each target.

    A branch has the `root` of its original row, so that both can be compared as a pair. Its `key` is that of
    the root, a slash and the target; its `source_tag` is "branch of ROOT: TAG". Existing branches are not
    branched again. Rows in which no word is replaced are branched too, and counted in the report.

    Parameters
    ----------
    benchmark
        BENCHMARK; all its rows are kept unchanged.
    replacements
        `{root: {target: {old: new}}}`, where roots and targets are concepts. Only the words in the table are
        replaced; the name of the root needs an entry like any other word. All replacements are made at once,
        so that a table with "he: she" and "she: he" swaps both. A word that maps to itself is kept and
        protected from shorter entries. Roots without rows are ignored.
    counterfactual_baseline
        Whether words are also replaced in the baseline; otherwise the branch has the baseline of the root.

    Raises
    ------
    InputError
        No root has rows, or the benchmark already contains a pair.
    """
    roots = benchmark.filter(col.branched_from.is_null())
    concepts = roots["concept"].unique(maintain_order=True).to_list()
    if not set(replacements) & set(concepts):
        first = next(iter(replacements), "")
        raise InputError(
            f"nothing can be branched: no prompt is about {first!r} or any other root; "
            f"{did_you_mean(first, concepts)}"
        )
    columns = ["prompt", "keyword"]
    if counterfactual_baseline:
        columns.append("baseline")
    tables = [benchmark]
    report = []
    pairs = [(root, target) for root in replacements if root in concepts for target in replacements[root]]
    for root, target in pairs:
        rows = roots.filter(concept=root)
        words = replacements[root][target]
        branches = rows.with_columns(replace(rows[column], words) for column in columns)
        tag = pl.concat_str(lit(": "), "source_tag").fill_null("")
        branches = branches.with_columns(
            key=pl.concat_str("key", lit(f"/{target}")),
            concept=lit(target),
            source_tag=pl.concat_str(lit(f"branch of {root}"), tag),
            branched_from="concept",
        )
        tables.append(branches)
        unchanged = (branches["prompt"] == rows["prompt"]).sum()
        name = whole_words([" ".join(root.split())])
        still_named = sum(name.search(prompt) is not None for prompt in branches["prompt"].drop_nulls())
        report.append((root, target, rows.height, unchanged, still_named))
    branched = pl.concat(tables)
    duplicates = branched.filter(col.key.is_duplicated())
    if duplicates.height:
        key = duplicates["key"][-1]
        raise InputError(f"the benchmark already has the key {key!r}; use a benchmark without these branches")
    return Branched(branched, DataFrame(report, schema=REPORT, orient="row"))


# The search for the words to replace

_WORDS_TO_JUDGE = 15
"""Number of words in a question whether any of them can be associated with the concept."""
_WORD = r"\p{L}[\p{L}\p{M}\p{N}]*(?:['’\-\x{2010}\x{2011}][\p{L}\p{M}\p{N}]+)*"
_CLITIC = r"(?i)(?:['’](?:s|ll|d|re|ve|m)|n['’]t)$"
_AT_ONCE = 50
"""Words per question, so that answers are not truncated."""
_LONGEST = 80
"""Maximum number of characters of a counterpart; longer ones are not words."""
_TEXT = {"type": "string"}
_SCHEMA = object_schema(replacements={"type": "array", "items": object_schema(old=_TEXT, new=_TEXT)})


class Proposal(NamedTuple):
    """Replacements proposed by a judge, to be reviewed before use."""

    words: dict[str, str]
    """`{old: new}`, in the order of the given words: an entry of a replacement table."""
    left_out: dict[str, str]
    """All other words, with the reason why they have no counterpart."""


def find_descriptors(
    texts: Series, concept: str, encoder: Encoder, judge: Judge, *, threshold: float | None = None
) -> list[str]:
    """Find the words in texts that are most similar to a concept, most similar first.

    Each word occurs once, in its most frequent spelling; articles, prepositions, conjunctions and auxiliaries
    are ignored. Without a threshold, it is found by a binary search over the sorted similarities: at each
    value, the judge is asked whether any of the next 15 words below it can be associated with the concept. If
    so, or if the answer cannot be read, the threshold is not raised. The search ends with two values, of
    which the lower one is used (SAGED's rule).

    Parameters
    ----------
    texts
        Strings about the concept, with or without nulls.
    concept
        The concept.
    encoder
        Sentence encoder for the similarities.
    judge
        Model that is asked if there is no threshold.
    threshold
        Smallest cosine similarity of the words, from -1 to 1; None: found by asking the judge.

    Returns
    -------
    The words with at least this similarity.

    Raises
    ------
    InputError
        The texts contain no words.
    Unfinished, ProviderError
        The judge did not answer.
    """
    words = _counted_words(texts)
    if words.is_empty():
        raise InputError(f"the texts about {concept!r} contain no words; choose a concept with sentences")
    vectors = encoder.encode([concept, *words["word"]])
    # Rounded to six decimals, so that the order does not depend on rounding errors of the encoder.
    similarity = Series(vectors[1:] @ vectors[0]).cast(Float64).round(6)
    words = words.with_columns(similarity=similarity).sort("similarity", "word", descending=[True, False])

    if threshold is None:
        threshold = _searched_threshold(words, concept, judge)
    return words.filter(col.similarity >= threshold)["word"].to_list()


def _searched_threshold(words: DataFrame, concept: str, judge: Judge) -> float:
    """Return the smallest similarity of words to replace, by a binary search (see `find_descriptors`).

    `words` has the columns `word` and `similarity`, most similar first.
    """
    similarities: list[float] = words["similarity"].unique().sort(descending=True).to_list()
    while len(similarities) > 2:
        middle = len(similarities) // 2
        below = words.filter(col.similarity < similarities[middle])["word"].head(_WORDS_TO_JUDGE)
        fields = {"concept": concept, "words": json.dumps(below.to_list(), ensure_ascii=False)}
        (reply,) = _ask(judge, "associated", [fields], _read_association)
        may_go_higher = reply.value == "no"
        similarities = similarities[: middle + 1] if may_go_higher else similarities[middle:]
    return similarities[-1]


def propose_replacements(words: Sequence[str], root: str, target: str, judge: Judge) -> Proposal:
    """Ask a judge for the counterparts of words about the root concept for the target concept.

    The answer is parsed as JSON, with or without surrounding text: a list of old and new words, or an object
    `{old: new}`. Other words in the answer are ignored. Duplicate words (in any case) are asked about once.

    Raises
    ------
    Unfinished, ProviderError
        The judge did not answer.
    """
    distinct = list({word.casefold(): word for word in reversed(words)}.values())[::-1]
    parts = [distinct[start : start + _AT_ONCE] for start in range(0, len(distinct), _AT_ONCE)]
    fields = [
        {"root": root, "target": target, "words": json.dumps(part, ensure_ascii=False)} for part in parts
    ]
    replies = _ask(judge, "analogous", fields, read_pairs, schema=_SCHEMA)
    proposal = Proposal({}, {})
    for part, reply in zip(parts, replies, strict=True):
        proposed = {old.strip().casefold(): new for old, new in reply.value or [] if isinstance(old, str)}
        for word in part:
            new = proposed.get(word.casefold())
            counterpart = " ".join(new.split()) if isinstance(new, str) else ""
            if reply.problem:
                proposal.left_out[word] = f"the judge's answer could not be used: {reply.problem}"
            elif problem := _problem_of_counterpart(word, counterpart):
                proposal.left_out[word] = problem
            else:
                proposal.words[word] = counterpart
    return proposal


def _problem_of_counterpart(word: str, counterpart: str) -> str | None:
    """Return why a counterpart cannot be used, or None."""
    if not counterpart:
        return "the judge gave no counterpart"
    if len(counterpart) > _LONGEST:
        return f"its counterpart has more than {_LONGEST} characters"
    if counterpart.casefold() == word.casefold():
        return "its counterpart is the word itself"
    return None


def _ask(
    judge: Judge,
    role: str,
    fields: Sequence[dict[str, str]],
    read: Callable[[str], ParsedReply[T]],
    **options: Any,
) -> list[ParsedReply[T]]:
    """Ask a question for each set of fields; raises ProviderError if the judge gave no answer."""
    texts = templates("branching", "branching")
    replies = ask_until_read(
        judge,
        texts[role],
        texts[f"{role}_again"],
        fields,
        read,
        tries=2,
        sampling={"temperature": 0.0},
        **options,
    )
    problem = next((reply.problem for reply in replies if reply.final), None)
    if problem:
        raise ProviderError(
            f"a request to {judge.name} for words to replace failed ({problem}); try again later"
        )
    return replies


def _counted_words(texts: Series) -> DataFrame:
    """Return each word once, without clitics and particles.

    A word has its most frequent spelling; of several, the first in sort order.
    """
    words = (
        texts.cast(String)
        .str.normalize("NFC")
        .str.extract_all(_WORD)
        .explode()
        .str.replace(_CLITIC, "")
        .rename("word")
    )
    spellings = words.filter(words.str.len_chars() > 1).value_counts()
    spellings = spellings.sort("count", "word", descending=[True, False])
    spellings = spellings.with_columns(folded=col.word.str.to_lowercase())
    spellings = spellings.unique("folded", keep="first", maintain_order=True)
    return spellings.filter(~col.folded.is_in(sorted(PARTICLES))).select("word")


def _read_association(answer: str) -> ParsedReply[str]:
    label = read_yes_no(Series([answer], dtype=String), "statement")["label"][0]
    return ParsedReply(label, None if label else "it is neither yes nor no")
