"""Texts of several languages and nations with planted traits: these are found, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl
import pytest

import tiltmeter as tm
from tiltmeter.runs import Run

pytestmark = pytest.mark.verify
PERSONS = 600

# Traits and jobs by language: the form for a woman, and for a man.
TRAITS = {
    "de": ["geduldig", "neugierig", "freundlich", "ehrlich", "mutig", "zuverlässig", "humorvoll", "klug"],
    "es": [
        "honesta/honesto", "lista/listo", "trabajadora/trabajador", "amable", "curiosa/curioso", "valiente",
        "generosa/generoso", "tranquila/tranquilo",
    ],
    "fr": [
        "honnête", "gentille/gentil", "travailleuse/travailleur", "curieuse/curieux", "active/actif", "calme",
        "généreuse/généreux", "discrète/discret",
    ],
}  # fmt: skip
JOBS = {
    "de": ["Lehrerin/Lehrer", "Ärztin/Arzt", "Köchin/Koch", "Verkäuferin/Verkäufer", "Anwältin/Anwalt"],
    "es": ["maestra/maestro", "médica/médico", "cocinera/cocinero", "abogada/abogado", "escritora/escritor"],
    "fr": [
        "institutrice/instituteur", "infirmière/infirmier", "cuisinière/cuisinier", "avocate/avocat",
        "vendeuse/vendeur",
    ],
}  # fmt: skip
PLACES = {
    "de": ["in Hamburg", "in Wien", "in Zürich", "auf dem Land"],
    "es": ["en Sevilla", "en Lima", "en Bogotá", "en el campo"],
    "fr": ["à Lyon", "à Québec", "à Genève", "à la campagne"],
}
FRAMES = {
    "de": "{name} ist {job} und wohnt {place}. {Pronoun} ist {first} und {second}. Abends liest {pronoun}.",
    "es": "{name} es {job} y vive {place}. Es {first} y {second}. Por la tarde lee novelas con calma.",
    "fr": "{name} est {job} et habite {place}. {Pronoun} est {first} et {second}. Le soir, {pronoun} lit.",
}
PRONOUNS = {"de": ("sie", "er"), "es": ("ella", "él"), "fr": ("elle", "il")}
NAMES = {
    "de": (["Greta", "Clara", "Sophie", "Jana", "Ulrike"], ["Noah", "Jonas", "Andreas", "Lukas", "Till"]),
    "es": (["Lucía", "Carmen", "Rosa", "Elena", "Paula"], ["Javier", "Diego", "Marcos", "Pablo", "Hugo"]),
    "fr": (["Camille", "Léa", "Manon", "Chloé", "Inès"], ["Lucas", "Hugo", "Théo", "Louis", "Gabriel"]),
}
PLANTED = {
    "de": {"W": "Sie näht bunte Kleider.", "M": "Er repariert alte Motorräder."},
    "es": {"W": "Cultiva orquídeas raras.", "M": "Repara motos antiguas."},
    "fr": {"W": "Elle cultive des orchidées rares.", "M": "Il répare des motos anciennes."},
}
EXPECTED = {
    "de": {("W", "kleid"), ("M", "motorr")},
    "es": {("W", "orquíd"), ("M", "motos")},
    "fr": {("W", "orchid"), ("M", "moto")},
}


def form(word: str, gender: str) -> str:
    """Return the form of a word for a woman ("W") or a man."""
    forms = word.split("/")
    return forms[0] if gender == "W" else forms[-1]


def texts_in(language: str) -> Iterator[Mapping[str, str]]:
    """Yield descriptions: jobs and traits are dealt equally, one habit of each gender is planted."""
    draw = random.Random(language)
    for number in range(PERSONS):
        gender = "WM"[number % 2]
        name = draw.choice(NAMES[language][number % 2])
        first, second = draw.sample(TRAITS[language], 2)
        pronoun = PRONOUNS[language][number % 2]
        text = FRAMES[language].format(
            name=name,
            job=form(draw.choice(JOBS[language]), gender),
            place=draw.choice(PLACES[language]),
            first=form(first, gender),
            second=form(second, gender),
            pronoun=pronoun,
            Pronoun=pronoun.capitalize(),
        )
        shares = {gender: 0.35, "WM"[1 - number % 2]: 0.05}
        sentences = [PLANTED[language][of] for of, share in shares.items() if draw.random() < share]
        yield {"text": " ".join([text, *sentences]), "group": gender, "name": name}


def analysed(rows: Sequence[Mapping[str, str]], folder: Path) -> Run:
    """Analyse a table with the columns of texts and groups that the command finds itself."""
    pl.DataFrame(rows).write_csv(folder / "texts.csv")
    return tm.analyse(folder / "texts.csv", name="name", text="text", group="group", out=folder / "run")


def rows_shown(run: Run) -> pl.DataFrame:
    """Return the associations that have a row of their own, the strongest first."""
    table = run.table("associations").filter("reported", pl.col("variant_of").is_null())
    return table.sort("low", descending=True)


@pytest.mark.parametrize("language", ["de", "es", "fr"])
def test_planted_habits_are_found_in_each_language_and_grammar_is_not(language: str, tmp_path: Path) -> None:
    pytest.importorskip("simplemma")
    run = analysed(list(texts_in(language)), tmp_path)
    assert run.about["params"]["language"] == language
    first = rows_shown(run).head(10)
    assert first.height <= 6
    for group, beginning in EXPECTED[language]:
        labels = first.filter(identity=group)["label"]
        words = beginning.split(" ")
        assert any(all(word in label for word in words) for label in labels), (group, labels.to_list())
    planted = " ".join(PLANTED[language].values()).lower()
    for label in first["label"]:
        assert all(word[:5] in planted for word in label.removesuffix(" and related").split(" ")), label


NATIONS = {
    "Norwegian": ("sails a boat", ["Ingrid", "Lars"]), "Syrian": ("bakes flat bread", ["Amira", "Omar"]),
    "Indian": ("draws maps", ["Aditi", "Vikram"]), "Chilean": ("grows dark grapes", ["Camila", "Diego"]),
    "Kenyan": ("runs races", ["Wanjiru", "Kamau"]), "British": ("collects rare stamps", ["Eliza", "Harold"]),
    "Japanese": ("folds cranes", ["Yuki", "Kenji"]), "Mexican": ("paints clay masks", ["Lupita", "Mateo"]),
    "Polish": ("repairs organs", ["Kasia", "Jacek"]), "Iranian": ("weaves wool carpets", ["Shirin", "Reza"]),
}  # fmt: skip
SHARED = [
    "keeps a diary", "plays chess", "waters the plants", "sings in a choir", "reads novels",
    "walks by the river", "cooks for friends", "writes letters", "feeds the birds", "mends bicycles",
]  # fmt: skip
NATION_OF = {
    "Norwegian": "Norway",
    "Syrian": "Syria",
    "Indian": "India",
    "Chilean": "Chile",
    "Kenyan": "Kenya",
}
NATION_OF |= {"British": "Britain", "Japanese": "Japan", "Mexican": "Mexico", "Polish": "Poland"}
NATION_OF |= {"Iranian": "Iran"}


def stories_of_nations() -> Iterator[Mapping[str, str]]:
    """Yield stories of people of ten nations with a planted habit each, and names of people and nations."""
    draw = random.Random(5)
    for number in range(100 * len(NATIONS)):
        nation = list(NATIONS)[number % len(NATIONS)]
        habit, names = NATIONS[nation]
        name = draw.choice(names)
        first, second = draw.sample(SHARED, 2)
        own = f" Every morning {name} {habit}." if draw.random() < 0.5 else ""
        text = (
            f"{name} is a {nation} person who lives in {NATION_OF[nation]}. On most days {name} {first}."
            f"{own} In the evening {name} {second}."
        )
        yield {"text": text, "group": nation}


def test_planted_habits_of_ten_nations_are_found_and_names_are_not(tmp_path: Path) -> None:
    rows = list(stories_of_nations())
    pl.DataFrame(rows).write_csv(tmp_path / "texts.csv")
    run = tm.analyse(tmp_path / "texts.csv", out=tmp_path / "run")
    shown = rows_shown(run)
    first = shown.head(len(NATIONS))
    labels = dict(first.select("identity", "label").iter_rows())
    for nation, (habit, _) in NATIONS.items():
        assert {*labels.get(nation, "").split(" ")} <= {*habit.split(" ")}, nation
        assert labels[nation]
    kept_out = " ".join(run.definitional["concept"].to_list())
    for nation, (_, names) in NATIONS.items():
        assert nation.lower() in kept_out
        assert NATION_OF[nation].lower() in kept_out
        assert not any(name.lower() in " ".join(shown["label"]) for name in names)
