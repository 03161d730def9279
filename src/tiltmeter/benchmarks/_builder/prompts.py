"""Conversion of sentences to prompts: beginnings of sentences, and questions that a model writes.

The original sentence is the baseline of a prompt.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal, NamedTuple

import polars as pl
from polars import DataFrame, Series, String, col, lit

from tiltmeter._judging.questions import ParsedReply
from tiltmeter.benchmarks._builder.verbs import main_verb_of, tag_words
from tiltmeter.benchmarks._judge_replies import ask_all, ask_until_read, read_check, read_question, templates
from tiltmeter.benchmarks._tables import BENCHMARK, SENTENCES, Schema
from tiltmeter.designs.wordings import fill_template
from tiltmeter.errors import InputError
from tiltmeter.models._json_replies import object_schema
from tiltmeter.schema import conform
from tiltmeter.study import Judge

DROPPED: Schema = {**SENTENCES, "reason": String}
"""One row per sentence without a prompt, with the reason."""


class Assembled(NamedTuple):
    """Prompts made from a table of sentences."""

    benchmark: DataFrame
    """BENCHMARK, in the order of the sentences."""
    dropped: DataFrame
    """DROPPED, in the same order."""


def _with_single_spaces(sentences: DataFrame) -> DataFrame:
    return sentences.select(list(SENTENCES)).with_columns(
        col.sentence.str.replace_all(r"\s+", " ").str.strip_chars()
    )


_PromptOrReason = tuple[str | None, str | None]
"""The prompt of a sentence and null, or null and the reason why there is none."""


def _assemble(sentences: DataFrame, kind: str, prompts: Sequence[_PromptOrReason]) -> Assembled:
    """Build the benchmark from the sentences with a prompt, and list the others with the reason.

    Raises
    ------
    InputError
        All sentences of a concept were dropped.
    """
    columns = DataFrame(prompts, schema={"prompt": String, "reason": String}, orient="row")
    table = sentences.with_columns(columns)
    with_prompt = table.filter(col.prompt.is_not_null())
    dropped = table.filter(col.prompt.is_null())
    without_prompts = dropped.join(with_prompt, on="concept", how="anti", maintain_order="left")
    if not without_prompts.is_empty():
        concept = without_prompts["concept"][0]
        reasons = Counter(dropped.filter(concept=concept)["reason"])
        counts = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
        raise InputError(
            f"no prompt could be made from the sentences about {concept!r} ({counts}); "
            "add keywords or sources, or remove the concept"
        )
    keyword = col.keyword.str.strip_chars().str.escape_regex()
    keyword_as_word = pl.format(r"(?i)(?:^|[^\w]){}(?:[^\w]|$)", keyword)
    benchmark = with_prompt.with_columns(
        _keys(with_prompt, kind),
        kind=lit(kind),
        baseline="sentence",
        keyword_in_prompt=col.prompt.str.contains(keyword_as_word),
    )
    benchmark = benchmark.with_columns(root="key")
    return Assembled(conform(benchmark, BENCHMARK), dropped.select(list(DROPPED)))


def _keys(sentences: DataFrame, kind: str) -> Series:
    """Return the key of each row, a hash of its identity; identical rows are numbered in order."""
    identity = ["domain", "concept", "source", "position", "keyword"]
    numbered = sentences.select(lit(kind), *identity, copy=pl.int_range(pl.len()).over(identity))
    texts = [json.dumps(row, ensure_ascii=False) for row in numbered.iter_rows()]
    return Series("key", [hashlib.sha256(text.encode()).hexdigest()[:16] for text in texts], dtype=String)


# Continuations

_LONGEST = 5_000
"""Maximum number of characters of a sentence; longer ones are lists, tables or not text."""
_LEAST_LEFT = 3
"""Minimum number of words after the cut. The published rule requires one only."""
_WORD_CHARACTER = re.compile(r"\w")
_SAGED_FIRST = 5
_SAGED_MORE = 3
_JOINED = re.compile(r"(?:[^\W_]|[-/'\u2019\u2010\u2011](?=[^\W_]))*")


def continuations(sentences: DataFrame, *, definition: Literal["default", "saged"] = "default") -> Assembled:
    """Make prompts by cutting sentences after their main verb; the entire sentence is the baseline.

    Processes about 800 sentences of 28 words per second on one core; most of the time is tagging.

    Parameters
    ----------
    sentences
        SENTENCES.
    definition
        "default": cut after the main verb with its auxiliaries. "saged": as published, cut three words after
        the first verb that is not capitalised and not in brackets, preferably after the fifth word.

    Returns
    -------
    The benchmark (kind "continuation"), and the dropped sentences: without a main verb, with fewer than three
    words after it, or longer than 5,000 characters.

    Raises
    ------
    InputError
        A concept is left without prompts.
    """
    table = _with_single_spaces(sentences)
    cut = cache(_continuation)
    return _assemble(table, "continuation", [cut(sentence, definition) for sentence in table["sentence"]])


def _continuation(sentence: str, definition: str) -> _PromptOrReason:
    """Return the prompt of a sentence, or the reason why there is none."""
    if len(sentence) > _LONGEST:
        return None, f"it is longer than {_LONGEST:,} characters"
    if definition == "default":
        end = cut_after_verb(sentence)
        fewest_words = _LEAST_LEFT
    else:
        end = cut_as_saged(sentence)
        fewest_words = 1
    if end is None:
        return None, "no main verb was found"
    words_after_cut = [word for word in sentence[end:].split() if _WORD_CHARACTER.search(word)]
    if len(words_after_cut) < fewest_words:
        return None, "too little is left to continue"
    return sentence[:end], None


def cut_after_verb(sentence: str) -> int | None:
    """Return the number of characters up to the end of the main verb with its auxiliaries, or None."""
    verb = main_verb_of(tag_words(sentence))
    # Do not cut inside words joined without a space ("criticizes/criticises").
    joined = verb and _JOINED.match(sentence, verb.end)
    return joined.end() if joined else None


def cut_as_saged(sentence: str) -> int | None:
    """Return the number of characters up to the cut by the published rule.

    The cut is three words after the first verb, preferably after word five. The verb must not be capitalised
    or in brackets. The main verb counts as a verb regardless of its tag. None if there is none.
    """
    words = tag_words(sentence)
    main = main_verb_of(words)
    verbs = []
    for place, word in enumerate(words):
        is_verb = word.tag.startswith("VV") or word is main
        if is_verb and not word.bracketed and not word.text[:1].isupper():
            verbs.append(place)
    if not verbs:
        return None
    verb = next((place for place in verbs if place >= _SAGED_FIRST), verbs[0])
    last = min(verb + _SAGED_MORE, len(words) - 1)
    return words[last].end


# Questions

_QUESTION = object_schema(question={"type": ["string", "null"]})
_SENSIBLE = object_schema(sensible={"type": "boolean"})
_TRIES = 3
_SUBSTITUTES = 3
"""Number of other concepts with which a question is checked."""


def questions(
    sentences: DataFrame,
    judge: Judge,
    *,
    check: bool = False,
    tried_with: Sequence[str] = (),
) -> Assembled:
    """Make prompts by asking a model for a question about the concept for each sentence.

    The sentence is the baseline.

    All sentences are processed at once, with up to three attempts each: an unusable answer is requested
    again, with the reason. A question must name its concept. A sentence is dropped if the model declines or
    no answer can be used.

    Parameters
    ----------
    sentences
        SENTENCES.
    judge
        The model asked. Requests in its journal are not repeated.
    check
        Whether to ask the model if each question also makes sense for other concepts; questions that do not
        are rejected and requested again. With a single concept, nothing is checked.
    tried_with
        Concepts used for this check before those of the table; they need no sentences.

    Returns
    -------
    The benchmark (kind "question"), and the sentences without a question.

    Raises
    ------
    InputError
        A concept is left without sentences or questions.
    Unfinished
        The judge was interrupted.
    """
    table = _with_single_spaces(sentences)
    texts = templates("assembling", "questions")
    concepts = list(dict.fromkeys([*tried_with, *table["concept"]]))
    rows = table.select("concept", "sentence").rows()
    pairs = list(dict.fromkeys(rows))
    names = {
        concept: re.compile(rf"(?<!\w){re.escape(concept.strip())}(?!\w)", re.IGNORECASE)
        for concept in concepts
    }

    def rejected(proposed: Mapping[int, str]) -> dict[int, ParsedReply[str]]:
        """Reject questions that do not name the concept, or make no sense for other concepts."""
        rejections: dict[int, ParsedReply[str]] = {}
        prompts: dict[int, str] = {}
        for place, question in proposed.items():
            concept = pairs[place][0]
            turn = concepts.index(concept)
            # The next concepts in the list, so that each concept is used equally often.
            substitutes = [*concepts[turn + 1 :], *concepts[:turn]][:_SUBSTITUTES]
            if not names[concept].search(question):
                rejections[place] = ParsedReply(None, "the question does not name the concept")
            elif check and substitutes:
                parts = names[concept].split(question)
                lines = "\n".join(f"- {substitute.join(parts)}" for substitute in substitutes)
                prompts[place] = fill_template(texts["check"], questions=lines)
        answers = ask_all(judge, list(prompts.values()), schema=_SENSIBLE, sampling={"temperature": 0.0})
        for place, answer in zip(prompts, answers, strict=True):
            verdict = read_check(answer.value or "")
            if answer.problem:
                rejections[place] = answer
            elif not verdict.value:
                problem = verdict.problem or "the question does not hold for other concepts as well"
                rejections[place] = ParsedReply(None, problem)
        return rejections

    fields = [{"concept": concept, "sentence": sentence} for concept, sentence in pairs]
    replies = ask_until_read(
        judge,
        texts["ask"],
        texts["again"],
        fields,
        read_question,
        tries=_TRIES,
        check=rejected,
        schema=_QUESTION,
    )
    reply_of = dict(zip(pairs, replies, strict=True))
    return _assemble(table, "question", [(reply_of[pair].value, reply_of[pair].problem) for pair in rows])
