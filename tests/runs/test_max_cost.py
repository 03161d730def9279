"""A limit of the cost of a run (`--max-cost`), with a real server that counts tokens, or does not."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tiltmeter as tm
from conftest import Tiltmeter
from support.commands import begin
from support.misbehaving import Behaviour, MisbehavingServer
from support.on_terminal import run_on_terminal
from tiltmeter.engine import Limits
from tiltmeter.errors import InputError

pytestmark = [pytest.mark.usefixtures("workplace"), pytest.mark.filterwarnings("ignore::tiltmeter.Caveat")]

PROMPTS = 60
ONE_AT_A_TIME = Limits(max_connections=1)
"""With these limits, nothing else is in flight when an answer reaches the limit of costs."""


@pytest.fixture
def prompts(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table of 60 questions; an answer of one word costs a tenth of a cent."""
    rows = [
        f'"{name} asks for a day off in week {week}. Grant it? Yes or no.",{group},yes'
        for week in range(30)
        for name, group in (("Anna", "women"), ("Tom", "men"))
    ]
    (workplace / "leave.csv").write_text("\n".join(["prompt,group,expected", *rows]) + "\n")
    price = "  {}: {{input: 0, output: 1000}}"
    names = ("compatible/m", "compatible/n")
    (workplace / "prices.yaml").write_text("\n".join(["models:", *map(price.format, names)]) + "\n")
    monkeypatch.setenv("TILTMETER_PRICES", str(workplace / "prices.yaml"))
    return "leave.csv"


@pytest.fixture
def server() -> Iterator[MisbehavingServer]:
    with MisbehavingServer(lambda request, nth: "Yes.") as running:
        yield running


def ask(study: str, server: MisbehavingServer, **more: Any) -> tm.Run:
    options: dict[str, Any] = {"model": "compatible/m", "display": "none", "out": "run"}
    return tm.run(study, base_url=server.url, **{**options, "limits": ONE_AT_A_TIME, **more})


def test_nothing_is_sent_after_the_limit_and_the_run_goes_on_later(
    prompts: str, server: MisbehavingServer
) -> None:
    run = ask(prompts, server, max_cost=0.0295)
    assert server.requests == 30
    assert run.exit_code == 3
    assert run.problems == [
        "compatible/m: stopped early after 30 of 60 responses, because the cost reached the limit ($0.030000"
        " of $0.029500, --max-cost); run the same command again to resume, with a higher limit or the same"
        " for the further responses"
    ]
    assert run.responses.filter(status="ok").height == 30
    assert run.about["cost_limit"] == {"dollars": 0.0295, "spent": pytest.approx(0.03)}
    again = ask(prompts, server, max_cost=1)
    assert (server.requests, again.problems) == (PROMPTS, [])
    assert max(server.paid.values()) == 1, "no response is paid for twice"
    assert again.responses.filter(status="ok").height == PROMPTS


def test_requests_in_flight_are_kept(prompts: str) -> None:
    with MisbehavingServer(lambda request, nth: Behaviour(text="Yes.", delay=0.2)) as server:
        run = ask(prompts, server, max_cost=0.0005, limits=Limits(max_connections=8))
        assert 1 < server.requests <= 8
        assert run.responses.filter(status="ok").height == server.requests == server.paid.total()


def test_a_limit_that_the_last_response_reaches_leaves_a_whole_run(
    prompts: str, server: MisbehavingServer
) -> None:
    assert ask(prompts, server, max_cost=0.0595).problems == []


def test_the_limit_holds_for_all_models_together(prompts: str, server: MisbehavingServer) -> None:
    run = ask(prompts, server, model=["compatible/m", "compatible/n"], max_cost=0.0705)
    assert server.requests == 71
    (problem,) = run.problems
    assert problem.startswith("compatible/n: stopped early after 11 of 60 responses, because the cost")
    run = ask(prompts, server, model=["compatible/n", "compatible/m"], max_cost=0.0005, out="other")
    assert server.requests == 72
    assert [problem.partition(":")[0] for problem in run.problems] == ["compatible/n"], "m is in the journal"


def test_answers_without_counts_of_tokens_are_charged_as_if_they_were_long(prompts: str) -> None:
    body = {"choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "Yes."}}]}
    behaviour = Behaviour(body=json.dumps(body).encode())
    with MisbehavingServer(lambda request, nth: behaviour) as server:
        run = ask(prompts, server, sampling={"max_tokens": 10}, max_cost=0.0295)
        assert server.requests == 3  # each may have had ten tokens
        assert run.exit_code == 3


def test_a_model_without_a_price_is_refused_before_anything_is_asked(
    tiltmeter: Tiltmeter,
    tmp_path: Path,
    prompts: str,
    server: MisbehavingServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = tiltmeter("run", prompts, "-m", "compatible/x", "--base-url", server.url, "--max-cost", "5")
    assert done.returncode == 2
    assert done.stderr == (
        "tiltmeter: --max-cost needs the price of compatible/x, which is not known: write a file with the"
        " lines 'models:' and '  compatible/x: {input: DOLLARS, output: DOLLARS}' (per million tokens), and"
        " name it in the environment variable TILTMETER_PRICES\n"
    )
    assert server.requests == 0
    assert not (tmp_path / "runs").exists()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-used")
    with pytest.raises(InputError, match="needs the price of openai/gpt-99"):
        tm.run("associations/gender", model="sim/fair", judge="openai/gpt-99", max_cost=1, limit=4)


@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
def test_a_limit_is_a_positive_number(prompts: str, value: float) -> None:
    with pytest.raises(InputError, match="--max-cost must be a number of dollars above 0"):
        tm.run(prompts, model="sim/fair", max_cost=value)


def test_the_limit_holds_for_the_whole_command(
    tiltmeter: Tiltmeter, workplace: Path, prompts: str, server: MisbehavingServer
) -> None:
    text = (workplace / prompts).read_text()
    for name in ("second.csv", "third.csv"):
        (workplace / name).write_text(text.replace("asks for", f"({name}) asks for"))
    more = ("-m", "compatible/m", "--base-url", server.url, "--display", "none", "--max-connections", "1")
    studies = (prompts, "second.csv", "third.csv")
    prices = os.environ["TILTMETER_PRICES"]
    done = tiltmeter("run", *studies, "--max-cost", "0.0705", *more, exits=3, TILTMETER_PRICES=prices)
    assert server.requests == 71
    assert done.stderr.endswith("not started, because the cost reached the limit (--max-cost): third.csv\n")


# -- the question on a terminal ------------------------------------------------------------------------------


def on_terminal(
    workplace: Path, environment: dict[str, str], command: list[str], typed: str
) -> tuple[int, str]:
    """Run a command on a terminal, type an answer to its first question; return its status and output."""
    prices = {"TILTMETER_PRICES": os.environ["TILTMETER_PRICES"]}
    finished = run_on_terminal(workplace, environment | prices, command, typed)
    return finished.status, finished.printed


def test_an_expensive_run_asks_on_a_terminal_before_anything_is_requested(
    workplace: Path, environment: dict[str, str], prompts: str, server: MisbehavingServer
) -> None:
    command = [prompts, "-m", "compatible/m", "--base-url", server.url]
    status, printed = on_terminal(workplace, environment, command, "n\n")
    printed = " ".join(printed.split())
    assert re.search(r"may cost up to \$18\.00, with answers of the largest length", printed)
    assert "nothing was requested, because" in printed
    assert (status, server.requests) == (2, 0)
    assert not [*workplace.glob("runs/*/run.json")]
    assert on_terminal(workplace, environment, [*command, "--max-tokens", "9"], "n\n")[0] == 0, "$0.54"
    assert server.requests == PROMPTS
    assert on_terminal(workplace, environment, command, "y\n")[0] == 0
    assert server.requests == 2 * PROMPTS
    for more in ((), ("--yes",), ("--max-cost", "9")):  # without them, all responses are in the journal
        status, printed = on_terminal(workplace, environment, [*command, *more], "n\n")
        assert (status, "[y/N]" in printed) == (0, False)


def test_an_interruption_ends_the_whole_command(
    workplace: Path, environment: dict[str, str], prompts: str
) -> None:
    text = (workplace / prompts).read_text()
    (workplace / "second.csv").write_text(text.replace("asks for", "wants"))
    with MisbehavingServer(lambda request, nth: Behaviour(text="Yes.", delay=0.1)) as server:
        more = ["-m", "compatible/m", "--base-url", server.url, "--max-connections", "1"]
        process = begin(["run", prompts, "second.csv", *more], workplace, environment)
        while server.requests < 3:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=60)
    assert process.returncode == 3
    assert printed.endswith("not started, because the command was interrupted: second.csv\n")
    assert not any("wants" in prompt for prompt in server.asked)
