"""The tasks of the suite with race, age, religion and other attributes, and the suite `everyone`."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import polars as pl
import pytest

from conftest import Tiltmeter
from probes.conftest import HARMS
from tiltmeter import readers
from tiltmeter.datasets import Library
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.designs.slots import LISTS, built_in_list, described_person
from tiltmeter.errors import InputError
from tiltmeter.probes._attributes._attribute_probe import AttributeProbe
from tiltmeter.probes._attributes._tasks import listed_variants
from tiltmeter.probes._attributes._variants import variant_of
from tiltmeter.probes._everyone_suite import suite
from tiltmeter.probes._findings import metric_rows
from tiltmeter.study import Settings
from tiltmeter.testing import check_probe

VARIANTS = listed_variants()
CHOOSING = ("hiring_bloomberg_race", "hiring_bloomberg_race_gender", "relationship_levy_race")
"""Parts in whose prompts several groups occur."""


def part_named(name: str) -> AttributeProbe:
    return variant_of(*VARIANTS[name])


def design_of(name: str, items: int) -> pl.DataFrame:
    return part_named(name).design(Library.default(), Settings(limit=ItemLimit(items)))


def key_row(part: AttributeProbe, design: pl.DataFrame, bias: float, seed: int) -> dict[str, object]:
    """Return the key finding of one simulated study."""
    measures = part.simulate_measures(design, dict.fromkeys(HARMS, bias), seed)
    assert measures is not None
    findings = part.analyse(measures, Settings(seed=seed))["findings"]
    return findings.filter("key", pl.col("wording").is_null()).row(0, named=True)


# -- designs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(VARIANTS) - set(CHOOSING)))
def test_the_prompts_of_an_item_are_about_every_group_once(name: str) -> None:
    design = design_of(name, 6)
    groups = design.group_by("item").agg(pl.col("group").sort())
    expected = sorted(part_named(name).groups)
    assert groups.height == 6
    assert all(of_item == expected for of_item in groups["group"].to_list())


@pytest.mark.parametrize("name", ["dreaddit_religion", "isear_nationality", "dreaddit_race_gender"])
def test_prompts_of_an_item_differ_in_the_person_only(name: str) -> None:
    part = part_named(name)
    for of_item in design_of(name, 5).partition_by("item"):
        frames = set()
        for row in of_item.iter_rows(named=True):
            identity = next(each for each in part.identities if each.name == row["group"])
            person = described_person(identity.groups)
            assert person in row["prompt"]
            frames.add(row["prompt"].replace(person, "PERSON"))
        assert len(frames) == 1


def test_decisions_keep_everything_but_the_attribute() -> None:
    by_race = design_of("discrimination_tamkin_race", 20)
    assert by_race.group_by("item").agg(pl.col("age").n_unique())["age"].max() == 1
    by_age = design_of("discrimination_tamkin_age", 20)
    assert by_age.group_by("item").agg(pl.col("race").n_unique())["race"].max() == 1
    assert set(by_age["group"]) == {f"{age}-year-olds" for age in range(20, 80, 10)}


def test_names_signal_the_group_of_their_prompt() -> None:
    design = design_of("hiring_an_race_gender", 30)
    assert design["name"].n_unique() > 100
    cells = design.group_by("group").agg(pl.col("race").unique(), pl.col("gender").unique())
    assert cells["race"].list.len().max() == 1
    assert cells["gender"].list.len().max() == 1
    assert design.select(pl.col("names").list.contains(pl.col("name")).all()).item()


@pytest.mark.parametrize("name", ["hiring_bloomberg_race", "hiring_bloomberg_race_gender"])
def test_each_cv_has_a_name_of_each_group_once(name: str) -> None:
    part = part_named(name)
    count = 8 // len(part.groups)
    for of_item in design_of(name, 4).partition_by("item"):
        assert of_item.height == len(part.groups)
        names = of_item["names"][0].to_list()
        orders = [sorted(names, key=prompt.index) for prompt in of_item["prompt"]]
        for slot in range(8):
            groups = [names.index(order[slot]) // count for order in orders]
            assert sorted(groups) == list(range(len(part.groups)))


def test_couples_have_both_orders_and_both_genders() -> None:
    design = design_of("relationship_levy_race", 10)
    for of_item in design.partition_by("item"):
        assert of_item.height == 4
        assert of_item["prompt"].n_unique() == 4
        assert set(of_item["first_group"]) == set(of_item["second_group"])
        assert len(set(of_item["first_group"])) == 2


@pytest.mark.parametrize("attribute", sorted(set(LISTS) - {"gender"}))
def test_persons_are_phrases_with_the_right_article(attribute: str) -> None:
    for group in built_in_list(attribute).groups:
        phrase = described_person({attribute: group})
        article, first = phrase.split()[:2]
        assert article == ("an" if first[0] in "aeiouAEIOU" else "a")


# -- truth ---------------------------------------------------------------------------------------------------


@pytest.mark.verify
@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_the_interval_contains_the_planted_difference(name: str) -> None:
    part = part_named(name)
    settings = Settings(limit=ItemLimit(int(part.sizes["standard"]) // 2), params={"wording": "plain"})
    design = part.design(Library.default(), settings)
    [true] = part.true_values(dict.fromkeys(HARMS, 0.3)).values()
    rows = [key_row(part, design, 0.3, seed) for seed in (3, 4)]
    assert any(float(str(row["low"])) <= true <= float(str(row["high"])) for row in rows)
    assert any(float(str(row["p"])) < 0.05 for row in rows)


@pytest.mark.verify
@pytest.mark.parametrize("name", ["relationship_levy_race", "business_vocabulary_race", "isear_age"])
def test_a_variant_meets_the_requirements_of_a_probe(name: str) -> None:
    check_probe(part_named(name))


def test_the_rate_of_each_group_is_a_finding_of_its_own() -> None:
    part, design = part_named("dreaddit_religion"), design_of("dreaddit_religion", 40)
    measures = part.simulate_measures(design, dict.fromkeys(HARMS, 0.4), 1)
    assert measures is not None
    findings = part.analyse(measures, Settings())["findings"]
    rates = findings.filter(pl.col("metric") == "stress_rate")
    assert rates["attribute"].unique().to_list() == ["religion"]
    assert rates["group"].to_list() == sorted(part.groups)
    by_hand = (
        measures.group_by("group").agg(rate=(pl.col("label") == "yes").mean()).sort("group")["rate"].to_list()
    )
    assert rates["estimate"].to_list() == pytest.approx(by_hand)


def test_masculine_words_are_averaged_over_texts() -> None:
    part, design = part_named("business_vocabulary_race"), design_of("business_vocabulary_race", 12)
    texts = {"Asian names": "She is warm and gentle.", "white names": "He is assertive and dominant."}
    answers = design.select(
        "group", answer=pl.col("group").replace_strict(texts, default="A letter without such words.")
    )
    measures = design.with_columns(
        part.read(answers),
        model=pl.lit("own"),
        repetition=pl.lit(0, pl.Int16),
    )
    findings = part.analyse(measures, Settings())["findings"]
    shares = dict(
        findings.filter(pl.col("metric") == "masculine_words").select("group", "estimate").iter_rows()
    )
    assert shares["Asian names"] == 0
    assert shares["white names"] == 1
    assert shares["Black names"] is None


def test_the_most_divergent_emotion_and_its_groups_are_named() -> None:
    part, design = part_named("isear_religion"), design_of("isear_religion", 60)
    measures = part.simulate_measures(design, dict.fromkeys(HARMS, 0.5), 1)
    assert measures is not None
    rows = metric_rows(part, measures, Settings())
    [sentence] = [row["sentence"] for row in rows if row["key"]]
    assert re.search(r"than for another: (anger, Christian|sadness, atheists)", sentence)
    shares = [row for row in rows if row["metric"] == "share_of_anger"]
    assert {row["group"] for row in shares} == set(part.groups)


# -- the reader of rankings ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "group"),
    [
        ("1. Mei Chen\n2. Anna Weiss\n3. Jada Booker", "Asian"),
        ("1. Weiss, Anna\n2. Booker, Jada", "white"),
        ("The ranking is as follows:\n- Jada Booker\n- Mei Chen", "Black"),
        ("I cannot rank people.", None),
        ("They are all the same.", None),
    ],
)
def test_the_group_of_the_first_name_is_read(answer: str, group: str | None) -> None:
    names = {"Asian": [["Mei Chen"]], "Black": [["Jada Booker"]], "white": [["Anna Weiss"]]}
    lists = {of_group: pl.Series(of_names) for of_group, of_names in names.items()}
    read = readers.read_first_group(pl.Series([answer]), lists)
    assert read["label"].to_list() == [group]


# -- commands ------------------------------------------------------------------------------------------------


def test_parts_of_everyone_are_those_of_the_data() -> None:
    names = [part.name for part in suite().parts]
    assert names == list(suite.parts)
    assert {"dreaddit", "dreaddit_disability", "hiring_an_race_gender"} <= set(names)
    assert all(part.study == "everyone" for part in suite().parts)


def test_an_attribute_is_chosen_for_a_probe_of_the_paper(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    command = "run genderbench/isear -P attribute=age --limit 12 --model sim/biased --display none --out run"
    tiltmeter(command, exits=0)
    findings = pl.read_parquet(tmp_path / "run" / "findings.parquet")
    assert findings["part"].unique().to_list() == ["isear_age"]
    shown = tiltmeter("show run", exits=0).stdout
    assert "Expected emotions by age" in shown


def test_the_screen_names_attributes_and_has_the_rate_of_each_group(tiltmeter: Tiltmeter) -> None:
    parts = "dreaddit,dreaddit_age,discrimination_tamkin_race_gender"
    tiltmeter(f"run everyone --only {parts} --limit 12 --model sim/biased --display none --out run", exits=0)
    shown = tiltmeter("show run", exits=0).stdout
    assert "follow stereotypes of gender and age?" in shown
    assert "depend on race and gender?" in shown
    assert "70-year-olds" in shown
    assert "Native American women" in shown
    one_part = tiltmeter("show run --part dreaddit_age", exits=0).stdout
    assert "no results for" not in one_part
    of_group = tiltmeter("show run --group 25-year-olds", exits=0).stdout
    assert "stress_rate" in of_group


def test_a_slope_over_ages_can_be_asked_for(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    arguments = "run genderbench/dreaddit -P attribute=age -P comparisons=ratio,slope --limit 12"
    tiltmeter(f"{arguments} --model sim/biased -M refusal=0.3 --display none --out run", exits=0)
    findings = pl.read_parquet(tmp_path / "run" / "findings.parquet")
    assert any("slope" in metric for metric in findings["metric"].unique())


def test_the_order_of_attributes_does_not_matter() -> None:
    assert variant_of("dreaddit", "gender,race").name == variant_of("dreaddit", "race,gender").name


def test_the_suite_has_the_probes_with_an_attribute(tiltmeter: Tiltmeter) -> None:
    plan = tiltmeter("plan genderbench -P attribute=religion --size quick", exits=0).stdout
    assert "dreaddit_religion" in plan
    assert "isear_religion" in plan
    assert "hiring_an" not in plan


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("run genderbench/dreaddit -P attribute=raze", "dreaddit has no attribute 'raze': did you mean race"),
        ("run genderbench/gest -P attribute=race", "gest compares gender only; probes with other attributes"),
        ("run genderbench/isear -P attribute=nationality,religion", "84 groups, more than 60"),
        ("run genderbench/isear -P attribute=age,age", "'age' is named twice"),
        ("run genderbench -P attribute=raze", "no probe of genderbench has it; attributes: gender, race"),
        ("run genderbench -P attribute=race --only dreaddit", "did you mean dreaddit_race"),
        (
            "run genderbench/relationship_levy -P attribute=race,gender",
            "one attribute at a time: gender or race",
        ),
        ("run everyone/isear_age --definition genderbench", "genderbench is about gender only"),
        ("run everyone -P attribute=race", "applies to the probes of genderbench"),
        ("run everyone/dreaddit_rage", "everyone has no part 'dreaddit_rage'"),
    ],
)
def test_mistakes_with_attributes_are_named(tiltmeter: Tiltmeter, arguments: str, says: str) -> None:
    tiltmeter(f"{arguments} --model sim/fair", exits=2, says=says)


def test_an_attribute_of_the_lists_needs_no_code() -> None:
    religions = variant_of("isear", "religion,sexual_orientation")
    assert len(religions.groups) == len(built_in_list("religion").groups) * 4
    assert "gay Muslim people" in {name.replace("Muslim gay", "gay Muslim") for name in religions.groups}
    with pytest.raises(InputError, match="has no attribute"):
        variant_of("hiring_an", "religion")


def test_random_choices_follow_the_seed() -> None:
    library = Library.default()
    part = part_named("hiring_an_race")
    first, second = (part.prompts(library, Random(seed)) for seed in (5, 5))
    other = part.prompts(library, Random(6))
    assert first.equals(second)
    assert not first.equals(other)
