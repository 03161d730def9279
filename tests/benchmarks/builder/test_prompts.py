"""Where sentences are cut.

The checked list names 200 Wikipedia sentences of BOLD, drawn by lot over all its groups, by where they stand
in its files. Each was read, and `cuts` says after how many characters the prompt should end ("|" between
alternatives, empty: no sentence that could be cut).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from tiltmeter.benchmarks._builder import Assembled, continuations, split_sentences
from tiltmeter.benchmarks._builder.verbs import tag_words
from tiltmeter.benchmarks._tables import BENCHMARK, SENTENCES
from tiltmeter.errors import InputError

CHECKED = pl.read_csv(Path(__file__).with_name("checked_cuts.csv"), schema_overrides={"cuts": pl.String})


@pytest.fixture(scope="module")
def allowed(shared: Path) -> dict[str, list[str]]:
    """Sentence -> the prompts that are right; [""] where none is."""
    published = {
        file: json.loads((shared / "data" / "bold" / file).read_text(encoding="utf-8"))
        for file in CHECKED["file"].unique()
    }
    by_name = {}
    for file, group, page, text, begin, end, cuts in CHECKED.iter_rows():
        sentence = " ".join(published[file][group][page][text][begin:end].split())
        by_name[sentence] = [sentence[: int(length)] for length in cuts.split("|")] if cuts else [""]
    return by_name


def table(sentences: Sequence[str], concept: str = "a") -> pl.DataFrame:
    rows = [
        ("d", concept, "party", f"s{place}", "local", place, sentence, None)
        for place, sentence in enumerate(sentences)
    ]
    return pl.DataFrame(rows, schema=SENTENCES, orient="row")


# A sentence that can always be cut keeps the concept from being left without prompts.
SURE = "The party was founded by workers in the north."


def cut(sentence: str, definition: Literal["default", "saged"] = "default") -> str | None:
    rows = continuations(table([sentence, SURE]), definition=definition).benchmark.filter(source="s0")[
        "prompt"
    ]
    return rows[0] if len(rows) else None


@pytest.fixture(scope="module")
def checked(allowed: dict[str, list[str]]) -> dict[str, str]:
    prompts = continuations(table(list(allowed))).benchmark
    return dict(prompts.select("baseline", "prompt").iter_rows())


def test_cuts_of_the_checked_list(checked: dict[str, str], allowed: dict[str, list[str]]) -> None:
    assert len(allowed) == 200
    misplaced = [
        (checked.get(sentence, ""), cuts)
        for sentence, cuts in allowed.items()
        if checked.get(sentence, "") not in cuts
    ]
    assert len(misplaced) <= 10, misplaced


def test_no_cut_inside_a_word_a_name_or_brackets(checked: dict[str, str]) -> None:
    assert len(checked) > 170
    for sentence, prompt in checked.items():
        remainder, last = sentence[len(prompt) :], prompt.split()[-1]
        assert sentence.startswith(prompt)
        assert not (prompt[-1].isalnum() and remainder[0].isalnum())
        assert re.match(r"[\s,:;.]", remainder), (prompt, remainder)
        assert prompt.count("(") == prompt.count(")") or ")" not in remainder
        assert last[0].islower() or last[0] in "'\u2014(" or "\u2014" in last, prompt


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("The movement is a branch of a larger one.", "The movement is"),
        (
            "The movement has not often been described as one body.",
            "The movement has not often been described",
        ),
        (
            "Those who live and work in the valley are called people of the hills.",
            "Those who live and work in the valley are called",
        ),
        (
            "The term coined by early writers was used in many books.",
            "The term coined by early writers was used",
        ),
        (
            "As the party grew and lost its leaders, it met new rivals there.",
            "As the party grew and lost its leaders, it met",
        ),
        ("Since 1980, the party has won three elections in a row.", "Since 1980, the party has won"),
        (
            "The party (which was founded in 1900) supports free trade today.",
            "The party (which was founded in 1900) supports",
        ),
        (
            'The group known as "we are one" rejects all of these views.',
            'The group known as "we are one" rejects',
        ),
        ("Followers of the faith don't eat meat on holy days.", "Followers of the faith don't eat"),
        ("There are many schools within the old tradition.", "There are"),
        ("The party led to new laws, but it declined in later years.", "The party led"),
        ("Some claim that the old books were lost in a fire.", "Some claim"),
        ("A History of the Left: Essays and Documents 1900-1950.", None),
        ("In the early movement, without any leaders.", None),
        ("Walk With Us is a group of young people.", "Walk With Us is"),
    ],
)
def test_by_rule(sentence: str, expected: str | None) -> None:
    assert cut(sentence) == expected


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        # The first verb after the fifth word, and three words more; not in brackets.
        (
            "The old and proud party soon won many seats in the north.",
            "The old and proud party soon won many seats in",
        ),
        (
            "The old party soon won there and gained many seats in the north.",
            "The old party soon won there and gained many seats in",
        ),
        (
            "The party grew in the north and (they said gladly) later gained more seats in the old south.",
            "The party grew in the north and (they said gladly) later gained more seats in",
        ),
        # None there: the first anywhere.
        ("They won seats in the old north.", "They won seats in the"),
    ],
)
def test_the_published_rule(sentence: str, expected: str) -> None:
    assert cut(sentence, "saged") == expected


def test_what_is_dropped_is_counted() -> None:
    assembled = continuations(
        table(
            [
                SURE,
                "It is over.",
                "No verb in this old fragment here.",
                "The critics of it say: nothing more.",
            ]
        )
    )
    assert assembled.benchmark["prompt"].to_list() == ["The party was founded"]
    little = "too little is left to continue"
    assert assembled.dropped.select("position", "reason").rows() == [
        (1, little),
        (2, "no main verb was found"),
        (3, little),
    ]


def test_rows_of_the_benchmark() -> None:
    sentences = [
        "The  party was\nfounded by workers in 1900.",
        "In the north the Party was small and poor.",
        "The parties were small in it.",
    ]
    prompts = continuations(table(sentences)).benchmark
    assert dict(prompts.schema) == {name: pl.Series(dtype=kind).dtype for name, kind in BENCHMARK.items()}
    assert prompts["keyword_in_prompt"].to_list()[::2] == [
        True,
        False,
    ]  # in any case, as a whole word: "parties" is another
    assert prompts["root"].to_list() == prompts["key"].to_list()
    first = ("The party was founded by workers in 1900.", "continuation", "s0", None)
    assert prompts.select("baseline", "kind", "source", "branched_from").row(0) == first


def test_keys_do_not_depend_on_other_rows() -> None:
    sentences = table([SURE, "The party is small and old by now.", SURE])
    keys = dict(continuations(sentences).benchmark.select("source", "key").iter_rows())
    again = dict(continuations(sentences.reverse().head(2)).benchmark.select("source", "key").iter_rows())
    assert len(set(keys.values())) == 3
    assert again == {source: keys[source] for source in again}


def test_keywords_are_taken_as_they_are_and_without_sentences_there_is_nothing() -> None:
    sentences = table(["The C++ (old) party was founded by workers there."]).with_columns(
        keyword=pl.lit("C++ (old)")
    )
    assert continuations(sentences).benchmark["keyword_in_prompt"].to_list() == [True]
    assert continuations(table([])).benchmark.is_empty()


def test_a_concept_left_without_prompts() -> None:
    with pytest.raises(InputError, match=r"'b' \(1 no main verb was found\)"):
        continuations(pl.concat([table([SURE]), table(["A short history of Chad since 1900."], "b")]))


RELIGIONS = ("judaism", "christianity", "islam", "buddhism", "sikhism", "atheism")
IDEOLOGIES = (
    "communism",
    "socialism",
    "liberalism",
    "conservatism",
    "nationalism",
    "anarchism",
    "capitalism",
    "fascism",
)


def bold(shared: Path, file: str, groups: tuple[str, ...]) -> pl.DataFrame:
    published = json.loads((shared / "data" / "bold" / file).read_text(encoding="utf-8"))
    rows = []
    for group in groups:
        for title, texts in published[group].items():
            long = [
                sentence for text in texts for sentence in split_sentences(text) if len(sentence.split()) >= 6
            ]
            rows += [
                (file, group, group, title, "local", place, sentence, "CC BY-SA")
                for place, sentence in enumerate(long)
            ]
    return pl.DataFrame(rows, schema=SENTENCES, orient="row").unique(
        ["concept", "sentence"], maintain_order=True
    )


@pytest.mark.parametrize(
    ("file", "groups"),
    [
        ("religious_ideology_wiki.json", RELIGIONS),
        pytest.param("political_ideology_wiki.json", IDEOLOGIES, marks=pytest.mark.verify),
    ],
)
def test_most_sentences_of_bold_become_prompts(shared: Path, file: str, groups: tuple[str, ...]) -> None:
    sentences = bold(shared, file, groups)
    start = time.process_time()
    assembled = continuations(sentences)
    assert (time.process_time() - start) / sentences.height < 0.01  # one takes about a millisecond
    assert assembled.benchmark.height + assembled.dropped.height == sentences.height
    assert assembled.benchmark.height > 0.85 * sentences.height
    assert assembled.benchmark["key"].is_unique().all()


PLAIN = ("The", "party", "is", "was", "founded", "that", "who", "and", "of", "Bank", "works", "3.5", "don't")
ANY_WORD = st.sampled_from([*PLAIN, *',;()"\u2014\u201c\u201d'])


@settings(max_examples=80)
@given(
    st.lists(st.lists(ANY_WORD, max_size=14).map(" ".join), max_size=4), st.sampled_from(["default", "saged"])
)
def test_any_sentences(sentences: list[str], definition: Literal["default", "saged"]) -> None:
    given_rows = [SURE, *(sentence for sentence in sentences if sentence.strip())]
    assembled: Assembled = continuations(table(given_rows), definition=definition)
    assert assembled.benchmark.height + assembled.dropped.height == len(given_rows)
    for prompt, baseline in assembled.benchmark.select("prompt", "baseline").iter_rows():
        assert baseline.startswith(prompt)
        assert len(prompt) < len(baseline)


def test_words_their_places_and_parts_of_speech() -> None:
    sentence = "They don't live in Punjab."
    words = tag_words(sentence)
    assert [word.text for word in words] == ["They", "do", "n't", "live", "in", "Punjab", "."]
    assert [sentence[word.end - len(word.text) : word.end] for word in words] == [word.text for word in words]
    assert tag_words("") == tag_words(" ") == []
    long = [word.text for word in tag_words("The U.S. paid Dr. J. Smith 1,575.5 dollars at 10:30.")]
    assert long == ["The", "U.S.", "paid", "Dr.", "J.", "Smith", "1,575.5", "dollars", "at", "10:30", "."]
    tags = {word.text: word.tag for word in tag_words("The party was founded by workers.")}
    assert (tags["The"], tags["party"], tags["was"], tags["founded"], tags["workers"]) == (
        "AT0",
        "NN1",
        "VBD",
        "VVN",
        "NN2",
    )


@pytest.mark.parametrize(
    ("flag", "sentence", "words"),
    [
        ("bracketed", "A (b [c] d) e", "( b [ c ] d )"),
        ("bracketed", "a) one (two) b", "( two )"),
        ("bracketed", "never (closed at all", "( closed at all"),
        ("bracketed", "none", ""),
        ("quoted", 'He said "yes" and "no".', '" yes " " no "'),
        ("quoted", 'He said "yes" and "no.', '" yes "'),
        ("quoted", "He said \u201cyes\u201d.", "\u201c yes \u201d"),
        ("quoted", "He said \u201cyes.", ""),
        ("name", "The Bank of England moved.", "The Bank of England"),
        ("name", "Workers of the land met Rosa there.", "Rosa"),
    ],
)
def test_words_in_brackets_in_quotation_marks_and_in_names(flag: str, sentence: str, words: str) -> None:
    assert [word.text for word in tag_words(sentence) if getattr(word, flag)] == words.split()


@settings(max_examples=60)
@given(st.text(alphabet=st.sampled_from("abcXY .,()[]\"\u201c\u201d'-12é\u0301漢\U0001f600"), max_size=60))
def test_any_text(sentence: str) -> None:
    for word in tag_words(sentence):
        assert sentence[word.end - len(word.text) : word.end] == word.text
