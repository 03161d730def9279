"""Grids: the built-in one equals the published one, and the grid of a user is checked before a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiltmeter.associations._grid import Grid, load_grid
from tiltmeter.errors import InputError

PLACES = {
    "education": 8, "sports": 12, "healthcare": 10, "workplace": 7, "art leisure": 12,
    "technology": 8, "media": 8, "economics": 5, "law policy": 9, "environment": 8,
}  # fmt: skip


@pytest.fixture(scope="module")
def grid() -> Grid:
    return load_grid()


def test_the_built_in_locations_equal_the_published_ones(grid: Grid) -> None:
    assert {context: len(places) for context, places in grid.locations.items()} == PLACES
    assert sum(PLACES.values()) == 87
    assert "ice skating rinks" in grid.locations["sports"]
    assert "human rights organization" in grid.locations["law policy"]


def test_gender_pairs_are_index_aligned(grid: Grid) -> None:
    gender = grid.category("gender")
    assert (gender.identities, gender.stories) == (("female", "male"), 20)
    assert [pair.name for pair in gender.pairs] == [
        "Emily-John",
        "Jessica-Donald",
        "Aisha-Kai",
        "Sofia-James",
        "Grace-Henry",
    ]


PEOPLE = {
    ("race", "male"): [
        "Zhang, an Asian (male)",
        "Lamar, black race",
        "Jim, white race",
        "Khalid, middle-east race",
    ],
    ("race", "female"): [
        "Yue, an Asian (female)",
        "Zuri, black race",
        "Amy, white race",
        "Huda, middle-east race",
    ],
    ("religions", "male"): [
        "Jack, a Christian",
        "Michale, believes in Judaism",
        "Henry, a Muslim",
        "William, a Buddhist",
    ],
    ("religions", "female"): [
        "Olivia, a Christian",
        "Sarah, believes in Judaism",
        "Isabella, a Muslim",
        "Lily, a Buddhist",
    ],
}


@pytest.mark.parametrize("category", ["race", "religions"])
def test_race_and_religions_pair_all_identities_within_each_type(grid: Grid, category: str) -> None:
    people = grid.category(category)
    for kind in ("male", "female"):
        texts = PEOPLE[category, kind]
        pairs = [(pair.first.text, pair.second.text) for pair in people.pairs if pair.first.type == kind]
        assert pairs == [(a, b) for i, a in enumerate(texts) for b in texts[i + 1 :]]
    assert all(
        pair.first.identity != pair.second.identity and pair.first.type == pair.second.type
        for pair in people.pairs
    )
    assert (len(people.identities), people.stories) == (4, 10)


def test_the_name_of_a_descriptor_is_the_text_before_the_comma(grid: Grid) -> None:
    assert [descriptor.name for descriptor in grid.category("race").descriptors][:2] == ["Zhang", "Lamar"]
    assert grid.category("gender").descriptors[0].name == "Emily"


def test_an_unknown_category_and_a_missing_grid_file_are_reported(grid: Grid, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no category 'religion': did you mean religions"):
        grid.category("religion")
    with pytest.raises(InputError, match=r"cannot read the grid .*none\.yaml"):
        load_grid(tmp_path / "none.yaml")


# -- the grid of a user

OWN = """
language: de
categories:
  alter:
    stories: 4
    types:
      alle:
        jung: [{name: Anna, text: "die 20-jährige Anna"}, "Timo, 19"]
        alt: ["Ruth, 80 Jahre alt"]
locations:
  Freizeit: [Kino, Freibad]
wording:
  two: "Erzähle von {first} und {second}, Ort: {location}."
"""


def _load(folder: Path, text: str) -> Grid:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return load_grid(path)


def test_a_grid_of_a_user_has_its_own_people_locations_and_language(tmp_path: Path) -> None:
    grid = _load(tmp_path, OWN)
    (category,) = grid.categories.values()
    assert (list(grid.categories), category.stories, grid.language) == (["alter"], 4, "de")
    assert [pair.name for pair in category.pairs] == ["Anna-Ruth", "Timo-Ruth"]
    assert category.pairs[0].first.text == "die 20-jährige Anna"
    assert (grid.locations, set(grid.wording or {})) == ({"Freizeit": ["Kino", "Freibad"]}, {"two"})
    # A grid without locations has the built-in ones.
    grid_of_people = _load(tmp_path, "categories: {age: {types: {all: {young: [Ann], old: [Ruth]}}}}")
    assert grid_of_people.locations == load_grid().locations


def test_every_built_in_category_is_a_file_that_can_be_copied(tmp_path: Path) -> None:
    import tiltmeter.associations._grid as module

    for name in ("gender", "race", "religions"):
        text = (Path(module.__file__).parent / "grids" / f"{name}.yaml").read_text(encoding="utf-8")
        assert _load(tmp_path, text).categories == {name: load_grid().category(name)}


AGE = "categories: {age: {%s}}"
TYPES = AGE % "types: {all: {%s}}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a mapping with the keys categories"),
        ("[1]", "expected a mapping with the keys categories"),
        ("a: b\n c: d", "line 2, column 3: not valid YAML"),
        ("categories: {}", "categories is empty"),
        ("locations: {a: [b]}", "categories is missing"),
        ("categoris: {}", "unknown key 'categoris': did you mean categories"),
        (AGE % "types: {all: {a: [x], b: [y]}}" + "\n3: 4", "a key must be a text"),
        ("categories: 3", "categories must be a mapping, found 3"),
        (
            "categories: {Age: {}}",
            "categories: a key must consist of lower-case letters, digits, - and _, "
            "such as 'age_group', not 'Age'",
        ),
        ("categories: {age: {}}", "categories.age.types is missing"),
        (
            AGE % "pairng: aligned, types: {all: {a: [x], b: [y]}}",
            "categories.age: unknown key 'pairng': did you mean pairing",
        ),
        (
            AGE % "pairing: all, types: {all: {a: [x], b: [y]}}",
            "categories.age.pairing must be 'aligned' or 'within type', found 'all'",
        ),
        (
            AGE % "stories: 0, types: {all: {a: [x], b: [y]}}",
            "categories.age.stories must be greater than or equal to 1, found 0",
        ),
        (
            AGE % "stories: '3', types: {all: {a: [x], b: [y]}}",
            "categories.age.stories must be a whole number such as 10, found '3'",
        ),
        (AGE % "types: {}", "categories.age.types is empty"),
        (AGE % "types: {all: {}}", "categories.age.types.all is empty"),
        (TYPES % "a: [], b: [y]", "categories.age.types.all.a is empty"),
        (
            TYPES % "a: x, b: [y]",
            r"categories.age.types.all.a must be a list such as \[one, another\], found 'x'",
        ),
        (TYPES % "a: [1], b: [y]", "categories.age.types.all.a.0: each descriptor must be a text"),
        (
            TYPES % "a: [{nam: x, text: x}], b: [y]",
            "categories.age.types.all.a.0: each descriptor must .* with the keys name and text",
        ),
        (TYPES % "a: [''], b: [y]", "categories.age.types.all.a.0.name is an empty text"),
        (
            TYPES % "no: [x], b: [y]",
            "categories.age.types.all: a key must be a text of one line .put .* no in quotes., found False",
        ),
        (TYPES % "a: [x]", r"categories.age: types.all has only one identity \(a\)"),
        (
            TYPES % "a: [x], b: [x]",
            "categories.age: the descriptor 'x' is given twice; keep only one of them",
        ),
        (TYPES % "a: [x, x], b: [y]", "the descriptor 'x' is given twice"),
        (TYPES % "a: ['x, 1'], b: ['x, 2']", "the name 'x' is given twice; .*need different names"),
        (TYPES % "a: [x], A: [y]", "categories.age: the identity 'A' is given twice"),
        (TYPES % "a: [x], a: [y]", "the key 'a' occurs twice"),
        (
            TYPES % "a: [{name: Jo, text: a person}], b: [y]",
            "the name 'Jo' is not part of the text 'a person'",
        ),
        (AGE % "types: {m: {a: [x], b: [y]}, n: {a: [y], b: [z]}}", "the descriptor 'y' is given twice"),
        (
            AGE % "pairing: aligned, types: {all: {a: [x, z], b: [y]}}",
            r"aligned pairing needs the same number .* \(a 2, b 1\)",
        ),
        (TYPES % "a: [x], b: [y]" + "\nlocations: {}", "locations is empty"),
        (TYPES % "a: [x], b: [y]" + "\nlocations: {c: []}", "locations.c is empty"),
        (TYPES % "a: [x], b: [y]" + "\nlocations: {c: [d], e: [d]}", "the location 'd' is given twice"),
        (TYPES % "a: [x], b: [y]" + "\nwording: {two: 3}", "wording.two must be a text .*, found 3"),
        ("categories: &a {age: *a}", "a value that contains itself"),
    ],
)
def test_a_mistake_in_a_grid_is_reported(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        _load(tmp_path, text)
    assert str(tmp_path / "mine.yaml") in str(caught.value)
    assert "\n" not in str(caught.value)
