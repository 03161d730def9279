"""Sizes, control characters, secrets in URLs, and the words in which two texts differ."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from support.block_cases import CASES
from tiltmeter._sanitising import printable, redacted
from tiltmeter.blocks import Chart
from tiltmeter.reports import size
from tiltmeter.reports._words import contrast, numbers_of


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1 kB"),
        (214_899, "215 kB"),
        (999_999, "1 MB"),
        (8_351_289, "8.35 MB"),
    ],
)
def test_sizes_of_files_are_written_in_three_digits(count: int, message: str) -> None:
    assert size(count) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plain é 漢字\n\tnext", "plain é 漢字\n\tnext"),
        ("\x1b[31mred", "␛[31mred"),
        ("\x07\r\x7f\x00", "␇␍␡␀"),
        ("\x9b31m", "\ufffd31m"),
        ("\udcff", "\ufffd"),
    ],
)
def test_control_characters_are_replaced_by_visible_ones(text: str, message: str) -> None:
    assert printable(text) == message
    assert "\n" not in printable(text, one_line=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("postgresql+psycopg://me:secret@db.example:5432/x", "postgresql+psycopg://me:***@db.example:5432/x"),
        (
            "postgresql://me:se/c@r?e#t@db/x?password=secret&sslmode=require",
            "postgresql://me:***@db/x?password=***&sslmode=***",
        ),
        ("--journal=postgresql://me:sec ret@db/x", "--journal=postgresql://me:***@db/x"),
        ("https://secret@host/p?secret#secret", "https://***@host/p?***#***"),
        (
            "at https://host/p?key=secret, or postgresql://me:secret@db",
            "at https://host/p?key=*** or postgresql://me:***@db",
        ),
        ("postgresql://me@db/x", "postgresql://me@db/x"),
        ("http://127.0.0.1:8000/v1/@x", "http://127.0.0.1:8000/v1/@x"),
        ("sqlite:///a#b.db", "sqlite:///a#b.db"),
        ("openai/gpt-4o", "openai/gpt-4o"),
    ],
)
def test_urls_lose_their_secrets_and_nothing_else(text: str, message: str) -> None:
    assert redacted(text) == message


WORDS = st.lists(st.sampled_from(["a", "man", "woman", "walks", "in", "here."]), max_size=40).map(" ".join)


@given(WORDS, WORDS)
def test_passages_that_differ_are_words_of_their_text_and_equal_texts_have_none(
    first: str, second: str
) -> None:
    for text, pieces in zip((first, second), contrast(first, second), strict=True):
        assert all(piece.replace("… ", "").strip() in text for piece, differs in pieces if differs)
    assert not any(differs for side in contrast(first, first) for _, differs in side)


def test_only_the_words_around_a_difference_are_shown() -> None:
    ending = " ".join(f"word{number}" for number in range(30))
    passages_of_man, passages_of_woman = contrast(f"A man asks. {ending}", f"A woman asks. {ending}")
    assert passages_of_man == [
        ("A ", False),
        ("man", True),
        (" asks. word0 word1 word2 word3 word4 … ", False),
    ]
    assert passages_of_woman == [
        ("A ", False),
        ("woman", True),
        (" asks. word0 word1 word2 word3 word4 … ", False),
    ]


@pytest.mark.parametrize("kind", [kind for kind, (block, _) in CASES.items() if isinstance(block, Chart)])
def test_every_chart_has_its_numbers(kind: str) -> None:
    block, _ = CASES[kind]
    assert isinstance(block, Chart)
    table = numbers_of(block)
    assert table.height
    assert any(column.dtype.is_numeric() for column in table)
