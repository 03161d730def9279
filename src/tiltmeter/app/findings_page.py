"""The findings of a run, with filters, and the details of the selected finding."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st
from polars import col

from tiltmeter.app import run_data as data
from tiltmeter.app.plain_text import choose_row, lines, one_line
from tiltmeter.blocks import RANGES, UNDECIDED, UNGRADED
from tiltmeter.quantities import confidence, interval, quantity
from tiltmeter.readers.outcomes import OUTCOMES
from tiltmeter.reports.charts import SHADED
from tiltmeter.reports.markdown import text as as_markdown

_FACETS = {"title": "Test", "harm_shown": "Harm", "group_shown": "Group", "mark": "Mark", "model": "Model"}
"""Columns of the findings that can be filtered, with their labels."""
_COLUMNS = (
    "title", "words", "group", "group_2", "concept", "context", "wording", "estimate", "low",
    "high", "mark", "model", "harm_shown", "attempts", "p", "q",
)  # fmt: skip
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


def choose_finding(path: Path, stamp: data.Stamp) -> dict[str, Any] | None:
    """Show the filters and the filtered findings, and return the selected finding.

    Raises
    ------
    InputError
        The findings are missing or damaged.
    """
    table = data.findings(path, stamp)
    st.subheader("Findings")
    chosen: dict[str, list[str]] = {}
    for column, (facet, label) in zip(st.columns(len(_FACETS)), _FACETS.items(), strict=True):
        values = table[facet].drop_nulls().unique(maintain_order=True).to_list()
        chosen[facet] = column.multiselect(
            label, values, format_func=one_line, key=f"{path} {facet}", placeholder="All"
        )
    text = st.text_input("Search metrics, groups, concepts, contexts and notes", key=f"{path} words")
    filtered = data.narrowed(table, chosen, text)
    st.caption(
        f"{filtered.height:,} of {table.height:,} findings. Select a row to see the responses behind it."
    )
    if filtered.is_empty():
        return None
    shown = filtered.select(name for name in _COLUMNS if table[name].null_count() < table.height)
    squares = {mark: f"{_SQUARES[SHADED.get(mark, mark)]} {mark}" for mark in (*RANGES, UNDECIDED, UNGRADED)}
    numbers = {name: st.column_config.NumberColumn(_TITLES.get(name), format="%.4g") for name in _NUMBERS}
    row = choose_row(
        shown.with_columns(col.mark.replace(squares).replace({data.NO_MARK: None})),
        key=f"{path} findings {stamp} {sorted(chosen.items())} {text}",
        columns={name: st.column_config.Column(title) for name, title in _TITLES.items()} | numbers,
    )
    return None if row is None else filtered.row(row, named=True)


def show_finding(finding: Mapping[str, Any]) -> None:
    """Show one finding with its estimate, interval, counts and definition."""
    st.subheader("Finding")
    about = [
        finding[name] for name in ("group", "concept", "context", "wording") if finding[name] is not None
    ]
    lines(
        [
            " · ".join([finding["words"], *about]),
            f"{finding['title']}, {finding['model']}",
            _sentence("population", finding["estimand"]),
        ]
    )
    for column, (label, value) in zip(st.columns([1, 2, 1, 1]), _figures(finding), strict=True):
        column.metric(label, as_markdown(value))
    counted = [(name, finding[name]) for name in ("attempts", "items", *OUTCOMES)]
    lines([", ".join(f"{name} {value:,}" for name, value in counted if value is not None), finding["note"]])
    with st.expander("Definition and uncertainty"):
        reach = (
            f"marks within the interval: {finding['mark_best']} to {finding['mark_worst']}"
            if finding["mark_best"] is not None
            else None
        )
        lines(
            [
                f"metric {finding['name']} of {finding['study']}/{finding['part']}",
                finding["definition"],
                _sentence("interval", finding["method"]),
                reach,
            ]
        )
        tested = [f"{name} = {finding[name]:.3g}" for name in ("p", "q") if finding[name] is not None]
        lines([", ".join(tested) or None, _sentence("responses used", finding["evidence"])])


def _figures(finding: Mapping[str, Any]) -> list[tuple[str, str]]:
    value, low, high, unit = (finding[name] for name in ("estimate", "low", "high", "unit"))
    return [
        ("Estimate", quantity(value, low, high, unit)),
        (
            "Interval" if finding["level"] is None else f"{confidence(finding['level'])} interval",
            interval(low, high, unit),
        ),
        ("Value if unbiased", quantity(finding["null_value"], unit=unit)),
        ("Mark", finding["mark"]),
    ]


def _sentence(name: str, text: str | None) -> str | None:
    return None if text is None else f"{name}: {text}"
