"""Rules held against findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from tiltmeter._paths import sha256
from tiltmeter.errors import EXIT_INCOMPLETE, EXIT_OK, EXIT_PROVIDER, InputError
from tiltmeter.gating._baseline import against_baseline
from tiltmeter.gating._rules import Limit, Rules
from tiltmeter.gating._verdict import Check, Verdict, made_check, shown_number
from tiltmeter.runs import Run
from tiltmeter.study import MARKS

__all__ = ["gate"]


def gate(run: Run, rules: Rules, baseline: Run | None = None) -> Verdict:
    """Whether a run keeps to the rules; it is judged by its findings and run.json.

    A run that is incomplete, holds no number, or has a model that gave no answers does not pass whatever its numbers are.

    Parameters
    ----------
    baseline
        A run no metric may have become worse than, with confidence: see `tiltmeter.comparing`.

    Raises
    ------
    InputError
        A limit names a number the run does not have; no rule applies to it; its files do not belong together.
    """
    about = run.about
    findings = _findings(run, about)
    barred, problems = _problems(findings, about)
    earlier = None
    if baseline is not None:
        earlier = _findings(baseline, baseline.about)
        _, faults = _problems(earlier, baseline.about)
        problems += [f"baseline {baseline.path.name}: {fault}" for fault in faults]
        barred = barred or (EXIT_INCOMPLETE if faults else EXIT_OK)
    checks: list[Check] = []
    notes: list[str] = []
    try:
        checks += _checks(findings, rules, notes)
        if baseline is not None and earlier is not None:
            checks += against_baseline(run, findings, baseline, earlier, rules, notes)
        if not checks:
            why = "its key metrics have no tiers" if rules.fail_on else "no mark is to fail"
            raise InputError(f"no rule applies to {run.place}: {why}; set limits with --max or --min METRIC=VALUE, or give a --baseline")
    except InputError as error:
        if not problems:
            raise
        problems.append(str(error))  # what a limit is about may be just what is missing from the run
    return Verdict(run.place, about, checks, problems, notes, barred)


def _checks(findings: pl.DataFrame, rules: Rules, notes: list[str]) -> list[Check]:
    """Of the marks and limits; what decides nothing is noted."""
    checks: list[Check] = []
    if rules.fail_on is not None:
        checks += _marks(findings, rules, rules.fail_on)
        if not checks:
            notes.append(f"no key metric of this run has tiers: fail-on {rules.fail_on} decides nothing")
    for limit in rules.limits:
        checks += _limited(limit.choose(findings), rules, limit)
    return checks


def _findings(run: Run, about: Mapping[str, Any]) -> pl.DataFrame:
    """The findings run.json speaks of: those of a run that was broken off while it was written anew are not to be judged by it."""
    findings = run.findings
    noted = about["tables"].get("findings")
    if not isinstance(noted, dict) or noted.get("sha256") != sha256(run.folder.table_path("findings")):
        raise InputError(f"{run.place}: findings.parquet is not the one its run.json speaks of; run the study again to make both anew")
    return findings.with_columns(
        pl.col("study").str.split("/").list.last().alias("part"), pl.col("estimate", "low", "high", "p", "q").fill_nan(None)
    )


def _problems(findings: pl.DataFrame, about: Mapping[str, Any]) -> tuple[int, list[str]]:
    """The exit status of a run that cannot be judged, and why."""
    named = [model["name"] for model in about["models"]]
    counts = findings.group_by("model").agg(pl.col("n", "failed").sum())
    attempts = dict(zip(counts["model"], counts.select("n", "failed").iter_rows(), strict=True))
    silent = [name for name, (n, failed) in attempts.items() if n and n == failed]
    problems = [f"{name}: every one of its answers failed" for name in sorted(silent)]
    problems += [f"{name}: the run holds no number about it" for name in named if not attempts.get(name, (0, 0))[0]]
    if not named and findings.is_empty():
        problems.append("the run holds no number")
    problems += about["problems"]
    if not about["complete"] and not problems:
        problems.append("the run is incomplete")
    status = EXIT_PROVIDER if silent else EXIT_INCOMPLETE if problems else EXIT_OK
    return status, problems


def _marks(findings: pl.DataFrame, rules: Rules, worst: str) -> Iterator[Check]:
    beyond = MARKS[MARKS.index(worst) :]
    for row in findings.filter("key", pl.col("mark").is_not_null()).iter_rows(named=True):
        deciding = row["mark_low"] or row["mark"] if rules.certain else row["mark"]
        if row["mark"] not in MARKS:
            status, reason = rules.open, f"ungraded{_because(row)}"
        else:
            status = "failed" if deciding in beyond else "passed"
            reason = f"{shown_number(row['estimate'])}{_interval(row)} is {row['mark']}{_reaching(row)}"
        yield made_check(f"fail-on {worst}{' for certain' * rules.certain}", status, reason, row)


def _limited(chosen: pl.DataFrame, rules: Rules, limit: Limit) -> Iterator[Check]:
    above = limit.bound == "max"
    end = "low" if above else "high"
    rule = limit.text + " for certain" * (rules.certain and limit.column == "estimate")
    for row in chosen.iter_rows(named=True):
        value = row[limit.column]
        if value is None:
            yield made_check(rule, rules.open, f"{limit.column} could not be computed{_because(row)}", row)
            continue
        deciding = row[end] if rules.certain and limit.column == "estimate" and row[end] is not None else value
        violated = deciding > limit.value if above else deciding < limit.value
        called = "" if limit.column == "estimate" else f"{limit.column} = "
        said = f"{called}{shown_number(value, limit.value)}{_interval(row) if not called else ''}"
        beyond = value > limit.value if above else value < limit.value
        compared = ("more than" if above else "less than") if beyond else ("at most" if above else "at least")
        unsure = ", but not for certain" * (beyond and not violated)
        yield made_check(rule, "failed" if violated else "passed", f"{said} is {compared} {limit.value:g}{unsure}", row)


def _because(row: Mapping[str, Any]) -> str:
    return f": {row['note']}" if row["note"] else f": {row['answered']:,} of {row['n']:,} answers could be used"


def _reaching(row: Mapping[str, Any]) -> str:
    others = [mark for mark in (row["mark_low"], row["mark_high"]) if mark not in (None, row["mark"])]
    return f", could be {' or '.join(dict.fromkeys(others))}" if others else ""


def _interval(row: Mapping[str, Any]) -> str:
    if row["low"] is None or row["high"] is None:
        return " (no interval)"
    return f" ({100 * row['level']:g}% interval {shown_number(row['low'])} … {shown_number(row['high'])})"
