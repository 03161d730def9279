"""Before spending: how many calls, how many tokens, what they cost, and how small a bias they could show."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl

from tiltmeter import stats
from tiltmeter.runs._resolve import Resolved
from tiltmeter.study import FINDINGS, NotRun, Part

if TYPE_CHECKING:
    from tiltmeter.datasets import Library
    from tiltmeter.engine import Prices

__all__ = ["Plan", "make_plan"]

CHARACTERS_PER_TOKEN = 4.0
"""A rule of thumb for English text; tokenizers differ by some 20%."""
RESAMPLES = 200
"""Enough for a standard error to about 5%."""


@dataclass(slots=True)
class Plan:
    """What a study would take and what it could show.

    `parts`: one row per part: `part`, `items`, `prompts`, `calls`, `judge_calls`, `input_tokens`, `output_tokens_at_most`.
    `metrics`: one row per key metric: `part`, `metric`, `half_width` (of the interval for an unbiased model),
    `detectable` (smallest bias shown with 80% power).
    `cost`: US dollars from and to, by model; None where the price is not known.
    """

    parts: pl.DataFrame
    metrics: pl.DataFrame
    not_run: dict[str, str] = field(default_factory=dict)
    cost: dict[str, tuple[float, float] | None] = field(default_factory=dict)
    design: pl.DataFrame = field(default_factory=pl.DataFrame)


def make_plan(resolved: Resolved, models: list[str], *, library: Library, prices: Prices) -> Plan:
    """Plan a study for models of these names. Calls no model."""
    rows, metrics, designs, not_run = [], [], [], {}
    for part in resolved.study.parts:
        try:
            design = part.design(library, resolved.settings)
        except NotRun as reason:
            not_run[part.name] = str(reason)
            continue
        designs.append(design.select("prompt_id", "part", "system", "prompt", "repetitions"))
        length = pl.col("prompt").str.len_chars() + pl.col("system").fill_null("").str.len_chars()
        calls = int(design["repetitions"].sum())
        rows.append(
            {
                "part": part.name,
                "items": design["item"].n_unique(),
                "prompts": design.height,
                "calls": calls,
                "judge_calls": part.questions(design, resolved.settings),
                "input_tokens": int(design.select((length * pl.col("repetitions")).sum()).item() / CHARACTERS_PER_TOKEN),
                "output_tokens_at_most": None if resolved.sampling.max_tokens is None else calls * resolved.sampling.max_tokens,
            }
        )
        metrics += _precision(resolved, part, design)
    schema = {"part": pl.String, "items": pl.Int64, "prompts": pl.Int64, "calls": pl.Int64, "judge_calls": pl.Int64}
    schema |= {"input_tokens": pl.Int64, "output_tokens_at_most": pl.Int64}
    parts = pl.DataFrame(rows, schema=schema)
    precise = {"part": pl.String, "metric": pl.String, "half_width": pl.Float64, "detectable": pl.Float64}
    cost = {model: _cost(model, parts, prices) for model in models}
    return Plan(parts, pl.DataFrame(metrics, schema=precise), not_run, cost, pl.concat(designs) if designs else pl.DataFrame())


def _cost(model: str, parts: pl.DataFrame, prices: Prices) -> tuple[float, float] | None:
    asked, said = int(parts["input_tokens"].sum()), int(parts["output_tokens_at_most"].sum())
    least, most = prices.cost(model, asked, int(parts["calls"].sum())), prices.cost(model, asked, said)
    return None if least is None or most is None else (least, most)


def _precision(resolved: Resolved, part: Part, design: pl.DataFrame) -> list[dict[str, object]]:
    """Interval half-widths for an unbiased model at this size, from one set of imagined labels."""
    if (errors := part.precision(design, resolved.settings)) is not None:
        return [_row(part, metric, error, resolved.settings.level) for metric, error in errors.items()]
    fair = dict.fromkeys(("outcome_disparity", "stereotypical_reasoning", "representational_harms"), 0.0)
    imagined = part.imagine(design, fair, resolved.settings.seed)
    if imagined is None:
        return []
    settings = replace(resolved.settings, resamples=RESAMPLES)
    found = part.analyse(imagined, settings).filter(pl.col("key") & pl.col("context").is_null()).select(list(FINDINGS))
    z = 2 * stats.half_width(1.0, resolved.settings.level)
    return [
        _row(part, row["metric"], (row["high"] - row["low"]) / z, resolved.settings.level)
        for row in found.iter_rows(named=True)
        if row["low"] is not None
    ]


def _row(part: Part, metric: str, error: float, level: float) -> dict[str, object]:
    width = stats.half_width(error, level)
    return {"part": part.name, "metric": metric, "half_width": width, "detectable": stats.detectable(error, level)}
