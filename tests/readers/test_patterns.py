"""Each row of the tables of patterns: its example contains the pattern and is read as documented."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

from tiltmeter import readers
from tiltmeter.readers._normalising import Pattern, ascii_text, lowered, plain, rewritten, tables
from tiltmeter.readers._options import marked

FILES = sorted(path.stem for path in (Path(readers.__file__).parent / "data").glob("*.yaml"))
OPTIONS = {
    "only": ["The man", "The woman", "Not known"],
    "couple": ["Anna", "Mark", "Neither"],
    "plural": ["Men", "Women"],
}
EMOTIONS = ("anger", "disgust", "fear", "guilt", "joy", "sadness", "shame", "surprise")
CONTRADICTED = ("contradicted", "contradicted_alone", "plainer")
"""Tables of `choice` whose patterns are searched in texts with marked options."""


class Row(NamedTuple):
    """A row of a table of patterns."""

    file: str
    table: str
    name: str
    pattern: Pattern


def rows_of(file: str) -> list[Row]:
    return [
        Row(file, table, name, pattern)
        for table, patterns in tables(file).items()
        for name, pattern in patterns.items()
    ]


ROWS = [row for file in FILES for row in rows_of(file)]


def options(row: Row) -> list[str]:
    """Options with which the example of a row makes sense."""
    example = row.pattern.example
    kind = (
        "plural" if row.table == "plural" else "couple" if "Anna" in example or "Mark" in example else "only"
    )
    return OPTIONS[kind]


def reader_of(row: Row) -> str:
    """The reader of a row, with what it is asked about; rows with the same reader are read together."""
    match row.file:
        case "yes_no" | "writing":
            return f"yes_no {row.pattern.about or 'statement'}"
        case "layout":
            return "choice"
        case "choice" | "people" | "emotions" | "rankings" | "decisions":
            return row.file
        case _ if row.table == "to_write":
            return "to_write"
        case _:
            text = row.table in ("free_text", "disclaims") or row.pattern.example.startswith(
                "I can't help you"
            )
            return "refused_text" if text else "refused"


def labels_by(reader: str, rows: Sequence[Row]) -> Sequence[str | None]:
    """The labels of the examples, or "refused"."""
    answers = pl.Series([row.pattern.example for row in rows], dtype=pl.String)
    name, _, about = reader.partition(" ")
    match name:
        case "yes_no":
            reading = readers.read_yes_no(answers, about)  # type: ignore[arg-type]
        case "choice":
            reading = readers.read_choice(answers, pl.Series([options(row) for row in rows]))
        case "people":
            reading = readers.read_character(answers)
        case "emotions":
            reading = readers.read_emotion(answers, EMOTIONS)
        case "rankings":
            people = [pl.Series([[person]] * len(rows)) for person in ("Adam Erickson", "Anna Weiss")]
            reading = readers.read_first_ranked(answers, *people)
        case "decisions":
            reading = readers.read_decision(answers)
        case "to_write":
            outcomes: list[str] = readers.read_decision(answers)["outcome"].to_list()
            return outcomes
        case _:
            test = readers.refused_text if name == "refused_text" else readers.refused
            return ["refused" if refused else None for refused in test(answers)]
    labels: list[str | None] = reading["label"].to_list()
    return labels


@cache
def labels_of(file: str) -> Mapping[tuple[str, str], str | None]:
    """The labels of all examples of a file, by table and name."""
    labels: dict[tuple[str, str], str | None] = {}
    by_reader = sorted(rows_of(file), key=reader_of)
    for reader, group in groupby(by_reader, key=reader_of):
        rows = list(group)
        labels |= {
            (row.table, row.name): label for row, label in zip(rows, labels_by(reader, rows), strict=True)
        }
    return labels


def completed(pattern: str) -> str:
    """The pattern with the offered emotions, and with a word for one that is not offered."""
    return pattern.replace("{forms}", "|".join((*EMOTIONS, "as_terrified"))).replace("{kindred}", "terrified")


def drawn(text: pl.Series) -> Iterator[pl.Series]:
    """Return the texts after each step that writes out signs, tables and headings, and after each removal."""
    layout = tables("layout")
    for name in ("ended", "written", "signs"):
        for step in layout[name].values():
            text = text.str.replace_all(step.find, step.put)
            yield text
    yield text.str.to_lowercase()
    for name in ("places", "headings"):
        yield from (text.str.replace_all(step.find, step.put) for step in layout[name].values())


def stages(file: str) -> Iterator[pl.Series]:
    """The texts in which the patterns of a file are searched: all examples after each step."""
    rows = rows_of(file)
    text = examples = pl.Series([row.pattern.example for row in rows], dtype=pl.String)

    def changed(change: Callable[[pl.Expr], pl.Expr]) -> pl.Series:
        return pl.select(change(pl.lit(text))).to_series()

    yield text
    if file in ("choice", "layout", "yes_no"):
        yield from drawn(text)
    yield changed(plain)
    yield changed(lambda text: ascii_text(plain(text)))
    yield changed(lambda text: plain(text).str.to_lowercase())
    if file == "yes_no":
        text = changed(
            lambda text: rewritten(plain(text).str.to_lowercase(), tables(file)["translations"].values())
        )
    text = changed(lambda text: lowered(plain(text)))
    yield text
    for step in tables(file)["steps"].values() if file == "emotions" else ():
        text = text.str.replace_all(completed(step.find), step.put)
        yield text
    marks = marked(examples, pl.Series([options(row) for row in rows])) if file == "choice" else None
    for name in (
        ("written", "letters", "stops", "bare", "alone_bare", "lists", "steps")
        if file in ("choice", "yes_no")
        else ()
    ):
        if marks is not None and name in ("lists", "steps"):
            text = marks["copied" if name == "lists" else "text"]
        for step in tables(file).get(name, {}).values():
            yield text
            text = text.str.replace_all(step.find, step.put)
    yield text
    yield text.str.strip_chars()
    if marks is not None:
        contradicted = pl.Series([row.table in CONTRADICTED for row in rows])
        for column in ("text", "lettered", "both"):
            yield pl.select(pl.when(contradicted).then(marks[column])).to_series()


@cache
def texts_of(file: str) -> Mapping[tuple[str, str], Sequence[str]]:
    """The texts of each row of a file, by table and name."""
    searched = [stage.to_list() for stage in stages(file)]
    return {
        (row.table, row.name): texts
        for row, texts in zip(rows_of(file), zip(*searched, strict=True), strict=True)
    }


@pytest.mark.parametrize("row", [pytest.param(row, id="-".join(row[:3])) for row in ROWS])
def test_example(row: Row) -> None:
    pattern = completed(row.pattern.find)
    texts = pl.Series(texts_of(row.file)[row.table, row.name], dtype=pl.String)
    assert texts.str.contains(pattern).any(), f"{row.pattern.example!r} does not contain {pattern}"
    assert labels_of(row.file)[row.table, row.name] == row.pattern.reads
