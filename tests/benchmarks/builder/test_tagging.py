"""Words with their places, parts of speech and surroundings."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from tiltmeter.benchmarks.builder.verbs import tag_words


def flagged(sentence: str, column: str) -> list[str]:
    return [word.text for word in tag_words(sentence) if getattr(word, column)]


def test_words_and_their_places() -> None:
    sentence = "They don't live in Punjab."
    words = tag_words(sentence)
    assert [word.text for word in words] == ["They", "do", "n't", "live", "in", "Punjab", "."]
    assert [sentence[word.end - len(word.text) : word.end] for word in words] == [word.text for word in words]
    assert tag_words("") == tag_words(" ") == []


def test_numbers_initials_and_abbreviations_are_whole() -> None:
    words = [word.text for word in tag_words("The U.S. paid Dr. J. Smith 1,575.5 dollars at 10:30.")]
    assert words == ["The", "U.S.", "paid", "Dr.", "J.", "Smith", "1,575.5", "dollars", "at", "10:30", "."]


def test_parts_of_speech() -> None:
    tags = {word.text: word.tag for word in tag_words("The party was founded by workers.")}
    assert (tags["The"], tags["party"], tags["was"], tags["founded"], tags["workers"]) == ("AT0", "NN1", "VBD", "VVN", "NN2")


@pytest.mark.parametrize(
    ("sentence", "inside"),
    [
        ("A (b [c] d) e", ["(", "b", "[", "c", "]", "d", ")"]),
        ("a) one (two) b", ["(", "two", ")"]),
        ("never (closed at all", ["(", "closed", "at", "all"]),
        ("none", []),
    ],
)
def test_brackets(sentence: str, inside: list[str]) -> None:
    assert flagged(sentence, "bracketed") == inside


@pytest.mark.parametrize(
    ("sentence", "inside"),
    [
        ('He said "yes" and "no".', ['"', "yes", '"', '"', "no", '"']),
        ('He said "yes" and "no.', ['"', "yes", '"']),
        ("He said \u201cyes\u201d.", ["\u201c", "yes", "\u201d"]),
        ("He said \u201cyes.", []),
    ],
)
def test_quotation_marks(sentence: str, inside: list[str]) -> None:
    assert flagged(sentence, "quoted") == inside


def test_names() -> None:
    assert flagged("The Bank of England moved.", "name") == ["The", "Bank", "of", "England"]
    assert flagged("Workers of the land met Rosa there.", "name") == ["Rosa"]


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.sampled_from("abcXY .,()[]\"\u201c\u201d'-12é\u0301漢\U0001f600"), max_size=60))
def test_any_text(sentence: str) -> None:
    for word in tag_words(sentence):
        assert sentence[word.end - len(word.text) : word.end] == word.text
