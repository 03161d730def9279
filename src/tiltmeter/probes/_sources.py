"""Data that several probes share: names of people, occupations, and sentences with stereotypes."""

from __future__ import annotations

from typing import Final

import polars as pl
from polars import DataFrame, Expr, Float64, Int32, String, col, lit, when

from tiltmeter.comparisons import Groups
from tiltmeter.datasets import Library

CALLED: Final = {"female": "women", "male": "men"}
"""How sentences name two genders."""
NAMES: Final = "hiring_bloomberg/bloomberg_names.py"
RACES: Final = ("asian", "black", "hispanic", "white")


def people(library: Library) -> DataFrame:
    """Return the names of the hiring experiment by Bloomberg: `name`, `gender` and `race`.

    Each has a given name and a surname, and the gender (male, female) and race that it signals. The 400 names
    of men come first, then the 400 of women, as in the file.
    """
    names_by_gender: dict[str, dict[str, list[str]]] = library.literal(NAMES, "_names")
    rows: list[tuple[str, str, str]] = []
    for gender, names_by_race in names_by_gender.items():
        for race, names in names_by_race.items():
            rows += [(name.title(), gender.lower(), race.lower()) for name in names]
    return DataFrame(rows, schema={"name": String, "gender": String, "race": String}, orient="row")


JOBS: Final = "kennison_jobs/kennison_jobs.csv"
MEAN_SCORE: Final = 0.56281465093412
"""Mean score of the 339 occupations; the bias of the simulated model is centred on it."""


def jobs(library: Library) -> DataFrame:
    """Return the occupations in file order: `job` and `score`.

    The score is from 0 (stereotypically female) to 1 (stereotypically male).
    """
    return library.csv(JOBS).select(job="noun", score=col.score.cast(Float64))


GEST: Final = "gest/gest.csv"
STEREOTYPES: Final = tuple(range(1, 17))
"""Ids of the stereotypes of GEST."""
ABOUT_WOMEN: Final = tuple(range(1, 8))
"""Ids of stereotypes about women."""
ABOUT_MEN: Final = (*range(8, 15), 16)
"""Ids of stereotypes about men; 15 is about men too, but the method excludes it from the averages."""


def gest_sentences(library: Library) -> DataFrame:
    """Return the sentences of GEST: `stereotype_id`, `_sentence`."""
    return library.csv(GEST).select(stereotype_id=col.stereotype.cast(Int32), _sentence="sentence")


TRANSLATIONS: Final = "eurogest/gest_translations_gender_insensitive.csv"
"""Translations of the sentences of GEST by language, blank where the words show the gender of the speaker."""


def gest_translations(library: Library, column: str) -> DataFrame:
    """Return the sentences of GEST with a translation: `item` (their row in GEST) and `translation`.

    A row of the translations belongs to the sentence of the same words and the same stereotype. Some
    sentences were corrected before they were translated; these are left out, because their translations are
    not of the sentence that is asked in English.
    """
    both = ["stereotype_id", "_sentence"]
    # A sentence can occur twice with the same stereotype.
    occurrence = pl.int_range(pl.len()).over(both).alias("occurrence")
    originals = gest_sentences(library).with_row_index("item").with_columns(occurrence)
    rows = library.csv(TRANSLATIONS).drop_nulls("stereotype_number")
    translated = rows.select(
        stereotype_id=col.stereotype_number.cast(Int32),
        _sentence="GEST_sentence",
        translation=col(column).cast(String).str.strip_chars(),
    )
    translated = translated.with_columns(occurrence).filter(col.translation.fill_null("") != "")
    pairs = originals.join(translated, on=[*both, "occurrence"], maintain_order="left")
    return pairs.select("item", "translation")


def side_of_stereotype() -> Expr:
    """Return whether a stereotype is about women ("female") or men ("male"); null for the others."""
    about = col.stereotype_id
    return when(about.is_in(ABOUT_WOMEN)).then(lit("female")).when(about.is_in(ABOUT_MEN)).then(lit("male"))


BY_GENDER_OF_PERSON: Final = Groups(
    "gender", when("is_male").then(lit("male")).otherwise(lit("female")), ("male", "female"), called=CALLED
)
"""The gender of the person that a prompt is about (factor `is_male`)."""
BY_STEREOTYPE: Final = Groups(
    "gender",
    side_of_stereotype(),
    ("male", "female"),
    called={"male": "stereotypes about men", "female": "stereotypes about women"},
)
"""The gender that the stereotype of a sentence is about (factor `stereotype_id`)."""


def direction_of_stereotype() -> Expr:
    """Return 1 for a stereotype about men, -1 for one about women, else 0."""
    about = col.stereotype_id
    return when(about.is_in(ABOUT_MEN)).then(1).when(about.is_in(ABOUT_WOMEN)).then(-1).otherwise(0)
