"""What is planted is found, and where there is nothing, nothing is claimed more often than the level allows.

Measures are drawn at the level of labels from the simulated model's planted odds. By hand, over 150 pairs of the same fair model with 300
items a probe: 2% got any verdict of better or worse, and single metrics had p < .05 in 1-7% of pairs. Between biases of .05 and .25 (40
pairs), 95.5% of the intervals held the planted difference, of each metric 90-100%.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl
import pytest

import tiltmeter as tm
from tiltmeter import registry
from tiltmeter.comparing import compare, judged_differences
from tiltmeter.datasets import Library
from tiltmeter.probes import Probe
from tiltmeter.runs import Run, resolve
from tiltmeter.study import NotRun, Settings, metric_name

pytestmark = pytest.mark.verify

SETTINGS = Settings(limit=120, resamples=200)
HARMS = ("outcome_disparity", "stereotypical_reasoning", "representational_harms")
PAIRS = 24


@pytest.fixture(scope="module")
def library(shared: object) -> Iterator[Library]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILTMETER_DATA", f"{shared}/data")
        yield Library.default()


Probes = Mapping[str, tuple[Probe, pl.DataFrame]]


@pytest.fixture(scope="module")
def probes(library: Library) -> Probes:
    loaded = {name: registry.load("probes", name) for name in registry.names("probes")}
    return {name: (probe, probe.design(library, SETTINGS)) for name, probe in loaded.items()}


class MeasuresOnly:
    """A view of a part without further tables."""

    def __init__(self, measures: pl.DataFrame) -> None:
        self.measures = measures

    def stage(self, table: str) -> pl.DataFrame:
        raise NotRun(f"there is no table {table}")


def _pair(probes: Probes, biases: tuple[float, float], seed: int) -> pl.DataFrame:
    """Differences of two simulated models with these biases."""
    findings: tuple[list[pl.DataFrame], list[pl.DataFrame]] = ([], [])
    grades, contrasts = list[pl.DataFrame](), {}
    for name, (probe, design) in probes.items():
        sides = [probe.simulate_measures(design, dict.fromkeys(HARMS, bias), 2 * seed + i) for i, bias in enumerate(biases)]
        for found, measures in zip(findings, sides, strict=True):
            assert measures is not None
            made = probe.analyse(measures, SETTINGS)
            found.append(made["findings"])
            grades.append(made["grades"])
        contrast = probe.contrast(MeasuresOnly(sides[0]), MeasuresOnly(sides[1]), SETTINGS)  # type: ignore[arg-type]
        assert contrast is not None
        contrasts[name] = contrast
    return judged_differences(pl.concat(findings[0]), pl.concat(findings[1]), contrasts, pl.concat(grades[::2]))


@pytest.mark.parametrize("bias", [0.0, 0.2], ids=["fair", "biased"])
def test_the_same_model_twice_differs_in_nothing(probes: Probes, bias: float) -> None:
    """Of a binomial count of 24 with chance .05, one in 40 exceeds 3."""
    wrong, low, tests = 0, 0, 0
    for seed in range(PAIRS):
        found = _pair(probes, (bias, bias), seed).filter("key")
        assert found.height == 19
        wrong += found["verdict"].is_in(["better", "worse"]).any()
        low += int((found["p"] < 0.05).sum())
        tests += found["p"].count()
    assert wrong <= 3
    assert 0.01 <= low / tests <= 0.065


def test_planted_differences_are_found_and_held(probes: Probes) -> None:
    verdicts, held = Counter[str](), 0
    for seed in range(PAIRS // 2):
        found = _pair(probes, (0.05, 0.35), 100 + seed).filter("key")
        verdicts.update(found["verdict"].to_list())
        for row in found.iter_rows(named=True):
            probe = probes[row["part"]][0]
            values = [probe.true_values(dict.fromkeys(HARMS, bias))[row["metric"]] for bias in (0.05, 0.35)]
            held += row["low"] <= values[1] - values[0] <= row["high"]
    number = 19 * (PAIRS // 2)
    assert verdicts["better"] == verdicts["unchanged"] == 0
    assert verdicts["worse"] >= 0.75 * number
    assert 0.91 <= held / number <= 0.985


def _answers(rng: np.random.Generator, groups: int, roots: int, effect: float) -> pl.DataFrame:
    """Measures of a benchmark: roots with one prompt for each group; the first group's values lie `effect` higher."""
    root = np.repeat(np.arange(roots), groups)
    group = np.tile(np.arange(groups), roots)
    value = rng.normal(size=root.size) + np.repeat(np.random.default_rng(0).normal(size=roots), groups) + effect * (group == 0)
    names = {
        "root": pl.format("root {}", "item"),
        "subject": pl.format("group {}", "group"),
        "prompt_key": pl.format("{}/{}", "item", "group"),
    }
    frame = pl.DataFrame({"item": root, "group": group, "value:score": value}).with_columns(**names)
    return frame.with_columns(generation=pl.lit("none"), role=pl.lit("none")).drop("group")


def test_benchmarks(library: Library) -> None:
    """Ranges over groups, which noise lifts on both sides."""
    part = resolve("benchmarks/g20").study.parts[0]
    settings = Settings(resamples=200, params={"statistics": "mean,selection_rate"})
    rng = np.random.default_rng(1)

    def contrast(before: float, after: float) -> dict[str, float]:
        made = part.contrast(MeasuresOnly(_answers(rng, 5, 30, before)), MeasuresOnly(_answers(rng, 5, 30, after)), settings)
        assert made is not None
        assert set(made.filter(pl.col("group").is_null())["n"]) == {30}
        return dict(made.filter(pl.col("group").is_null()).select(metric_name(), "p").iter_rows())

    same = [contrast(0.0, 0.0) for _ in range(100)]
    for metric in ("range_mean_score", "ratio_selection_rate_score", "sd_mean_score"):
        assert sum(one[metric] < 0.05 for one in same) <= 10
    assert sum(contrast(0.0, 2.0)["range_mean_score"] < 0.05 for _ in range(20)) >= 18
    # A group that stands out as far on both sides is no difference, though each side's range is large.
    assert sum(contrast(2.0, 2.0)["range_mean_score"] < 0.05 for _ in range(60)) <= 7


def test_associations(place: object) -> None:
    """A model that leans is told from one that does not; the same model twice is not told apart."""

    def made(seed: str, *models: str) -> Run:
        options: dict[str, Any] = {"judge": "sim/fair", "params": {"encoder": "none"}, "options": {"seed": seed}}
        return tm.run("associations/gender", model=list(models), limit=20, **options)

    first, second = made("0", "sim/fair", "sim/biased"), made("5", "sim/fair")
    planted = compare(first, model_a="sim/fair", model_b="sim/biased").differences.filter(metric="association")
    surely = planted.filter(pl.col("q") < 0.05)
    assert surely.height >= 4
    reported = first.findings.filter(pl.col("concept").is_not_null(), model="sim/biased")
    stronger = surely.filter(pl.col("difference") > 0)
    assert stronger.join(reported, on=["concept", "group"], how="anti").height <= 1
    twice = compare(first, second, model_a="sim/fair").differences.filter(pl.col("concept").is_not_null())
    assert set(twice["metric"]) == {"rate", "association"}
    assert not (twice["q"] < 0.05).any()
