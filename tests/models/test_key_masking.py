"""A key that a model repeats is not stored: it is masked in answers and failures, in every form."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl
import pytest

import tiltmeter as tm
from support.analysing import analyse, prompts
from tiltmeter.engine._generation import outcome_of
from tiltmeter.models import Completion, Message, ModelError, Sampling
from tiltmeter.models._endpoints import clean
from tiltmeter.models._function import model_of
from tiltmeter.models._key_masking import column_without_keys

KEY = "sk-attack/SECRET+KEY.0123456789"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILTMETER_API_KEY", KEY)
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefghij")
    monkeypatch.setenv("OTHER_API_KEY", "placeholder")
    monkeypatch.setenv("SHORT_API_KEY", "no-1")


def outcome(reply: Callable[[str], Any]) -> Completion | ModelError:
    model = model_of(reply)
    messages = [Message("user", "Hello?")]
    return asyncio.run(outcome_of(model, messages, Sampling(), 0))  # type: ignore[arg-type]


def in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


FORMS = {
    "plain": KEY,
    "reversed": KEY[::-1],
    "percent": quote(KEY, safe=""),
    "some percent": KEY.replace("-", "%2D").replace("+", "%2b"),
    "header": in_base64(f"Bearer {KEY}"),
    "header, shifted": in_base64(f"Authorization: Bearer {KEY} and more"),
    "pair": in_base64(f"u:{KEY}"),
    "another key": "hf_abcdefghij",
}
KEY_STARTS = {"header": 12, "header, shifted": 32}
"""Forms in which the key does not begin at the first character."""


@pytest.mark.parametrize("form", FORMS)
def test_every_text_of_an_answer_is_masked(form: str) -> None:
    repeated = FORMS[form]
    completion = outcome(
        lambda prompt: Completion(
            f"Yes {repeated}.", f"stop {repeated}", f"no {repeated}", f"hm {repeated}", 3
        )
    )
    assert isinstance(completion, Completion)
    texts = (completion.text, completion.finish_reason, completion.refusal, completion.thinking)
    assert not any(repeated in str(text) for text in texts)
    assert all("***" in str(text) for text in texts)
    assert completion.input_tokens == 3


@pytest.mark.parametrize("form", FORMS)
def test_the_message_of_a_failure_is_masked(form: str) -> None:
    def reply(prompt: str) -> str:
        raise ModelError("rate_limit", f"slow down, {FORMS[form]}", retry_after=7.0, status=429)

    failure = outcome(reply)
    assert isinstance(failure, ModelError)
    assert FORMS[form] not in failure.detail
    assert (failure.kind, failure.scope, failure.retry_after, failure.status) == (
        "rate_limit",
        "transient",
        7.0,
        429,
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("space", ["\n", "\r\n", " \t"])
def test_a_key_is_masked_as_it_is_sent(form: str, space: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILTMETER_API_KEY", KEY + space)
    monkeypatch.setenv("HF_TOKEN", f"{space}hf_abcdefghij")
    completion = outcome(lambda prompt: f"Yes {FORMS[form]}.")
    assert isinstance(completion, Completion)
    assert FORMS[form] not in str(completion.text)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("length", [150, 180, 190, 19_990])
def test_a_key_is_masked_before_a_message_is_cut(form: str, length: int) -> None:
    message = clean("<p>" + "x " * (length // 2) + FORMS[form])
    first = KEY_STARTS.get(form, 0)
    assert FORMS[form][first : first + 4] not in message


@pytest.mark.parametrize("form", FORMS)
def test_a_key_in_a_column_is_masked(form: str) -> None:
    texts = pl.Series("answer", [f"Yes {FORMS[form]}.", None, "100% no", ""])
    masked = column_without_keys(texts)
    assert FORMS[form] not in masked[0]
    assert masked[0].startswith("Yes ")
    assert "***" in masked[0]
    assert masked[1:].to_list() == texts[1:].to_list()


def test_a_column_stays_as_it_is_without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TILTMETER_API_KEY", "HF_TOKEN"):
        monkeypatch.delenv(name)
    texts = pl.Series("answer", ["100%", None])
    assert column_without_keys(texts).to_list() == ["100%", None]


@pytest.mark.verify
@pytest.mark.parametrize("form", ["plain", "header", "some percent"])
def test_no_file_of_imported_responses_contains_the_key(
    form: str, workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts().head(2).select("prompt_id", answer=pl.lit(f"yes {FORMS[form]}")).write_csv("a.csv")
    place = analyse("a.csv").path
    texts = [
        (f"She is kind, {number} {FORMS[form]}.", group) for number in range(3) for group in ("women", "men")
    ]
    pl.DataFrame(texts, schema=["text", "group"], orient="row").write_csv("t.csv")
    tm.analyse(
        "t.csv",
        study="benchmarks",
        text="text",
        group="group",
        params={"features": "vader"},
        out="t",
        display="none",
    )
    assert "values contain a key from the environment" in capsys.readouterr().err
    files = [path for folder in (place, Path("t")) for path in folder.rglob("*") if path.is_file()]
    assert not [path for path in files if FORMS[form].encode() in path.read_bytes()]
    assert pl.read_parquet(place / "responses.parquet")["answer"].str.contains("***", literal=True).all()


@pytest.mark.parametrize("text", ["This placeholder says no-1.", "100% sure, 5%2D", "sk-attack"])
def test_ordinary_words_are_not_masked(text: str) -> None:
    completion = outcome(lambda prompt: text)
    assert isinstance(completion, Completion)
    assert completion.text == text


def test_no_file_of_a_run_contains_the_key(workplace: Path) -> None:
    rows = {
        "prompt": ["Grant it to Ann?", "Grant it to Tom?"],
        "group": ["women", "men"],
        "expected": ["yes", "yes"],
    }
    pl.DataFrame(rows).write_csv("prompts.csv")
    run = tm.run(
        "prompts.csv", model=lambda prompt: f"Yes {KEY}", display="none", out="run", journal="journal.sqlite"
    )
    run.report()
    assert set(run.responses["answer"]) == {"Yes ***"}
    stored = [path for path in workplace.rglob("*") if path.is_file()]
    assert len(stored) > 5
    assert not [path for path in stored if KEY.encode() in path.read_bytes()]
