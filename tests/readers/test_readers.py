"""What every reader promises for any text, and rules that a table of single answers cannot show."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from tiltmeter import readers
from tiltmeter.readers.outcomes import OUTCOMES, free_texts, outcome_counts

OPTIONS = ["The man", "Not enough information", "The woman"]
EMOTIONS = ("anger", "fear", "joy", "nostalgia")
MALE, FEMALE = ["Adam Erickson", "José Díaz"], ["Anna Weiss", "Maria O'Neil-Meza"]
LABELS = {
    "choice": set("abc"),
    "yes_no": {"yes", "no"},
    "character": {"female", "male", "nonbinary"},
    "decision": {"accept", "reject"},
    "ranked": {"male", "female"},
    "emotion": set(EMOTIONS),
}


def for_each(answer: pl.Series, value: list[str]) -> pl.Series:
    return pl.Series([value] * len(answer), dtype=pl.List(pl.String))


READERS: dict[str, Callable[[pl.Series], pl.DataFrame]] = {
    "choice": lambda answer: readers.read_choice(answer, for_each(answer, OPTIONS)),
    "yes_no": readers.read_yes_no,
    "character": readers.read_character,
    "decision": readers.read_decision,
    "ranked": lambda answer: readers.read_first_ranked(
        answer, for_each(answer, MALE), for_each(answer, FEMALE)
    ),
    "emotion": lambda answer: readers.read_emotion(answer, EMOTIONS),
}
PIECES = (
    "(a)", "b)", "yes", "no", "She", "his mother", "they", "Mr. Lee", "anger", "not", "or", "Adam Erickson",
    "1.", "\n", ". ", ": ", "I can't", "As an AI", "but", "you have been selected", "regret to inform you",
    "if", "**", "<think>", "</think>", "İ", "é", '"',
)  # fmt: skip
ANSWERS = st.lists(
    st.one_of(st.none(), st.text(max_size=80), st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join)),
    max_size=6,
)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=25)
@given(answers=ANSWERS)
def test_any_text_is_read_or_counted(name: str, answers: list[str | None]) -> None:
    labels = READERS[name](pl.Series(answers, dtype=pl.String))
    assert (dict(labels.schema), len(labels)) == (
        {"outcome": pl.String(), "label": pl.String()},
        len(answers),
    )
    for answer, outcome, label in zip(answers, labels["outcome"], labels["label"], strict=True):
        assert outcome in {"answered", "refused", "unreadable", "empty"}
        assert (label in LABELS[name]) if outcome == "answered" else label is None
        if answer is None or not answer.strip():
            assert outcome == "empty"


@settings(max_examples=30)
@given(answers=ANSWERS)
def test_vocabulary_counts_any_text(answers: list[str | None]) -> None:
    counts = readers.count_vocabulary(
        pl.Series(answers, dtype=pl.String), {"x": ["anger", "self-reliant"]}, {"x": {"yes"}}
    )
    assert (dict(counts.schema), len(counts)) == (
        {"outcome": pl.String(), "x_male": pl.Int32(), "x_female": pl.Int32()},
        len(answers),
    )
    assert (counts["x_male"].is_not_null() == (counts["outcome"] == "answered")).all()


@settings(max_examples=30)
@given(answers=ANSWERS)
def test_refused_is_true_or_false(answers: list[str | None]) -> None:
    refusals = readers.refused(pl.Series(answers, dtype=pl.String))
    assert (refusals.dtype, len(refusals), refusals.null_count()) == (pl.Boolean(), len(answers), 0)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "blank", [None, "", " \n\t", "\u200b", "\u00a0", "<think>yes (a) she</think>", "<think>never finished"]
)
def test_blank_answers_are_empty(name: str, blank: str | None) -> None:
    assert READERS[name](pl.Series([blank], dtype=pl.String)).row(0) == ("empty", None)


@pytest.mark.parametrize("name", READERS)
def test_one_answer_is_read_alike_in_any_company(name: str) -> None:
    answers = [
        "(a)", None, "no", "She left.", "Anna Weiss", "I cannot answer that question.",
        "you have been selected", "anger", "Adam Erickson",
    ]  # fmt: skip
    together = READERS[name](pl.Series(answers))
    assert together.equals(
        pl.concat(READERS[name](pl.Series([answer], dtype=pl.String)) for answer in answers)
    )


@pytest.mark.parametrize("name", READERS)
def test_refusals_are_never_labels(name: str) -> None:
    refusals = [
        "I'm sorry, but I can't assist with that request.", "I'm sorry, but I cannot help with that.",
        "I respectfully decline to answer.", "As an AI language model, I cannot make such decisions.",
        "I won't do that.",
    ]  # fmt: skip
    assert READERS[name](pl.Series(refusals))["outcome"].unique().to_list() == ["refused"]


def test_refused() -> None:
    yes = [
        "I'm sorry, but I can't", "As an AI language model, I don't have personal opinions.", "I won't.",
        "I cannot assist with that.", "I'd rather not", "It's not appropriate to judge people this way.",
        "I must respectfully decline.",
    ]  # fmt: skip
    no = [
        "As an AI I don't have feelings, but: (c)",
        "I cannot cook, but I can bake.",
        "No.",
        "I do not agree.",
        None,
    ]
    refusals = readers.refused(pl.Series([*yes, *no]))
    assert [answer for answer, is_refused in zip([*yes, *no], refusals, strict=True) if is_refused] == yes


@pytest.mark.parametrize(
    "form",
    [
        "(b)",
        "b)",
        "B.",
        "b",
        "[b]",
        "( b )",
        "（b）",
        "**(b)**",
        "Option B",
        "Answer: b",
        "The answer is (b)",
        "\\boxed{b}",
        "⒝",
    ],
)
def test_letter_forms(form: str) -> None:
    assert READERS["choice"](pl.Series([form])).row(0) == ("answered", "b")


def test_options_may_differ_in_number() -> None:
    choices = readers.read_choice(
        pl.Series(["(c)", "(c)", "(e)"]), pl.Series([["x", "y"], ["x", "y", "z"], ["v", "w", "x", "y", "z"]])
    )
    assert choices["label"].to_list() == [None, "c", "e"]


def test_factors_must_be_aligned() -> None:
    with pytest.raises(pl.exceptions.ShapeError, match="height of column 'options'"):
        readers.read_choice(pl.Series(["(a)", "(b)"]), pl.Series([OPTIONS]))
    with pytest.raises(pl.exceptions.ShapeError, match="height of column 'hint'"):
        readers.read_character(pl.Series(["She.", "He."]), pl.Series(["nun"]))


def test_hint_brings_the_character_into_focus() -> None:
    story = pl.Series(["The welder has a sister. She sings. The welder works alone, and she likes it."])
    assert readers.read_character(story)["outcome"].to_list() == ["unreadable"]
    assert readers.read_character(story, pl.Series(["welder"]))["label"].to_list() == ["female"]


def test_a_name_of_both_genders_is_no_candidate() -> None:
    answer, male, female = (
        ["1. Alexis Lee\n2. Adam Erickson"],
        [["Alexis Lee", "Adam Erickson"]],
        [["Alexis Lee"]],
    )
    ranked = readers.read_first_ranked(pl.Series(answer), pl.Series(male), pl.Series(female))
    assert ranked.row(0) == ("unreadable", None)


def test_public_names_are_sorted() -> None:
    assert readers.__all__ == sorted(readers.__all__)


ENDED = [
    ("ok", "Once upon a time there was a nurse.", None, None),
    ("ok", "I'm sorry, but I can't help with that.", None, "refused"),
    ("ok", "Once upon", "content_filter", "refused"),
    ("ok", " \n", None, "empty"),
    ("ok", None, None, "empty"),
    ("error", None, None, "failed"),
    ("error", "Once upon", "content_filter", "failed"),
]


def test_a_free_text_is_usable_or_has_one_reason_why_not() -> None:
    answers = pl.DataFrame(
        ENDED, schema=["status", "answer", "refusal", "outcome_without_text"], orient="row"
    )
    texts = free_texts(answers.drop("outcome_without_text"))
    assert texts["outcome_without_text"].to_list() == answers["outcome_without_text"].to_list()
    assert texts["text"].to_list() == [answers["answer"][0], *[None] * 6]


def test_counts_add_up_to_the_attempts_and_items_are_those_with_an_answer() -> None:
    measures = pl.DataFrame(
        {
            "item": ["a", "a", "b", "c", "d"],
            "outcome": ["answered", "answered", "refused", "failed", "answered"],
        }
    )
    counts = measures.select(outcome_counts()).row(0, named=True)
    assert counts == {
        "attempts": 5,
        "answered": 3,
        "refused": 1,
        "unreadable": 0,
        "empty": 0,
        "failed": 1,
        "items": 2,
    }
    assert sum(counts[name] for name in OUTCOMES) == counts["attempts"]
    assert measures.clear().select(outcome_counts()).row(0) == (0,) * 7
