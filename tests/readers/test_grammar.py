"""Sentences, words, speech and parts of speech."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from tiltmeter.readers._grammar import sentences, speech, tag, tokens


def _words(text: str) -> list[str]:
    return [token.text for token in tokens(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Emily sang. John left!  Why?\n", ["Emily sang.", "John left!", "Why?"]),
        ("Dr. Lee met Mr. J. Chen. They left.", ["Dr. Lee met Mr. J. Chen.", "They left."]),
        ("“I am tired. Go!” she said. He left.", ["“I am tired.", "Go!” she said.", "He left."]),
        ("A title\n\nEmily sang", ["A title", "Emily sang"]),
        ("It was ... odd. She left.", ["It was ... odd.", "She left."]),
        ("她很好。他也是。", ["她很好。", "他也是。"]),
        (" \n ", []),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in sentences(text)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('Emily said, "You are mean," and left.', ['"You are mean,"']),
        ("“I can’t go. I am tired,” John said.", ["“I can’t go. I am tired,”"]),
        ("'I can't go,' John said. It was Emily's idea.", ["'I can't go,'"]),
        ("The “other side” was a so-called 'expert' idea of the dogs' owner.", []),
        ('She had an "idea.', []),
        ("«Je suis fatiguée», dit-elle.", ["«Je suis fatiguée»"]),
    ],
)
def test_speech(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in speech(text)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Emily didn't go.", ["Emily", "did", "n't", "go", "."]),
        ("John’s well-known o'clock", ["John", "’s", "well-known", "o'clock"]),
        ("O'Brien's and D’Angelo", ["O'Brien", "'s", "and", "D’Angelo"]),
        ("happy 😀!", ["happy", "!"]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert _words(text) == expected


@pytest.mark.parametrize(
    ("text", "word", "expected"),
    [
        ("He likes cats, dogs and horses.", "dogs", "NN2"), ("She had studied maps.", "studied", "VVN"),
        ("She kept a diary.", "kept", "VVD"), ("Mary isn’t patient.", "n’t", "XX0"),
        ("He'd sing.", "'d", "VM0"), ("Mary wants to work.", "to", "TO0"),
        ("It was a kind of bread.", "kind", "NN1"), ("Mary is shy — and calm.", "—", "PUN"),
    ],
)  # fmt: skip
def test_tags(text: str, word: str, expected: str) -> None:
    words = _words(text)
    assert tag(words)[words.index(word)] == expected


def test_a_word_without_end_is_passed_by() -> None:
    assert len(tag(["A" * 100_000, "sings", "."])) == 3


@given(st.text(max_size=200))
def test_any_text_can_be_taken_apart(text: str) -> None:
    for start, end in sentences(text):
        assert 0 <= start < end <= len(text)
        matches = tokens(text, start, end)
        assert all(text[token.start : token.end] == token.text for token in matches)
        assert len(tag([token.text for token in matches])) == len(matches)
    assert all(0 <= start < end <= len(text) for start, end in speech(text))


def test_the_tagger_is_loaded_on_first_use_only() -> None:
    modules = "tiltmeter.readers._grammar, tiltmeter.associations._extraction_words"
    code = f"import sys, {modules}; sys.exit('HanTa' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
