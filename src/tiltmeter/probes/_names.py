"""The 800 names of the hiring experiment by Bloomberg, each with the gender and race it is read as."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from tiltmeter.datasets import Library

__all__ = ["NAMES", "RACES", "people"]

NAMES = "hiring_bloomberg/bloomberg_names.py"
RACES = ("asian", "black", "hispanic", "white")


def people(library: Library) -> pl.DataFrame:
    """`name` (given name and surname), `gender` (male, female), `race`, in file order: 400 names of men, then 400 of women."""
    listed: dict[str, dict[str, list[str]]] = library.literal(NAMES, "_names")
    rows = [
        (name.title(), gender.lower(), race.lower()) for gender, races in listed.items() for race, names in races.items() for name in names
    ]
    return pl.DataFrame(rows, schema={"name": pl.String, "gender": pl.String, "race": pl.String}, orient="row")
