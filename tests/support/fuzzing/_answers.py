"""Readers of answers of models and judges."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import polars as pl

from support.fuzzing._make import of_text
from support.fuzzing.contract import Target
from tiltmeter import readers
from tiltmeter._sanitising import printable, redacted
from tiltmeter.associations._exclusive_judge import JudgedNames
from tiltmeter.associations._expressions import unify_words
from tiltmeter.associations._extraction_words import extract
from tiltmeter.associations._judge_answers import Person, read_answer
from tiltmeter.associations._stories import counted
from tiltmeter.associations._tables import STORIES
from tiltmeter.associations._terms import load_terms
from tiltmeter.benchmarks._builder import split_sentences
from tiltmeter.benchmarks._builder.prompts import cut_after_verb, cut_as_saged
from tiltmeter.benchmarks._judge_replies import read_check, read_pairs, read_question, read_words
from tiltmeter.features import FEATURES, measure_features, open_features
from tiltmeter.models._endpoints import clean
from tiltmeter.models._json_replies import json_values, read_json
from tiltmeter.models._thinking import split_thinking
from tiltmeter.readers import _genderbench as published, _grammar as grammar

_STORY = (
    "Emily, a nurse, said: “I am calm.” Jim isn't brave; he's (very) hard-working, and she grew nervous. "
    "Dr. Smith's dog ran home."
)
MALE_NAMES = pl.Series([["John"]])
FEMALE_NAMES = pl.Series([["Anna"]])


def _said(*texts: str) -> list[bytes]:
    return [text.encode() for text in texts]


def _answers() -> Sequence[bytes]:
    texts = [
        "Yes, I agree.",
        "<think>hmm</think> **Final answer:** (b)\n\n- (a) is wrong",
        "I'm sorry, but I cannot answer that.",
        "1. Anna\n2. John\n3. Maria",
        "The answer is \\boxed{c}.",
        "No. However, I disagree that…",
        "She told him that his/her mother is a doctor.",
        "I would feel joy and no fear, just anger",
        "We regret to inform you",
        _STORY,
    ]
    return _said(*texts)


def _measures(text: str) -> object:
    texts = pl.Series([text])
    options = pl.Series([["the man", "the woman", "cannot be determined"]])
    emotions = ["anger", "joy", "fear"]
    words = {"f": {"calm", "warm"}}
    tables = [
        readers.read_yes_no(texts),
        readers.read_choice(texts, options),
        readers.read_decision(texts),
        readers.read_emotion(texts, emotions),
        readers.read_character(texts),
        readers.read_first_ranked(texts, MALE_NAMES, FEMALE_NAMES),
        readers.count_vocabulary(texts, words, words),
    ]
    assert all(table.height == 1 for table in tables)
    return tables, readers.refused(texts)


def _published(text: str) -> object:
    texts, words = pl.Series([text]), {"f": {"calm"}}
    return [
        published.letter_choice(texts),
        published.yes_no(texts),
        published.character_gender(texts),
        published.decision(texts),
        published.first_ranked(texts, MALE_NAMES, FEMALE_NAMES),
        published.emotion(texts, ["joy"]),
        published.vocabulary(texts, words, words),
    ]


def _grammar(text: str) -> object:
    tokens = grammar.tokens(text)
    return grammar.sentences(text), grammar.speech(text), grammar.tag([token.text for token in tokens[:100]])


def _words(text: str) -> object:
    rows = [
        {"attempt": "1", "character": 1, "name": "Emily", "text": text},
        {"attempt": "1", "character": 2, "name": "Jim", "text": text},
    ]
    table = pl.DataFrame([{name: row.get(name) for name in STORIES} for row in rows], schema=dict(STORIES))
    lists, mentions = extract(table, table.select("attempt", prompt=pl.lit("Write about Jim.")))
    assert lists.height == 2
    return lists, unify_words(counted(mentions), mentions=mentions)


def _features(text: str) -> object:
    lexicons = [name for name, feature in FEATURES.items() if feature.kind == "lexicon"]
    opened = open_features(lexicons, encoder=_no_model, classifier=_no_model)
    return measure_features(opened, pl.Series([text, "calm"])).values


def _no_model(name: str) -> Any:
    raise AssertionError(f"{name} is no lexicon")


def judged(text: str, story: str = _STORY) -> object:
    people = [Person("woman", "Emily, a woman", "Emily"), Person("man", None, "Jim")]
    return read_answer(text, people, [0, 1], ["Emily", "Jim"], story)


def _judge_answers() -> Sequence[bytes]:
    lists = {
        "characters": [
            {"name": "Emily", "concepts": ["calm", "a passion for painting"]},
            {"name": "Jim", "concepts": []},
        ]
    }
    text = json.dumps(lists)
    in_words = "Emily: calm; brave\n**Jim**:\n- strong;\n- kind"
    return _said(text, f"Sure:\n```json\n{text}\n```", in_words, text.replace('"', "'"), "[1] {'a': “b”,}")


def _exclusive(text: str) -> object:
    return JudgedNames(["woman", "man", "Muslim"], load_terms()).read(text)


def _json(text: str) -> object:
    list(json_values(text))
    try:
        return read_json(text)
    except ValueError as error:  # shown to the judge
        return str(error)


def _replies(text: str) -> object:
    return read_check(text), read_question(text), read_words(text), read_pairs(text)


def _reply_seeds() -> Sequence[bytes]:
    return _said(
        '{"question": "Who is it?"}', '["a", "b"]', '{"sensible": true}', "Question: Who is it?",
        '{"replacements": [{"old": "a", "new": "b"}]}', "None.",
    )  # fmt: skip


def _sentences(text: str) -> object:
    entries = [sentence for sentence in split_sentences(text) if len(sentence) <= 5_000]
    return [(cut_after_verb(sentence), cut_as_saged(sentence)) for sentence in entries]


def _thinking(text: str) -> object:
    return split_thinking(text), printable(text), redacted(text), clean(text, ("secret",))


def targets() -> list[Target]:
    """Return the readers of answers."""
    return [
        of_text("answers", _measures, _answers),
        of_text("answers, published rules", _published, _answers),
        of_text("grammar", _grammar, _answers),
        of_text("words of a story", _words, _answers),
        of_text("features", _features, _answers),
        of_text("judge: lists", judged, _judge_answers, "json"),
        of_text(
            "judge: exclusivity",
            _exclusive,
            lambda: _said('{"identity": "woman", "reason": "x"}', "Answer: none", '["man"]'),
            "json",
        ),
        of_text("judge: JSON", _json, _judge_answers, "json"),
        of_text("judge: questions, keywords, words", _replies, _reply_seeds, "json"),
        of_text("sentences", _sentences, _answers),
        of_text(
            "thinking and error texts",
            _thinking,
            lambda: _said("<think>a</think>b", "<html><title>x</title>", "http://u:p@h/?k=v#f"),
        ),
    ]
