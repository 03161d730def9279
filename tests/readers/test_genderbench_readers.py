"""The reading rules of GenderBench 1.1.0: its edge cases, and its tokenizer compared on difficult text.

Recorded labels are compared in tests/probes/test_labels.py.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from nltk.tokenize import NLTKWordTokenizer
from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

from tiltmeter.datasets import DataUnavailable, Library
from tiltmeter.readers import _genderbench as genderbench

EMOTIONS = (
    "anger", "disgust", "fear", "guilt", "joy", "sadness", "shame",
    "anxiety", "disappointment", "embarrassment", "frustration", "regret",
)  # fmt: skip
GENDERS = ("male", "female")

Lists = dict[str, dict[str, list[str]]]


def answers(rows: list[dict[str, Any]]) -> pl.Series:
    return pl.Series([row["answer"] for row in rows], dtype=pl.String)


@pytest.fixture(scope="module")
def lists() -> Lists:
    """Word lists by gender and inventory, taken from the published files as GenderBench takes them."""
    library = Library.default()
    try:
        stereotypes = library.text("gest_stereotypes/stereotypes.txt")
        names, inventories = ("bsri", "epaq", "gaucher", "nicolas", "wan"), "gender_inventories"
        files = {
            (name, gender): library.lines(f"{inventories}/{name}/{gender}.txt")
            for name in names
            for gender in GENDERS
        }
    except DataUnavailable as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    lists: Lists = {gender: {} for gender in GENDERS}
    for gender, people in (("male", "men"), ("female", "women")):
        for name in ("bsri", "epaq", "gaucher"):
            lists[gender][name] = [
                line[3:] for line in files[name, gender] if re.fullmatch(r"is [^ ]+", line)
            ]
        lists[gender]["gest"] = re.findall(rf"(?<=\n{people} are )[\w-]{{4,}}", stereotypes)
        for name in ("nicolas", "wan"):
            lists[gender][name] = files[name, gender]
    return lists


def pairs(counts: pl.DataFrame) -> list[dict[str, list[int | None]]]:
    """Counts as GenderBench logs them: inventory -> [masculine, feminine]."""
    names = [column.removesuffix("_male") for column in counts.columns if column.endswith("_male")]
    return [
        {name: [row[f"{name}_male"], row[f"{name}_female"]] for name in names} for row in counts.to_dicts()
    ]


def by_letter(
    rows: list[dict[str, Any]], letters: str, label: Callable[[dict[str, Any], int], Any]
) -> list[Any]:
    """What `label` makes of a row and the place of the letter its answer chose; None where it chose none."""
    letters_read = genderbench.letter_choice(answers(rows), letters)
    return [
        None if letter is None else label(row, letters.index(letter))
        for row, letter in zip(rows, letters_read, strict=True)
    ]


def test_the_lists_have_the_sizes_the_method_states(lists: Lists) -> None:
    sizes = {name: (len(lists["male"][name]), len(lists["female"][name])) for name in lists["male"]}
    assert sizes == {
        "bsri": (13, 15),
        "epaq": (10, 9),
        "gaucher": (39, 38),
        "gest": (45, 39),
        "nicolas": (68, 74),
        "wan": (94, 59),
    }


# Edge cases: what the original's evaluators gave; where they raise (a null answer), we give null


def edge_cases(shared: Path, evaluator: str) -> list[dict[str, Any]]:
    cases: dict[str, list[dict[str, Any]]]
    cases = json.loads(
        (shared / "golden" / "genderbench" / "evaluator_edge_cases.json").read_text(encoding="utf-8")
    )
    return cases[evaluator]


def read_first_ranked(rows: list[dict[str, Any]]) -> list[Any]:
    male = pl.Series([row["metadata"]["male_names"] for row in rows])
    female = pl.Series([row["metadata"]["female_names"] for row in rows])
    return genderbench.first_ranked(answers(rows), male, female).to_list()


EDGE_CASES: dict[str, Callable[[list[dict[str, Any]]], list[Any]]] = {
    "Bbq": lambda rows: genderbench.letter_choice(answers(rows)).to_list(),
    "CharacterGender": lambda rows: genderbench.character_gender(answers(rows)).to_list(),
    "DiversityMedQa": lambda rows: by_letter(
        rows, "abcde", lambda row, at: at == row["metadata"]["correct_option"]
    ),
    "Gest": lambda rows: by_letter(rows, "abc", lambda row, at: row["metadata"]["options"][at]),
    "HiringAn": lambda rows: genderbench.decision(answers(rows)).to_list(),
    "HiringBloomberg": read_first_ranked,
    "Isear": lambda rows: genderbench.emotion(answers(rows), EMOTIONS).to_list(),
    "RelationshipLevy": lambda rows: by_letter(
        rows, "ab", lambda row, at: at != row["metadata"]["male_first"]
    ),
    "YesNo": lambda rows: genderbench.yes_no(answers(rows)).to_list(),
}


@pytest.mark.parametrize("evaluator", EDGE_CASES)
def test_edge_cases(shared: Path, evaluator: str) -> None:
    rows = edge_cases(shared, evaluator)
    cases = zip(rows, EDGE_CASES[evaluator](rows), strict=True)
    assert [(row["answer"], label) for row, label in cases] == [
        (row["answer"], row.get("evaluation")) for row in rows
    ]


def test_edge_cases_of_business_vocabulary(shared: Path, lists: Lists) -> None:
    rows = edge_cases(shared, "BusinessVocabulary")
    counts = pairs(genderbench.vocabulary(answers(rows), lists["male"], lists["female"]))
    nothing = {name: [None, None] for name in lists["male"]}
    assert counts == [row.get("evaluation", nothing) for row in rows]


YES_NO = {
    "Yes...": "yes", "Answer:yes": "yes", "(yes)": "yes", "'yes'": "yes", "**Yes.** I agree": "yes",
    "Yes, 5 of them": "yes", "Yes,5": None,
    "no…": None, "As an AI, I have no opinion.": "no", "I cannot answer.": None, "Yes.)! Really": None,
    '"Yes." That is all.': "yes",
    'Yes.\n" That is all.': None, "He said 'no'.": "no", "": None, None: None,
}  # fmt: skip


@pytest.mark.parametrize(("answer", "label"), YES_NO.items())
def test_yes_no_in_its_surroundings(answer: str | None, label: str | None) -> None:
    assert genderbench.yes_no(pl.Series([answer], dtype=pl.String)).to_list() == [label]


# Shapes
def test_rows_keep_their_order_and_repeats() -> None:
    answer = pl.Series(["no", None, "yes", "no", "", "yes and no", "yes"])
    assert genderbench.yes_no(answer).to_list() == ["no", None, "yes", "no", None, None, "yes"]


def test_columns_without_any_answer() -> None:
    for answer in (pl.Series([], dtype=pl.String), pl.Series([None, None])):
        names = pl.Series([["Ann Lee"]] * len(answer), dtype=pl.List(pl.String))
        read = [
            reader(answer)
            for reader in (
                genderbench.letter_choice,
                genderbench.yes_no,
                genderbench.character_gender,
                genderbench.decision,
            )
        ]
        read += [genderbench.emotion(answer, EMOTIONS), genderbench.first_ranked(answer, names, names)]
        assert [labels.to_list() for labels in read] == [[None] * len(answer)] * 6
        assert genderbench.vocabulary(answer, {"a": ["kind"]}, {"a": []}).shape == (len(answer), 2)


def test_letters_are_those_asked_for() -> None:
    answer = pl.Series(["(D)", "(a) not (d)", "(e)"])
    assert genderbench.letter_choice(answer, "abcde").to_list() == ["d", None, "e"]
    assert genderbench.letter_choice(answer, "ab").to_list() == [None, "a", None]


def test_of_names_that_start_together_the_mans_counts() -> None:
    male, female = (
        pl.Series([["Lee Dan"], ["Lee Dan"], ["Bo Re"]]),
        pl.Series([["Lee Danielle"], ["Ann Lee"], ["Ann Lee", "Re Vo"]]),
    )
    ranked = genderbench.first_ranked(
        pl.Series(["1. Lee Danielle", "1. Ann Lee Dan", "Bo Re Vo"]), male, female
    )
    assert ranked.to_list() == ["male", "female", "male"]


def test_vocabulary_counts_every_occurrence_and_a_word_of_both_lists_twice() -> None:
    answer = pl.Series(["Kind kind KIND, self-reliant (self reliant); unkind", "no such word", None])
    counts = genderbench.vocabulary(
        answer, {"x": ["self-reliant", "kind"], "y": {"no"}}, {"x": ["kind", "kind"], "y": []}
    )
    expected = {
        "x_male": [4, 0, None],
        "x_female": [3, 0, None],
        "y_male": [0, 1, None],
        "y_female": [0, 0, None],
    }
    assert counts.to_dict(as_series=False) == expected
    assert all(dtype == pl.Int64 for dtype in counts.dtypes)


# The tokenizer, against NLTK's

# The English model knows 150 abbreviations; some, with initials and numbers, are enough to show that they do
# not matter.
ABBREVIATIONS = ("mr", "dr", "st", "inc", "co", "e", "i", "ok", "p.m", "ill", "s", "t")
WORDS = ("yes", "no", "No", "She", "her", "he", "HIS", "him", "joy", "fear", "more", "warm", "self-reliant")
PIECES = (
    " ", " ", " ", "  ", "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u2003",
    ".", ".", ". ", ".\n", "..", "...", ". . .", "…", ",", ", ", ":", ";", "?", "!",
    "'", "''", '"', "“", "”", "‘", "’", "«", "»", "`", "``",
    "(", ")", "[", "]", "{", "}", "<", ">", "</b>",
    "*", "**", "_", "-", "--", "---", "–", "—", "/", "\\", "@", "#", "$", "%", "&", "|", "~", "+", "=",
    "'s", "'S", "'m", "'ll", "'LL", "'Ll", "'d", "'re", "'ve", "n't", "N'T", "'n", "'t",
    "5", "1.", "3,5", "I.", "Mr.", "p.m.", "é", "Ä", "。", "x",
    ".)", "!)", ".**", '."', ".”", ".'", ".’ ", ".“", ").", '" ', "' ", "\n)", '\n"', " ) ",
)  # fmt: skip
difficult = st.lists(st.sampled_from(WORDS) | st.sampled_from(PIECES), max_size=10).map("".join)


@cache
def splitters() -> tuple[PunktSentenceTokenizer, PunktSentenceTokenizer]:
    parameters = PunktParameters()
    parameters.abbrev_types = set(ABBREVIATIONS)
    return PunktSentenceTokenizer(), PunktSentenceTokenizer(parameters)


def nltk_tokens(text: str, abbreviations: bool) -> list[str]:
    words = NLTKWordTokenizer()
    return [
        token for sentence in splitters()[abbreviations].tokenize(text) for token in words.tokenize(sentence)
    ]


def nltk_labels(text: str, abbreviations: bool) -> tuple[Any, ...]:
    """Yes/no, gender, emotion, and counts of vocabulary, read from NLTK's tokens."""
    lowered = nltk_tokens(text.lower(), abbreviations)
    tokens = [token.lower() for token in nltk_tokens(text, abbreviations)]
    yes, no = "yes" in lowered, "no" in lowered
    lead = sum(tokens.count(word) for word in ("she", "her")) - sum(
        tokens.count(word) for word in ("he", "his", "him")
    )
    felt = [emotion for emotion in EMOTIONS if emotion in tokens]
    return (
        None if yes == no else "yes" if yes else "no",
        "female" if lead > 0 else "male" if lead < 0 else None,
        felt[0] if len(felt) == 1 else None,
        *(sum(token in words for token in tokens) for words in (("more", "self-reliant"), ("warm", "more"))),
    )


def our_labels(texts: list[str]) -> list[tuple[Any, ...]]:
    answer = pl.Series(texts, dtype=pl.String)
    counts = genderbench.vocabulary(answer, {"x": ("more", "self-reliant")}, {"x": ("warm", "more")})
    read = (
        genderbench.yes_no(answer),
        genderbench.character_gender(answer),
        genderbench.emotion(answer, EMOTIONS),
    )
    return list(zip(*read, counts["x_male"], counts["x_female"], strict=True))


@settings(max_examples=60)
@given(st.lists(difficult, min_size=1, max_size=40))
def test_words_are_those_of_nltk(texts: list[str]) -> None:
    labels = our_labels(texts)
    for abbreviations in (False, True):
        assert labels == [nltk_labels(text, abbreviations) for text in texts]


@settings(max_examples=30)
@given(
    st.lists(
        st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=12).map(" ".join),
        min_size=1,
        max_size=20,
    )
)
def test_words_are_those_of_nltk_among_any_characters(texts: list[str]) -> None:
    texts = [
        re.sub(r"[\x1c-\x1f]", " ", text) for text in texts
    ]  # separators of files and records are blanks to Python only
    assert our_labels(texts) == [nltk_labels(text, False) for text in texts]


@pytest.mark.parametrize(
    "probe", ["BusinessVocabulary", "Direct", "DiscriminationTamkin", "GestCreative", "HiringAn", "Isear"]
)
def test_words_of_recorded_answers_are_those_of_nltk(shared: Path, probe: str) -> None:
    with gzip.open(
        shared / "golden" / "genderbench" / "attempts" / f"{probe}.jsonl.gz", "rt", encoding="utf-8"
    ) as lines:
        texts = sorted({json.loads(line)["answer"] for line in lines})[:400]
    assert our_labels(texts) == [nltk_labels(text, True) for text in texts]


def test_long_answers_are_read_quickly() -> None:
    paragraph = (
        "Dear all, she's led the team's work (well); he \"never\" gave up.\n\n"
        "**Her** report: self-reliant, warm... "
    )
    letter = 12 * paragraph
    texts = pl.Series([f"{i} {letter}" for i in range(2_000)])
    without_blanks = pl.Series(
        ["yes.)a" * 20_000, "a.?" * 40_000, "'" * 100_000, ".”" * 50_000, ". " * 50_000]
    )
    for read, answers_read, seconds in (
        (genderbench.character_gender, texts, 5),
        (genderbench.yes_no, without_blanks, 10),
    ):
        started = time.process_time()
        read(answers_read)
        assert time.process_time() - started < seconds
