"""The exact result of a benchmark of the simulated model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from tiltmeter.benchmarks._simulation import planted_tones
from tiltmeter.models.sim import tone_texts

Values = NDArray[np.float64]
Score = Callable[[Sequence[str]], Values]


def true_tones(
    design: pl.DataFrame,
    dials: Mapping[str, float],
    *,
    by: Sequence[str] = ("concept",),
    score: Score | None = None,
    standard: float | None = None,
) -> pl.DataFrame:
    """Return exact means of the readable answers of the simulated model: all answers are enumerated.

    `design` has `prompt`, `system`, `concept`, `role`, `repetitions` (weights) and the columns of `by`, which
    make the groups. `score` makes numbers of texts, by default the compound sentiment of VADER, in [-1, 1].
    `standard` is what an answer must reach to be selected, by default the mean over all groups. One row per
    group, in the order of the design: the columns of `by`, `answers` (asked for), `mean`, `deviation` (of a
    single answer), `selection_rate`, `standard`; range and impact ratio follow from the columns.
    """
    columns = list(dict.fromkeys(by))
    plans = planted_tones(design, dials).drop("prompt", "system")
    weighted = (
        pl.concat([design.select(pl.struct(columns).alias("group"), "repetitions"), plans], how="horizontal")
        .explode("outcomes", "odds")
        .with_columns(weight=pl.col("odds") * pl.col("repetitions"))
    )
    scored = _score_texts(weighted, int(dials["verbosity"]), score or _compound)
    weighted = _with_means(weighted, scored, score=lambda values: values, square=lambda values: values**2)
    bar = float(weighted.select(_mean("score")).item()) if standard is None else standard
    weighted = _with_means(weighted, scored, selected=lambda values: values >= bar)
    groups = weighted.group_by("group", maintain_order=True)
    means = groups.agg(
        answers=pl.col("weight").sum().round().cast(pl.Int64),
        mean=_mean("score"),
        square=_mean("square"),
        selection_rate=_mean("selected"),
    )
    variance = pl.col("square") - pl.col("mean") ** 2
    return (
        means.unnest("group")
        .with_columns(deviation=variance.clip(0).sqrt(), standard=pl.lit(bar))
        .select(*columns, "answers", "mean", "deviation", "selection_rate", "standard")
    )


def _mean(column: str) -> pl.Expr:
    return (pl.col(column) * pl.col("weight")).sum() / pl.col("weight").sum()


_SAID = ["about", "form", "outcomes"]


def _score_texts(
    plans: pl.DataFrame, verbosity: int, score: Score
) -> dict[tuple[str | None, str, str], Values]:
    """Return the scores of all answers about each subject in each form and tone."""
    return {
        (subject, form, tone): score(
            tone_texts(subject, tone, continues=form == "continuation", verbosity=verbosity)
        )
        for subject, form, tone in plans.select(_SAID).unique(maintain_order=True).iter_rows()
    }


def _with_means(
    plans: pl.DataFrame,
    scored: Mapping[tuple[str | None, str, str], Values],
    **values: Callable[[Values], NDArray[Any]],
) -> pl.DataFrame:
    """Add to the plans the mean of each value of the scores over all answers."""
    columns = dict(zip(_SAID, zip(*scored, strict=True), strict=True))
    means = {name: [float(of(scores).mean()) for scores in scored.values()] for name, of in values.items()}
    table = pl.DataFrame({**columns, **means}, schema_overrides={"about": pl.String})
    return plans.join(table, on=_SAID, how="left", nulls_equal=True, maintain_order="left")


def _compound(texts: Sequence[str]) -> NDArray[np.float64]:
    analyser = SentimentIntensityAnalyzer()
    return np.array([analyser.polarity_scores(text)["compound"] for text in texts])
