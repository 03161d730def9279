"""The responses a finding rests on: a page of them, one of them beside its measures, and its counterparts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import streamlit as st

from tiltmeter.app import _data as data
from tiltmeter.app._plain import block, fitting, lines, one_line
from tiltmeter.app._response import Counterpart, Detail, counterparts, detail, sentences
from tiltmeter.study import OUTCOMES

__all__ = ["choose_response", "show_pair", "show_response"]

SIZE = 25
"""Responses on a page."""
_ALL, _MOST = "All it rests on", "Those that moved it most"


def choose_response(path: Path, stamp: data.Stamp, finding: dict[str, Any]) -> data.Attempt | None:
    """The responses behind a finding, a page at a time; gives the one whose row is chosen.

    Raises
    ------
    InputError
        A table is missing or damaged.
    """
    st.subheader("Responses")
    st.caption("What models wrote may offend. A number says what a model associates with a group, never what people are.")
    name = f"{path} {stamp} {finding['number']}"
    moved = data.moved_most(path, stamp, finding)
    which = st.radio("Which", [_ALL, _MOST], horizontal=True, key=f"{name} which") if moved.height else _ALL
    if which == _MOST:
        table = moved
    else:
        left, middle = st.columns([1, 2])
        outcomes = left.multiselect("Outcome", OUTCOMES, key=f"{name} outcomes", placeholder="All")
        text = middle.text_input("Text in prompt or answer", key=f"{name} text")
        table = data.attempts(path, stamp, finding["evidence"], finding["model"], tuple(outcomes), text)
        name += f" {sorted(outcomes)} {text}"
    if table.is_empty():
        st.caption("No response fits.")
        return None
    pages = -(-table.height // SIZE)
    number = int(st.number_input(f"Page of {pages:,}", 1, pages, key=f"{name} page")) if pages > 1 else 1
    shown = data.page(path, table, (number - 1) * SIZE, SIZE)
    st.caption(f"{table.height:,} responses, from {(number - 1) * SIZE + 1:,} on. Choose a row to see it whole.")
    order = ["outcome", "label", *(["influence"] if which == _MOST else []), "answer", "prompt", "prompt_id", "repetition"]
    event = st.dataframe(
        fitting(shown.select(order)),
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        key=f"{name} {which} {number}",
        column_config={"answer": st.column_config.TextColumn(width="large"), "prompt": st.column_config.TextColumn(width="large")},
        height=min(38 + 35 * shown.height, 420),
    )
    rows = event.selection.rows
    if not rows or rows[0] >= shown.height:
        return None
    return data.Attempt(*shown.select(data.ATTEMPT).row(rows[0]))


def show_response(path: Path, attempt: data.Attempt, finding: dict[str, Any]) -> Detail:
    """Prompt, response and measures beside each other.

    Raises
    ------
    InputError
        A table is missing or damaged.
    """
    shown = detail(path, attempt)
    st.subheader("Response")
    lines([f"{attempt.prompt_id}, repetition {attempt.repetition}, {attempt.model}"])
    asked, said, read = st.columns([2, 2, 1.4])
    with asked:
        _asked(shown, key=f"{path} {attempt}")
    with said:
        _said(shown, key=f"{path} {attempt}")
        if found := sentences(path, shown.attempt, finding):
            st.caption("Sentences that show the concept")
            lines(found)
    with read:
        st.caption("Measure")
        _table(shown.measured)
    return shown


def show_pair(path: Path, attempt: data.Attempt, mine: Detail) -> None:
    """The response beside that to a prompt of the same item in which something else was put.

    Raises
    ------
    InputError
        A table is missing or damaged.
    """
    st.subheader("Counterfactual pair")
    found = counterparts(path, attempt.prompt_id)
    if not found:
        st.caption("The design puts nothing else in the place of this prompt's item: it has no counterpart.")
        return
    titles = [f"{i}. {one_line(other.title)}" for i, other in enumerate(found, 1)]
    chosen = st.selectbox("Held against (what differs: here → there)", titles, key=f"{path} {attempt} other")
    other = found[titles.index(chosen)] if chosen in titles else found[0]
    theirs = data.Attempt(attempt.model, other.prompt_id, min(attempt.repetition, other.repetitions - 1))
    shown = detail(path, theirs)
    for column, place, named, one in zip(st.columns(2), ("Here", "There"), (attempt, theirs), (mine, shown), strict=True):
        with column:
            st.caption(place)
            lines([f"{named.prompt_id}, repetition {named.repetition}"])
            _asked(one, key=f"{path} pair {place} {named}")
            _said(one, key=f"{path} pair {place} {named}")
    _compared(other, mine, shown)


def _asked(shown: Detail, *, key: str) -> None:
    if shown.system is not None:
        st.caption("System message")
        block(shown.system, key=f"{key} system")
    st.caption("Prompt")
    block(shown.prompt, key=f"{key} prompt")


def _said(shown: Detail, *, key: str) -> None:
    st.caption("Response")
    block(shown.answer, key=f"{key} answer")
    if shown.thinking is not None:
        with st.expander("What the model thought before"):
            block(shown.thinking, key=f"{key} thinking")
    if shown.status != "ok":
        lines([f"{shown.status}: {shown.error}" if shown.error is not None else shown.status])


def _compared(other: Counterpart, mine: Detail, theirs: Detail) -> None:
    """Factors and measures in which the two differ, line by line."""
    names = list(dict.fromkeys([*(name for name, _, _ in other.differs), *mine.measured, *theirs.measured]))
    rows = [(name, mine.measured.get(name, "none"), theirs.measured.get(name, "none")) for name in names]
    differing = [row for row in rows if row[1] != row[2] or row[0] in ("outcome", "label")]
    st.caption("Measures and factors that differ, and outcome and label")
    frame = pl.DataFrame(differing, schema={"": pl.String, "here": pl.String, "there": pl.String}, orient="row")
    st.dataframe(fitting(frame), hide_index=True)


def _table(values: dict[str, str]) -> None:
    st.dataframe(
        fitting(pl.DataFrame({"column": list(values), "value": list(values.values())}, schema={"column": pl.String, "value": pl.String})),
        hide_index=True,
    )
