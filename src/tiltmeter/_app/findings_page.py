"""The findings of a run, with filters, and the details of the selected finding."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st
from polars import col

from tiltmeter._app import run_data
from tiltmeter._app.plain_text import choose_row, lines, one_line
from tiltmeter._quantities import interval, interval_name, quantity
from tiltmeter.blocks import RANGES, UNDECIDED, UNGRADED
from tiltmeter.readers.outcomes import OUTCOMES
from tiltmeter.reports._charts import SHADED
from tiltmeter.reports._markdown import text as as_markdown

_FACETS = {"title": "Test", "harm_shown": "Harm", "group_shown": "Group", "mark": "Mark", "model": "Model"}
"""Columns of the findings that can be filtered, with their labels."""
_COLUMNS = (
    "title",
    "words",
    "group",
    "group_2",
    "concept",
    "context",
    "wording",
    "estimate",
    "low",
    "high",
    "mark",
    "model",
    "harm_shown",
    "attempts",
    "p",
    "q",
)
"""Columns of the findings that are shown, in this order, unless they are empty."""
_TITLES = {
    "title": "test",
    "words": "metric",
    "group_2": "compared with",
    "estimate": "value",
    "harm_shown": "harm",
    "attempts": "responses",
}
_SQUARES = {"healthy": "🟩", "cautionary": "🟨", "critical": "🟧", "catastrophic": "🟥", "ungraded": "⬜"}
_NUMBERS = ("estimate", "low", "high", "p", "q")


def choose_finding(path: Path, stamp: run_data.Stamp) -> dict[str, Any] | None:
    """Show the filters and the filtered findings, and return the selected finding.

    Raises
    ------
    InputError
        The findings are missing or damaged.
    """
    findings = run_data.findings(path, stamp)
    st.subheader("Findings")
    selected: dict[str, list[str]] = {}
    for column, (facet, label) in zip(st.columns(len(_FACETS)), _FACETS.items(), strict=True):
        values = findings[facet].drop_nulls().unique(maintain_order=True).to_list()
        selected[facet] = column.multiselect(
            label, values, format_func=one_line, key=f"{path} {facet}", placeholder="All"
        )
    text = st.text_input("Search metrics, groups, concepts, contexts and notes", key=f"{path} words")
    filtered = run_data.narrowed(findings, selected, text)
    st.caption(
        f"{filtered.height:,} of {findings.height:,} findings. Select a row to see the responses behind it."
    )
    if filtered.is_empty():
        return None
    filled = [name for name in _COLUMNS if findings[name].null_count() < findings.height]
    mark = col.mark.replace(_marks_with_squares()).replace({run_data.NO_MARK: None})
    row = choose_row(
        filtered.select(filled).with_columns(mark),
        key=f"{path} findings {stamp} {sorted(selected.items())} {text}",
        columns=_column_config(),
    )
    return None if row is None else filtered.row(row, named=True)


def _marks_with_squares() -> dict[str, str]:
    """Return the marks, each after a square in the colour of its tier."""
    marks = (*RANGES, UNDECIDED, UNGRADED)
    return {mark: f"{_SQUARES[SHADED.get(mark, mark)]} {mark}" for mark in marks}


def _column_config() -> dict[str, Any]:
    """Return the titles and formats of the columns of the findings."""
    columns: dict[str, Any] = {name: st.column_config.Column(title) for name, title in _TITLES.items()}
    for name in _NUMBERS:
        columns[name] = st.column_config.NumberColumn(_TITLES.get(name), format="%.4g")
    return columns


def show_finding(finding: Mapping[str, Any]) -> None:
    """Show one finding with its estimate, interval, counts and definition."""
    st.subheader("Finding")
    restrictions = [finding[name] for name in ("group", "concept", "context", "wording")]
    subject = [finding["words"], *[value for value in restrictions if value is not None]]
    lines(
        [
            " · ".join(subject),
            f"{finding['title']}, {finding['model']}",
            _sentence("population", finding["estimand"]),
        ]
    )
    for column, (label, text) in zip(st.columns([1, 2, 1, 1]), _figures(finding), strict=True):
        column.metric(label, as_markdown(text))
    counts = {name: finding[name] for name in ("attempts", "items", *OUTCOMES)}
    counts_text = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count is not None)
    lines([counts_text, finding["note"]])
    with st.expander("Definition and uncertainty"):
        lines([f"metric {finding['name']} of {finding['study']}/{finding['part']}", finding["definition"]])
        lines([_sentence("interval", finding["method"])])
        if finding["mark_best"] is not None:
            lines([f"marks within the interval: {finding['mark_best']} to {finding['mark_worst']}"])
        tests = [f"{name} = {finding[name]:.3g}" for name in ("p", "q") if finding[name] is not None]
        lines([", ".join(tests) or None, _sentence("responses used", finding["evidence"])])


def _figures(finding: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the labels and the texts of the numbers of a finding."""
    low, high = finding["low"], finding["high"]
    level, unit = finding["level"], finding["unit"]
    interval_label = interval_name(level).capitalize()
    return [
        ("Estimate", quantity(finding["estimate"], low, high, unit)),
        (interval_label, interval(low, high, unit)),
        ("Value if unbiased", quantity(finding["null_value"], unit=unit)),
        ("Mark", finding["mark"]),
    ]


def _sentence(name: str, text: str | None) -> str | None:
    return None if text is None else f"{name}: {text}"
