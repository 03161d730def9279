"""What a command prints: tables for people, JSON for programs."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tiltmeter.blocks import Block, Callout, Column, Details, Headline, Response, Responses, Text
from tiltmeter.reports.layout import TextColumn, console, print_table, print_text, styled
from tiltmeter.reports.words import NUMERIC, counted_marks, number, table_of, written
from tiltmeter.sanitising import printable, redacted

if TYPE_CHECKING:
    from polars import DataFrame

_WIDE = 1_000
"""Wrapped only where nothing more can be left out."""
_NOTE = 40
"""Width of a note beside other columns."""
_COLOURS = {"healthy": "green", "cautionary": "yellow", "critical": "red", "catastrophic": "bold red", "ungraded": "dim"}


def print_json(value: Any) -> None:
    """Strict JSON: tables are lists of rows, what is no finite number is null, and control characters are escaped, C1 among them."""
    text = json.dumps(_strict(value), ensure_ascii=not _is_unicode(), indent=2, allow_nan=False)
    print(re.sub("[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text))


def _is_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")


def _strict(value: Any) -> Any:
    if hasattr(value, "to_dicts"):  # a table
        return _strict(value.to_dicts())
    if hasattr(value, "_asdict"):  # a named tuple
        return _strict(value._asdict())
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {str(key): _strict(one) for key, one in value.items()}
        case list() | tuple():
            return [_strict(one) for one in value]
        case None | bool() | int() | str():
            return value
        case _:
            return str(value)


def print_rows(
    rows: Sequence[Mapping[str, Any]],
    *,
    as_json: bool = False,
    prose: Mapping[str, int] | None = None,
    optional: Sequence[str] = (),
    lead: int = 1,
) -> None:
    """A listing: one row per mapping, columns from the first; the table leaves out columns that are empty.

    Parameters
    ----------
    prose
        Columns that may wrap between words, and the width from which on they may; all others are never broken.
    optional
        Columns that are left out where the table is too wide, the first first.
    lead
        How many columns name a row: they stand on a line of their own where the table is too wide.
    """
    if as_json:
        print_json(rows)
        return
    if not rows:
        print("nothing to list")
        return
    columns = []
    for name in rows[0]:
        values = [row.get(name) for row in rows]
        if any(value is not None for value in values):
            right = all(isinstance(value, int | float | None) and not isinstance(value, bool) for value in values)
            rank = len(optional) - optional.index(name) if name in optional else 0
            columns.append(TextColumn(name, [*map(_cell, values)], right, (prose or {}).get(name), rank))
    print_left_out(print_table(columns, lead=lead))


def print_left_out(names: Sequence[str]) -> None:
    """Which columns the tables above lack for want of room."""
    if names:
        print_text(f"Not shown at this width: {', '.join(dict.fromkeys(names))}; use a wider terminal or --format json.", always=True)


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


def print_blocks(blocks: Sequence[Block], *, everything: bool = False) -> None:
    """Blocks as text and tables, charts as tables; Details and Responses only where everything is asked for."""
    left_out: list[str] = []
    folded: list[str] = []
    _print_each(blocks, everything, left_out, folded)
    print_left_out(left_out)
    if folded:
        print_text(f"More with --all: {'; '.join(dict.fromkeys(folded))}.", always=True)


def _print_each(blocks: Sequence[Block], everything: bool, left_out: list[str], folded: list[str]) -> None:
    for block in blocks:
        match block:
            case Headline():
                console().print(styled(printable(block.text, one_line=True), "bold" if block.level < 3 else "italic"), soft_wrap=True)
                if block.marks:
                    print_text(counted_marks(block.marks), always=True)
            case Text():
                print_text(block.text, always=True)
            case Callout():
                print_text(f"note: {block.text}", always=True)
            case Details():
                if not everything:
                    folded.append(block.title)
                    continue
                console().print(styled(printable(block.title, one_line=True), "bold"), soft_wrap=True)
                _print_each(block.blocks, everything, left_out, folded)
            case Responses():
                if everything:
                    print_text(f"content warning: {block.title}", always=True)
                    for row in block.rows:
                        _print_response(row)
            case _:
                made = table_of(block)
                if made.columns and len(made.columns[0].values):
                    columns = [_text_column(one) for one in made.columns]
                    left_out += print_table(columns, title=printable(made.title, one_line=True), lead=made.lead)
                    if made.note:
                        print_text(made.note, always=True)


def _text_column(column: Column) -> TextColumn:
    texts = [written(value, column.kind) for value in column.values]
    cells: Sequence[Any] = texts
    if column.kind == "mark":
        cells = [
            styled(text, "" if value is None else _COLOURS.get(value.mark, "")) for text, value in zip(texts, column.values, strict=True)
        ]
    wraps = {"text": _NOTE, "mark": _WIDE}.get(column.kind)
    return TextColumn(column.name, cells, right=column.kind in NUMERIC, wraps=wraps, rank=column.rank, whole_name=column.whole)


def print_problems(problems: Sequence[str]) -> None:
    """What is missing from a run, on standard error: a line each, broken between words on a terminal."""
    for problem in problems:
        print_text(f"incomplete: {redacted(problem)}", file=sys.stderr)


def print_plan(
    parts: DataFrame,
    metrics: DataFrame,
    not_run: Mapping[str, str],
    costs: Sequence[tuple[str, float | None, float | None]],
    warnings: Sequence[str],
    seconds: float,
    *,
    as_json: bool,
) -> None:
    """What a study takes and what it could show; `costs` are what is paid for, least and most (see `tiltmeter.engine.Cost`)."""
    counted = ("prompts", "calls", "judge_calls", "input_tokens", "output_tokens_at_most")
    totals = {name: None if parts[name].null_count() else int(parts[name].sum()) for name in counted}
    if as_json:
        shown = {of: None if low is None else {"from": low, "to": high} for of, low, high in costs}
        whole = {"parts": parts, "metrics": metrics, "total": totals, "cost_usd": shown, "not_run": not_run}
        print_json(whole | {"cost_covers": _COVERS, "warnings": warnings, "seconds": round(seconds)})
        return
    shown_parts = parts if totals["judge_calls"] else parts.drop("judge_calls")
    print_rows([*shown_parts.to_dicts(), {"part": "total", "items": int(parts["items"].sum()), **totals}])
    rows = [
        {
            "part": row["part"],
            "metric": row["metric"],
            "interval ±": number(row["half_width"]),
            "detectable (80% power)": number(row["detectable"]),
        }
        for row in metrics.iter_rows(named=True)
    ]
    if rows:
        print_rows(rows)
    for of, low, high in costs:
        print(f"{printable(of, one_line=True)}: {_cost_words(of, low, high)}")
    if costs:
        print(_COVERS)
    print(f"time: about {max(1, round(seconds / 60)):,} min at 2 s per response, all connections in use")
    for warning in warnings:
        print(f"warning: {printable(warning, one_line=True)}")
    for name, reason in not_run.items():
        print(f"{name} cannot be run here: {printable(reason, one_line=True)}")


_COVERS = (
    "The lower price assumes responses of one token, the upper price responses of max_tokens."
    " Retries are not included, nor judge calls that depend on responses (repeated questions, checks of found concepts)."
)


def _cost_words(of: str, low: float | None, high: float | None) -> str:
    if low is None and of == "total":
        return "unknown, because a price above is unknown"
    if low is None:
        return "price unknown: add it to the price file (TILTMETER_PRICES)"
    return f"at least ${low:,.2f}; no upper end without --max-tokens" if high is None else f"${low:,.2f} to ${high:,.2f}"


def print_evidence(rows: DataFrame, *, as_json: bool) -> None:
    """Attempts behind a finding: prompt, answer, how it was read."""
    if as_json:
        print_json(rows)
        return
    for row in rows.iter_rows(named=True):
        name = f"{row['prompt_id']}  answer {row['repetition'] + 1}"
        shown = Response(row["prompt"], row["answer"], row["outcome"], row["label"], prompt_id=name)
        _print_response(shown, row.get("sentences") or ())


def _print_response(shown: Response, sentences: Sequence[str] = ()) -> None:
    out = console()
    head = f"{shown.prompt_id}  {shown.outcome or ''}  {shown.label or ''}".rstrip()
    print_text(f"{'--' if out.options.ascii_only else '──'} {head}")
    out.print(styled(shown.prompt or "(prompt not kept)"), style="dim")
    for sentence in sentences:
        out.print(styled(f"> {sentence}"), style="bold")
    out.print(styled("(no answer)" if shown.answer is None else shown.answer))
