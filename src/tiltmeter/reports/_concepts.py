"""Findings about single concepts: how many there are of whom and where, the strongest, and what two models or settings share."""

from __future__ import annotations

import itertools
from typing import Any

import polars as pl

__all__ = ["TOP", "concept_views", "overlaps", "split"]

TOP = 10
"""Concepts shown of each list."""
SHADES = 5
"""Steps of a heat map's colour."""
_KEY = ("subject", "concept", "context")


def split(findings: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Findings of studies that report single concepts, and all others."""
    studies = findings.filter(pl.col("concept").is_not_null() | pl.col("subject").is_not_null())["study"].unique()
    about_concepts = pl.col("study").is_in(studies.implode())
    return findings.filter(about_concepts), findings.filter(~about_concepts)


def concept_views(findings: pl.DataFrame) -> list[dict[str, Any]]:
    """For each study of one model what there is to show.

    Parameters
    ----------
    findings
        Of one model, all of studies that report single concepts.

    Returns
    -------
    list
        Mappings with `study`, `whole` (the row of all together), `subjects` (rows of each subject), `contexts`, `heat` (subject, and
        count and shade for each context), `overall` (by subject how many hold over all contexts), `strongest` and `of_subject`
        (rows of single concepts, at most TOP each), `every` one of them, `total`.
    """
    return [_view(str(study[0]), mine) for study, mine in findings.group_by("study", maintain_order=True)]


def _view(study: str, findings: pl.DataFrame) -> dict[str, Any]:
    single = findings.filter(pl.col("concept").is_not_null())
    counts = findings.filter(pl.col("concept").is_null())
    whole = counts.filter(pl.col("subject").is_null() & pl.col("context").is_null())
    subjects = counts.filter(pl.col("subject").is_not_null() & pl.col("context").is_null())
    names = subjects["subject"].unique(maintain_order=True).to_list()
    # What holds over all contexts says most; where it was not tested, the contexts speak for themselves.
    first = single.filter(pl.col("context").is_null()) if single["context"].null_count() else single
    return {
        "study": study,
        "whole": whole.row(0, named=True) if whole.height else None,
        "subjects": [_of_subject(name, subjects) for name in names],
        "overall": dict(single.filter(pl.col("context").is_null()).group_by("subject").len().iter_rows()),
        **_heat(counts.filter(pl.col("context").is_not_null()), names),
        "strongest": _strongest(first),
        "of_subject": [
            (name, first.filter(pl.col("subject") == name).sort("estimate", descending=True).head(TOP).to_dicts()) for name in names
        ],
        "every": single.to_dicts(),
        "total": single.height,
    }


def _strongest(rows: pl.DataFrame) -> list[dict[str, Any]]:
    return rows.sort("estimate", descending=True).head(TOP).to_dicts()


def _of_subject(name: str, subjects: pl.DataFrame) -> dict[str, Any]:
    mine = subjects.filter(pl.col("subject") == name)
    return {"subject": name, "metrics": dict(mine.select("metric", "estimate").iter_rows())}


def _heat(cells: pl.DataFrame, names: list[str]) -> dict[str, Any]:
    """Counts by subject and context with a shade from 0 to SHADES."""
    contexts = cells["context"].unique(maintain_order=True).sort().to_list()
    count = {(subject, context): value for subject, context, value in cells.select("subject", "context", "estimate").iter_rows()}
    most = max((value for value in count.values() if value), default=0)
    rows = []
    for name in names:
        values = [count.get((name, context)) for context in contexts]
        shaded = [{"count": value, "shade": round(SHADES * value / most) if value and most else 0} for value in values]
        rows.append({"subject": name, "cells": shaded})
    return {"contexts": contexts, "heat": rows}


def overlaps(findings: pl.DataFrame) -> list[dict[str, Any]]:
    """What any two models or settings share of the concepts they attach to the same subjects.

    Returns
    -------
    list
        Mappings with `first`, `second` (labels), `shared`, `only_first`, `only_second` (counts), `jaccard`, `appears` and `vanishes`
        (the strongest of each, as rows).
    """
    single = findings.filter(pl.col("concept").is_not_null())
    sets = [((str(key[0]), str(key[1])), mine) for key, mine in single.group_by("model", "study", maintain_order=True)]
    found = []
    for (one, mine), (other, theirs) in itertools.combinations(sets, 2):
        if one != other and set(mine["subject"]) & set(theirs["subject"]):
            found.append(_overlap(one, mine, other, theirs))
    return found


def _overlap(one: tuple[str, str], mine: pl.DataFrame, other: tuple[str, str], theirs: pl.DataFrame) -> dict[str, Any]:
    shared = mine.join(theirs, on=_KEY, how="semi", nulls_equal=True).height
    gone = mine.join(theirs, on=_KEY, how="anti", nulls_equal=True)
    new = theirs.join(mine, on=_KEY, how="anti", nulls_equal=True)
    union = shared + gone.height + new.height
    return {
        "first": _label(one, other),
        "second": _label(other, one),
        "shared": shared,
        "only_first": gone.height,
        "only_second": new.height,
        "jaccard": shared / union if union else None,
        "vanishes": _strongest(gone),
        "appears": _strongest(new),
    }


def _label(one: tuple[str, str], other: tuple[str, str]) -> str:
    """Model and study, without what both share."""
    parts = [mine for mine, theirs in zip(one, other, strict=True) if mine != theirs]
    return " · ".join(parts or one)
