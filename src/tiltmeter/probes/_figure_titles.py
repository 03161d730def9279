"""Titles and subtitles of the figures of probes: what they show, of which questions, with how many items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from polars import DataFrame, Expr, col

from tiltmeter._quantities import interval_name
from tiltmeter.blocks import MARKS, UNGRADED
from tiltmeter.schema import SHOWN_BELOW

MOST_NAMED: Final = 4
"""Largest number of models that a title names; of more, it names the first and the last."""
SCALE: Final = "Panels of one unit have the same scale."


def shows_bias() -> Expr:
    """Return whether a marked finding states bias: by its test, or by its mark if it has no test."""
    by_test = (col.q < SHOWN_BELOW) & ~col.mark.is_in([MARKS[0], UNGRADED])
    by_mark = col.p.is_null() & col.mark_best.is_in(MARKS[1:])
    return by_test.fill_null(value=False) | by_mark.fill_null(value=False)


def bias_by_model(key: DataFrame, subject: str) -> str:
    """Return in how many tests each model shows bias, the models in the order of `key`; empty without marks.

    Parameters
    ----------
    key
        Key metrics with their marks.
    subject
        What the tests are about, such as "outcome disparity".
    """
    marked = key.filter("measured", col.mark.is_not_null() & (col.mark != UNGRADED))
    counts = marked.group_by("model", maintain_order=True).agg(
        biased=shows_bias().sum(), tests=col.metric.len()
    )
    counts = counts.sort("biased", descending=True, maintain_order=True)
    phrases = [f"{model} in {biased} of {tests}" for model, biased, tests in counts.rows()]
    if not phrases:
        return ""
    model, biased, tests = counts.row(0)
    noun = "test" if tests == 1 else "tests"
    first = f"{model} shows bias in {biased} of {tests} {noun} of {subject}"
    return _listed([first, *phrases[1:]])


def favoured_by_model(signed: DataFrame, is_men: Expr, is_women: Expr) -> str:
    """Return how many comparisons favour each gender, for each model; the model with the most first."""
    counts = signed.group_by("model", maintain_order=True).agg(
        men=is_men.sum(), women=is_women.sum(), of=col.metric.len()
    )
    counts = counts.sort(col.men + col.women, descending=True, maintain_order=True)
    model, men, women, of = counts.row(0)
    first = f"{model} favours men in {men} and women in {women} of {of} comparisons"
    others = [f"{model} in {men} and {women} of {of}" for model, men, women, of in counts.rows()[1:]]
    return _listed([first, *others])


def distances_by_model(averages: Mapping[str, float | None]) -> str:
    """Return the average distance from no bias of each model, the largest first; empty without averages."""
    known = {model: average for model, average in averages.items() if average is not None}
    if not known:
        return ""
    ordered = sorted(known.items(), key=lambda item: item[1], reverse=True)
    phrases = [f"{model} {average:.2f}" for model, average in ordered]
    return f"Distance from no bias, on average: {_listed(phrases)}"


def about_intervals(key: DataFrame, level: float | None) -> str:
    """Return the subtitle of a figure of estimates: intervals, population and number of items."""
    return f"Value (dot) and {interval_name(level)} (line){population_of(key)}. {items_of(key)}"


def population_of(key: DataFrame) -> str:
    """Return the population that intervals refer to, if it is the same for all, with a preposition."""
    kinds = key["estimand"].drop_nulls().str.extract("^([^,]*)").unique(maintain_order=True)
    if kinds.is_empty():
        return ""
    if len(kinds) == 1:
        return f" for {kinds[0]}"
    is_about_others = kinds.str.contains("like these").all()
    return " for questions, names or texts like these" if is_about_others else ""


def items_of(key: DataFrame) -> str:
    """Return the number of items of each test as a sentence; empty if it is unknown."""
    counts: list[int] = key.filter("measured")["items"].drop_nulls().to_list()
    if not counts:
        return ""
    smallest, largest = min(counts), max(counts)
    span = f"{smallest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"
    return f"{span} items per test and model."


def _listed(phrases: Sequence[str]) -> str:
    """Return phrases separated by commas; of many, the first and the last with the number left out."""
    if len(phrases) <= MOST_NAMED:
        return ", ".join(phrases)
    return f"{phrases[0]}, {phrases[-1]} ({len(phrases) - 2} models in between)"
