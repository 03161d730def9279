"""Keywords: given, asked from a model, and out of the concepts' own pages."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, strategies as st

from support.judging import EngineJudge, Letters, ScriptedModel
from support.minilm import minilm_folder
from tiltmeter.benchmarks._builder import (
    Link,
    PageSet,
    ask_keywords,
    given_keywords,
    join_keywords,
    linked_keywords,
    nearest,
    non_containing,
    similar_keywords,
)
from tiltmeter.benchmarks._builder.keywords import KINDS
from tiltmeter.benchmarks._judge_replies import Unfinished, read_words
from tiltmeter.benchmarks._tables import KEYWORDS, PAGES
from tiltmeter.engine import Journal
from tiltmeter.errors import InputError
from tiltmeter.models import Message
from tiltmeter.models._text_models import SentenceEncoder


def words(table: pl.DataFrame, concept: str | None = None) -> list[str]:
    return (table if concept is None else table.filter(concept=concept))["keyword"].to_list()


def test_given_keywords_are_cleaned_and_stand_once() -> None:
    table = given_keywords(
        {"Tea": [" green  tea", "Tea", "TEA", "cafe\u0301", "AC/DC", "C++"], "Milk": ["tea"]}
    )
    assert dict(table.schema) == dict(KEYWORDS)
    assert words(table, "Tea") == ["green tea", "Tea", "café", "AC/DC", "C++"]
    assert table.filter(concept="Milk").select("keyword", "kind", "similarity").rows() == [
        ("tea", "given", None)
    ]


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"Tea": ["tea", " "]}, "the keyword '' of 'Tea' cannot be searched for"),
        ({"Tea": ["+"]}, "must contain a letter or digit"),
    ],
)
def test_mistakes_in_given_keywords(value: dict[str, list[str]], sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        given_keywords(value)


def test_no_keyword_contains_another() -> None:
    table = given_keywords(
        {
            "c": ["Mahatma Gandhi", "gandhi", "Islam", "Islamic", "Shia islam", "man", "woman"],
            "d": ["Shia Islam"],
        }
    )
    assert words(non_containing(table)) == ["gandhi", "Islam", "Islamic", "man", "woman", "Shia Islam"]
    assert words(non_containing(table, "saged")) == ["gandhi", "Islam", "man", "Shia Islam"]


@given(st.lists(st.text("abAB c/+", min_size=1).filter(lambda word: any(map(str.isalnum, word))), min_size=1))
def test_a_reduced_set_covers_all_it_was_made_of(some: list[str]) -> None:
    table = given_keywords({"c": some})
    reduced = words(non_containing(table, "saged"))
    assert not any(shorter.casefold() in longer.casefold() for shorter, longer in permutations(reduced, 2))
    assert all(any(keyword.casefold() in word.casefold() for keyword in reduced) for word in words(table))
    assert non_containing(non_containing(table)).equals(non_containing(table))


def test_the_nearest_by_spelling_are_kept() -> None:
    table = given_keywords({"tea": ["bicycle", "green tea", "eat"], "bicycle": ["tea leaves", "icy"]})
    closest = nearest(table, 2, Letters())
    assert closest.select("concept", "keyword").rows() == [
        ("tea", "eat"),
        ("tea", "green tea"),
        ("bicycle", "icy"),
        ("bicycle", "tea leaves"),
    ]
    assert closest["similarity"][0] == pytest.approx(1)
    assert dict(closest.schema) == dict(KEYWORDS)


@pytest.mark.verify
def test_the_nearest_by_meaning_are_kept() -> None:
    table = given_keywords(
        {"tea": ["bicycle", "green tea", "beverage"], "bicycle": ["tea leaves", "cycling"]}
    )
    closest = nearest(table, 2, SentenceEncoder(minilm_folder(), store=None))
    assert (words(closest, "tea"), words(closest, "bicycle")) == (
        ["green tea", "beverage"],
        ["cycling", "tea leaves"],
    )
    assert closest["similarity"].is_between(-1, 1).all()


def kind_of(question: str) -> str:
    marks = ("need to have", "branches, schools", "exactly the same", "same root", "real people")
    return next(kind for mark, kind in zip(marks, KINDS, strict=True) if mark in question)


def known_in(question: str) -> list[str]:
    match = re.search(r"Already on the list: (\[.*?\])", question)
    assert match is not None
    return list(json.loads(match[1]))


def test_a_model_is_asked_in_five_kinds_until_nothing_new_comes(journal: Journal) -> None:
    def script(messages: Sequence[Message]) -> str:
        question = messages[-1].content
        if "Milk" in question:
            return "None come to mind."
        more = [tea for tea in ("green tea", "Oolong", "black tea") if tea not in known_in(question)][:1]
        return {
            "characteristics": '```json\n["leaves", "hot water",]\n```',
            "subcategories": f"Here you are: {json.dumps(more)} I hope it helps.",
            "synonyms": "<think>[\"no\"]</think>['cuppa', 'brew']",
            "same_root": "__import__('os').system('touch evil')",
            "people": (
                '{"people": [{"long": "Lu Yu the Sage", "short": "Lu Yu"}, {"long": "Robert Fortune",'
                ' "short": 7}]}'
            ),
        }[kind_of(question)]

    model = ScriptedModel(script)
    judge = EngineJudge(model, journal)
    answered = ask_keywords(judge, ["Tea", "Milk"], domain="drinks", rounds=6)
    before = len(model.asked)
    again = ask_keywords(EngineJudge(model, journal), ["Tea", "Milk"], domain="drinks", rounds=6)
    assert len(model.asked) == before, "what the journal holds is not asked again"
    assert again.keywords.equals(answered.keywords)
    kinds = {kind: words(table) for (kind,), table in answered.keywords.group_by("kind", maintain_order=True)}
    assert kinds == {
        "asked:characteristics": ["leaves", "hot water"],
        "asked:subcategories": ["green tea", "Oolong", "black tea"],
        "asked:synonyms": ["cuppa", "brew"],
        "asked:people": ["Lu Yu", "Robert Fortune"],
    }
    assert judge.calls == [10, 4, 1, 1], "all lists of a round at once; finished lists are left alone"
    assert answered.unanswered == 0
    assert not Path("evil").exists()


def test_asking_that_was_interrupted_goes_on_and_naming_nothing_is_an_error(journal: Journal) -> None:
    named = {KINDS[0]: ["leaf"], KINDS[1]: ["Assam tea", "bicycle"]}
    model = ScriptedModel(lambda messages: json.dumps(named.get(kind_of(messages[-1].content), [])))
    with pytest.raises(Unfinished, match="interrupted while waiting for answers of scripted/judge"):
        ask_keywords(EngineJudge(model, journal, budget=1), ["Tea"], domain="drinks")
    complete = ask_keywords(EngineJudge(model, journal), ["Tea"], domain="drinks")
    assert len(model.asked) == len(set(model.asked))
    assert sorted(words(complete.keywords)) == ["Assam tea", "bicycle", "leaf"]
    silent = EngineJudge(ScriptedModel(lambda messages: "I'd rather not.", "silent/judge"), journal)
    with pytest.raises(
        InputError, match="silent/judge returned no keywords for any concept: the reply contains no JSON list"
    ):
        ask_keywords(silent, ["Tea"], domain="drinks")


@given(st.text(max_size=300))
def test_no_reply_breaks_the_reader(reply: str) -> None:
    read = read_words(reply)
    assert all(any(map(str.isalnum, word)) for word in read.value or ())


@given(
    st.lists(st.text("abc 'é\"\\", min_size=1, max_size=20).map(lambda text: f"w{text}".strip()), min_size=1),
    st.text("abc .!\n", max_size=30),
)
def test_a_json_list_is_read_wherever_it_stands(some: list[str], prose: str) -> None:
    assert read_words(f"{prose} {json.dumps(some)} {prose}").value == tuple(
        " ".join(item.split()) for item in some
    )


def page(concept: str, text: str, *links: Link, depth: int = 0) -> PageSet:
    source = f"{concept}/{depth}"
    row = {**dict.fromkeys(PAGES), "concept": concept, "source": source, "depth": depth, "status": "ok"}
    return PageSet(pl.DataFrame([row], schema=PAGES), {source: text}, {source: links})


def test_words_of_the_page_by_similarity() -> None:
    tea_page = page(
        "tea",
        (
            "Tea's leaves are brewed. The BREWED tea, tea and tea's: a beverage for cyclists. Brewed! It"
            " is 1234 brewed."
        ),
    )
    table = similar_keywords(tea_page, n=4, encoder=Letters())
    assert words(table)[0] == "tea"
    assert {"brewed", "Tea", "1234", "cyclists"} & set(words(table)) <= {"brewed"}
    assert table["similarity"].is_sorted(descending=True)
    assert set(table["kind"]) == {"similar"}
    far = page("tea", "Infusion.", depth=1)
    both = PageSet(pl.concat([tea_page.pages, far.pages]), {**tea_page.texts, **far.texts})
    assert "Infusion" not in words(similar_keywords(both, n=50, encoder=Letters()))


def test_links_that_are_names() -> None:
    text = (
        "Leaves grow there. In India and Sri Lanka the East India Company met Camellia sinensis. Tannins"
        " bind. See Lu Yu of China."
    )
    names = (
        "India",
        "Sri Lanka",
        "East India Company",
        "Camellia sinensis",
        "Lu Yu",
        "Republic of Nowhere",
        "Lu Yu of China",
        "China",
    )
    tea_page = page("tea", text, *(Link(label, label) for label in ("Leaves", "Tannins", "leaves", *names)))
    assert words(linked_keywords(tea_page)) == ["India", "Sri Lanka", "Lu Yu", "China"]
    assert set(linked_keywords(tea_page)["kind"]) == {"linked"}
    assert linked_keywords(PageSet(tea_page.pages.clear(), {})).is_empty()


def test_tables_are_joined_with_the_first_one_first() -> None:
    first, second = given_keywords({"c": ["Tea"]}), given_keywords({"c": ["tea", "milk"], "b": ["tea"]})
    assert join_keywords(first, second).select("concept", "keyword").rows() == [
        ("c", "Tea"),
        ("c", "milk"),
        ("b", "tea"),
    ]
    assert join_keywords().is_empty()
