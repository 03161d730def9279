"""Words with their places, parts of speech and surroundings."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiltmeter.benchmarks.sentences import TAGGED, tagged, tagger


def flagged(sentence: str, column: str) -> list[str]:
    table = tagged([sentence])
    return table.filter(pl.col(column).cast(pl.Boolean))["text"].to_list()


def test_columns_and_places() -> None:
    sentences = ["Sikhs live in Punjab.", "", "They don't."]
    found = tagged(sentences)
    assert dict(found.schema) == {name: pl.Series(dtype=kind).dtype for name, kind in TAGGED.items()}
    assert found["sentence"].to_list() == [0] * 5 + [2] * 4
    assert found["token"].to_list() == [0, 1, 2, 3, 4, 0, 1, 2, 3]
    shown = [sentences[place][start:end] for place, start, end in found.select("sentence", "start", "end").iter_rows()]
    assert shown == found["text"].to_list() == ["Sikhs", "live", "in", "Punjab", ".", "They", "do", "n't", "."]


def test_no_sentences() -> None:
    assert tagged([]).height == 0
    assert tagged(["", " "]).columns == list(TAGGED)


def test_numbers_initials_and_abbreviations_are_whole() -> None:
    words = tagged(["The U.S. paid Dr. J. Smith 1,575.5 dollars at 10:30."])["text"].to_list()
    assert words == ["The", "U.S.", "paid", "Dr.", "J.", "Smith", "1,575.5", "dollars", "at", "10:30", "."]


def test_parts_of_speech() -> None:
    found = tagged(["The party was founded by workers."])
    tags = dict(found.select("text", "tag").iter_rows())
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
    assert flagged(sentence, "depth") == inside


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


def test_what_names_the_parts_of_speech_is_known() -> None:
    assert tagger() == "hanta" or tagger().startswith("spacy en_core_web_sm ")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(alphabet=st.sampled_from("abcXY .,()[]\"\u201c\u201d'-12é\u0301漢\U0001f600"), max_size=40), max_size=4))
def test_any_text(sentences: list[str]) -> None:
    found = tagged(sentences)
    for place, start, end, text in found.select("sentence", "start", "end", "text").iter_rows():
        assert sentences[place][start:end] == text
    assert not found.select(pl.exclude("root").null_count()).sum_horizontal().sum()
