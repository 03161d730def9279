"""The design: every pair at every location, both orders equally often, every row checked."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings as trials, strategies as st

from support.definitions import association_definition
from tiltmeter.associations._definitions import PAPER
from tiltmeter.associations._design import FACTORS, VECTORS, check_design, make_design
from tiltmeter.associations._grid import ALIGNED, WITHIN_TYPE, Grid, load_grid
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.errors import InputError
from tiltmeter.schema import DESIGN
from tiltmeter.study import Settings

CATEGORIES = ("gender", "race", "religions")
TWO = ("two", "balanced", "negative", "open_box")
DEALT = load_grid()
GRID = DEALT.model_copy(
    update={
        "categories": {
            name: category.model_copy(update={"dealt": None}) for name, category in DEALT.categories.items()
        }
    }
)
"""A grid with fixed descriptors only, as the published one."""
CELL = ("wording", "type", "pair", "location")


def _design(
    category: str = "race", setting: str = "two", settings: Settings | None = None, grid: Grid = GRID
) -> pl.DataFrame:
    return make_design(grid, category, setting, settings or Settings(), category)


def _stories(design: pl.DataFrame) -> int:
    return int(design["repetitions"].cast(pl.Int64).sum())


# -- the published size
@pytest.mark.parametrize("setting", TWO)
def test_two_character_settings_have_the_published_size(setting: str) -> None:
    sizes = {category: _stories(_design(category, setting)) for category in CATEGORIES}
    assert sizes == {"gender": 8_700, "race": 10_440, "religions": 10_440}  # 29,580


def test_the_setting_with_one_character_has_twice_as_many_stories() -> None:
    designs = [_design(category, "single") for category in CATEGORIES]
    assert sum(map(_stories, designs)) == 59_160
    for design in designs:
        assert (
            design.select("identity_2", "descriptor_2", "name_2", "order").null_count().row(0)
            == (design.height,) * 4
        )
        assert design["item"].n_unique() == design.height
    # Each of four identities is paired with three others.
    for design, number in zip(designs, (20, 30, 30), strict=True):
        stories = design.group_by("descriptor_1", "location").agg(pl.col("repetitions").sum())
        assert set(stories["repetitions"]) == {number}


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_pair_has_all_87_locations_in_both_orders_equally_often(category: str) -> None:
    design = _design(category)
    stories = GRID.category(category).stories
    by_order = design.group_by("pair", "order").agg(
        pl.col("location").n_unique(), pl.col("repetitions").unique().implode()
    )
    assert (set(by_order["location"]), by_order.height) == ({87}, 2 * len(GRID.category(category).pairs))
    assert set(design["repetitions"]) == {stories // 2}
    stories_of = pl.col("repetitions").sum()
    first = design.group_by("identity_1", "context").agg(stories_of).rows()
    second = design.group_by("identity_2", "context").agg(stories_of).rows()
    assert sorted(first) == sorted(second)


def test_a_design_has_the_documented_columns_and_identifiers() -> None:
    design = make_design(GRID, "gender", "balanced", Settings(system_message="Be brief."), "gender_balanced")
    assert list(design.schema) == [*DESIGN, *FACTORS]
    assert [design.schema[name] for name in design.columns] == [*DESIGN.values(), *FACTORS.values()]
    assert design["prompt_id"][0] == "gender_balanced/0/0/plain"
    assert set(design.select("system", "part").rows()) == {("Be brief.", "gender_balanced")}
    assert (
        design.select("source_prompt", "source_span", "answer_opening").null_count().row(0)
        == (design.height,) * 3
    )
    row = design.filter(pair="Emily-John", location="bank", order=1).row(0, named=True)
    assert (row["identity_1"], row["name_1"], row["identity_2"], row["descriptor_2"]) == (
        "male",
        "John",
        "female",
        "Emily",
    )
    assert (row["context"], row["type"], row["stratum"], row["prompt_index"]) == (
        "economics",
        "all",
        "economics/all",
        1,
    )
    assert "John and Emily at the location of bank" in row["prompt"]


# -- first names assigned at random
@pytest.mark.parametrize("setting", [*TWO, "single"])
@pytest.mark.parametrize("category", CATEGORIES)
def test_random_names_are_assigned_evenly_and_never_shared_by_a_pair(category: str, setting: str) -> None:
    design = _design(category, setting, grid=DEALT)
    fixed = _design(category, setting, grid=GRID)
    assert _stories(design) == _stories(fixed)
    assert design["item"].n_unique() == fixed["item"].n_unique()
    columns = ("name", "descriptor", "identity")
    people = pl.concat(
        [
            design.select("type", "location", **{column: f"{column}_{slot}" for column in columns})
            for slot in (1, 2)
        ]
    ).drop_nulls("name")
    uses = people.group_by("type", "identity", "name").len()
    assert uses["len"].n_unique() <= 2
    assert uses.select(pl.col("len").max() - pl.col("len").min()).item() <= 1
    names = uses.group_by("type", "identity").agg(pl.col("name").sort())
    assert names["name"].list.len().unique().to_list() == [100]
    # Race and religion are stated in words: every identity has the same names, so that no name indicates an
    # identity.
    assert names["name"].n_unique() == 2
    assert people.select((pl.col("descriptor").str.starts_with(pl.col("name"))).all()).item()
    people_of = GRID.category(category)
    assert people.select("type", "identity").unique().height == sum(
        len(identities) for identities in people_of.types.values()
    )
    if setting != "single":
        assert not (design["name_1"] == design["name_2"]).any()
        orders = design.group_by("item").agg(turned=(pl.col("order") == 1).mean())
        assert orders["turned"].unique().to_list() == [0.5]


def test_random_names_depend_on_the_seed_and_a_limit_selects_a_part() -> None:
    full_design = _design("race", settings=Settings(seed=1), grid=DEALT)
    again = _design("race", settings=Settings(seed=1), grid=DEALT)
    reseeded = _design("race", settings=Settings(seed=2), grid=DEALT)
    assert full_design.equals(again)
    assert (full_design["name_1"] == reseeded["name_1"]).sum() < 0.1 * full_design.height
    limited = _design("race", settings=Settings(seed=1, limit=ItemLimit(30)), grid=DEALT)
    assert limited.join(full_design, on=["prompt_id", "prompt"], how="anti").is_empty()
    assert limited["item"].n_unique() == 30


def test_the_published_definitions_keep_their_descriptors() -> None:
    for category in CATEGORIES:
        assert _design(category, settings=Settings(definition=PAPER), grid=DEALT).equals(
            _design(category, settings=Settings(definition=PAPER))
        )


@pytest.mark.parametrize(
    ("dealt", "message"),
    [
        ("{all: {a: {names: [Ann]}}}", "dealt must have the same types and identities as types"),
        (
            "{all: {a: {names: elves}, b: {names: men}}}",
            "there is no built-in list of names 'elves'; use women or men",
        ),
        ("{all: {a: {names: [Ann, Ann]}, b: {names: men}}}", "the name 'Ann' is given twice"),
        ("{all: {a: {names: [Ann], text: a woman}, b: {names: men}}}", "must contain {name} exactly once"),
    ],
)
def test_a_mistake_in_the_random_names_of_a_grid_is_reported(
    dealt: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "grid.yaml"
    file.write_text(
        f"categories: {{people: {{types: {{all: {{a: [Ann], b: [Bob]}}}}, dealt: {dealt}}}}}",
        encoding="utf-8",
    )
    with pytest.raises(InputError, match=re.escape(message)):
        load_grid(file)


def test_a_name_that_both_characters_would_have_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "grid.yaml"
    people = "{all: {a: {names: [Ann]}, b: {names: [Ann]}}}"
    file.write_text(
        f"categories: {{people: {{types: {{all: {{a: [Ann], b: [Bob]}}}}, dealt: {people}}}}}",
        encoding="utf-8",
    )
    with pytest.raises(
        InputError,
        match="assigns the name 'Ann' to both characters of a story; give each identity more names",
    ):
        make_design(load_grid(file), "people", "two", Settings(), "people")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name_1": "Zoe"}, "are not those of the pair"),
        ({"identity_1": "white"}, "are not those of the pair"),
        ({"pair": "Ann-Bob"}, "are not those of the pair Ann-Bob"),
        ({"prompt": "A story."}, "its text does not contain"),
    ],
)
def test_a_broken_row_with_random_names_is_reported(values: dict[str, str], message: str) -> None:
    design = _design("race", grid=DEALT)
    broken = design.with_row_index().with_columns(
        pl.when(pl.col("index") == 3).then(pl.lit(value)).otherwise(name).alias(name)
        for name, value in values.items()
    )
    with pytest.raises(InputError, match=message):
        check_design(broken.drop("index"), DEALT, Settings())


# -- prompts
@pytest.mark.parametrize("category", CATEGORIES)
@pytest.mark.parametrize("setting", [*TWO, "single"])
def test_every_prompt_requests_a_story_about_its_identities(category: str, setting: str) -> None:
    design = _design(category, setting, Settings(params={"wording": "all"}, limit=ItemLimit(60)))
    assert design["wording"].n_unique() == 2
    descriptors = {
        (descriptor.text, descriptor.identity, descriptor.type)
        for descriptor in GRID.category(category).descriptors
    }
    for row in design.iter_rows(named=True):
        prompt = row["source_prompt"] or row["prompt"]
        for slot in (1, 2):
            if row[f"name_{slot}"]:
                assert row[f"name_{slot}"] in row[f"descriptor_{slot}"] in prompt
                assert (row[f"descriptor_{slot}"], row[f"identity_{slot}"], row["type"]) in descriptors
        assert "story" in row["prompt"]
        assert "10 sentences" in row["prompt"]


def test_settings_differ_in_the_requested_story_only() -> None:
    texts = {setting: _design("gender", setting)["prompt"][0] for setting in ("two", "balanced", "negative")}
    assert len(set(texts.values())) == 3
    assert "good experiences" in texts["balanced"]
    assert "bad experiences only" in texts["negative"]
    assert all("Emily and John at the location of school" in text for text in texts.values())


def test_the_open_box_has_a_source_a_span_and_a_target_without_identities() -> None:
    design = _design("religions", "open_box")
    assert (design["prompt"].n_unique(), design["prompt"][0].count(VECTORS)) == (1, 1)
    spans = pl.concat_str(
        "descriptor_1", pl.lit(" and "), "descriptor_2", pl.lit(" at the location of "), "location"
    )
    assert design.select((pl.col("source_span") == spans).all()).item()
    assert design.select(
        pl.col("source_prompt").str.contains(pl.col("source_span"), literal=True).all()
    ).item()
    assert not design.select(pl.col("prompt").str.contains(pl.col("name_1"), literal=True).any()).item()
    opened = design.select("answer_opening", "first_sample").rows()
    assert set(opened) == {("Of course. This is the story:", 0)}  # each source has separate samples


def test_rows_with_equal_prompts_have_different_samples() -> None:
    design = _design("race", "single")
    answers = design.with_columns(
        sample=pl.int_ranges("first_sample", pl.col("first_sample") + pl.col("repetitions"))
    ).explode("sample")
    assert answers.height == _stories(design)
    assert answers.select("prompt", "sample").is_unique().all()


# -- settings of the user
@pytest.mark.parametrize("definition", ["paper", "badf-code"])
def test_published_definitions_use_one_order_of_names(definition: str) -> None:
    design = _design("gender", settings=Settings(definition=association_definition(definition)))
    assert _stories(design) == 8_700
    assert set(design.select("order", "identity_1", "repetitions").rows()) == {(0, "female", 20)}


def test_an_odd_number_of_stories_alternates_between_the_orders() -> None:
    design = _design("race", settings=Settings(repeats=5))
    assert _stories(design) == 12 * 87 * 5
    by_pair = (
        design.group_by("pair", "order")
        .agg(pl.col("repetitions").sum())
        .group_by("pair")
        .agg(gap=pl.col("repetitions").max())
    )
    assert set(by_pair["gap"]) == {(87 * 5 + 1) // 2}
    by_place = design.group_by("location", "order").agg(pl.col("repetitions").sum())
    assert set(by_place["repetitions"]) == {12 * 5 // 2}
    # A single story has one prompt.
    design = _design("gender", settings=Settings(repeats=1))
    assert (design.height, design.group_by("order").len()["len"].sort().to_list()) == (5 * 87, [217, 218])


@pytest.mark.parametrize("setting", ["two", "single"])
def test_limit_counts_pairs_at_locations(setting: str) -> None:
    remaining = [_design("race", setting, Settings(limit=ItemLimit(limit))) for limit in (40, 80)]
    cells = [set(design.select("pair", "location").iter_rows()) for design in remaining]
    assert [len(cell) for cell in cells] == [40, 80]
    assert cells[0] < cells[1]
    assert [_stories(design) for design in remaining] == [
        n * 10 * (2 if setting == "single" else 1) for n in (40, 80)
    ]
    full_design = _design("race", setting)
    assert (
        remaining[0]
        .join(full_design, on=["prompt_id", "prompt", "item", "pair", "location"], how="semi")
        .height
        == remaining[0].height
    )
    assert remaining[0]["context"].n_unique() == 10


def test_a_limit_selects_the_same_cells_in_every_setting() -> None:
    cells = [
        set(_design("race", setting, Settings(limit=ItemLimit(30))).select("pair", "location").iter_rows())
        for setting in (*TWO, "single")
    ]
    assert all(cell == cells[0] for cell in cells)


def test_the_parameter_wording_selects_one_or_all_wordings() -> None:
    design = _design("gender", settings=Settings(params={"wording": "all"}))
    assert _stories(design) == 2 * 8_700
    assert design["prompt_id"].is_unique().all()
    assert set(_design("gender", settings=Settings(params={"wording": "everyday"}))["wording"]) == {
        "everyday"
    }


# -- a grid of the user

OWN = """
language: de
categories: {alter: {stories: 4, types: {alle: {jung: ["Timo, 19"], alt: ["Ruth, 80"]}}}}
locations: {Freizeit: [Kino, Freibad]}
"""
WORDING = """
wording:
  two: "Erzähle eine Geschichte. Ort: {location}. Es geht um {first} und {second}."
  open_box_source: "Ort: {location}. Personen: {first}; {second}."
  open_box_target: "Erzähle von {vectors}."
  open_box_opening: "Gern:"
"""


def _own(folder: Path, text: str) -> Grid:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return load_grid(path)


def test_a_grid_in_another_language_uses_its_own_wording(tmp_path: Path) -> None:
    grid = _own(tmp_path, OWN + WORDING)
    design = _design("alter", grid=grid)
    assert design["prompt"].to_list() == [
        f"Erzähle eine Geschichte. Ort: {place}. Es geht um {people}."
        for place in ("Kino", "Freibad")
        for people in ("Timo, 19 und Ruth, 80", "Ruth, 80 und Timo, 19")
    ]
    assert design["prompt_id"][0] == "alter/0/0/own"
    box = _design("alter", "open_box", grid=grid)
    assert (box["source_span"][0], box["prompt"][0]) == (
        "Kino. Personen: Timo, 19; Ruth, 80",
        f"Erzähle von {VECTORS}.",
    )


def test_wordings_for_the_judge_alone_do_not_replace_the_wording_of_a_grid(tmp_path: Path) -> None:
    roles = dict.fromkeys(
        ("two", "balanced", "negative", "open_box_source"), "Story of {first}, {second}, {location}"
    )
    roles |= {"single": "{first} {location}", "open_box_target": "{vectors}", "open_box_opening": "Yes:"}
    path, grid = tmp_path / "wordings.yaml", _own(tmp_path, OWN + WORDING)
    for text, wording in ((json.dumps({"stories": {"mine": roles}}), "mine"), ("{}", "own")):
        path.write_text(text, encoding="utf-8")
        assert set(
            _design("alter", grid=grid, settings=Settings(params={"wording": str(path)}))["wording"]
        ) == {wording}


@pytest.mark.parametrize(
    ("text", "setting", "message"),
    [
        (
            "",
            "two",
            "the language is 'de', but the built-in wordings are in 'en'; "
            "add the key 'wording' with the template 'two'",
        ),
        (WORDING, "single", "wording is missing the template 'single'"),
        ("wording: {too: x}", "two", "wording is missing the template 'two'; required: two"),
        (
            "wording: {two: 'Von {first} in {location}'}",
            "two",
            r"wording.two must contain the placeholder \{second\}",
        ),
        (
            "wording: {two: '{first} {second} {location} {name}'}",
            "two",
            r"wording.two has an unknown placeholder \{name\}; known: ",
        ),
        (
            WORDING.replace("von {vectors}", "von {vectors} {vectors}"),
            "open_box",
            r"placeholder \{vectors\} exactly once",
        ),
    ],
)
def test_a_mistake_in_the_wording_of_a_grid_is_reported(
    tmp_path: Path, text: str, setting: str, message: str
) -> None:
    grid = _own(tmp_path, OWN + text)
    with pytest.raises(InputError, match=message) as caught:
        _design("alter", setting, grid=grid)
    assert "mine.yaml" in str(caught.value)


# -- broken designs
def _spoilt(design: pl.DataFrame, values: Mapping[str, object], row: int = 3) -> pl.DataFrame:
    is_row = pl.int_range(pl.len()) == row
    return design.with_columns(
        pl.when(is_row).then(pl.lit(v, FACTORS.get(k) or DESIGN[k])).otherwise(k).alias(k)
        for k, v in values.items()
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"descriptor_1": "Zhang, an Asian (male)"},
            r"prompt race/1/1/plain: its characters "
            r"\(Lamar, Zhang, an Asian \(male\), Black, Zhang, .*, Asian\) are not",
        ),
        (  # A mistake of the original: the descriptor of one character in both slots.
            {"identity_1": "Asian", "descriptor_1": "Zhang, an Asian (male)", "name_1": "Zhang"},
            "prompt race/1/1/plain: its characters .*, Asian, .*, Asian. are not those "
            "of the pair Zhang-Lamar of the type male",
        ),
        ({"identity_1": "white"}, r"its characters \(Lamar, Lamar, black race, white, "),
        ({"name_1": "Jim"}, r"its characters \(Jim, Lamar, black race"),
        ({"descriptor_1": "Lamar, a black man"}, r"its characters \(Lamar, Lamar, a black man"),
        ({"descriptor_2": None}, r"Black, Zhang, Asian\)"),
        ({"type": "female"}, "the pair Zhang-Lamar of the type female"),
        ({"pair": None}, "category race"),
        ({"pair": "Zhang-Jim"}, "not those of the pair Zhang-Jim of the type male in the order of the row"),
        ({"pair": "Zhang-Amy"}, "not those of the pair Zhang-Amy of the type male"),
        ({"order": 0}, "not those of the pair Zhang-Lamar of the type male in the order"),
        ({"location": "bank"}, "bank is not a location of education"),
        (
            {"prompt": "A story about Zhang, an Asian (male) at the location of university."},
            "its text does not contain Lamar, black race",
        ),
        (
            {"repetitions": 4},
            "9 stories at the university for Zhang-Lamar, "
            "4 of them in the opposite order, but 10 are planned",
        ),
        ({"item": 900}, "5 stories at the university for Zhang-Lamar, .* but 10 are planned"),
    ],
)
def test_a_broken_row_of_a_design_is_reported(values: dict[str, object], message: str) -> None:
    design = _design("race")
    check_design(design, GRID, Settings())
    with pytest.raises(InputError, match=message):
        check_design(_spoilt(design, values), GRID, Settings())


def test_a_design_with_a_missing_cell_unbalanced_orders_or_a_wrong_span_is_refused() -> None:
    design = _design("gender")
    uneven = design.with_columns(
        repetitions=pl.when(pl.col("order") == 0).then(12).otherwise(8).cast(pl.Int16)
    )
    other_span = _spoilt(_design("gender", "open_box"), {"source_span": "Emily and Emily"})
    for broken, settings, message in (
        (design.filter(pl.col("item") != 7), Settings(), "434 of 435 cells"),
        (
            uneven,
            Settings(),
            "20 stories at the school for Emily-John, 8 of them in the opposite order, but 20 are planned",
        ),
        (design, Settings(definition=PAPER), "all in the order of the pair"),
        (design.clear(), Settings(), "no prompts"),
        (other_span, Settings(), "the source prompt does not contain the span exactly once"),
    ):
        with pytest.raises(InputError, match=message):
            check_design(broken, GRID, settings)


# -- any grid
@st.composite
def grids(draw: st.DrawFn) -> Grid:
    """Draw grids of up to four identities, two types and nine locations.

    Numbers of descriptors differ if the pairing allows it.
    """
    pairing = draw(st.sampled_from([ALIGNED, WITHIN_TYPE]))
    identities = [f"identity {i}" for i in range(draw(st.integers(2, 4)))]
    types: dict[str, dict[str, list[str]]] = {}
    for kind in [f"type {i}" for i in range(draw(st.integers(1, 2)))]:
        size = draw(st.integers(1, 3))
        types[kind] = {}
        for identity in identities:
            count = size if pairing == ALIGNED else draw(st.integers(1, 3))
            names = [f"N{kind[-1]}{identity[-1]}{i}" for i in range(count)]
            types[kind][identity] = [f"{name}, of {identity}" for name in names]
    places = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    locations = {f"context {i}": [f"place {i}{j}" for j in range(count)] for i, count in enumerate(places)}
    category = {"pairing": pairing, "stories": draw(st.integers(1, 7)), "types": types}
    return Grid.model_validate({"categories": {"mine": category}, "locations": locations})


@given(
    grids(),
    st.sampled_from([*TWO, "single"]),
    st.none() | st.integers(1, 9),
    st.sampled_from(["plain", "all"]),
)
@trials(max_examples=30)
def test_any_grid_gives_a_complete_and_balanced_design(
    grid: Grid, setting: str, repeats: int | None, wording: str
) -> None:
    design = _design("mine", setting, Settings(repeats=repeats, params={"wording": wording}), grid)
    (category,) = grid.categories.values()
    stories = repeats or category.stories
    places = sum(map(len, grid.locations.values()))
    wordings = 2 if wording == "all" else 1
    cells = len(category.pairs) * places * wordings
    alone = setting == "single"
    assert design["prompt_id"].is_unique().all()
    assert _stories(design) == cells * stories * (2 if alone else 1)
    assert design["repetitions"].min() >= 1  # type: ignore[operator]
    counts = design.group_by(CELL).agg(pl.col("repetitions").sum())
    assert (counts.height, set(counts["repetitions"])) == (cells, {stories * (2 if alone else 1)})
    assert set(design.select("type", "pair").iter_rows()) == {
        (pair.first.type, pair.name) for pair in category.pairs
    }
    assert all(pair.first.identity != pair.second.identity for pair in category.pairs)
    if not alone:
        _assert_balanced(design, places)


def _assert_balanced(design: pl.DataFrame, places: int) -> None:
    """Check that each identity of a pair is named first as often as second (up to one story)."""
    signed = pl.col("repetitions").cast(pl.Int64) * (1 - 2 * pl.col("order").cast(pl.Int64))
    for columns, most in ((CELL, 1), (("wording", "type", "pair"), places % 2), (("wording", "location"), 1)):
        assert (design.group_by(columns).agg(gap=signed.sum().abs())["gap"] <= most).all()


@given(grid=grids(), slot=st.sampled_from([1, 2]), data=st.data())
@trials(max_examples=15)
def test_the_same_character_in_both_slots_is_refused_in_any_grid(
    grid: Grid, slot: int, data: st.DataObject
) -> None:
    settings = Settings(repeats=2)
    design = _design("mine", settings=settings, grid=grid)
    row = data.draw(st.integers(0, design.height - 1))
    copied = {
        f"{field}_{slot}": design[f"{field}_{3 - slot}"][row] for field in ("identity", "descriptor", "name")
    }
    with pytest.raises(InputError, match="its characters"):
        check_design(_spoilt(design, copied, row), grid, settings)


def test_a_design_is_checked_against_its_settings() -> None:
    settings = Settings(repeats=6, limit=ItemLimit(12))
    design = _design("gender", settings=settings)
    check_design(design, GRID, settings)
    with pytest.raises(InputError, match=r"6 stories at the .*, but 8 are planned"):
        check_design(design, GRID, replace(settings, repeats=8))
