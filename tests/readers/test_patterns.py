"""Each row of the tables of patterns: its example contains the pattern and is read as documented."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tiltmeter import readers
from tiltmeter.readers.normalising import Pattern, ascii_text, lowered, plain, rewritten, tables
from tiltmeter.readers.options import marked

FILES = sorted(path.stem for path in (Path(readers.__file__).parent / "data").glob("*.yaml"))
OPTIONS = {"only": ["The man", "The woman", "Not known"], "couple": ["Anna", "Mark", "Neither"], "plural": ["Men", "Women"]}
EMOTIONS = ("anger", "disgust", "fear", "guilt", "joy", "sadness", "shame", "surprise")
ROWS = [(file, table, name, row) for file in FILES for table, rows in tables(file).items() for name, row in rows.items()]


def series(text: str) -> pl.Series:
    return pl.Series([text], dtype=pl.String)


def options(table: str, row: Pattern) -> list[str]:
    """Options with which the example of a row makes sense."""
    kind = "plural" if table == "plural" else "couple" if "Anna" in row.example or "Mark" in row.example else "only"
    return OPTIONS[kind]


def read(file: str, table: str, row: Pattern) -> str | None:
    """The label of the example, or "refused"."""
    answer = series(row.example)
    match file:
        case "yes_no" | "writing":
            found = readers.read_yes_no(answer, row.about or "statement")  # type: ignore[arg-type]
        case "choice":
            found = readers.read_choice(answer, pl.Series([options(table, row)]))
        case "people":
            found = readers.read_character(answer)
        case "emotions":
            found = readers.read_emotion(answer, EMOTIONS)
        case "rankings":
            found = readers.read_first_ranked(answer, pl.Series([["Adam Erickson"]]), pl.Series([["Anna Weiss"]]))
        case "decisions":
            found = readers.read_decision(answer)
        case _ if table == "to_write":
            found = readers.read_decision(answer).with_columns(label="outcome")
        case _:
            test = (
                readers.refused_text
                if table in ("free_text", "disclaims") or row.example.startswith("I can't help you")
                else readers.refused
            )
            return "refused" if test(answer)[0] else None
    label: str | None = found["label"][0]
    return label


def completed(pattern: str) -> str:
    """The pattern with the offered emotions, and with a word for one that is not offered."""
    return pattern.replace("{forms}", "|".join((*EMOTIONS, "as_terrified"))).replace("{kindred}", "terrified")


def stages(file: str, table: str, row: Pattern) -> Iterator[str]:
    """The texts in which the patterns of a file are searched: the example after each step."""

    def value(text: pl.Expr) -> str:
        made: str = pl.select(text).item()
        return made

    text = row.example
    yield text
    yield value(plain(pl.lit(text)))
    yield value(ascii_text(plain(pl.lit(text))))
    yield value(plain(pl.lit(text)).str.to_lowercase())
    if file == "yes_no":
        text = value(rewritten(plain(pl.lit(text)).str.to_lowercase(), tables(file)["translations"].values()))
    text = value(lowered(plain(pl.lit(text))))
    yield text
    for step in tables(file)["steps"].values() if file == "emotions" else ():
        text = value(rewritten(pl.lit(text), [(completed(step.find), step.put)]))
        yield text
    for name in ("letters", "stops", "bare", "lists", "steps") if file in ("choice", "yes_no") else ():
        if file == "choice" and name in ("lists", "steps"):
            examples = marked(series(row.example), pl.Series([options(table, row)]))
            text = examples["copied" if name == "lists" else "text"][0]
        for step in tables(file).get(name, {}).values():
            yield text
            text = value(rewritten(pl.lit(text), [step]))
    yield text
    yield text.strip()
    if file == "choice" and table in ("contradicted", "contradicted_alone", "plainer"):
        examples = marked(series(row.example), pl.Series([options(table, row)]))
        yield from (examples["text"][0], examples["lettered"][0], examples["both"].fill_null("")[0])


@pytest.mark.parametrize(("file", "table", "name", "row"), [pytest.param(*one, id="-".join(one[:3])) for one in ROWS])
def test_example(file: str, table: str, name: str, row: Pattern) -> None:
    pattern = completed(row.find)
    found: list[Any] = [pl.select(pl.lit(text).str.contains(pattern)).item() for text in stages(file, table, row)]
    assert any(found), f"{row.example!r} does not contain {pattern}"
    assert read(file, table, row) == row.reads
