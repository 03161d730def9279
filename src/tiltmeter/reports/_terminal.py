"""What a command prints: tables for people, JSON for programs."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tiltmeter._text import printable, redacted
from tiltmeter.errors import InputError
from tiltmeter.reports._layout import Column, console, print_table, print_text, styled
from tiltmeter.reports._words import interval, level_words, mark_words, number, percent, shares, value

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "metric_name",
    "print_evidence",
    "print_findings",
    "print_held",
    "print_json",
    "print_normalised",
    "print_plan",
    "print_planted",
    "print_problems",
    "print_rows",
]

_WIDE = 1_000
"""Wrapped only where nothing more can be left out."""
_NOTE = 40
"""Width of a note beside other columns."""
_HOW = "a wider terminal or tiltmeter show RUN -f json"
_LOSSES = 5
"""Numbers named whose answers could not all be read."""
_COLOURS = {"healthy": "green", "cautionary": "yellow", "critical": "red", "catastrophic": "bold red", "ungraded": "dim"}


def print_json(value: Any) -> None:
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


def print_rows(
    rows: Sequence[Mapping[str, Any]],
    *,
    as_json: bool,
    prose: Mapping[str, int] | None = None,
    optional: Sequence[str] = (),
    lead: int = 1,
    title: str | None = None,
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
        print_json(list(rows))
        return
    if not rows:
        print("nothing to list")
        return
    columns = [
        Column(
            name,
            [_cell(row.get(name)) for row in rows],
            right=all(isinstance(row.get(name), int | float | None) and not isinstance(row.get(name), bool) for row in rows),
            wraps=(prose or {}).get(name),
            rank=len(optional) - optional.index(name) if name in optional else 0,
        )
        for name in rows[0]
        if any(row.get(name) is not None for row in rows)
    ]
    print_left_out(print_table(title, columns, lead=lead))


def print_left_out(names: Sequence[str], how: str = "a wider terminal or --format json shows them") -> None:
    """Which columns the tables above lack for want of room."""
    if names:
        print_text(f"Not shown at this width: {', '.join(dict.fromkeys(names))}; {how}.", always=True)


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
        print_json((chosen if all_metrics else pl.concat([chosen, findings.filter(lists)])).to_dicts() + held)
        return
    left_out: list[str] = []
    if not all_metrics:
        left_out += _print_groups(findings.filter(grouped))
        chosen, whole = chosen.filter(~grouped), chosen
    else:
        whole = chosen
    numbers = chosen.filter(~single)
    for (model,), mine in numbers.group_by("model", maintain_order=True):
        left_out += _print_numbers(str(model), mine.to_dicts())
    left_out += _print_concepts(chosen.filter(single), every=all_metrics)
    if definitional is not None:
        _print_definitional(definitional)
    _print_missing(findings.filter(lists))
    if whole.is_empty():
        print("no findings: no part of the study could be run")
    print_left_out(left_out, _losses(numbers.to_dicts()) if "answered" in left_out else f"{_HOW} shows them")


def _print_numbers(model: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Numbers of one model; gives the names of columns that were left out."""
    marks = [
        styled(mark_words(row) or (row["note"] if row["estimate"] is None else None) or "", _COLOURS.get(row["mark"] or "", ""))
        for row in rows
    ]
    lost = [shares(row) for row in rows]
    numbers = [
        Column("value", [value(row) for row in rows], right=True),
        Column(level_words(row["level"] for row in rows), [interval(row) for row in rows]),
        *([Column("mark", marks, wraps=_WIDE)] if any(mark.plain for mark in marks) else []),
        *(
            Column(name, [share[field] for share in lost], right=True, rank=rank)
            for rank, (name, field) in enumerate((("answered", "answered"), ("refused", "refused"), ("unread", "unreadable")), 1)
        ),
    ]
    parts, metrics = [_part(row) for row in rows], [metric_name(row) for row in rows]
    wide = [Column("part", parts), Column("metric", metrics), *numbers]
    narrow = [Column("part/metric", [f"{part}/{metric}" for part, metric in zip(parts, metrics, strict=True)]), *numbers]
    return print_table(f"{printable(model, one_line=True)}", wide, narrow)


def _part(row: Mapping[str, Any]) -> str:
    return str(row["study"]).rpartition("/")[2]


def metric_name(row: Mapping[str, Any]) -> str:
    """The metric of a finding, with the group and context it is about."""
    narrowed = ", ".join(row[name] for name in ("subject", "context") if row[name])
    return str(row["metric"]) + (f" ({narrowed})" if narrowed else "")


def _losses(rows: Sequence[Mapping[str, Any]]) -> str:
    """Of which numbers not every answer was read, those with the fewest first."""
    lossy = sorted((row for row in rows if (row["answered"] or 0) < (row["n"] or 0)), key=lambda row: row["answered"] / row["n"])
    if not lossy:
        return "every answer was read"
    several = len({row["model"] for row in rows}) > 1
    said = []
    for row in lossy[:_LOSSES]:
        share = shares(row)
        name = f"{row['model'] + ' ' if several else ''}{_part(row)}/{metric_name(row)}"
        said.append(f"{name} {share['answered']}, {share['refused']}, {share['unreadable']}")
    more = [f"and {len(lossy) - _LOSSES} more"] if len(lossy) > _LOSSES else []
    return f"not every answer was read for {len(lossy)} of {len(rows)} numbers: {'; '.join([*said, *more])}; {_HOW} shows all"


def _print_groups(findings: pl.DataFrame) -> list[str]:
    """Disparity over groups, a row for each generation and feature; gives the names of columns that were left out."""
    from tiltmeter.reports._groups import group_views

    left_out: list[str] = []
    for (model,), mine in findings.group_by("model", maintain_order=True):
        for view in group_views(mine):
            found = [(one["feature"], row) for one in view["features"] for row in one["rows"]]
            spans = [row["range"] for _, row in found]
            columns = [
                Column("feature", [feature for feature, _ in found]),
                Column("generation", [row["generation"] or "" for _, row in found]),
                Column("range of means", [number(span["estimate"]) for span in spans], right=True),
                Column(level_words(mine["level"]), [interval(span) for span in spans], right=True),
                Column("q", [_probability(span) for span in spans], right=True),
                Column("calibrated", [_number_of(row["calibrated"]) for _, row in found], right=True, rank=1),
                Column("impact ratio", [_number_of(row["ratio"]) for _, row in found], right=True, rank=2),
                Column("largest |z|", [_with_group(row["z"]) for _, row in found], right=True, rank=3),
            ]
            left_out += print_table(f"{printable(str(model), one_line=True)}: {view['study']}", columns, lead=2)
    return left_out


def _probability(row: Mapping[str, Any]) -> str:
    q = row["p"] if row["q"] is None else row["q"]
    return "" if q is None else f"{q:.2g}"


def _number_of(row: Mapping[str, Any] | None) -> str:
    return "" if row is None else number(row["estimate"])


def _with_group(row: Mapping[str, Any] | None) -> str:
    """The number, and the group it is about as the note says."""
    if row is None or row["estimate"] is None:
        return ""
    about = re.search(r"about ([^;]+)", row["note"] or "")
    return number(row["estimate"], 2) + (f" ({about[1]})" if about else "")


def _print_concepts(findings: pl.DataFrame, *, every: bool) -> list[str]:
    """What is attached to whom, the strongest first; gives the names of columns that were left out."""
    from tiltmeter.reports._concepts import concept_views

    left_out: list[str] = []
    for view in [view for _, mine in findings.group_by("model", maintain_order=True) for view in concept_views(mine)]:
        rows = view["single"].to_dicts() if every else view["strongest"]
        shown = "" if len(rows) == view["total"] else f", the strongest {len(rows)} of {view['total']:,}"
        columns = [
            Column("identity", [row["subject"] for row in rows]),
            Column("concept", [row["concept"] for row in rows]),
            Column("where", [row["context"] or "all" for row in rows]),
            Column("difference" if rows[0]["definition"] == "default" else "score", [number(row["estimate"]) for row in rows], right=True),
            Column(level_words([rows[0]["level"]]), [interval(row) for row in rows]),
            Column("q", [_probability(row) for row in rows]),
        ]
        counts = Column("counts", [row["note"] or "" for row in rows], wraps=_NOTE)
        title = f"{printable(rows[0]['model'], one_line=True)}: {view['study']}{shown}"
        left_out += print_table(title, [*columns, counts], [*columns, replace(counts, below=True)], lead=3)
    return left_out


def print_normalised(findings: pl.DataFrame, *, as_json: bool) -> None:
    """Key metrics of all models on one scale, with their average.

    Raises
    ------
    InputError
        No metric has a normalised score.
    """
    from tiltmeter.reports._normalised import average_note, normalised_table

    table = normalised_table(findings)
    if table.height <= 1:  # nothing but the average
        raise InputError("no metric of this run has a normalised score: only probes are put on one scale; leave out --normalised")
    rows = table.to_dicts()
    note = average_note(findings)
    if as_json:
        rounded = [{name: round(cell, 4) if isinstance(cell, float) else cell for name, cell in row.items()} for row in rows]
        print_json([*rounded[:-1], rounded[-1] | {"note": note}])
        return
    columns = [
        Column("part", [(row["study"] or "").rpartition("/")[2] for row in rows]),
        Column("metric", [row["metric"] for row in rows]),
        Column("harm", [(row["harm"] or "").replace("_", " ") for row in rows], rank=1),
        *(Column(model, [number(row[model]) for row in rows], right=True, whole_name=True) for model in table.columns[3:]),
    ]
    print_left_out(print_table(None, columns, lead=2))
    print_text(note, always=True)


def _print_definitional(definitional: pl.DataFrame) -> None:
    """What is held back, once for each identity and concept."""
    from tiltmeter.reports._concepts import held_once

    for (model, study), mine in definitional.group_by("model", "study", maintain_order=True):
        print()
        print_text(f"{model}: {study}: definitional, so not counted among the associations", always=True)
        for row in held_once(mine):
            where = f" ({row['context']})" if row["context"] else ""
            print_text(f"  {row['subject']}: {row['concept']}{where}: {row['counts']}; {row['reason']}", always=True)


def _print_missing(findings: pl.DataFrame) -> None:
    """The share of lists that could not be made, of each identity, and whether it differs."""
    for (model, study), mine in findings.group_by("model", "study", maintain_order=True):
        counted = mine.filter(mine["subject"].is_not_null()).iter_rows(named=True)
        each = ", ".join(f"{row['subject']} {percent(row['n'] - row['answered'], row['n'])}" for row in counted)
        print()
        print_text(f"{model}: {study}: lists missing: {each}", always=True)
        print_text(f"  {'; '.join(mine.filter(mine['subject'].is_null())['note'])}", always=True)


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
    """What is missing from a run, on standard error: a line each, broken between words on a terminal."""
    for problem in problems:
        print_text(f"incomplete: {redacted(problem)}", file=sys.stderr)


def print_plan(
    parts: pl.DataFrame,
    metrics: pl.DataFrame,
    not_run: Mapping[str, str],
    costs: Sequence[tuple[str, float | None, float | None]],
    warnings: Sequence[str],
    *,
    as_json: bool,
) -> None:
    """What a study takes and what it could show; `costs` are what is paid for, least and most (see `tiltmeter.engine.Cost`)."""
    counted = ("prompts", "calls", "judge_calls", "input_tokens", "output_tokens_at_most")
    totals = {name: None if parts[name].null_count() else int(parts[name].sum()) for name in counted}
    if as_json:
        shown = {of: None if low is None else {"from": low, "to": high} for of, low, high in costs}
        whole = {"parts": parts.to_dicts(), "metrics": metrics.to_dicts(), "total": totals, "cost_usd": shown, "not_run": dict(not_run)}
        print_json(whole | {"cost_covers": _COVERS, "warnings": list(warnings)})
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
    for of, low, high in costs:
        print(f"{printable(of, one_line=True)}: {_cost_words(of, low, high)}")
    if costs:
        print(_COVERS)
    for warning in warnings:
        print(f"warning: {printable(warning, one_line=True)}")
    for name, reason in not_run.items():
        print(f"{name} cannot be run here: {printable(reason, one_line=True)}")


_COVERS = (
    "The lower price assumes responses of one token each, the upper one responses of max_tokens."
    " Retries are not included, nor what the judge is asked only after some responses: unusable answers again, concepts that are found."
)


def _cost_words(of: str, low: float | None, high: float | None) -> str:
    if low is None and of == "total":
        return "not known, as a price above is not known"
    if low is None:
        return "price not known: add it to the price file (TILTMETER_PRICES)"
    return f"at least ${low:,.2f}; no upper end without --max-tokens" if high is None else f"${low:,.2f} to ${high:,.2f}"


def _without(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != name}


def print_evidence(rows: pl.DataFrame, *, as_json: bool) -> None:
    """Attempts behind a finding: prompt, answer, how it was read."""
    if as_json:
        print_json(rows.to_dicts())
        return
    out = console()
    for row in rows.iter_rows(named=True):
        head = f"{row['prompt_id']}  answer {row['repetition'] + 1}  {row['outcome']}  {row['label'] or ''}".rstrip()
        print_text(f"{'--' if out.options.ascii_only else '──'} {head}")
        out.print(styled(str(row["prompt"] or "(prompt not kept)")), style="dim")
        for sentence in row.get("sentences") or ():
            out.print(styled(f"> {sentence}"), style="bold")
        out.print(styled(str(row["answer"] if row["answer"] is not None else "(no answer)")))
