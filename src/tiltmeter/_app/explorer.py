"""Main page of the explorer: the list of runs, or a single run.

Started by `server.py` with FOLDER JOURNAL TOKEN [RUN_CODE].
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import streamlit as st
from polars import Boolean, DataFrame, String, col, lit
from streamlit.delta_generator import DeltaGenerator

from tiltmeter._app import run_data
from tiltmeter._app.access import ask_for_token, may_write, say_what_is_allowed
from tiltmeter._app.findings_page import choose_finding, show_finding
from tiltmeter._app.known_runs_page import STATES, KnownRun, list_runs, result_of
from tiltmeter._app.label_page import label_responses
from tiltmeter._app.live_progress import live
from tiltmeter._app.permissions import RUN_CODE
from tiltmeter._app.plain_text import fitting, lines, one_line
from tiltmeter._app.response_pages import choose_response, show_pair, show_response
from tiltmeter.blocks import Chart, Headline
from tiltmeter.comparing import compare
from tiltmeter.errors import InputError
from tiltmeter.reports import Report, as_html
from tiltmeter.reports._charts import figure
from tiltmeter.reports._markdown import text as as_markdown
from tiltmeter.runs import Run, RunFolder

ALL_RUNS = "All runs"
_RUN = "run"
"""Key of the selected run in the session state and in the URL."""
RESULTS = "Results"
COMPARE = "Compare models"
LABELS = "Label responses"
MOST_RESULTS = 20
"""Largest number of runs whose results the list shows; reading each takes about 0.1 s once."""


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
    first = Path(run) if run else None
    runs = list_runs(first)
    selected = _choose_run(runs, first)
    say_what_is_allowed(token)
    with place_of("page", ALL_RUNS if selected is None else selected.name):
        try:
            if selected is None:
                _show_runs(runs)
                return
            _show_state(selected, journal, first)
            if selected.finished:
                _show_view(selected, runs, token, run_code=run_code)
        except InputError as error:
            st.error("This page cannot be displayed in full:")
            lines([str(error)])


def place_of(kind: str, content: str) -> DeltaGenerator:
    """Return a container for content, which holds nothing of the content that was shown before.

    Streamlit replaces elements by their position, and keeps those of the last page until the script has
    ended. So there are two places: new content is shown in the one that was empty, and the other is emptied
    at once.

    Parameters
    ----------
    kind
        Name of the pair of places.
    content
        What is shown; as long as it is the same, its place is.
    """
    last, number = st.session_state.get(f"place of {kind}", (content, 0))
    if content != last:
        number = 1 - number
    st.session_state[f"place of {kind}"] = (content, number)
    if number == 1:
        st.empty()
    place = st.container()
    if number == 0:
        st.empty()
    return place


def _choose_run(runs: list[KnownRun], first: Path | None) -> KnownRun | None:
    """Return the selected run; None for the list of runs.

    Before a visitor selects one, it is the run of the address, otherwise the run `first`.
    """
    by_name = {run.name: run for run in runs}
    if _RUN not in st.session_state:
        default = ALL_RUNS if first is None else _name_of(first, runs)
        requested = st.query_params.get(_RUN, default)
        st.session_state[_RUN] = requested if requested in by_name else default
    elif st.session_state[_RUN] not in by_name:
        st.session_state[_RUN] = ALL_RUNS
    st.sidebar.title("Tiltmeter")
    name = st.sidebar.selectbox("Run", [ALL_RUNS, *by_name], format_func=one_line, key=_RUN)
    if name in by_name:
        st.query_params[_RUN] = name
    else:
        st.query_params.pop(_RUN, None)
    return by_name.get(name)


def _name_of(path: Path, runs: list[KnownRun]) -> str:
    names = [run.name for run in runs if run.path.resolve() == path.resolve()]
    return names[0] if names else ALL_RUNS


def _show_runs(runs: list[KnownRun]) -> None:
    """Show the list of runs with its filters; a visitor opens a run by selecting its row."""
    st.header("Runs")
    if not runs:
        st.caption("There are no runs yet. Run `tiltmeter demo` to create three; it needs no API key.")
        return
    all_methods = list(dict.fromkeys(run.method for run in runs if run.method))
    column_of_methods, column_of_states = st.columns(2)
    methods = column_of_methods.multiselect(
        "Method", all_methods, format_func=one_line, placeholder="All", key="method"
    )
    states = column_of_states.multiselect("State", STATES, placeholder="All", key="state")
    if methods:
        runs = [run for run in runs if run.method in methods]
    if states:
        runs = [run for run in runs if run.state in states]
    names = tuple(run.name for run in runs)
    key = f"runs {names}"
    st.dataframe(
        _table_of(runs),
        hide_index=True,
        on_select=lambda: _open(key, names),
        selection_mode="single-row",
        key=key,
        row_height=84,  # texts wrap in rows of more than 64 pixels
        column_config={
            "result": st.column_config.TextColumn(width="large"),
            "ended": st.column_config.DatetimeColumn(format="D MMM YYYY, HH:mm"),
        },
    )
    st.caption("Select a row to open a run.")


def _table_of(runs: Sequence[KnownRun]) -> DataFrame:
    """Return the runs as a table; the results of the first MOST_RESULTS are read."""
    rows = [
        (
            run.written,
            run.study,
            ", ".join(run.models),
            result_of(run) if number < MOST_RESULTS else "",
            run.state,
            run.name,
        )
        for number, run in enumerate(runs)
    ]
    schema = dict.fromkeys(("ended", "study", "models", "result", "state", "run"), String)
    table = DataFrame(rows, schema=schema, orient="row")
    ended = col.ended.str.to_datetime(time_zone="UTC", strict=False)
    return fitting(table).with_columns(ended)


def _open(key: str, names: tuple[str, ...]) -> None:
    rows = st.session_state[key].selection.rows
    if rows and rows[0] < len(names):
        st.session_state[_RUN] = names[rows[0]]


def _show_state(run: KnownRun, journal: str, first: Path | None) -> None:
    """Show the name and the state of a run, and its progress."""
    st.header(as_markdown(one_line(run.title or run.study or run.name)), anchor=False)
    lines([f"{run.name} ({run.state})", f"{run.study}: {', '.join(run.models)}"])
    if run.state == "in progress":
        live(run, journal, first)
    if run.state == "damaged":
        lines(
            [
                f"{run.path} is damaged: its run.json or study.yaml is not valid;"
                " run the study again to recreate it"
            ]
        )


def _show_view(run: KnownRun, runs: list[KnownRun], token: str, *, run_code: bool) -> None:
    """Show the selected view of a finished run."""
    view = st.segmented_control(
        "View",
        (RESULTS, COMPARE, LABELS),
        default=RESULTS,
        required=True,
        key="view",
        bind="query-params",
    )
    with place_of("view", f"{run.name} {view}"):
        if view == COMPARE:
            _compare(run, runs, run_code=run_code)
        elif view == LABELS:
            if may_write(token):
                label_responses(run.path, run_code=run_code)
            else:
                ask_for_token(token)
        elif view == RESULTS:
            _show_results(run)


def _show_results(run: KnownRun) -> None:
    """Show the report of a run, its findings, and the responses behind the selected finding."""
    if problems := run_data.problems(run.path):
        with st.expander(f"Problems of this run ({len(problems)})", expanded=run.state == "incomplete"):
            lines(problems)
    _overview(Run(RunFolder(run.path)).report_of())
    page = run.path / "report.html"
    if page.is_file():
        st.download_button("Report as a page", page.read_bytes, "report.html", "text/html", on_click="ignore")
    stamp = run_data.stamp(run.path)
    finding = choose_finding(run.path, stamp)
    if finding is None:
        return
    show_finding(finding)
    attempt = choose_response(run.path, stamp, finding)
    if attempt is not None:
        detail = show_response(run.path, attempt, finding)
        show_pair(run.path, attempt, detail)


def _compare(run: KnownRun, runs: list[KnownRun], *, run_code: bool) -> None:
    """Let a visitor choose two models of this or other runs of the study, and show how they differ."""
    comparable = [run]
    comparable += [entry for entry in runs if entry.finished and entry.study == run.study and entry != run]
    models = [(entry, model) for entry in comparable for model in entry.models]
    if len(models) < 2:
        st.caption(
            "There is no other model to compare with: neither in this run nor in another run of this study."
        )
        return
    names = [one_line(f"{i}. {model}, {entry.name}") for i, (entry, model) in enumerate(models, 1)]
    first, model_a = models[names.index(st.selectbox("First model", names, 0))]
    second, model_b = models[names.index(st.selectbox("Second model", names, 1))]
    with st.spinner("Comparing"):
        comparison = compare(first.path, second.path, model_a=model_a, model_b=model_b, run_code=run_code)
    # The words of a metric say its feature, statistic and comparison, and whether it is calibrated.
    rows = run_data.in_words(Run(RunFolder(first.path)), comparison.differences).with_columns(
        part="title",
        metric="words",
        feature=lit(None, String),
        statistic=lit(None, String),
        comparison=lit(None, String),
        calibrated=lit(None, Boolean),
    )
    in_words = replace(comparison, differences=rows)
    # Labels are known for graded metrics; the chart of others has the words of the table.
    charts = comparison.charts() if comparison.labels else in_words.charts()
    _overview(Report([], [*charts, *in_words.blocks()]))


def _overview(report: Report) -> None:
    """Show the headlines and figures of a report, and below them all of it with charts as tables."""
    for number, block in enumerate(report.blocks):
        if isinstance(block, Headline):
            st.subheader(as_markdown(one_line(block.text)), anchor=False)
            lines([block.detail or None])
        elif isinstance(block, Chart):
            if block.finding:
                st.markdown(f"**{as_markdown(one_line(block.finding))}**")
            st.caption(as_markdown(one_line(block.title)))
            st.vega_lite_chart(spec=json.loads(figure(block)), key=f"chart {number}")
    with st.expander("Results", expanded=True):
        st.html(as_html(report))


if __name__ == "__main__":
    explore(*sys.argv[1:4], run_code=RUN_CODE in sys.argv[4:])
