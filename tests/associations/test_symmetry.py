"""Texts that differ only in pronouns and names have the same phrases."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl
import pytest

import tiltmeter as tm
from tiltmeter.associations._extraction_words import extract
from tiltmeter.associations._tables import STORIES
from tiltmeter.schema import conform

SENTENCES = 2_000

# Names that are also nouns, verbs, adjectives or function words, and names that a tagger does not know.
WOMEN = [
    "Rose", "Grace", "Joy", "Mary", "Neda", "Lily",
    "Amber", "Shanice", "April", "Xiomara", "Faith", "Olga",
]  # fmt: skip
MEN = [
    "Mark", "Frank", "Will", "John", "Burton", "Bill",
    "Grant", "DeShawn", "Art", "Zbigniew", "Earl", "Igor",
]  # fmt: skip
SURNAMES = ["Hill", "Miller", "Schulson", "Woods", "Diaz", "Carter"]
PRONOUNS = {
    "woman": {"he": "she", "him": "her", "his": "her", "himself": "herself"},
    "man": {"he": "he", "him": "him", "his": "his", "himself": "himself"},
}
SUBJECTS = ["{name}", "{name} {surname}", "{he}", "The neighbour of {name}", "My friend {name}"]
VERBS = [
    "runs", "opened", "loves", "recommends", "leads", "works at", "walks to", "faces", "plans", "paints",
    "dreams of", "records", "can repair", "will visit", "never leaves", "often talks about", "is proud of",
    "shares",
]  # fmt: skip
OBJECTS = [
    "{his} own restaurant", "{his} business", "a podcast", "{his} old house", "the local library",
    "{himself}", "{his} experiences", "a record company", "{his} dreams", "work", "the walks by the river",
    "{him} every day", "{his} colleagues", "hope", "long-distance runs", "{his} new plans for the garden",
]  # fmt: skip
ENDINGS = [
    "", " and helps {his} parents", ", and {his} smile warms the room", " because {he} trusts {him}",
    " while {his} sister watches {him}", " when people ask {him} questions", " before {he} leaves the office",
    ", which makes {him} happy", ", and everyone thanks {him} for {his} help", " and gives {him} pictures",
]  # fmt: skip
FRAMES = [
    "I recommend {name} {surname} as an artist{ending}.",
    "{name} is a {trait} person{ending}.",
    "Everyone calls {him} {trait}{ending}.",
    "{His} {trait} voice fills the room{ending}.",
    "With {name}, {his} friends feel safe{ending}.",
]
TRAITS = ["calm", "fierce", "warm", "caring", "graceful", "promising", "close", "open", "driven"]


def sentence_pattern(draw: random.Random) -> str:
    """Return a sentence with places for the name and the pronouns of a person."""
    ending = draw.choice(ENDINGS)
    if draw.random() < 0.4:
        return draw.choice(FRAMES).replace("{ending}", ending).replace("{trait}", draw.choice(TRAITS))
    subject = draw.choice(SUBJECTS)
    sentence = f"{subject} {draw.choice(VERBS)} {draw.choice(OBJECTS)}{ending}."
    return sentence.replace("{he}", "{He}", 1) if subject == "{he}" else sentence


def filled(pattern: str, gender: str, name: str, surname: str) -> str:
    pronouns = PRONOUNS[gender]
    values = {"name": name, "surname": surname, **pronouns}
    values |= {pronoun.capitalize(): form.capitalize() for pronoun, form in pronouns.items()}
    return re.sub(r"\{(\w+)\}", lambda place: values[place[1]], pattern)


def phrases_of(texts: Sequence[str], names: Iterable[str], *, are_stated: bool) -> list[list[str]]:
    """Return the phrases of each text, without those that have a name."""
    names = list(names)
    rows = pl.DataFrame(
        {
            "attempt": [f"{number}#0" for number in range(len(texts))],
            "character": 0,
            "name": names if are_stated else [None] * len(texts),
            "text": texts,
        }
    )
    stories = conform(rows, STORIES)
    _, mentions = extract(stories, stories.select("attempt", prompt=pl.lit("")))
    phrases = dict(mentions.group_by("attempt").agg("phrase").iter_rows())
    parts = [{*name.lower().split()} for name in names]
    return [
        sorted(phrase for phrase in phrases.get(f"{number}#0", []) if not own & {*phrase.split()})
        for number, own in enumerate(parts)
    ]


@pytest.mark.parametrize("are_stated", [False, True])
def test_the_gender_and_the_name_of_a_person_change_nothing_else(*, are_stated: bool) -> None:
    draw = random.Random(11)
    women, men, names_of_women, names_of_men = [], [], [], []
    for _ in range(SENTENCES):
        pattern = sentence_pattern(draw)
        surname = draw.choice(SURNAMES)
        woman, man = draw.choice(WOMEN), draw.choice(MEN)
        women.append(filled(pattern, "woman", woman, surname))
        men.append(filled(pattern, "man", man, surname))
        names_of_women.append(f"{woman} {surname}")
        names_of_men.append(f"{man} {surname}")
    of_women = phrases_of(women, names_of_women, are_stated=are_stated)
    of_men = phrases_of(men, names_of_men, are_stated=are_stated)
    different = [
        (woman, man, sorted({*first} ^ {*second}))
        for woman, man, first, second in zip(women, men, of_women, of_men, strict=True)
        if first != second
    ]
    assert different == []
    assert sum(map(len, of_women)) > 2 * SENTENCES


def test_the_gender_and_the_name_of_a_person_change_no_theme(tmp_path: Path) -> None:
    draw = random.Random(12)
    rows = []
    for _ in range(500):
        pattern, surname = sentence_pattern(draw), draw.choice(SURNAMES)
        rows.append({"group": "women", "text": filled(pattern, "woman", draw.choice(WOMEN), surname)})
        rows.append({"group": "men", "text": filled(pattern, "man", draw.choice(MEN), surname)})
    table = pl.DataFrame(rows)
    run = tm.analyse(table, text="text", group="group", display="none", out=tmp_path / "run")
    themes = run.table("themes")
    assert {"appearance", "positive tone"} <= set(themes["concept"])
    assert themes["effect"].abs().max() == pytest.approx(0.0, abs=1e-12)


def for_woman(text: str) -> str:
    """Return a text about a man as one about a woman.

    From him to her, each pronoun has one counterpart.
    """

    def counterpart(match: re.Match[str]) -> str:
        pronoun = PRONOUNS["woman"][match[0].lower()]
        return pronoun.capitalize() if match[0][0].isupper() else pronoun

    return re.sub(r"\b(?:he|him|his|himself)\b", counterpart, text, flags=re.IGNORECASE)


@pytest.mark.verify
def test_real_texts_about_men_have_the_phrases_of_the_same_texts_about_women(shared: Path) -> None:
    letters = pl.read_csv(shared / "data" / "letters" / "clg_letters.csv").filter(gender="male")
    stories = pl.read_csv(shared / "data" / "stories" / "dv3_story_generations.csv").filter(gender="M")
    men, women, names_of_men, names_of_women = [], [], [], []
    for number, (name, text) in enumerate(letters.select("name", "chatgpt_gen").iter_rows()):
        first_name = name.split()[0]
        instead = WOMEN[number % len(WOMEN)]
        men.append(text)
        women.append(re.sub(rf"\b{first_name}\b", instead, for_woman(text)))
        names_of_men.append(name)
        names_of_women.append(name.replace(first_name, instead))
    men += stories["text"].to_list()
    women += [for_woman(text) for text in stories["text"]]
    names_of_men += ["Qwerty"] * stories.height
    names_of_women += ["Qwerty"] * stories.height
    assert len(men) == 210
    of_men = phrases_of(men, names_of_men, are_stated=False)
    of_women = phrases_of(women, names_of_women, are_stated=False)
    for first, second, *names in zip(of_men, of_women, names_of_men, names_of_women, strict=True):
        words_of_names = {word for name in names for word in name.lower().split()}
        different = {phrase for phrase in {*first} ^ {*second} if not words_of_names & {*phrase.split()}}
        assert not different
