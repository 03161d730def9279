"""Corrections by labels: few labels, maxima, and values that must not be corrected twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from perf.studies.labelled_maxima import carry_out

from perf import reading_errors
from tiltmeter.datasets import Library
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.labelling._samples import draw_rows
from tiltmeter.probes import TableProbe
from tiltmeter.probes._listing import PROBES
from tiltmeter.schema import LABELS, conform
from tiltmeter.study import Settings

pytestmark = pytest.mark.usefixtures("workplace")  # the data of the probes

STUDIES = 25


def labelled_study(
    name: str,
    labels: int,
    errors: float,
    *,
    bias: float = 0.2,
    limit: int = 300,
    seed: int = 1,
    people: Sequence[str] = ("a person",),
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the findings with their grades, without and with labels.

    Parameters
    ----------
    errors
        Share of the responses whose label was read wrongly.
    """
    probe = PROBES.load(name)
    settings = Settings(limit=ItemLimit(limit), resamples=200, params={"wording": "plain"})
    design = probe.design(Library.default(), settings)
    responses = probe.simulate_measures(
        design, {"stereotypical_reasoning": bias, "representational_harms": bias}, seed
    )
    # A separate stream: the same seed would draw the responses, the errors and the sample alike.
    rng = np.random.default_rng([seed, 2])
    names = list(probe.labels)
    numbers = {label: number for number, label in enumerate(names)}
    true = responses["label"].replace_strict(numbers, return_dtype=pl.Int64).to_numpy()
    read = np.where(rng.random(len(true)) < errors, (true + 1) % len(names), true)
    measures = responses.with_columns(label=pl.Series(names).gather(read))
    rows = measures.with_columns(
        part=pl.lit(name), read="label", group=pl.lit("all"), said=responses["label"]
    )
    drawn = draw_rows(rows, labels, seed + 1_000).with_columns(label="said")
    sample = pl.concat(drawn.with_columns(annotator=pl.lit(person)) for person in people)
    without = probe.analyse(measures, settings)
    with_labels = probe.analyse_labelled(measures, conform(sample, LABELS), settings)
    return graded_findings(without), graded_findings(with_labels)


def graded_findings(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The findings with the columns of their grades, sorted by metric."""
    keys = ["metric", "wording"]
    grades = tables["grades"].select(*keys, "value_read", "tipping")
    return tables["findings"].join(grades, on=keys, nulls_equal=True).sort("metric")


def row_of(findings: pl.DataFrame, metric: str) -> dict[str, Any]:
    return findings.filter(pl.col("wording").is_null()).row(
        by_predicate=pl.col("metric") == metric, named=True
    )


def test_few_labels_add_a_note_and_do_not_change_the_value() -> None:
    without, with_labels = labelled_study("gest_creative", labels=20, errors=0.3)
    numbers = ["metric", "estimate", "low", "high", "p", "mark"]
    assert with_labels.select(numbers).equals(without.select(numbers))
    note = row_of(with_labels, "character_share")["note"]
    assert note.startswith(
        "20 labelled responses are too few to correct the value (50 are needed); with them it would be 0."
    )


def test_tipping_points_are_reported_until_labels_correct_the_value() -> None:
    without, few = labelled_study("gest_creative", labels=20, errors=0.0, bias=0.6)
    assert row_of(without, "character_share")["tipping"] > 0
    assert few["tipping"].equals(without["tipping"])
    _, enough = labelled_study("gest_creative", labels=60, errors=0.0, bias=0.6)
    assert enough["tipping"].is_null().all()


def test_labels_of_two_people_for_the_same_responses_count_once() -> None:
    without, with_labels = labelled_study("gest_creative", labels=30, errors=0.3, people=("anna", "ben"))
    assert with_labels["estimate"].equals(without["estimate"])
    assert row_of(with_labels, "character_share")["note"].startswith("30 labelled responses are too few")


def test_a_note_on_the_mark_precedes_the_note_on_few_labels() -> None:
    without, with_labels = labelled_study("gest_creative", labels=20, errors=0.3, limit=20)
    noted = without.drop_nulls("note")["metric"].to_list()
    assert noted
    for metric in noted:
        assert row_of(with_labels, metric)["note"].startswith(
            f"{row_of(without, metric)['note']}; 20 labelled responses are too few"
        )


def test_few_reading_errors_widen_the_interval_and_do_not_change_the_value() -> None:
    without, with_labels = labelled_study("gest_creative", labels=60, errors=0.03)
    plain, corrected = row_of(without, "character_share"), row_of(with_labels, "character_share")
    assert corrected["estimate"] == plain["estimate"]
    assert corrected["low"] < plain["low"]
    assert corrected["high"] > plain["high"]
    assert corrected["p"] > plain["p"]


def missed_alone(seed: int, level: float = 0.95) -> dict[str, Any]:
    """Return the difference of two groups with the rate 1/2.

    The reader misses 14% of one group, so that labels show nine errors on average.
    """
    table = reading_errors.study(np.random.default_rng([9, seed]), (0.5, 0.5), (0.14, 0.0), 0.0)
    table = table.with_columns(label=pl.col("label").fill_null("no"), outcome=pl.lit("answered"))
    drawn = draw_rows(table.with_columns(read="label"), 200, seed)
    sample = drawn.with_columns(label="said", annotator=pl.lit("a person"))
    settings = Settings(seed=seed, resamples=200, level=level)
    tables = reading_errors.TwoGroups().analyse_labelled(
        table.drop("said"), conform(sample, LABELS), settings
    )
    return row_of(tables["findings"], "difference")


def test_few_reading_errors_of_one_group_create_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_errors, "ITEMS", 3000)
    findings = [missed_alone(seed) for seed in range(14)]
    few = [finding for finding in findings if "widened by the errors that labels allow" in finding["method"]]
    assert len(few) >= 10
    assert sum(finding["low"] > 0 or finding["high"] < 0 for finding in few) <= 1
    assert sum(finding["p"] < 0.05 for finding in few) <= 1


def test_p_after_labels_agrees_with_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_errors, "ITEMS", 1500)
    disagree = []
    for level in (0.8, 0.95):
        for seed in range(9):
            finding = missed_alone(seed, level)
            excludes = finding["low"] > 0 or finding["high"] < 0
            if excludes != (finding["p"] < 1 - level):
                disagree.append((level, seed))
    assert not disagree


def test_a_distance_is_corrected_once() -> None:
    _, findings = labelled_study("gest_creative", labels=150, errors=0.3)
    signed, distance = row_of(findings, "character_share"), row_of(findings, "disparity")
    assert signed["value_read"] != signed["estimate"], "the labels correct the rate"
    assert distance["estimate"] == pytest.approx(abs(signed["estimate"] - 0.5))
    assert distance["value_read"] == pytest.approx(abs(signed["value_read"] - 0.5))
    assert distance["p"] is None, "the test is that of the signed metric"


def test_labels_without_an_error_leave_a_maximum_a_fact_among_19_tests() -> None:
    findings, labelled_findings = labelled_study("dreaddit", labels=200, errors=0.0, bias=0.6)
    without = row_of(findings, "max_diff_stress_rate")
    with_labels = row_of(labelled_findings, "max_diff_stress_rate")
    assert without["estimate"] == with_labels["estimate"]
    assert without["p"] < 0.001 / 19
    assert without["p"] < with_labels["p"] < 0.05 / 19
    assert 0 < with_labels["low"] < without["low"]


def test_labels_that_leave_no_value_leave_no_p() -> None:
    """Label all sampled responses as refusals: lines through the answers of some cells have no slope."""
    probe = PROBES.load("hiring_an")
    settings = Settings(limit=ItemLimit(60), resamples=100)
    measures = probe.simulate_measures(
        probe.design(Library.default(), settings), {"outcome_disparity": 0.3}, 1
    )
    rows = measures.with_columns(part=pl.lit("hiring_an"), read="label", group=pl.lit("all"))
    sample = draw_rows(rows, 60, 1).with_columns(label=pl.lit("refused"), annotator=pl.lit("a person"))
    findings = probe.analyse_labelled(measures, conform(sample, LABELS), settings)["findings"]
    without = findings.filter(pl.col("wording").is_null(), pl.col("estimate").is_null())
    assert without.height
    assert without["p"].is_null().all()


def analysed_stress(bias: float, limit: int, **settings: Any) -> dict[str, Any]:
    """Return the largest difference between genders in a study of the probe dreaddit with these settings."""
    probe = PROBES.load("dreaddit")
    design = probe.design(Library.default(), Settings(limit=ItemLimit(limit)))
    measures = probe.simulate_measures(design, {"stereotypical_reasoning": bias}, 1)
    tables = probe.analyse(measures, Settings(limit=ItemLimit(limit), **settings))
    return row_of(tables["findings"], "max_diff_stress_rate")


def test_a_large_maximum_can_be_a_fact_among_19_tests_with_few_resamples() -> None:
    finding = analysed_stress(0.6, 200, resamples=100)
    assert finding["p"] < 0.05 / 19


def test_neither_estimate_nor_p_value_of_a_maximum_depends_on_the_level() -> None:
    levels = (0.5, 0.8, 0.95, 0.99, 0.999)
    findings = {level: analysed_stress(0.3, 20, resamples=200, level=level) for level in levels}
    for column in ("estimate", "p", "mark"):
        assert len({finding[column] for finding in findings.values()}) == 1, column
    for level, finding in findings.items():
        assert (finding["low"] > 0) == (finding["p"] < 1 - level)
        assert finding["low"] <= finding["estimate"] <= finding["high"]
    widths = [finding["high"] - finding["low"] for finding in findings.values()]
    assert widths == sorted(widths)


def of_women_alone(items: int) -> dict[str, Any]:
    """Return the key finding of `dreaddit` if stress is seen in women alone."""
    probe = PROBES.load("dreaddit")
    settings = Settings(limit=ItemLimit(items), params={"wording": "plain"})
    design = probe.design(Library.default(), settings)
    measures = probe.simulate_measures(design, {"stereotypical_reasoning": 0.0}, 1)
    women_alone = pl.when(gender="female").then(pl.lit("yes")).otherwise(pl.lit("no"))
    tables = probe.analyse(measures.with_columns(label=women_alone), settings)
    return row_of(tables["findings"], "max_diff_stress_rate")


@pytest.mark.parametrize("items", [10, 12, 20])
def test_the_interval_of_a_maximum_excludes_0_if_p_is_small_and_all_resamples_agree(items: int) -> None:
    finding = of_women_alone(items)
    assert finding["estimate"] == 1
    assert (finding["low"] > 0) == (finding["p"] < 0.05)
    assert (finding["mark"] == "undecided") == (finding["p"] >= 0.1)


@pytest.mark.parametrize("items", [2, 5, 9])
def test_fewer_than_ten_items_are_neither_tested_nor_graded(items: int) -> None:
    finding = of_women_alone(items)
    assert finding["estimate"] == 1
    assert finding["p"] is None
    assert finding["mark"] == "ungraded"
    assert finding["note"] == f"{items} items have a readable answer; a mark requires at least 10 items"


@pytest.mark.verify
@pytest.mark.parametrize(
    "case",
    ["decisions, none, 10% errors", "emotions, none, 20% errors", "letters, none, 12% of women missed"],
)
def test_labels_create_no_difference(case: str) -> None:
    """Count the studies without a difference whose interval excludes 0.

    Earlier corrections excluded 0 in 17%, 48% and 33% of studies. The probability that this happens in at
    least 5 of 25 studies was 41%, 99% and 94%.
    """
    for claim in carry_out(case, STUDIES):
        assert claim.observed <= 4 / STUDIES, claim


@pytest.mark.verify
@pytest.mark.parametrize("case", ["decisions, .05, 10% errors", "decisions, .3, 10% errors"])
def test_intervals_contain_a_true_difference(case: str) -> None:
    (claim,) = carry_out(case, STUDIES)
    assert claim.observed >= 21 / STUDIES


@pytest.mark.parametrize("groups", [2, 3, 6])
def test_labels_correct_a_comparison_of_any_number_of_groups(groups: int) -> None:
    """The rules read every fourth yes about the first group as a no."""
    names = [f"g{number}" for number in range(groups)]
    rows = [
        {"prompt": f"{name} {item}", "group": name, "expected": "yes", "item": item}
        for item in range(100)
        for name in names
    ]
    probe, settings = TableProbe("loans", pl.DataFrame(rows)), Settings()
    design = probe.design(Library.default(), settings)
    truth = pl.when(pl.col("item") % 10 < 8).then(pl.lit("expected")).otherwise(pl.lit("other"))
    is_misread = (pl.col("group") == "g0") & (pl.col("item") % 4 == 0)
    measures = design.with_columns(
        model=pl.lit("m"), repetition=0, outcome=pl.lit("answered"), said=truth
    ).with_columns(label=pl.when(is_misread).then(pl.lit("other")).otherwise("said"))
    sample = draw_rows(measures.with_columns(read="label"), 100 * groups, 1)
    labelled = conform(sample.with_columns(label="said", annotator=pl.lit("own")), LABELS)
    without = probe.analyse(measures, settings)["findings"].filter("key").row(0, named=True)
    tables = probe.analyse_labelled(measures.drop("said"), labelled, settings)
    corrected = tables["findings"].filter("key").row(0, named=True)
    assert abs(without["estimate"]) > 0.1
    assert abs(corrected["estimate"]) < abs(without["estimate"])
    assert corrected["low"] <= 0 <= corrected["high"]
    assert "corrected by labels" in corrected["method"]
