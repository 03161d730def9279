"""Parts of pages that scripts write: between two comments of HTML."""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
END = "<!-- end -->\n"


def write_or_check(page: str, script: str, made: str, complaint: str) -> int:
    """Write a part of a page, or with `--check` compare it.

    Parameters
    ----------
    page
        Name of the page in docs.
    script
        Name of the script that makes the part; the page has it in a comment before the part.
    made
        The part.
    complaint
        What is printed after the name of the page if the page has another part.

    Returns
    -------
    The exit status: 1 if the page has another part than `made`.
    """
    path = DOCS / page
    start = f"<!-- made by scripts/{script} -->\n"
    text = path.read_text(encoding="utf-8")
    before, rest = text.split(start)
    whole = f"{before}{start}{made}\n{END}{rest.split(END, maxsplit=1)[1]}"
    if "--check" not in sys.argv:
        path.write_text(whole, encoding="utf-8")
    elif whole != text:
        print(f"{page} {complaint}")
        return 1
    return 0
