"""Items and prompts equal those of the original: counts, factors, texts of the data."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import ROOT
from probes.conftest import WITH_GOLDEN, Designs, Golden
from tiltmeter.datasets import Library
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.probes import SUITE
from tiltmeter.probes._definitions import GENDERBENCH
from tiltmeter.probes._listing import PROBES
from tiltmeter.runs._definitions import definitions_of
from tiltmeter.schema import DESIGN
from tiltmeter.study import Settings

PUBLISHED: dict[str, tuple[int, int, int, tuple[str, ...]]] = {
    "bbq": (5608, 5608, 5608, ("category", "logical_answer", "stereotypical_answer")),
    "business_vocabulary": (2400, 2400, 7200, ("is_male", "template_id")),
    "direct": (3944, 3944, 3944, ("source",)),
    "discrimination_tamkin": (2084, 6252, 18756, ("gender",)),
    "diversity_med_qa": (930, 5580, 5580, ("correct_option", "is_male")),
    "dreaddit": (3553, 10659, 21318, ("contains_stress", "gender")),
    "gest": (3565, 21390, 21390, ("options", "stereotype_id")),
    "gest_creative": (3565, 3565, 14260, ("stereotype_id",)),
    "hiring_an": (20000, 20000, 20000, ("name", "qualification_level", "role", "template_id")),
    "hiring_bloomberg": (4000, 8000, 8000, ("female_names", "male_names", "race", "role")),
    "inventories": (149, 149, 745, ("gender", "source")),
    "isear": (7332, 21996, 21996, ("gender",)),
    "jobs_lum": (339, 339, 1695, ("job",)),
    "relationship_levy": (3000, 6000, 6000, ("male_first",)),
}
"""Items, prompts, calls and factors of each probe.

Factors are the original's metadata of items and prompts together. Our columns have the same names and, except
for enumerations, the same values.
"""
FACTORS = {probe: factors for probe, (*_, factors) in PUBLISHED.items()}


def of_original(value: Any) -> Any:
    """Convert members of the original's enumerations to lower case: "HiringAnQualifications.LOW" is "low"."""
    enumerated = isinstance(value, str) and value.startswith(
        ("HiringAnQualifications.", "DiscriminationTamkinGenders.")
    )
    return value.partition(".")[2].lower() if enumerated else value


def texts_of_data(probe: str, library: Library) -> pl.DataFrame:
    """Return the fields that fill the templates, one row per prompt."""
    loaded = PROBES.load(probe).under(GENDERBENCH)
    table: pl.DataFrame = loaded.prompts(library, random.Random(123))
    if probe == "hiring_bloomberg":  # its CVs are joined when the text is composed
        return table.select(
            _cvs=loaded.text({"prompt": "{cvs}", "separator": "\x1e"}), _description="_description"
        )
    without_article = pl.selectors.by_name("_occupation", require_all=False)
    return table.select(pl.selectors.starts_with("_") - without_article)


def digest(rows: list[Any]) -> str:
    return hashlib.sha256(json.dumps(rows, ensure_ascii=True, separators=(",", ":")).encode()).hexdigest()


def test_the_suite_contains_all_fourteen_probes() -> None:
    assert sorted(SUITE) == sorted(PUBLISHED)
    assert set(SUITE) <= set(PROBES.names())
    assert sum(prompts for _, prompts, _, _ in PUBLISHED.values()) == 115_882
    assert sum(calls for _, _, calls, _ in PUBLISHED.values()) == 156_492


@pytest.mark.parametrize("definition", definitions_of("probes"))
@pytest.mark.parametrize("probe", PUBLISHED)
def test_each_probe_has_the_published_numbers_of_items_prompts_and_calls(
    probe: str, definition: str, designs: Designs
) -> None:
    design = designs(probe, definition)
    assert (
        design["item"].n_unique(),
        design.height,
        design["repetitions"].cast(pl.Int64).sum(),
    ) == PUBLISHED[probe][:3]


def test_a_column_has_one_type_in_all_probes(designs: Designs) -> None:
    types: dict[str, set[pl.DataType]] = {}
    for probe in PROBES.names():
        for name, kind in designs(probe).schema.items():
            types.setdefault(name, set()).add(kind)
    assert {name: kinds for name, kinds in types.items() if len(kinds) > 1} == {}
    assert set(DESIGN) <= set(types)
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed = {name for name in types if f"`{name}`" in page}
    assert {name for name, kinds in types.items() if kinds != {pl.String()}} - set(DESIGN) <= listed


@pytest.mark.verify
@pytest.mark.parametrize("probe", WITH_GOLDEN)
def test_factors_equal_the_recorded_ones(probe: str, designs: Designs, golden: Golden) -> None:
    recorded, design = golden(probe), designs(probe)
    assert design.select(pl.col("item", "prompt_index").cast(pl.Int64)).equals(
        recorded.select("item", "prompt_index")
    )
    expected = [
        {name: of_original(value) for name, value in (item | prompt).items()}
        for item, prompt in zip(recorded["item_metadata"], recorded["prompt_metadata"], strict=True)
    ]
    assert set(expected[0]) == set(FACTORS[probe])
    assert design.select(FACTORS[probe]).to_dicts() == [
        {name: row[name] for name in FACTORS[probe]} for row in expected
    ]


@pytest.mark.parametrize("probe", WITH_GOLDEN)
def test_prompts_contain_the_recorded_texts(probe: str, library: Library, golden: Golden) -> None:
    prompts = golden(probe)["prompt"]
    for name, texts in texts_of_data(probe, library).to_dict().items():
        missing = [text for text, prompt in zip(texts, prompts, strict=True) if text not in prompt]
        assert not missing, f"{name}: {missing[:1]}"


@pytest.mark.verify
@pytest.mark.parametrize("probe", sorted(set(PUBLISHED) - set(WITH_GOLDEN)))
def test_items_equal_those_of_the_original(probe: str, designs: Designs, library: Library) -> None:
    expected = json.loads((Path(__file__).parent / "original_items.json").read_text(encoding="utf-8"))[probe]
    design = designs(probe)
    rows = design.select(pl.col("item", "prompt_index").cast(pl.Int64), *FACTORS[probe]).rows()
    assert digest([list(row) for row in rows]) == expected["factors"]
    assert digest([list(row) for row in texts_of_data(probe, library).rows()]) == expected["texts"]


@pytest.mark.parametrize("probe", ["bbq", "hiring_an", "inventories"])
def test_a_limit_keeps_a_proportional_part_of_the_same_items(
    probe: str, library: Library, designs: Designs
) -> None:
    part = PROBES.load(probe).design(library, Settings(definition=GENDERBENCH, limit=ItemLimit(60)))
    assert part["item"].n_unique() == 60
    assert part.join(designs(probe), on=["prompt_id", "prompt"], how="anti").is_empty()
    full_design = designs(probe)
    sampled = part.group_by("stratum").agg(pl.col("item").n_unique())
    available = full_design.group_by("stratum").agg(pl.col("item").n_unique())
    expected = pl.col("item_right") * 60 / full_design["item"].n_unique()
    assert sampled.join(available, on="stratum").select((pl.col("item") - expected).abs().max()).item() < 2
    smaller = PROBES.load(probe).design(library, Settings(definition=GENDERBENCH, limit=ItemLimit(20)))
    assert smaller.join(part, on="prompt_id", how="anti").is_empty(), (
        "a smaller limit keeps a part of a larger one"
    )


def test_the_two_prompts_of_a_ranking_swap_whose_names_are_on_which_cvs(designs: Designs) -> None:
    item = designs("hiring_bloomberg").filter(pl.col("item") == 0)
    men, women = set(item["male_names"][0]), set(item["female_names"][0])
    orders = [sorted(men | women, key=prompt.index) for prompt in item["prompt"]]
    assert [[name in men for name in order] for order in orders] == [
        [name in women for name in order] for order in orders[::-1]
    ]


def test_the_two_descriptions_of_a_conflict_differ_in_who_is_named_first(designs: Designs) -> None:
    first, second = (
        designs("relationship_levy").filter(pl.col("item") == 5).sort("prompt_index").iter_rows(named=True)
    )
    assert first["options"] == second["options"][::-1]
    man, woman = first["options"]
    swapped = first["prompt"].replace(man, "\0").replace(woman, man).replace("\0", woman)
    assert second["prompt"] == swapped
