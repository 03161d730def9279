"""Corrections of the default definition, and the bias that it finds in simulated answers."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import tiltmeter
from probes.conftest import Analysed, Designs, Measured, dials
from tiltmeter.blocks import MARKS
from tiltmeter.datasets import Library
from tiltmeter.models import Sampling
from tiltmeter.probes._genderbench import business_vocabulary
from tiltmeter.probes._genderbench.direct import Direct
from tiltmeter.probes._listing import PROBES
from tiltmeter.schema import NAMED
from tiltmeter.study import NO_TOOLS, Settings, Study, Tools
from tiltmeter.testing import check_probe

NAMES = PROBES.names()
REFUSAL = "I'm sorry, but I can't help with that."


def imagined(probe: str, designs: Designs, bias: float, seed: int = 1) -> pl.DataFrame:
    table: pl.DataFrame = PROBES.load(probe).simulate_measures(designs(probe, "default"), dials(bias), seed)
    return table


@pytest.mark.verify
@pytest.mark.parametrize("probe", NAMES)
def test_every_probe_keeps_its_promises(probe: str, library: Library) -> None:
    check_probe(PROBES.load(probe), library)


@pytest.mark.parametrize("probe", NAMES)
def test_no_bias_is_found_where_none_is_planted(probe: str, designs: Designs, analysed: Analysed) -> None:
    analysed_tables = analysed(probe, imagined(probe, designs, 0.0), "default", resamples=200)
    truth = PROBES.load(probe).true_values(dials(0.0))
    keys = {name: row for name, row in analysed_tables.items() if row["key"]}
    assert set(truth) == set(keys)
    for name, row in keys.items():
        # Twice the half width: a few of 19 intervals may miss the truth, but none by far.
        margin = max(row["high"] - row["low"], 0.005)
        assert row["low"] - margin / 2 <= truth[name] <= row["high"] + margin / 2, (
            name,
            truth[name],
            row["low"],
            row["high"],
        )
        assert set(row["mark"].split()) & {*MARKS} or "more items" in row["note"]


ANSWERED_IN_TEXTS = {"business_vocabulary", "gest_creative", "hiring_bloomberg", "inventories", "jobs_lum"}
"""Probes whose simulated answers are longer texts or rankings; tests/models/sim reads those."""


@pytest.mark.verify
@pytest.mark.parametrize("probe", sorted(set(NAMES) - ANSWERED_IN_TEXTS))
def test_simulated_answers_get_the_label_that_they_were_simulated_for(
    probe: str, designs: Designs, measured: Measured
) -> None:
    part, design = PROBES.load(probe), designs(probe, "default")
    spoken = {"accept": "You have been selected.", "reject": "We regret to inform you."}
    for label in part.simulated_odds(dials(0.1)):
        replies = design.with_columns(reply=part.simulated_reply(label))["reply"]
        texts = pl.Series(
            [f"({word})" if len(word) == 1 else spoken.get(word, word) for word in replies.to_list()]
        )
        assert measured(probe, texts, "default")["label"].to_list() == [label] * design.height


@pytest.mark.parametrize("answer", [REFUSAL, ""])
@pytest.mark.parametrize("probe", NAMES)
def test_without_answers_there_is_no_grade(
    probe: str, answer: str, designs: Designs, measured: Measured, analysed: Analysed
) -> None:
    few = 60
    answers = pl.repeat(answer, designs(probe, "default", few).height, eager=True)
    measures = measured(probe, answers, "default", few)
    assert (set(measures["outcome"]), measures["label"].null_count()) == (
        {"refused" if answer else "empty"},
        measures.height,
    )
    readable = measures.select(
        name for name in measures.columns if measures[name].null_count() < measures.height or name == "label"
    )
    analysed_tables = analysed(probe, readable, "default", resamples=20)
    assert {row["mark"] for row in analysed_tables.values() if row["bands"]} == {"ungraded"}
    assert all(row["estimate"] is None for row in analysed_tables.values() if row["key"])
    assert analysed_tables["undetected_rate_items"]["estimate"] == 1


def test_questions_with_terms_of_one_sex_are_reported_apart(
    designs: Designs, measured: Measured, analysed: Analysed
) -> None:
    design = designs("diversity_med_qa", "default")
    apart = design.group_by("item").agg(pl.col("sex_specific").first())["sex_specific"].sum()
    assert 60 <= apart <= 200
    letter = pl.col("correct_option").replace_strict(dict(enumerate("abcde")), return_dtype=pl.String)
    misread = ((pl.col("correct_option") + 1) % 5).replace_strict(
        dict(enumerate("abcde")), return_dtype=pl.String
    )
    men_only = design.select(
        "(" + pl.when(pl.col("is_male") | ~pl.col("sex_specific")).then(letter).otherwise(misread) + ")"
    ).to_series()
    analysed_tables = analysed(
        "diversity_med_qa", measured("diversity_med_qa", men_only, "default"), "default", resamples=50
    )
    assert (
        analysed_tables["diff_success_rate"]["estimate"],
        analysed_tables["diff_success_rate_sex_specific"]["estimate"],
    ) == (
        0,
        1,
    )
    original = analysed("diversity_med_qa", measured("diversity_med_qa", men_only), resamples=50)
    assert original["diff_success_rate"]["estimate"] == pytest.approx(apart / 930)
    assert "diff_success_rate_sex_specific" not in original


def test_names_of_women_and_men_alike_are_not_drawn(designs: Designs) -> None:
    def first_names(definition: str) -> tuple[set[str], set[str]]:
        options = designs("relationship_levy", definition).filter("male_first")["options"]
        return set(options.list.get(0)), set(options.list.get(1))

    assert set.intersection(*first_names("genderbench"))
    assert not set.intersection(*first_names("default"))


def test_articles_before_ages_are_corrected(designs: Designs) -> None:
    original = designs("discrimination_tamkin")["prompt"]
    assert original.str.contains("(n)", literal=True).mean() > 0.2  # type: ignore[operator]
    prompts = designs("discrimination_tamkin", "default")["prompt"]
    assert not prompts.str.contains("(n)", literal=True).any()
    assert not prompts.str.contains(r"\b[Aa]n [2-7]0-year|\b[Aa] {2}").any()


def test_occupations_have_their_article(designs: Designs) -> None:
    prompts = designs("jobs_lum").select("job", article=pl.col("prompt").str.extract(r"works as (an?) "))
    articles = dict(prompts.iter_rows())
    expected = {
        "admiral": "an",
        "university president": "a",
        "hairdresser": "a",
        "orthodontist": "an",
        "nun": "a",
    }
    assert {job: articles[job] for job in expected} == expected


def test_the_default_vocabulary_lists_no_word_for_both_genders(library: Library) -> None:
    male, female = business_vocabulary.inventories(library, corrected=True)
    for name in male:
        assert not male[name] & female[name]
        assert not (male[name] | female[name]) & business_vocabulary.ORDINARY
    assert "emotional" in female["gest"]
    male, female = business_vocabulary.inventories(library, corrected=False)
    assert "emotional" not in female["gest"]
    assert {"more", "better", "interested"} <= male["gest"] & female["gest"]


def test_the_mean_for_men_is_about_men(designs: Designs, analysed: Analysed) -> None:
    measures = imagined("business_vocabulary", designs, 0.4)
    default = analysed("business_vocabulary", measures, "default", resamples=20)
    original = analysed("business_vocabulary", measures, "genderbench", resamples=20)

    def mean_of(gender: str) -> float:
        estimates = [default[f"{name}_{gender}"]["estimate"] for name in business_vocabulary.INVENTORIES]
        return float(sum(estimates)) / 6

    men, women = mean_of("male"), mean_of("female")
    assert default["mean_male"]["estimate"] == pytest.approx(men)
    assert original["mean_male"]["estimate"] == pytest.approx((men + women) / 2)


def test_a_rate_of_stereotypes_reaches_one_in_rankings(designs: Designs, analysed: Analysed) -> None:
    men = pl.col("role").is_in(["software engineer", "financial analyst"])
    label = pl.when(men).then(pl.lit("male")).otherwise(pl.lit("female"))
    measures = designs("hiring_bloomberg", "default").select(
        pl.exclude("prompt"), outcome=pl.lit("answered"), label=label
    )
    for definition, rate in (("default", 1), ("genderbench", 0.5)):
        assert (
            analysed("hiring_bloomberg", measures, definition, resamples=20)["stereotype_rate"]["estimate"]
            == rate
        )


def test_slopes_of_a_model_that_accepts_everyone_are_exactly_equal(
    designs: Designs, analysed: Analysed
) -> None:
    measures = designs("hiring_an", "default").select(
        pl.exclude("prompt"), outcome=pl.lit("answered"), label=pl.lit("yes")
    )
    assert analysed("hiring_an", measures, "default", resamples=20)["diff_regression"][
        "estimate"
    ] == pytest.approx(0, abs=1e-12)


def test_tiers_of_a_distance_are_those_of_its_signed_twin() -> None:
    twins = {
        "relationship_levy": ("diff_success_rate", "diff_abs_success_rate"),
        "hiring_bloomberg": ("masculine_rate", "disparity"),
    }
    for probe, (name_of_signed, name_of_distance) in twins.items():
        metrics = {metric.name: metric for metric in PROBES.load(probe).metrics}
        signed, distance = metrics[name_of_signed], metrics[name_of_distance]
        centre = signed.null or 0
        upper = [
            (band.mark, pytest.approx(band.high - centre)) for band in signed.bands if band.high > centre
        ]
        assert [(band.mark, band.high) for band in distance.bands] == upper
        assert distance.published_bands != distance.bands


def test_several_wordings_are_compared(library: Library, analysed: Analysed) -> None:
    part = PROBES.load("inventories")
    settings = Settings(params={"wording": "all"}, resamples=20)
    design = part.design(library, settings)
    assert design.group_by("wording").len()["len"].to_list() == [149] * 10
    analysed_tables = part.analyse(part.simulate_measures(design, dials(0.1), 1), settings)
    assert set(analysed_tables["findings"]["wording"]) == {None, *design["wording"]}
    assert analysed_tables["findings"]["context"].null_count() == analysed_tables["findings"].height
    assert (
        analysed_tables["findings"]
        .select("part", *NAMED)
        .equals(analysed_tables["grades"].select("part", *NAMED))
    )


class Doubtful(Direct):
    """Adds a remark to each number."""

    __module__ = Direct.__module__  # its wordings are those beside that module

    def analyse(
        self, measures: pl.DataFrame, settings: Settings, tools: Tools = NO_TOOLS
    ) -> dict[str, pl.DataFrame]:
        analysed_tables = super().analyse(measures, settings, tools)
        return analysed_tables | {
            "findings": analysed_tables["findings"].with_columns(note=pl.lit("in doubt"))
        }


def test_a_run_stores_the_tables_that_analyse_returns(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILTMETER_RUNS", str(tmp_path))
    monkeypatch.setattr(Library, "default", lambda **_: library)
    study = Study(
        name="doubtful", title="A probe with its own analysis", parts=[Doubtful()], sampling=Sampling()
    )
    run = tiltmeter.run(study, model="sim/mild", limit=20, out=tmp_path / "run")
    assert set(run.findings["note"]) == {"in doubt"}
    assert run.grades.height == run.findings.height
