"""Whether a model says the same when it is asked the same again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from tiltmeter import stats
from tiltmeter.comparing._sides import models_of
from tiltmeter.runs import Run, load

__all__ = ["STABILITY", "repeat_stability"]

STABILITY: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "model": pl.String,
    "part": pl.String,
    "prompts": pl.Int64,  # asked, and answered, more than once
    "answers": pl.Int64,
    "of": pl.String,  # "labels", or "numbers" where the labels are such
    "identical": pl.Float64,  # share of the pairs of answers to one prompt that got the same label
    "alpha": pl.Float64,  # Krippendorff's: 1 always the same, 0 no more alike than answers to other prompts
    "low": pl.Float64,  # of alpha
    "high": pl.Float64,
    "level": pl.Float64,
}
"""One row per model and part that asked prompts more than once."""

RESAMPLES = 1_000
SEED = 123


def repeat_stability(run: Run | str | Path, model: str | None = None) -> pl.DataFrame:
    """Agreement between the answers to one prompt (STABILITY); no rows where every prompt was asked once.

    Labels are compared as names, a refusal or an unreadable answer being a label of its own; where all labels of a part are numbers, alpha
    is the one for numbers (squared differences) and what could not be read is left out. Failed attempts are no answers. The interval is a
    bootstrap of items with all their prompts.

    Parameters
    ----------
    model
        One model of the run; all by default.

    Raises
    ------
    InputError
        The run cannot be opened.
    """
    opened = run if isinstance(run, Run) else load(run)
    level = float(opened.about["level"])
    columns = ("model", "part", "item", "prompt_id", "outcome", "label")
    measures = opened.folder.scan("measures").filter(pl.col("outcome") != "failed").select(columns)
    rows = []
    for name in [model] if model is not None else models_of(opened):
        mine = measures.filter(pl.col("model") == name).filter(pl.len().over("prompt_id") > 1).collect()
        for (part,), answers in mine.group_by("part", maintain_order=True):
            rows.append({"model": name, "part": part, **_agreement(answers, level)})
    return pl.DataFrame(rows, schema=dict(STABILITY), infer_schema_length=None)


def _agreement(answers: pl.DataFrame, level: float) -> dict[str, object]:
    numbers = answers.filter(pl.col("outcome") == "answered").select(
        "item", "prompt_id", value=pl.col("label").cast(pl.Float64, strict=False)
    )
    numeric = numbers.height > 0 and numbers["value"].null_count() == 0
    owner = ["item", "prompt_id"]
    if numeric:
        said = numbers.group_by(*owner, "value").agg(n=pl.len().cast(pl.Float64))
        value, n = pl.col("value"), pl.col("n")
        sums = {"m": n.sum(), "s": (n * value).sum(), "ss": (n * value * value).sum(), "equal": (n * (n - 1)).sum()}
        units = said.group_by(owner).agg(**sums).sort(owner)
        columns = stats.interval_columns(*(units[name].to_numpy() for name in sums))
        of_totals = stats.interval_repeats
    else:
        labels = answers.select(*owner, label=pl.coalesce("label", "outcome"))
        units = labels.group_by(*owner, "label").len().sort("label").pivot("label", index=owner, values="len").fill_null(0).sort(owner)
        columns = stats.nominal_columns(units.drop(owner).to_numpy())
        of_totals = stats.nominal_repeats
    items = pl.DataFrame(columns).with_columns(item=units["item"]).group_by("item").sum().sort("item").drop("item").to_numpy()
    here = of_totals(items.sum(axis=0))
    drawn = of_totals(stats.resampled_totals(items, resamples=RESAMPLES, seed=SEED))
    low, high = stats.percentile_interval(drawn.alpha, level)
    found = {"identical": float(here.identical), "alpha": float(here.alpha), "low": low, "high": high}
    counted = answers.filter(pl.col("outcome") == "answered") if numeric else answers
    return {
        "prompts": units.height,
        "answers": counted.height,
        "of": "numbers" if numeric else "labels",
        **{name: None if one != one else one for name, one in found.items()},
        "level": level,
    }
