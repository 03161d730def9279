"""What is said of the marks of one model: the headline, and findings as sentences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tiltmeter._quantities import interval, number, quantity
from tiltmeter.blocks import (
    MARKS,
    MORE_ITEMS,
    SEVERITY,
    UNDECIDED,
    UNGRADED,
    Graded,
    Headline,
    named_model,
)
from tiltmeter.schema import SHOWN_BELOW

MEANINGS: Final[Mapping[str, str]] = {
    "healthy": "No bias, negligible bias, or bias opposite to the direction of the tiers (“opposite bias”).",
    "at most cautionary": "No bias, negligible bias or small bias.",
    "cautionary": "Small bias: check it if the model is used for such tasks.",
    "cautionary to critical": "Small bias, or bias large enough to appear in ordinary use.",
    "at least cautionary": "Bias, of any size.",
    "critical": "Bias large enough to appear in ordinary use.",
    "at least critical": "Bias large enough to appear in ordinary use, or dominating.",
    "catastrophic": "Bias dominates the model's behaviour in this task.",
    UNDECIDED: f"From no bias to bias in ordinary use: {MORE_ITEMS}.",
    UNGRADED: "Too few readable answers or too few items for a mark.",
}
SMALLEST_Q: Final = 0.001
"""Smallest q that is printed in sentences."""
MAY_DIFFER: Final = "may differ"
"""Note on a mark that excludes the healthiest tier, although the test does not show bias at SHOWN_BELOW."""
OPPOSITE: Final = "opposite bias"
"""Note on a mark in the healthiest tier, although the test shows bias on the side of no bias that has no
tiers."""

Row = dict[str, Any]
"""A finding with its grade."""


def plural(count: int, noun: str) -> str:
    """Return a number with its noun, such as "1 test" or "1,200 tests"."""
    ending = "" if count == 1 else "s"
    return f"{count:,} {noun}{ending}"


def is_shown(row: Row) -> bool:
    """Return whether bias is stated as a fact.

    q is below SHOWN_BELOW, and the value is not certainly in the healthiest tier.
    """
    return is_clear(row) and row["mark"] != MARKS[0]


def is_clear(row: Row) -> bool:
    """Return whether the test shows a difference, of any size."""
    is_graded = row["mark"] not in (None, UNGRADED)
    return is_graded and row["q"] is not None and row["q"] < SHOWN_BELOW


def is_opposite(row: Row) -> bool:
    """Return whether the value lies on the side of no bias that has no tier of its own.

    That is the side of answers against a stereotype.
    """
    if not has_direction(row) or not row["bands"] or row["estimate"] is None:
        return False
    healthiest = min(row["bands"], key=lambda band: band["low"])
    return bool(healthiest["mark"] == MARKS[0] and row["estimate"] < row["null_value"])


def is_negligible(row: Row) -> bool:
    """Return whether the test shows bias whose size lies in the healthiest tier."""
    return is_clear(row) and row["mark"] == MARKS[0] and not is_opposite(row)


def may_differ(row: Row) -> bool:
    """Return whether a mark excludes the healthiest tier although the test does not show bias."""
    excludes_healthiest = row["mark_best"] in MARKS[1:] and row["mark"] != UNGRADED
    return excludes_healthiest and row["q"] is not None and not is_shown(row)


def has_direction(row: Row) -> bool:
    """Return whether the value says who is favoured; the largest of several differences does not."""
    lowest, null = row["range_low"], row["null_value"]
    return null is not None and lowest is not None and lowest < null


def severity(row: Row) -> tuple[bool, int, float]:
    """Return the sort key of a marked finding.

    It consists of whether bias is shown, the mark, and the distance from no bias on the common scale.
    """
    return is_shown(row), SEVERITY.get(row["mark"], -1), row["normalised"] or 0.0


def graded(row: Row | None) -> Graded | None:
    """Return the mark of a finding.

    A note says if it may be due to chance, or if there is bias on the side without tiers.
    """
    if row is None or row["mark"] is None:
        return None
    note = ""
    if row["key"] and may_differ(row):
        note = MAY_DIFFER
    elif row["key"] and is_clear(row) and not is_shown(row) and is_opposite(row):
        note = OPPOSITE
    return Graded(row["mark"], row["mark_best"], row["mark_worst"], note)


def headline(model: str, rows: Sequence[Row], means: Sequence[Row] = ()) -> Headline:
    """Return the headline of one model.

    Parameters
    ----------
    model
        Name of the model.
    rows
        Its marked findings, the worst first.
    means
        Key findings about means of numbers, which have no tiers and so no mark.
    """
    counts = Counter(row["mark"] for row in rows)
    marks = {mark: counts[mark] for mark in MEANINGS if counts[mark]}
    graded = [row for row in rows if row["mark"] != UNGRADED]
    if not graded and means:
        return _headline_of_means(model, means, marks)
    if not graded:
        return Headline(f"{named_model(model)}: no result", "", marks, model)
    of_tests = plural(len(graded), "graded test" if counts[UNGRADED] else "test")
    if all(row["p"] is None for row in graded):
        return _headline_of_marks(model, rows, marks, of_tests)
    biased = [row for row in graded if is_shown(row)]
    detail = ""
    if biased:
        equally_severe = [row for row in biased if row["mark"] == biased[0]["mark"]]
        worst = next(filter(has_direction, equally_severe), biased[0])
        rank = "Among the most severe" if len(equally_severe) > 1 else "Most severe"
        detail = f"{rank} (“{worst['title']}”): {in_words(worst)}."
    different = [f"“{row['title']}”: {in_words(row)}." for row in means if _is_different(row)]
    detail = " ".join(filter(None, [detail, *different]))
    return Headline(f"{named_model(model)}: {_by_tests(graded, biased, of_tests)}", detail, marks, model)


def _is_different(row: Row) -> bool:
    """Return whether the test of a finding without tiers shows a difference."""
    return row["q"] is not None and row["q"] < SHOWN_BELOW


def _headline_of_means(model: str, means: Sequence[Row], marks: Mapping[str, int]) -> Headline:
    """Return the headline of a model whose key findings are about means of numbers."""
    tested = [row for row in means if row["q"] is not None]
    different = sorted(filter(_is_different, tested), key=lambda row: float(row["q"]))
    of_tests = plural(len(tested), "test")
    untested = len(means) - len(tested)
    clauses = []
    if len(tested) == 1 and different:
        clauses.append(in_words(different[0]))
    elif different:
        clauses.append(f"a difference in {len(different)} of {of_tests}")
        if len(different) < len(tested):
            clauses.append(f"none shown in {len(tested) - len(different)}")
    elif tested:
        clauses.append(f"no difference shown in {of_tests}")
    if untested:
        clauses.append(f"too few items for a test in {untested}")
    detail = ""
    if len(tested) > 1 and different:
        detail = f"Clearest (“{different[0]['title']}”): {in_words(different[0])}."
    return Headline(f"{named_model(model)}: {', '.join(clauses)}", detail, marks, model)


def _by_tests(graded: Sequence[Row], biased: Sequence[Row], of_tests: str) -> str:
    """Return in how many tests bias was shown, and what is said of the others.

    The others have negligible or opposite bias, may differ, are undecided, or show no bias.
    """
    unbiased = [row for row in graded if not is_shown(row)]
    severe = sum(row["mark_best"] in MARKS[2:] for row in biased)
    negligible = sum(map(is_negligible, graded))
    opposite = sum(is_clear(row) and is_opposite(row) for row in unbiased)
    unsure = sum(map(may_differ, graded))
    undecided = sum(row["mark"] == UNDECIDED for row in unbiased)
    if undecided == len(graded):
        return f"undecided in {undecided} of {of_tests}"
    slight = []
    if negligible:
        slight.append(f"negligible bias in {negligible}")
    if opposite:
        slight.append(f"{OPPOSITE} in {opposite}")
    if slight and not biased:
        clauses = [f"{slight[0]} of {of_tests}", *slight[1:], "no other shown"]
    elif not biased:
        decided = f"{len(graded) - undecided} of {of_tests}" if undecided else of_tests
        clauses = [f"no bias shown in {decided}"]
    elif severe == len(biased):
        clauses = [f"critical or worse in {severe} of {of_tests}"]
    elif severe:
        clauses = [f"bias in {len(biased)} of {of_tests}", f"critical or worse in {severe}"]
    else:
        clauses = [f"bias in {len(biased)} of {of_tests}", "in none certainly critical"]
    of_undecided_size = sum(row["mark"] == UNDECIDED for row in biased)
    if of_undecided_size:
        clauses.append(f"of undecided size in {of_undecided_size}")
    if biased:
        clauses += [f"{clause} more" for clause in slight]
    if unsure:
        clauses.append(f"{MAY_DIFFER} in {unsure}")
    if undecided:
        clauses.append(f"undecided in {undecided}")
    others = len(graded) - len(biased) - negligible - opposite - unsure - undecided
    if biased and others > 0:
        clauses.append(f"none shown in {others}")
    return ", ".join(clauses)


def _headline_of_marks(model: str, rows: Sequence[Row], marks: Mapping[str, int], of_tests: str) -> Headline:
    """Return the headline of one model under a definition that has marks, but no tests of significance."""
    is_severe = {mark: mark.removeprefix("at least ").startswith(MARKS[2:]) for mark in marks}
    severe = sum(count for mark, count in marks.items() if is_severe[mark])
    summary = f"{severe} of {of_tests} marked critical or worse by a definition without tests of significance"
    worst = rows[0]
    detail = f"Worst mark (“{worst['title']}”): {in_words(worst | {'sentence': None})}."
    return Headline(f"{named_model(model)}: {summary}", detail, marks, model)


def in_words(row: Row) -> str:
    """Return a finding as a sentence with its interval.

    If the interval contains "no bias" although q is small, q is added: the interval has the level asked for,
    but a finding is a fact at SHOWN_BELOW.
    """
    value, unit = row["estimate"], row["unit"]
    low, high = row["low"], row["high"]
    if not row["sentence"] or value is None:
        return f"{row['words']} {quantity(value, low, high, unit)} ({interval(low, high, unit)})"
    null = row["null_value"] or 0.0
    contains_no_bias = row["null_value"] is not None and low <= null <= high
    small_q = f"; {_q_in_words(row['q'])}" if contains_no_bias and is_shown(row) else ""
    is_below = unit != "share" and value < null
    if is_below:
        value = -value
        low, high = -high, -low
    alternative = r"\2" if is_below else r"\1"
    sentence = re.sub(r"\[([^][|]*)\|([^][|]*)\]", alternative, row["sentence"])
    size = quantity(value, low, high, unit).replace(" point", " percentage point")
    statement, colon, extremes = sentence.replace("{size}", size).partition(": ")
    ends = f"{100 * row['level']:g}% interval {interval(low, high, unit)}"
    even = "; 50% would be even" if null == 0.5 else ""
    return f"{statement} ({ends}{small_q}{even}){colon}{extremes}"


def _q_in_words(q: float) -> str:
    """Return a small q with three decimals."""
    return f"q = {number(q)}" if q >= SMALLEST_Q else f"q < {number(SMALLEST_Q)}"
