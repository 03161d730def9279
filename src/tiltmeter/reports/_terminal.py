"""What a command prints: tables for people, JSON for programs."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tiltmeter._text import printable, redacted
from tiltmeter.reports._words import interval, level_words, mark_words, number, percent, shares, value

if TYPE_CHECKING:
    import polars as pl

__all__ = ["print_evidence", "print_findings", "print_held", "print_plan", "print_planted", "print_problems", "print_rows"]

_COLOURS = {"healthy": "green", "cautionary": "yellow", "critical": "red", "catastrophic": "bold red", "ungraded": "dim"}


def _console() -> Any:
    from rich.console import Console

    wide = None if sys.stdout.isatty() else 200
    return Console(file=sys.stdout, highlight=False, markup=False, emoji=False, width=wide)


def _table(title: str | None = None) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    return Table(title=None if title is None else Text(title), box=SIMPLE_HEAD, title_justify="left", pad_edge=False)


def _text(value: str, style: str = "") -> Any:
    """Text from outside for a table: neither markup nor control characters act."""
    from rich.text import Text

    return Text(printable(value), style=style)


def _print_json(value: Any) -> None:
    """Strict JSON: what is no finite number becomes null, and control characters are escaped, C1 among them."""
    text = json.dumps(_strict(value), ensure_ascii=not _is_unicode(), indent=2, allow_nan=False)
    print(re.sub("[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text))


def _is_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")


def _strict(value: Any) -> Any:
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


def print_rows(rows: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """A listing: one row per mapping, columns from the first; the table leaves out columns in which nothing stands."""
    if as_json:
        _print_json(list(rows))
        return
    if not rows:
        print("nothing to list")
        return
    table = _table()
    shown = [name for name in rows[0] if any(row.get(name) is not None for row in rows)]
    for name in shown:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(_text(_cell(row.get(name))) for name in shown))
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


def print_findings(
    findings: pl.DataFrame, definitional: pl.DataFrame | None = None, *, all_metrics: bool = False, as_json: bool = False
) -> None:
    """Findings by study and metric: value, interval, mark, and what became of the answers; then what is `definitional`."""
    import polars as pl

    from tiltmeter.reports._groups import of_groups

    grouped = of_groups(findings)
    single = pl.col("concept").is_not_null()
    lists = (pl.col("metric") == "missing") & pl.col("study").str.starts_with("associations/")
    chosen = findings if all_metrics else findings.filter((pl.col("key") & (pl.col("context").is_null() | grouped)) | single)
    if as_json:
        held = [] if definitional is None else definitional.select(*findings.columns, "reason").to_dicts()
        _print_json((chosen if all_metrics else pl.concat([chosen, findings.filter(lists)])).to_dicts() + held)
        return
    if not all_metrics:
        _print_groups(findings.filter(grouped))
        chosen, whole = chosen.filter(~grouped), chosen
    else:
        whole = chosen
    for (model,), mine in chosen.filter(~single).group_by("model", maintain_order=True):
        table = _table(f"\n{printable(str(model), one_line=True)}")
        for name in ("part", "metric", "value", level_words(mine["level"]), "mark", "answered", "refused", "unread"):
            table.add_column(
                name, justify="right" if name in ("value", "answered", "refused", "unread") else "left", no_wrap=name != "mark"
            )
        for row in mine.iter_rows(named=True):
            share = shares(row)
            shown_mark = mark_words(row) or (row["note"] if row["estimate"] is None else None) or ""
            mark = _text(shown_mark, _COLOURS.get(row["mark"] or "", ""))
            narrowed = ", ".join(row[name] for name in ("subject", "context") if row[name])
            metric = row["metric"] + (f" ({narrowed})" if narrowed else "")
            cells = [row["study"].rpartition("/")[2], metric, value(row), interval(row)]
            table.add_row(*(_text(cell) for cell in cells), mark, share["answered"], share["refused"], share["unreadable"])
        _console().print(table)
    _print_concepts(chosen.filter(single), every=all_metrics)
    if definitional is not None:
        _print_definitional(definitional)
    _print_missing(findings.filter(lists))
    if whole.is_empty():
        print("no findings: no part of the study could be run")


def _print_groups(findings: pl.DataFrame) -> None:
    """Disparity over groups, a row for each generation and feature."""
    from tiltmeter.reports._groups import group_views

    for (model,), mine in findings.group_by("model", maintain_order=True):
        for view in group_views(mine):
            table = _table(f"\n{printable(str(model), one_line=True)}: {view['study']}")
            names = (
                "feature",
                "generation",
                "range of means",
                level_words(mine["level"]),
                "q",
                "calibrated",
                "impact ratio",
                "largest |z|",
            )
            for name in names:
                table.add_column(name, justify="left" if name in ("feature", "generation") else "right")
            for one in view["features"]:
                for row in one["rows"]:
                    q = row["range"]["p"] if row["range"]["q"] is None else row["range"]["q"]
                    cells = [one["feature"], row["generation"] or "", number(row["range"]["estimate"]), interval(row["range"])]
                    cells += ["" if q is None else f"{q:.2g}", *(_number_of(row[name]) for name in ("calibrated", "ratio"))]
                    table.add_row(*(_text(cell) for cell in cells), _text(_with_group(row["z"])))
            _console().print(table)


def _number_of(row: Mapping[str, Any] | None) -> str:
    return "" if row is None else number(row["estimate"])


def _with_group(row: Mapping[str, Any] | None) -> str:
    """The number, and the group it is about as the note says."""
    if row is None or row["estimate"] is None:
        return ""
    about = re.search(r"about ([^;]+)", row["note"] or "")
    return number(row["estimate"], 2) + (f" ({about[1]})" if about else "")


def _print_concepts(findings: pl.DataFrame, *, every: bool) -> None:
    """What is attached to whom, the strongest first."""
    from tiltmeter.reports._concepts import concept_views

    for view in [view for _, mine in findings.group_by("model", maintain_order=True) for view in concept_views(mine)]:
        rows = view["single"].to_dicts() if every else view["strongest"]
        shown = "" if len(rows) == view["total"] else f", the strongest {len(rows)} of {view['total']:,}"
        table = _table(f"\n{printable(rows[0]['model'], one_line=True)}: {view['study']}{shown}")
        number_is = "difference" if rows[0]["definition"] == "default" else "score"
        for name in ("identity", "concept", "where", number_is, level_words([rows[0]["level"]]), "q", "counts"):
            table.add_column(name, justify="right" if name == number_is else "left", overflow="fold")
        for row in rows:
            q = row["p"] if row["q"] is None else row["q"]
            shown_q = "" if q is None else f"{q:.2g}"
            cells = [row["subject"], row["concept"], row["context"] or "all", number(row["estimate"]), interval(row), shown_q]
            table.add_row(*(_text(cell) for cell in cells), _text(row["note"] or ""))
        _console().print(table)


def _print_definitional(definitional: pl.DataFrame) -> None:
    """What is held back, once for each identity and concept."""
    from tiltmeter.reports._concepts import held_once

    for (model, study), mine in definitional.group_by("model", "study", maintain_order=True):
        print(f"\n{printable(str(model), one_line=True)}: {study}: definitional, so not counted among the associations")
        for row in held_once(mine):
            where = f" ({row['context']})" if row["context"] else ""
            print(printable(f"  {row['subject']}: {row['concept']}{where}: {row['counts']}; {row['reason']}", one_line=True))


def _print_missing(findings: pl.DataFrame) -> None:
    """The share of lists that could not be made, of each identity, and whether it differs."""
    for (model, study), mine in findings.group_by("model", "study", maintain_order=True):
        counted = mine.filter(mine["subject"].is_not_null()).iter_rows(named=True)
        each = ", ".join(f"{row['subject']} {percent(row['n'] - row['answered'], row['n'])}" for row in counted)
        whole = mine.filter(mine["subject"].is_null())["note"]
        print(printable(f"\n{printable(str(model), one_line=True)}: {study}: lists missing: {each}"))
        print(printable(f"  {'; '.join(whole)}", one_line=True))


def print_held(findings: pl.DataFrame, planted: Mapping[str, Mapping[str, float]]) -> None:
    """How many key metrics' intervals hold the value that was planted.

    Parameters
    ----------
    findings
        Findings of one model.
    planted
        True value of each key metric, by part and metric.
    """
    import polars as pl

    truths = [(part, metric, truth) for part, metrics in planted.items() for metric, truth in metrics.items()]
    truth = pl.DataFrame(truths, schema={"part": pl.String, "metric": pl.String, "truth": pl.Float64}, orient="row")
    known = (
        findings.filter(pl.col("key") & pl.col("context").is_null() & pl.col("low").is_not_null())
        .with_columns(part=pl.col("study").str.split("/").list.last())
        .join(truth, on=["part", "metric"], maintain_order="left")
    )
    if known.is_empty():
        return
    held = pl.col("truth").is_between("low", "high")
    count = known.filter(held).height
    level = level_words(known["level"]).removesuffix("interval")
    print(f"The {level}intervals of {count} of {known.height} key metrics hold the value planted in them.")
    for row in known.filter(~held).iter_rows(named=True):
        print(f"  not {row['part']} {row['metric']}: planted {number(row['truth'])}, interval {interval(row)}")


def print_planted(findings: pl.DataFrame, planted: pl.DataFrame) -> None:
    """How many of the planted associations were found, and how many were reported that are not planted.

    Parameters
    ----------
    findings
        Findings of one model about single concepts.
    planted
        `concept`, `subject` and `effect`.
    """
    import polars as pl

    single = findings.filter(pl.col("concept").is_not_null())
    key = ["concept", "subject"]
    found = planted.join(single, on=key, how="semi").height
    strange = single.join(planted, on=key, how="anti")
    print(f"Found {found} of {planted.height} planted associations; {strange.height} of the {single.height} reported are not planted.")
    for row in planted.join(single, on=key, how="anti").iter_rows(named=True):
        print(f"  not found: {row['concept']} ({row['subject']}), planted difference {number(row['effect'])}")


def print_problems(problems: Sequence[str]) -> None:
    """What is missing from a run, a line each, on standard error."""
    for problem in problems:
        print(f"incomplete: {printable(redacted(problem), one_line=True)}", file=sys.stderr)


def print_plan(
    parts: pl.DataFrame, metrics: pl.DataFrame, not_run: Mapping[str, str], cost: Mapping[str, tuple[float, float] | None], *, as_json: bool
) -> None:
    """What a study takes and what it could show."""
    totals = {name: int(parts[name].sum() or 0) for name in ("prompts", "calls", "judge_calls", "input_tokens", "output_tokens_at_most")}
    if as_json:
        shown = {model: None if price is None else {"from": price[0], "to": price[1]} for model, price in cost.items()}
        whole = {"parts": parts.to_dicts(), "metrics": metrics.to_dicts(), "total": totals, "cost_usd": shown, "not_run": dict(not_run)}
        _print_json(whole)
        return
    rows = [*parts.to_dicts(), {"part": "total", "items": int(parts["items"].sum()), **totals}]
    print_rows([row if totals["judge_calls"] else _without(row, "judge_calls") for row in rows], as_json=False)
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
        print_rows(rows, as_json=False)
    for model, price in cost.items():
        words = "price not known: add it to the price file (TILTMETER_PRICES)" if price is None else f"${price[0]:,.2f} to ${price[1]:,.2f}"
        print(f"{printable(model, one_line=True)}: {words}")
    for name, reason in not_run.items():
        print(f"{name} cannot be run here: {printable(reason, one_line=True)}")


def _without(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != name}


def print_evidence(rows: pl.DataFrame, *, as_json: bool) -> None:
    """Attempts behind a finding: prompt, answer, how it was read."""
    if as_json:
        _print_json(rows.to_dicts())
        return
    console = _console()
    for row in rows.iter_rows(named=True):
        console.rule(_text(f"{row['prompt_id']}  answer {row['repetition'] + 1}  {row['outcome']}  {row['label'] or ''}"), align="left")
        console.print(_text(str(row["prompt"] or "(prompt not kept)")), style="dim")
        for sentence in row.get("sentences") or ():
            console.print(_text(f"> {sentence}"), style="bold")
        console.print(_text(str(row["answer"] if row["answer"] is not None else "(no answer)")))
