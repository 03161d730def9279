"""Diagnose the frame of the published experiment: 1,575 prompts in 21 groups, 105 columns. Prints JSON.

Statistics and disparity alone (what `sagedbias` computes), and 1,000 permutations of every statistic and comparison, paired within the
roots. With `--peer` the same mean, selection rate and precision with their disparity by `sagedbias`, in its own interpreter, since it
needs an older NumPy:

    python -m venv peer && peer/bin/pip install sagedbias plotly && python perf/benchmarks.py --peer peer/bin/python
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

GROUPS, UNITS, GENERATIONS = 21, 75, 20
FEATURES = ("sentiment", "regard", "toxicity", "openness", "distance")
SHARED = ("mean", "selection_rate", "precision")  # the statistics of the original's pipeline

PEER = """
import json, sys, time
import pandas as pd
from saged import DisparityDiagnoser
frame = pd.read_csv(sys.argv[1])
generations, features = json.loads(sys.argv[2])
begun = time.perf_counter()
peer = DisparityDiagnoser(frame, features=features, generations=generations, target_groups=None, group_type="category")
peer.mean()
peer.selection_rate()
peer.precision(tolerance=0.1)
peer.statistics_disparity()
print(time.perf_counter() - begun)
"""


def made() -> tuple[pl.DataFrame, list[str]]:
    """The frame and its generations, the baseline among them."""
    rng = np.random.default_rng(123)
    generations = ["baseline", *(f"g{number}" for number in range(GENERATIONS))]
    values = {f"{name}_{feature}": rng.beta(2, 2, GROUPS * UNITS) for name in generations for feature in FEATURES}
    groups = np.repeat([f"country {number}" for number in range(GROUPS)], UNITS)
    roots = np.tile(np.arange(UNITS), GROUPS)
    return pl.DataFrame({"concept": groups, "root": roots, **values}), generations


def ours(frame: pl.DataFrame, columns: list[str], statistics: tuple[str, ...], permutations: int) -> dict[str, float]:
    from tiltmeter.benchmarks.diagnosis import diagnose

    begun, worked = time.perf_counter(), time.process_time()
    diagnose(
        frame,
        groups=["concept"],
        columns=columns,
        baselines={column: "baseline_" + column.partition("_")[2] for column in columns},
        unit="root",
        statistics=statistics,
        resamples=0,
        permutations=permutations,
    )
    return {"seconds": round(time.perf_counter() - begun, 3), "cpu_seconds": round(time.process_time() - worked, 3)}


def theirs(python: Path, frame: pl.DataFrame, generations: list[str]) -> float:
    """Seconds of `sagedbias` on the same frame, reading it not counted."""
    table = frame.rename({"concept": "category"}).with_columns(
        pl.col("category").alias("keyword"), domain=pl.lit("countries"), prompts=pl.lit("?"), source_tag=pl.lit("s"), baseline=pl.lit("b"),
        **{name: pl.lit("answer") for name in generations[1:]},
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "frame.csv"
        table.write_csv(path)
        asked = json.dumps([generations[1:], list(FEATURES)])
        told = subprocess.run([python, "-W", "ignore", "-c", PEER, path, asked], check=True, capture_output=True, text=True)
    return float(told.stdout.split()[-1])


def main() -> None:
    from tiltmeter.stats.summary import STATISTICS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=Path, help="a Python that has sagedbias")
    options = parser.parse_args()
    frame, generations = made()
    columns = [column for column in frame.columns if column not in ("concept", "root")]
    ours(frame, columns[:2], SHARED, 0)  # imports
    point = ours(frame, columns, SHARED, 0)
    print(json.dumps({"step": "statistics and disparity", **point}))
    print(json.dumps({"step": "1,000 permutations of everything", **ours(frame, columns, tuple(STATISTICS), 1000)}))
    if options.peer:
        seconds = theirs(options.peer, frame, generations)
        print(json.dumps({"step": "sagedbias", "seconds": round(seconds, 3), "times_faster": round(seconds / point["seconds"], 1)}))


if __name__ == "__main__":
    main()
