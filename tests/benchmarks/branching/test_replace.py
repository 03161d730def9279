"""Words of texts replaced by others: hand-written cases, and what holds for every text."""

from __future__ import annotations

import json
import re
import time
import unicodedata
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from hypothesis import given, strategies as st

from tiltmeter.benchmarks._branching import replace

_GROUPS: list[dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("cases.yaml").read_text(encoding="utf-8")
)
_CASES = [(group["table"], case["from"], case["to"]) for group in _GROUPS for case in group["cases"]]


def _one(text: str, table: dict[str, str]) -> str:
    entries: str = replace(pl.Series([text]), table)[0]
    return entries


def test_there_are_enough_cases() -> None:
    assert len(_CASES) >= 60
    assert len({text for _, text, _ in _CASES}) == len(_CASES)


@pytest.mark.parametrize(("table", "text", "wanted"), _CASES, ids=[text for _, text, _ in _CASES])
def test_case(table: dict[str, str], text: str, wanted: str) -> None:
    assert _one(text, table) == wanted


def test_a_series_keeps_its_name_nulls_and_order() -> None:
    texts = pl.Series("prompt", ["Argentina", None, "x", "Argentina"])
    assert replace(texts, {"Argentina": "Brazil"}).equals(
        pl.Series("prompt", ["Brazil", None, "x", "Brazil"]), check_names=True
    )
    assert replace(pl.Series("a", [None], dtype=pl.Null), {"Argentina": "Brazil"}).dtype == pl.String
    assert replace(texts, {}).equals(texts)


@given(st.text())
def test_a_text_without_any_of_the_words_is_unchanged(text: str) -> None:
    table = {"Argentina": "Brazil", "European Union": "the EU", "iPhone": "x", "qqq": "a"}
    low = text.casefold()
    if not any(old.split()[0].casefold() in low for old in table):
        assert _one(text, table) == text


@given(st.text(alphabet="ab'’- \u0301éA", max_size=12), st.text(alphabet="ab'’ é", max_size=6))
def test_nothing_inside_a_word_is_replaced(text: str, old: str) -> None:
    if not old.strip() or not old.strip()[0].isalpha():
        return
    old = old.strip()
    for at in (f"x{text}{old}x", f"x{old}x", f"{old}x", f"x{old}", f"é{old}", f"{old}\u0301x"):
        by_name = _one(at, {old: "Q"})
        assert not [pair for pair in ("Qx", "xQ", "éQ", "Q\u0301") if pair in by_name]


_TABLE = {
    "Imaginaria": "the Netherlands",
    "Imaginarian": "Argentine",
    "peso": "euro",
    "lagoon": "island",
    "Port Vera": "Oslo",
    "Port Vera Bay": "Oslofjord",
    "citizen": "woman",
    "Éirean": "Chilean",
    "the Grand Lodge": "Elm House",
}
_BACK = {new: old for old, new in _TABLE.items()}
_NOUNS = ["an Imaginarian", "a peso", "a lagoon", "a citizen", "an Éirean"]
_PIECES = [
    *(
        "Imaginaria",
        "Imaginaria's",
        "IMAGINARIA",
        "peso",
        "pesos",
        "lagoons'",
        "Port Vera",
        "Port Vera's",
        "Port Vera Bay",
        "citizens",
    ),
    *(
        "citizen’s",
        "Imaginarians",
        "half-Imaginarian",
        "“Imaginaria”",
        "(peso)",
        "Éirean",
        "the Grand Lodge",
        "PESO",
        "LAGOON",
        "An",
    ),
    *(
        "house",
        "The",
        "a",
        "an",
        "in",
        "İzmir",
        "ﬁsh",
        "e\u0301te\u0301",
        "日本",
        "lakes",
        "A",
        "he’ll",
        "1,5",
        "pesoetas",
        "#",
        "thePeso",
    ),
    *_NOUNS,
    *(f"A{noun[1:]}" if noun.startswith("a ") else f"An{noun[2:]}" for noun in _NOUNS),
]
_ARTICLES = {"a", "an", "An", "A", "The"}


@given(
    st.lists(
        st.tuples(st.sampled_from(_PIECES), st.sampled_from([" ", ", ", ". ", "; ", " - ", "\n", "\n\n"])),
        min_size=1,
        max_size=12,
    )
)
def test_there_and_back_restores_the_text(pieces: list[tuple[str, str]]) -> None:
    # An article that stands before a word by chance may be a wrong one, and no table says which.
    clash = any(word in _ARTICLES and not gap.strip() for (word, gap), _ in pairwise(pieces))
    text = "".join(piece + gap for piece, gap in pieces)
    text = re.sub(r"(?:\A|(?<=[.!?]\s)|(?<=\n))the Grand", "The Grand", text)  # as sentences begin
    forward = _one(text, _TABLE)
    if clash:
        return
    back = _one(forward, _BACK)
    # A text that mixes composed and decomposed accents does not say which of them a new word had.
    assert unicodedata.normalize("NFC", back) == unicodedata.normalize("NFC", text)
    assert back == text or not unicodedata.is_normalized("NFC", text)
    occurs = any(
        word.lower() in text.lower()
        for word in ("imaginaria", "port", "éirean", "lodge", "citizen", "lagoon")
    )
    assert (forward != text) or not occurs


def test_real_sentences_are_restored_too(shared: Path) -> None:
    topics = json.loads(
        (shared / "data" / "bold" / "religious_ideology_wiki.json").read_text(encoding="utf-8")
    )["christianity"]
    texts = pl.Series([sentence for sentences in topics.values() for sentence in sentences])
    table = {
        "Christianity": "Islam",
        "Christian": "Muslim",
        "church": "mosque",
        "Bible": "Quran",
        "Christ": "the Prophet",
    }
    table["priest"] = "imam"
    texts = texts.filter(~texts.str.contains("(?i)islam|muslim|mosque|quran|prophet|imam"))
    forward = replace(texts, table)
    assert len(texts) > 150
    assert (forward != texts).sum() > 0.95 * len(texts)
    assert not forward.str.contains(r"\b(?:[Cc]hurch(?:es)?|CHURCH|Christ(?:ians?|ianity)?|Bibles?)\b").any()
    assert replace(forward, {new: old for old, new in table.items()}).equals(texts)


def test_very_many_texts_take_seconds() -> None:
    names = [
        name + end
        for name in ("Alb", "Bren", "Cor", "Dam", "Est")
        for end in ("ia", "ian", "ish", "port City", "on")
    ]
    table = {name: f"New{name}" for name in names} | {
        f"word{number}": f"term{number}" for number in range(40)
    }
    text = (
        "The Albian minister of Albia met an Estian delegation in Corport City, where word7 and word39"
        " were spoken of at length by all. "
    )
    texts = pl.Series([f"{text * 2}{number}" for number in range(10_000)])
    started = time.process_time()
    replaced = replace(texts, table)
    assert time.process_time() - started < 10  # some 0.7 s where nothing else runs
    assert replaced[3].startswith(
        "The NewAlbian minister of NewAlbia met a NewEstian delegation in NewCorport City, where term7"
    )
