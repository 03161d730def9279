"""What a command prints: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from tiltmeter.reports._words import interval, mark_words, number, shares

__all__ = ["print_evidence", "print_findings", "print_plan", "print_rows"]

_COLOURS = {"healthy": "green", "cautionary": "yellow", "critical": "red", "catastrophic": "bold red", "ungraded": "dim"}


def _console() -> Any:
    from rich.console import Console

    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        console = Console(file=sys.stdout, highlight=False, width=200)
    return console


def _table(title: str | None = None) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(title=title, box=SIMPLE_HEAD, title_justify="left", pad_edge=False)


def _print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def print_rows(rows: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """A listing: one row per mapping, columns from the first."""
    if as_json:
        _print_json(list(rows))
        return
    if not rows:
        print("nothing to list")
        return
    from rich.text import Text

    table = _table()
    for name in rows[0]:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row.values()))
    _console().print(table)


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case list() | tuple():
            return ", ".join(str(one) for one in value)
        case _:
            return str(value)


def print_findings(findings: pl.DataFrame, *, all_metrics: bool = False, as_json: bool = False) -> None:
    """Findings by study and metric: value, interval, mark, and what became of the answers."""
    chosen = findings if all_metrics else findings.filter(pl.col("key") & pl.col("context").is_null())
    if as_json:
        _print_json(chosen.to_dicts())
        return
    from rich.text import Text

    for (model,), mine in chosen.group_by("model", maintain_order=True):
        table = _table(f"\n{model}")
        for name in ("probe", "metric", "value", "95% interval", "mark", "answered", "refused", "unread"):
            table.add_column(
                name, justify="right" if name in ("value", "answered", "refused", "unread") else "left", no_wrap=name != "mark"
            )
        for row in mine.iter_rows(named=True):
            share = shares(row)
            mark = Text(mark_words(row), style=_COLOURS.get(row["mark"] or "", ""))
            metric = row["metric"] + (f" ({row['context']})" if row["context"] else "")
            cells = [row["study"].rpartition("/")[2], metric, number(row["estimate"]), interval(row)]
            table.add_row(*(Text(cell) for cell in cells), mark, share["answered"], share["refused"], share["unreadable"])
        _console().print(table)
    if chosen.is_empty():
        print("no findings: no part of the study could be run")


def print_plan(
    parts: pl.DataFrame, metrics: pl.DataFrame, not_run: Mapping[str, str], cost: Mapping[str, tuple[float, float] | None], *, as_json: bool
) -> None:
    """What a study takes and what it could show."""
    totals = {name: int(parts[name].sum() or 0) for name in ("prompts", "calls", "input_tokens", "output_tokens_at_most")}
    if as_json:
        shown = {model: None if price is None else {"from": price[0], "to": price[1]} for model, price in cost.items()}
        whole = {"parts": parts.to_dicts(), "metrics": metrics.to_dicts(), "total": totals, "cost_usd": shown, "not_run": dict(not_run)}
        _print_json(whole)
        return
    print_rows([*parts.to_dicts(), {"part": "total", "items": int(parts["items"].sum()), **totals}], as_json=False)
    rows = [
        {
            "part": row["part"],
            "metric": row["metric"],
            "interval ±": number(row["half_width"]),
            "detectable (80% power)": number(row["detectable"]),
        }
        for row in metrics.iter_rows(named=True)
    ]
    print_rows(rows, as_json=False)
    for model, price in cost.items():
        words = "price not known: add it to the price file (TILTMETER_PRICES)" if price is None else f"${price[0]:,.2f} to ${price[1]:,.2f}"
        print(f"{model}: {words}")
    for name, reason in not_run.items():
        print(f"{name} cannot be run here: {reason}")


def print_evidence(rows: pl.DataFrame, *, as_json: bool) -> None:
    """Attempts behind a finding: prompt, answer, how it was read."""
    if as_json:
        _print_json(rows.to_dicts())
        return
    from rich.text import Text

    console = _console()
    for row in rows.iter_rows(named=True):
        console.rule(Text(f"{row['prompt_id']}  answer {row['repetition'] + 1}  {row['outcome']}  {row['label'] or ''}"), align="left")
        console.print(Text(str(row["prompt"] or "(prompt not kept)")), style="dim")
        console.print(Text(str(row["answer"] if row["answer"] is not None else "(no answer)")))
