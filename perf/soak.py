"""Load with faults: several processes with one journal and a server with every known fault, which is killed.

    python perf/soak.py [--seconds 1800] [--connections 24] [--latency 0.1]

Three processes send requests without pause, two of them the same prompts to the same model. A fixed share of
requests fails with each kind of passing fault (errors, resets, half and broken bodies, silence, huge bodies).
In every cycle the first process is killed (-9) and started again; the server is overloaded for some seconds
(429 with and without Retry-After, 503, 529), is killed, and is started again after some seconds of refused
connections. At the end the server has no faults, and missing responses are requested. The server counts the
requests and the delivered responses in files that outlive it. What must hold:

* lost: no answer that was delivered is missing from the journal when the processes have ended;
* doubled: the journal then holds one row for each prompt, each with the text that follows from its prompt;
* paid again: for each kill, at most the requests in flight and those of half a second;
* load: while the server has no faults, four fifths of the connections that may be open are in use (the
  median), and no process gives up;
* memory: the processes that are not killed grow by less than 10 MB per minute over the second half (60 if the
  half lasts less than a minute).

Prints one JSON object; the exit status is 1 if a condition does not hold.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support import misbehaving as bad
from support.ledger import GAUGES, Ledger
from tiltmeter.engine import Keys, Limits, Request, generate, open_journal
from tiltmeter.models import Message, Sampling, create_model

MODELS: Final = ("a", "b")
CLIENTS: Final = ("a", "a", "b")
"""The model of each process; the first process is killed."""
MOST_PROMPTS: Final = 8_000_000
SAMPLING: Final = Sampling(temperature=0.0)
TIMEOUT: Final = 2.0
REST: Final = 6.0
"""Seconds in which the load may grow again after an overload or an outage."""
EVERY: Final = 0.25
LEAST_LOAD: Final = 0.8
UNSEEN: Final = 0.1
CALM: Final = "calm"

Counts = NDArray[np.int64]
Fault = Callable[[str], bad.Behaviour]
PASSING: Final[dict[str, tuple[float, Fault]]] = {
    "500": (0.004, lambda text: bad.server_error()),
    "502 HTML page": (0.002, lambda text: bad.html_error_page()),
    "reset before": (0.003, lambda text: bad.reset()),
    "reset within": (0.003, lambda text: bad.answer(text, cut=0.5)),
    "silence": (0.001, lambda text: bad.hang(30)),
    "slow": (0.003, lambda text: bad.slow(random.uniform(0.3, 0.9), text)),
    "half body": (0.003, lambda text: bad.truncated_json()),
    "broken JSON": (0.003, lambda text: bad.invalid_json()),
    "wrong content type": (0.003, lambda text: bad.wrong_content_type(text)),
    "empty choices": (0.003, lambda text: bad.empty_choices()),
    "huge body": (0.001, lambda text: bad.huge_body(4)),
}
"""Share of requests and their fault; "slow" and "wrong content type" still deliver an answer."""
OVERLOAD: Final[dict[str, tuple[float, Fault]]] = {
    "429 with Retry-After": (0.1, lambda text: bad.rate_limited(0.5)),
    "429": (0.1, lambda text: bad.rate_limited()),
    "503": (0.1, lambda text: bad.server_error(503)),
    "529": (0.1, lambda text: bad.server_error(529)),
}
KINDS: Final = (*PASSING, *OVERLOAD)
IN_FLIGHT: Final = GAUGES - 1


def prompt(number: int) -> str:
    return f"What is the number after {number}?"


def answer_to(model: str, number: int) -> str:
    return f"{model} says: after {number} comes {number + 1}."


class Weather:
    """The faults of the server by time.

    A cycle has its overload in the middle; kills are up to the harness.
    """

    def __init__(self, begun: float, cycle: float) -> None:
        self._begun, self._cycle = begun, cycle

    def overloaded(self, now: float) -> bool:
        return 0.45 <= (now - self._begun) / self._cycle % 1 < 0.45 + min(0.1, 3 / self._cycle)

    def of(self, now: float, injected: Counts) -> tuple[str, Fault] | None:
        """Return the fault of a request at this time, or None.

        A kind that has not occurred yet is preferred.
        """
        kinds = OVERLOAD if self.overloaded(now) else PASSING
        unseen = [(name, fault) for name, (_, fault) in kinds.items() if not injected[KINDS.index(name)]]
        if unseen and random.random() < UNSEEN:
            return unseen[0]
        draw = random.random()
        for name, (share, fault) in (OVERLOAD | PASSING if self.overloaded(now) else PASSING).items():
            draw -= share
            if draw < 0:
                return name, fault
        return None


def serve(place: Path, port: int, weather: Weather | None, latency: float) -> None:
    """Run the server until killed."""
    # Clients are killed in the middle of an answer.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    ledgers = {model: Ledger(place / f"ledger-{model}", MOST_PROMPTS) for model in MODELS}
    injected = ledgers[MODELS[0]].gauges

    def script(body: dict[str, Any], _nth: int) -> bad.Behaviour:
        model, number = body["model"], int(bad.prompt_of(body).split()[-1][:-1])
        ledgers[model].asked[number] += 1
        text = answer_to(model, number)
        fault = weather.of(monotonic(), injected) if weather else None
        if fault is None:
            return bad.slow(latency, text)
        injected[KINDS.index(fault[0])] += 1
        return fault[1](text)

    def delivered(body: Any, prompt: str) -> None:
        ledgers[body["model"]].delivered[int(prompt.split()[-1][:-1])] += 1

    with bad.MisbehavingServer(script, port=port, delivered=delivered) as server:
        print("ready", flush=True)
        while True:
            injected[IN_FLIGHT] = server.concurrent
            time.sleep(EVERY / 2)


def ask(place: Path, url: str, model: str, connections: int, count: int) -> None:
    """Request the first `count` prompts in order until stopped, in this process; print the errors."""
    requests = (Request((Message("user", prompt(number)),)) for number in range(count))
    limits = Limits(max_connections=connections, timeout=TIMEOUT)
    with open_journal(place / "journal.sqlite") as journal:
        tally = generate(
            create_model(f"vllm/{model}", base_url=url), requests, SAMPLING, journal=journal, limits=limits
        )
    print(
        json.dumps({"given_up": dict(tally.failed), "errors": dict(tally.errors), "stopped": tally.stopped})
    )


class Sample(NamedTuple):
    seconds: float
    in_flight: int
    well: bool
    memory: tuple[float, ...]
    """Resident megabytes of the processes that are not killed."""


class Harness:
    """Server and clients as processes, their kills, and observations of them."""

    def __init__(self, place: Path, seconds: float, connections: int, latency: float) -> None:
        self._place, self._seconds = place, seconds
        self._connections, self._latency = connections, latency
        self.cycle = min(60.0, max(30.0, seconds))
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self._port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}/v1"
        self.ledgers = {model: Ledger(place / f"ledger-{model}", MOST_PROMPTS) for model in MODELS}
        self.begun = monotonic()
        self.samples: list[Sample] = []
        self.kills: Counter[str] = Counter()
        self.reports: list[dict[str, Any]] = []
        self._disturbed = self.begun
        self._weather = Weather(self.begun, self.cycle)
        self._server = self._serve(calm=False)
        self._clients = [self._client(model) for model in CLIENTS]

    def _start(self, *arguments: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, __file__, "--place", str(self._place), *map(str, arguments)],
            stdout=subprocess.PIPE,
            text=True,
        )

    def _serve(self, *, calm: bool) -> subprocess.Popen[str]:
        weather = ["--begun", CALM if calm else self.begun, "--cycle", self.cycle, "--latency", self._latency]
        server = self._start("--serve", self._port, *weather)
        assert server.stdout is not None
        if server.stdout.readline() != "ready\n":
            raise RuntimeError("the server did not start")
        return server

    def _client(self, model: str, count: int = MOST_PROMPTS) -> subprocess.Popen[str]:
        options = ["--url", self.url, "--connections", self._connections, "--count", count]
        return self._start("--ask", model, *options)

    def run(self) -> None:
        """Run all cycles; then request the missing responses from a server without faults."""
        try:
            turn = 0
            while monotonic() < self.begun + self._seconds:
                start = self.begun + turn * self.cycle
                self._watch(start + 0.2 * self.cycle)
                self._kill_client()
                self._watch(start + 0.75 * self.cycle)
                self._kill_server()
                self._watch(start + self.cycle)
                turn += 1
            for client in self._clients:
                client.send_signal(signal.SIGTERM)
            for client in self._clients:
                self._finish(client)
            self.lost = self.missing()
            self._server.kill()
            self._server.wait()
            self._server = self._serve(calm=True)
            for model in MODELS:
                self._finish(self._client(model, self.reach(model)))
        finally:
            for process in (*self._clients, self._server):
                process.kill()
                process.wait()

    def reach(self, model: str) -> int:
        """Return the number of prompts that were sent to the model."""
        return int(np.flatnonzero(self.ledgers[model].asked)[-1]) + 1

    def missing(self) -> int:
        """Count the prompts to which an answer was delivered that is not in the journal."""
        return sum(
            text is None and bool(self.ledgers[model].delivered[number])
            for model in MODELS
            for number, text in enumerate(self.texts(model))
        )

    def texts(self, model: str) -> Iterator[str | None]:
        """Yield the texts in the journal, by number of the prompt."""
        fingerprint = create_model(f"vllm/{model}", base_url=self.url).fingerprint
        with open_journal(self._place / "journal.sqlite") as journal:
            reach = self.reach(model)
            for start in range(0, reach, 5000):
                numbers = range(start, min(start + 5000, reach))
                keys = [
                    Keys(fingerprint, SAMPLING)((Message("user", prompt(number)),), 0) for number in numbers
                ]
                yield from journal.fetch(keys)["text"].to_list()

    def rows(self) -> int:
        """Return the number of rows of the journal."""
        with closing(sqlite3.connect(self._place / "journal.sqlite")) as connection:
            return int(connection.execute("SELECT COUNT(*) FROM completions").fetchone()[0])

    def _watch(self, until: float) -> None:
        end = min(until, self.begun + self._seconds)
        while (now := monotonic()) < end:
            if self._weather.overloaded(now):
                self._disturbed = now
            memory = tuple(resident(client.pid) for client in self._clients[1:])
            in_flight = int(self.ledgers[MODELS[0]].gauges[IN_FLIGHT])
            self.samples.append(Sample(now - self.begun, in_flight, now - self._disturbed > REST, memory))
            time.sleep(EVERY)

    def _kill_client(self) -> None:
        if monotonic() > self.begun + self._seconds - REST:
            return
        self.kills["client"] += 1
        self._clients[0].send_signal(signal.SIGKILL)
        self._clients[0].wait()
        self._disturbed = monotonic()
        self._clients[0] = self._client(CLIENTS[0])

    def _kill_server(self) -> None:
        if monotonic() > self.begun + self._seconds - REST / 2:
            return
        self.kills["server"] += 1
        self._server.send_signal(signal.SIGKILL)
        self._server.wait()
        self._watch(monotonic() + min(3.0, 0.1 * self.cycle))
        self._server = self._serve(calm=False)
        self._disturbed = monotonic()

    def _finish(self, client: subprocess.Popen[str]) -> None:
        out, _ = client.communicate(timeout=300)
        self.reports.append(
            json.loads(out)
            if client.returncode == 0
            else {"status": client.returncode, "stopped": "ended early"}
        )


def resident(pid: int) -> float:
    """Return the resident megabytes of a process, nan when it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20
    except (OSError, IndexError):
        return float("nan")


def slope(samples: list[Sample], client: int) -> float:
    """Return the megabytes per minute over the second half."""
    half = [sample for sample in samples[len(samples) // 2 :] if sample.memory[client] > 0]
    return float(
        np.polyfit([sample.seconds / 60 for sample in half], [sample.memory[client] for sample in half], 1)[0]
    )


def findings(harness: Harness, seconds: float, connections: int) -> dict[str, Any]:
    errors: Counter[str] = Counter()
    given_up = 0
    for report in harness.reports:
        errors.update(report.get("errors", {}))
        given_up += sum(report.get("given_up", {}).values())
    answers = sum(ledger.answers for ledger in harness.ledgers.values())
    incorrect = sum(
        text != answer_to(model, number)
        for model in MODELS
        for number, text in enumerate(harness.texts(model))
    )
    well = [sample.in_flight for sample in harness.samples if sample.well]
    gauges = harness.ledgers[MODELS[0]].gauges
    rate = answers / seconds
    prompts = {model: harness.reach(model) for model in MODELS}
    paid_by_kills_of_client = harness.kills["client"] * (connections + 0.5 * rate)
    paid_by_kills_of_server = harness.kills["server"] * connections * len(CLIENTS)
    watched = range(len(CLIENTS) - 1)
    requests = {
        "seconds": seconds,
        "answers": answers,
        "answers_per_second": round(rate),
        "injected": {name: int(gauges[number]) for number, name in enumerate(KINDS)},
        "seen": dict(sorted(errors.items())),
        "kills": dict(harness.kills),
        "given_up_in_passing": given_up,
        "stopped": [report["stopped"] for report in harness.reports if report["stopped"]],
    }
    journal = {
        "prompts": prompts,
        "lost": harness.lost,
        "rows_beyond_prompts": harness.rows() - sum(prompts.values()),
        "missing_or_wrong": incorrect,
        "paid_again": sum(ledger.again for ledger in harness.ledgers.values()),
        "paid_again_bound": round(paid_by_kills_of_client + paid_by_kills_of_server),
    }
    load = {
        "connections": connections * len(CLIENTS),
        "in_flight_while_well": statistics.median(well) if well else 0,
        "samples_while_well": len(well),
        "memory": [round(max(sample.memory[client] for sample in harness.samples)) for client in watched],
        "memory_slope": [round(slope(harness.samples, client), 2) for client in watched],
    }
    return requests | journal | load


def holds(measurements: dict[str, Any]) -> dict[str, bool]:
    """Return the conditions and whether they hold."""
    steepest = 10.0 if measurements["seconds"] >= 120 else 60.0
    in_use = measurements["in_flight_while_well"] >= LEAST_LOAD * measurements["connections"]
    return {
        "lost": measurements["lost"] == 0,
        "doubled": measurements["rows_beyond_prompts"] == 0 and measurements["missing_or_wrong"] == 0,
        "paid again": measurements["paid_again"] <= measurements["paid_again_bound"],
        "load": in_use and not measurements["stopped"],
        "memory": max(measurements["memory_slope"]) < steepest,
        "every fault": all(measurements["injected"].values()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--connections", type=int, default=24, help="of each of the three processes")
    parser.add_argument("--latency", type=float, default=0.1, help="seconds of a usual answer")
    for name, kind in (
        ("place", Path),
        ("serve", int),
        ("ask", str),
        ("url", str),
        ("begun", str),
        ("cycle", float),
        ("count", int),
    ):
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(
            arguments.place,
            arguments.serve,
            None if arguments.begun == CALM else Weather(float(arguments.begun), arguments.cycle),
            arguments.latency,
        )
    elif arguments.ask:
        ask(arguments.place, arguments.url, arguments.ask, arguments.connections, arguments.count)
    else:
        with tempfile.TemporaryDirectory() as place:
            harness = Harness(Path(place), arguments.seconds, arguments.connections, arguments.latency)
            harness.run()
            measurements = findings(harness, arguments.seconds, arguments.connections)
        measurements["holds"] = holds(measurements)
        print(json.dumps(measurements, indent=1))
        sys.exit(not all(measurements["holds"].values()))


if __name__ == "__main__":
    main()
