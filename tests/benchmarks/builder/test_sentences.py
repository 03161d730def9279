"""Where sentences begin and end.

Sentences by keyword: whole words only, each concept its own pages and keywords, each sentence once.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import polars as pl
import pytest
from hypothesis import given, strategies as st

from tiltmeter.benchmarks._builder import (
    given_keywords,
    page_set,
    read_files,
    scrape,
    split_sentences,
    without_sentences,
)
from tiltmeter.benchmarks._tables import PAGES, SENTENCES
from tiltmeter.study import NotRun

CASES: list[tuple[str, list[str]]] = [
    ("Dr. Ames met Mrs. Hale. They spoke.", ["Dr. Ames met Mrs. Hale.", "They spoke."]),
    ("It was by J. R. R. Marsh. He died in 1950.", ["It was by J. R. R. Marsh.", "He died in 1950."]),
    (
        "See vol. 3, p. 12, and St. Mary's, e.g. the nave. It is old.",
        ["See vol. 3, p. 12, and St. Mary's, e.g. the nave.", "It is old."],
    ),
    (
        "The sect (see ch. 4. It is long.) grew. Then it split.",
        ["The sect (see ch. 4. It is long.) grew.", "Then it split."],
    ),
    ('He said "Go away!" and left. She stayed.', ['He said "Go away!" and left.', "She stayed."]),
    ("She asked: \u201cWhy?\u201d No one knew.", ["She asked: \u201cWhy?\u201d", "No one knew."]),
    ("One wing led; Another followed; Both lost.", ["One wing led; Another followed; Both lost."]),
    (
        "It rose by 3.5 percent to 1,200.50 in 2001. Then it fell.",
        ["It rose by 3.5 percent to 1,200.50 in 2001.", "Then it fell."],
    ),
    (
        "It ended in the Soviet Union.The term lived on.",
        ["It ended in the Soviet Union.", "The term lived on."],
    ),
    ('It is "rebirth".In other cases it is not.', ['It is "rebirth".', "In other cases it is not."]),
    (
        "Goals:\n- to teach\n- to heal the sick. And more\n",
        ["Goals:", "to teach", "to heal the sick.", "And more"],
    ),
    ("\u2022 first thing\n\u2022 second thing", ["first thing", "second thing"]),
    ("1. First point\n2. Second point that is\n   wrapped", ["First point", "Second point that is wrapped"]),
    (
        "It was wrapped and\nwent on \u2013\n- as said \u2013 here.",
        ["It was wrapped and went on \u2013 - as said \u2013 here."],
    ),
    ("A heading\n\nA first  sentence.\tA second.", ["A heading", "A first sentence.", "A second."]),
    ("", []),
    (" \n\n\t\n", []),
    ("no end", ["no end"]),
    ("\u200b", ["\u200b"]),
    ("( " * 50_000, [("( " * 50_000).strip()]),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text[:20] for text, _ in CASES])
def test_split(text: str, expected: list[str]) -> None:
    assert split_sentences(text) == expected


@given(
    st.text(
        alphabet=st.sampled_from("abcXYZ .!?;:,()[]\"'\u201c\u201d-\u2022123\n\r\t\u2014é漢"), max_size=200
    )
)
def test_nothing_is_lost_or_made_up(text: str) -> None:
    sentences = split_sentences(text)
    assert all(sentence and sentence == " ".join(sentence.split()) for sentence in sentences)
    # Only the bullets and numbers of lists go.
    gone = "".join(text.split())
    remaining = iter(gone)
    assert all(character in remaining for character in "".join("".join(sentences).split()))
    letters = sum(map(str.isalpha, gone))
    in_sentences = sum(map(str.isalpha, "".join(sentences)))
    assert in_sentences >= letters - gone.count(")")


def test_a_long_text_takes_time_in_proportion() -> None:
    def seconds(copies: int) -> float:
        text = 'The party (founded in 1900) said "We are one." It grew; it fell. ' * copies
        start = time.process_time()
        assert len(split_sentences(text)) >= copies
        return time.process_time() - start

    seconds(50)
    assert seconds(4000) < 40 * seconds(400) + 1


def test_without_syntok(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "syntok", None)
    with pytest.raises(NotRun, match=r'pip install "tiltmeter\[benchmarks\]"'):
        split_sentences("One. Two.")


def lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def pages(*rows: tuple[str, str], status: str = "ok") -> pl.DataFrame:
    """PAGES of (concept, source)."""
    entries = [
        {**dict.fromkeys(PAGES), "concept": c, "source": s, "source_tag": "local", "status": status}
        for c, s in rows
    ]
    return pl.DataFrame(entries, schema=PAGES)


def found(text: str, *keywords: str) -> list[tuple[str, int]]:
    """Keyword and position of each sentence (one a line) found in a text."""
    rows = scrape(pages(("c", "s")), {"s": text}, given_keywords({"c": keywords}), split=lines)
    assert dict(rows.schema) == dict(SENTENCES)
    return rows.select("keyword", "position").rows()


FILLED = "and so the sentence has enough words"


@pytest.mark.parametrize(
    ("keyword", "holding", "lacking"),
    [
        ("he", ["HE said"], ["the other then"]),
        ("Islam", ["islam's law", "Islam’s law"], ["Islamic law"]),
        ("women's rights", ["Women’s  rights"], []),
        ("C++", ["C++ code"], ["C code"]),
        (".NET", ["the .NET library"], []),
        ("AC/DC", ["ac/dc plays"], []),
        ("a.b", [], ["axb"]),
        ("(x", ["the (x of"], []),
        ("[a-z]+", [], ["letters"]),
        ("Shia Islam", ["shia\u00a0Islam"], []),
        ("café", ["the cafe\u0301 there"], []),
        ("cafe", [], ["the cafe\u0301 there"]),
        ("cafe\u0301", ["the CAFÉ there"], []),
        ("हिन्द", [], ["हिन्दू धर्म"]),
        ("हिन्दू", ["हिन्दू धर्म"], []),
        ("Ελλάδα", ["ΕΛΛΆΔΑ and"], []),
        ("Muslim", ["Muslim-majority places"], []),
        ("rock_band", [], ["rock_bands"]),
        ("Left", ["“Left”, they"], []),
        ("4", [], ["44 and 4th"]),
    ],
)
def test_a_keyword_is_found_as_a_whole_word_whatever_it_holds(
    keyword: str, holding: list[str], lacking: list[str]
) -> None:
    assert [words for words in holding + lacking if found(f"{words} {FILLED}", keyword)] == holding


def test_a_sentence_of_six_words_or_more_stands_once_under_its_first_keyword_or_the_longest_there() -> None:
    assert found(
        "Tea is – very – good\nTea is – very – good – indeed – !\nTea is a very good drink", "tea"
    ) == [("tea", 2)]
    text = (
        "Sunni Islam and Shia Islam are two branches\nIslam and Sunni Islam are not the same\nsunni"
        " islam AND shia islam are two branches"
    )
    assert found(text, "Islam", "Sunni Islam", "Shia Islam") == [("Sunni Islam", 0), ("Islam", 1)]


def test_nothing_goes_to_another_concept() -> None:
    texts = {
        "a": f"Tea {FILLED}\nCoffee {FILLED}\nNothing {FILLED}",
        "b": f"Coffee {FILLED}\nTea {FILLED} too",
        "both": f"Coffee or tea {FILLED}",
    }
    table = pages(("Tea", "a"), ("Tea", "both"), ("Coffee", "b"), ("Coffee", "both"))
    words = given_keywords({"Tea": ["tea"], "Coffee": ["coffee"]})
    rows = scrape(table, texts, words, split=lines).select("concept", "keyword", "source", "position").rows()
    assert rows == [
        ("Tea", "tea", "a", 0),
        ("Tea", "tea", "both", 0),
        ("Coffee", "coffee", "b", 0),
        ("Coffee", "coffee", "both", 0),
    ]


def test_only_texts_that_hold_a_keyword_are_cut_and_each_once() -> None:
    split = Mock(side_effect=lines)
    texts = {"a": f"Tea or coffee {FILLED}", "b": "Milk"}
    table = pages(("Tea", "a"), ("Tea", "b"), ("Coffee", "a"))
    assert (
        scrape(table, texts, given_keywords({"Tea": ["tea"], "Coffee": ["coffee"]}), split=split).height == 2
    )
    split.assert_called_once_with(texts["a"])


def test_what_got_no_sentence_is_listed_with_the_reason() -> None:
    texts = {"a": f"Tea {FILLED}"}
    table = pl.concat(
        [pages(("Tea", "a"), ("Milk", "a"), ("Juice", "a")), pages(("Water", "w"), status="missing")]
    )
    words = given_keywords(
        {"Tea": ["tea", "infusion"], "Milk": ["milk"], "Water": ["water"], "Beer": ["beer"]}
    )
    sentences = scrape(table, texts, words, split=lines)
    lacking = without_sentences(table, words, sentences)
    assert [sentence.split(":")[0] for sentence in lacking] == [
        "the concept 'Milk' has no sentences (no sentence of at least 6 words contains one of its keywords)",
        "the concept 'Juice' has no sentences (it has no keywords)",
        "the concept 'Water' has no sentences (none of its pages could be read)",
        "the concept 'Beer' has no sentences (it has no pages)",
        (
            "the keyword 'infusion' of 'Tea' has no sentences (no sentence contains it, or another"
            " keyword occurs first)"
        ),
    ]
    assert scrape(table, texts, words.clear()).is_empty()
    assert scrape(table.clear(), texts, words).is_empty()


WORDS = st.lists(
    st.sampled_from(
        ["tea", "Tea", "teas", "tea's", "green", "green tea", "a/b", "C++", "c", "été", "x.y", "the", "he"]
    ),
    min_size=1,
)


@given(WORDS, st.lists(WORDS, max_size=6), st.text(max_size=20))
def test_it_agrees_with_a_plain_search(
    keywords: Sequence[str], sentences: Sequence[Sequence[str]], odd: str
) -> None:
    text = "\n".join([*(" ".join(words) for words in sentences), " ".join(odd.split())])
    expected = []
    used: set[str] = set()
    for position, line in enumerate(lines(text)):
        if (
            len([word for word in line.split() if any(map(str.isalnum, word))]) >= 6
            and line.casefold() not in used
        ):
            for keyword in keywords:
                if re.search(r"(?<!\w)" + re.escape(keyword) + r"(?!\w)", line, re.IGNORECASE):
                    used.add(line.casefold())
                    expected.append(position)
                    break
    assert [position for _, position in found(text, *keywords)] == expected


def test_bold_gives_hundreds_of_sentences(shared: Path) -> None:
    file = str(shared / "data" / "bold" / "religious_ideology_wiki.json")
    names = ["judaism", "christianity", "islam", "hinduism", "buddhism", "sikhism", "atheism"]
    read = page_set(read_files({name: [file] for name in names}))
    rows = scrape(read.pages, read.texts, given_keywords({name: [name] for name in names}))
    counts = dict(rows.group_by("concept").len().rows())
    assert counts.keys() == set(names)
    assert min(counts[name] for name in names if name != "hinduism") > 20
    assert rows.filter(~pl.col("sentence").str.to_lowercase().str.contains(pl.col("keyword"))).is_empty()
    assert rows.select("concept", "sentence").is_unique().all()


def test_much_text_with_many_keywords_is_quick() -> None:
    words = [f"{chr(97 + number % 26)}word{number} of note" for number in range(150)]
    sentence = (
        "Here stands a sentence of an ordinary length in which there is {} and more\nNothing of note is"
        " said in this one at all\n"
    )
    texts = {f"s{number}": sentence.format(words[number]) * 500 for number in range(10)}
    table = pages(*((f"c{concept}", source) for concept in range(5) for source in texts))
    keywords = given_keywords({f"c{concept}": words for concept in range(5)})
    started = time.process_time()
    assert scrape(table, texts, keywords, split=lines).height == 5 * 10
    assert time.process_time() - started < 10
