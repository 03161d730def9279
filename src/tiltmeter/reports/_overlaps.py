"""What models and settings share of the concepts they attach to the same identities."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import polars as pl

__all__ = ["MEANS", "by_strength", "overlaps"]

MEANS = ("mean_effect", "mean_score")
"""Mean strength of those reported, by the definition in use."""
TOP = 5
"""Concepts shown that only one of two has."""
_KEY = ("subject", "concept", "context")


def by_strength(rows: pl.DataFrame) -> pl.DataFrame:
    """The strongest first; those of equal strength by name."""
    return rows.sort("estimate", "subject", "concept", "context", descending=[True, False, False, False], nulls_last=True)


class Told(NamedTuple):
    """What one model tells in one setting."""

    model: str
    study: str
    counts: pl.DataFrame
    """Findings about identities as a whole: `metric`, `subject`, `estimate`."""
    single: pl.DataFrame


def overlaps(findings: pl.DataFrame) -> list[dict[str, Any]]:
    """What models and settings that tell of the same identities share, a view for each set of identities.

    Parameters
    ----------
    findings
        Of any runs and models. A model that stands there twice with one study is left out: which is which cannot be told.

    Returns
    -------
    list
        Mappings with `subjects`, `mean` (which of MEANS), `sets` (of each model and setting `label`, `total`, and `cells`: the metrics by
        name for each subject), `jaccard` (a row for each set of its share with each other one; None where neither has any) and `pairs`:
        of sets that differ in model or in setting, not in both, `first`, `second` (labels), `shared`, `only_first`, `only_second`
        (counts), `jaccard`, `appears` and `vanishes` (the strongest of each, as rows).
    """
    families: dict[tuple[str, ...], list[Told]] = {}
    concepts = findings.filter((pl.col("metric") == "associations") | pl.col("concept").is_not_null())["study"].unique()
    chosen = findings.filter(pl.col("study").is_in(concepts.implode()))
    for (model, study), mine in chosen.group_by("model", "study", maintain_order=True):
        counts = mine.filter(pl.col("concept").is_null() & pl.col("subject").is_not_null() & pl.col("context").is_null())
        if not counts.select("metric", "subject").is_duplicated().any():
            single = mine.filter(pl.col("concept").is_not_null())
            told = Told(str(model), str(study), counts.select("metric", "subject", "estimate"), single)
            families.setdefault(tuple(counts["subject"].unique().sort()), []).append(told)
    return [_family(list(subjects), sets) for subjects, sets in families.items() if len(sets) > 1]


def _family(subjects: list[str], sets: list[Told]) -> dict[str, Any]:
    labels = _labels(sets)
    jaccard: list[list[float | None]] = [[None] * len(sets) for _ in sets]
    pairs = []
    for (i, one), (j, other) in itertools.combinations(enumerate(sets), 2):
        pair = _pair(labels[i], one.single, labels[j], other.single)
        jaccard[i][j] = jaccard[j][i] = pair["jaccard"]
        if one.model == other.model or one.study == other.study:
            pairs.append(pair)
    metrics = {metric for one in sets for metric in one.counts["metric"]}
    return {
        "subjects": subjects,
        "mean": next((name for name in MEANS if name in metrics), None),
        "sets": [_set(label, one, subjects) for label, one in zip(labels, sets, strict=True)],
        "jaccard": jaccard,
        "pairs": pairs,
    }


def _labels(sets: list[Told]) -> list[str]:
    """Model and setting of each, without what all of them share."""
    parts = [(one.model, one.study.rpartition("/")[2]) for one in sets]
    told = [len({part[i] for part in parts}) > 1 for i in (0, 1)]
    return [" · ".join(name for name, differs in zip(part, told, strict=True) if differs) for part in parts]


def _set(label: str, one: Told, subjects: list[str]) -> dict[str, Any]:
    cells: dict[str, dict[str, float | None]] = {subject: {} for subject in subjects}
    for metric, subject, estimate in one.counts.iter_rows():
        cells[subject][metric] = estimate
    return {"label": label, "total": one.single.height, "cells": [cells[subject] for subject in subjects]}


def _pair(first: str, mine: pl.DataFrame, second: str, theirs: pl.DataFrame) -> dict[str, Any]:
    shared = mine.join(theirs, on=_KEY, how="semi", nulls_equal=True).height
    gone = mine.join(theirs, on=_KEY, how="anti", nulls_equal=True)
    new = theirs.join(mine, on=_KEY, how="anti", nulls_equal=True)
    union = shared + gone.height + new.height
    return {
        "first": first,
        "second": second,
        "shared": shared,
        "only_first": gone.height,
        "only_second": new.height,
        "jaccard": shared / union if union else None,
        "vanishes": by_strength(gone).head(TOP).to_dicts(),
        "appears": by_strength(new).head(TOP).to_dicts(),
    }
