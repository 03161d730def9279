"""Page on which a person labels a random sample of the responses of a run.

A label is stored as soon as it is given. What was read in a response, and what others said about it, is not
shown. Anyone can enter any name, so a label is replaced only on the page that stored it; see `_Sitting.own`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import polars as pl
import streamlit as st
from polars import DataFrame, col, lit

from tiltmeter.app.plain_text import block, fitting, lines, one_line
from tiltmeter.errors import InputError
from tiltmeter.labelling.samples import JUDGE, add_labels, reanalyse, sample
from tiltmeter.reports.markdown import text as as_markdown
from tiltmeter.runs import Run, RunFolder
from tiltmeter.runs.reading_quality import ROW, labels_of
from tiltmeter.schema import REFUSED, UNCLEAR

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
    """A sample, its annotator, the row that is shown (the number of rows at the end), and the number of rows shown before.

    `own` are the labels that were given in this sitting as they were stored, by number of the row.
    """

    run: Run
    sample: DataFrame
    annotator: str
    position: int = 0
    visit: int = 0
    run_code: bool = False
    own: dict[int, str] = field(default_factory=dict)

    def rows(self) -> DataFrame:
        """Return the sample with the labels of the annotator."""
        given = labels_of(self.run.folder).filter(annotator=self.annotator).select(*ROW, "label")
        return self.sample.drop("label").join(
            given, on=ROW, how="left", nulls_equal=True, maintain_order="left"
        )


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
        st.button(
            "Undo", shortcut="Backspace", on_click=_leave, args=(sitting, sitting.visit, rows.height - 1)
        )
    lines([f"{rows['part'][0]}, {rows['model'][0]}, labelled by {sitting.annotator}"])
    st.button("Label something else", on_click=st.session_state.pop, args=(key,))
    if st.button("Update the results") or sitting.position == rows.height:
        _update(sitting.run, run_code=sitting.run_code)


def _begin(run: Run, key: str, *, run_code: bool) -> None:
    """Ask what is to be labelled and by whom."""
    st.caption(
        "Read a random sample of the responses and label them. The labels show how well the responses were read."
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
    sitting = _Sitting(run, sample(run, n, part, model, run_code=run_code), annotator, run_code=run_code)
    sitting.position = _next_unlabelled(sitting.rows(), -1)
    st.session_state[key] = sitting
    st.rerun()


def _next_unlabelled(rows: DataFrame, position: int) -> int:
    """Return the first unlabelled position after `position`, then before it.

    The number of rows if there is none.
    """
    order = (*range(position + 1, rows.height), *range(position))
    return next((one for one in order if rows["label"][one] is None), rows.height)


def _show(sitting: _Sitting, rows: DataFrame) -> None:
    at, visit = sitting.position, sitting.visit
    row, following = rows.row(at, named=True), _next_unlabelled(rows, at)
    stored = (sitting, visit, following, at)
    changeable = row["label"] is None or row["label"] == sitting.own.get(at)
    lines([row["question"]])
    if changeable and not row["allowed"]:
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
            st.form_submit_button("Store", on_click=_leave, args=stored)
    keys = iter(_KEYS)
    with st.container(horizontal=True):
        for label in dict.fromkeys([*row["allowed"], *_KEYS_OF_ALL]) if changeable else ():
            shortcut = _KEYS_OF_ALL.get(label) or next(keys, None)
            st.button(
                as_markdown(one_line(label)),
                f"{visit} {label}",
                None,
                _leave,
                (*stored, label),
                shortcut=shortcut,
            )
        for name, shortcut, place in (("Undo", "Backspace", max(at - 1, 0)), ("Skip", "Right", following)):
            st.button(
                name,
                f"{visit} {name}",
                None,
                _leave,
                (sitting, visit, place),
                shortcut=shortcut,
                type="tertiary",
            )
    if row["label"] is not None:
        remark = (
            "Another label replaces it."
            if changeable
            else "It was given at another time or in another window, and is kept."
        )
        lines([f"Your label: {row['label']}. {remark}"])
    for name in ("answer", "prompt"):
        st.caption(name.title())
        block(row[name] or None, key=f"{visit} {name}")


def _leave(
    sitting: _Sitting, visit: int, place: int, at: int | None = None, label: str | None = None
) -> None:
    """Store the label (or the number that was typed) of the row `at`, if given, and go to another place in the sample.

    Ignored unless `visit` is the current one: the browser may still have buttons of a response shown before,
    with the same keys.
    """
    if visit != sitting.visit:
        return
    if at is not None:
        given = sitting.sample[at].with_columns(label=lit(label or str(st.session_state[_NUMBER])))
        try:
            with _WRITER:
                before = sitting.own.get(at)
                stored = add_labels(
                    sitting.run,
                    given,
                    sitting.annotator,
                    replace=False,
                    replacing=before,
                    run_code=sitting.run_code,
                )
        except InputError as error:
            st.error("The label was not stored:")
            lines([str(error)])
            return
        sitting.own[at] = stored["label"][0]
    sitting.position, sitting.visit = place, visit + 1


def _update(run: Run, *, run_code: bool) -> None:
    """Compute the findings with the labels, and show how well the responses were read and how often two annotators agree."""
    with st.spinner("Computing the findings"), _WRITER:
        reanalyse(run, run_code=run_code).report()
    st.subheader("How well the responses were read")
    st.dataframe(fitting(run.reading_quality.with_columns(col.label.fill_null("all"))), hide_index=True)
    labels = labels_of(run.folder)
    pairs = labels.join(labels, on=ROW, suffix="_2", nulls_equal=True).filter(col.annotator < col.annotator_2)
    both = pairs.group_by("model", "part", "annotator", "annotator_2", maintain_order=True)
    agreement = both.agg(common=pl.len(), agreement=(col.label == col.label_2).mean())
    if agreement.height:
        st.caption("Share of the responses in common to which two annotators gave the same label")
        st.dataframe(fitting(agreement), hide_index=True)
