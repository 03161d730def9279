"""Ticks, boxes, struck text, headings and tables in answers to questions with a few possible answers (patterns: `data/layout.yaml`).

If a text has signs for and against, or ticked and empty boxes, what the signs against are about is removed.
Which text a sign is about follows from the first sign: all stand before their texts ("[x] yes") or all behind
them ("yes: wrong"). A sign without any words is left.
"""

from __future__ import annotations

from polars import DataFrame, Expr, Series, String, col, when

from tiltmeter.readers.normalising import rewritten, tables, without_thinking

TICK, CROSS, BOX = "\u2714", "\u2718", "\u2610"
"""Signs of a choice, against one, and of an empty box."""
_LIST = 2
"""Number of lines with letters from which a text is a list, of which a single tick chooses one."""


def written_out(answer: Series) -> Series:
    """Return the answers without thinking, in which signs, struck text, headings and tables are replaced by sentences.

    Parameters
    ----------
    answer
        Strings, nulls allowed.

    Returns
    -------
    Series
        Strings, one per answer; null where the answer is null.
    """
    rows = tables("layout")
    places = rows["places"]
    text = without_thinking(rewritten(col.answer, rows["ended"].values()))
    text = rewritten(text, [*rows["written"].values(), *rows["signs"].values()])
    table = DataFrame({"answer": answer.cast(String)}).select(text=text)
    leading = col.text.str.contains(places["leading"].find)
    chosen = col.text.str.count_matches(TICK)
    against = col.text.str.contains(f"[{CROSS}{BOX}]")
    lettered = col.text.str.count_matches(r"(?m)^ *\(?[A-Ea-e][).:]")
    single = (chosen == 1) & ~against & ~leading & (lettered >= _LIST)
    removed = (
        when(leading)
        .then(rewritten(col.text, [places["behind"]]))
        .otherwise(rewritten(col.text, [places["before"]]))
    )
    table = table.with_columns(
        text=when(((chosen > 0) & against) | col.text.str.contains(BOX))
        .then(removed)
        .when(single)
        .then(rewritten(col.text, [places["only line"]]))
        .otherwise("text")
    )
    signs = [places["first"], places["other"], places["nothing before"]]
    has_words = col.text.str.contains(r"\w")
    table = table.with_columns(
        text=when(has_words & col.text.str.contains(TICK)).then(rewritten(col.text, signs)).otherwise("text")
    )
    return table.select(text=_with_headings(col.text))["text"]


def _with_headings(text: Expr) -> Expr:
    """Return the text in which a heading such as "Answer" is followed by a colon and its text."""
    return rewritten(text, tables("layout")["headings"].values())
