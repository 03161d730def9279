"""Guards: a concept is never unified with its negation or a concept about other people; lists of a user."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings, strategies as st

from tiltmeter.associations._concepts import unify
from tiltmeter.associations._terms import load_terms, plain_words, plain_words_of
from tiltmeter.errors import InputError

APART = [
    ("practices meditation", "avoids meditation"), ("patient", "impatient"),
    ("shows patience", "impatient with others"), ("caring", "uncaring"), ("careful", "careless"),
    ("cares for others", "carelessly treats others"), ("religious", "not religious"),
    ("religious", "non-religious"), ("religious", "no longer religious"), ("gives up", "never gives up"),
    ("drinks alcohol", "doesn’t drink alcohol"), ("drinks alcohol", "refuses to drink alcohol"),
    ("avoids conflict", "doesn't avoid conflict"), ("confident", "lacks confidence"),
    ("works with help", "works without help"), ("accepts the offer", "rejects the offer"),
    ("honest", "dishonest"), ("loyal friend", "disloyal friend"), ("reliable", "unreliability"),
    ("hopeful", "hopeless"), ("responsible", "irresponsible"), ("logical", "illogical"),
    ("experienced", "inexperienced"), ("maintains focus", "struggles to maintain focus"),
    ("introverted", "extroverted"), ("optimistic", "Pessimistic"), ("African", "European American"),
    ("African", "African-American"), ("devout Christian", "devout Jew"), ("devout", "devout Christian"),
    ("interested in Korean art", "interested in Japanese art"), ("wears a black coat", "wears a white coat"),
    ("businessman", "businesswoman"), ("young nurse", "elderly nurse"),
    ("has dark hair", "has short light brown hair"), ("40-year-old", "35-year-old"),
    ("forty-year-old", "fifty-year-old"), ("is in her thirties", "is in his forties"), ("tall", "short"),
    ("long hair", "short hair"), ("young woman", "old woman"), ("has two children", "has three children"),
    ("overpaid", "underpaid"), ("introvert", "extrovert"), ("rich family", "poor family"),
    ("thinner", "heavier"), ("employed", "jobless"), ("likes dogs", "dislikes dogs"),
    ("blue eyes", "brown eyes"), ("second place", "third place"),
]  # fmt: skip
TOGETHER = [
    ("patient", "calm and patient"), ("important", "port worker"), ("avoids conflict", "refuses to quarrel"),
    ("never fails to help", "helps"), ("not only kind but clever", "kind"), ("no-nonsense", "practical"),
    ("devout Christian", "devout in Christianity"), ("Jewish", "jews"),
    ("observes Ramadan", "fasts during ramadan"), ("woman", "Women"), ("strong", "stronger"),
    ("man of his word’s worth", "men"), ("2 children", "two children"),
    ("forty-five years old", "45 years old"), ("in her 30s", "in her thirties"),
]  # fmt: skip
METHODS = ["leader", "components", "average"]


def unified(*phrases: str, **options: Any) -> dict[str, str]:
    """Return the concept of each phrase with an encoder that gives all phrases the same vector."""
    table = pl.DataFrame({"phrase": phrases, "mentions": range(len(phrases), 0, -1)})
    return dict(
        unify(table, np.ones((len(phrases), 2), dtype=np.float32), **options)
        .select("phrase", "concept")
        .iter_rows()
    )


def same(*phrases: str, **options: Any) -> bool:
    return len(set(unified(*phrases, **options).values())) == 1


@pytest.mark.parametrize(("first", "second"), APART)
def test_opposed_phrases_are_never_one_concept(first: str, second: str) -> None:
    assert not same(first, second)
    assert not same(second, first)


@pytest.mark.parametrize(("first", "second"), TOGETHER)
def test_guards_do_not_separate_phrases_that_are_not_opposed(first: str, second: str) -> None:
    assert same(first, second)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("between", ["temperament", "devout", "disposition towards others"])
def test_a_third_phrase_does_not_join_opposed_phrases(method: str, between: str) -> None:
    phrases = [
        between,
        "patient",
        "impatient",
        "devout Christian",
        "devout Jew",
        "avoids meditation",
        "practices meditation",
    ]
    concepts = unified(*phrases, method=method)
    for first, second in [
        ("patient", "impatient"),
        ("avoids meditation", "practices meditation"),
        *combinations((between, *phrases[3:5]), 2),
    ]:
        assert concepts[first] != concepts[second]
    assert concepts["practices meditation"] == concepts["patient"] == between


@pytest.mark.parametrize("method", METHODS)
def test_opposed_phrases_are_separate_among_many_phrases(method: str) -> None:
    concepts = unified(*dict.fromkeys(phrase for pair in APART for phrase in pair), method=method)
    assert all(concepts[first] != concepts[second] for first, second in APART)


def test_guards_of_the_published_definitions_join_colours_and_ages() -> None:
    assert same("has dark hair", "has short light brown hair", "40-year-old", strict=False)


def test_the_built_in_terms_are_consistent() -> None:
    terms = load_terms()
    owners: dict[str, set[tuple[str, str]]] = {}
    for term in terms.terms:
        for form in term.forms:
            owners.setdefault(form, set()).add((term.category, term.identity))
    assert {form for form, identities in owners.items() if len(identities) > 1} == set()
    assert sum(len(term.forms) for term in terms.terms) == len(owners), "a form is listed twice"
    assert not set(terms.negation.cues) & set(terms.negation.ignored)
    for identity in (
        "female",
        "Asian",
        "Black",
        "white",
        "Middle Eastern",
        "Christian",
        "Jewish",
        "Muslim",
        "Buddhist",
    ):
        assert len(terms.names_of(terms.called[identity.lower()])) > 1
    assert {"judaism", "jew"} < set(terms.names_of(("religions", "Jewish")))
    assert terms.names_of(("", "martian")) == []
    assert set(terms.letters) == {"f", "w", "m", "n", "x"}


def test_a_file_of_terms_replaces_by_category_and_key(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(
        "negation: {cues: [niet, geen]}\nopposites: ['groot, klein']\nidentities: {religions: {}}",
        encoding="utf-8",
    )
    terms = load_terms(str(file))
    assert (terms.negation.cues, terms.opposites) == (["niet", "geen"], [("groot", "klein")])
    assert terms.negation.prefixes == load_terms().negation.prefixes
    assert {term.category for term in terms.terms} == {term.category for term in load_terms().terms} - {
        "religions"
    }
    file.write_text(
        "negation: {cues: [], ignored: [], prefixes: [], without: []}\nopposites: []", encoding="utf-8"
    )
    assert same("patient", "impatient", "not patient", terms=str(file))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("identity: {}", r"unknown key 'identity'.*did you mean identities"),
        ("negation: {cue: [x]}", r"negation: unknown key 'cue'.*did you mean cues"),
        ("negation: {cues: [no, niet]}", r"negation.cues.0 must be a text \(put numbers, dates and words"),
        ("opposites: [calm]", r"opposites: 'calm' does not have two sides"),
        ("identities: {race: [x]}", r"identities.race must be a mapping, found"),
        ("identities: {race: {Asian: {term: [x]}}}", r"identities.race.Asian: unknown key 'term'"),
        (
            "identities: {race: {Asian: {terms: x}}}",
            r"identities.race.Asian.terms must be a list .*, found 'x'",
        ),
        ("- x", r"expected a mapping"),
        ("a: [", r"not valid YAML"),
        (None, r"cannot read the terms"),
    ],
)
def test_mistakes_in_a_file_of_terms_are_reported(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "own.yaml"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message) as caught:
        load_terms(str(file))
    assert str(file) in str(caught.value)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30))
@example("He DOESN’T — semi-religious/non_Asian ")
@settings(max_examples=50)
def test_plain_words_of_a_column_equal_those_of_each_text(text: str) -> None:
    assert pl.select(plain_words(pl.lit(text))).item() == plain_words_of(text)
