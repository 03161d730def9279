"""Texts of servers in our sentences: short, printable, without secrets.

And thinking that is written into an answer.
"""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, strategies as st

from tiltmeter.models._endpoints import clean, model_error, read_complaint
from tiltmeter.models._thinking import split_thinking


@given(st.text())
def test_a_cleaned_text_is_one_short_printable_line(text: str) -> None:
    cleaned = clean(text)
    assert cleaned.isprintable()
    assert len(cleaned) <= 200


@given(st.text(max_size=300), st.text(max_size=300), st.from_regex(r"[A-Za-z0-9_\-]{12,60}", fullmatch=True))
def test_a_secret_never_survives(before: str, after: str, secret: str) -> None:
    assert secret not in clean(before + secret + after, (secret,))


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (
            "Incorrect API key provided: sk-ab**********yz12. Find it",
            "Incorrect API key provided: *** Find it",
        ),
        ("got Authorization: Bearer abc.def", "got Authorization: Bearer ***"),
        ("a\x1b[31mred\r\n\tline\u202e", "a [31mred line"),
        ("<!DOCTYPE html><html><title> Oops\n</title>body", "an HTML page titled 'Oops'"),
        ("<html><body><p>Just this</p></body></html>", "an HTML page: Just this"),
        ("fine", "fine"),
    ],
)
def test_the_text_of_a_server_is_cleaned(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


KEYS = (
    st.sampled_from(["error", "message", "code", "type", "param", "innererror", "metadata", "detail"])
    | st.text()
)
VALUES = st.recursive(
    st.none() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner)
)
BODIES = st.binary() | VALUES.map(
    lambda value: repr(value).replace("'", '"').replace("None", "null").encode()
)


@given(BODIES, st.integers(201, 599))
def test_any_body_with_any_status_is_some_error(raw: bytes, status: int) -> None:
    complaint = read_complaint(raw)
    error = model_error(status, {}, complaint, clean(complaint.message))
    assert error.kind
    assert error.status == status


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<>"))


@pytest.mark.parametrize(
    ("text", "answer", "thinking"),
    [
        ("plain", "plain", None),
        ("  a < b  ", "  a < b  ", None),
        ("<think>hm</think>A", "A", "hm"),
        ("\n<think>\nhm\n</think>\n\nA\n", "A", "hm"),
        ("<thinking>hm</thinking> A", "A", "hm"),
        ("<THINK>hm</Think>A", "A", "hm"),
        ("hm, she or he?</think>A", "A", "hm, she or he?"),
        ("<think>cut off", "", "cut off"),
        ("<think>one</think><think>two", "", "one\ntwo"),
        ("<think></think>A", "A", None),
        ("So: <think>hm</think>A", "So: A", "hm"),
        ("<think>one</think>A<think>two</think>B", "AB", "one\ntwo"),
        ("<think>a <think> b</think>A", "A", "a <think> b"),
        ("Write <think> before it.", "Write <think> before it.", None),
        ("<think>hm</think>Write <think> before it.", "Write <think> before it.", "hm"),
        ("", "", None),
    ],
)
def test_thinking_is_separated_from_the_answer(text: str, answer: str, thinking: str | None) -> None:
    assert split_thinking(text) == (answer, thinking)


@given(words)
def test_a_text_without_tags_is_unchanged(text: str) -> None:
    assert split_thinking(text) == (text, None)


@given(words, words)
def test_thinking_and_answer_that_were_joined_are_separated(thought: str, answer: str) -> None:
    assert split_thinking(f"<think>{thought}</think>{answer}") == (answer.strip(), thought.strip() or None)


@given(
    st.lists(st.one_of(words, st.sampled_from(["<think>", "</think>", "<thinking>", "</thinking>"]))).map(
        "".join
    )
)
def test_no_word_is_lost(text: str) -> None:
    answer, thinking = split_thinking(text)
    assert _letters(text) == _letters(f"{thinking or ''}{answer}")


def _letters(text: str) -> list[str]:
    return sorted(re.sub(r"</?think(?:ing)?>|\s", "", text))


@pytest.mark.parametrize("piece", ["<think>", "</think>", "<", "<think></think>"])
def test_hostile_texts_take_no_time(piece: str) -> None:
    started = time.process_time()
    split_thinking(piece * 50_000)
    assert time.process_time() - started < 2
