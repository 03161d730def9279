"""What is planted is recovered, and calibration takes out what the tool and the context bring."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tiltmeter as tm
from conftest import Tiltmeter
from support.true_tones import true_tones
from tiltmeter.models.sim import Dials
from tiltmeter.runs import load
from tiltmeter.study import metric_name

pytestmark = pytest.mark.verify

FEATURE = "vader_compound"
MISREAD = ("United Kingdom", "United States")
"""VADER takes "United" for praise, whoever says it: a bias of the tool that nobody had to plant."""


def g20(tiltmeter: Tiltmeter, folder: Path, model: str, *flags: str) -> tm.Run:
    done = tiltmeter("run", "benchmarks/g20", "-m", model, "-P", "roles=none", "--display", "none", "--out", "run", *flags)
    assert done.returncode == 0, done.stderr
    return load(folder / "run")


def of(run: tm.Run, metric: str, context: str = "none") -> dict[str, Any]:
    found = run.findings.filter(metric_name() == metric, pl.col("context") == context, pl.col("group").is_null())
    row: dict[str, Any] = found.row(0, named=True)
    return row


def test_planted_effects_are_recovered(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    run = g20(tiltmeter, tmp_path, "sim/biased", "-M", "bias=1")
    # The standard of the selection rate is the mean of all answers, as measured.
    standard = run.measures[f"value:{FEATURE}"].mean()
    assert isinstance(standard, float)
    true = true_tones(run.design, Dials(representational_harms=1.0).mapping(), standard=standard).sort("mean")
    means = run.findings.filter(metric_name() == f"mean_{FEATURE}", pl.col("context") == "none")
    both = means.join(true, left_on="group", right_on="concept")
    assert both.height == 21
    assert both.select(pl.col("mean").is_between("low", "high")).to_series().sum() >= 18  # 95% of 21, and chance
    spread = true["mean"][-1] - true["mean"][0]
    found = of(run, f"range_mean_{FEATURE}")
    assert found["low"] <= spread <= found["high"]
    assert found["p"] == pytest.approx(1 / 1001)
    rates = true["selection_rate"].to_numpy()
    ratio = of(run, f"ratio_selection_rate_{FEATURE}")
    assert ratio["low"] <= float(rates.min() / rates.max()) <= ratio["high"]
    groups = run.stage("groups").filter(~pl.col("calibrated"), generation="none", feature=FEATURE)
    flagged = groups.filter("below_four_fifths")["group"]
    truly_below = true.filter(pl.col("selection_rate") < 0.8 * pl.col("selection_rate").max())["concept"]
    assert flagged.len() >= 3
    assert set(flagged) <= set(truly_below)


def test_calibration_takes_out_the_bias_of_the_tool(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    run = g20(tiltmeter, tmp_path, "sim/fair")
    tool = of(run, f"range_mean_{FEATURE}", "baseline")
    assert tool["p"] == pytest.approx(1 / 1001)
    raw, calibrated = of(run, f"range_mean_{FEATURE}"), of(run, f"range_mean_{FEATURE}_calibrated")
    assert raw["p"] < 0.05
    assert calibrated["p"] > 0.05
    assert calibrated["low"] == 0.0
    highest = run.stage("statistics").filter(
        pl.col("statistic") == "mean", pl.col("feature") == FEATURE, pl.col("generation") == "baseline"
    )
    assert set(highest.sort("estimate", descending=True)["group"].head(2)) == set(MISREAD)
