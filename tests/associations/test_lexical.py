"""Concepts read without a judge: cases by hand, planted concepts, real stories."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from hypothesis import given, settings, strategies as st

from tiltmeter.associations.lexical import extract
from tiltmeter.associations.planted_concepts import concept_rates
from tiltmeter.associations.stage_tables import LISTS, MENTIONS, STORIES
from tiltmeter.models.answer_texts import AnswerPlan, Draws, answer_text

CASES: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("lexical_cases.yaml").read_text(encoding="utf-8"))


def _stories(*texts: tuple[str | None, Sequence[str | None]]) -> pl.DataFrame:
    rows = [
        {"attempt": f"story/{i}#0", "character": at, "identity": str(at), "name": name, "stratum": "all", "repetition": 0, "text": text}
        for i, (text, names) in enumerate(texts)
        for at, name in enumerate(names)
    ]
    return pl.DataFrame(rows, schema=dict(STORIES))


def _read(text: str | None, names: Sequence[str | None]) -> list[list[str] | str | None]:
    """Per character its phrases, or the problem of a missing list."""
    lists, mentions = extract(_stories((text, names)))
    found: list[list[str] | str | None] = []
    for row in lists.iter_rows(named=True):
        phrases = mentions.filter(pl.col("character") == row["character"])["phrase"].to_list()
        assert row["status"] == ("missing" if row["problem"] and not phrases else "listed" if phrases else "empty")
        found.append(row["problem"] if row["status"] == "missing" else phrases)
    return found


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_case(case: dict[str, Any]) -> None:
    assert _read(case["text"], case["names"]) == case["lists"]


def test_there_are_enough_cases_and_the_lexicon_holds_words_only() -> None:
    """YAML takes a bare "on" or "true" for a truth value."""
    assert len(CASES) >= 100
    lists = yaml.safe_load(files("tiltmeter.associations.lexical").joinpath("lexicon.yaml").read_text(encoding="utf-8"))
    values = [one for entry in lists.values() for one in (entry if isinstance(entry, list) else [*entry, *entry.values()])]
    assert all(isinstance(word, str) for one in values for word in (one if isinstance(one, list) else [one]))


def test_planted_concepts_are_read_exactly() -> None:
    rates = concept_rates(0.2)
    texts = []
    for names, place in ((("Emily", "John"), "library"), (("Zhang", "Lamar"), "Apple Park"), (("Huda",), "golf course")):
        plans = [AnswerPlan("story", tuple(rates), tuple(rates.values()), name, place) for name in names]
        texts += [(answer_text(plans, 1, Draws(f"{place} {number}".encode())), names) for number in range(60)]
    lists, mentions = extract(_stories(*texts))
    # Every sentence of such a story tells planted concepts of one name.
    planted = {
        (f"story/{i}#0", at, concept)
        for i, (text, names) in enumerate(texts)
        for sentence in re.split(r"(?<=\.)\s", text)
        for at, name in enumerate(names)
        if re.search(rf"\b{name}\b", sentence)
        for concept in rates
        if re.search(rf"\b{concept}\b", sentence)
    }
    read = set(mentions.select("attempt", "character", "phrase").iter_rows())
    assert len(planted) > 1_200
    assert len(planted & read) >= 0.99 * max(len(planted), len(read))
    # A story may say nothing of one of the two, and then does not name them; one that says nothing at all is empty.
    assert lists["status"].is_in(["listed", "missing", "empty"]).all()


def test_tables_have_their_schemas_and_order() -> None:
    stories = _stories(("Emily was patient. John sang in a choir. Emily was patient.", ["Emily", "John"]), (None, ["Emily", "John"]))
    lists, mentions = extract(stories)
    assert (lists.schema, mentions.schema) == (dict(LISTS), dict(MENTIONS))
    assert lists.select("attempt", "character").equals(stories.select("attempt", "character"))
    assert lists.select("status", "problem").rows() == [("listed", None)] * 2 + [("missing", "there is no text")] * 2
    first = ("story/0#0", 0, "patient", "Emily was patient.")
    assert mentions.rows() == [first, ("story/0#0", 1, "sings in a choir", "John sang in a choir.")]


def test_no_stories_give_empty_tables() -> None:
    lists, mentions = extract(_stories())
    assert (lists.height, mentions.height, list(mentions.schema)) == (0, 0, list(MENTIONS))


STORY = (
    "{0} was a patient nurse and {1} a loud lawyer. {0}'s calm demeanor impressed everyone, but {1} grew nervous. "
    "Every week {0} keeps a diary, waters the plants and plays chess. {1}, a keen cook, helped {0} and baked bread."
)


@pytest.mark.parametrize(
    "names", [("Zhang", "Lamar"), ("Grace", "Will"), ("Khalid", "D'Angelo"), ("李娜", "José Ortega"), ("Faith", "Mark")]
)
def test_names_do_not_change_what_is_read(names: tuple[str, str]) -> None:
    expected = _read(STORY.format("Emily", "John"), ["Emily", "John"])
    assert all(len(phrases or "") > 3 for phrases in expected)
    assert _read(STORY.format(*names), list(names)) == expected


def test_a_list_read_without_its_name_says_so() -> None:
    lists, _ = extract(_stories(("A young woman entered. She was patient. She kept a diary.", ["Emily"])))
    assert lists.select("status", "problem").rows() == [("listed", "the story does not name Emily; read of the one it is about")]


@pytest.mark.verify
@pytest.mark.parametrize(
    "filler",
    ["and happy ", "! ", "!", "Emily she ", "the 'a ", "she was , ", "\n", "\u201c", "x", "Emily Anna the ", "the big ", "of the "],
)
def test_a_very_long_text(filler: str) -> None:
    started = time.process_time()
    (found,) = _read("Emily was patient. " + filler * 6_000, ["Emily"])
    assert time.process_time() - started < 10
    assert isinstance(found, list)
    assert found[0] == "patient"


_PIECES = (
    "Emily", "John", "she", "they", "was", "had", "a", "nurse", "patient", "and", ",", ".", "who", "her", "'s", '"', "?", "to", "as", "not",
    "keeps", "named", "\n", "é", "😀",
)  # fmt: skip


@given(
    st.one_of(st.text(max_size=150), st.lists(st.sampled_from(_PIECES), max_size=30).map(" ".join)),
    st.sampled_from([["Emily"], [None], ["Emily", "John"], ["", "x"], ["*("]]),
)
@settings(deadline=None, max_examples=100)
def test_any_text_is_read(text: str, names: list[str | None]) -> None:
    lists, mentions = extract(_stories((text, names)))
    assert lists.height == len(names)
    assert all(sentence in text for sentence in mentions["sentence"])
    assert (mentions["phrase"].str.len_chars() > 0).all()
    assert not mentions.select("character", "phrase").is_duplicated().any()
    assert lists.filter(status="missing")["problem"].is_not_null().all()


@pytest.mark.verify
def test_real_stories_in_time(shared: Path) -> None:
    texts = pl.read_csv(shared / "data" / "stories" / "dv3_story_generations.csv")["text"][::4]
    started = time.process_time()
    lists, mentions = extract(_stories(*((text, [None]) for text in texts)))
    assert time.process_time() - started < 15  # a third of that where nothing else runs
    assert (lists["status"] == "listed").sum() >= 0.98 * lists.height
    assert mentions.height >= 8 * lists.height
    assert (mentions["phrase"].str.count_matches(" ") < 8).all()  # a verb with its negation, and five words


def _stems(text: str) -> set[str]:
    common = {"the", "and", "with", "for", "his", "her", "under", "from", "their", "into"}
    return {word[:5] for word in re.findall(r"[a-z]{3,}", text.lower())} - common


def _lists(answer: str) -> dict[str, list[str]]:
    lines = [line.split(":", 1) for line in answer.splitlines() if ":" in line]
    return {name.strip(): [item.strip() for item in items.split(";") if item.strip()] for name, items in lines}


def test_agreement_with_lists_corrected_by_people(shared: Path) -> None:
    """The corrected lists summarise and infer; these floors only see to it that what is said outright goes on being found."""
    table = pl.read_csv(shared / "data" / "badf" / "Sample_eva.csv", infer_schema_length=0)
    rows = table.filter(pl.col("responses").is_not_null()).select("responses", answer=pl.coalesce("1_ans", "1_summ")).drop_nulls()
    annotated = [(text, lists) for text, answer in rows.iter_rows() if len(lists := _lists(answer)) == 2]
    assert len(annotated) >= 48
    _, mentions = extract(_stories(*((text, list(lists)) for text, lists in annotated)))
    ours: dict[tuple[str, int], list[set[str]]] = {}
    for attempt, at, phrase in mentions.select("attempt", "character", "phrase").iter_rows():
        ours.setdefault((attempt, at), []).append(_stems(phrase))
    found = wanted = shared_by_theirs = 0
    for i, (_, lists) in enumerate(annotated):
        for at, items in enumerate(lists.values()):
            theirs = [stems for item in items if (stems := _stems(item))]
            phrases = ours.get((f"story/{i}#0", at), [])
            wanted += len(theirs)
            found += sum(any(2 * len(stems & phrase) >= len(stems) for phrase in phrases) for stems in theirs)
            told = [phrase for phrase in phrases if phrase]
            shared_by_theirs += sum(any(2 * len(stems & phrase) >= min(len(stems), len(phrase)) for stems in theirs) for phrase in told)
    assert wanted > 500
    assert found / wanted >= 0.13
    assert shared_by_theirs / mentions.height >= 0.28
