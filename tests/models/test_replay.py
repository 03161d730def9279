"""Answers from a table of earlier responses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tiltmeter.errors import InputError
from tiltmeter.models import Completion, Message, Model, ModelError, Sampling, create_model

ROWS = {"prompt": ["A?", "B?", "A?"], "answer": ["1", "two", None]}


def table(folder: Path, columns: dict[str, Any], kind: str = "parquet") -> Model:
    path, frame = folder / f"said.{kind}", pl.DataFrame(columns)
    match kind:
        case "csv":
            frame.write_csv(path)
        case "jsonl":
            frame.write_ndjson(path)
        case _:
            frame.write_parquet(path)
    return create_model(f"replay/{path}")


async def ask(model: Model, prompt: str, sample: int = 0, system: str | None = None) -> Completion:
    messages = [Message("system", system)] if system is not None else []
    async with model:
        return await model.complete([*messages, Message("user", prompt)], Sampling(temperature=1), sample)


async def texts(model: Model, prompt: str) -> list[str | None]:
    entries: list[str | None] = []
    while True:
        try:
            entries.append((await ask(model, prompt, len(entries))).text)
        except ModelError as error:
            if (error.kind, error.scope) != ("not_recorded", "permanent"):
                raise
            return entries


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
async def test_answers_by_prompt_and_sample(tmp_path: Path, kind: str) -> None:
    model = table(tmp_path, ROWS, kind)
    assert model.name == f"replay/{tmp_path}/said.{kind}"
    assert [await texts(model, prompt) for prompt in ("A?", "B?", "C?", "A? ")] == [
        ["1", None],
        ["two"],
        [],
        [],
    ]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        *(
            ({"prompt": ["A?"], alias: ["yes"]}, ["yes"])
            for alias in ("answer", "text", "response", "completion")
        ),
        ({"prompt": ["A?"] * 4, "answer": ["c", "a", "b", "a"], "repetition": [3, 1, 2, 1]}, ["a", "b", "c"]),
        ({"prompt": ["A?"] * 3, "answer": ["x", "y", "x"]}, ["x", "y", "x"]),
        ({"prompt": ["A?", "A?"], "answer": [None, "yes"], "status": ["failed", "ok"]}, ["yes"]),
    ],
    ids=[
        "answer",
        "text",
        "response",
        "completion",
        "samples give the order, equal rows are one",
        "without samples",
        "failed rows",
    ],
)
async def test_rows_of_a_replay_are_read_as_answers(
    tmp_path: Path, columns: dict[str, Any], expected: list[str]
) -> None:
    assert await texts(table(tmp_path, columns), "A?") == expected


async def test_system_messages_tell_prompts_apart_where_they_were_recorded(tmp_path: Path) -> None:
    model = table(
        tmp_path, {"prompt": ["A?", "A?"], "answer": ["plain", "brief"], "system": [None, "Be brief."]}, "csv"
    )
    assert [(await ask(model, "A?", system=system)).text for system in (None, "Be brief.")] == [
        "plain",
        "brief",
    ]
    with pytest.raises(ModelError, match="no answer to the prompt 'A\\?'"):
        await ask(model, "A?", system="Be long.")
    assert (await ask(table(tmp_path, ROWS), "B?", system="Be long.")).text == "two"


async def test_the_rest_of_a_response_is_kept(tmp_path: Path) -> None:
    names = [
        "prompt",
        "answer",
        "thinking",
        "finish_reason",
        "refusal",
        "input_tokens",
        "output_tokens",
        "status",
    ]
    rows = [
        ("A?", "1", "so", "stop", None, 5, 7, "ok"),
        ("B?", None, None, "content_filter", "no", None, 0, "ok"),
        ("C?", "<think>hm</think>3", None, None, None, None, None, "ok"),
    ]
    model = table(tmp_path, dict(zip(names, zip(*rows, strict=True), strict=True)))
    assert await ask(model, "A?") == Completion("1", "stop", None, "so", 5, 7)
    assert await ask(model, "B?") == Completion(None, "content_filter", "no", None, None, 0)
    assert await ask(model, "C?") == Completion("3", thinking="hm")


async def test_a_conversation_cannot_be_replayed(tmp_path: Path) -> None:
    turns = [Message("user", "A?"), Message("assistant", "1"), Message("user", "B?")]
    with pytest.raises(ModelError, match="conversations of 3 turns"):
        await table(tmp_path, ROWS).complete(turns, Sampling(), 0)


def test_the_fingerprint_is_of_the_contents(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    original, moved = table(tmp_path, ROWS), table(tmp_path / "other", ROWS)
    assert (
        original.fingerprint
        == moved.fingerprint
        != table(tmp_path, {**ROWS, "answer": ["1", "2", "3"]}).fingerprint
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"question": ["A?"], "answer": ["1"]}, "has no column 'prompt'; its columns are question, answer"),
        ({"prompt": ["A?"], "said": ["1"]}, "has no column 'answer' or 'text' or 'response' or 'completion'"),
        ({"prompt": [None, "A?"], "answer": ["1", "2"]}, "row 1, column 'prompt' is empty"),
        ({"prompt": ["A?"], "text": [["1"]]}, "column 'text' contains List"),
        ({"prompt": ["A?"], "answer": ["1"], "sample": ["first"]}, "has the wrong type"),
        ({"prompt": ["A?"], "answer": ["1"], "status": ["failed"]}, "contains no recorded answer"),
    ],
)
def test_a_bad_table_is_named_with_what_is_wrong(
    tmp_path: Path, columns: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        table(tmp_path, columns)
    assert "said.parquet" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.parquet", b"nonsense"),
        ("a.jsonl", b"{nonsense"),
        ("a.csv", b""),
        ("a.csv", b"\xff,\xfe\n1"),
        ("a.txt", b"x"),
        ("b.csv", None),
    ],
)
def test_a_replay_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match="there is no file.*b.csv" if content is None else name):
        create_model(f"replay/{tmp_path / name}")
