"""What every reader does first: plain text out of an answer, and one shape for what was read.

All of it is Polars expressions (Rust regular expressions, no look-around), because a study has some 150,000 answers.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import polars as pl

from tiltmeter._thinking import CLOSES, OPENS, SPECIAL, UNMARKED

__all__ = ["alternatives", "ascii_text", "load_data", "lowered", "plain", "squash", "text_table", "verdict", "without_thinking"]

_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\u200f\ufe0e\ufe0f"
_CHARACTERS = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u02bc\u2032\uff07", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\uff02", '"'),
    **dict.fromkeys("\u2013\u2014\u2015\u2212", " - "),
    **dict.fromkeys("\u2010\u2011\uff0d", "-"),
    **dict.fromkeys("\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000\t|", " "),
    **dict.fromkeys((chr(i) for i in (*range(9), *range(14, 32), 127)), " "),
    **dict.fromkeys("\r\u2028\u2029\u0085\u000b\u000c", "\n"),
    **dict.fromkeys(_INVISIBLE, ""),
    **dict.fromkeys("\uff08\u2768\u27ee", "("),
    **dict.fromkeys("\uff09\u2769\u27ef", ")"),
    **dict.fromkeys("\uff3b\u3010\u3014", "["),
    **dict.fromkeys("\uff3d\u3011\u3015", "]"),
    "\u2026": "...",
    "\uff1a": ":",
    "\uff0c": ",",
    "\uff0e": ".",
    "\u3002": ".",
    # Letters of options in other clothes: parenthesised, circled, full-width.
    **{chr(0x249C + i): f"({chr(97 + i)})" for i in range(5)},
    **{chr(0x24D0 + i): f"({chr(97 + i)})" for i in range(5)},
    **{chr(0x24B6 + i): f"({chr(97 + i)})" for i in range(5)},
    **{chr(0xFF41 + i): chr(97 + i) for i in range(26)},
    **{chr(0xFF21 + i): chr(65 + i) for i in range(26)},
}

_THOUGHT = (rf"(?s){OPENS}.*?(?:{CLOSES}|$)", rf"(?s)^.*{CLOSES}|{SPECIAL}")
_TAG = r"(?i)</?(?:b|i|u|em|strong|p|br|span|div|answer|final|final_answer|output|response|solution|ul|ol|li|h[1-6])\s*/?>"
_LINE_MARK = r"(?m)^ *(?:#{1,6}|>+|[-+\u2022\u00b7\u25aa\u25cf]) +"


def plain(answer: pl.Expr) -> pl.Expr:
    """Answer without thinking, markdown, HTML tags and typographic variants; words, digits, line breaks and ASCII punctuation stay.

    A boxed LaTeX result becomes "final answer: ...". A text that is all thinking becomes "".
    """
    return _unmarked(_visible(answer))


def _unmarked(visible: pl.Expr) -> pl.Expr:
    return (
        visible.str.replace_all(_TAG, " ")
        .str.replace_all(r"\\(?:text(?:bf|it)?|math(?:rm|bf|it))\s*\{([^{}]*)\}", "${1}")
        .str.replace_all(r"\$*\\boxed\s*\{([^{}]*)\}\$*", " final answer: ${1}\n")
        .str.replace_all(r"[*_`~]+", "")
        .str.replace_all(_LINE_MARK, "")
        .str.strip_chars()
    )


def _visible(answer: pl.Expr) -> pl.Expr:
    return without_thinking(answer).str.replace_many(_CHARACTERS)


def without_thinking(answer: pl.Expr) -> pl.Expr:
    """Answer without the thinking between marks of any family and without special tokens; "" where no answer follows the thinking."""
    for pattern, ends in UNMARKED:
        answer = answer.str.replace(pattern, "<think>${1}</think>" if ends else "<think>${1}")
    for pattern in _THOUGHT:
        answer = answer.str.replace_all(pattern, "")
    return answer


def ascii_text(text: pl.Expr) -> pl.Expr:
    """ASCII: a letter of another script or with an accent becomes "x", any other character a blank.

    The phrases looked for are English; on ASCII text the regular expressions are faster by far (word borders need no Unicode tables).
    """
    return text.str.replace_all(r"[\p{L}\p{M}&&[^\x00-\x7f]]", "x").str.replace_all(r"[^\x00-\x7f]", " ")


def lowered(text: pl.Expr) -> pl.Expr:
    """Lower case of `ascii_text`."""
    return ascii_text(text.str.to_lowercase())


def squash(text: pl.Expr, keep: str = "") -> pl.Expr:
    """Words of `lowered` text parted by single blanks; of the other characters only those in `keep` stay (a regular-expression class)."""
    return lowered(text).str.replace_all(rf"[^a-z0-9{keep}]+", " ").str.strip_chars(" ")


def text_table(answer: pl.Series, **factors: pl.Series) -> pl.DataFrame:
    """Columns `text` (plain, never null), `blank` (nothing was answered) and one per factor.

    Raises
    ------
    ValueError
        A factor has another length than `answer`.
    """
    for name, factor in factors.items():
        if len(factor) != len(answer):
            raise ValueError(f"{name} has {len(factor)} values for {len(answer)} answers")
    table = pl.DataFrame({"answer": answer.cast(pl.String), **factors})
    visible = table.with_columns(visible=_visible(pl.col("answer").fill_null("")))
    blank = pl.col("visible").str.strip_chars() == ""
    return visible.with_columns(text=_unmarked(pl.col("visible")), blank=blank).drop("answer", "visible")


def verdict(table: pl.DataFrame, label: pl.Expr, refused: pl.Expr) -> pl.DataFrame:
    """Columns `outcome` and `label` from what was read: blank is "empty", a label "answered", the rest "refused" or "unreadable"."""
    read = table.select(label=label, refused=refused, blank="blank")
    answered = pl.col("label").is_not_null()
    outcome = (
        pl.when("blank").then(pl.lit("empty")).when(answered).then(pl.lit("answered")).when("refused").then(pl.lit("refused"))
    ).otherwise(pl.lit("unreadable"))
    return read.select(outcome=outcome, label=pl.when(~pl.col("blank")).then("label").cast(pl.String))


@cache
def load_data(name: str) -> dict[str, Any]:
    """Word lists and phrases of one reader: `data/<name>.yaml` of this package."""
    import yaml  # on first use: listing probes imports this module

    text = files("tiltmeter.measures").joinpath("data", f"{name}.yaml").read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.safe_load(text)
    return content


def alternatives(patterns: list[str]) -> str:
    """One group that matches any of the patterns, a blank standing for white space (and " ?" for optional white space)."""
    return "(?:" + "|".join(pattern.replace(" ?", r"\s*").replace(" ", r"\s+") for pattern in patterns) + ")"
