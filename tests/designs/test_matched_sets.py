"""Properties of all matched sets, and the grammar of real-looking prompts."""

from __future__ import annotations

import re
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st
from polars import DataFrame

from tiltmeter.designs.slots import LISTS, Swap, built_in_list, read_prompts, swapped

MARKED = read_prompts(Path(__file__).with_name("marked_prompts.md"))
SWAPS = [*LISTS, "race,gender", "age,religion", "gender:women/men"]
PRONOUNS = (
    ("she", "he", "they"), ("her", "him", "them"), ("her", "his", "their"), ("hers", "his", "theirs"),
    ("herself", "himself", "themselves"), ("she's", "he's", "they're"), ("she's", "he's", "they've"),
)  # fmt: skip
WRONG = (
    r"\b[Tt]hey (?:is|has|was|does|works|isn't|hasn't|doesn't|\w+es)\b",
    r"\b(?:[Ii]s|[Hh]as|[Dd]oes) they\b",
    r"\bthey's\b",
    r"\b(?:[Ss]he|[Hh]e) (?:are|have|were|do|don't|haven't)\b",
    r"\b(?:Are|Do|Have) (?:she|he)\b",
    r"\b[Aa] (?:[AEIOaeio]|18|8\d)",
    r"\b[Aa]n (?:[^AEIOUaeiou18\s]|1[0-79])",
    r"\b[Aa]n? an? ",
    r"[ ]{2}| [.,;:!?]",
    r"[.!?] (?:an?|they|she|he) ",
    r"\b(?:to|of|for|with) (?:he|she|they)\b",
    r"\b(?:who|whose) \w+ (?:\w+ ){0,3}(?<!and )who\b",
    r"\{(?!\")|\}(?!$|\.)",
)
"""Mistakes that filled prompts had, or might have."""
TEXTS = st.text(st.characters(exclude_characters="{}", exclude_categories=("Cs", "Cc")), max_size=30)
CLEAN_SLOTS = st.sampled_from(["{first_name}", "{last_name}", "{title}", "{him/her/them}", "{Her/Him}"])


@pytest.mark.parametrize("swap", SWAPS)
def test_real_prompts_are_grammatical(swap: str) -> None:
    rows = swapped(MARKED, Swap.of(swap), seed=4)
    for prompt in rows["prompt"]:
        text = re.sub(r"Return JSON such as .*?}\.", "", prompt)
        for pattern in WRONG:
            match = re.search(pattern, text.replace("e.g. ", ""))
            assert match is None, f"{match} in {prompt!r}"


@pytest.mark.parametrize("swap", SWAPS)
def test_each_set_has_every_group_once(swap: str) -> None:
    rows = swapped(MARKED, Swap.of(swap), seed=4)
    attributes = [piece.partition(":")[0] for piece in swap.split(",")]
    combinations = rows.select(attributes).unique().height
    assert rows.height == MARKED.height * combinations
    assert rows.select("item", *attributes).n_unique() == rows.height
    assert rows["prompt"].n_unique() == rows.height


def test_the_seed_decides_and_later_prompts_change_nothing() -> None:
    swap = Swap.of("race,gender")
    rows = swapped(MARKED, swap, seed=9)
    assert swapped(MARKED, swap, seed=9).equals(rows)
    assert not swapped(MARKED, swap, seed=10).equals(rows)
    beginning = swapped(MARKED.head(5), swap, seed=9)
    assert beginning["prompt"].to_list() == rows["prompt"].head(beginning.height).to_list()


@pytest.mark.parametrize("forms", PRONOUNS)
@pytest.mark.parametrize("swap", ["gender", "race"])
def test_the_order_of_forms_means_nothing(forms: tuple[str, ...], swap: str) -> None:
    prompts = {
        tuple(
            swapped(
                DataFrame({"prompt": [f"It: {{{'/'.join(order)}}} or {{person}}"]}), Swap.of(swap), seed=2
            )["prompt"]
        )
        for order in permutations(forms)
    }
    assert len(prompts) == 1


@settings(max_examples=150)
@given(st.lists(st.tuples(TEXTS, CLEAN_SLOTS), min_size=1, max_size=5), TEXTS, st.integers(0, 5))
@example([("", "{first_name}")], "A", 0)
def test_nothing_outside_slots_changes(pieces: list[tuple[str, str]], end: str, seed: int) -> None:
    marked = "".join(text + slot for text, slot in pieces) + end
    rows = swapped(DataFrame({"prompt": [f"{marked}. {{person}}"]}), Swap.of("race,gender"), seed=seed)
    texts = [re.escape(text) for text, _ in pieces]
    pattern = r"[\w'-]+".join([*texts, re.escape(end)])
    for prompt in rows["prompt"]:
        assert re.match(pattern, prompt) is not None


@pytest.mark.parametrize("attribute", LISTS)
def test_lists_state_their_origin(attribute: str) -> None:
    groups = built_in_list(attribute)
    assert len(groups.origin) > 40
    assert len(groups.groups) >= 3


def test_lists_of_names_are_long_and_have_no_name_twice() -> None:
    from tiltmeter.designs.slots._lists import first_names, last_names

    for race in (None, *built_in_list("race").groups):
        for pronoun in ("she", "he", "they"):
            names = first_names(pronoun, race)
            assert len(names) >= 20
            assert len(set(names)) == len(names)
        assert len(set(last_names(race))) == len(last_names(race)) >= 20


def test_prompts_are_read_from_files_folders_and_tables(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("one\n\n  two \n", encoding="utf-8")
    assert read_prompts(tmp_path / "lines.txt")["prompt"].to_list() == ["one", "two"]
    (tmp_path / "parts.md").write_bytes(b"\xef\xbb\xbfone\r\nline\r\n---\r\n\r\ntwo\r\n-----\r\n")
    assert read_prompts(tmp_path / "parts.md")["prompt"].to_list() == ["one\nline", "two"]
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "b.txt").write_text("second\nline\n")
    (folder / "a.txt").write_text("first")
    assert read_prompts(folder).to_dict(as_series=False) == {
        "prompt": ["first", "second\nline"],
        "file": ["a.txt", "b.txt"],
    }
    (tmp_path / "table.csv").write_text("prompt,expected\nhello,yes\n")
    assert read_prompts(tmp_path / "table.csv").columns == ["prompt", "expected"]
