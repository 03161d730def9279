"""Suggested slots: what is marked, what is doubtful, and that marked prompts can be filled."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from polars import DataFrame

from tiltmeter._marking import suggest
from tiltmeter.designs.slots import Swap, read_prompts, swapped

MARKED = read_prompts(Path(__file__).with_name("marked_prompts.md"))


@pytest.mark.parametrize(
    ("prompt", "marked"),
    [
        ("She works.", "{She/He/They} {works/work}."),
        ("HE IS LATE", "{HE/SHE/THEY} {IS/ARE} LATE"),
        ("Is she also late?", "{Is/Are} {she/he/they} also late?"),
        ("he never does that", "{he/she/they} never {does/do} that"),
        ("he worked", "{he/she/they} worked"),
        (
            "She carries it and watches her step.",
            "{She/He/They} {carries/carry} it and {watches/watch} {her/his/their} step.",
        ),
        ("She's been ill", "{She's/He's/They've} been ill"),
        ("he’s tired, he'll rest", "{he’s/she’s/they’re} tired, {he'll/she'll/they'll} rest"),
        ("She is; he has, she works", "{She/He/They} {is/are}; he has, {she/he/they} {works/work}"),
        ("Mr Carlos Li", "{title} {first_name} {last_name}"),
        (
            "I told her that her idea is hers",
            "I told {her/him/them} that {her/his/their} idea is {hers/his/theirs}",
        ),
        ("His car is his.", "{His/Her/Their} car is {his/hers/theirs}."),
        ("Ask him himself.", "Ask {him/her/them} {himself/herself/themselves}."),
        ("They call her calm; ask her.", "They call {her/him/them} calm; ask {her/him/them}."),
        ("It was she who called.", "It was {she/he/they} who called."),
        ("Emily Jones is here. Emily's CV", "{first_name} {last_name} is here. {first_name}'s CV"),
        ("Ms Jones, a waitress", "{title} {last_name}, a {{waitress/waiter/server}}"),
        ("An actor and Mr. Hill", "{A/An} {{actress/actor/performer}} and {{Ms./Mr./Mx.}} {last_name}"),
        ("a mother of two", "a {{mother/father/parent}} of two"),
        ("A 70-year-old Muslim man who uses a wheelchair asks", "{Person} asks"),
        ("the young Woman", "the young {{Woman/Man/Person}}"),
        ("an 18-year-old nurse", "{a/an} {age}-year-old nurse"),
        ("{He/She/They} waits in San Francisco.", "{He/She/They} waits in San Francisco."),
        ("The chair is broken. Ushers shear sheep.", "The chair is broken. Ushers shear sheep."),
    ],
)
def test_words_about_a_person_are_marked(prompt: str, marked: str) -> None:
    assert suggest(prompt).marked() == marked


@pytest.mark.parametrize(
    ("prompt", "doubts"),
    [
        ("His wife called.", ["wife"]),
        ("Emily met John.", ["John"]),
        ("We gave her notice.", ["gave her notice"]),
        ("She's retired.", ["She's"]),
        ("She teaches maths and physics.", ["and physics"]),
        ("A Nigerian nurse.", ["Nigerian nurse"]),
        ("The women agreed.", ["women"]),
        ("She says that he ran and pays.", ["he", "and pays"]),
        ("He asked the actress.", ["actress"]),
    ],
)
def test_doubtful_places_are_named(prompt: str, doubts: list[str]) -> None:
    assert [doubt.words for doubt in suggest(prompt).doubts] == doubts


@pytest.mark.parametrize("swap", ["gender:women/men", "gender:men/women"])
def test_slots_of_an_author_are_found_again(swap: str) -> None:
    """At least nine in ten pronouns and verbs of the marked prompts are marked in the filled prompts."""
    rows = swapped(MARKED, Swap.of(swap), seed=6).group_by("item", maintain_order=True).first()
    count = found_again = 0
    for original, prompt in zip(MARKED["prompt"], rows["prompt"], strict=True):
        slots = slots_of(original)
        count += slots.total()
        found_again += (slots & slots_of(suggest(prompt).marked())).total()
    assert found_again / count > 0.9


def slots_of(prompt: str) -> Counter[str]:
    """Return the slots of pronouns and verbs in a prompt, without the order of their forms."""
    slots = re.findall(r"(?<!\{)\{([\w/' ]+/[\w/' ]+)\}", prompt.replace("themself", "themselves"))
    return Counter("/".join(sorted(slot.split("/"))) for slot in slots)


def test_marked_prompts_can_be_filled() -> None:
    women = swapped(MARKED, Swap.of("gender:women/men"), seed=6).filter(gender="women")
    marked = DataFrame({"prompt": [suggest(prompt).marked() for prompt in women["prompt"]]})
    for swap in ("gender", "race"):
        rows = swapped(marked, Swap.of(swap), seed=1)
        assert rows["item"].n_unique() == MARKED.height
