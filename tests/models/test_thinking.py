"""Thinking written into an answer."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, strategies as st

from tiltmeter.thinking import split_thinking

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
def test_examples(text: str, answer: str, thinking: str | None) -> None:
    assert split_thinking(text) == (answer, thinking)


@given(words)
def test_a_text_without_tags_is_unchanged(text: str) -> None:
    assert split_thinking(text) == (text, None)


@given(words, words)
def test_what_was_put_together_comes_apart(thought: str, answer: str) -> None:
    assert split_thinking(f"<think>{thought}</think>{answer}") == (answer.strip(), thought.strip() or None)


@given(st.lists(st.one_of(words, st.sampled_from(["<think>", "</think>", "<thinking>", "</thinking>"]))).map("".join))
def test_no_word_is_lost(text: str) -> None:
    answer, thinking = split_thinking(text)
    before, after = (sorted(re.sub(r"</?think(?:ing)?>|\s", "", part)) for part in (text, f"{thinking or ''}{answer}"))
    assert before == after


@pytest.mark.parametrize("piece", ["<think>", "</think>", "<", "<think></think>"])
def test_hostile_texts_take_no_time(piece: str) -> None:
    started = time.process_time()
    split_thinking(piece * 50_000)
    assert time.process_time() - started < 2
