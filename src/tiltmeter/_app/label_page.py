"""Page on which a person labels a random sample of the responses of a run.

A label is stored as soon as it is given. What was read in a response, and what others said about it, is not
shown. Anyone can enter any name, so a label is replaced only on the page that stored it (see
`_Sitting.stored_labels`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import polars as pl
import streamlit as st
from polars import DataFrame, col, lit

from tiltmeter._app.plain_text import block, fitting, lines, one_line
from tiltmeter.errors import InputError
from tiltmeter.labelling._samples import JUDGE, add_labels, reanalyse, sample
from tiltmeter.reports._markdown import text as as_markdown
from tiltmeter.runs import Run, RunFolder
from tiltmeter.runs._reading_quality import ROW, labels_of
from tiltmeter.schema import REFUSED, UNCLEAR, beside

_KEYS = "123456789ABDEFGHIJKLMNOPQSTVWYZ"
"""Keys of the labels of a part, in their order. Streamlit reserves C and R."""
_KEYS_OF_ALL = {REFUSED: "X", UNCLEAR: "U"}
"""Keys of the labels that every response can have."""
_NUMBER = "number"
"""Key of the number input in the session state."""
_WRITER = Lock()
"""Held while a run folder is written, so that annotators who use the same server wait for each other."""


@dataclass
class _Sitting:
    """A sample of responses that one person labels.

    Parameters
    ----------
    position
        The row of the sample that is shown; the number of rows at the end.
    visit
        Number of rows shown before.
    run_code
        Whether code that study.yaml of the run names may be run.
    stored_labels
        The labels that were given in this sitting as they were stored, by row.
    """

    run: Run
    sample: DataFrame
    annotator: str
    position: int = 0
    visit: int = 0
    run_code: bool = False
    stored_labels: dict[int, str] = field(default_factory=dict)

    def rows(self) -> DataFrame:
        """Return the sample with the labels of the annotator."""
        labels = labels_of(self.run.folder).filter(annotator=self.annotator).select(*ROW, "label")
        return beside(self.sample.drop("label"), labels, *ROW)

    def go_to(self, position: int) -> None:
        """Show another row."""
        self.position = position
        self.visit += 1


def label_responses(path: Path, *, run_code: bool = False) -> None:
    """Show the page for one run.

    Parameters
    ----------
    run_code
        Whether code that study.yaml of the run names may be run.

    Raises
    ------
    InputError
        Nothing can be labelled, a table is damaged, or the folder cannot be written.
    """
    key = f"{path} labels"
    if key not in st.session_state:
        _begin(Run(RunFolder(path)), key, run_code=run_code)
        return
    sitting: _Sitting = st.session_state[key]
    rows = sitting.rows()
    labelled = rows["label"].count()
    st.progress(labelled / rows.height, text=f"{labelled} of {rows.height}")
    if sitting.position < rows.height:
        _show(sitting, rows)
    else:
        last = (sitting, sitting.visit, rows.height - 1)
        st.button("Undo", shortcut="Backspace", on_click=_leave, args=last)
    lines([f"{rows['part'][0]}, {rows['model'][0]}, labelled by {sitting.annotator}"])
    st.button("Label something else", on_click=st.session_state.pop, args=(key,))
    if st.button("Update the results") or sitting.position == rows.height:
        _update(sitting.run, run_code=sitting.run_code)


def _begin(run: Run, key: str, *, run_code: bool) -> None:
    """Ask what is to be labelled and by whom."""
    st.caption(
        "Read a random sample of the responses and label them."
        " The labels show how well the responses were read."
    )
    with st.form("labels", width=480):
        part = st.selectbox("Part", run.about["parts"], format_func=one_line)
        model = st.selectbox("Model", run.folder.models("findings"), format_func=one_line)
        n = st.number_input("Number of responses", 1, 100_000, 200)
        annotator = st.text_input("Your name", required=True).strip()
        if not st.form_submit_button("Start"):
            return
    if annotator.lower().startswith(JUDGE):
        st.error(f'Names that begin with "{JUDGE.strip()}" are those of judges: enter another name.')
        return
    responses = sample(run, n, part, model, run_code=run_code)
    sitting = _Sitting(run, responses, annotator, run_code=run_code)
    sitting.position = _next_unlabelled(sitting.rows(), -1)
    st.session_state[key] = sitting
    st.rerun()


def _next_unlabelled(rows: DataFrame, position: int) -> int:
    """Return the first unlabelled position after `position`, then before it.

    If every row has a label, return the number of rows.
    """
    positions = [*range(position + 1, rows.height), *range(position)]
    unlabelled = [row for row in positions if rows["label"][row] is None]
    return unlabelled[0] if unlabelled else rows.height


def _show(sitting: _Sitting, rows: DataFrame) -> None:
    """Show the current response with buttons for its label."""
    position = sitting.position
    row = rows.row(position, named=True)
    target = _next_unlabelled(rows, position)
    is_changeable = row["label"] is None or row["label"] == sitting.stored_labels.get(position)
    lines([row["question"]])
    if is_changeable and not row["allowed"]:
        _show_number_input(sitting, target)
    with st.container(horizontal=True):
        if is_changeable:
            _show_labels(sitting, target, row["allowed"])
        _show_move(sitting, "Undo", "Backspace", max(position - 1, 0))
        _show_move(sitting, "Skip", "Right", target)
    if row["label"] is not None:
        remark = REPLACEABLE if is_changeable else NOT_REPLACEABLE
        lines([f"Your label: {row['label']}. {remark}"])
    for name in ("answer", "prompt"):
        st.caption(name.title())
        block(row[name] or None, key=f"{sitting.visit} {name}")


REPLACEABLE = "Another label replaces it."
NOT_REPLACEABLE = "It was given at another time or in another window, and is kept."


def _show_number_input(sitting: _Sitting, target: int) -> None:
    """Show a field for the label of the current response, which is a number."""
    with (
        st.form(_NUMBER, clear_on_submit=True, border=False),
        st.container(horizontal=True, vertical_alignment="bottom"),
    ):
        st.number_input(
            "Value (type it and press Enter)",
            value=None,
            format="%g",
            key=_NUMBER,
            width=240,
            required=True,
        )
        arguments = (sitting, sitting.visit, target, sitting.position)
        st.form_submit_button("Store", on_click=_leave, args=arguments)


def _show_labels(sitting: _Sitting, target: int, allowed: Sequence[str]) -> None:
    """Show a button for each label that the current response can have."""
    keys = iter(_KEYS)
    for label in dict.fromkeys([*allowed, *_KEYS_OF_ALL]):
        shortcut = _KEYS_OF_ALL.get(label) or next(keys, None)
        st.button(
            as_markdown(one_line(label)),
            key=f"{sitting.visit} {label}",
            on_click=_leave,
            args=(sitting, sitting.visit, target, sitting.position, label),
            shortcut=shortcut,
        )


def _show_move(sitting: _Sitting, name: str, shortcut: str, target: int) -> None:
    """Show a button that leads to another response without storing a label."""
    st.button(
        name,
        key=f"{sitting.visit} {name}",
        on_click=_leave,
        args=(sitting, sitting.visit, target),
        shortcut=shortcut,
        type="tertiary",
    )


def _leave(
    sitting: _Sitting, visit: int, target: int, labelled: int | None = None, label: str | None = None
) -> None:
    """Store a label, if there is one, and go to another row.

    Nothing happens unless `visit` is the current one: the browser may still have buttons of a response shown
    before, with the same keys.

    Parameters
    ----------
    target
        The row to show next.
    labelled
        The row whose label is stored; None stores no label.
    label
        The label; None stores the number that was typed.
    """
    if visit != sitting.visit:
        return
    if labelled is not None:
        row = sitting.sample[labelled].with_columns(label=lit(label or str(st.session_state[_NUMBER])))
        try:
            with _WRITER:
                stored = add_labels(
                    sitting.run,
                    row,
                    sitting.annotator,
                    replace=False,
                    replacing=sitting.stored_labels.get(labelled),
                    run_code=sitting.run_code,
                )
        except InputError as error:
            st.error("The label was not stored:")
            lines([str(error)])
            return
        sitting.stored_labels[labelled] = stored["label"][0]
    sitting.go_to(target)


def _update(run: Run, *, run_code: bool) -> None:
    """Compute the findings with the labels.

    Show how well the responses were read and how often two annotators agree.
    """
    with st.spinner("Computing the findings"), _WRITER:
        reanalyse(run, run_code=run_code).report()
    st.subheader("How well the responses were read")
    st.dataframe(fitting(run.reading_quality.with_columns(col.label.fill_null("all"))), hide_index=True)
    labels = labels_of(run.folder)
    pairs = labels.join(labels, on=ROW, suffix="_2", nulls_equal=True).filter(col.annotator < col.annotator_2)
    of_annotators = pairs.group_by("model", "part", "annotator", "annotator_2", maintain_order=True)
    agreement = of_annotators.agg(common=pl.len(), agreement=(col.label == col.label_2).mean())
    if agreement.height:
        st.caption("Share of the responses in common to which two annotators gave the same label")
        st.dataframe(fitting(agreement), hide_index=True)
