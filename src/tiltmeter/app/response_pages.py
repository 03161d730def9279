"""The responses behind a finding: a list of them, one of them whole, and its counterfactual pair."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st
from polars import DataFrame, String, col

from tiltmeter.app import run_data as data
from tiltmeter.app.plain_text import block, choose_row, fitting, lines, one_line
from tiltmeter.app.run_data import Attempt, one
from tiltmeter.runs import RunFolder
from tiltmeter.runs.folder import reading
from tiltmeter.study import DESIGN, OUTCOMES

_NOT_FACTORS = {*DESIGN, "prompt_key", "stratum", "source_tag", "branched_from", "baseline"} - {"wording"}
"""Columns of a design that number or describe a prompt instead of saying what was varied in it."""
MOST = 200
"""Counterparts of a prompt that are offered."""
_HOW_PUT = {"wording", "template", "template_id", "role"}
"""Factors that say how a question is put; what is put in it is what makes a counterfactual."""


class Detail(NamedTuple):
    """Everything a run holds about one response."""

    system: str | None
    prompt: str | None
    answer: str | None
    thinking: str | None
    status: str
    error: str | None
    measured: dict[str, str]
    """What was read from it, and the factors of its prompt, by column; nulls are left out."""
    attempt: str | None
    """Its name in the method's own tables, where there are any."""


class Counterpart(NamedTuple):
    """A prompt of the same item (or root) in which something else was put."""

    prompt_id: str
    differs: tuple[tuple[str, str, str], ...]
    """Factor, its value here, its value there."""
    repetitions: int

    @property
    def distance(self) -> tuple[bool, int]:
        """Whether it is put otherwise as well, and in how many factors it differs."""
        return any(name in _HOW_PUT for name, _, _ in self.differs), len(self.differs)

    @property
    def title(self) -> str:
        """What differs, in a few words."""
        return ", ".join(f"{name}: {here} → {there}" for name, here, there in self.differs) or "the same factors in other words"


def detail(path: Path, attempt: Attempt) -> Detail:
    """One response with its prompt and measures.

    Raises
    ------
    InputError
        A table is missing or damaged, or the run no longer has it.
    """
    folder = RunFolder(path)
    mine = [col(name) == value for name, value in attempt._asdict().items()]
    with reading(path):
        said = folder.scan("responses").filter(mine).select("answer", "thinking", "status", "error").collect()
        asked = folder.scan("design").filter(col.prompt_id == attempt.prompt_id).select("system", "prompt").collect()
        read = folder.scan("measures").filter(mine).collect()
    answer, prompt = one(said, f"the response to {attempt.prompt_id}"), one(asked, f"the prompt {attempt.prompt_id}")
    measured = read.row(0, named=True) if read.height else {}
    shown = {name: _said(value) for name, value in measured.items() if value is not None and name not in (*Attempt._fields, "attempt")}
    ordered = {name: shown[name] for name in ("outcome", "label") if name in shown} | shown
    return Detail(**prompt, **answer, measured=ordered, attempt=measured.get("attempt"))


def counterparts(path: Path, prompt_id: str) -> list[Counterpart]:
    """Prompts of the same root (or else of the same item) of the same part; first those put in the same words and role, and of
    them those that differ in the fewest factors.

    Raises
    ------
    InputError
        The design is missing or damaged, or the run no longer has the prompt.
    """
    design = RunFolder(path).scan("design")
    with reading(path):
        names = design.collect_schema().names()
        mine = one(design.filter(col.prompt_id == prompt_id).collect(), f"the prompt {prompt_id}")
        unit = "root" if mine.get("root") is not None else "item"
        factors = [name for name in names if name not in _NOT_FACTORS and name != unit]
        same = design.filter(col.part == mine["part"], col(unit) == mine[unit], col.prompt_id != prompt_id)
        others = same.select("prompt_id", "repetitions", *factors).collect()
    found = [
        Counterpart(
            row["prompt_id"],
            tuple((name, _said(mine[name]), _said(row[name])) for name in factors if row[name] != mine[name]),
            row["repetitions"],
        )
        for row in others.iter_rows(named=True)
    ]
    return sorted(found, key=lambda other: other.distance)[:MOST]


def sentences(path: Path, attempt: str | None, finding: dict[str, Any]) -> list[str]:
    """The sentences of a response that show the concept a finding is about; none where the method keeps no such table.

    Raises
    ------
    InputError
        The table is damaged.
    """
    stages = RunFolder(path).stages()
    if attempt is None or finding["concept"] is None or "shown" not in stages:
        return []
    wanted = {"attempt": attempt, "model": finding["model"], "concept": finding["concept"], "identity": finding["group"]}
    conditions = [col(name) == value for name, value in wanted.items() if value is not None]
    with reading(path):
        found = stages["shown"].filter(conditions).select(col.sentence.drop_nulls().unique(maintain_order=True)).collect()
    return found["sentence"].to_list()


def _said(value: object) -> str:
    match value:
        case None:
            return "none"
        case float():
            return f"{value:.6g}"
        case list():
            return " | ".join(map(_said, value))
        case _:
            return str(value)


SIZE = 25
"""Responses on a page."""
_ALL, _MOST = "All it rests on", "Those that moved it most"


def choose_response(path: Path, stamp: data.Stamp, finding: dict[str, Any]) -> Attempt | None:
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
    shown = data.with_texts(path, table.slice((number - 1) * SIZE, SIZE))
    st.caption(f"{table.height:,} responses, from {(number - 1) * SIZE + 1:,} on. Choose a row to see it whole.")
    order = ["outcome", "label", *(["influence"] if which == _MOST else []), "answer", "prompt", "prompt_id", "repetition"]
    columns = dict.fromkeys(("answer", "prompt"), st.column_config.TextColumn(width="large"))
    row = choose_row(shown.select(order), key=f"{name} {which} {number}", columns=columns)
    return None if row is None else Attempt(*shown.select(Attempt._fields).row(row))


def show_response(path: Path, attempt: Attempt, finding: dict[str, Any]) -> Detail:
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
        _show_text(shown, key=f"{path} {attempt}")
        if found := sentences(path, shown.attempt, finding):
            st.caption("Sentences that show the concept")
            lines(found)
    with read:
        st.caption("Measure")
        _show_texts(shown.measured.items(), "column", "value")
    return shown


def show_pair(path: Path, attempt: Attempt, mine: Detail) -> None:
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
    theirs = Attempt(attempt.model, other.prompt_id, min(attempt.repetition, other.repetitions - 1))
    shown = detail(path, theirs)
    for column, place, named, said in zip(st.columns(2), ("Here", "There"), (attempt, theirs), (mine, shown), strict=True):
        with column:
            st.caption(place)
            lines([f"{named.prompt_id}, repetition {named.repetition}"])
            _asked(said, key=f"{path} pair {place} {named}")
            _show_text(said, key=f"{path} pair {place} {named}")
    _compared(other, mine, shown)


def _asked(shown: Detail, *, key: str) -> None:
    if shown.system is not None:
        st.caption("System message")
        block(shown.system, key=f"{key} system")
    st.caption("Prompt")
    block(shown.prompt, key=f"{key} prompt")


def _show_text(shown: Detail, *, key: str) -> None:
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
    _show_texts(differing, "", "here", "there")


def _show_texts(rows: Iterable[tuple[str, ...]], *columns: str) -> None:
    st.dataframe(fitting(DataFrame([*rows], schema=dict.fromkeys(columns, String), orient="row")), hide_index=True)
