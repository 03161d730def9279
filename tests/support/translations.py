"""Made-up translations of the sentences of GEST, in a file of the shape of EuroGEST's.

The file is in a folder of the user's own data and is verified like every other: the catalogue of the test
has its size and checksum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import polars as pl
from polars import col

from tiltmeter.datasets import Catalogue, Library, load_catalogue
from tiltmeter.datasets._catalogue import UrlSource

TRANSLATIONS = "eurogest/gest_translations_gender_insensitive.csv"
GEST = "gest/gest.csv"
WITHOUT = 4
"""Of so many sentences in a row, one has no translation."""
CORRECTED = 10
"""Of so many sentences in a row, one was corrected before it was translated."""


def sentences(count: int) -> pl.DataFrame:
    """Return rows of the shape of GEST: `sentence` and `stereotype`; two sentences occur twice."""
    numbers = [*range(count - 2), 0, 5]
    texts = [f"I am sentence number {number}." for number in numbers]
    return pl.DataFrame({"sentence": texts, "stereotype": [1 + number % 16 for number in numbers]})


def translated(originals: pl.DataFrame) -> pl.DataFrame:
    """Return rows of the shape of EuroGEST for these sentences, in reverse order.

    The translation of a sentence names its row, "Ich bin Satz 7". The last row of the file is empty, as in
    the original.
    """
    numbered = originals.with_row_index("row")
    is_corrected = col.row % CORRECTED == 2
    english = pl.when(is_corrected).then(col.sentence + " Indeed.").otherwise("sentence")
    german = pl.when(col.row % WITHOUT != 1).then(pl.format("Ich bin Satz {}", "row"))
    rows = numbered.select(
        col.row.alias(""),
        GEST_sentence=english,
        Danish=pl.format("Jeg er sætning {}", "row"),
        German=german,
        stereotype_number=col.stereotype.cast(pl.Float64),
    )
    # Sentences that occur twice stay in the order of the original, so that each has its own translation.
    by_words = rows.with_columns(first=pl.col("").min().over("GEST_sentence", "stereotype_number"))
    rows = by_words.sort("first", "", descending=[True, False]).drop("first")
    return pl.concat([rows, rows.clear(1)])


def asked(originals: pl.DataFrame) -> list[int]:
    """Return the rows of the sentences with a translation, in order."""
    numbers = pl.Series("row", range(originals.height))
    return numbers.filter((numbers % WITHOUT != 1) & (numbers % CORRECTED != 2)).to_list()


def catalogue_of(folder: Path, *names: str) -> Catalogue:
    """Return the catalogue in which these files are those of a folder.

    The translations cannot be downloaded.
    """
    entries = []
    for entry in load_catalogue().entries:
        changes: dict[str, Any] = {}
        if entry.name in names:
            content = (folder / entry.name).read_bytes()
            changes = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        if entry.name == TRANSLATIONS:
            changes["sources"] = (UrlSource(url="http://127.0.0.1:9/nothing-listens-here"),)
        entries.append(entry.model_copy(update=changes))
    return load_catalogue().model_copy(update={"entries": tuple(entries)})


def write(folder: Path, originals: pl.DataFrame) -> None:
    """Write the translations of these sentences to a folder of data."""
    path = folder / TRANSLATIONS
    path.parent.mkdir(parents=True, exist_ok=True)
    translated(originals).write_csv(path)


def library(folder: Path, count: int = 480) -> Library:
    """Return a library with made-up sentences and their translations."""
    originals = sentences(count)
    (folder / GEST).parent.mkdir(parents=True, exist_ok=True)
    originals.write_csv(folder / GEST)
    write(folder, originals)
    return Library(
        catalogue_of(folder, GEST, TRANSLATIONS), folders=[folder], cache=folder.parent / "no_cache"
    )


@contextmanager
def in_catalogue(folder: Path, *names: str) -> Iterator[None]:
    """Let commands of this process use the catalogue in which these files are those of a folder."""
    made_up = catalogue_of(folder, *names)
    with patch("tiltmeter.datasets._catalogue.load_catalogue", lambda: made_up):
        yield
