"""Diagnose the frame of the published experiment: 1,575 prompts in 21 groups, 105 columns. Prints JSON.

Statistics and disparity alone: the three of the original's pipeline, and the thirteen that both compute (correlations are left out: the
peer's divide by what is not there). Then 1,000 permutations of every statistic and comparison, paired within the roots. With `--peer` the
same by `sagedbias` in its own interpreter; only its diagnoser is loaded (the package as a whole wants spaCy and more):

    python -m venv peer && peer/bin/pip install pandas scipy plotly tqdm && peer/bin/pip install --no-deps sagedbias==0.0.13
    python perf/benchmarks.py --peer peer/bin/python
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

GROUPS, UNITS, GENERATIONS = 21, 75, 20
FEATURES = ("sentiment", "regard", "toxicity", "openness", "distance")
# Our names, and how the peer is asked for the same.
PIPELINE = {"mean": ("mean", {}), "selection_rate": ("selection_rate", {}), "precision": ("precision", {"tolerance": 0.1})}
BOTH = PIPELINE | {
    **{name: (name, {}) for name in ("median", "mode", "variance", "skewness", "kurtosis", "range", "quantile_range", "percentile_range")},
    "sd": ("standard_deviation", {}),
    "kl": ("kl_divergence", {}),
}

PEER = """
import contextlib, importlib, io, json, sys, time
from pathlib import Path
from types import ModuleType
import pandas as pd
package = ModuleType("saged")
package.__path__ = [str(Path(folder) / "saged") for folder in sys.path if (Path(folder) / "saged").is_dir()]
sys.modules["saged"] = package
diagnoser = importlib.import_module("saged._diagnoser").DisparityDiagnoser
frame = pd.read_csv(sys.argv[1])
generations, features, calls = json.loads(sys.argv[2])
begun = time.perf_counter()
with contextlib.redirect_stdout(io.StringIO()):
    peer = diagnoser(frame, features=features, generations=generations, target_groups=None, group_type="category")
    for name, options in calls:
        getattr(peer, name)(**options)
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


def theirs(python: Path, frame: pl.DataFrame, generations: list[str], calls: Mapping[str, tuple[str, Mapping[str, float]]]) -> float:
    """Seconds of `sagedbias` on the same frame, reading it not counted."""
    table = frame.rename({"concept": "category"}).with_columns(
        pl.col("category").alias("keyword"), domain=pl.lit("countries"), prompts=pl.lit("?"), source_tag=pl.lit("s"), baseline=pl.lit("b"),
        **{name: pl.lit("answer") for name in generations[1:]},
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "frame.csv"
        table.write_csv(path)
        asked = json.dumps([generations[1:], list(FEATURES), list(calls.values())])
        told = subprocess.run([python, "-W", "ignore", "-c", PEER, path, asked], check=True, capture_output=True, text=True)
    return float(told.stdout.split()[-1])


def main() -> None:
    from tiltmeter.stats.summary import STATISTICS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=Path, help="a Python that has sagedbias")
    options = parser.parse_args()
    frame, generations = made()
    columns = [column for column in frame.columns if column not in ("concept", "root")]
    ours(frame, columns[:2], tuple(BOTH), 0)  # imports
    for name, calls in (("the pipeline's statistics", PIPELINE), ("the statistics of both", BOTH)):
        point = min((ours(frame, columns, tuple(calls), 0) for _ in range(5)), key=lambda measured: measured["seconds"])
        print(json.dumps({"step": f"{name} and disparity", "statistics": len(calls), **point}), flush=True)
        if options.peer:
            seconds = theirs(options.peer, frame, generations, calls)
            print(json.dumps({"step": "sagedbias", "seconds": round(seconds, 3), "times_faster": round(seconds / point["seconds"], 1)}))
    print(json.dumps({"step": "1,000 permutations of everything", **ours(frame, columns, tuple(STATISTICS), 1000)}))


if __name__ == "__main__":
    main()
