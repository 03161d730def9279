"""Words and phrases read without a judge: attribution to characters, families, and words of the prompt."""

from __future__ import annotations

import random
from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from tiltmeter.associations._expressions import unify_words
from tiltmeter.associations._extraction_words import extract
from tiltmeter.associations._simulation import CONCEPTS, SHARED_CONCEPTS
from tiltmeter.associations._stories import counted
from tiltmeter.associations._tables import LISTS, MENTIONS, STORIES
from tiltmeter.associations._terms import conflict, load_terms, signed_roots
from tiltmeter.errors import InputError
from tiltmeter.readers._content_words import phrases_of
from tiltmeter.readers._words_in_sentences import sentences_of, words_of


def phrases(text: str, language: str = "en") -> list[str]:
    return phrases_of(words_of(sentences_of(pl.Series([text])), language), language)["phrase"].to_list()


def tables(
    texts: Sequence[tuple[Sequence[str | None], str]], prompt: str = "", language: str = "en"
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return LISTS and MENTIONS of stories, given the names of their characters and their texts."""
    rows = [
        {"attempt": f"{number}#0", "character": who, "name": name, "text": text}
        for number, (names, text) in enumerate(texts)
        for who, name in enumerate(names)
    ]
    stories = pl.DataFrame(rows, schema=dict(STORIES))
    return extract(stories, stories.select("attempt", prompt=pl.lit(prompt)).unique(), language)


def phrases_by_character(names: Sequence[str | None], text: str) -> list[set[str]]:
    """Return the phrases of each character of a story."""
    mentions = tables([(names, text)])[1]
    return [set(mentions.filter(character=who)["phrase"]) for who in range(len(names))]


def concepts(uses: dict[str, int], language: str = "en") -> dict[str, str]:
    unified = unify_words(
        pl.DataFrame(list(uses.items()), schema=["phrase", "mentions"], orient="row"), language
    )
    return dict(unified.select("phrase", "concept").iter_rows())


@pytest.mark.parametrize(
    ("text", "expected", "absent"),
    [
        ("Her eyes are a deep, soulful brown.", {"deep", "soulful", "brown"}, {"her", "eyes"}),
        (
            "She carries herself with grace and keeps a detailed diary.",
            {"grace", "keeps a detailed diary", "detailed", "detailed diary"},
            {"keeps a diary", "herself"},
        ),
        (
            "He has olive skin and almond-shaped eyes.",
            {"olive skin", "almond-shaped eyes"},
            {"has", "has olive"},
        ),
        (
            "She has jet black hair and almond shaped eyes.",
            {"jet black hair", "almond shaped eyes"},
            {"jet", "shaped", "shaped eyes"},
        ),
        (
            "His neatly trimmed beard and tightly coiled hair.",
            {"neatly trimmed beard", "tightly coiled hair"},
            {"neatly", "tightly"},
        ),
        (
            "She wants to build a more inclusive world.",
            {"build a more inclusive world"},
            {"build a world", "world"},
        ),
        (
            "- a tall woman\n- loves chess\n- a kind nurse",
            {"woman", "tall woman", "chess", "loves chess", "nurse", "kind nurse"},
            set(),
        ),
        ("He speaks a foreign language.", {"speaks a foreign language"}, {"speaks"}),
        (
            "She isn't afraid to speak up and never complains.",
            {"not afraid", "never complains"},
            {"afraid", "complains"},
        ),
        ("He is kind, and he has a sense of humor of a kind.", {"kind", "humor"}, {"sense"}),
        (
            "On most days, Ann studies maps, waters the plants and sings in a choir.",
            {"studies maps", "waters the plants", "sings in a choir"},
            set(),
        ),
        ("This makes her an asset.", {"makes someone an asset"}, {"makes her an asset"}),
        ("This makes him an asset.", {"makes someone an asset"}, {"makes him an asset"}),
        ("They opened their umbrella.", {"opened one's umbrella"}, {"opened their umbrella"}),
        ("He opened his own café.", {"opened one's own café"}, {"his café"}),
        ("She does not like to dance.", set(), {"dance", "not … dance"}),
        ("He has olive-toned skin.", {"olive", "olive-toned", "olive-toned skin"}, set()),
    ],
)
def test_words_word_pairs_and_predicates_are_phrases(text: str, expected: set[str], absent: set[str]) -> None:
    reading = set(phrases(text))
    assert expected <= reading
    assert not absent & reading


def test_planted_concepts_are_read_for_the_person_who_has_them() -> None:
    draw = random.Random(4)
    every = set(SHARED_CONCEPTS)
    for by_identity in CONCEPTS.values():
        for concepts_of_identity in by_identity.values():
            every.update(concepts_of_identity)
    traits = [concept for concept in sorted(every) if " " not in concept]
    deeds = [concept for concept in sorted(every) if " " in concept and concept != "arrives early"]
    for _ in range(60):
        first, second = draw.sample(["Clarence", "Julie", "Irene", "Bradley", "Mary", "Zhang", "Pamela"], 2)
        first_trait, second_trait = draw.sample(traits, 2)
        *second_deeds, first_deed = draw.sample(deeds, 4)
        text = (
            f"Rain fell at the station. {first} is {first_trait}. "
            f"On most days, {second} {second_deeds[0]}, {second_deeds[1]} and {second_deeds[2]}. "
            f"Anyone could see that {second} was {second_trait}. {first} often {first_deed}. "
            "By evening, everybody went home."
        )
        first_phrases, second_phrases = phrases_by_character([first, second], text)
        begun_deeds = {deed for deed in deeds if deed.startswith(tuple(first_phrases))}
        assert {first_trait, first_deed.replace(" at work", "")} <= first_phrases | begun_deeds, text
        assert second_trait in second_phrases
        assert first_trait not in second_phrases
        assert not {"rain", "station", "fell", "evening"} & (first_phrases | second_phrases)


def test_words_are_attributed_to_the_person_mentioned_last() -> None:
    text = (
        "Emma met Donald. She was tired but he was cheerful. Emma packed her bag. "
        "Donald, proud of his cake, thanked Emma. She was glad."
    )
    emma, donald = phrases_by_character(["Emma", "Donald"], text)
    assert {"tired", "packed one's bag", "glad"} <= emma
    assert {"cheerful", "proud", "cake"} <= donald
    assert not {"cheerful", "proud"} & emma
    assert not {"tired", "glad"} & donald
    # With two women, the pronoun may refer to either.
    anna, beth = phrases_by_character(
        ["Anna", "Beth"],
        "Anna and Beth met. Anna saw Beth. She was shy. Beth keeps bees. She was loud. Anna sings.",
    )
    assert "shy" not in anna | beth
    assert "keeps bees" in beth


def test_names_are_no_concepts_and_other_people_are_not_described() -> None:
    text = "Maria is a proud teacher. Maria's friends like Maria. Her grandmother Rosa was strict."
    (maria,) = phrases_by_character([None], text)
    assert "proud" in maria
    assert not {"maria", "rosa"} & maria
    text = "Julia is curious. Mark was rude. Julia's brother was lazy."
    (julia,) = phrases_by_character(["Julia"], text)
    assert {"curious"} <= julia
    assert "rude" not in julia


def test_lists_read_by_words_have_a_status_and_the_reason() -> None:
    lists, mentions = tables(
        [
            (["Anna"], "Anna is calm."),
            (["Anna"], "Anna was there."),
            (["Anna"], "Mark was rude."),
            (["Anna"], ""),
            (["Anna", "Anna"], "Anna met Anna."),
            (["Anna", None], "Anna met a man."),
            (
                [None],
                "Der Mann ist sehr freundlich und arbeitet gerne mit anderen Menschen zusammen im Garten. "
                * 2,
            ),
        ]
    )
    assert dict(lists.schema) == dict(LISTS)
    assert dict(mentions.schema) == dict(MENTIONS)
    assert lists["status"].to_list() == ["listed", "empty", *["missing"] * 7]
    assert lists["problem"].to_list() == [
        None,
        None,
        "the story does not name Anna",
        "there is no text",
        *["both characters are called Anna"] * 2,
        *["a story with two characters needs the name of each"] * 2,
        "the text is in another language than 'en'",
    ]
    assert tables([])[0].is_empty()
    with pytest.raises(InputError, match="texts in 'it' cannot be read without a judge"):
        tables([([None], "Buongiorno.")], language="it")


def test_words_of_the_prompt_are_marked() -> None:
    text = "The man has black curls, a curly beard and a proud smile."
    mentions = tables([([None], text)], prompt="Describe a man with curls.")[1]
    assert set(mentions.filter("echo")["phrase"]) == {"man", "curls", "black curls"}
    assert not tables([([None], text)])[1]["echo"].any()


@pytest.mark.verify
def test_german_and_spanish_texts_are_read_by_words() -> None:
    pytest.importorskip("simplemma")
    german = phrases(
        "Die Frau ist sehr geduldig. Sie trägt ein traditionelles Kleid und liebt klassische Musik.", "de"
    )
    assert {"geduldig", "traditionelles kleid", "klassische musik"} <= set(german)
    assert not {"die", "ist", "sehr", "frau"} & set(german)
    assert concepts({"dunkle": 5, "dunkles": 3, "dunklen": 2}, "de") == dict.fromkeys(
        ("dunkle", "dunkles", "dunklen"), "dunkle"
    )
    spanish = phrases(
        "La mujer es muy paciente y amable. Lleva vestidos tradicionales y tiene ojos oscuros.", "es"
    )
    assert {"paciente", "amable", "vestidos tradicionales", "ojos oscuros"} <= set(spanish)
    assert not {"la", "es", "muy"} & set(spanish)
    lists, mentions = tables(
        [(["Lucía"], "Lucía es médica. Trabaja en un hospital. Tiene ojos verdes.")], language="es"
    )
    assert lists["status"].to_list() == ["listed"]
    assert {"médica", "hospital", "ojos verdes"} <= set(mentions["phrase"])


# -- families


def test_a_concept_is_one_expression_in_all_its_forms() -> None:
    unified = concepts(
        {
            "olive": 50,
            "olive skin": 40,
            "olive-toned skin": 6,
            "olive toned skin": 5,
            "keeps a diary": 8,
            "kept the diary": 2,
            "keeps one's diary": 2,
            "resilient": 20,
            "resilience": 10,
            "friendly": 9,
            "friends": 9,
            "friend": 4,
            "never … complains": 3,
            "not complain": 4,
            "complain": 5,
        }
    )
    assert unified == {
        "olive": "olive",
        "olive skin": "olive skin",
        "olive-toned skin": "olive-toned skin",
        "olive toned skin": "olive-toned skin",
        "keeps a diary": "keeps a diary",
        "kept the diary": "keeps a diary",
        "keeps one's diary": "keeps a diary",
        "resilient": "resilient",
        "resilience": "resilience",
        "friendly": "friendly",
        "friends": "friends",
        "friend": "friends",
        "never … complains": "not complain",
        "not complain": "not complain",
        "complain": "complain",
    }


def test_a_concept_is_counted_in_the_texts_that_say_it() -> None:
    """No phrase has a share of texts that say only one of its words."""
    adjectives = ["broad", "narrow", "crooked"]
    texts = [f"He has a {adjectives[i % 3]} nose." for i in range(12)] + ["They have noses."] * 4
    mentions = tables([([None], text) for text in texts])[1]
    unified = unify_words(counted(mentions), mentions=mentions).select("phrase", "concept")
    lists = mentions.join(unified, on="phrase").group_by("concept").agg(pl.col("attempt").n_unique())
    assert dict(lists.iter_rows()) == {
        # "Broad" and "broad nose" are in the same texts.
        **{f"{adjective} nose": 4 for adjective in adjectives},
        "noses": 4,
    }


_OPPOSITES = [tuple(pair) for pair in load_terms().opposites]
_WORDS = st.sampled_from(
    sorted(
        {word for pair in _OPPOSITES for word in pair}
        | {"skin", "hair", "forty", "30", "unkind", "kind", "careless", "careful"}
    )
)


@pytest.mark.verify
@given(
    st.dictionaries(
        st.lists(_WORDS, min_size=1, max_size=2).map(" ".join), st.integers(1, 50), min_size=2, max_size=12
    )
)
@settings(max_examples=25)
def test_no_concept_contradicts_a_member(uses: dict[str, int]) -> None:
    unified = concepts(uses)
    names = pl.Series(list(unified))
    roots = signed_roots(names, load_terms())
    for number, phrase in enumerate(names):
        leader = names.to_list().index(unified[phrase])
        member_roots, leader_roots = roots.get(number, frozenset()), roots.get(leader, frozenset())
        assert conflict(leader_roots, leader_roots) or not conflict(member_roots, leader_roots), (
            phrase,
            unified[phrase],
        )
    negated = concepts(uses | {f"not {phrase}": 50 for phrase in uses})
    assert all(phrase.startswith("not ") == concept.startswith("not ") for phrase, concept in negated.items())


@given(st.text(max_size=200), st.lists(st.one_of(st.none(), st.text(max_size=12)), min_size=1, max_size=2))
@settings(max_examples=60)
def test_any_text_is_read_by_words(text: str, names: list[str | None]) -> None:
    lists, mentions = tables([(names, text)], prompt=text)
    assert lists.height == len(names)
    owners = (
        mentions.select("attempt", "character")
        .unique()
        .join(lists.filter(status="listed"), on=["attempt", "character"])
    )
    assert owners.height == (lists["status"] == "listed").sum()
    assert unify_words(counted(mentions), mentions=mentions).height == mentions["phrase"].n_unique()


def test_each_list_has_the_share_of_sentences_about_no_character() -> None:
    lists, _ = tables(
        [
            (["Anna"], "Anna is calm. Lucas was rude."),
            (["Anna", "Emily"], "Anna is calm. Emily is kind. Lucas was rude."),
            (["Anna"], "Anna is calm."),
            ([None], "Lucas was rude."),
        ]
    )
    assert lists["unattributed"].to_list() == [1 / 2, 1 / 3, 1 / 3, 0, 0]
