"""Display of external text as plain text, never as Markdown or HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st
from polars import DataFrame, Expr, String, col, when

from tiltmeter._sanitising import printable, shortened

CELL = 300
"""Maximum number of characters in a table cell or an option of a list."""
WHOLE = 20_000
"""Maximum number of characters of a text shown at once; browsers are slow with longer texts."""


def short(column: Expr) -> Expr:
    """Truncate a text column to the length of a cell."""
    return when(column.str.len_chars() > CELL).then(column.str.head(CELL) + "…").otherwise(column)


def one_line(text: str) -> str:
    """Return a text on one line, truncated to the length of a cell or an option."""
    return shortened(text, CELL + 1)


def fitting(frame: DataFrame) -> DataFrame:
    """Truncate the texts of a table to the length of a cell."""
    return frame.with_columns(short(col(String)))


def choose_row(frame: DataFrame, *, key: str, columns: Mapping[str, Any]) -> int | None:
    """Show a table with selectable rows and return the number of the selected row.

    Parameters
    ----------
    key
        Widget key. It must be unique to the table, because a selection is stored as a row number.
    columns
        Streamlit column configuration.
    """
    event = st.dataframe(
        fitting(frame),
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        key=key,
        column_config=columns,
        placeholder="",
        height=min(38 + 35 * frame.height, 420),
    )
    rows = [row for row in event.selection.rows if row < frame.height]
    return rows[0] if rows else None


def lines(texts: Sequence[str | None]) -> None:
    """Show each text on separate lines; None is skipped."""
    for text in texts:
        if text is not None:
            st.text(printable(text[:WHOLE]))


def block(text: str | None, *, key: str) -> None:
    """Show a text with line wrapping.

    Of a very long text, only the beginning is shown, with a button to download it.
    """
    if text is None:
        st.caption("No text.")
        return
    st.code(printable(text[:WHOLE]), language=None, wrap_lines=True)
    if len(text) > WHOLE:
        st.caption(f"The first {WHOLE:,} of {len(text):,} characters.")
        st.download_button(
            "Download the full text",
            text.encode(),
            file_name="text.txt",
            mime="text/plain",
            key=key,
            on_click="ignore",
        )
