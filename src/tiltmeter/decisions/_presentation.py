"""Report blocks for decisions: what differs between groups, rates with impact ratios, and matched sets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import polars as pl
from polars import DataFrame, String, col, lit, when

from tiltmeter import stats
from tiltmeter._quantities import interval, interval_name, number, quantity
from tiltmeter.blocks import (
    Block,
    Column,
    Details,
    Heading,
    Headline,
    IntervalRow,
    Intervals,
    Table,
    Text,
    named_model,
)
from tiltmeter.comparisons import (
    FLIP_RATE,
    FOUR_FIFTHS_RULE,
    IMPACT_RATIO,
    RANGE,
    SHRUNK,
    is_about_missing,
)
from tiltmeter.decisions._findings import MEAN, SELECTION_RATE, TOO_FEW
from tiltmeter.schema import SHOWN_BELOW
from tiltmeter.study import ReportView

POWER: Final = 0.8
"""Probability with which a difference is shown that "would be seen"."""
MOST_NAMED: Final = 3
"""Largest number of groups whose rates are in the detail of a headline."""
POPULATION: Final = (
    "The numbers describe these decisions. A difference in rates may have other causes than the group: rows"
    " of different groups may differ in what the decision is about. Rows that differ in the group only"
    " (--item) exclude this."
)
OF_SETS: Final = (
    "The numbers describe decisions about matched sets, whose rows differ in the group only: within a set,"
    " nothing but the group and chance can change a decision."
)
IN_WORDS: Final = (
    "Selection rate: share of a group's decisions that are positive. Impact ratio: the group's rate divided"
    " by the reference's, or by the highest rate; its interval is about the highest true rate, whichever"
    " group has it. Four-fifths: whether the ratio is at least 0.8, a rule of thumb of the Uniform Guidelines"
    " on Employee Selection Procedures (29 CFR 1607.4 D), answered only if the whole interval agrees. Groups"
    f" with fewer than {stats.FEWEST_ITEMS} rows are listed, and not compared."
)
_KEYS: Final = ("model", "part", "attribute")


def present(view: ReportView) -> list[Block]:
    """Return the blocks of decisions: headlines, tests, rates by group, and matched sets."""
    findings = view.findings.filter(~is_about_missing())
    is_intersection = col.attribute.str.contains(",", literal=True)
    tests = findings.filter("key").sort(is_intersection, "q", nulls_last=True, maintain_order=True)
    models = findings["model"].unique(maintain_order=True).to_list()
    blocks: list[Block] = [_headline(model, tests, findings, view) for model in models]
    if tests.height:
        blocks.append(_tests_table(tests, findings, view))
    for part in findings["part"].unique(maintain_order=True):
        of_part = findings.filter(part=part)
        blocks.append(Heading(view.titles.get(part, part)))
        for attribute in of_part["attribute"].drop_nulls().unique(maintain_order=True):
            of_attribute = of_part.filter(attribute=attribute)
            blocks.append(_rates_chart(_label(view, part), attribute, of_attribute))
            blocks += _ratios_chart(_label(view, part), attribute, of_attribute)
    is_matched = findings.filter(col.metric.is_in([FLIP_RATE, RANGE])).height > 0
    words = OF_SETS if is_matched else POPULATION
    blocks.append(Details("What the numbers mean", [Text(words), Text(IN_WORDS)]))
    return blocks


def _label(view: ReportView, part: str) -> str:
    """Return what the outcome of a part is called."""
    return view.titles.get(part, part).partition(", by ")[0]


# -- headlines -----------------------------------------------------------------------------------------------


def _headline(model: str, tests: DataFrame, findings: DataFrame, view: ReportView) -> Headline:
    """Return what differs between groups in the decisions of one model, or that nothing is shown."""
    of_model = tests.filter(model=model)
    shown = of_model.filter(col.q < SHOWN_BELOW)
    if shown.is_empty():
        text = _nothing_shown(of_model, view)
        details = " ".join(filter(None, [_means_in_words(of_model, findings, view), _unseen(of_model)]))
        return Headline(f"{named_model(model)}: {text}", details, model=model)
    first = shown.row(0, named=True)
    also = f"; also {_named(shown[1:], view)}" if shown.height > 1 else ""
    sentence = _difference_in_words(first, findings, view)
    detail = _detail(first, findings)
    unshown = of_model.filter(~(col.q < SHOWN_BELOW).fill_null(value=False))
    if unshown.height:
        words = _nothing_shown(unshown, view)
        detail += f" {words[0].upper()}{words[1:]}."
    return Headline(f"{named_model(model)}: {sentence}{also}", detail, model=model)


def _difference_in_words(row: dict[str, Any], findings: DataFrame, view: ReportView) -> str:
    """Return a difference in words: "hired differs by sex: female 31%, male 48%"."""
    means = _means_of(row, findings)
    values = {name: _value(means[name]) for name in (row["group"], row["group_2"])}
    lowest, highest = sorted(values, key=lambda name: means[name]["estimate"])
    between = f"{lowest} {values[lowest]}, {highest} {values[highest]}"
    return f"{_label(view, row['part'])} differs by {_words(row['attribute'])}: {between}"


def _means_in_words(tests: DataFrame, findings: DataFrame, view: ReportView) -> str:
    """Return the rates or means of the first attribute if it has few groups; empty otherwise."""
    if tests.is_empty():
        return ""
    row = tests.row(0, named=True)
    means = _means_of(row, findings)
    if len(means) > MOST_NAMED:
        return ""
    values = ", ".join(f"{name} {_value(mean)}" for name, mean in means.items())
    return f"{_label(view, row['part'])} by {_words(row['attribute'])}: {values}."


def _detail(row: dict[str, Any], findings: DataFrame) -> str:
    """Return the difference with its interval, and the lowest impact ratio."""
    size = quantity(abs(row["estimate"]), unit=row["unit"])
    low, high = sorted((abs(row["low"]), abs(row["high"]))) if row["low"] is not None else (None, None)
    sentence = f"Difference {size} ({interval_name(row['level'])} {interval(low, high, row['unit'])})."
    ratios = _same(findings, row).filter(metric=IMPACT_RATIO).sort("estimate", nulls_last=True)
    if ratios.is_empty():
        return sentence
    lowest = ratios.row(0, named=True)
    of = f" to {lowest['group_2']}" if lowest["group_2"] else ""
    return f"{sentence} Impact ratio of {lowest['group']}{of}: {_ratio(lowest)}; {lowest['note']}."


def _nothing_shown(tests: DataFrame, view: ReportView) -> str:
    """Return that no difference is shown, for which outcomes and attributes."""
    if tests.is_empty():
        return f"too few rows for a comparison; each group needs {stats.FEWEST_ITEMS}"
    return f"no difference shown in {_named(tests, view)}"


def _named(tests: DataFrame, view: ReportView) -> str:
    """Return the outcomes and attributes of tests in words: "hired by sex, by race; salary by sex"."""
    of_outcomes: dict[str, list[str]] = {}
    for row in tests.iter_rows(named=True):
        label = _label(view, row["part"])
        of_outcomes.setdefault(label, []).append(f"by {_words(row['attribute'])}")
    return "; ".join(f"{label} {', '.join(attributes)}" for label, attributes in of_outcomes.items())


def _words(attribute: str) -> str:
    """Return an attribute in words: "sex × race" for their intersections."""
    return attribute.replace(",", " × ")


def _unseen(tests: DataFrame) -> str:
    """Return which differences of rates would not have been seen."""
    rates = tests.filter(col.unit == "difference").drop_nulls(["low", "high"])
    if rates.is_empty():
        return ""
    half = float(((rates["high"] - rates["low"]) / 2).max())  # type: ignore[arg-type]
    level = float(rates["level"][0])
    widths = stats.two_sided_z(level) + stats.two_sided_z(2 * POWER - 1)
    smallest = half / stats.two_sided_z(level) * widths
    return f"Differences under about {math.ceil(100 * smallest)} points would probably not be seen."


# -- tables and charts ---------------------------------------------------------------------------------------


def _tests_table(tests: DataFrame, findings: DataFrame, view: ReportView) -> Table:
    """Return one row per outcome and attribute: the difference with its test, and the lowest impact ratio."""
    rows = tests.rows(named=True)
    ratios = [
        _same(findings, row).filter(metric=IMPACT_RATIO).sort("estimate", nulls_last=True).head(1)
        for row in rows
    ]
    lowest = [ratio.row(0, named=True) if ratio.height else None for ratio in ratios]
    columns = [
        Column("by", [_words(row["attribute"]) for row in rows], "name"),
        Column("groups", [f"{row['group']} − {row['group_2']}" for row in rows], "text"),
        Column("difference", [quantity(row["estimate"], unit=row["unit"]) for row in rows], "quantity"),
        Column(
            interval_name(rows[0]["level"]),
            [interval(row["low"], row["high"], row["unit"]) for row in rows],
            "quantity",
        ),
        Column("q", [row["q"] for row in rows], "probability"),
    ]
    if any(lowest):
        ratios_in_words = [None if ratio is None else _ratio(ratio) for ratio in lowest]
        columns.append(Column("lowest impact ratio", ratios_in_words, "quantity", rank=1))
        columns.append(Column("four-fifths", [_four_fifths(ratio) for ratio in lowest], "name"))
    lead = [] if tests["part"].n_unique() == 1 else [Column("outcome", _labels(rows, view), "name")]
    if tests["model"].n_unique() > 1:
        lead.insert(0, Column("model", [named_model(row["model"]) for row in rows], "name", whole=True))
    of_one = f" in {_label(view, rows[0]['part'])}" if tests["part"].n_unique() == 1 else ""
    return Table(f"Differences{of_one} between groups", [*lead, *columns], lead=len(lead) + 1)


def _labels(rows: Sequence[dict[str, Any]], view: ReportView) -> list[str]:
    """Return what the outcomes of findings are called."""
    return [_label(view, row["part"]) for row in rows]


def _rates_chart(label: str, attribute: str, findings: DataFrame) -> Intervals:
    """Return the rates or means of the groups of an attribute that are compared, highest first.

    The note names the groups that have too few rows.
    """
    is_rate = findings.filter(metric=SELECTION_RATE).height > 0
    means = findings.filter(metric=SELECTION_RATE if is_rate else MEAN)
    is_small = col.note.str.starts_with(TOO_FEW).fill_null(value=False)
    compared = means.filter(~is_small).sort(
        "model", "estimate", descending=[False, True], nulls_last=True, maintain_order=True
    )
    shrunk_rates = findings.filter(metric=f"{SELECTION_RATE}{SHRUNK}")
    shrunk = {_key(row): row for row in shrunk_rates.iter_rows(named=True)}
    further = [Column("rows", compared["answered"].to_list(), "count")]
    if shrunk:
        values = [shrunk.get(_key(row)) for row in compared.iter_rows(named=True)]
        in_percent = [None if row is None else quantity(row["estimate"], unit="share") for row in values]
        further.append(Column("shrunk towards the attributes", in_percent, "quantity", rank=1))
    small = [_small_group(row, shrunk.get(_key(row))) for row in means.filter(is_small).iter_rows(named=True)]
    too_few = f"Fewer than {stats.FEWEST_ITEMS} rows, not compared: {'; '.join(small)}." if small else ""
    return Intervals(
        title=f"{label} by {_words(attribute)}",
        rows=_interval_rows(compared, "share" if is_rate else "score"),
        level=_level(compared),
        further=further,
        note=too_few,
        names=("model", _words(attribute)),
        about=f"{'Selection rate' if is_rate else 'Mean'} of each group; {means['answered'].sum():,} rows",
        axis=f"{label} (%)" if is_rate else label,
    )


def _ratios_chart(label: str, attribute: str, findings: DataFrame) -> list[Intervals]:
    """Return the impact ratios of an attribute on the scale of the four-fifths rule; none of numbers."""
    ratios = findings.filter(metric=IMPACT_RATIO)
    if ratios.is_empty():
        return []
    reference = ratios["group_2"][0]
    to = "the highest rate" if reference is None else reference
    if reference is not None:
        ratios = pl.concat([ratios, _ratios_of_reference(ratios, reference)])
    ratios = ratios.sort("model", "estimate", descending=[False, True], nulls_last=True, maintain_order=True)
    is_finite = ratios["high"].is_finite()
    bounded = ratios.with_columns(high=when(is_finite).then("high"), low=when(is_finite).then("low"))
    answers = [_four_fifths(row) for row in ratios.iter_rows(named=True)]
    further = [Column("at least four fifths", answers, "name")]
    if not is_finite.all():
        further.append(Column("interval", [_ratio(row) for row in ratios.iter_rows(named=True)], "quantity"))
    rows = [row._replace(null_value=stats.FOUR_FIFTHS) for row in _interval_rows(bounded, "quotient")]
    return [
        Intervals(
            title=f"Impact ratios of {label} by {_words(attribute)}, to {to}",
            rows=rows,
            level=_level(ratios),
            further=further,
            names=("model", _words(attribute)),
            about=f"Selection rate of each group divided by {to}",
            axis="impact ratio",
            null_words="four fifths",
        )
    ]


def _ratios_of_reference(ratios: DataFrame, reference: str) -> DataFrame:
    """Return the ratio of the reference to itself for each model."""
    one = lit(1.0)
    rows = ratios.unique("model", keep="first", maintain_order=True)
    return rows.with_columns(group=lit(reference), estimate=one, low=one, high=one, note=lit(None, String))


def _interval_rows(findings: DataFrame, unit: str) -> list[IntervalRow]:
    """Return findings of groups as rows of a chart, with a panel for each model if there are several."""
    has_several = findings["model"].n_unique() > 1
    return [
        IntervalRow(
            panel=named_model(row["model"]) if has_several else "",
            label=row["group"],
            estimate=row["estimate"],
            low=row["low"],
            high=row["high"],
            unit=unit,
        )
        for row in findings.iter_rows(named=True)
    ]


def _small_group(row: dict[str, Any], shrunk: dict[str, Any] | None) -> str:
    """Return a group with too few rows, with its value: "men, Native (4 rows: 0%, shrunk 4%)"."""
    value = quantity(row["estimate"], unit=row["unit"])
    if shrunk is not None:
        value += f", shrunk {quantity(shrunk['estimate'], unit='share')}"
    return f"{row['group']} ({row['answered']} row{'' if row['answered'] == 1 else 's'}: {value})"


def _level(findings: DataFrame) -> float | None:
    """Return the confidence level that all findings have; None if they differ."""
    levels = findings["level"].unique()
    return levels[0] if len(levels) == 1 else None


# -- parts of findings ---------------------------------------------------------------------------------------


def _same(findings: DataFrame, row: dict[str, Any]) -> DataFrame:
    """Return the findings of the same model, part and attribute."""
    return findings.filter(**{key: row[key] for key in _KEYS})


def _means_of(row: dict[str, Any], findings: DataFrame) -> dict[str, dict[str, Any]]:
    """Return the rates or means of the groups by name."""
    means = _same(findings, row).filter(col.metric.is_in([SELECTION_RATE, MEAN]))
    return {mean["group"]: mean for mean in means.iter_rows(named=True)}


def _key(row: dict[str, Any]) -> tuple[str, str]:
    """Return the model and the group of a finding."""
    return row["model"], row["group"]


def _value(mean: dict[str, Any]) -> str:
    """Return a rate in percent, or a mean."""
    return quantity(mean["estimate"], mean["low"], mean["high"], mean["unit"])


def _ratio(row: dict[str, Any]) -> str:
    """Return an impact ratio with its interval: "0.65 (0.52 to 0.81)"."""
    ends = f"{number(row['low'], 2)} to {number(row['high'], 2)}"
    return f"{number(row['estimate'], 2)} ({ends})"


def _four_fifths(row: dict[str, Any] | None) -> str | None:
    """Return whether an impact ratio is at least four fifths: yes, no, or cannot be told."""
    if row is None or row["note"] is None:
        return None
    return str(row["note"]).removeprefix(FOUR_FIFTHS_RULE)
