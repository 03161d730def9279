"""What is planted in the simulated model for benchmarks is what its answers show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from support.true_tones import true_tones
from tiltmeter.benchmarks._branching import branch
from tiltmeter.benchmarks._builtin import NAMES, builtin
from tiltmeter.benchmarks._options import Configurations
from tiltmeter.benchmarks._parts import make_design
from tiltmeter.benchmarks._simulation import LEANS, SHIFTS, lean_of, planted_tones
from tiltmeter.models import Message
from tiltmeter.models.sim import TONES, Dials, SimulatedModel
from tiltmeter.study import Settings

pytestmark = pytest.mark.verify


ANALYSER = SentimentIntensityAnalyzer()


def dials_of(harms: float = 0.0) -> Mapping[str, float]:
    return Dials(representational_harms=harms).mapping()


@cache
def design_of(name: str, roles: int = 5) -> pl.DataFrame:
    """Every prompt of a built-in study in every role, as its design has it."""
    study = builtin(name)
    table = study.benchmark
    if study.replacements is not None:
        table = branch(table, study.replacements, counterfactual_baseline=True).benchmark
    templates = {name: dict.fromkeys(table["kind"].unique(), text) for name, text in study.templates.items()}
    chosen = dict(list(study.roles.items())[:roles])
    return make_design(table, Configurations(chosen, templates), Settings(), name)


def answered(design: pl.DataFrame, dials: Dials) -> pl.DataFrame:
    """The design with what the simulated model says to it, and the compound sentiment."""
    model = SimulatedModel("sim/test", dials)
    model.learn(planted_tones(design, dials.mapping()))
    sentences = [
        model.reply(
            [*([Message("system", system)] if system is not None else []), Message("user", prompt)]
        ).text
        or ""
        for prompt, system in design.select("prompt", "system").iter_rows()
    ]
    scores = {text: ANALYSER.polarity_scores(text)["compound"] for text in set(sentences)}
    return design.with_columns(compound=pl.Series([scores[text] for text in sentences]))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("verbosity", [0, 1])
def test_answers_have_the_true_means_and_selection_rates(name: str, verbosity: int) -> None:
    dials = Dials(representational_harms=0.9, verbosity=verbosity)
    design = design_of(name)
    expected = true_tones(design, dials.mapping())
    mean_tone, rate = pl.col("compound").mean(), (pl.col("compound") >= expected["standard"][0]).mean()
    means = (
        answered(design, dials)
        .group_by("concept")
        .agg(pl.len(), seen=mean_tone, rate=rate)
        .join(expected, on="concept")
    )
    error, true_rate = pl.col("deviation") / pl.col("len").sqrt(), pl.col("selection_rate")
    rate_error = (true_rate * (1 - true_rate) / pl.col("len")).sqrt()
    z = {"z": (pl.col("seen") - pl.col("mean")) / error, "rate_z": (pl.col("rate") - true_rate) / rate_error}
    errors = means.with_columns(error=error, **z)
    assert errors["len"].to_list() == errors["answers"].to_list()
    for column in ("z", "rate_z"):
        assert errors[column].abs().max() < 4.5  # type: ignore[operator]
        assert abs((errors[column] ** 2).sum() - errors.height) < 5 * np.sqrt(2 * errors.height)
    # The truth is far from "no difference" at this strength, so agreement with it means something.
    flat = ((errors["seen"] - errors["seen"].mean()) / errors["error"]) ** 2
    assert flat.sum() > errors.height + 10 * np.sqrt(2 * errors.height)


@pytest.mark.parametrize("name", NAMES)
def test_truth_follows_the_leans(name: str) -> None:
    tones = true_tones(design_of(name, roles=1), dials_of(0.25), score=_tone)
    # Tones as 1, 0, -1: mean = 2 b lean; between the extremes of a study lies the dial itself.
    assert np.allclose(tones["mean"], [2 * 0.25 * lean_of(concept) for concept in tones["concept"]])
    assert tones["mean"].max() - tones["mean"].min() == pytest.approx(0.25)  # type: ignore[operator]


def _tone(texts: Sequence[str]) -> NDArray[np.float64]:
    """Return the sign by a lexicon, without names that the lexicon knows as words ("United")."""
    scores = np.array([ANALYSER.polarity_scores(text.replace("United", ""))["compound"] for text in texts])
    return np.where(np.abs(scores) < 0.05, 0.0, np.sign(scores))


@pytest.mark.parametrize("name", NAMES)
def test_bias_zero_plants_nothing(name: str) -> None:
    design = design_of(name)
    assert np.allclose(planted_tones(design, dials_of())["odds"].to_list(), 1 / 3)
    tones = true_tones(design, dials_of(), by=("concept", "role"), score=_tone)
    assert np.allclose(tones["mean"], 0.0)
    assert np.allclose(tones["selection_rate"], tones["selection_rate"][0])


def test_a_lexicon_reads_some_names_as_words_and_truth_says_so() -> None:
    tones = true_tones(design_of("g20", roles=1), dials_of())
    united = {"United Kingdom", "United States"}
    level = tones.filter(~pl.col("concept").is_in(united))["mean"]
    assert level.n_unique() == 1
    assert tones.filter(pl.col("concept").is_in(united))["mean"].min() > level[0] + 0.05


def test_roles_shift_all_concepts_alike() -> None:
    tones = true_tones(design_of("g20"), dials_of(0.5), by=("concept", "role"), score=_tone)
    wide = tones.pivot("role", index="concept", values="mean")
    shifts = [wide[role] - wide["none"] for role in wide.columns if role not in ("concept", "none")]
    assert all(np.allclose(shift, shift[0]) for shift in shifts)
    assert len({round(shift[0], 9) for shift in shifts}) >= 2


def test_odds_stay_within_bounds_and_sum_to_one() -> None:
    assert max(LEANS) + max(SHIFTS) <= 1 / 3
    assert min(LEANS) + min(SHIFTS) >= -1 / 3
    for name in NAMES:
        key = planted_tones(design_of(name), dials_of(1.0))
        odds = np.array(key["odds"].to_list())
        assert odds.min() >= -1e-12
        assert np.allclose(odds.sum(axis=1), 1)
        assert key["outcomes"].list.join(" ").unique().to_list() == [" ".join(TONES)]


def test_the_lean_of_a_concept_does_not_depend_on_the_rest_of_a_benchmark() -> None:
    dials = dials_of(0.3)
    full_design = design_of("g20")
    sampled = full_design.sample(fraction=0.1, seed=3)
    both = planted_tones(full_design, dials).join(
        planted_tones(sampled, dials), on=["prompt", "system"], nulls_equal=True
    )
    assert both.height == sampled.height
    assert (both["odds"] == both["odds_right"]).all()


def test_rows_that_ask_the_very_same_have_the_same_odds() -> None:
    rows = {
        "prompt": ["What happens here?"] * 2,
        "system": [None, None],
        "role": ["none"] * 2,
        "repetitions": [1, 1],
    }
    design = pl.DataFrame(
        {**rows, "concept": ["Canada", "Argentina"]}, schema_overrides={"system": pl.String}
    )
    assert lean_of("Canada") != lean_of("Argentina")
    odds = planted_tones(design, dials_of(1.0))["odds"].to_list()
    lean = (lean_of("Canada") + lean_of("Argentina")) / 2
    assert odds[0] == odds[1] == pytest.approx([1 / 3 + lean, 1 / 3, 1 / 3 - lean])


def test_truth_at_a_standard_of_ones_own() -> None:
    design = design_of("religions", roles=1)
    every = true_tones(design, dials_of(0.25), standard=-1.0)
    none = true_tones(design, dials_of(0.25), standard=1.1)
    assert every["selection_rate"].to_list() == [pytest.approx(1.0)] * 6
    assert none["selection_rate"].to_list() == [0.0] * 6
    assert every["mean"].to_list() == none["mean"].to_list()


def test_calibration_takes_most_of_what_a_lexicon_reads_into_names() -> None:
    design = design_of("g20", roles=1)
    baselines = {text: ANALYSER.polarity_scores(text)["compound"] for text in design["baseline"].unique()}
    expected = design.group_by("concept").agg(baseline=pl.col("baseline").replace_strict(baselines).mean())
    estimates = (
        true_tones(design, dials_of())
        .join(expected, on="concept")
        .with_columns(calibrated=pl.col("mean") - pl.col("baseline"))
    )
    raw = np.ptp(estimates["mean"].to_numpy())
    calibrated = np.ptp(estimates["calibrated"].to_numpy())
    assert raw > 0.2
    assert calibrated < raw / 5
