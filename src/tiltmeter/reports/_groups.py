"""Findings about groups a user chose: features measured, each group's mean, and disparity over the groups, raw and calibrated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import polars as pl

from tiltmeter.study import NAMED

__all__ = ["FOUR_FIFTHS", "PLAIN", "TOOL", "features_of", "group_views", "of_groups"]

SHADES = 5
"""Steps of a heat map's colour."""
TOOL = "baseline"
"""The generation that is no model's: source texts read by the same measure, so what differs in it is the bias of the tool."""
PLAIN = "none"
"""The role the others are compared with."""
FOUR_FIFTHS = 0.8
_RANGE = "range_mean_"
_CALIBRATED = "_calibrated"
_CLUSTER = "cluster_"
_RAW = {"range": "range_mean_{}", "ratio": "ratio_selection_rate_{}", "z": "max_abs_z_mean_{}", "dixon": "dixon_q_mean_{}"}
_SHOWN = {
    **_RAW,
    "calibrated": "range_mean_{}_calibrated",
    **{f"{name}_calibrated": f"{metric}_calibrated" for name, metric in _RAW.items() if name != "range"},
    "mean": "mean_{}",
}
"""What is shown of each generation and feature."""


FURTHER = (
    r"^(sentiment_(strict|weak)|cosine$|bleu$|rouge_l$|expected_maximum_|toxicity_probability|toxic_fraction|stereotypical_|cooccurrence_)"
)
"""Metrics of answers compared one by one, of many answers to a prompt, and of words."""
MOST = 40
"""Rows of them shown at most."""

Row = dict[str, Any]


class Found(NamedTuple):
    """The numbers of one study and model, by name."""

    rows: Mapping[tuple[str, str | None, str | None], Row]
    """(metric, subject, context) -> finding, with `about`: the group it is about, where it is about one."""
    subjects: list[str]


def of_groups(findings: pl.DataFrame) -> pl.Expr:
    """Which findings are of studies that compare groups."""
    subjects = findings.filter(pl.col("subject").is_not_null())["study"].unique()
    counted = findings.filter((pl.col("metric") == "associations") | pl.col("concept").is_not_null())["study"].unique()
    return pl.col("study").is_in(subjects.implode()) & ~pl.col("study").is_in(counted.implode())


def group_views(findings: pl.DataFrame) -> list[Row]:
    """For each study of one model what there is to show.

    Parameters
    ----------
    findings
        Of one model, all of studies that compare groups.

    Returns
    -------
    list
        Mappings with `study`, `whole` (a row for how the attempts ended), `total` (numbers in all), `generations`, `has_tool` (whether
        there are baselines), `further` (at most MOST rows of FURTHER metrics, the clearest first, and `every`, how many there are) and
        `features`: mappings with `feature`, `cluster` (whether it is membership in a cluster), `generations`, `rows` (of each generation,
        by the names of `_SHOWN`, a finding or None; and `verdict`, `verdict_calibrated` on the impact ratios, `extremes` (see
        `_extremes`)), `heat` and `heat_calibrated` (`subject`, and `row` and `shade` for each
        generation) and `shifts` (None without a role PLAIN, or without another: see `_shifts`).
    """
    return [_view(str(study[0]), mine) for study, mine in findings.group_by("study", maintain_order=True)]


def features_of(findings: pl.DataFrame, *, clusters: bool = False) -> list[str]:
    """Features whose disparity the findings hold, in their order; those that are membership in a cluster only on request."""
    names = findings.filter(pl.col("subject").is_null() & pl.col("metric").str.starts_with(_RANGE))["metric"].str.strip_prefix(_RANGE)
    found = names.filter(~names.str.ends_with(_CALIBRATED)).unique(maintain_order=True)
    return [name for name in found if clusters or not name.startswith(_CLUSTER)]


def _view(study: str, findings: pl.DataFrame) -> Row:
    over = findings.filter(pl.col("subject").is_null())
    features = features_of(over, clusters=True)
    ranges = over.filter(pl.col("metric").is_in([_RANGE + one for one in features]))
    found = _found(findings, features)
    every = [_feature(one, ranges.filter(pl.col("metric") == _RANGE + one)["context"].to_list(), found) for one in features]
    generations = ranges["context"].unique(maintain_order=True).to_list()
    answered = over.filter("key")
    further = findings.filter(pl.col("metric").str.contains(FURTHER))
    return {
        "study": study,
        "whole": answered.row(0, named=True) if answered.height else None,
        "total": findings.height,
        "generations": generations,
        "has_tool": TOOL in generations,
        "features": every,
        "further": further.sort("q", "p", nulls_last=True, maintain_order=True).head(MOST).to_dicts(),
        "every": further.height,
    }


def _found(findings: pl.DataFrame, features: Iterable[str]) -> Found:
    metrics = {metric.format(one) for one in features for metric in (*_SHOWN.values(), f"{_SHOWN['mean']}{_CALIBRATED}")}
    used = findings.filter(pl.col("metric").is_in(list(metrics)))
    chosen = used.select("model", "study", *NAMED, "estimate", "low", "high", "p", "q", "note")
    rows = {(row["metric"], row["subject"], row["context"]): row | {"about": _about(row["note"])} for row in chosen.iter_rows(named=True)}
    subjects = used["subject"].drop_nulls().unique().sort().to_list()
    return Found(rows, subjects)


def _feature(feature: str, contexts: list[str | None], found: Found) -> Row:
    rows = [_generation(feature, context, found) for context in contexts]
    calibrated = [row["generation"] for row in rows if row["calibrated"] is not None]
    return {
        "feature": feature,
        "cluster": feature.startswith(_CLUSTER),
        "generations": contexts,
        "rows": rows,
        "heat": _heat(f"mean_{feature}", contexts, found),
        "calibrated": calibrated,
        "heat_calibrated": _heat(f"mean_{feature}{_CALIBRATED}", calibrated, found),
        "shifts": _shifts(feature, rows, found),
    }


def _generation(feature: str, context: str | None, found: Found) -> Row:
    row: Row = {name: found.rows.get((metric.format(feature), None, context)) for name, metric in _SHOWN.items()}
    return {
        "generation": context,
        **row,
        "verdict": _verdict(row["ratio"]),
        "verdict_calibrated": _verdict(row["ratio_calibrated"]),
        "extremes": _extremes(f"mean_{feature}", context, found),
    }


def _extremes(metric: str, context: str | None, found: Found) -> tuple[str, str] | None:
    """The group with the largest and the one with the smallest value, or how many share it; None where all are equal."""
    rows = [row for name in found.subjects if (row := found.rows.get((metric, name, context))) and row["estimate"] is not None]
    values = [row["estimate"] for row in rows]
    if not values or max(values) == min(values):
        return None
    most, least = ([row["subject"] for row in rows if row["estimate"] == end] for end in (max(values), min(values)))
    told = [names[0] if len(names) == 1 else f"{len(names)} groups" for names in (most, least)]
    return told[0], told[1]


def _verdict(ratio: Row | None) -> str:
    """What the four-fifths rule says of an impact ratio."""
    if ratio is None or ratio["estimate"] is None or ratio["estimate"] >= FOUR_FIFTHS:
        return ""
    sure = ratio["high"] is not None and ratio["high"] < FOUR_FIFTHS
    return "below 0.8" if sure else "below 0.8, unsure"


def _heat(metric: str, contexts: list[str | None], found: Found) -> list[Row]:
    """Shades run from the smallest mean of all generations to the largest."""
    cells = {name: [found.rows.get((metric, name, context)) for context in contexts] for name in found.subjects}
    known = [row["estimate"] for rows in cells.values() for row in rows if row is not None and row["estimate"] is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)

    def shade(row: Row | None) -> int:
        if row is None or row["estimate"] is None or high <= low:
            return 0
        return min(SHADES, int((row["estimate"] - low) / (high - low) * (SHADES + 1)))

    return [{"subject": name, "cells": [{"row": row, "shade": shade(row)} for row in rows]} for name, rows in cells.items()]


def _shifts(feature: str, rows: list[Row], found: Found) -> Row | None:
    """What each role changes against PLAIN.

    Returns
    -------
    Mapping with `roles`, `whole` (for each role the change of `mean`, `range` and `ratio`), `groups` (`subject`, and for each role
    `change`, `shade`, and `apart`: whether the two intervals do not overlap, which is stricter than a test of the difference).
    """
    plain = next((row for row in rows if row["generation"] == PLAIN), None)
    others = [row for row in rows if row["generation"] not in (PLAIN, TOOL, None)]
    if plain is None or not others:
        return None
    whole = [{name: _change(plain[name], row[name])["change"] for name in ("mean", "range", "ratio")} for row in others]
    metric = f"mean_{feature}"
    groups = [
        (name, [_change(found.rows.get((metric, name, PLAIN)), found.rows.get((metric, name, row["generation"]))) for row in others])
        for name in found.subjects
    ]
    most = max((abs(cell["change"]) for _, cells in groups for cell in cells if cell["change"] is not None), default=0.0)
    for cell in (cell for _, cells in groups for cell in cells):
        cell["shade"] = round(SHADES * abs(cell["change"]) / most) if cell["change"] and most else 0
    return {"roles": [row["generation"] for row in others], "whole": whole, "groups": groups}


def _change(before: Row | None, after: Row | None) -> Row:
    if before is None or after is None or before["estimate"] is None or after["estimate"] is None:
        return {"change": None, "apart": False}
    bounds = (before["low"], before["high"], after["low"], after["high"])
    apart = None not in bounds and (after["low"] > before["high"] or after["high"] < before["low"])
    return {"change": after["estimate"] - before["estimate"], "apart": apart}


def _about(note: str | None) -> str:
    """The group a disparity is about, as its note says; nothing where it says none."""
    found = re.search(r"(?:^|; )about ((?:(?!; ).)+)", note or "")
    return found[1] if found else ""
