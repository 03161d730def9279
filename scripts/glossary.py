"""Write the words of `tiltmeter explain` into docs/glossary.md, or check that they agree (`--check`)."""

from __future__ import annotations

import sys

from generated import write_or_check

from tiltmeter.reports import Word, all_words


def row(entry: Word) -> str:
    """Return an entry as a row of the table."""
    more = "" if entry.see is None else f" ([more]({entry.see}))"
    return f"| {entry.words} | {entry.meaning}{more} |"


def main() -> int:
    """Check or write; return the exit status."""
    lines = ["| word | meaning |", "|---|---|", *map(row, all_words())]
    complaint = "has other words than tiltmeter explain: run scripts/glossary.py"
    return write_or_check("glossary.md", "glossary.py", "\n".join(["", *lines, ""]), complaint)


if __name__ == "__main__":
    sys.exit(main())
