"""Ticks, boxes, struck text, headings and tables in answers to questions with a few possible answers.

The patterns are data (`data/layout.yaml`).

If a text has signs for and against, or ticked and empty boxes, what the signs against are about is removed.
Which text a sign is about follows from the first sign: all stand before their texts ("[x] yes") or all behind
them ("yes: wrong"). A sign without any words is left.
"""

from __future__ import annotations

from polars import DataFrame, Expr, Series, String, col, when

from tiltmeter.readers._normalising import rewritten, tables, without_thinking

TICK = "\u2714"
"""Sign of a choice."""
CROSS = "\u2718"
"""Sign against a choice."""
BOX = "\u2610"
"""Sign of an empty box."""
_LIST = 2
"""Number of lines with letters from which a text is a list, of which a single tick chooses one."""


def written_out(answer: Series) -> Series:
    """Return the answers without thinking, with sentences for signs, struck text, headings and tables.

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
    table = table.with_columns(text=_without_rejected())
    signs = [places["first"], places["other"], places["nothing before"]]
    has_words = col.text.str.contains(r"\w")
    ticked = when(has_words & col.text.str.contains(TICK))
    table = table.with_columns(text=ticked.then(rewritten(col.text, signs)).otherwise("text"))
    return table.select(text=rewritten(col.text, rows["headings"].values()))["text"]


def _without_rejected() -> Expr:
    """Return the text without what the signs against a choice are about.

    If one line of a list is ticked, this line alone is left.
    """
    places = tables("layout")["places"]
    leading = col.text.str.contains(places["leading"].find)
    ticks = col.text.str.count_matches(TICK)
    against = col.text.str.contains(f"[{CROSS}{BOX}]")
    lettered_lines = col.text.str.count_matches(r"(?m)^ *\(?[A-Ea-e][).:]")
    one_ticked = (ticks == 1) & ~against & ~leading & (lettered_lines >= _LIST)
    some_rejected = ((ticks > 0) & against) | col.text.str.contains(BOX)
    without_behind = rewritten(col.text, [places["behind"]])
    without_before = rewritten(col.text, [places["before"]])
    return (
        when(some_rejected & leading)
        .then(without_behind)
        .when(some_rejected)
        .then(without_before)
        .when(one_ticked)
        .then(rewritten(col.text, [places["only line"]]))
        .otherwise("text")
    )
