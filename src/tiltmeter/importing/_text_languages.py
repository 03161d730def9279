"""The language of the user's own texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import polars as pl

from tiltmeter.importing._doubtful_rows import print_notes
from tiltmeter.importing._response_tables import Source, TextColumns, read_texts, texts_in
from tiltmeter.readers._text_languages import NAMES, language_counts

_MOST_TEXTS: Final = 2_000
"""Number of texts whose language is looked at."""
_LEAST_SHARE: Final = 0.02
"""Share of texts in another language that is said."""


def language_of_texts(sources: Sequence[Source], columns: TextColumns) -> str | None:
    """Return the most frequent language of texts; None if no text has a language that can be told.

    Print a note if it is not English, and if some texts are in another language.
    """
    tables = []
    for source in sources:
        table = texts_in(source) if isinstance(source, Path) and source.is_dir() else source
        tables.append(read_texts(table, columns).select("text"))
    texts = pl.concat(tables)["text"].drop_nulls()
    sample = texts.gather_every(max(1, len(texts) // _MOST_TEXTS))
    counts = language_counts(sample)
    if not counts:
        return None
    language, *others = counts
    if language != "en":
        print_notes(
            f"the texts seem to be in {NAMES[language]} and are read as such; if not: -P language=CODE"
            f" ({', '.join(NAMES)})"
        )
    for other in others:
        share = counts[other] / len(sample)
        if share >= _LEAST_SHARE:
            print_notes(
                f"{share:.0%} of the texts seem to be in {NAMES[other]} and are not counted: analyse the"
                " texts of each language separately"
            )
    return language
