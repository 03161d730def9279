"""Terminal output of the commands: tables for people, JSON for programs."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tiltmeter.blocks import (
    RANGES,
    UNDECIDED,
    UNGRADED,
    Block,
    Callout,
    Column,
    Details,
    Heading,
    Headline,
    Response,
    Responses,
    Text,
)
from tiltmeter.reports.layout import TextColumn, console, print_table, print_text, styled
from tiltmeter.reports.words import NUMERIC, constant, counted_marks, in_every_row, number, table_of, written
from tiltmeter.sanitising import printable, redacted

if TYPE_CHECKING:
    from polars import DataFrame

_WIDE = 1_000
"""Minimum width of mark columns, which wrap only if no more columns can be omitted."""
_NOTE = 40
"""Minimum width of a text column next to other columns."""
_COLOURS = dict(
    zip(
        (*RANGES, UNDECIDED, UNGRADED),
        [*["green"] * 2, *["yellow"] * 3, *["red"] * 2, "bold red", "dim", "dim"],
        strict=True,
    )
)


def print_json(value: Any) -> None:
    """Print strict JSON: tables are lists of rows, non-finite numbers are null, and control characters (including C1) are escaped."""
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
    """Print a listing with one row per mapping and the columns of the first mapping.

    Empty columns are omitted.

    Parameters
    ----------
    prose
        Columns that may wrap between words, with their minimum widths; other columns never wrap.
    optional
        Columns that are omitted, in this order, if the table is too wide.
    lead
        Number of columns that identify a row; they are printed on a separate line if the table is too wide.
    """
    if as_json:
        print_json(rows)
        return
    if not rows:
        print("no rows")
        return
    columns = []
    for name in rows[0]:
        values = [row.get(name) for row in rows]
        if any(value is not None for value in values):
            right = all(
                isinstance(value, int | float | None) and not isinstance(value, bool) for value in values
            )
            rank = len(optional) - optional.index(name) if name in optional else 0
            columns.append(TextColumn(name, [*map(_cell, values)], right, (prose or {}).get(name), rank))
    print_left_out(print_table(columns, lead=lead))


def print_left_out(names: Sequence[str]) -> None:
    """Print the names of columns that were omitted for lack of space."""
    if names:
        print_text(
            f"Not shown at this width in some or all tables: {', '.join(dict.fromkeys(names))}; use a wider terminal or --format json.",
            always=True,
        )


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
    """Print blocks as text and tables; charts become tables.

    `Details` and `Responses` are printed only if `everything` is True.
    """
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
                print_text(f"{block.text}.", style="bold", always=True)
                print_text(" ".join(filter(None, (block.detail, counted_marks(block.marks)))), always=True)
            case Heading():
                console().print(
                    styled(printable(block.text, one_line=True), "bold" if block.level < 3 else "italic"),
                    soft_wrap=True,
                )
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
                    print_text(f"{block.title} (content warning)", always=True)
                    for row in block.rows:
                        _print_response(row)
            case _:
                table = table_of(block)
                if table.columns and len(table.columns[0].values):
                    same = constant(table.columns)
                    columns = [_text_column(one) for one in table.columns if one not in same]
                    left_out += print_table(
                        columns, title=printable(table.title, one_line=True), lead=table.lead
                    )
                    if same:
                        print_text(in_every_row(same), always=True)
                    if table.note:
                        print_text(table.note, always=True)


def _text_column(column: Column) -> TextColumn:
    texts = [written(value, column.kind) for value in column.values]
    cells: Sequence[Any] = texts
    if column.kind == "mark":
        cells = [
            styled(text, "" if value is None else _COLOURS.get(value.mark, ""))
            for text, value in zip(texts, column.values, strict=True)
        ]
    wraps = {"text": _NOTE, "mark": _WIDE}.get(column.kind)
    return TextColumn(
        column.name,
        cells,
        right=column.kind in NUMERIC,
        wraps=wraps,
        rank=column.rank,
        whole_name=column.whole,
    )


def print_problems(problems: Sequence[str]) -> None:
    """Print the problems of a run to standard error, one per line."""
    for problem in problems:
        print_text(f"incomplete: {redacted(problem)}", file=sys.stderr)


def print_plan(
    parts: DataFrame,
    metrics: DataFrame,
    not_run: Mapping[str, str],
    costs: Sequence[tuple[str, float | None, float | None]],
    warnings: Sequence[str],
    meaning: str,
    seconds: float,
    *,
    as_json: bool,
) -> None:
    """Print the plan of a study.

    `costs` are (item, minimum, maximum) in US dollars (see `tiltmeter.engine.Cost`).
    """
    counted = ("prompts", "calls", "judge_calls", "input_tokens", "output_tokens_at_most")
    totals = {name: None if parts[name].null_count() else int(parts[name].sum()) for name in counted}
    if as_json:
        ranges = {of: None if low is None else {"from": low, "to": high} for of, low, high in costs}
        document = {
            "parts": parts,
            "metrics": metrics,
            "total": totals,
            "cost_usd": ranges,
            "not_run": not_run,
        }
        print_json(
            document
            | {"cost_covers": _COVERS, "detectable": meaning, "warnings": warnings, "seconds": round(seconds)}
        )
        return
    listed = parts if totals["judge_calls"] else parts.drop("judge_calls")
    print_rows([*listed.to_dicts(), {"part": "total", "items": int(parts["items"].sum()), **totals}])
    rows = [
        {
            "part": row["part"],
            "metric": row["metric"],
            "interval ±": number(row["half_width"]),
            "detectable (80% power)": "none" if row["detectable"] is None else number(row["detectable"]),
            "items for a mark": row["items_needed"],
        }
        for row in metrics.iter_rows(named=True)
    ]
    if rows:
        print_rows(rows)
        print_text(meaning, always=True)
    for of, low, high in costs:
        print(f"{printable(of, one_line=True)}: {_cost_words(of, low, high)}")
    if costs:
        print_text(_COVERS, always=True)
    print(
        f"time: about {max(1, round(seconds / 60)):,} min, at 2 s per response and with all connections in use"
    )
    for warning in warnings:
        print_text(f"warning: {warning}", always=True)
    for name, reason in not_run.items():
        print_text(f"{name} cannot be run: {reason}", always=True)


_COVERS = (
    "The lower cost assumes responses of one token; the upper cost assumes responses of max_tokens."
    " Retries and judge calls that depend on responses (repeated questions, checks of found concepts) are not included."
)


def _cost_words(of: str, low: float | None, high: float | None) -> str:
    if low is None and of == "total":
        return "unknown, because a price above is unknown"
    if low is None:
        return "price unknown; add it to the price file (TILTMETER_PRICES)"
    return (
        f"at least ${low:,.2f}; no upper limit without --max-tokens"
        if high is None
        else f"${low:,.2f} to ${high:,.2f}"
    )


def print_evidence(rows: DataFrame, *, as_json: bool) -> None:
    """Print the attempts behind a finding: prompt, answer, outcome and label."""
    if as_json:
        print_json(rows)
        return
    for row in rows.iter_rows(named=True):
        name = f"{row['prompt_id']}  answer {row['repetition'] + 1}"
        response = Response(row["prompt"], row["answer"], row["outcome"], row["label"], prompt_id=name)
        _print_response(response, row.get("sentences") or ())


def _print_response(response: Response, sentences: Sequence[str] = ()) -> None:
    out = console()
    head = f"{response.prompt_id}  {response.outcome or ''}  {response.label or ''}".rstrip()
    print_text(f"{'--' if out.options.ascii_only else '──'} {head}")
    out.print(styled(response.prompt or "(prompt not stored)"), style="dim")
    for sentence in sentences:
        out.print(styled(f"> {sentence}"), style="bold")
    out.print(styled("(no answer)" if response.answer is None else response.answer))
