"""Diagnose the frame of the published experiment: 1,575 prompts in 21 groups, 105 columns.

Statistics and disparity alone: the three of the original's pipeline, and the thirteen that both compute
(correlations are left out: the peer's divide by what is not there). Then 1,000 permutations of every
statistic and comparison, paired within the roots. The same by `sagedbias` in its own interpreter; only its
diagnoser is loaded (the package as a whole wants spaCy and more).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from perf._tools import Peers, options, table, target, tell
from tiltmeter.stats import STATISTICS

GROUPS = 21
UNITS = 75
GENERATIONS = 20
FEATURES = ("sentiment", "regard", "toxicity", "openness", "distance")
# Our names, and the name and arguments of the same statistic in the peer.
PIPELINE = {
    "mean": ("mean", {}),
    "selection_rate": ("selection_rate", {}),
    "precision": ("precision", {"tolerance": 0.1}),
}
BOTH = PIPELINE | {
    **{
        name: (name, {})
        for name in (
            "median",
            "mode",
            "variance",
            "skewness",
            "kurtosis",
            "range",
            "quantile_range",
            "percentile_range",
        )
    },
    "sd": ("standard_deviation", {}),
    "kl": ("kl_divergence", {}),
}


def example_frame() -> tuple[pl.DataFrame, list[str]]:
    """Return the frame and its generations, including the baseline."""
    rng = np.random.default_rng(123)
    generations = ["baseline", *(f"g{number}" for number in range(GENERATIONS))]
    values = {
        f"{name}_{feature}": rng.beta(2, 2, GROUPS * UNITS) for name in generations for feature in FEATURES
    }
    groups = np.repeat([f"country {number}" for number in range(GROUPS)], UNITS)
    roots = np.tile(np.arange(UNITS), GROUPS)
    return pl.DataFrame({"concept": groups, "root": roots, **values}), generations


def ours(
    frame: pl.DataFrame, columns: list[str], statistics: tuple[str, ...], permutations: int
) -> dict[str, float]:
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
    return {
        "seconds": round(time.perf_counter() - begun, 3),
        "cpu_seconds": round(time.process_time() - worked, 3),
    }


def theirs(
    peers: Peers,
    frame: pl.DataFrame,
    generations: list[str],
    calls: Mapping[str, tuple[str, Mapping[str, float]]],
) -> float | None:
    """Return the seconds of `sagedbias` on the same frame, without those to read it."""
    answers = {name: pl.lit("answer") for name in generations[1:]}
    factors = {"domain": "countries", "prompts": "?", "source_tag": "s", "baseline": "b"}
    constant = {name: pl.lit(value) for name, value in factors.items()}
    table_ = frame.rename({"concept": "category"}).with_columns(
        pl.col("category").alias("keyword"), **constant, **answers
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "frame.csv"
        table_.write_csv(path)
        task = {
            "frame": str(path),
            "generations": generations[1:],
            "features": FEATURES,
            "calls": list(calls.values()),
        }
        outcome = peers.ask("sagedbias", "on_sagedbias.py", task)
    return None if outcome is None else float(outcome.reported["seconds"])


def main() -> None:
    arguments = options(__doc__).parse_args()
    peers = Peers(arguments.peer)
    frame, generations = example_frame()
    if arguments.quick:
        frame = frame.group_by("concept", maintain_order=True).head(10)
    columns = [column for column in frame.columns if column not in ("concept", "root")]
    ours(frame, columns[:2], tuple(BOTH), 0)  # imports
    rows, targets = [], []
    for name, calls in (("the pipeline's statistics", PIPELINE), ("the statistics of both", BOTH)):
        point = min(
            (ours(frame, columns, tuple(calls), 0) for _ in range(5)),
            key=lambda measured: measured["seconds"],
        )
        peer = theirs(peers, frame, generations, calls)
        ratio = None if peer is None else peer / point["seconds"]
        row = {
            "what": f"{name}, and disparities",
            "statistics": len(calls),
            **point,
            "sagedbias, seconds": peer,
            "speedup": ratio,
        }
        rows.append(row)
        targets.append(target(f"diagnosis with {name}, relative to sagedbias", ratio, 100.0))
    resampled = ours(frame, columns, tuple(STATISTICS), 10 if arguments.quick else 1000)
    rows.append(
        {
            "what": "1,000 permutations of all of these",
            "statistics": len(STATISTICS),
            **resampled,
            "sagedbias, seconds": None,
            "speedup": None,
        }
    )
    shape = f"{frame.height:,} prompts in {GROUPS} groups, {len(columns)} columns"
    note = (
        f"{shape}. `seconds` is wall-clock time; Tiltmeter uses every core, and `cpu_seconds` is the sum "
        f"over cores."
    )
    tell([table("Seconds to diagnose the data frame", rows, note)], targets=targets, peers=peers)


if __name__ == "__main__":
    main()
