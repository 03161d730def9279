"""JSON in any wrapping is read, nothing is guessed, and no text takes long."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tiltmeter.models._json_replies import MAX_LENGTH, read_json

WANTED = {"a": ["x", "y: z"], "b": "John's"}
PLAIN = json.dumps(WANTED)


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        f"\n\n  {PLAIN}  \n",
        f"```json\n{PLAIN}\n```",
        f"Of course!\n\n```\n{json.dumps(WANTED, indent=2)}\n```\nAnything else?",
        f"~~~\n{PLAIN}\n~~~",
        f"```json\n{PLAIN}",  # the closing fence is missing, and the JSON is complete
        f"Here it is: {PLAIN} I hope this helps.",
        f'They call it {{form}} or [list], "quoted {{ even"; in short {PLAIN}',
        f"Note [not closed: {PLAIN}",
        f'<think>Maybe {{"a": 1}}?</think>{PLAIN}',
        f'Maybe {{"a": 1}}?</think>\n{PLAIN}',
        '{"a": ["x", "y: z",], "b": "John\'s",}',
        "{“a”: [“x”, “y: z”], “b”: “John's”}",
        "{'a': ['x', 'y: z'], 'b': 'John's'}",
        "{‘a’: [‘x’, ‘y: z’], ‘b’: ‘John’s’,}",
    ],
)
def test_an_object_in_any_wrapping_is_read(text: str) -> None:
    assert read_json(text) == WANTED


def test_a_list_with_line_breaks_in_its_texts_is_read() -> None:
    assert read_json('so: [{"a": "x\ny"}]') == [{"a": "x\ny"}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("  <think>hm", "empty"),
        ("I would rather not.", "no JSON"),
        ("42", "no JSON"),
        ('"text"', "no JSON"),
        ('{"a": ["x"], "b', "breaks off"),
        # The complete part of an incomplete object is not used.
        ('{"characters": [{"name": "E", "concepts": ["a"]}, {"name": "J", "conc', "breaks off"),
        ("```json\n" + '{"a": {"b": 1}, "c": [' + "\n```", "breaks off"),
        ('{"a": NaN}', "not valid"),
        ("['a', 'the boys', of', 'b']", "not valid"),  # it is ambiguous which quotation mark ends a text
        ("[" * 5000 + "]" * 5000, "JSON"),
        ("x" * (MAX_LENGTH + 1), "too long"),
    ],
)
def test_a_text_without_valid_json_gives_the_reason(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_json(text)


def test_unpaired_surrogates_are_replaced() -> None:
    assert read_json(r'{"a": "\ud800 \ud83d\ude00"}') == {"a": "\ufffd 😀"}


@pytest.mark.verify
@pytest.mark.parametrize(
    "piece",
    [
        "[", '{"a":', '"', '"\\', "'a", "' ", "'\\", "[,", "{'a',", "```\n", "~", "`", "~~~ ", "<think>",
        "</think>", "[x]", "[]", " ", "\n", "```\n[1,\n",
    ],
)  # fmt: skip
def test_hostile_text_is_read_in_linear_time(piece: str) -> None:
    many = MAX_LENGTH // 5 // len(piece)
    begun = time.process_time()
    for text in (piece * many, "{" + piece * many):
        with suppress(ValueError):
            read_json(text)
    assert time.process_time() - begun < 5  # quadratic work would take minutes


@given(
    st.text(alphabet=st.one_of(st.sampled_from("{}[]\",:'`~<>/\\ntk \n“”‘’"), st.characters()), max_size=200)
)
def test_any_text_gives_an_object_a_list_or_a_reason(text: str) -> None:
    try:
        document = read_json(text)
    except ValueError:
        return
    json.dumps(document, ensure_ascii=False).encode()
    assert isinstance(document, dict | list)


TEXTS = st.text(st.characters(codec="utf-8"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=10,
)


@given(st.one_of(st.lists(VALUES), st.dictionaries(TEXTS, VALUES)), st.booleans())
def test_written_json_is_read_back(value: Any, ascii_only: bool) -> None:
    written = json.dumps(value, ensure_ascii=ascii_only)
    assert read_json(written) == value
    if "<" not in written:  # in an answer with words around it, <think> begins reasoning
        assert read_json(f"```json\n{json.dumps(value, indent=1)}\n```") == value
