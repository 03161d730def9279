"""Sentences, words, speech and parts of speech."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings, strategies as st

from tiltmeter.readers.grammar import sentences, speech, tag, third_person, tokens


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
        ("Mary waters the plants.", "waters", ("VVZ", "water")),
        ("Mary paints landscapes, studies maps and plays chess.", "studies", ("VVZ", "study")),
        ("He likes cats, dogs and horses.", "dogs", ("NN2", "dog")), ("She had studied maps.", "studied", ("VVN", "study")),
        ("She kept a diary.", "kept", ("VVD", "keep")), ("Mary isn’t patient.", "n’t", ("XX0", "not")),
        ("He'd always been shy.", "'d", ("VHD", "have")), ("He'd sing.", "'d", ("VM0", "would")),
        ("Mary rides a bicycle to work.", "to", ("PRP", "to")), ("Mary wants to work.", "to", ("TO0", "to")),
        ("She was patient and kind.", "kind", ("AJ0", "kind")), ("It was a kind of bread.", "kind", ("NN1", "kind")),
        ("Mary is witty, tired and shy that day.", "tired", ("AJ0", "tired")), ("She was no longer shy.", "no", ("XX0", "no")),
    ],
)  # fmt: skip
def test_tags_and_lemmas(text: str, word: str, expected: tuple[str, str]) -> None:
    words = _words(text)
    assert tag(words)[words.index(word)] == expected


THIRD_PERSON = {
    "keep": "keeps", "carry": "carries", "play": "plays", "watch": "watches", "go": "goes",
    "have": "has", "be": "is", "fix": "fixes", "veto": "vetoes", "moo": "moos",
}  # fmt: skip


@pytest.mark.parametrize(("verb", "expected"), THIRD_PERSON.items())
def test_third_person(verb: str, expected: str) -> None:
    assert third_person(verb) == expected


def test_a_word_without_end_is_passed_by() -> None:
    assert len(tag(["A" * 100_000, "sings", "."])) == 3


@given(st.text(max_size=200))
@settings(deadline=None)
def test_any_text_can_be_taken_apart(text: str) -> None:
    for start, end in sentences(text):
        assert 0 <= start < end <= len(text)
        found = tokens(text, start, end)
        assert all(text[token.start : token.end] == token.text for token in found)
        assert len(tag([token.text for token in found])) == len(found)
    assert all(0 <= start < end <= len(text) for start, end in speech(text))


def test_the_tagger_is_loaded_on_first_use_only() -> None:
    code = "import sys, tiltmeter.readers.grammar, tiltmeter.associations.words; sys.exit('HanTa' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
