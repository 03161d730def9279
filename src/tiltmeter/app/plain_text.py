"""Text from outside, shown as text: nothing here goes through Markdown or HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st
from polars import DataFrame, Expr, String, col, when

from tiltmeter.sanitising import printable, shortened

CELL = 300
"""Characters of a text a table's cell or a choice shows."""
WHOLE = 20_000
"""Characters of a text shown at once; a browser lays out more only slowly."""


def short(column: Expr) -> Expr:
    """A text column cut to what a cell can show."""
    return when(column.str.len_chars() > CELL).then(column.str.head(CELL) + "…").otherwise(column)


def one_line(text: str) -> str:
    """A text on one line, cut to what a cell or a choice can show."""
    return shortened(text, CELL + 1)


def fitting(frame: DataFrame) -> DataFrame:
    """A table with its texts cut to what cells can show."""
    return frame.with_columns(short(col(String)))


def choose_row(frame: DataFrame, *, key: str, columns: Mapping[str, Any]) -> int | None:
    """Show a table of which a row can be chosen; gives the number of the row that is.

    Parameters
    ----------
    key
        A choice is the number of a row: it holds for one table only, so another table needs another key.
    columns
        Streamlit's configuration of single columns.
    """
    event = st.dataframe(
        fitting(frame),
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        key=key,
        column_config=columns,
        height=min(38 + 35 * frame.height, 420),
    )
    return next((row for row in event.selection.rows if row < frame.height), None)


def lines(texts: Sequence[str | None]) -> None:
    """Each text on lines of its own; None is left out."""
    for text in texts:
        if text is not None:
            st.text(printable(text[:WHOLE]))


def block(text: str | None, *, key: str) -> None:
    """A whole text, wrapped; of a very long one the beginning, and the rest as a file."""
    if text is None:
        st.caption("There is no text.")
        return
    st.code(printable(text[:WHOLE]), language=None, wrap_lines=True)
    if len(text) > WHOLE:
        st.caption(f"The first {WHOLE:,} of {len(text):,} characters.")
        st.download_button("The whole text as a file", text.encode(), file_name="text.txt", mime="text/plain", key=key, on_click="ignore")
