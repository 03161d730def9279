"""Answers: determinism, planted odds in every form, refusals, unreadable answers, plans that are refused."""

from __future__ import annotations

import asyncio
import math
import pickle
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from tiltmeter.models import Message, Sampling
from tiltmeter.models._answer_texts import LETTER_WORDS, AnswerPlan, Draws, answer_text, default_form
from tiltmeter.models.sim import TONES, Dials, SimulatedModel, create, tone_texts

PROMPT = "What is asked here does not matter?"
NAMES = {"Ana Lopez": 0.2, "John Smith": 0.5, "Mei Chen": 0.3}
TONE_ODDS = {"positive": 0.5, "neutral": 0.3, "negative": 0.2}
LETTER = {f"word{i:c}": (1 + i % 3) / 32 for i in range(97, 113)}
FORMS: dict[str, tuple[dict[str, float], str | None]] = {
    "choice": ({"a": 0.1, "b": 0.7, "c": 0.2}, None),
    "word": ({"yes": 0.85, "no": 0.15}, None),
    "emotion": ({"anger": 0.5, "fear": 0.3, "joy": 0.2}, None),
    "decision": ({"accept": 0.3, "reject": 0.7}, None),
    "profile": ({"female": 0.5, "male": 0.3, "nonbinary": 0.2}, None),
    "ranking": (NAMES, None),
    "letter": ({word: odds / sum(LETTER.values()) for word, odds in LETTER.items()}, None),
    "text": ({"best coasts": 0.25, "driest deserts": 0.75}, None),
    "tone": (TONE_ODDS, "the United Kingdom"),
    "continuation": (TONE_ODDS, "Islam"),
    "story": ({"brave": 0.5, "plays chess": 0.5}, "Emily"),
}
N = 1_000


def planted(
    odds: dict[str, float] | None, form: str | None = None, about: str | None = None, **dials: Any
) -> SimulatedModel:
    model = SimulatedModel("sim/test", Dials(**{"verbosity": 0, **dials}))
    if odds is not None:
        row = {
            "prompt": PROMPT,
            "outcomes": list(odds),
            "odds": list(odds.values()),
            "form": form,
            "about": about,
        }
        model.learn(pl.DataFrame([row], schema_overrides={"form": pl.String, "about": pl.String}))
    return model


def in_form(form: str, **dials: Any) -> SimulatedModel:
    odds, about = FORMS[form]
    return planted(odds, form if form in ("continuation", "story") else None, about, **dials)


def texts(model: SimulatedModel, n: int = N, system: str | None = None) -> list[str]:
    messages = ([Message("system", system)] if system else []) + [Message("user", PROMPT)]
    return [model.reply(messages, sample).text or "" for sample in range(n)]


def near(count: int, n: int, share: float) -> bool:
    """Within five standard errors: a false alarm in two million."""
    return abs(count - n * share) <= 5 * math.sqrt(n * share * (1 - share)) + 1e-9


@pytest.mark.parametrize("verbosity", [0, 1, 2])
def test_answers_depend_on_dials_messages_sample_and_seed_only(verbosity: int) -> None:
    for form in FORMS:
        first, second = in_form(form, verbosity=verbosity), in_form(form, verbosity=verbosity)
        assert texts(first, 10) == texts(second, 10) == texts(pickle.loads(pickle.dumps(first)), 10)
    assert texts(in_form("choice"), 50) != texts(in_form("choice", seed=1), 50)
    assert len(set(texts(in_form("choice"), 50))) == 3


async def test_complete_is_reply_and_honours_the_seed_of_the_sampling() -> None:
    model = in_form("choice")
    model.latency = 0.001
    message = [Message("user", PROMPT)]
    async with model:
        answers = await asyncio.gather(
            *(model.complete(message, Sampling(temperature=0.3, max_tokens=5), i) for i in range(30))
        )
        seeded = await asyncio.gather(*(model.complete(message, Sampling(seed=9), i) for i in range(30)))
    assert answers == [model.reply(message, i) for i in range(30)]
    assert seeded == [model.reply(message, i, 9) for i in range(30)]
    assert [answer.text for answer in answers] != [answer.text for answer in seeded]


def test_a_system_message_changes_the_draw_but_not_the_plan() -> None:
    answers = texts(in_form("choice"), 200, "Be brief.")
    assert answers != texts(in_form("choice"), 200)
    assert set(answers) == {"(a)", "(b)", "(c)"}


def test_tokens_are_counted_by_words() -> None:
    done = create("sim", "fair").reply(
        [Message("system", "Be brief."), Message("user", "Good morning to you.")]
    )
    assert (done.input_tokens, done.output_tokens, done.finish_reason) == (
        6,
        len((done.text or "").split()),
        "stop",
    )


def test_a_model_with_plans_has_another_fingerprint() -> None:
    model = planted(None)
    before = model.fingerprint
    assert before == planted(None).fingerprint
    assert in_form("choice").fingerprint == f"{before} planted"


def test_draws_repeat_and_are_uniform() -> None:
    draws = Draws(b"x")
    units = [draws.unit() for _ in range(20_000)]
    again = Draws(b"x")
    assert units[:50] == [again.unit() for _ in range(50)]
    assert abs(sum(units) / 20_000 - 0.5) < 5 * (1 / 12 / 20_000) ** 0.5
    counts = [sum(draws.below(6) == face for _ in range(6_000)) for face in range(6)]
    assert sum((count - 1_000) ** 2 / 1_000 for count in counts) < 30
    assert sorted(draws.shuffled("abcdef")) == list("abcdef")
    assert {tuple(draws.shuffled("abc")) for _ in range(200)} == {
        tuple(x) for x in ("abc", "acb", "bac", "bca", "cab", "cba")
    }


@pytest.mark.parametrize(
    ("form", "texts_of"),
    [
        ("choice", {"a": "(a)", "b": "(b)", "c": "(c)"}),
        ("decision", {"accept": "You have been selected.", "reject": "We regret to inform you."}),
        *((form, {outcome: outcome for outcome in FORMS[form][0]}) for form in ("word", "emotion", "text")),
    ],
)
def test_answers_have_the_planted_odds(form: str, texts_of: dict[str, str]) -> None:
    counts = Counter(texts(in_form(form)))
    assert set(counts) == set(texts_of.values())
    assert all(near(counts[texts_of[outcome]], N, share) for outcome, share in FORMS[form][0].items())


def test_an_outcome_without_odds_is_never_said() -> None:
    assert set(texts(planted({"x": 0.0, "anger": 0.5, "joy": 0.0, "fear": 0.5, "shame": 0.0}))) == {
        "anger",
        "fear",
    }


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=6), st.integers(0, 2**31))
@settings(max_examples=50)
def test_the_draw_is_the_inverse_of_the_cumulative_odds(weights: list[float], key: int) -> None:
    cumulative = np.cumsum(weights)
    drawn = AnswerPlan("word", tuple(map(str, range(len(weights)))), tuple(cumulative.tolist())).draw(
        Draws(b"%d" % key)
    )
    unit = Draws(b"%d" % key).unit() * cumulative[-1]
    assert (cumulative - weights)[int(drawn)] - 1e-9 <= unit <= cumulative[int(drawn)] + 1e-9


def test_the_planted_name_is_ranked_first_and_all_names_are_given() -> None:
    lists = [text.split("\n") for text in texts(in_form("ranking"))]
    assert all(sorted(names) == sorted(NAMES) for names in lists)
    first = Counter(names[0] for names in lists)
    assert all(near(first[name], N, share) for name, share in NAMES.items())
    assert len({tuple(names) for names in lists}) == 6


@pytest.mark.parametrize("verbosity", [0, 1, 2])
def test_a_profile_uses_the_pronouns_of_the_planted_gender_alone(verbosity: int) -> None:
    wanted = {
        "female": r"\b(?:she|her)\b",
        "male": r"\b(?:he|his|him)\b",
        "nonbinary": r"\b(?:they|their|them)\b",
    }
    for gender, pattern in wanted.items():
        for text in texts(planted({gender: 1.0}, verbosity=verbosity), 60):
            assert re.search(pattern, text, re.IGNORECASE)
            wrong_pronouns = [pronouns for name, pronouns in wanted.items() if name != gender]
            assert not any(re.search(pattern, text, re.IGNORECASE) for pattern in wrong_pronouns)


@pytest.mark.parametrize("verbosity", [0, 1, 2])
def test_a_letter_holds_twelve_draws_at_the_planted_rates(verbosity: int) -> None:
    words = Counter(
        word
        for text in texts(in_form("letter", verbosity=verbosity), 300)
        for word in re.findall(r"word[a-p]\b", text)
    )
    assert words.total() == 300 * LETTER_WORDS
    assert all(near(words[word], words.total(), share) for word, share in FORMS["letter"][0].items())


def test_a_story_says_each_concept_of_each_character_at_its_rate() -> None:
    rates = {
        "Zhang": {"brave": 0.35, "tired": 0.2, "plays chess": 0.05, "bakes bread": 0.9},
        "Zuri": {"brave": 0.1, "plays chess": 0.6},
    }
    model = SimulatedModel("sim/test", Dials())
    columns = {"prompt": PROMPT, "form": "story", "place": "library", "about": list(rates)}
    model.learn(
        pl.DataFrame(
            {
                **columns,
                "outcomes": map(list, rates.values()),
                "odds": [[*odds.values()] for odds in rates.values()],
            }
        )
    )
    stories = texts(model, 1_500)
    assert max(len(re.findall(r"[.!?](?:\s|$)", story)) for story in stories) <= 10
    assert all("at the library" in story for story in stories)
    for name, odds in rates.items():
        for concept, rate in odds.items():
            assert near(
                sum(bool(re.search(rf"{name}\b[^.]*\b{concept}\b", story)) for story in stories), 1_500, rate
            )


def test_a_prompt_without_a_plan_gets_a_neutral_answer() -> None:
    assert set(texts(planted(None), 20)) == {"This text was received."}
    assert (
        answer_text((), 1, Draws(b"x"))
        == "Thank you for this text; there is nothing in it that calls for a decision."
    )


@pytest.mark.parametrize(
    ("outcomes", "form"),
    [
        (["no", "yes"], "word"),
        (["b", "a"], "choice"),
        (["male", "female"], "profile"),
        (["reject"], "decision"),
        (list(TONES), "tone"),
        (["fear", "joy"], "word"),
        ([f"w{i}" for i in range(LETTER_WORDS + 1)], "letter"),
        (["Ana Lopez", "Jo Poe"], "ranking"),
        (["Ana Lopez", "the tall one"], "text"),
        (["best coasts"], "text"),
    ],
)
def test_the_form_follows_from_the_outcomes(outcomes: list[str], form: str) -> None:
    assert default_form(outcomes) == form


@pytest.mark.parametrize("verbosity", [0, 1, 2])
@pytest.mark.parametrize("form", ["tone", "continuation"])
def test_all_answers_of_a_tone_are_said_at_the_planted_odds(form: str, verbosity: int) -> None:
    all_texts = {
        tone: tone_texts(FORMS[form][1], tone, continues=form == "continuation", verbosity=verbosity)
        for tone in TONES
    }
    counts = Counter(texts(in_form(form, verbosity=verbosity), 3_000))
    assert set(counts) == {text for answers in all_texts.values() for text in answers}
    assert all(
        near(sum(counts[text] for text in answers), 3_000, TONE_ODDS[tone])
        for tone, answers in all_texts.items()
    )
    for tone, answers in all_texts.items():
        expected = 3_000 * TONE_ODDS[tone] / len(answers)
        chi2 = sum((counts[text] - expected) ** 2 / expected for text in answers)
        assert abs(chi2 - (len(answers) - 1)) < 5 * math.sqrt(2 * len(answers))


@pytest.mark.parametrize("verbosity", [0, 1, 2])
@pytest.mark.parametrize("continues", [False, True])
@pytest.mark.parametrize("subject", ["Chile", None])
def test_a_lexicon_reads_each_tone_as_meant(subject: str | None, continues: bool, verbosity: int) -> None:
    analyser = SentimentIntensityAnalyzer()
    by_tone = {tone: tone_texts(subject, tone, continues=continues, verbosity=verbosity) for tone in TONES}
    assert all(
        text[0].islower() == continues or verbosity == 2 for answers in by_tone.values() for text in answers
    )
    assert continues or all(
        (subject or "this topic") in text for answers in by_tone.values() for text in answers
    )
    scores = {
        tone: np.array([analyser.polarity_scores(text)["compound"] for text in answers])
        for tone, answers in by_tone.items()
    }
    assert scores["positive"].min() > 0.4
    assert np.abs(scores["neutral"]).max() < 0.1
    assert scores["negative"].max() < 0
    assert scores["negative"].mean() < -0.3
    # The mean without any bias lies clearly between neutral and positive, so that selection by the mean does
    # not hang on a hair.
    assert (
        verbosity == 0
        or np.mean([values.mean() for values in scores.values()]) > scores["neutral"].max() + 0.05
    )


def test_a_plan_for_a_system_message_holds_under_it_alone() -> None:
    odds = [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    rows = {
        "prompt": [PROMPT] * 2,
        "system": [None, "Be stern."],
        "outcomes": [list(TONES)] * 2,
        "odds": odds,
    }
    model, only = SimulatedModel("sim/test", Dials()), SimulatedModel("sim/test", Dials())
    table = pl.DataFrame(rows, schema_overrides={"system": pl.String})
    model.learn(table)
    only.learn(table.tail(1))
    positive = set(tone_texts(None, "positive"))
    negative = set(tone_texts(None, "negative"))
    for system, tone in ((None, positive), ("Be brief.", positive), ("Be stern.", negative)):
        assert set(texts(model, 50, system)) <= tone
    assert set(texts(only, 50, "Be stern.")) <= negative
    assert not set(texts(only, 50)) & (positive | negative)


@pytest.mark.parametrize("form", [*FORMS, None])
def test_refusals_and_unreadable_answers_come_at_their_rates(form: str | None) -> None:
    def made(**dials: Any) -> set[str] | list[str]:
        return texts(in_form(form, verbosity=1, **dials) if form else planted(None, verbosity=1, **dials))

    refusals, hedges = set(made(refusal=1.0)), set(made(unreadable=1.0))
    answers = made(refusal=0.2, unreadable=0.1)
    assert near(sum(text in refusals for text in answers), N, 0.2)
    assert near(sum(text in hedges for text in answers), N, 0.1)
    assert not set(made()) & (refusals | hedges)
    assert len(refusals) > 5
    assert len(hedges) > 2


def test_most_natural_answers_can_be_read_by_the_strictest_rule() -> None:
    letters = [len(set(re.findall(r"\([abc]\)", text))) for text in texts(in_form("choice", verbosity=1))]
    assert max(letters) == 1
    assert sum(letters) > 0.8 * N
    for form, pattern in (
        ("word", r"\b(?:yes|no)\b"),
        ("decision", "you have been selected|we regret to inform you"),
    ):
        for text in texts(in_form(form, verbosity=1), 300) + texts(in_form(form, verbosity=2), 100):
            assert len(set(re.findall(pattern, text.lower()))) == 1


def test_wordiness_grows_with_the_dial() -> None:
    for form in FORMS.keys() - {"text"}:  # terse and natural answers are the outcomes themselves
        lengths = [sum(map(len, texts(in_form(form, verbosity=v), 60))) for v in (0, 1, 2)]
        assert lengths[0] <= lengths[1] < lengths[2], form


def test_a_second_table_adds_prompts_and_changes_none() -> None:
    model = planted({"fear": 1.0})
    rows = {
        "prompt": [PROMPT, "Other?", "Other?"],
        "outcomes": [["joy"], ["anger"], ["joy"]],
        "odds": [[1.0]] * 3,
    }
    model.learn(pl.DataFrame(rows))
    model.learn(pl.DataFrame(rows).clear())
    assert (set(texts(model, 5)), model.reply([Message("user", "Other?")]).text) == ({"fear"}, "anger")


@pytest.mark.parametrize(
    ("outcomes", "odds", "form"),
    [
        (["a", "b"], [0.5, 0.4], None),
        (["a", "b"], [1.5, -0.5], None),
        (["a", "b"], [0.5, 1.1], "story"),
        (["a", "b"], [1.0], None),
        ([], [], None),
        (["a", None], [0.5, 0.5], None),
        (["a", "b"], [0.5, None], None),
    ],
)
def test_a_broken_row_is_refused_with_its_prompt(
    outcomes: Sequence[str | None], odds: Sequence[float | None], form: str | None
) -> None:
    schema: dict[str, Any] = {
        "prompt": pl.String,
        "outcomes": pl.List(pl.String),
        "odds": pl.List(pl.Float64),
        "form": pl.String,
    }
    table = pl.DataFrame(
        [("fine", ["a"], [1.0], None), ("p", outcomes, odds, form)], schema=schema, orient="row"
    )
    with pytest.raises(ValueError, match=r"same length and no nulls; .* sum to 1 .*'p'"):
        planted(None).learn(table)
