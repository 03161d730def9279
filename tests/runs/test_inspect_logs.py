"""Logs of Inspect that were written by other tasks, and files that are no logs. Inspect is not needed."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support.analysing import STUDY, analyse, prompts
from tiltmeter.errors import InputError

pytestmark = pytest.mark.usefixtures("workplace")


def texts(count: int) -> list[str]:
    """Prompts that are once in the design."""
    rows: list[str] = prompts().filter(pl.col("prompt").is_unique())["prompt"].head(count).to_list()
    return rows


def output(content: Any, stop: str = "stop", **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": content}, "stop_reason": stop}], **more}


def sample(number: int, prompt: Any, message: dict[str, Any], epoch: int = 1, **more: Any) -> dict[str, Any]:
    return {"id": number, "epoch": epoch, "input": prompt, "output": message, **more}


ABOUT = {"task": "my_task", "model": "openai/gpt-4o-mini"}


def write(name: str, samples: Sequence[dict[str, Any]], **about: Any) -> None:
    """Write a log in the format that Inspect used before it compressed with Zstandard."""
    if name.endswith(".json"):
        Path(name).write_text(
            json.dumps({"version": 2, "status": "success", "eval": ABOUT | about, "samples": list(samples)})
        )
        return
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as archive:
        for sample in samples:
            archive.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
        archive.writestr(
            "header.json", json.dumps({"version": 2, "status": "success", "eval": ABOUT | about})
        )


@pytest.mark.parametrize("name", ["log.eval", "log.json"])
def test_logs_of_other_tasks_are_matched_by_the_texts_of_prompts(name: str) -> None:
    first, second, third, fourth = texts(4)
    talk = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": second}]},
    ]
    thought = [{"type": "reasoning", "reasoning": "Let me see."}, {"type": "text", "text": "yes"}]
    long: dict[str, Any] = {"attachments": {"0123": third, "4567": "no"}}
    usage = {"input_tokens": 7, "output_tokens": 1}
    write(
        name,
        [
            sample(1, first, output("no", usage=usage)),
            sample(1, first, output("yes"), epoch=2),
            sample(2, talk, output(thought)),
            sample(3, "attachment://0123", output("attachment://4567"), **long),
            sample(4, fourth, {}, error={"message": "rate limit\nin two lines"}),
            sample(5, "Who are you?", output("A model.")),
        ],
    )
    run = analyse(name)
    assert run.about["models"] == [{"name": "openai/gpt-4o-mini"}]
    assert run.about["problems"][1:] == [f"{name}: 1 of 6 rows match no prompt of {STUDY} and were omitted"]
    answers = run.design.select("prompt_id", "prompt")
    rows = run.responses.join(answers, on="prompt_id").select(
        "prompt", "repetition", "status", "answer", "thinking", "input_tokens", "error"
    )
    assert set(rows.rows()) == {
        (first, 0, "ok", "no", None, 7, None),
        (first, 1, "ok", "yes", None, None, None),
        (second, 0, "ok", "yes", "Let me see.", None, None),
        (third, 0, "ok", "no", None, None, None),
        (fourth, 0, "failed", None, None, None, "inspect: rate limit"),
    }
    values = run.finding("fail_rate").values
    assert (values["attempts"], values["answered"], values["failed"]) == (5, 4, 1)


def test_a_content_filter_in_a_log_is_a_refusal() -> None:
    (prompt,) = texts(1)
    write("log.json", [sample(1, prompt, output("", "content_filter", error="declined"))])
    run = analyse("log.json")
    assert run.responses.select("refusal", "finish_reason").rows() == [("declined", "content_filter")]
    assert run.measures["outcome"].to_list() == ["refused"]


def test_the_last_version_of_a_sample_written_twice_counts() -> None:
    (prompt,) = texts(1)
    with pytest.warns(UserWarning, match="Duplicate name"):
        write("log.eval", [sample(1, prompt, output("yes")), sample(1, prompt, output("no"))])
    assert analyse("log.eval").responses["answer"].to_list() == ["no"]


def test_logs_and_tables_are_analysed_together() -> None:
    first, second = texts(2)
    write("log.json", [sample(1, first, output("yes"))])
    pl.DataFrame({"prompt": [second], "answer": ["no"]}).write_csv("table.csv")
    run = analyse("log.json", "table.csv")
    assert dict(run.responses.select("model", "answer").iter_rows()) == {
        "openai/gpt-4o-mini": "yes",
        "mine": "no",
    }
    assert set(run.responses["status"]) == {"ok"}


def test_logs_of_our_tasks_are_matched_by_id_and_must_have_the_same_texts() -> None:
    design = prompts()
    name, text = design.select("prompt_id", "prompt").row(3)
    write("log.json", [sample(name, text, output("yes"), epoch=1)], metadata={"tiltmeter": {"study": STUDY}})
    assert analyse("log.json").responses["prompt_id"].to_list() == [name]
    write(
        "other.json",
        [sample(name, f"{text} ", output("yes"), epoch=1)],
        metadata={"tiltmeter": {"study": STUDY}},
    )
    with pytest.raises(
        InputError,
        match=rf"other\.json: the prompt {name} differs from that of this study; .* another seed, definition",
    ):
        analyse("other.json")
    names, texts = design["prompt_id"], design["prompt"]
    pl.DataFrame(
        {"prompt_id": names, "prompt": texts.reverse(), "answer": ["yes"] * design.height}
    ).write_csv("mixed.csv")
    with pytest.raises(InputError, match=r"mixed\.csv: the prompt \S+ differs from that of this study"):
        analyse("mixed.csv")


DAMAGED: dict[str, tuple[str, bytes, str]] = {
    "nothing": ("a.json", b"", "a.json is not a valid Inspect log"),
    "half": ("a.json", b'{"eval": {"task": "t"', "a.json is not a valid Inspect log"),
    "a list": ("a.json", b"[1]", "a.json, entry 1 is not an object"),
    "another json": (
        "a.json",
        b'{"answer": "yes"}',
        "a.json is not a valid Inspect log: it has no entry `eval`",
    ),
    "odd samples": ("a.json", b'{"eval": {}, "samples": [1]}', "a.json is not a valid Inspect log"),
    "odd choices": (
        "a.json",
        b'{"eval": {}, "samples": [{"id": 1, "epoch": 1, "input": "a", "output": {"choices": [1]}}]}',
        "not a valid Inspect log",
    ),
    "no attachment": (
        "a.json",
        b'{"eval": {}, "samples": [{"id": 1, "epoch": 1, "input": "attachment://a"}]}',
        "not a valid Inspect log",
    ),
    "no text": ("a.json", b"\xff\xfe", "a.json is not a valid Inspect log .UnicodeDecodeError"),
    "deep": ("a.json", b"[" * 100_000, "a.json is not valid JSON .maximum recursion depth"),
    "without samples": ("a.json", b'{"eval": {"task": "t"}}', "an Inspect log without samples"),
    "no zip": ("a.eval", b"PK\x03\x04 half of it", "a.eval is not a valid Inspect log .BadZipFile"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_files_that_are_no_logs_are_named(tmp_path: Path, case: str) -> None:
    name, content, message = DAMAGED[case]
    Path(name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        analyse(name)
    assert not list(tmp_path.glob("runs/*")), "no incomplete files"


def test_a_log_without_a_header_or_that_does_not_exist_is_named() -> None:
    with zipfile.ZipFile("a.eval", "w") as archive:
        archive.writestr("samples/1_epoch_1.json", "{}")
    with pytest.raises(InputError, match=r"a\.eval is not a valid Inspect log"):
        analyse("a.eval")
    with pytest.raises(InputError, match=r"there is no file b\.eval"):
        analyse("b.eval")
    write("c.json", [sample(1, "Who are you?", output("A model."))])
    with pytest.raises(InputError, match=r"c\.json: no prompt of the table matches a prompt of this study"):
        analyse("c.json")
