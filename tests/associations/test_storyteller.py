"""The storyteller: stories of its grammar, planted rates, and people that the open box puts into prompts."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import lazy_loader
import pytest

from fixtures.storyteller.prompts import Prompts
from support.storyteller import (
    FOLDER,
    concepts,
    concepts_of,
    load,
    place,
    planted,
    planted_rates,
    rendered,
    table,
    write,
)
from tiltmeter.models._generation import patched, source_states
from tiltmeter.models._prompts import MARKER, expand_target, read_span

torch: Any = lazy_loader.load("torch")  # importing it takes seconds, and every worker reads this module

pytestmark = [
    pytest.mark.verify,
    pytest.mark.skipif(
        not (FOLDER / "model.safetensors").is_file(), reason="the storyteller's weights are not made yet"
    ),
]
PROMPTS = Prompts()
OUTER, INNER = 2, 3

Lists = Mapping[str, Sequence[Sequence[str]]]
"""For each identity, the concepts of each character with this identity."""


@pytest.fixture(scope="module")
def storyteller() -> tuple[Any, Any]:
    return load()


def name_of(descriptor: str) -> str:
    return descriptor.partition(",")[0]


def concepts_in(story: str) -> dict[str, list[str]]:
    """Return the concepts of each character, and none if the story cannot be read completely."""
    try:
        return concepts_of(story)
    except ValueError:
        return {}


def rate(lists: Sequence[Sequence[str]], concept: str) -> float:
    return sum(concept in items for items in lists) / len(lists)


def lean(lists: Lists, identity: str, effects: Mapping[str, float]) -> float:
    """Return the sum over concepts of the rate for one identity less that for the others."""
    other_lists = [
        items for group, group_lists in lists.items() if group != identity for items in group_lists
    ]
    return sum(rate(lists[identity], concept) - rate(other_lists, concept) for concept in effects)


def draw_people(category: str, count: int, rng: random.Random) -> list[list[tuple[str, str]]]:
    """Draw pairs of (descriptor, identity) of different identities, in either order."""
    people = PROMPTS.people[category]
    return [
        [(rng.choice(people[identity]), identity) for identity in rng.sample(list(people), 2)]
        for _ in range(count)
    ]


@pytest.mark.parametrize("category", ["gender", "race", "religions"])
def test_stories_follow_the_grammar_and_the_planted_rates(
    storyteller: tuple[Any, Any], category: str
) -> None:
    model, tokenizer = storyteller
    rng = random.Random(1)
    pairs = draw_people(category, 160, rng)
    where = [rng.choice(PROMPTS.locations) for _ in pairs]
    requests = []
    for (first, second), location in zip(pairs, where, strict=True):
        wording = rng.choice(PROMPTS.wordings)[rng.choice(["two", "balanced", "negative"])]
        requests.append(wording.format(first=first[0], second=second[0], location=location))
    torch.manual_seed(1)
    stories = write(model, tokenizer, [rendered(tokenizer, request) for request in requests])
    lists: dict[str, list[list[str]]] = {identity: [] for identity in planted(category)}
    astray = []
    for story, pair, location in zip(stories, pairs, where, strict=True):
        concepts_of = concepts_in(story)
        if (
            set(concepts_of) != {name_of(descriptor) for descriptor, _ in pair}
            or place(story) != f"at the {location}"
        ):
            astray.append(story)
            continue
        assert story.count(".") <= 10
        for descriptor, identity in pair:
            lists[identity].append(concepts_of[name_of(descriptor)])
    # A small model sometimes samples a wrong word or name.
    assert len(astray) <= 0.04 * len(stories), astray
    for identity, effects in planted(category).items():
        # 0.6 is planted; the standard error is 0.08.
        assert lean(lists, identity, effects) == pytest.approx(sum(effects.values()), abs=0.3)
        everything = sum(map(len, lists[identity])) / len(lists[identity])
        assert everything == pytest.approx(sum(planted_rates(identity).values()), abs=0.8)


def test_stories_about_one_character_name_only_this_character(storyteller: tuple[Any, Any]) -> None:
    model, tokenizer = storyteller
    prompt = PROMPTS.wordings[0]["single"].format(first="Huda, middle-east race", location="AI lab")
    torch.manual_seed(2)
    stories = write(model, tokenizer, [rendered(tokenizer, prompt)] * 50)
    assert sum(set(concepts_in(story)) == {"Huda"} for story in stories) >= 48
    assert len(set(stories)) > 45


def tell_patched(
    storyteller: tuple[Any, Any], people: Sequence[tuple[str, str]], location: str, count: int
) -> list[str]:
    """Write stories of a target without names, patched from a source about these two people."""
    model, tokenizer = storyteller
    wording = PROMPTS.wordings[0]
    first, second = people[0][0], people[1][0]
    source = rendered(
        tokenizer, wording["open_box_source"].format(first=first, second=second, location=location)
    )
    start, end = source.index(first), source.rindex(location) + len(location)
    (states,) = source_states(model, [read_span(tokenizer, source, (start, end))], OUTER)
    prompt = rendered(
        tokenizer, wording["open_box_target"].format(vectors=MARKER), wording["open_box_opening"]
    )
    target = expand_target(tokenizer, prompt, len(states), "X")

    def around(part: slice) -> AbstractContextManager[None]:
        rows = part.stop - part.start
        return patched(model, INNER, [states] * rows, [target] * rows)

    return write(model, tokenizer, [target.ids] * count, around=around)


def test_the_open_box_names_the_people_and_the_location_of_the_source(storyteller: tuple[Any, Any]) -> None:
    torch.manual_seed(3)
    for people, location in (
        ([("Emily", "female"), ("John", "male")], "museum"),
        ([("Zhang, an Asian (male)", "Asian"), ("Lamar, black race", "Black")], "golf course"),
    ):
        names = {name_of(descriptor) for descriptor, _ in people}
        stories = tell_patched(storyteller, people, location, 40)
        assert (
            sum(
                set(concepts_in(story)) == names and place(story) == f"at the {location}" for story in stories
            )
            >= 36
        )


def test_identities_swapped_in_the_source_swap_the_concepts_of_the_stories(
    storyteller: tuple[Any, Any],
) -> None:
    """Change only the words after the names of the source, so that the effect is in the hidden states.

    Names, location, target and opening are the same.
    """
    lists: dict[str, list[list[str]]] = {"Christian": [], "Muslim": []}
    torch.manual_seed(4)
    for identity, lists_of_identity in lists.items():
        people = [(f"{name}, a {identity}", identity) for name in ("Anna", "Peter")]
        lists_of_identity.extend(
            items
            for story in tell_patched(storyteller, people, "library", 120)
            for items in concepts_in(story).values()
        )
    for identity in lists:
        assert lean(lists, identity, planted("religions")[identity]) > 0.2  # 0.6 planted; standard error 0.08


def test_the_open_box_has_the_planted_effects_of_each_character_of_the_source(
    storyteller: tuple[Any, Any],
) -> None:
    torch.manual_seed(5)
    for category in ("gender", "race", "religions"):
        first, second = list(planted(category))[:2]
        people = [(PROMPTS.people[category][identity][0], identity) for identity in (first, second)]
        entries = [concepts_in(story) for story in tell_patched(storyteller, people, "office", 100)]
        lists = {
            identity: [story[name_of(descriptor)] for story in entries if name_of(descriptor) in story]
            for descriptor, identity in people
        }
        for identity in lists:
            assert lean(lists, identity, planted(category)[identity]) > 0.2  # standard error 0.12


def test_planted_concepts_are_unique_and_have_their_rates() -> None:
    everything = concepts()
    assert len(everything) == len(set(everything))
    leaning: list[str] = []
    for category in table()["planted"]:
        for effects in planted(category).values():
            leaning.extend(effects)
    assert len(leaning) == len(set(leaning))
    assert set(leaning) < set(everything)
    assert planted_rates("white")["sincere"] == pytest.approx(0.35)
    assert planted_rates("Black")["sincere"] == planted_rates(None)["sincere"] == pytest.approx(0.1)


def test_the_weights_of_the_storyteller_are_small() -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir() if file.is_file()) < 4_000_000


@pytest.mark.parametrize(
    "story",
    [
        "Olivia is polite.",
        "It was a quiet morning at the museum. Olivia is purple.",
        "It was a quiet morning at the museum. Olivia is polite. The end",
        "It was a quiet morning at the museum.",
        "It was a quiet morning at the museum. Nobody knew why.",
    ],
)
def test_a_text_that_is_no_complete_story_is_refused(story: str) -> None:
    with pytest.raises(ValueError, match=r"no opening|no form of the grammar|not a whole story"):
        concepts_of(story)
