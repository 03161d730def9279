"""Write the table of frequent English word forms, with their parts of speech and lemmas by the tagger.

    python scripts/english_forms.py FORMS.txt

FORMS.txt has one word form per line, the most frequent first. The table that is shipped was made from the
English list of the Python package wordfreq 3.1.1 (`wordfreq.top_n_list("en", 400_000)`). The words of the
lexicon of tone (VADER) are added. The tagger takes about a millisecond for a form. Forms in the table are not
tagged again.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from polars import DataFrame

from tiltmeter.features._kinds import vader_analyzer
from tiltmeter.readers import _word_forms as word_forms

MOST_FORMS = 80_000
_FORM = re.compile(r"[a-z]{2,}")


def main(path: Path) -> None:
    """Write the table."""
    words = path.read_text(encoding="utf-8").split()
    possible = {*words[:MOST_FORMS], *vader_analyzer().lexicon}
    forms = sorted(form for form in possible if _FORM.fullmatch(form))
    rows = [(form, *word_forms.tagged(form)) for form in forms]
    table = DataFrame(rows, schema=dict(word_forms.FORMS), orient="row")
    table.write_parquet(word_forms.TABLE, compression="zstd", compression_level=19)
    print(f"{table.height:,} forms, {word_forms.TABLE.stat().st_size / 1024:,.0f} KiB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
