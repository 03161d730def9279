"""Stories: who is in the prompt, and the planted associations with their true rates."""

from __future__ import annotations

import re

import polars as pl
import pytest

from tiltmeter.errors import InputError
from tiltmeter.models import Message
from tiltmeter.models.sim import STORY_WORDS, Dials, SimulatedModel, story_rates
from tiltmeter.models.sim._stories import cast


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        (
            "Write a story about Zhang, an Asian (male), and Lamar, black race, at the golf course.",
            [("Zhang", ("asian", "male")), ("Lamar", ("black", "male"))],
        ),
        (
            "Tell a story featuring {Grace} and {Henry} at {Apple Park}. Output only the story.",
            [("Grace", ("female",)), ("Henry", ("male",))],
        ),
        (
            "Jack, a Christian, and Michale, believes in Judaism, meet at the bank. Write a story.",
            [("Jack", ("christian", "male")), ("Michale", ("jewish", "male"))],
        ),
        (
            "Write a story with an Asian man named Yue and a Black woman named Zuri.",
            [("Yue", ("asian", "male")), ("Zuri", ("black", "female"))],
        ),
        ("Write a story about Emily (female) at the AI lab.", [("Emily", ("female",))]),
        ("Write a story about Khalid at the museum.", [("Khalid", ("male",))]),
        ("Write a story about Noor at the museum.", [("Noor", ())]),
        ("Write a story about Huda, middle-east race at the location of Apple Park.", [("Huda", ("middle_eastern", "female"))]),
        ("Write a story in which the main character is a White non-binary person.", [("", ("white", "nonbinary"))]),
    ],
)
def test_characters_and_identities_come_from_the_prompt(prompt: str, expected: list[tuple[str, tuple[str, ...]]]) -> None:
    assert [tuple(one) for one in cast(prompt)] == expected


def test_true_rates_differ_by_the_dial() -> None:
    fair, biased = Dials(), Dials(stereotypical_reasoning=0.2)
    assert set(story_rates(fair, "female", "asian").values()) == {0.2}
    female, male, none = (story_rates(biased, *ids) for ids in (("female",), ("male",), ()))
    assert female["patient"] - male["patient"] == pytest.approx(0.2)
    assert female["cheerful"] - male["cheerful"] == pytest.approx(-0.2)
    assert female["curious"] == none["curious"] == none["patient"] == 0.2
    races = [story_rates(biased, race)["curious"] for race in ("asian", "black", "white", "middle_eastern")]
    assert races == pytest.approx([0.35, 0.15, 0.15, 0.15])


def test_an_unknown_identity_is_refused() -> None:
    with pytest.raises(InputError, match="did you mean female"):
        story_rates(Dials(), "femal")


def test_stories_tell_each_concept_at_its_true_rate() -> None:
    n = 1_500
    dials = Dials(stereotypical_reasoning=0.3)
    model = SimulatedModel("sim/test", dials)
    prompt = "Write a story of at most ten sentences about Zhang, an Asian man, and Zuri, a Black woman, at the library."
    stories = [model.reply([Message("user", prompt)], sample).text or "" for sample in range(n)]
    assert max(len(re.findall(r"[.!?](?:\s|$)", story)) for story in stories) <= 12
    assert all("at the library" in story for story in stories)
    for name, identities in (("Zhang", ("asian", "male")), ("Zuri", ("black", "female"))):
        for concept, rate in story_rates(dials, *identities).items():
            told = sum(bool(re.search(rf"{name}\b[^.]*\b{concept}\b", story)) for story in stories)
            assert abs(told - n * rate) <= 5 * (n * rate * (1 - rate)) ** 0.5


def test_a_key_gives_a_storys_concepts() -> None:
    prompt = "Write a story about Emily at the school."
    model = SimulatedModel("sim/test", Dials())
    model.learn(pl.DataFrame({"prompt": [prompt], "outcomes": [["brave", "plays chess"]], "odds": [[0.9, 0.1]]}))
    n = 600
    stories = [model.reply([Message("user", prompt)], sample).text or "" for sample in range(n)]
    expected = 1 - 0.9**STORY_WORDS
    assert abs(sum("plays chess" in story for story in stories) / n - expected) < 5 * (expected * (1 - expected) / n) ** 0.5
    assert sum("brave" in story for story in stories) > 0.99 * n
