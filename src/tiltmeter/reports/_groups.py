"""Findings about groups a user chose: disparity over them for every generation and feature, and each group's mean."""

from __future__ import annotations

from typing import Any

import polars as pl

__all__ = ["group_views", "of_groups"]

SHADES = 5
"""Steps of a heat map's colour."""
_RANGE = "range_mean_"
_CALIBRATED = "_calibrated"
_SHOWN = {
    "range": "range_mean_{}",
    "calibrated": "range_mean_{}_calibrated",
    "ratio": "ratio_selection_rate_{}",
    "z": "max_abs_z_mean_{}",
    "dixon": "dixon_q_mean_{}",
}


FURTHER = (
    r"^(sentiment_(strict|weak)|cosine$|bleu$|rouge_l$|expected_maximum_|toxicity_probability|toxic_fraction|stereotypical_|cooccurrence_)"
)
"""Metrics of answers compared one by one, of many answers to a prompt, and of words."""
MOST = 40
"""Rows of them shown at most."""


def of_groups(findings: pl.DataFrame) -> pl.Expr:
    """Which findings are of studies that compare groups."""
    subjects = findings.filter(pl.col("subject").is_not_null())["study"].unique()
    counted = findings.filter((pl.col("metric") == "associations") | pl.col("concept").is_not_null())["study"].unique()
    return pl.col("study").is_in(subjects.implode()) & ~pl.col("study").is_in(counted.implode())


def group_views(findings: pl.DataFrame) -> list[dict[str, Any]]:
    """For each study of one model what there is to show.

    Parameters
    ----------
    findings
        Of one model, all of studies that compare groups.

    Returns
    -------
    list
        Mappings with `study`, `whole` (a row for how the attempts ended), `total` (numbers in all), `further` (at most MOST rows
        of FURTHER metrics, the clearest first, and `every`, how many there are) and `features`: mappings with
        `feature`, `rows` (of each generation, by the names of `_SHOWN`, a finding or None), `generations`, `heat` (`subject`, and the
        finding and shade for each generation).
    """
    return [_view(str(study[0]), mine) for study, mine in findings.group_by("study", maintain_order=True)]


def _view(study: str, findings: pl.DataFrame) -> dict[str, Any]:
    over = findings.filter(pl.col("subject").is_null())
    features = [name.removeprefix(_RANGE) for name in over["metric"].unique(maintain_order=True) if name.startswith(_RANGE)]
    every = [_feature(one, over, findings) for one in features if not one.endswith(_CALIBRATED)]
    answered = over.filter("key")
    whole = answered.row(0, named=True) if answered.height else None
    further = findings.filter(pl.col("metric").str.contains(FURTHER))
    clearest = further.sort("q", "p", nulls_last=True, maintain_order=True).head(MOST)
    return {
        "study": study,
        "whole": whole,
        "total": findings.height,
        "features": every,
        "further": clearest.to_dicts(),
        "every": further.height,
    }


def _feature(feature: str, over: pl.DataFrame, findings: pl.DataFrame) -> dict[str, Any]:
    contexts = over.filter(pl.col("metric") == _RANGE + feature)["context"].unique(maintain_order=True).to_list()
    rows = []
    for context in contexts:
        here = over.filter(pl.col("context").eq_missing(context))
        found = {name: _one(here.filter(pl.col("metric") == metric.format(feature))) for name, metric in _SHOWN.items()}
        rows.append({"generation": context, **found})
    means = findings.filter((pl.col("metric") == f"mean_{feature}") & pl.col("subject").is_not_null())
    return {"feature": feature, "rows": rows, "generations": contexts, "heat": _heat(means, contexts)}


def _one(rows: pl.DataFrame) -> dict[str, Any] | None:
    return rows.row(0, named=True) if rows.height else None


def _heat(means: pl.DataFrame, contexts: list[str | None]) -> list[dict[str, Any]]:
    """Shades run from the smallest mean of all generations to the largest."""
    low, high = means["estimate"].min(), means["estimate"].max()
    span = (high - low) if isinstance(low, float) and isinstance(high, float) else 0.0
    rows = []
    for (subject,), mine in means.sort("subject", maintain_order=True).group_by("subject", maintain_order=True):
        by_context = {row["context"]: row for row in mine.iter_rows(named=True)}
        cells = []
        for context in contexts:
            row = by_context.get(context)
            known = row is not None and row["estimate"] is not None and span > 0
            shade = min(SHADES, int((row["estimate"] - low) / span * (SHADES + 1))) if known and row is not None else 0
            cells.append({"row": row, "shade": shade})
        rows.append({"subject": subject, "cells": cells})
    return rows
