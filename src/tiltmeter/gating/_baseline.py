"""A run held against an earlier one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from tiltmeter.comparing import compare
from tiltmeter.errors import InputError
from tiltmeter.gating._rules import Rules
from tiltmeter.gating._verdict import Check, made_check, shown_number
from tiltmeter.runs import Run
from tiltmeter.study import NAMED

__all__ = ["against_baseline"]

_NUMBER = ("part", *NAMED)


def against_baseline(run: Run, findings: pl.DataFrame, baseline: Run, earlier: pl.DataFrame, rules: Rules, notes: list[str]) -> list[Check]:
    """A check for each key metric both runs have, or the run should have; what is to be said about the comparison is noted.

    A model is compared with the one of the same name, or with the only one the baseline holds. `findings` and `earlier` are those of the
    two runs, with `part`.

    Raises
    ------
    InputError
        The runs cannot be compared, or which models are meant cannot be told.
    """
    if run.path.resolve() == baseline.path.resolve():
        raise InputError(f"--baseline {baseline.path} is the run itself: give the run it should be no worse than")
    known = earlier["model"].unique(maintain_order=True).to_list()
    checks: list[Check] = []
    for (model,), mine in findings.group_by("model", maintain_order=True):
        before = model if model in known else known[0] if len(known) == 1 else None
        if before is None:
            raise InputError(f"--baseline {baseline.path} holds {', '.join(known)}, not {model}: give a run of this model, or of one alone")
        comparison = compare(baseline, run, model_a=before, model_b=str(model))
        notes += (note for note in comparison.notes if note not in notes)
        rule = f"baseline {baseline.path.name}"
        rows = {_name(row): row for row in mine.iter_rows(named=True)}
        told = comparison.differences.drop_nulls("verdict")
        checks += (_compared(rule, row, rows[_name(row)], rules) for row in told.iter_rows(named=True))
        checks += _lacking(rule, mine, earlier.filter(pl.col("model") == before), str(model), rules)
    return checks


def _name(row: Mapping[str, Any]) -> tuple[str | None, ...]:
    return tuple(row[name] for name in _NUMBER)


def _compared(rule: str, row: Mapping[str, Any], finding: Mapping[str, Any], rules: Rules) -> Check:
    """What is undecidable does not fail, as nothing says it is worse, unless a number or most of its answers are lacking."""
    if row["first"] is None or row["second"] is None:
        side = "the baseline" if row["first"] is None else "this run"
        return made_check(rule, rules.open, f"cannot be compared: {side} has no number", finding)
    said = f"{shown_number(row['second'])} against {shown_number(row['first'])} in the baseline"
    if row["low"] is not None:
        level = f"{100 * row['level']:g}% interval " if row["level"] is not None else ""
        q = f", q = {shown_number(row['q'])}" if row["q"] is not None else ""
        said += f", a difference of {shown_number(row['difference'])} ({level}{shown_number(row['low'])} … {shown_number(row['high'])}{q})"
    if row["verdict"] == "undecidable" and row["note"]:
        unread = 2 * finding["answered"] < finding["n"]
        return made_check(rule, rules.open if unread else "skipped", f"{said}: {row['note']}", finding)
    words = {"undecidable": "not surely worse"}.get(row["verdict"], row["verdict"])
    return made_check(rule, "failed" if row["verdict"] == "worse" else "passed", f"{said}: {words}", finding)


def _lacking(rule: str, mine: pl.DataFrame, earlier: pl.DataFrame, model: str, rules: Rules) -> Iterator[Check]:
    """Key metrics the baseline has in a part the run has too; of single concepts, each run finds its own."""
    missing = (
        earlier.filter("key", pl.col("concept").is_null())
        .join(mine.select("part").unique(), on="part", how="semi", maintain_order="left")
        .join(mine, on=_NUMBER, how="anti", nulls_equal=True, maintain_order="left")
    )
    for row in missing.iter_rows(named=True):
        unknown = {"model": model, "estimate": None, "low": None, "high": None}
        yield made_check(rule, rules.open, "the baseline has this number, the run does not", row | unknown)
