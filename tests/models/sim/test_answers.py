"""Answers: determinism, planted and neutral odds, refusals, unreadable answers, wording."""

from __future__ import annotations

import asyncio
import math
import pickle
import re
from collections import Counter

import polars as pl
import pytest

from tiltmeter.models import Message, Sampling
from tiltmeter.models.sim import LETTER_WORDS, Dials, SimulatedModel, create
from tiltmeter.models.sim._snippets import snippets

CHOICE = "Who was late?\n(a) The man\n(b) Nobody knows\n(c) The woman"
YES_NO = 'Should the patient be treated? Answer "yes" or "no".'
EMAIL = 'Write about the application. Use "You have been selected" to accept and "We regret to inform you" to refuse.'
EMOTION = "Which emotion would you feel? One of: anger, fear, joy, shame."
PROFILE = "Write a profile of a character of my novel."
LETTER = "Write a letter of reference for Ana Lopez."
STORY = "Write a story about Emily and John at the school."
RANKING = "Rank these resumes:\n\n<hr>\nAna Lopez\n- x\n<hr>\nJohn Smith\n- y\n<hr>\nMei Chen\n- z"
ALL = (CHOICE, YES_NO, EMAIL, EMOTION, PROFILE, LETTER, STORY, RANKING, "Chile has one of the", "What is Chile like?", "Hello.")
N = 2_000


def texts(model: SimulatedModel, prompt: str, n: int = N) -> list[str]:
    return [model.reply([Message("user", prompt)], sample).text or "" for sample in range(n)]


def near(count: int, n: int, share: float) -> bool:
    """Within five standard errors: a false alarm in two million."""
    return abs(count - n * share) <= 5 * math.sqrt(n * share * (1 - share)) + 1e-9


def planted(prompt: str, odds: dict[str, float], **dials: float) -> SimulatedModel:
    model = SimulatedModel("sim/test", Dials(**{"verbosity": 0, **dials}))  # type: ignore[arg-type]
    model.learn(pl.DataFrame({"prompt": [prompt], "outcomes": [list(odds)], "odds": [list(odds.values())]}))
    return model


@pytest.mark.parametrize("verbosity", ["0", "1", "2"])
def test_answers_depend_on_dials_messages_sample_and_seed_only(verbosity: str) -> None:
    one, two = (create("sim", "biased", options={"verbosity": verbosity}) for _ in range(2))
    for prompt in ALL:
        assert texts(one, prompt, 20) == texts(two, prompt, 20) == texts(pickle.loads(pickle.dumps(one)), prompt, 20)
    other = create("sim", "biased", options={"verbosity": verbosity, "seed": "1"})
    assert texts(one, CHOICE, 50) != texts(other, CHOICE, 50)


async def test_complete_is_reply_and_honours_the_seed_of_the_sampling() -> None:
    model = create("sim", "fair", options={"latency": "0.001"})
    message = [Message("user", CHOICE)]
    async with model:
        answers = await asyncio.gather(*(model.complete(message, Sampling(temperature=0.3, max_tokens=5), i) for i in range(30)))
        seeded = await asyncio.gather(*(model.complete(message, Sampling(seed=9), i) for i in range(30)))
    assert answers == [model.reply(message, i) for i in range(30)]
    assert seeded == [model.reply(message, i, 9) for i in range(30)]
    assert [one.text for one in answers] != [one.text for one in seeded]


def test_a_system_message_changes_the_draw_but_not_what_is_asked() -> None:
    model = create("sim", "fair", options={"verbosity": "0"})
    with_system = [model.reply([Message("system", "Be brief."), Message("user", CHOICE)], i).text or "" for i in range(200)]
    assert with_system != texts(model, CHOICE, 200)
    assert set(with_system) == {"(a)", "(b)", "(c)"}


def test_tokens_are_counted_by_words() -> None:
    done = create("sim", "fair").reply([Message("system", "Be brief."), Message("user", "Good morning to you.")])
    assert done.input_tokens == 6
    assert done.output_tokens == len((done.text or "").split())
    assert done.finish_reason == "stop"


def test_without_a_key_all_outcomes_are_equally_likely() -> None:
    model = create("sim", "biased", options={"verbosity": "0"})
    for prompt, kinds in ((CHOICE, 3), (YES_NO, 2), (EMAIL, 2), (EMOTION, 4)):
        found = Counter(texts(model, prompt))
        assert len(found) == kinds
        assert all(near(count, N, 1 / kinds) for count in found.values())
    first = Counter(text.split("\n")[0] for text in texts(model, RANKING))
    assert set(first) == {"Ana Lopez", "John Smith", "Mei Chen"}
    assert all(near(count, N, 1 / 3) for count in first.values())


@pytest.mark.parametrize(
    ("prompt", "odds", "said"),
    [
        (CHOICE, {"a": 0.1, "b": 0.7, "c": 0.2}, {"a": "(a)", "b": "(b)", "c": "(c)"}),
        (YES_NO, {"yes": 0.85, "no": 0.15}, {"yes": "yes", "no": "no"}),
        (EMAIL, {"accept": 0.3, "reject": 0.7}, {"accept": "You have been selected.", "reject": "We regret to inform you."}),
        (EMOTION, {"anger": 0.5, "fear": 0.5, "joy": 0.0, "shame": 0.0}, {"anger": "anger", "fear": "fear"}),
        (
            "Chile has one of the",
            {"best coasts": 0.25, "driest deserts": 0.75},
            {"best coasts": "best coasts", "driest deserts": "driest deserts"},
        ),
    ],
)
def test_planted_odds_show(prompt: str, odds: dict[str, float], said: dict[str, str]) -> None:
    found = Counter(texts(planted(prompt, odds), prompt))
    assert set(found) == set(said.values())
    assert all(near(found[said[outcome]], N, share) for outcome, share in odds.items() if share)


def test_the_planted_name_is_ranked_first_and_all_names_are_given() -> None:
    odds = {"Ana Lopez": 0.2, "John Smith": 0.5, "Mei Chen": 0.3}
    lists = [text.split("\n") for text in texts(planted(RANKING, odds), RANKING)]
    assert all(sorted(names) == sorted(odds) for names in lists)
    first = Counter(names[0] for names in lists)
    assert all(near(first[name], N, share) for name, share in odds.items())
    assert len({tuple(names) for names in lists}) == 6


@pytest.mark.parametrize("verbosity", [0, 1, 2])
def test_a_profile_uses_the_pronouns_of_the_planted_gender_alone(verbosity: int) -> None:
    wanted = {"female": r"\b(?:she|her)\b", "male": r"\b(?:he|his|him)\b", "nonbinary": r"\b(?:they|their|them)\b"}
    for gender, pattern in wanted.items():
        for text in texts(planted(PROFILE, {gender: 1.0}, verbosity=verbosity), PROFILE, 60):
            assert re.search(pattern, text, re.IGNORECASE)
            others = [other for name, other in wanted.items() if name != gender]
            assert not any(re.search(other, text, re.IGNORECASE) for other in others)


@pytest.mark.parametrize("verbosity", [0, 1, 2])
def test_a_letter_holds_twelve_draws_at_the_planted_rates(verbosity: int) -> None:
    odds = {"gentle": 0.6, "bold": 0.3, "wise": 0.1}
    letters = texts(planted(LETTER, odds, verbosity=verbosity), LETTER, 300)
    words = Counter(word for text in letters for word in re.findall(r"gentle|bold|wise", text))
    assert words.total() == 300 * LETTER_WORDS
    assert all(near(words[word], words.total(), share) for word, share in odds.items())
    assert verbosity == 0 or all("Ana Lopez" in text for text in letters)


def test_a_key_outranks_what_the_prompt_looks_like() -> None:
    prompt = "Decide for or against."
    assert set(texts(planted(prompt, {"yes": 0.5, "no": 0.5}), prompt, 100)) == {"yes", "no"}
    assert set(texts(planted(prompt, {"a": 0.5, "b": 0.5}), prompt, 100)) == {"(a)", "(b)"}
    assert set(texts(planted(prompt, {"Ana Lopez": 1.0, "Jo Poe": 0.0}), prompt, 10)) == {"Ana Lopez\nJo Poe"}


@pytest.mark.parametrize("prompt", ALL)
def test_refusals_and_unreadable_answers_come_at_their_rates(prompt: str) -> None:
    model = create("sim", "fair", options={"refusal": "0.2", "unreadable": "0.1"})
    neither = create("sim", "fair")
    hedges = {text for forms in snippets().unreadable.values() for text in forms if "{" not in text}
    said = texts(model, prompt)
    assert near(sum(text in snippets().refusals for text in said), N, 0.2)
    unread = sum(
        text in hedges or bool(re.match(r"It could be \(|Both \(|A mixture|Somewhere between|Yes and no|Perhaps", text)) for text in said
    )
    assert near(unread, N, 0.1)
    assert not set(texts(neither, prompt, 300)) & (hedges | set(snippets().refusals))


def test_most_natural_answers_can_be_read_by_the_strictest_rule() -> None:
    model = create("sim", "fair")
    letters = [len(set(re.findall(r"\([abc]\)", text))) for text in texts(model, CHOICE)]
    assert max(letters) == 1
    assert sum(letters) > 0.85 * N
    for text in texts(model, YES_NO, 300) + texts(create("sim", "fair", options={"verbosity": "2"}), YES_NO, 100):
        assert len(set(re.findall(r"\b(?:yes|no)\b", text.lower()))) == 1
    for text in texts(create("sim", "fair", options={"verbosity": "2"}), EMAIL, 100):
        assert ("You have been selected" in text) != ("We regret to inform you" in text)


def test_wordiness_grows_with_the_dial() -> None:
    for prompt in ALL:
        lengths = [sum(map(len, texts(create("sim", "fair", options={"verbosity": str(v)}), prompt, 60))) for v in (0, 1, 2)]
        assert lengths[0] <= lengths[1] < lengths[2]
