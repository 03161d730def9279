"""The gain by a second Ray worker if workers are limited to a part of a core each.

`cluster` fills every core of the machine with workers, so that Ray's own processes take time from them, which
matters on two cores. Here the cpu controller of Linux (cgroup v1; needs root) gives each worker a part of a
core, so that two of them leave capacity for Ray.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

from perf._tools import Peers, options, table, target, tell
from perf.cluster import LEAST_GAIN, answers
from tiltmeter.engine import open_engine, open_journal

CONTROLLER: Final = Path("/sys/fs/cgroup/cpu")
PERIOD: Final = 20_000
"""Microseconds of the period in which a worker has its part of a core."""
PART: Final = 0.7
ROUNDS: Final = 3


@contextmanager
def limited(process: int, part: float) -> Iterator[None]:
    """Limit a process to a part of a core for the time of the block."""
    place = CONTROLLER / f"tiltmeter-perf-{process}"
    place.mkdir()
    try:
        (place / "cpu.cfs_period_us").write_text(str(PERIOD))
        (place / "cpu.cfs_quota_us").write_text(str(int(PERIOD * part)))
        (place / "cgroup.procs").write_text(str(process))
        yield
    finally:
        with suppress(OSError):  # it is gone
            (CONTROLLER / "cgroup.procs").write_text(str(process))
        place.rmdir()


def workers_here() -> list[int]:
    """Return the processes of Ray's workers that this process has started, directly or indirectly."""
    return [
        process.pid
        for process in psutil.Process().children(recursive=True)
        if any("RayWorker" in word for word in process.cmdline())
    ]


def rate(workers: int, stories: int) -> float:
    """Return the answers per second of the storyteller with this number of workers."""
    with (
        tempfile.TemporaryDirectory() as place,
        open_engine("ray", {"workers": str(workers)}) as engine,
        open_journal(Path(place) / "journal.sqlite") as journal,
        ExitStack() as limits,
    ):
        answers(engine, journal, 128 * workers)  # all of them load the model
        processes = workers_here()
        assert len(processes) == workers, f"{len(processes)} processes of workers, not {workers}"
        for process in processes:
            limits.enter_context(limited(process, PART))
        answers(engine, journal, 64 * workers)
        return answers(engine, journal, stories)


def main() -> None:
    arguments = options(__doc__).parse_args()
    stories, rounds = (32, 1) if arguments.quick else (1500, ROUNDS)
    if not os.access(CONTROLLER / "cpu.cfs_quota_us", os.R_OK) or not os.access(CONTROLLER, os.W_OK):
        peers = Peers([])
        peers.missing["workers held to a part of a core"] = (
            f"needs root and the cpu controller of cgroup v1 at {CONTROLLER}"
        )
        tell([], peers=peers)
        return
    rates: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for workers, measured in rates.items():
            measured.append(rate(workers, stories))
    medians = {workers: statistics.median(measured) for workers, measured in rates.items()}
    rows = [
        {"workers": workers, "responses of a small local model, per second": medians[workers]}
        for workers in rates
    ]
    gained = target(
        f"responses of a small local model: two workers with {PART} of a core, relative to one",
        medians[2] / medians[1],
        LEAST_GAIN,
    )
    tell(
        [table("Throughput per second", rows, f"Medians of {rounds}; a worker has {PART} of a core.")],
        targets=[gained],
    )


if __name__ == "__main__":
    main()
