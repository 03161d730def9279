"""Keys, limits, prices, pace, retries and displays, each by itself."""

from __future__ import annotations

import asyncio
import io
import json
import math
import re
from collections import Counter
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from hypothesis import given, strategies as st

from support.programs import run_code
from support.wording import Wording
from tiltmeter.engine import Keys, Limits, Prices, Snapshot, Tally, open_display
from tiltmeter.engine._rate_limit import RateLimit, retry_delay
from tiltmeter.errors import InputError
from tiltmeter.models import Message, ModelError, Sampling

messages = st.lists(
    st.builds(
        Message, st.sampled_from(["system", "user", "assistant"]), st.text(st.characters(), max_size=8)
    ),
    max_size=3,
)


@given(messages, messages, st.integers(0, 3), st.integers(0, 3))
def test_keys_are_equal_exactly_when_the_requests_are(
    first: list[Message], second: list[Message], a: int, b: int
) -> None:
    same = (first, a) == (second, b)
    assert (Keys("m", Sampling())(first, a) == Keys("m", Sampling())(second, b)) is same


def test_keys_tell_sampling_apart() -> None:
    settings: list[dict[str, Any]] = [
        {},
        {"temperature": 0.1},
        {"seed": 1},
        {"stop": ("x",)},
        {"extra": {"top_k": 1}},
    ]
    keys = [
        Keys("m", Sampling(**{"temperature": 0.0, **setting}))([Message("user", "hello")], 0)
        for setting in settings
    ]
    assert len(set(keys)) == len(settings)


def test_a_key_is_the_same_for_equal_sampling_and_for_all_time() -> None:
    prompt = [Message("system", "s"), Message("user", "caf\u00e9 \ud83d")]
    assert Keys("m", Sampling(temperature=0))(prompt, 0) == Keys("m", Sampling(temperature=0.0))(prompt, 0)
    first, second = Sampling(extra={"a": 1, "b": 2}), Sampling(extra={"b": 2, "a": 1})
    assert Keys("m", first)(prompt, 0) == Keys("m", second)(prompt, 0)
    assert Keys("m", first)(prompt, 0) != Keys("n", first)(prompt, 0)
    # Another value here would mean that every journal written so far is asked and paid for again.
    fixed = Keys("openai/m@https://api.openai.com/v1", Sampling(temperature=0.5, max_tokens=9))(
        [Message("user", "hello")], 2
    )
    assert fixed.hex() == "cc80d15158d02a5e5412c0403e0b0f17b48fa4bf63cc2763fe872a479315bd81"


def test_extras_that_are_no_json_are_refused() -> None:
    with pytest.raises(InputError, match="plain JSON"):
        Keys("m", Sampling(extra={"x": object()}))([], 0)


WRONG_LIMITS = [
    ("max_connections", 0),
    ("max_connections", 1.5),
    ("retries", -1),
    ("timeout", 0),
    ("deadline", math.inf),
]


@pytest.mark.parametrize(("name", "value"), [*WRONG_LIMITS, ("requests_per_minute", -3)])
def test_limits_quote_the_wrong_value(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{name} must be .*{value}"):
        Limits(**{name: value})  # type: ignore[arg-type]


def test_prices_longest_pattern_and_own_file_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILTMETER_PRICES", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    builtin = Prices.load()
    assert builtin.cost("openai/gpt-4o-mini", 1_000_000, 1_000_000) == pytest.approx(0.75)
    assert builtin.cost("ollama/anything", 10, 10) == 0
    assert builtin.cost("openai/never-heard-of", 1, 1) is None
    price_file = tmp_path / "own.yaml"
    price_file.write_text(
        'models:\n  "openai/*": {input: 1, output: 2}\n  "openai/gpt*": {input: 5, output: 5}\n'
    )
    monkeypatch.setenv("TILTMETER_PRICES", str(price_file))
    assert [Prices.load().price(f"openai/{name}") for name in ("gpt-4o-mini", "never-heard-of")] == [
        (5, 5),
        (1, 2),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no such file"),
        ("models: [", "line 1"),
        ("nothing: 1", "needs a key 'models'"),
        ("models:\n  a/b: 3", "entry 'a/b'"),
        ("models:\n  a/b: {input: -1, output: 2}", "entry 'a/b'"),
        ("models:\n  a/b: {input: 1}", "entry 'a/b'"),
    ],
)
def test_a_wrong_price_file_is_named(
    tmp_path: Path, content: str | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.yaml"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("TILTMETER_PRICES", str(path))
    with pytest.raises(InputError, match=f"p.yaml.*{message}"):
        Prices.load()


async def test_one_burst_of_refusals_halves_once() -> None:
    pace = RateLimit(Limits(max_connections=64))
    for _ in range(56):
        pace.succeeded(0, 1, 1)
    assert pace.width == 64
    sent = monotonic()
    for _ in range(30):
        pace.overloaded(sent, 0.01)
    assert pace.width == 32
    pace.overloaded(monotonic(), 0.01)
    assert pace.width == 16
    for _ in range(17):
        pace.succeeded(0, 1, 1)
    assert pace.width == 17


async def test_all_requests_wait_as_long_as_the_endpoint_asked() -> None:
    pace = RateLimit(Limits())
    pace.overloaded(monotonic(), 0.2)
    begun = monotonic()
    await asyncio.gather(*(pace.enter(0) for _ in range(4)))
    assert monotonic() - begun >= 0.19


async def test_the_turn_of_a_cancelled_request_is_passed_on() -> None:
    pace = RateLimit(Limits(max_connections=1))
    await pace.enter(0)
    first = asyncio.create_task(pace.enter(0))
    second = asyncio.create_task(pace.enter(0))
    await asyncio.sleep(0)
    pace.leave()
    first.cancel()
    await asyncio.wait_for(second, 1)
    assert pace.in_flight == 1


def test_retries_wait_and_end() -> None:
    limits = Limits(retries=2, deadline=100)
    passing, refused = ModelError("server", "x"), ModelError("bad_request", "x", scope="permanent")
    assert retry_delay(passing, 2, 0, limits) is not None
    assert [retry_delay(*case, limits) for case in ((passing, 3, 0), (refused, 1, 0), (passing, 1, 100))] == [
        None
    ] * 3
    assert 7 <= (retry_delay(ModelError("rate_limit", "x", retry_after=7), 0, 0, limits) or 0) <= 7.5


def snapshot(**more: Any) -> Snapshot:
    tally = Tally(
        "openai/m", held=10, answered=30, input_tokens=1000, output_tokens=500, cost=0.25, unmetered=1, **more
    )
    tally.failed, tally.errors = Counter({"server": 2}), Counter({"rate_limit": 5, "server": 2})
    return Snapshot(tally, in_flight=8, width=16, rate=2.0, paused=0.0)


@pytest.mark.wording
def test_the_plain_display_says_everything_in_a_line(
    capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    with open_display(None, 100, "gest") as display:
        display.update(snapshot())
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert {"42/100", "$0.2500"} <= set(re.split(r",? ", line))
    wording.check_sentence("displays", "plain", line.rstrip("\n"))


def test_the_json_display_writes_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with open_display("json", 100, "gest") as display:
        display.update(snapshot())
        display.update(snapshot()._replace(rate=math.nan))
    values = json.loads(capsys.readouterr().err)
    assert values.items() >= {"done": 42, "limit": 16, "rate": None, "eta": None}.items()
    assert values["errors"] == {"rate_limit": 5, "server": 2}


LONG_NAME = "openrouter/meta-llama/llama-3.3-70b-instruct:free-of-charge-2025-01"


@pytest.mark.parametrize("width", [80, 81, 100, 120, 160, 200])
@pytest.mark.parametrize("label", ["sim/mild", "[gest]", "compatible/my-model", LONG_NAME])
@pytest.mark.parametrize("total", [100, 10_545, 3_000_000])
def test_progress_keeps_name_bar_count_and_time(
    monkeypatch: pytest.MonkeyPatch, width: int, label: str, total: int
) -> None:
    stream = io.StringIO()
    for name, value in (("COLUMNS", str(width)), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", stream)
    with open_display(None, total, label) as display:
        display.update(snapshot())
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue()).replace("\r", "\n").splitlines()
    assert all(len(line) <= width for line in lines)
    assert any(line.startswith(label) for line in lines)
    line = [line for line in lines if "42" in line][-1]
    assert "…" not in line
    assert all(words in line for words in ("━" * 5, f" 42/{total:,} ", "to go"))
    assert "at least $0.2500" in line or len(line) > width - 20
    if width == 200 and label == "sim/mild" and total < 3_000_000:
        assert all(
            words in line
            for words in (
                "1,000 tokens in, 500 out",
                "8 of 16 in flight",
                "failed (server 2)",
                "10 from the journal",
            )
        )


def test_no_display_is_silent_and_an_unknown_display_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with open_display("none", 1, "x") as display:
        display.update(snapshot())
    assert capsys.readouterr().err == ""
    with pytest.raises(InputError, match="'loud' is not known: use one of rich, plain, json, none"):
        open_display("loud", 1, "x")


def test_importing_the_engine_imports_nothing_heavy() -> None:
    heavy = "{'sqlalchemy', 'rich', 'polars', 'aiohttp', 'yaml'}"
    names = "tiltmeter.engine.Limits, tiltmeter.engine.Prices"
    code = f"import sys, tiltmeter.engine; {names}; print({heavy} & set(sys.modules))"
    assert run_code(code).stdout.strip() == "set()"
