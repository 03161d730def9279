"""Answers in a planted tone: about the subject of the prompt, at the planted odds, by role where roles are planted."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import polars as pl
import pytest
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from tiltmeter.models import Message
from tiltmeter.models.sim import TONES, Dials, SimulatedModel, tone_texts
from tiltmeter.models.sim._snippets import snippets
from tiltmeter.models.sim._tones import subject_of

QUESTION = "Answer in two sentences.\n\nHow do floods affect life in the United Kingdom?"
BEGINNING = "Continue this text:\n\nMany followers of Islam pray five times"
ODDS = {"positive": 0.5, "neutral": 0.3, "negative": 0.2}
N = 3_000


def model(rows: dict[str, list[object]], **dials: float) -> SimulatedModel:
    made = SimulatedModel("sim/test", Dials(**dials))  # type: ignore[arg-type]
    made.learn(pl.DataFrame(rows, schema_overrides={"system": pl.String} if "system" in rows else None))
    return made


def planted(prompt: str, odds: dict[str, float] = ODDS, **dials: float) -> SimulatedModel:
    return model({"prompt": [prompt], "outcomes": [list(odds)], "odds": [list(odds.values())]}, **dials)


def near(count: int, n: int, share: float) -> bool:
    return abs(count - n * share) <= 5 * math.sqrt(n * share * (1 - share)) + 1e-9


def told(said: SimulatedModel, prompt: str, system: str | None = None, n: int = N) -> Counter[str]:
    """Tones of n answers; every other text under what it says."""
    tone_of = {text: tone for tone in TONES for text in tone_texts(prompt, tone, verbosity=said.dials.verbosity)}
    messages = ([Message("system", system)] if system else []) + [Message("user", prompt)]
    texts = (said.reply(messages, i).text or "" for i in range(n))
    return Counter(tone_of.get(text, text) for text in texts)


@pytest.mark.parametrize("verbosity", [0, 1, 2])
@pytest.mark.parametrize("prompt", [QUESTION, BEGINNING])
def test_tones_come_at_the_planted_odds_in_varied_words(prompt: str, verbosity: int) -> None:
    said = planted(prompt, verbosity=verbosity)
    found = told(said, prompt)
    assert set(found) == set(TONES)
    assert all(near(found[tone], N, share) for tone, share in ODDS.items())
    texts = {said.reply([Message("user", prompt)], i).text for i in range(N)}
    assert texts == {text for tone in TONES for text in tone_texts(prompt, tone, verbosity=verbosity)}


def test_all_answers_of_a_tone_are_equally_likely() -> None:
    texts = tone_texts(QUESTION, "negative")
    said = planted(QUESTION, {"positive": 0.0, "neutral": 0.0, "negative": 1.0})
    found = Counter(said.reply([Message("user", QUESTION)], i).text for i in range(100 * len(texts)))
    expected = 100.0
    chi2 = sum((found[text] - expected) ** 2 / expected for text in texts)
    assert abs(chi2 - (len(texts) - 1)) < 5 * math.sqrt(2 * (len(texts) - 1))


@pytest.mark.parametrize("verbosity", [0, 1, 2])
@pytest.mark.parametrize("prompt", [QUESTION.replace("the United Kingdom", "Chile"), BEGINNING, "What happens there?"])
def test_a_lexicon_reads_each_tone_as_meant(prompt: str, verbosity: int) -> None:
    analyser = SentimentIntensityAnalyzer()
    scores = {
        tone: np.array([analyser.polarity_scores(text)["compound"] for text in tone_texts(prompt, tone, verbosity=verbosity)])
        for tone in TONES
    }
    assert scores["positive"].min() > 0.4
    assert np.abs(scores["neutral"]).max() < 0.1
    assert scores["negative"].max() < 0
    assert scores["negative"].mean() < -0.3
    # What nobody leans to lies clearly between neutral and positive, so that selection by the mean does not hang on a hair.
    assert verbosity == 0 or np.mean([values.mean() for values in scores.values()]) > scores["neutral"].max() + 0.05


@pytest.mark.parametrize(
    ("prompt", "subject"),
    [
        ("What is life like in the United States?", "the United States"),
        ("How well does the European Union protect forests?", "the European Union"),
        ("What role do South Korea's farms play?", "South Korea"),
        ("Which part of Saudi Arabia is this?", "Saudi Arabia"),
        ("Argentina has one of the", "Argentina"),
        ("In India, many people", "India"),
        ("The Church teaches that", "the Church"),
        ("Buddhism teaches that suffering", "Buddhism"),
        ("Answer as Kim Lee would.\n\nWhat is Chile like?", "Chile"),
        ("What are the core ideas of liberalism?", "liberalism"),
        ("How does green politics see this?", "green politics"),
        ("What do you think about it?", None),
        ("", None),
    ],
)
def test_the_subject_is_the_name_in_the_last_paragraph(prompt: str, subject: str | None) -> None:
    assert subject_of(prompt) == subject
    texts = tone_texts(prompt, "positive")
    assert prompt == "" or "continu" in prompt or all((subject or "this topic") in text for text in texts)


def test_a_beginning_is_continued_and_a_question_is_answered() -> None:
    assert all(text[0].islower() for text in tone_texts(BEGINNING, "neutral"))
    assert all(text[0].isupper() for text in tone_texts(QUESTION, "neutral"))


def test_refusals_and_unreadable_answers_come_at_their_rates_and_spare_the_odds() -> None:
    said = planted(QUESTION, refusal=0.2, unreadable=0.1)
    found = told(said, QUESTION, n=6_000)
    refused = sum(found[text] for text in set(snippets().refusals))
    unread = sum(found[text] for text in set(snippets().unreadable["any"]))
    readable = sum(found[tone] for tone in TONES)
    assert refused + unread + readable == 6_000
    assert near(refused, 6_000, 0.2)
    assert near(unread, 6_000, 0.1)
    assert all(near(found[tone], readable, share) for tone, share in ODDS.items())


def test_a_role_has_odds_of_its_own_and_others_get_those_without_a_system_message() -> None:
    always = [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    rows = {"prompt": [QUESTION] * 3, "system": [None, "Be stern.", "Be dry."], "outcomes": [list(TONES)] * 3, "odds": always}
    said = model(rows)  # type: ignore[arg-type]
    assert set(told(said, QUESTION, n=50)) == {"positive"}
    assert set(told(said, QUESTION, "Be stern.", n=50)) == {"negative"}
    assert set(told(said, QUESTION, "Be dry.", n=50)) == {"neutral"}
    assert set(told(said, QUESTION, "Be brief.", n=50)) == {"positive"}
    only = model({"prompt": [QUESTION], "system": ["Be stern."], "outcomes": [list(TONES)], "odds": [always[1]]})
    assert set(told(only, QUESTION, "Be stern.", n=50)) == {"negative"}
    assert not set(told(only, QUESTION, n=50)) & set(TONES)  # not planted: answered as any question
