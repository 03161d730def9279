"""Measure and analyse the full suite (156,492 answers, 1,000 resamples): seconds and peak memory.

The floor in the same run is a plain Python loop that reads the very same responses and splits each once into
words. The answers come from the simulated model at verbosity 1, so letters, e-mails and profiles have
realistic lengths. Needs the probes' data (TILTMETER_DATA or the network).
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path

import polars as pl

from perf._tools import fresh, options, peak_mib, table, tell


def prepare(folder: Path, limit: str) -> None:
    """A run folder with design and responses."""
    import tiltmeter as tm

    options = {"refusal": "0.05", "unreadable": "0.05", "verbosity": "1"}
    journal = folder.parent / "journal.sqlite"
    tm.run(
        "genderbench",
        model="sim/mild",
        options=options,
        limit=limit,
        journal=journal,
        out=folder,
        display="none",
    )


def work(folder: Path, definition: str) -> None:
    """Measure and analyse in this process; prints seconds by step and peak memory."""
    from tiltmeter.datasets import Library
    from tiltmeter.runs import RunFolder, resolve
    from tiltmeter.runs._asking import RunTools
    from tiltmeter.runs._clock import Clock
    from tiltmeter.runs._pipeline import Pipeline

    resolved = resolve("genderbench", settings={"definition": definition})
    opened = RunFolder(folder)
    shutil.rmtree(folder / "stages", ignore_errors=True)
    clock = Clock()
    pipeline = Pipeline(opened, resolved, resolved.study.parts, RunTools(Library.default()), clock)
    pipeline.carry_out()
    measuring = clock.seconds["measures"]
    total = sum(clock.seconds.values())
    begun = time.perf_counter()
    sum(
        len(text.lower().split())
        for text in pl.read_parquet(folder / "responses.parquet", columns=["answer"])["answer"]
        if text
    )
    floor = time.perf_counter() - begun
    took = {"measure_s": measuring, "analyse_s": total - measuring, "total_s": total, "peak_mib": peak_mib()}
    took |= {"floor_s": floor, "times_floor": total / floor}
    print(json.dumps({"definition": definition, **{name: round(value, 2) for name, value in took.items()}}))


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--folder", type=Path, help="a full run of genderbench to use instead of making one")
    parser.add_argument("--definition", help="one measurement, in this process")
    arguments = parser.parse_args()
    if arguments.definition:
        work(arguments.folder, arguments.definition)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary) / "run"
        if arguments.folder is None:
            prepare(folder, "20" if arguments.quick else "full")
        rows = [
            fresh("analysis", "--folder", folder, "--definition", definition)
            for definition in ("default", "genderbench")
        ]
    tell(
        [
            table(
                "Seconds to measure and analyse",
                rows,
                "`floor_s` is the time to read the same responses and split each into words once.",
            )
        ]
    )


if __name__ == "__main__":
    main()
