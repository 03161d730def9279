"""The responses behind a finding: a list, the selected response, and its counterfactual pair."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st
from polars import DataFrame, Series, String, col

from tiltmeter.app import run_data as data
from tiltmeter.app.plain_text import block, choose_row, fitting, lines, one_line
from tiltmeter.app.run_data import Attempt, one
from tiltmeter.readers.outcomes import OUTCOMES
from tiltmeter.runs import RunFolder
from tiltmeter.runs.counterparts import counterparts as counterparts_of
from tiltmeter.runs.folder import reading

MOST = 200
"""Maximum number of counterparts offered for a prompt."""


class Detail(NamedTuple):
    """All data of a run about one response."""

    system: str | None
    prompt: str | None
    answer: str | None
    thinking: str | None
    status: str
    error: str | None
    measured: dict[str, str]
    """Its measures and the factors of its prompt, by column and without nulls."""
    attempt: str | None
    """Its identifier in the tables of the method; None if it has none."""


class Counterpart(NamedTuple):
    """A prompt of the same item (or root) with different content."""

    prompt_id: str
    differs: tuple[tuple[str, str, str], ...]
    """Factors that differ, each with its values in this prompt and in the counterpart."""
    repetitions: int

    @property
    def title(self) -> str:
        """Short description of the factors that differ."""
        return (
            ", ".join(f"{name}: {here} → {there}" for name, here, there in self.differs)
            or "same factors, different wording"
        )


def detail(path: Path, attempt: Attempt) -> Detail:
    """Return one response with its prompt and measures.

    Raises
    ------
    InputError
        A table is missing or damaged, or the run no longer has it.
    """
    folder = RunFolder(path)
    mine = [col(name) == value for name, value in attempt._asdict().items()]
    with reading(path):
        responses = (
            folder.scan("responses").filter(mine).select("answer", "thinking", "status", "error").collect()
        )
        prompts = (
            folder.scan("design")
            .filter(col.prompt_id == attempt.prompt_id)
            .select("system", "prompt")
            .collect()
        )
        measures = folder.scan("measures").filter(mine).collect()
    answer, prompt = (
        one(responses, f"the response to {attempt.prompt_id}"),
        one(prompts, f"the prompt {attempt.prompt_id}"),
    )
    measured = measures.row(0, named=True) if measures.height else {}
    texts = {
        name: _text(value)
        for name, value in measured.items()
        if value is not None and name not in (*Attempt._fields, "attempt")
    }
    ordered = {name: texts[name] for name in ("outcome", "label") if name in texts} | texts
    return Detail(**prompt, **answer, measured=ordered, attempt=measured.get("attempt"))


def counterparts(path: Path, prompt_id: str) -> list[Counterpart]:
    """Return the prompts of the same part and root (or item) as a prompt, ordered by similarity.

    Prompts of the same form come first, and within them those that differ in the fewest factors.

    Raises
    ------
    InputError
        The design is missing or damaged, or the run no longer has the prompt.
    """
    design = RunFolder(path).scan("design")
    with reading(path):
        one(
            design.filter(col.prompt_id == prompt_id).select("prompt_id").collect(), f"the prompt {prompt_id}"
        )
        found = counterparts_of(design, Series([prompt_id])).head(MOST)
    rows = found.select("other_id", "differs", "other_repetitions").iter_rows()
    return [
        Counterpart(other, tuple(tuple(one.values()) for one in differs), count)
        for other, differs, count in rows
    ]


def sentences(path: Path, attempt: str | None, finding: dict[str, Any]) -> list[str]:
    """Return the sentences of a response that show the concept of a finding.

    Empty if the method stores no such sentences.

    Raises
    ------
    InputError
        The table is damaged.
    """
    stages = RunFolder(path).stages()
    if attempt is None or finding["concept"] is None or "shown" not in stages:
        return []
    wanted = {
        "attempt": attempt,
        "model": finding["model"],
        "concept": finding["concept"],
        "identity": finding["group"],
    }
    conditions = [col(name) == value for name, value in wanted.items() if value is not None]
    with reading(path):
        found = (
            stages["shown"]
            .filter(conditions)
            .select(col.sentence.drop_nulls().unique(maintain_order=True))
            .collect()
        )
    return found["sentence"].to_list()


def _text(value: object) -> str:
    match value:
        case None:
            return "none"
        case float():
            return f"{value:.6g}"
        case list():
            return " | ".join(map(_text, value))
        case _:
            return str(value)


SIZE = 25
"""Number of responses per page."""
_ALL, _MOST = "All responses", "Most influential responses"


def choose_response(path: Path, stamp: data.Stamp, finding: dict[str, Any]) -> Attempt | None:
    """Show the responses behind a finding, page by page, and return the selected one.

    Raises
    ------
    InputError
        A table is missing or damaged.
    """
    st.subheader("Responses")
    st.caption(
        "Model responses may be offensive. Results describe what a model associates with a group, not the people in that group."
    )
    name = f"{path} {stamp} {finding['number']}"
    influential = data.most_influential(path, stamp, finding)
    which = (
        st.radio("Show", [_MOST, _ALL], horizontal=True, key=f"{name} which") if influential.height else _ALL
    )
    if which == _MOST:
        table = influential
    else:
        left, middle = st.columns([1, 2])
        outcomes = left.multiselect("Outcome", OUTCOMES, key=f"{name} outcomes", placeholder="All")
        text = middle.text_input("Search prompts and answers", key=f"{name} text")
        table = data.attempts(path, stamp, finding["evidence"], finding["model"], tuple(outcomes), text)
        name += f" {sorted(outcomes)} {text}"
    if table.is_empty():
        st.caption("No matching responses.")
        return None
    pages = -(-table.height // SIZE)
    number = int(st.number_input(f"Page (of {pages:,})", 1, pages, key=f"{name} page")) if pages > 1 else 1
    rows = data.with_texts(path, table.slice((number - 1) * SIZE, SIZE))
    first = (number - 1) * SIZE + 1
    st.caption(
        f"{table.height:,} responses, showing {first:,} to {first + rows.height - 1:,}. Select a row to see the full response."
    )
    order = [
        "outcome",
        "label",
        *(["influence"] if which == _MOST else []),
        "answer",
        "prompt",
        "prompt_id",
        "repetition",
    ]
    columns = dict.fromkeys(("answer", "prompt"), st.column_config.TextColumn(width="large"))
    row = choose_row(rows.select(order), key=f"{name} {which} {number}", columns=columns)
    return None if row is None else Attempt(*rows.select(Attempt._fields).row(row))


def show_response(path: Path, attempt: Attempt, finding: dict[str, Any]) -> Detail:
    """Show the prompt, the response and its measures side by side.

    Raises
    ------
    InputError
        A table is missing or damaged.
    """
    mine = detail(path, attempt)
    st.subheader("Response")
    lines([f"{attempt.prompt_id}, repetition {attempt.repetition}, {attempt.model}"])
    left, middle, right = st.columns([2, 2, 1.4])
    with left:
        _show_prompt(mine, key=f"{path} {attempt}")
    with middle:
        _show_answer(mine, key=f"{path} {attempt}")
        if found := sentences(path, mine.attempt, finding):
            st.caption("Sentences that show the concept")
            lines(found)
    with right:
        st.caption("Measures")
        _show_table(mine.measured.items(), "column", "value")
    return mine


def show_pair(path: Path, attempt: Attempt, mine: Detail) -> None:
    """Show the response next to the response to a counterpart of its prompt.

    Raises
    ------
    InputError
        A table is missing or damaged.
    """
    st.subheader("Counterfactual pair")
    found = counterparts(path, attempt.prompt_id)
    if not found:
        st.caption("The design has no counterpart of this prompt.")
        return
    titles = [f"{i}. {one_line(other.title)}" for i, other in enumerate(found, 1)]
    chosen = st.selectbox("Compare with (differences: here → there)", titles, key=f"{path} {attempt} other")
    other = found[titles.index(chosen)] if chosen in titles else found[0]
    counterpart = Attempt(attempt.model, other.prompt_id, min(attempt.repetition, other.repetitions - 1))
    theirs = detail(path, counterpart)
    for column, place, named, response in zip(
        st.columns(2), ("Here", "There"), (attempt, counterpart), (mine, theirs), strict=True
    ):
        with column:
            st.caption(place)
            lines([f"{named.prompt_id}, repetition {named.repetition}"])
            _show_prompt(response, key=f"{path} pair {place} {named}")
            _show_answer(response, key=f"{path} pair {place} {named}")
    _show_differences(other, mine, theirs)


def _show_prompt(response: Detail, *, key: str) -> None:
    if response.system is not None:
        st.caption("System message")
        block(response.system, key=f"{key} system")
    st.caption("Prompt")
    block(response.prompt, key=f"{key} prompt")


def _show_answer(response: Detail, *, key: str) -> None:
    st.caption("Response")
    block(response.answer, key=f"{key} answer")
    if response.thinking:
        with st.expander("Thinking before the answer"):
            block(response.thinking, key=f"{key} thinking")
    if response.status != "ok":
        lines([f"{response.status}: {response.error}" if response.error is not None else response.status])


def _show_differences(other: Counterpart, mine: Detail, theirs: Detail) -> None:
    """Show outcome, label, and the factors and measures that differ between two responses."""
    names = list(dict.fromkeys([*(name for name, _, _ in other.differs), *mine.measured, *theirs.measured]))
    rows = [(name, mine.measured.get(name, "none"), theirs.measured.get(name, "none")) for name in names]
    differing = [row for row in rows if row[1] != row[2] or row[0] in ("outcome", "label")]
    st.caption("Outcome, label, and differences in measures and factors")
    _show_table(differing, "", "here", "there")


def _show_table(rows: Iterable[tuple[str, ...]], *columns: str) -> None:
    st.dataframe(
        fitting(DataFrame([*rows], schema=dict.fromkeys(columns, String), orient="row")), hide_index=True
    )
