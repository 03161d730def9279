"""Write the table of English word forms, with their parts of speech and lemmas by the Hanover tagger.

    python scripts/english_forms.py LIST...

Each LIST is a file with one word form per line. The table that is shipped was made from the lists of the
Debian packages wamerican and wbritish (SCOWL; see `data/english_forms.md`). The words of the lexicon of tone
(VADER) are added.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Final

import polars as pl
from polars import DataFrame, Expr, Int64, col, lit, when

from tiltmeter.features._kinds import vader_analyzer
from tiltmeter.readers._grammar import LONGEST, tagger
from tiltmeter.readers._word_forms import ENDINGS, FORMS, LENGTHS, OF_ENDING, TABLE

_FORM: Final = re.compile(r"[a-z]{2,}")
_LIKELY: Final = 3.5
"""A tag is possible if its log-probability is at most so much below that of the most probable tag of the word
form."""
_FEWEST_FORMS: Final = 3
"""Smallest number of forms with an ending."""
_KINDS: Final = {
    "NN": "noun",
    "AJ": "adjective",
    "VV": "verb",
    "VB": "verb",
    "VH": "verb",
    "VD": "verb",
    "AV": "adverb",
    "NP": "name",
    "UN": "name",
}
_OWN_LEMMA: Final = frozenset(("blues", "born", "glasses", "goods", "shorts"))
"""Words that mean something else than their lemma ("short", "bear")."""


def main(paths: Sequence[Path]) -> None:
    """Write the table."""
    possible = set(vader_analyzer().lexicon)
    for path in paths:
        possible.update(path.read_text(encoding="utf-8").split())
    forms = sorted(form for form in possible if _FORM.fullmatch(form))
    schema = {name: kind for name, kind in FORMS.items() if name != "is_unknown"}
    table = DataFrame([(form, *tagged(form)) for form in forms], schema=schema, orient="row")
    for path, rows in ((TABLE, table), (ENDINGS, endings_of(table))):
        rows.write_parquet(path, compression="zstd", compression_level=19)
        print(f"{path.name}: {rows.height:,} rows, {path.stat().st_size / 1024:,.0f} KiB")


def endings_of(forms: DataFrame) -> DataFrame:
    """Return the most frequent kinds, and change to the lemma, of the forms with each `ending`."""
    common = _common_beginning(col.form, col.lemma)
    forms = forms.with_columns(
        cut=col.form.str.len_chars().cast(Int64) - common, added=col.lemma.str.slice(common)
    )
    tables = []
    for length in LENGTHS:
        longer = forms.filter(col.form.str.len_chars() > length, col.cut <= length)
        table = longer.group_by(ending=col.form.str.tail(length)).agg(
            col.best.mode().sort().first(),
            *(col(name).mean() > 0.5 for name in ("can_noun", "can_adjective", "can_verb")),
            change=pl.struct("cut", "added").mode().sort().first(),
            forms=pl.len(),
        )
        tables.append(table.filter(col.forms >= _FEWEST_FORMS).unnest("change").sort("ending"))
    return pl.concat(tables).select("ending", *OF_ENDING)


def _common_beginning(first: Expr, second: Expr) -> Expr:
    """Return the number of first letters that two words share."""
    letters = range(1, LONGEST)
    shared = [when(first.str.head(number) == second.str.head(number)).then(number) for number in letters]
    return pl.max_horizontal(lit(0), *shared).cast(Int64)


def tagged(form: str) -> tuple[str, bool, bool, bool, str]:
    """Return the columns of FORMS, from `best` to `lemma`, by the tagger."""
    tags = tagger().tag_word(form) or [(tagger().analyze(form)[1], -inf)]
    _, probability_of_best = tags[0]
    least = probability_of_best - _LIKELY
    kinds = [_KINDS.get(tag[:2], "other") for tag, probability in tags if probability >= least]
    lemma = _lemma(form) if kinds[0] in ("noun", "verb") else form
    return kinds[0], "noun" in kinds, "adjective" in kinds, "verb" in kinds, lemma


def _lemma(form: str) -> str:
    if form in _OWN_LEMMA:
        return form
    return str(tagger().analyze(form)[0]).lower()


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
