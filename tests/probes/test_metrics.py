"""Under the original definition every metric, interval and mark equals the original's, for recorded and for synthetic answers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from probes.conftest import WITH_GOLDEN, Analysed, Designs, Golden, Measured, Synthetic, original_name
from tiltmeter.blocks import MARKS
from tiltmeter.errors import InputError
from tiltmeter.probes import DEFINITIONS, Probe
from tiltmeter.probes.listing import PROBES
from tiltmeter.study import Settings

SYNTHETIC = (
    "diversity_med_qa",
    "dreaddit",
    "hiring_bloomberg",
    "inventories",
    "jobs_lum",
    "relationship_levy",
)


def check(problems: dict[str, dict[str, Any]], expected: dict[str, Any]) -> None:
    assert problems.keys() == expected["metrics_point"].keys()
    for name, value in expected["metrics_point"].items():
        assert problems[name]["estimate"] == pytest.approx(value, abs=1e-9), name
    for name, (low, high) in expected["metrics_ci"].items():
        assert (problems[name]["low"], problems[name]["high"]) == pytest.approx((low, high), abs=1e-6), name
    marks = {name: MARKS[value] for name, value in expected["marks_ci"].items()}
    assert {name: row["mark"] for name, row in problems.items() if row["mark"]} == marks


def check_point_marks(probe: Probe, expected: dict[str, Any]) -> None:
    """The tier of the point estimate: the first whose stretch holds it."""
    for name, value in expected["marks_point"].items():
        bands = next(
            DEFINITIONS["genderbench"].bands(metric) for metric in probe.metrics if metric.name == name
        )
        estimate = expected["metrics_point"][name]
        reached = {band.mark for band in bands if band.low <= estimate <= band.high}
        assert min(reached, key=MARKS.index) == MARKS[value], name


@pytest.mark.parametrize("probe", WITH_GOLDEN)
def test_recorded_answers(
    probe: str, shared: Path, golden: Golden, measured: Measured, analysed: Analysed
) -> None:
    path = shared / "golden" / "genderbench" / "metrics" / f"{original_name(probe)}.json"
    expected = json.loads(path.read_text(encoding="utf-8"))
    for marks in ("marks_point", "marks_ci"):
        expected[marks] = {name: mark["mark_value"] for name, mark in expected[marks].items()}
    check(analysed(probe, measured(probe, golden(probe)["answer"])), expected)
    check_point_marks(PROBES.load(probe), expected)


@pytest.mark.parametrize("probe", SYNTHETIC)
def test_synthetic_answers(
    probe: str, designs: Designs, synthetic: Synthetic, measured: Measured, analysed: Analysed
) -> None:
    expected = json.loads((Path(__file__).parent / "original_metrics.json").read_text(encoding="utf-8"))[
        probe
    ]
    check(analysed(probe, measured(probe, synthetic(probe, designs(probe)))), expected)
    check_point_marks(PROBES.load(probe), expected)


def silent(probe: str, designs: Designs, measured: Measured, analysed: Analysed) -> dict[str, dict[str, Any]]:
    return analysed(probe, measured(probe, pl.repeat("", designs(probe).height, eager=True)), resamples=20)


@pytest.mark.parametrize("probe", ["direct", "gest_creative", "hiring_an", "jobs_lum"])
def test_a_model_that_never_answers_has_no_marks_there_either(
    probe: str, designs: Designs, measured: Measured, analysed: Analysed
) -> None:
    found = silent(probe, designs, measured, analysed)
    assert {row["mark"] for row in found.values() if row["bands"]} == {"ungraded"}
    assert found["undetected_rate_attempts"]["estimate"] == 1


@pytest.mark.parametrize("probe", ["isear", "business_vocabulary"])
def test_two_probes_of_the_original_call_silence_healthy(
    probe: str, designs: Designs, measured: Measured, analysed: Analysed
) -> None:
    (graded,) = (row for row in silent(probe, designs, measured, analysed).values() if row["bands"])
    assert (graded["estimate"], graded["mark"]) == (0, "healthy")


def test_the_original_needs_three_items_for_a_slope_of_hiring(
    measured: Measured, analysed: Analysed, designs: Designs
) -> None:
    measures = measured(
        "hiring_an", pl.repeat("You have been selected", designs("hiring_an").height, eager=True)
    )
    few = measures.filter(pl.col("item") < 6)
    men = (few["gender"] == "male").sum()
    analysed_tables = analysed("hiring_an", few, resamples=5)
    for gender, count in (("male", men), ("female", 6 - men)):
        slope = analysed_tables[f"{gender}_regression"]["estimate"]
        assert (slope is None or math.isnan(slope)) == (count < 3)


def test_unknown_definition(designs: Designs) -> None:
    with pytest.raises(
        InputError, match="unknown definition 'paper' for probes: known: default, genderbench"
    ):
        PROBES.load("direct").analyse(designs("direct"), Settings(definition="paper"))
