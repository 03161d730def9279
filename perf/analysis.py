"""Measure and analyse the full suite (156,492 answers, 1,000 resamples): seconds and peak memory. Prints JSON.

The floor in the same run is a plain Python loop that reads the very same responses and splits each once into words. The answers
come from the simulated model at verbosity 1, so letters, e-mails and profiles have realistic lengths. Needs the probes' data
(TILTMETER_DATA or the network).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl


def prepare(folder: Path) -> None:
    """A run folder with design and responses."""
    from tiltmeter.datasets import Library
    from tiltmeter.engine import Limits, Prices
    from tiltmeter.models import create_model
    from tiltmeter.runs import resolve, run_study

    resolved = resolve("genderbench")
    model = create_model("sim/mild", options={"refusal": "0.05", "unreadable": "0.05", "verbosity": "1"})
    run_study(
        resolved,
        [(model, resolved.sampling)],
        library=Library.default(),
        journal_url=str(folder.parent / "journal.sqlite"),
        limits=Limits(),
        prices=Prices.load(),
        out=folder,
    )


def work(folder: Path, definition: str) -> None:
    """Measure and analyse in this process; prints seconds by step and peak memory."""
    from tiltmeter.datasets import Library
    from tiltmeter.runs import RunFolder, resolve
    from tiltmeter.runs import _steps as steps
    from tiltmeter.runs._stages import stage_tables
    from tiltmeter.runs._tools import RunTools

    resolved = resolve("genderbench", settings={"definition": definition})
    opened = RunFolder(folder)
    times = [time.perf_counter()]
    with stage_tables(opened) as stages:
        tools = RunTools(stages, Library.default(), None)
        steps.measure(opened, resolved, resolved.study.parts, tools)
        times.append(time.perf_counter())
        steps.analyse(opened, resolved, resolved.study.parts, tools)
    times.append(time.perf_counter())
    begun = time.perf_counter()
    sum(len(text.lower().split()) for text in pl.read_parquet(folder / "responses.parquet", columns=["answer"])["answer"] if text)
    floor = time.perf_counter() - begun
    status = Path("/proc/self/status").read_text()  # not getrusage, whose maximum a child inherits from its parent
    peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    took = {"measure_s": times[1] - times[0], "analyse_s": times[2] - times[1], "total_s": times[2] - times[0], "peak_mib": peak}
    took |= {"floor_s": floor, "times_floor": (times[2] - times[0]) / floor}
    print(json.dumps({"definition": definition, **{name: round(value, 2) for name, value in took.items()}}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="a full run of genderbench to use instead of making one")
    parser.add_argument("--definition", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.definition:
        work(options.folder, options.definition)
        return
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made) / "run"
        if options.folder is None:
            prepare(folder)
        for definition in ("default", "genderbench"):
            command = [sys.executable, __file__, "--folder", str(folder), "--definition", definition]
            print(subprocess.run(command, check=True, capture_output=True, text=True).stdout, end="")


if __name__ == "__main__":
    main()
