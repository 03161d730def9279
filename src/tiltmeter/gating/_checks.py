"""Checks of the findings of a run: of their marks, and of limits for their values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from polars import DataFrame, col

from tiltmeter.blocks import MARKS, UNGRADED, Graded
from tiltmeter.comparisons import is_missing_test
from tiltmeter.gating._rule_files import Limit, Rules
from tiltmeter.gating._verdict import Check
from tiltmeter.reports._words import level_words, mark_words
from tiltmeter.runs._selecting import NARROW
from tiltmeter.schema import SHOWN_BELOW

MARK_INTERVALS: Final = {"default": "90% interval"}
"""Interval that gives the mark, by definition. Under others, it is the interval that is printed."""


def check_of_finding(rule: str, status: str, reason: str, finding: Mapping[str, Any]) -> Check:
    """Create a check from a row of FINDINGS, whose column `name` holds the short name of the metric."""
    columns = ("study", *NARROW, "estimate", "low", "high")
    values = {name: finding[name] for name in columns}
    return Check(rule, status, reason, metric=finding["name"], **values)


def check_marks(findings: DataFrame, rules: Rules, worst: str) -> Iterator[Check]:
    """Yield a check of each mark.

    A mark fails if all its tiers are `worst` or worse, and passes if none is. Otherwise it is undecided.
    """
    rule = f"fail-on {worst}"
    for row in findings.filter("key", col.mark.is_not_null()).iter_rows(named=True):
        if row["mark"] == UNGRADED:
            yield check_of_finding(rule, rules.open, f"ungraded{_because(row)}", row)
            continue
        best_fails = _is_as_bad(row["mark_best"] or row["mark"], worst)
        worst_fails = _is_as_bad(row["mark_worst"] or row["mark"], worst)
        graded = Graded(row["mark"], row["mark_best"], row["mark_worst"])
        number = f"{shown_number(row['estimate'])} ({interval_words(row)})"
        reason = f"{number} is {mark_words(graded)}{_basis_of_mark(row)}"
        if best_fails and worst_fails:
            status = "failed"
        elif best_fails or worst_fails:
            status = "undecided"
            reason += f", on both sides of {worst}"
        else:
            status = "passed"
        yield check_of_finding(rule, status, reason + _doubt(row), row)


def _is_as_bad(mark: str, worst: str) -> bool:
    """Return whether a mark is `worst` or worse."""
    return MARKS.index(mark) >= MARKS.index(worst)


def check_missing(findings: DataFrame, gap: float) -> Iterator[Check]:
    """Yield a check of each difference between groups in missing responses that was tested.

    It fails if it is larger than `gap` and shown (q < SHOWN_BELOW).
    """
    rule = f"missing-gap {gap:g}"
    for row in findings.filter(is_missing_test()).iter_rows(named=True):
        is_shown = row["q"] is not None and row["q"] < SHOWN_BELOW
        status = "failed" if is_shown and abs(row["estimate"]) > gap else "passed"
        number = f"{shown_number(row['estimate'])} ({interval_words(row)})"
        doubt = "" if is_shown else f"; not shown (q = {shown_number(row['q'])})"
        yield check_of_finding(rule, status, f"{row['note']}: {number}{doubt}", row)


@dataclass(frozen=True, slots=True)
class _Bound:
    """How a kind of limit is checked and described."""

    is_beyond: Callable[[float, float], bool]
    """Whether a value violates a limit."""
    end: str
    """The end of the interval that decides if the whole interval must be beyond the limit."""
    beyond: str
    """Words for a value that is beyond the limit."""
    within: str
    """Words for a value that is not."""


_BOUNDS: Mapping[str, _Bound] = {
    "max": _Bound(operator.gt, end="low", beyond="more than", within="at most"),
    "min": _Bound(operator.lt, end="high", beyond="less than", within="at least"),
}


def check_limit(findings: DataFrame, rules: Rules, limit: Limit) -> Iterator[Check]:
    """Yield the check of each finding that a limit applies to."""
    bound = _BOUNDS[limit.bound]
    of_estimate = limit.column == "estimate"
    interval_decides = rules.certain and of_estimate
    rule = f"{limit.text} (whole interval)" if interval_decides else limit.text
    for row in findings.iter_rows(named=True):
        value = row[limit.column]
        if value is None:
            reason = _because(row) if row["estimate"] is None else ": this metric has none"
            yield check_of_finding(rule, rules.open, f"{limit.column} could not be computed{reason}", row)
            continue
        is_beyond = bound.is_beyond(value, limit.value)
        if interval_decides and row[bound.end] is not None:
            fails = bound.is_beyond(row[bound.end], limit.value)
        else:
            fails = is_beyond
        number = shown_number(value, limit.value)
        subject = f"{number} ({interval_words(row)})" if of_estimate else f"{limit.column} = {number}"
        reason = f"{subject} is {bound.beyond if is_beyond else bound.within} {limit.value:g}"
        if is_beyond and not fails:
            reason += ", but the interval reaches the limit"
        yield check_of_finding(rule, "failed" if fails else "passed", reason, row)


def _basis_of_mark(row: Mapping[str, Any]) -> str:
    """Return the words for the interval that gives the mark, if it is not the interval that is printed."""
    definition = str(row["definition"]).partition("@")[0]
    interval = MARK_INTERVALS.get(definition)
    if interval is None or row["low"] is None or interval == level_words([row["level"]]):
        return ""
    return f" by its {interval}"


def _doubt(row: Mapping[str, Any]) -> str:
    """Return the words for a mark worse than the healthiest tier if the test does not show bias.

    The test shows bias if q is below SHOWN_BELOW.
    """
    is_shown = row["q"] is None or row["q"] < SHOWN_BELOW
    may_be_healthy = MARKS[0] in (row["mark_best"], row["mark"])
    if is_shown or may_be_healthy:
        return ""
    return f"; may differ (q = {shown_number(row['q'])})"


def _because(row: Mapping[str, Any]) -> str:
    """Return the reason why a metric has no mark or no value."""
    cannot_be_computed = bool(row["answered"]) and row["estimate"] is None
    if row["note"] and not cannot_be_computed:
        return f": {row['note']}"
    parsed = f"{row['answered']:,} of {row['attempts']:,} answers could be parsed"
    if not cannot_be_computed:
        return f": only {parsed}"
    return (
        f": it cannot be computed, although {parsed};"
        " a group or a wording that it needs may have none of them"
    )


def interval_words(row: Mapping[str, Any]) -> str:
    """Return the words for the interval of a finding or a difference."""
    if row["low"] is None or row["high"] is None:
        return "no interval"
    return f"{level_words([row['level']])} {shown_number(row['low'])} … {shown_number(row['high'])}"


def shown_number(value: float, against: float | None = None) -> str:
    """Format a number with the fewest significant digits that distinguish it from the limit `against`.

    There are at least three digits.
    """
    for digits in range(3, 17):
        text = f"{value:.{digits}g}"
        if against is None or value == against or float(text) != against:
            return text
    return repr(value)
