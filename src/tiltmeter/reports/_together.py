"""All runs of a page together: models side by side, and their figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from tiltmeter.reports._concepts import split
from tiltmeter.reports._groups import of_groups
from tiltmeter.reports._normalised import average_note, normalised_table
from tiltmeter.reports._published import PUBLISHED
from tiltmeter.reports._shown import Shown

if TYPE_CHECKING:
    from tiltmeter.reports.figures import Figure

__all__ = ["report_figures", "side_by_side", "together"]


def together(runs: Sequence[Shown], published: pl.DataFrame | None = None) -> pl.DataFrame:
    """Findings of all runs, and published ones behind them.

    A model that several runs are about is told apart by the run, and by the definition where these differ; of what was published only
    metrics that were measured too are kept, unless nothing was measured.

    Parameters
    ----------
    runs
        At least one.
    published
        Findings as `tiltmeter.reports.read_published` gives them.
    """
    several = Counter(model for one in runs for model in one.findings["model"].unique())
    definitions = {definition for one in runs for definition in one.findings["definition"].unique()}
    parts = []
    for i, one in enumerate(runs, 1):
        name = pl.col("model")
        if len(definitions) > 1:
            name = pl.format("{} ({})", name, "definition")
        named = one.findings.with_columns(
            model=pl.when(pl.col("model").is_in([model for model, times in several.items() if times > 1]))
            .then(pl.format("{} (run {})", name, pl.lit(i)))
            .otherwise(name)
        )
        parts.append(named)
    if published is not None:
        metrics = pl.concat([part.select("study", "metric").unique() for part in parts])
        behind = published.join(metrics, on=["study", "metric"], how="semi", maintain_order="left")
        taken = pl.concat([part["model"] for part in parts]).unique()
        same = pl.col("model").is_in(taken.implode())
        parts.append(behind.with_columns(model=pl.when(same).then(pl.format("{} (published)", "model")).otherwise("model")))
    return pl.concat(parts)


def report_figures(runs: Sequence[Shown], published: pl.DataFrame | None = None) -> list[Figure]:
    """Every figure of a page about these runs (see `write_page`), to be written by `write_figures`."""
    from tiltmeter.reports.figures import make_figures

    return make_figures(together(runs, published))


def side_by_side(findings: pl.DataFrame) -> dict[str, Any] | None:
    """Normalised key metrics of several models with their marks: the paper's Table 2.

    Returns
    -------
    Mapping with `models` (`name`, and whether it was `published`), `rows`: `study` (None: the average), `metric`, and `cells`, each
    with `value` and `mark`; and `note`, a sentence about the average. None where there are not two models with graded metrics.
    """
    graded = split(findings.filter(~of_groups(findings)))[1].filter(pl.col("key") & pl.col("context").is_null())
    graded = graded.filter(pl.col("normalised").is_not_null() | pl.col("mark").is_not_null())
    models = graded.select("model", published=pl.col("definition") == PUBLISHED).unique("model", maintain_order=True)
    if models.height < 2:
        return None
    marks = {key: mark for *key_, mark in graded.select("study", "metric", "model", "mark").iter_rows() for key in [tuple(key_)]}
    rows = [
        {
            "study": row["study"],
            "metric": row["metric"],
            "cells": [{"value": row[name], "mark": marks.get((row["study"], row["metric"], name))} for name in models["model"]],
        }
        for row in normalised_table(graded).iter_rows(named=True)
    ]
    return {"models": models.rename({"model": "name"}).to_dicts(), "rows": rows, "note": average_note(graded)}
