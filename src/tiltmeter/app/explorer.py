"""Main page of the explorer: the list of runs, or a single run.

Started by `server.py` with FOLDER JOURNAL TOKEN [RUN_CODE].
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import streamlit as st
from polars import Boolean, DataFrame, String, lit

from tiltmeter.app import run_data as data
from tiltmeter.app.access import ask_for_token, may_write, say_what_is_allowed
from tiltmeter.app.findings_page import choose_finding, show_finding
from tiltmeter.app.known_runs_page import STATES, KnownRun, known
from tiltmeter.app.label_page import label_responses
from tiltmeter.app.live_progress import live
from tiltmeter.app.permissions import RUN_CODE
from tiltmeter.app.plain_text import fitting, lines, one_line
from tiltmeter.app.response_pages import choose_response, show_pair, show_response
from tiltmeter.blocks import Chart, Headline
from tiltmeter.comparing import compare
from tiltmeter.errors import InputError
from tiltmeter.reports import Report, as_html
from tiltmeter.reports.charts import figure
from tiltmeter.reports.markdown import text as as_markdown
from tiltmeter.runs import Run, RunFolder

ALL_RUNS = "All runs"
_RUN = "run"
"""Key of the selected run in the session state and in the URL."""
COMPARE, LABELS = "Compare models", "Label responses"


def explore(run: str, journal: str, token: str, *, run_code: bool = False) -> None:
    """Render the page; Streamlit calls this after every interaction.

    Parameters
    ----------
    run
        Folder of the run to show first; an empty string shows the list of runs.
    journal
        Path or URL of the response cache, for runs in progress.
    token
        What visitors need in order to write; empty if the server listens on this machine only.
    run_code
        Whether code that study.yaml of a run names may be run.
    """
    st.set_page_config(page_title="Tiltmeter", layout="wide")
    also = Path(run) if run else None
    runs = known(also)
    chosen = _choose_run(runs, also)
    say_what_is_allowed(token)
    try:
        if chosen is None:
            _list_runs(runs)
        else:
            _show_run(chosen, runs, journal, also, token, run_code=run_code)
    except InputError as error:
        st.error("This page cannot be displayed in full:")
        lines([str(error)])


def _choose_run(runs: list[KnownRun], also: Path | None) -> KnownRun | None:
    by_name = {run.name: run for run in runs}
    if _RUN not in st.session_state:
        begin = next(
            (run.name for run in runs if also is not None and run.path.resolve() == also.resolve()), ALL_RUNS
        )
        asked = st.query_params.get(_RUN, begin)
        st.session_state[_RUN] = asked if asked in by_name else begin
    elif st.session_state[_RUN] not in by_name:
        st.session_state[_RUN] = ALL_RUNS
    st.sidebar.title("Tiltmeter")
    name = st.sidebar.selectbox("Run", [ALL_RUNS, *by_name], format_func=one_line, key=_RUN)
    if name in by_name:
        st.query_params[_RUN] = name
    else:
        st.query_params.pop(_RUN, None)
    return by_name.get(name)


def _list_runs(runs: list[KnownRun]) -> None:
    st.header("Runs")
    if not runs:
        st.caption("There are no runs yet. Run `tiltmeter demo` to create three; it needs no API key.")
        return
    methods = list(dict.fromkeys(run.method for run in runs if run.method))
    left, right = st.columns(2)
    chosen = left.multiselect("Method", methods, format_func=one_line, placeholder="All", key="method")
    states = right.multiselect("State", STATES, placeholder="All", key="state")
    selected = [
        run for run in runs if (not chosen or run.method in chosen) and (not states or run.state in states)
    ]
    names = tuple(run.name for run in selected)
    rows = [
        (run.name, run.method, run.study, ", ".join(run.models), run.state, run.written) for run in selected
    ]
    schema = dict.fromkeys(("run", "method", "study", "models", "state", "written"), String)
    key = f"runs {names}"
    st.dataframe(
        fitting(DataFrame(rows, schema=schema, orient="row")),
        hide_index=True,
        on_select=lambda: _open(key, names),
        selection_mode="single-row",
        key=key,
    )
    st.caption("Select a row to open a run.")


def _open(key: str, names: tuple[str, ...]) -> None:
    rows = st.session_state[key].selection.rows
    if rows and rows[0] < len(names):
        st.session_state[_RUN] = names[rows[0]]


def _show_run(
    run: KnownRun, runs: list[KnownRun], journal: str, also: Path | None, token: str, *, run_code: bool
) -> None:
    st.header("Run")
    lines([f"{run.name} ({run.state})", f"{run.study}: {', '.join(run.models)}"])
    if run.state == "in progress":
        live(run, journal, also)
    if run.state == "damaged":
        lines(
            [
                f"{run.path} is damaged: its run.json or study.yaml is not valid; run the study again to recreate it"
            ]
        )
    if not run.finished:
        return
    views = ("Results", COMPARE, LABELS)
    view = st.segmented_control(
        "View", views, default=views[0], required=True, key="view", bind="query-params"
    )
    if view == LABELS and may_write(token):
        label_responses(run.path, run_code=run_code)
    elif view == LABELS:
        ask_for_token(token)
    elif view == COMPARE:
        _compare(run, runs, run_code=run_code)
    if view != views[0]:
        return
    if problems := data.problems(run.path):
        with st.expander(f"Problems of this run ({len(problems)})", expanded=run.state == "incomplete"):
            lines(problems)
    _overview(Run(RunFolder(run.path)).report_of())
    if (page := run.path / "report.html").is_file():
        st.download_button("Report as a page", page.read_bytes, "report.html", "text/html", on_click="ignore")
    stamp = data.stamp(run.path)
    finding = choose_finding(run.path, stamp)
    if finding is None:
        return
    show_finding(finding)
    if attempt := choose_response(run.path, stamp, finding):
        show_pair(run.path, attempt, show_response(run.path, attempt, finding))


def _compare(run: KnownRun, runs: list[KnownRun], *, run_code: bool) -> None:
    """Choose a model of the run and another one, of this or another run of the study, and show how they differ."""
    others = [one for one in runs if one.finished and one.study == run.study and one != run]
    models = [(one, model) for one in (run, *others) for model in one.models]
    if len(models) < 2:
        st.caption(
            "There is no other model to compare with: neither in this run nor in another run of this study."
        )
        return
    names = [one_line(f"{i}. {model}, {one.name}") for i, (one, model) in enumerate(models, 1)]
    places = [
        names.index(st.selectbox(label, names, i)) for i, label in enumerate(("First model", "Second model"))
    ]
    (first, model_a), (second, model_b) = (models[place] for place in places)
    with st.spinner("Comparing"):
        found = compare(first.path, second.path, model_a=model_a, model_b=model_b, run_code=run_code)
    rows = data.in_words(Run(RunFolder(first.path)), found.differences)
    whole = dict.fromkeys(("feature", "statistic", "comparison"), lit(None, String))  # the words say it
    shown = replace(
        found,
        differences=rows.with_columns(part="title", metric="words", calibrated=lit(None, Boolean), **whole),
    )
    _overview(Report([], [*shown.charts(), *shown.blocks()]))


def _overview(report: Report) -> None:
    """Show the headlines and figures of a report, and below them all of it with charts as tables."""
    for number, block in enumerate(report.blocks):
        if isinstance(block, Headline):
            st.subheader(as_markdown(one_line(block.text)), anchor=False)
            lines([block.detail or None])
        elif isinstance(block, Chart):
            st.caption(as_markdown(one_line(block.title)))
            st.vega_lite_chart(spec=json.loads(figure(block)), key=f"chart {number}")
    with st.expander("Results", expanded=True):
        st.html(as_html(report))


if __name__ == "__main__":
    explore(*sys.argv[1:4], run_code=RUN_CODE in sys.argv[4:])
