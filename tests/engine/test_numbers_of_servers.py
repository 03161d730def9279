"""Wrong numbers and rows of endpoints are bounded, and cost no other answer."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import misbehaving as bad
from support.journals import execute, fill, key, row, rows_of
from support.misbehaving import Behaviour, MisbehavingServer
from tiltmeter.engine import Journal, Keys, Limits, Request, _rate_limit as rate_limit, generate, open_journal
from tiltmeter.engine.upkeep import check, repair
from tiltmeter.models import Completion, Message, Sampling, create_model
from tiltmeter.models._base import MOST_TOKENS, NamedModel

REQUESTS = [Request((Message("user", f"prompt {number}"),)) for number in range(6)]
GREEDY = Sampling(temperature=0.0)
LARGE = 2**31 - 1

ANTHROPIC: dict[str, Any] = {"content": [{"type": "text", "text": "Yes"}], "stop_reason": "end_turn"}
OPENAI: dict[str, Any] = {"choices": [{"message": {"content": "Yes"}, "finish_reason": "stop"}]}


def body(answer: dict[str, Any], **usage: Any) -> Behaviour:
    return bad.status(200, None, json.dumps(answer | {"usage": usage}))


USAGES = {
    "a sum of large counts": (
        "anthropic/m",
        body(ANTHROPIC, input_tokens=LARGE, cache_read_input_tokens=LARGE, output_tokens=2),
    ),
    "a cache of 9 million for 9 million": (
        "anthropic/m",
        body(ANTHROPIC, input_tokens=9_000_000, cache_creation_input_tokens=9_000_000, output_tokens=2),
    ),
    "a negative part": (
        "anthropic/m",
        body(ANTHROPIC, input_tokens=50, cache_read_input_tokens=-40, output_tokens=2),
    ),
    "large counts": ("compatible/m", body(OPENAI, prompt_tokens=LARGE, completion_tokens=LARGE)),
    "more digits than any number type": (
        "compatible/m",
        body(OPENAI, prompt_tokens=10**400, completion_tokens=10**19),
    ),
    "truth values": ("compatible/m", body(OPENAI, prompt_tokens=True, completion_tokens=False)),
}


@pytest.mark.parametrize("case", USAGES)
def test_a_count_that_is_not_credible_is_unknown_and_books_no_budget(case: str, journal: Journal) -> None:
    name, usage = USAGES[case]
    with MisbehavingServer(
        lambda request, nth: usage if bad.prompt_of(request) == "prompt 0" else "Yes"
    ) as server:
        model = create_model(name, base_url=server.url)
        tally = generate(model, REQUESTS, GREEDY, journal=journal, limits=Limits(tokens_per_minute=600_000))
    table = journal.fetch([Keys(model.fingerprint, GREEDY)(*request) for request in REQUESTS])
    assert (tally.answered, tally.failures) == (6, 0)
    assert table["text"].to_list() == ["Yes"] * 6
    assert table["input_tokens"].to_list() == [None, 2, 2, 2, 2, 2]
    assert tally.input_tokens == 10
    assert tally.output_tokens <= 17


def test_a_credible_count_books_at_most_a_minute_and_does_not_lead_the_estimates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    async def ask() -> float:
        pace = rate_limit.rate_limit_of("endpoint", Limits(tokens_per_minute=600.0))
        await pace.enter(10.0)
        for _ in range(3):
            pace.succeeded(10.0, 5, MOST_TOKENS)
        monkeypatch.setattr(asyncio, "sleep", note)
        await pace.enter(10.0)
        return pace.estimate((Message("user", "prompt"),), None)

    assert asyncio.run(ask()) < 1_000
    assert 100.0 < max(waits) < 200.0


class Odd(NamedModel):
    """A model of a plugin that gives one odd completion and valid ones otherwise."""

    def __init__(self, odd: object) -> None:
        super().__init__("odd/m", "odd/m")
        self._odd = odd

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        if messages[0].content == "prompt 0":
            return self._odd  # type: ignore[return-value]
        return Completion("Yes", "stop")


NUMPY_COUNTS: dict[str, Any] = {"input_tokens": np.int64(3), "output_tokens": np.int32(4)}
NUMPY = Completion("Yes", "stop", **NUMPY_COUNTS, latency=np.float64(0.5))
KEPT = {
    "counts of numpy": (NUMPY, (3, 4)),
    "a count that is no number": (
        Completion("Yes", "stop", input_tokens="3", output_tokens=2.5),  # type: ignore[arg-type]
        (None, None),
    ),
    "a latency that is no number": (Completion("Yes", "stop", latency=math.nan), (None, None)),
    "a negative latency": (Completion("Yes", "stop", latency=-1.0), (None, None)),
    "half a character": (Completion("Yes \ud83d", "stop"), (None, None)),
}


@pytest.mark.parametrize("case", KEPT)
def test_an_answer_with_odd_numbers_is_kept(case: str, journal: Journal, tmp_path: Path) -> None:
    completion, counts = KEPT[case]
    tally = generate(Odd(completion), REQUESTS, GREEDY, journal=journal)
    (first, *_) = journal.fetch([Keys("odd/m", GREEDY)(*request) for request in REQUESTS]).iter_rows(
        named=True
    )
    assert (tally.answered, str(first["text"])[:3], first["input_tokens"], first["output_tokens"]) == (
        6,
        "Yes",
        *counts,
    )
    journal.close()
    assert check(tmp_path / "journal.db").sound


LOST = {
    "nothing": (Completion(None), 'its status is "ok" but it has no answer'),
    "a text that is a number": (Completion(5, "stop"), "its text is not valid"),  # type: ignore[arg-type]
    "a reason that is a list": (
        Completion("Yes", ["stop"]),  # type: ignore[arg-type]
        "its finish_reason is not valid",
    ),
    "no completion": ("Yes", "the provider failed with AttributeError"),
}


@pytest.mark.parametrize("case", LOST)
def test_a_completion_that_cannot_be_stored_fails_alone(case: str, journal: Journal, tmp_path: Path) -> None:
    completion, message = LOST[case]
    tally = generate(Odd(completion), REQUESTS, GREEDY, journal=journal, limits=Limits(retries=0))
    errors = journal.fetch([Keys("odd/m", GREEDY)(*request) for request in REQUESTS])["error"]
    assert (tally.answered, tally.failures, errors.null_count()) == (5, 1, 5)
    assert message in errors[0]
    journal.close()
    assert check(tmp_path / "journal.db").sound


def test_a_row_that_is_not_valid_becomes_a_failure_when_it_is_recorded(where: str) -> None:
    fill(
        where,
        [
            row(0),
            row(1, output_tokens=2**31),
            row(2, latency=-1.0),
            row(3, finish_reason=None)._replace(text=None),
            row(4),
        ],
    )
    rows = rows_of(where)
    assert [rows[key(number)].status for number in range(5)] == ["ok", "failed", "failed", "failed", "ok"]
    assert rows[key(1)].error_kind == "bad_response"
    assert str(rows[key(1)].error_detail).startswith(
        "the answer cannot be stored: its output_tokens is not valid"
    )
    assert check(where).sound


@pytest.mark.parametrize(
    ("mistake", "where"),
    [(str(3 * LARGE), "sqlite"), ("'many'", "sqlite"), ("-4", "postgresql")],
    indirect=["where"],
)
def test_a_count_that_an_earlier_version_stored_costs_no_answer(mistake: str, where: str) -> None:
    fill(where, [row(number) for number in range(5)])
    execute(where, f"UPDATE completions SET input_tokens = {mistake} WHERE created_at = 1003")
    assert not check(where).sound
    done = repair(where)
    assert (done.was, done.rows, done.removed, done.corrected) == ("bad rows", 5, 0, 1)
    remaining = rows_of(where)[key(3)]
    assert (remaining.text, remaining.input_tokens, remaining.output_tokens) == ("answer 3", None, 4)
    assert check(where).sound


def test_a_count_that_an_earlier_version_stored_is_unknown_to_a_run(tmp_path: Path) -> None:
    path = tmp_path / "j.sqlite"
    fill(path, [row(number) for number in range(5)])
    execute(path, f"UPDATE completions SET input_tokens = {3 * LARGE} WHERE created_at = 1003")
    with open_journal(path) as journal:
        assert journal.fetch([key(2), key(3)])["input_tokens"].to_list() == [3, None]
