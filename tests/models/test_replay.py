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
    path = folder / f"said.{kind}"
    frame = pl.DataFrame(columns)
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
    found: list[str | None] = []
    while True:
        try:
            found.append((await ask(model, prompt, len(found))).text)
        except ModelError as error:
            if (error.kind, error.scope) != ("not_recorded", "permanent"):
                raise
            return found


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
async def test_answers_by_prompt_and_sample(tmp_path: Path, kind: str) -> None:
    model = table(tmp_path, ROWS, kind)
    assert await texts(model, "A?") == ["1", None]
    assert await texts(model, "B?") == ["two"]
    assert await texts(model, "C?") == []
    assert model.name == f"replay/{tmp_path}/said.{kind}"
    assert await texts(model, "A? ") == []


@pytest.mark.parametrize("alias", ["answer", "text", "response", "completion"])
async def test_other_names_for_the_answer(tmp_path: Path, alias: str) -> None:
    assert await texts(table(tmp_path, {"prompt": ["A?"], alias: ["yes"]}), "A?") == ["yes"]


async def test_samples_give_the_order_and_equal_rows_are_one(tmp_path: Path) -> None:
    columns = {"prompt": ["A?"] * 4, "answer": ["c", "a", "b", "a"], "repetition": [3, 1, 2, 1]}
    assert await texts(table(tmp_path, columns), "A?") == ["a", "b", "c"]


async def test_without_samples_each_row_is_an_answer(tmp_path: Path) -> None:
    assert await texts(table(tmp_path, {"prompt": ["A?"] * 3, "answer": ["x", "y", "x"]}), "A?") == ["x", "y", "x"]


async def test_system_messages_tell_prompts_apart_where_they_were_recorded(tmp_path: Path) -> None:
    model = table(tmp_path, {"prompt": ["A?", "A?"], "answer": ["plain", "brief"], "system": [None, "Be brief."]}, "csv")
    assert (await ask(model, "A?")).text == "plain"
    assert (await ask(model, "A?", system="Be brief.")).text == "brief"
    with pytest.raises(ModelError, match="no answer to the prompt 'A\\?'"):
        await ask(model, "A?", system="Be long.")
    assert (await ask(table(tmp_path, ROWS), "B?", system="Be long.")).text == "two"


async def test_the_rest_of_a_response_is_kept(tmp_path: Path) -> None:
    columns = {
        "prompt": ["A?", "B?", "C?"],
        "answer": ["1", None, "<think>hm</think>3"],
        "thinking": ["so", None, None],
        "finish_reason": ["stop", "content_filter", None],
        "refusal": [None, "no", None],
        "input_tokens": [5, None, None],
        "output_tokens": [7, 0, None],
        "status": ["ok", "ok", "ok"],
    }
    model = table(tmp_path, columns)
    assert await ask(model, "A?") == Completion("1", "stop", None, "so", 5, 7)
    assert await ask(model, "B?") == Completion(None, "content_filter", "no", None, None, 0)
    assert await ask(model, "C?") == Completion("3", thinking="hm")


async def test_failed_rows_are_not_answers(tmp_path: Path) -> None:
    model = table(tmp_path, {"prompt": ["A?", "A?"], "answer": [None, "yes"], "status": ["failed", "ok"]})
    assert await texts(model, "A?") == ["yes"]


async def test_a_conversation_cannot_be_replayed(tmp_path: Path) -> None:
    turns = [Message("user", "A?"), Message("assistant", "1"), Message("user", "B?")]
    with pytest.raises(ModelError, match="conversations of 3 turns"):
        await table(tmp_path, ROWS).complete(turns, Sampling(), 0)


def test_the_fingerprint_is_of_the_contents(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    one, moved = table(tmp_path, ROWS), table(tmp_path / "other", ROWS)
    assert one.fingerprint == moved.fingerprint != table(tmp_path, {**ROWS, "answer": ["1", "2", "3"]}).fingerprint


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"question": ["A?"], "answer": ["1"]}, "has no column 'prompt'; its columns are question, answer"),
        ({"prompt": ["A?"], "said": ["1"]}, "has no column 'answer' or 'text' or 'response' or 'completion'"),
        ({"prompt": [None, "A?"], "answer": ["1", "2"]}, "row 1 has no prompt in column 'prompt'"),
        ({"prompt": ["A?"], "text": [["1"]]}, "column 'text' holds List"),
        ({"prompt": ["A?"], "answer": ["1"], "sample": ["first"]}, "is not of its kind"),
        ({"prompt": ["A?"], "answer": ["1"], "status": ["failed"]}, "holds no recorded answer"),
    ],
)
def test_a_bad_table_is_named_with_what_is_wrong(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        table(tmp_path, columns)
    assert "said.parquet" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.parquet", b"nonsense"), ("a.jsonl", b"{nonsense"), ("a.csv", b""), ("a.csv", b"\xff,\xfe\n1"), ("a.txt", b"x")],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=name):
        create_model(f"replay/{tmp_path / name}")


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(InputError, match=r"there is no file 'nowhere\.csv'"):
        create_model("replay/nowhere.csv")
