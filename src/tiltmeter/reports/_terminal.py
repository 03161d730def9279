"""Terminal output of the commands: tables for people, JSON for programs."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tiltmeter._sanitising import printable, redacted
from tiltmeter.blocks import (
    UNDECIDED,
    UNGRADED,
    Block,
    Callout,
    Column,
    Details,
    Heading,
    Headline,
    Kind,
    Response,
    Responses,
    Table,
    Text,
)
from tiltmeter.reports._layout import TextColumn, console, print_table, print_text, styled
from tiltmeter.reports._words import NUMERIC, constant, counted_marks, in_every_row, number, table_of, written

if TYPE_CHECKING:
    from polars import DataFrame

_LEAST_WIDTHS: Mapping[Kind, int] = {"text": 40, "mark": 1_000}
"""Minimum width of the kinds of columns that wrap.

A column of marks wraps only if no more columns can be omitted.
"""
LONGEST: Mapping[str, int] = {"prompt": 400, "answer": 600}
"""Number of characters of a prompt and of an answer that are printed."""
_COLOURS = {
    "healthy": "green",
    "at most cautionary": "green",
    "cautionary": "yellow",
    "cautionary to critical": "yellow",
    "at least cautionary": "yellow",
    "critical": "red",
    "at least critical": "red",
    "catastrophic": "bold red",
    UNDECIDED: "dim",
    UNGRADED: "dim",
}
"""Style of each mark."""


def print_json(value: Any) -> None:
    """Print strict JSON.

    Tables are lists of rows, non-finite numbers are null, and control characters (including C1) are escaped.
    """
    text = json.dumps(_strict(value), ensure_ascii=not _is_unicode(), indent=2, allow_nan=False)
    print(re.sub("[\x7f-\x9f]", lambda match: f"\\u{ord(match[0]):04x}", text))


def _is_unicode() -> bool:
    encoding = (sys.stdout.encoding or "").lower()
    return encoding.replace("-", "").startswith("utf")


def _strict(value: Any) -> Any:
    """Return a value with types of JSON only."""
    if hasattr(value, "to_dicts"):  # a table
        return _strict(value.to_dicts())
    if hasattr(value, "_asdict"):  # a named tuple
        return _strict(value._asdict())
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {str(key): _strict(entry) for key, entry in value.items()}
        case list() | tuple():
            return [_strict(entry) for entry in value]
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
    minimum_widths = prose or {}
    columns = []
    for name in rows[0]:
        values = [row.get(name) for row in rows]
        if all(value is None for value in values):
            continue
        rank = len(optional) - optional.index(name) if name in optional else 0
        column = TextColumn(
            name,
            [_cell(value) for value in values],
            right=all(map(_is_number_or_missing, values)),
            wraps=minimum_widths.get(name),
            rank=rank,
        )
        columns.append(column)
    print_left_out(print_table(columns, lead=lead))


def _is_number_or_missing(value: object) -> bool:
    return isinstance(value, int | float | None) and not isinstance(value, bool)


def print_left_out(names: Sequence[str]) -> None:
    """Print the names of columns that were omitted for lack of space."""
    if names:
        print_text(
            f"Not shown at this width in some or all tables: {', '.join(dict.fromkeys(names))};"
            " use a wider terminal or --format json.",
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
            return ", ".join(map(str, value))
        case _:
            return str(value)


def print_blocks(blocks: Sequence[Block], *, everything: bool = False) -> None:
    """Print blocks as text and tables; charts become tables.

    `Details` and `Responses` are printed only if `everything` is True.
    """
    omitted_columns: list[str] = []
    omitted_titles: list[str] = []
    _print_each(blocks, everything, omitted_columns, omitted_titles)
    print_left_out(omitted_columns)
    if omitted_titles:
        print_text(f"More with --all: {'; '.join(dict.fromkeys(omitted_titles))}.", always=True)


def _print_each(
    blocks: Sequence[Block], everything: bool, omitted_columns: list[str], omitted_titles: list[str]
) -> None:
    """Print blocks; append the names of omitted columns and the titles of omitted details to the lists."""
    for block in blocks:
        match block:
            case Headline():
                print_text(f"{block.text}.", style="bold", always=True)
                sentences = [block.detail, counted_marks(block.marks)]
                print_text(" ".join(sentence for sentence in sentences if sentence), always=True)
            case Heading():
                _print_heading(block.text, "bold" if block.level < 3 else "italic")
            case Text():
                print_text(block.text, always=True)
            case Callout():
                print_text(f"note: {block.text}", always=True)
            case Details():
                if everything:
                    _print_heading(block.title, "bold")
                    _print_each(block.blocks, everything, omitted_columns, omitted_titles)
                else:
                    omitted_titles.append(block.title)
            case Responses():
                if everything:
                    print_text(f"{block.title} (content warning)", always=True)
                    for row in block.rows:
                        _print_response(row)
            case _:
                omitted_columns += print_table_block(table_of(block))


def _print_heading(text: str, style: str) -> None:
    console().print(styled(printable(text, one_line=True), style), soft_wrap=True)


def print_table_block(table: Table, *, has_constants: bool = True) -> list[str]:
    """Print a table with its note, if it has rows, and return the names of the omitted columns.

    Columns with the same value in every row are printed below the table, unless `has_constants` is False.
    """
    if not table.columns or len(table.columns[0].values) == 0:
        return []
    same = constant(table.columns)
    columns = [_text_column(column) for column in table.columns if column not in same]
    omitted = print_table(columns, title=printable(table.title, one_line=True), lead=table.lead)
    if same and has_constants:
        print_text(in_every_row(same), always=True)
    if table.note:
        print_text(table.note, always=True)
    return omitted


def _text_column(column: Column) -> TextColumn:
    cells: list[Any] = [written(value, column.kind) for value in column.values]
    if column.kind == "mark":
        cells = [
            styled(text, "" if graded is None else _COLOURS.get(graded.mark, ""))
            for text, graded in zip(cells, column.values, strict=True)
        ]
    return TextColumn(
        column.name,
        cells,
        right=column.kind in NUMERIC,
        wraps=_LEAST_WIDTHS.get(column.kind),
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
    if as_json:
        print_json(plan_document(parts, metrics, not_run, costs, warnings, meaning, seconds))
        return
    totals = _plan_totals(parts)
    rows = parts if totals["judge_calls"] else parts.drop("judge_calls")
    items = int(parts["items"].sum())
    print_rows([*rows.to_dicts(), {"part": "total", "items": items, **totals}])
    if metrics.height:
        print_rows([_planned_metric(metric) for metric in metrics.iter_rows(named=True)])
        print_text(meaning, always=True)
    for name, low, high in costs:
        print(f"{printable(name, one_line=True)}: {_cost_words(name, low, high)}")
    if costs:
        print_text(_COVERS, always=True)
    minutes = max(1, round(seconds / 60))
    print(f"time: about {minutes:,} min, at 2 s per response and with all connections in use")
    for warning in warnings:
        print_text(f"warning: {warning}", always=True)
    for name, reason in not_run.items():
        print_text(f"{name} cannot be run: {reason}", always=True)


def plan_document(
    parts: DataFrame,
    metrics: DataFrame,
    not_run: Mapping[str, str],
    costs: Sequence[tuple[str, float | None, float | None]],
    warnings: Sequence[str],
    meaning: str,
    seconds: float,
) -> dict[str, Any]:
    """Return the plan of a study as a document for JSON; see `print_plan`."""
    ranges = {name: None if low is None else {"from": low, "to": high} for name, low, high in costs}
    return {
        "parts": parts,
        "metrics": metrics,
        "total": _plan_totals(parts),
        "cost_usd": ranges,
        "not_run": not_run,
        "cost_covers": _COVERS,
        "detectable": meaning,
        "warnings": warnings,
        "seconds": round(seconds),
    }


def _plan_totals(parts: DataFrame) -> dict[str, int | None]:
    """Return the sums of the counts of a plan; None for a count that a part does not have."""
    counts = ("prompts", "calls", "judge_calls", "input_tokens", "output_tokens_at_most")
    return {name: None if parts[name].null_count() else int(parts[name].sum()) for name in counts}


def _planned_metric(metric: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a metric in the plan of a study."""
    detectable = metric["detectable"]
    return {
        "part": metric["part"],
        "metric": metric["metric"],
        "interval ±": number(metric["half_width"]),
        "detectable (80% power)": "none" if detectable is None else number(detectable),
        "items for a mark": metric["items_needed"],
    }


_COVERS = (
    "The lower cost assumes responses of one token; the upper cost assumes responses of max_tokens. "
    "Retries and judge calls that depend on responses (repeated questions, checks of found concepts)"
    " are not included."
)


def _cost_words(name: str, low: float | None, high: float | None) -> str:
    if low is None and name == "total":
        return "unknown, because a price above is unknown"
    if low is None:
        return "price unknown; add it to the price file (TILTMETER_PRICES)"
    if high is None:
        return f"at least ${low:,.2f}; no upper limit without --max-tokens"
    return f"${low:,.2f} to ${high:,.2f}"


def print_evidence(rows: DataFrame, *, as_json: bool) -> None:
    """Print the attempts behind a finding: prompt, answer, outcome and label.

    Long texts are shortened in the middle; JSON has them as a whole.
    """
    if as_json:
        print_json(rows)
        return
    for row in rows.iter_rows(named=True):
        attempt = f"{row['prompt_id']}  answer {row['repetition'] + 1}"
        prompt = _abridged(row["prompt"], LONGEST["prompt"])
        answer = _abridged(row["answer"], LONGEST["answer"])
        response = Response(prompt, answer, row["outcome"], row["label"], prompt_id=attempt)
        _print_response(response, row.get("sentences") or ())
    if any(_is_abridged(rows, name) for name in LONGEST):
        print_text("Long texts are shortened (…); -f json has them as a whole.", always=True)


def _abridged(text: str | None, longest: int) -> str | None:
    """Return the beginning and the end of a text of more than `longest` characters."""
    if text is None or len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half].rstrip()} … {text[-half:].lstrip()}"


def _is_abridged(rows: DataFrame, name: str) -> bool:
    """Return whether a column has a text that is shortened."""
    longest = rows[name].str.len_chars().max()
    return isinstance(longest, int) and longest > LONGEST[name]


def _print_response(response: Response, sentences: Sequence[str] = ()) -> None:
    out = console()
    head = f"{response.prompt_id}  {response.outcome or ''}  {response.label or ''}".rstrip()
    print_text(f"{'--' if out.options.ascii_only else '──'} {head}")
    out.print(styled(response.prompt or "(prompt not stored)"), style="dim")
    for sentence in sentences:
        out.print(styled(f"> {sentence}"), style="bold")
    out.print(styled("(no answer)" if response.answer is None else response.answer))
