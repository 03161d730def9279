"""JSON is read however it is wrapped, nothing is guessed, and no text takes long."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tiltmeter.models.json_replies import MAX_LENGTH, read_json

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
        f"```json\n{PLAIN}",  # the fence was forgotten, not a part of the JSON
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
def test_the_object_is_found(text: str) -> None:
    assert read_json(text) == WANTED


def test_a_list_is_found_and_line_breaks_in_a_text_do_no_harm() -> None:
    assert read_json('so: [{"a": "x\ny"}]') == [{"a": "x\ny"}]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("  <think>hm", "empty"),
        ("I would rather not.", "no JSON"),
        ("42", "no JSON"),
        ('"text"', "no JSON"),
        ('{"a": ["x"], "b', "breaks off"),
        (
            '{"characters": [{"name": "E", "concepts": ["a"]}, {"name": "J", "conc',
            "breaks off",
        ),  # not the half that is whole
        ("```json\n" + '{"a": {"b": 1}, "c": [' + "\n```", "breaks off"),
        ('{"a": NaN}', "not valid"),
        ("['a', 'the boys', of', 'b']", "not valid"),  # which quotation mark ends what?
        ("[" * 5000 + "]" * 5000, "JSON"),
        ("x" * (MAX_LENGTH + 1), "too long"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_json(text)


def test_half_characters_never_reach_a_table() -> None:
    assert read_json(r'{"a": "\ud800 \ud83d\ude00"}') == {"a": "\ufffd 😀"}


@pytest.mark.verify
@pytest.mark.parametrize(
    "piece",
    [
        "[", '{"a":', '"', '"\\', "'a", "' ", "'\\", "[,", "{'a',", "```\n", "~", "`", "~~~ ", "<think>", "</think>", "[x]", "[]", " ",
        "\n", "```\n[1,\n",
    ],
)  # fmt: skip
def test_hostile_text_takes_one_look(piece: str) -> None:
    many = MAX_LENGTH // 5 // len(piece)
    begun = time.process_time()
    for text in (piece * many, "{" + piece * many):
        with suppress(ValueError):
            read_json(text)
    assert time.process_time() - begun < 5  # quadratic work would take minutes


@given(
    st.text(alphabet=st.one_of(st.sampled_from("{}[]\",:'`~<>/\\ntk \n“”‘’"), st.characters()), max_size=200)
)
def test_any_text_gives_a_container_or_a_sentence(text: str) -> None:
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
def test_what_json_writes_is_read_back(value: Any, ascii_only: bool) -> None:
    written = json.dumps(value, ensure_ascii=ascii_only)
    assert read_json(written) == value
    if "<" not in written:  # in an answer with words around it, <think> begins reasoning
        assert read_json(f"```json\n{json.dumps(value, indent=1)}\n```") == value
