"""Parts of pages that scripts write: between two comments of HTML."""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
END = "<!-- end -->\n"


def write_or_check(page: str, script: str, part: str, complaint: str) -> int:
    """Write a part of a page, or with `--check` compare it.

    Parameters
    ----------
    page
        Name of the page in docs.
    script
        Name of the script that makes the part; the page has it in a comment before the part.
    part
        The text of the part.
    complaint
        What is printed after the name of the page if the page has another part.

    Returns
    -------
    The exit status: 1 if the page has another text.
    """
    path = DOCS / page
    start = f"<!-- made by scripts/{script} -->\n"
    text = path.read_text(encoding="utf-8")
    before, remainder = text.split(start)
    after = remainder.split(END, maxsplit=1)[1]
    page_text = f"{before}{start}{part}\n{END}{after}"
    if "--check" not in sys.argv:
        path.write_text(page_text, encoding="utf-8")
    elif page_text != text:
        print(f"{page} {complaint}")
        return 1
    return 0
