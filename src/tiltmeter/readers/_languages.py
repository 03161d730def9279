"""Replies in other languages, in the English words that the readers know.

The phrases are data (`data/languages/CODE.yaml`). They are translated only where the language of the prompts
is named: the reading of other replies does not depend on them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from polars import DataFrame, Expr, List, Series, String, col, element

from tiltmeter.errors import check_known
from tiltmeter.readers._normalising import load_data, rewritten, tables

ENGLISH: Final = "en"
_FOLDER: Final = "languages"


def languages() -> dict[str, str]:
    """Return the languages whose replies can be read, by code with their names."""
    files = sorted((Path(__file__).parent / "data" / _FOLDER).glob("*.yaml"))
    codes = [file.stem for file in files]
    return {ENGLISH: "English", **{code: load_data(f"{_FOLDER}/{code}")["name"] for code in codes}}


def in_english(replies: Series, language: str) -> Series:
    """Return replies in which the phrases of a language are in English; English ones are unchanged.

    Parameters
    ----------
    replies
        Strings, or lists of strings such as the options of a question; nulls allowed.
    language
        Code of the language.

    Raises
    ------
    InputError
        Replies in this language cannot be read.
    """
    check_known(language, languages(), f"language {language!r}: replies in it cannot be read")
    if language == ENGLISH:
        return replies
    if replies.dtype == List:
        lists = DataFrame({"reply": replies.cast(List(String))})
        return lists.select(col.reply.list.eval(_translated(element(), language)))["reply"]
    texts = DataFrame({"reply": replies.cast(String)})
    return texts.select(_translated(col.reply, language))["reply"]


def _translated(text: Expr, language: str) -> Expr:
    """Return a text with the phrases of all tables of a language translated, in their order."""
    rows = [row for table in tables(f"{_FOLDER}/{language}").values() for row in table.values()]
    return rewritten(text.str.normalize("NFC"), rows)
