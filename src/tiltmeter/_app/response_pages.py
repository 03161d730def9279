"""The responses behind a finding: a list, the selected response, and its counterfactual pair."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st
from polars import DataFrame, Series, String, col

from tiltmeter._app import run_data
from tiltmeter._app.plain_text import block, choose_row, fitting, lines, one_line
from tiltmeter._app.run_data import Attempt, only_row
from tiltmeter.readers.outcomes import OUTCOMES
from tiltmeter.runs import RunFolder
from tiltmeter.runs._counterparts import counterparts as counterparts_in
from tiltmeter.runs._folder import reading

MOST_COUNTERPARTS = 200
"""Maximum number of counterparts offered for a prompt."""


@dataclass(frozen=True, slots=True)
class Detail:
    """All data of a run about one response."""

    system: str | None
    prompt: str | None
    answer: str | None
    thinking: str | None
    status: str
    error: str | None
    measures: dict[str, str]
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
        if not self.differs:
            return "same factors, different wording"
        return ", ".join(f"{name}: {before} → {after}" for name, before, after in self.differs)


def detail(path: Path, attempt: Attempt) -> Detail:
    """Return one response with its prompt and measures.

    Raises
    ------
    InputError
        A table is missing or damaged, or the run no longer has it.
    """
    folder = RunFolder(path)
    is_attempt = [col(name) == value for name, value in attempt._asdict().items()]
    is_prompt = col.prompt_id == attempt.prompt_id
    with reading(path):
        responses = folder.scan("responses").filter(is_attempt)
        responses_read = responses.select("answer", "thinking", "status", "error").collect()
        prompts_read = folder.scan("design").filter(is_prompt).select("system", "prompt").collect()
        measures_read = folder.scan("measures").filter(is_attempt).collect()
    response = only_row(responses_read, f"the response to {attempt.prompt_id}")
    prompt = only_row(prompts_read, f"the prompt {attempt.prompt_id}")
    measures = measures_read.row(0, named=True) if measures_read.height else {}
    return Detail(
        **prompt,
        **response,
        measures=_texts_of_measures(measures),
        attempt=measures.get("attempt"),
    )


def _texts_of_measures(measures: Mapping[str, object]) -> dict[str, str]:
    """Return measures as texts, without nulls and identifiers, the outcome and the label first."""
    names = dict.fromkeys(["outcome", "label", *measures])
    identifiers = (*Attempt._fields, "attempt")
    return {
        name: _text(measures[name])
        for name in names
        if name not in identifiers and measures.get(name) is not None
    }


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
        prompts = design.filter(col.prompt_id == prompt_id).select("prompt_id").collect()
        only_row(prompts, f"the prompt {prompt_id}")
        pairs = counterparts_in(design, Series([prompt_id])).head(MOST_COUNTERPARTS)
    choices = []
    for other_id, differs, repetitions in pairs.select(
        "other_id", "differs", "other_repetitions"
    ).iter_rows():
        factors = tuple(tuple(factor.values()) for factor in differs)
        choices.append(Counterpart(other_id, factors, repetitions))
    return choices


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
    values = {
        "attempt": attempt,
        "model": finding["model"],
        "concept": finding["concept"],
        "identity": finding["group"],
    }
    conditions = [col(name) == value for name, value in values.items() if value is not None]
    distinct = col.sentence.drop_nulls().unique(maintain_order=True)
    with reading(path):
        table = stages["shown"].filter(conditions).select(distinct).collect()
    return table["sentence"].to_list()


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


PAGE_SIZE = 25
"""Number of responses per page."""
_ALL = "All responses"
_INFLUENTIAL = "Most influential responses"
_COLUMNS = {
    _ALL: ["outcome", "label", "answer", "prompt", "prompt_id", "repetition"],
    _INFLUENTIAL: ["outcome", "label", "influence", "answer", "prompt", "prompt_id", "repetition"],
}
"""Columns of the list of responses."""


def choose_response(path: Path, stamp: run_data.Stamp, finding: dict[str, Any]) -> Attempt | None:
    """Show the responses behind a finding, page by page, and return the selected one.

    Raises
    ------
    InputError
        A table is missing or damaged.
    """
    st.subheader("Responses")
    st.caption(
        "Model responses may be offensive."
        " Results describe what a model associates with a group, not the people in that group."
    )
    key = f"{path} {stamp} {finding['number']}"
    influential = run_data.most_influential(path, stamp, finding)
    selection = _ALL
    if influential.height:
        selection = st.radio("Show", [_INFLUENTIAL, _ALL], horizontal=True, key=f"{key} which")
    if selection == _INFLUENTIAL:
        table = influential
    else:
        column_of_outcomes, column_of_text = st.columns([1, 2])
        outcomes = column_of_outcomes.multiselect(
            "Outcome", OUTCOMES, key=f"{key} outcomes", placeholder="All"
        )
        text = column_of_text.text_input("Search prompts and answers", key=f"{key} text")
        table = run_data.attempts(path, stamp, finding["evidence"], finding["model"], tuple(outcomes), text)
        key += f" {sorted(outcomes)} {text}"
    if table.is_empty():
        st.caption("No matching responses.")
        return None
    pages = math.ceil(table.height / PAGE_SIZE)
    page = 1
    if pages > 1:
        page = int(st.number_input(f"Page (of {pages:,})", 1, pages, key=f"{key} page"))
    offset = (page - 1) * PAGE_SIZE
    rows = run_data.with_texts(path, table.slice(offset, PAGE_SIZE))
    st.caption(
        f"{table.height:,} responses, showing {offset + 1:,} to {offset + rows.height:,}."
        " Select a row to see the full response."
    )
    wide = st.column_config.TextColumn(width="large")
    row = choose_row(
        rows.select(_COLUMNS[selection]),
        key=f"{key} {selection} {page}",
        columns={"answer": wide, "prompt": wide},
    )
    return None if row is None else Attempt(*rows.select(Attempt._fields).row(row))


def show_response(path: Path, attempt: Attempt, finding: dict[str, Any]) -> Detail:
    """Show the prompt, the response and its measures side by side.

    Raises
    ------
    InputError
        A table is missing or damaged.
    """
    response = detail(path, attempt)
    st.subheader("Response")
    lines([f"{attempt.prompt_id}, repetition {attempt.repetition}, {attempt.model}"])
    column_of_prompt, column_of_answer, column_of_measures = st.columns([2, 2, 1.4])
    with column_of_prompt:
        _show_prompt(response, key=f"{path} {attempt}")
    with column_of_answer:
        _show_answer(response, key=f"{path} {attempt}")
        if sentences_of_concept := sentences(path, response.attempt, finding):
            st.caption("Sentences that show the concept")
            lines(sentences_of_concept)
    with column_of_measures:
        st.caption("Measures")
        _show_table(response.measures.items(), "column", "value")
    return response


def show_pair(path: Path, attempt: Attempt, response: Detail) -> None:
    """Show the response next to the response to a counterpart of its prompt.

    Raises
    ------
    InputError
        A table is missing or damaged.
    """
    st.subheader("Counterfactual pair")
    choices = counterparts(path, attempt.prompt_id)
    if not choices:
        st.caption("The design has no counterpart of this prompt.")
        return
    titles = [f"{i}. {one_line(choice.title)}" for i, choice in enumerate(choices, 1)]
    title = st.selectbox("Compare with (differences: here → there)", titles, key=f"{path} {attempt} other")
    counterpart = choices[titles.index(title)] if title in titles else choices[0]
    repetition = min(attempt.repetition, counterpart.repetitions - 1)
    attempt_there = Attempt(attempt.model, counterpart.prompt_id, repetition)
    response_there = detail(path, attempt_there)
    column_here, column_there = st.columns(2)
    with column_here:
        _show_side(path, "Here", attempt, response)
    with column_there:
        _show_side(path, "There", attempt_there, response_there)
    _show_differences(counterpart, response, response_there)


def _show_side(path: Path, side: str, attempt: Attempt, response: Detail) -> None:
    """Show one response of a counterfactual pair with its prompt."""
    st.caption(side)
    lines([f"{attempt.prompt_id}, repetition {attempt.repetition}"])
    key = f"{path} pair {side} {attempt}"
    _show_prompt(response, key=key)
    _show_answer(response, key=key)


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
        status = response.status
        lines([status if response.error is None else f"{status}: {response.error}"])


def _show_differences(counterpart: Counterpart, response: Detail, response_there: Detail) -> None:
    """Show outcome, label, and the factors and measures that differ between two responses."""
    measures, measures_there = response.measures, response_there.measures
    factors = [name for name, _, _ in counterpart.differs]
    rows = []
    for name in dict.fromkeys([*factors, *measures, *measures_there]):
        value = measures.get(name, "none")
        value_there = measures_there.get(name, "none")
        if value != value_there or name in ("outcome", "label"):
            rows.append((name, value, value_there))
    st.caption("Outcome, label, and differences in measures and factors")
    _show_table(rows, "", "here", "there")


def _show_table(rows: Iterable[tuple[str, ...]], *columns: str) -> None:
    table = DataFrame(list(rows), schema=dict.fromkeys(columns, String), orient="row")
    st.dataframe(fitting(table), hide_index=True)
