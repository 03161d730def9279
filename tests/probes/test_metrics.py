"""Under the original definition every metric, interval and mark equals the original's."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tiltmeter as tm
from probes.conftest import WITH_GOLDEN, Analysed, Designs, Golden, Measured, Synthetic, original_name
from tiltmeter.associations._definitions import PAPER
from tiltmeter.blocks import MARKS
from tiltmeter.errors import InputError
from tiltmeter.probes import Probe
from tiltmeter.probes._definitions import GENDERBENCH
from tiltmeter.probes._listing import PROBES
from tiltmeter.study import Settings

SYNTHETIC = (
    "diversity_med_qa",
    "dreaddit",
    "hiring_bloomberg",
    "inventories",
    "jobs_lum",
    "relationship_levy",
)


def check(findings: dict[str, dict[str, Any]], expected: dict[str, Any]) -> None:
    assert findings.keys() == expected["metrics_point"].keys()
    for name, value in expected["metrics_point"].items():
        assert findings[name]["estimate"] == pytest.approx(value, abs=1e-9), name
    for name, (low, high) in expected["metrics_ci"].items():
        assert (findings[name]["low"], findings[name]["high"]) == pytest.approx((low, high), abs=1e-6), name
    marks = {name: MARKS[value] for name, value in expected["marks_ci"].items()}
    assert {name: row["mark"] for name, row in findings.items() if row["mark"]} == marks


def check_point_marks(probe: Probe, expected: dict[str, Any]) -> None:
    """Check the tier of the point estimate: the first whose range contains it."""
    for name, value in expected["marks_point"].items():
        bands = next(GENDERBENCH.bands(metric) for metric in probe.metrics if metric.name == name)
        estimate = expected["metrics_point"][name]
        reached = {band.mark for band in bands if band.low <= estimate <= band.high}
        assert min(reached, key=MARKS.index) == MARKS[value], name


@pytest.mark.parametrize("probe", WITH_GOLDEN)
def test_metrics_of_recorded_answers_equal_those_of_the_original(
    probe: str, shared: Path, golden: Golden, measured: Measured, analysed: Analysed
) -> None:
    path = shared / "golden" / "genderbench" / "metrics" / f"{original_name(probe)}.json"
    expected = json.loads(path.read_text(encoding="utf-8"))
    for marks in ("marks_point", "marks_ci"):
        expected[marks] = {name: mark["mark_value"] for name, mark in expected[marks].items()}
    check(analysed(probe, measured(probe, golden(probe)["answer"])), expected)
    check_point_marks(PROBES.load(probe), expected)


@pytest.mark.parametrize("probe", SYNTHETIC)
def test_metrics_of_synthetic_answers_equal_those_of_the_original(
    probe: str, designs: Designs, synthetic: Synthetic, measured: Measured, analysed: Analysed
) -> None:
    expected = json.loads((Path(__file__).parent / "original_metrics.json").read_text(encoding="utf-8"))[
        probe
    ]
    check(analysed(probe, measured(probe, synthetic(probe, designs(probe)))), expected)
    check_point_marks(PROBES.load(probe), expected)


def findings_of_silence(
    probe: str, designs: Designs, measured: Measured, analysed: Analysed
) -> dict[str, dict[str, Any]]:
    return analysed(probe, measured(probe, pl.repeat("", designs(probe).height, eager=True)), resamples=20)


@pytest.mark.parametrize("probe", ["direct", "gest_creative", "hiring_an", "jobs_lum"])
def test_a_model_that_never_answers_has_no_marks_under_the_original_definition_either(
    probe: str, designs: Designs, measured: Measured, analysed: Analysed
) -> None:
    findings = findings_of_silence(probe, designs, measured, analysed)
    assert {row["mark"] for row in findings.values() if row["bands"]} == {"ungraded"}
    assert findings["undetected_rate_attempts"]["estimate"] == 1


@pytest.mark.parametrize("probe", ["isear", "business_vocabulary"])
def test_two_probes_of_the_original_call_silence_healthy(
    probe: str, designs: Designs, measured: Measured, analysed: Analysed
) -> None:
    findings = findings_of_silence(probe, designs, measured, analysed)
    [graded] = [row for row in findings.values() if row["bands"]]
    assert (graded["estimate"], graded["mark"]) == (0, "healthy")


def test_the_original_needs_three_items_for_a_slope_of_hiring(
    measured: Measured, analysed: Analysed, designs: Designs
) -> None:
    measures = measured(
        "hiring_an", pl.repeat("You have been selected", designs("hiring_an").height, eager=True)
    )
    few = measures.filter(pl.col("item") < 6)
    men = (few["gender"] == "male").sum()
    findings = analysed("hiring_an", few, resamples=5)
    for gender, count in (("male", men), ("female", 6 - men)):
        slope = findings[f"{gender}_regression"]["estimate"]
        assert (slope is None or math.isnan(slope)) == (count < 3)


def test_a_definition_of_another_method_is_refused(designs: Designs) -> None:
    with pytest.raises(InputError, match="unknown definition 'paper' of probes: known: default, genderbench"):
        tm.plan("genderbench/direct", definition="paper")
    with pytest.raises(InputError, match="expected a definition of the class ProbeDefinition"):
        PROBES.load("direct").analyse(designs("direct"), Settings(definition=PAPER))
