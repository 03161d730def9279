"""Findings about single concepts: how many there are of whom and where, and the strongest."""

from __future__ import annotations

from typing import Any

import polars as pl

from tiltmeter.reports._overlaps import MEANS, by_strength, overlaps
from tiltmeter.reports._shown import NOTHING_HELD

__all__ = ["TOP", "concept_views", "held_once", "overlaps", "split"]

TOP = 10
"""Concepts shown of each list."""
FEW = 5
"""Concepts shown of each identity and context."""
SHADES = 5
"""Steps of a heat map's colour."""

Row = dict[str, Any]


def split(findings: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Findings of studies that report single concepts, and all others."""
    studies = findings.filter(pl.col("concept").is_not_null() | pl.col("subject").is_not_null())["study"].unique()
    about_concepts = pl.col("study").is_in(studies.implode())
    return findings.filter(about_concepts), findings.filter(~about_concepts)


def held_once(definitional: pl.DataFrame) -> list[Row]:
    """One row for each identity and concept of one study: that over all contexts, else the strongest; with `counts`, from its note."""
    first = by_strength(definitional).with_columns(whole=pl.col("context").is_null()).sort("whole", descending=True, maintain_order=True)
    counts = pl.col("note").str.split("; ").list.head(2).list.join("; ")
    return by_strength(first.unique(("subject", "concept"), keep="first", maintain_order=True)).with_columns(counts=counts).to_dicts()


def concept_views(findings: pl.DataFrame, definitional: pl.DataFrame = NOTHING_HELD) -> list[Row]:
    """For each study of one model what there is to show.

    Parameters
    ----------
    findings
        Of one model, all of studies that report single concepts.
    definitional
        Of the same model, what is held back.

    Returns
    -------
    list
        Mappings with `study`, `whole` (the row of all together), `subjects` (of each `subject` its `metrics` by name, and `row`, that of
        its count), `mean` (which of MEANS they hold, None without), `contexts`, `heat` (subject, and count and shade for each context),
        `overall` (by subject how many hold over all contexts), `strongest` and `of_subject` (rows of single concepts, at most TOP each),
        `of_context` (for each context and subject the strongest in it, at most FEW each, as pairs of concept and estimate), `single` (all
        of them, as a table), `total`, `held` (rows of what is held back, as `held_once` gives them) and `missing` (rows about the share of
        lists that could not be made, that of all first).
    """
    groups = findings.group_by("study", maintain_order=True)
    return [_view(str(study[0]), mine, definitional.filter(pl.col("study") == study[0])) for study, mine in groups]


def _view(study: str, findings: pl.DataFrame, definitional: pl.DataFrame) -> Row:
    single = findings.filter(pl.col("concept").is_not_null())
    counts = findings.filter(pl.col("concept").is_null())
    whole = counts.filter(pl.col("subject").is_null() & pl.col("context").is_null())
    subjects = counts.filter(pl.col("subject").is_not_null() & pl.col("context").is_null())
    names = subjects["subject"].unique(maintain_order=True).to_list()
    # What holds over all contexts says most; where it was not tested, the contexts speak for themselves.
    first = by_strength(single.filter(pl.col("context").is_null()) if single["context"].null_count() else single)
    metrics = subjects["metric"].unique().to_list()
    cells = counts.filter(pl.col("context").is_not_null())
    contexts = cells["context"].unique().sort().to_list()
    return {
        "study": study,
        "whole": whole.row(0, named=True) if whole.height else None,
        "subjects": [_of_subject(name, subjects) for name in names],
        "mean": next((name for name in MEANS if name in metrics), None),
        "overall": dict(single.filter(pl.col("context").is_null()).group_by("subject").len().iter_rows()),
        "contexts": contexts,
        "heat": _heat(cells, names, contexts),
        "strongest": first.head(TOP).to_dicts(),
        "of_subject": [(name, first.filter(pl.col("subject") == name).head(TOP).to_dicts()) for name in names],
        "of_context": _of_context(single, names, contexts),
        "single": single,
        "total": single.height,
        "held": held_once(definitional),
        "missing": counts.filter(pl.col("metric") == "missing").sort("subject", nulls_last=False).to_dicts(),
    }


def _of_subject(name: str, subjects: pl.DataFrame) -> Row:
    mine = subjects.filter(pl.col("subject") == name)
    count = mine.filter(pl.col("metric") == "associations")
    return {
        "subject": name,
        "metrics": dict(mine.select("metric", "estimate").iter_rows()),
        "row": count.row(0, named=True) if count.height else None,
    }


def _heat(cells: pl.DataFrame, names: list[str], contexts: list[str]) -> list[Row]:
    """Counts by subject and context with a shade from 0 to SHADES."""
    count = {(subject, context): value for subject, context, value in cells.select("subject", "context", "estimate").iter_rows()}
    most = max((value for value in count.values() if value), default=0)
    rows = []
    for name in names:
        values = [count.get((name, context)) for context in contexts]
        shaded = [{"count": value, "shade": round(SHADES * value / most) if value and most else 0} for value in values]
        rows.append({"subject": name, "cells": shaded})
    return rows


def _of_context(single: pl.DataFrame, names: list[str], contexts: list[str]) -> list[tuple[str, list[list[tuple[str, float]]]]]:
    """For each context, in the order of `names`, the strongest of each subject."""
    first = by_strength(single.filter(pl.col("context").is_not_null())).group_by("context", "subject", maintain_order=True).head(FEW)
    cells: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for context, subject, concept, estimate in first.select("context", "subject", "concept", "estimate").iter_rows():
        cells.setdefault((context, subject), []).append((concept, estimate))
    return [(context, [cells.get((context, name), []) for name in names]) for context in contexts]
