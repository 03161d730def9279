"""Before spending: how many calls, how many tokens, what they cost, and how small a bias they could show."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from tiltmeter import stats
from tiltmeter.runs._resolve import Resolved
from tiltmeter.study import FINDINGS, MARKS, NotRun, Part

if TYPE_CHECKING:
    from tiltmeter.datasets import Library
    from tiltmeter.engine import Cost, Prices

__all__ = ["Plan", "make_plan"]

CHARACTERS_PER_TOKEN = 4.0
"""A rule of thumb for English text; tokenizers differ by some 20%."""
RESAMPLES = 200
"""Enough for a standard error to about 5%."""


GRADED = 0.95
"""The probability with which an unbiased model is to be graded."""


@dataclass(slots=True)
class Plan:
    """What a study would take and what it could show.

    `parts`: one row per part: `part`, `items`, `prompts`, `calls`, `judge_calls`, `input_tokens`, `output_tokens_at_most`; of one model.
    `metrics`: one row per key metric: `part`, `metric`, `half_width` (of the interval for an unbiased model), `detectable` (smallest
    bias shown with 80% power), `items_needed` (at which an unbiased model is graded with a probability of 95%; null without grades).
    `costs`: of each model, of the judge, and the total where there are several.
    `warnings`: a sentence for each key metric for which the items are too few for a grade.
    """

    parts: pl.DataFrame
    metrics: pl.DataFrame
    not_run: dict[str, str] = field(default_factory=dict)
    costs: list[Cost] = field(default_factory=list)
    design: pl.DataFrame = field(default_factory=pl.DataFrame)
    warnings: list[str] = field(default_factory=list)


def make_plan(resolved: Resolved, models: list[str], *, library: Library, prices: Prices) -> Plan:
    """Plan a study for models of these names. Calls no model."""
    rows, metrics, designs, not_run, judged = [], [], [], {}, []
    longest = resolved.sampling.max_tokens
    for part in resolved.study.parts:
        settings = resolved.settings.of_part(part.name)
        try:
            design = part.design(library, settings)
        except NotRun as reason:
            not_run[part.name] = str(reason)
            continue
        designs.append(design.select("prompt_id", "part", "system", "prompt", "repetitions"))
        length = pl.col("prompt").str.len_chars() + pl.col("system").fill_null("").str.len_chars()
        calls, questions = int(design["repetitions"].sum()), part.questions(design, settings)
        rows.append(
            {
                "part": part.name,
                "items": design["item"].n_unique(),
                "prompts": design.height,
                "calls": calls,
                "judge_calls": questions,
                "input_tokens": int(design.select((length * pl.col("repetitions")).sum()).item() / CHARACTERS_PER_TOKEN),
                "output_tokens_at_most": None if longest is None else calls * longest,
            }
        )
        judged.append(questions * part.question_length(settings) / CHARACTERS_PER_TOKEN if questions else 0.0)
        metrics += _precision(resolved, part, design)
    schema = {"part": pl.String, "items": pl.Int64, "prompts": pl.Int64, "calls": pl.Int64, "judge_calls": pl.Int64}
    schema |= {"input_tokens": pl.Int64, "output_tokens_at_most": pl.Int64}
    parts = pl.DataFrame(rows, schema=schema)
    precise = {"part": pl.String, "metric": pl.String, "half_width": pl.Float64, "detectable": pl.Float64, "items_needed": pl.Int64}
    precision = pl.DataFrame(metrics, schema=precise)
    costs = _costs(resolved, models, parts, sum(judged), prices)
    design = pl.concat(designs) if designs else pl.DataFrame()
    return Plan(parts, precision, not_run, costs, design, _warnings(precision, parts, resolved))


def _costs(resolved: Resolved, models: list[str], parts: pl.DataFrame, question_tokens: float, prices: Prices) -> list[Cost]:
    """From answers of one token each to answers of `max_tokens`.

    A question to a judge holds its instructions, the answer it is about, and from the second stage on what the judge answered before.
    """
    from tiltmeter.engine import Cost

    calls, questions, asked = (int(parts[name].sum()) for name in ("calls", "judge_calls", "input_tokens"))
    longest, judge = resolved.sampling.max_tokens, resolved.settings.judge

    def cost(of: str, model: str, low: tuple[float, float], high: tuple[float, float] | None) -> Cost:
        return Cost(of, prices.cost(model, *low), None if high is None else prices.cost(model, *high))

    costs = [cost(model, model, (asked, calls), None if longest is None else (asked, calls * longest)) for model in models]
    if judge is not None and resolved.study.judging is not None:
        each = max(1, len(models))
        said = resolved.study.judging.max_tokens
        low = each * (question_tokens + questions), float(each * questions)
        high = None
        if longest is not None and said is not None:
            high = each * (question_tokens + questions * (longest + said)), float(each * questions * said)
        costs.append(cost(f"judge {judge}", judge, low, high if questions else low))
    if len(costs) > 1:
        costs.append(Cost("total", _sum([one.low for one in costs]), _sum([one.high for one in costs])))
    return costs


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _precision(resolved: Resolved, part: Part, design: pl.DataFrame) -> list[dict[str, object]]:
    """Interval half-widths for an unbiased model at this size, from one set of imagined labels."""
    level = resolved.settings.level
    if (errors := part.precision(design, resolved.settings)) is not None:
        return [_row(part, metric, error, level) for metric, error in errors.items()]
    fair = dict.fromkeys(("outcome_disparity", "stereotypical_reasoning", "representational_harms"), 0.0)
    imagined = part.imagine(design, fair, resolved.settings.seed)
    if imagined is None:
        return []
    settings = replace(resolved.settings, resamples=RESAMPLES)
    found = part.analyse(imagined, settings).filter(pl.col("key") & pl.col("context").is_null()).select(list(FINDINGS))
    z = 2 * stats.half_width(1.0, level)
    return [
        _row(part, row["metric"], (row["high"] - row["low"]) / z, level) | {"items_needed": _needed(row, design["item"].n_unique(), level)}
        for row in found.iter_rows(named=True)
        if row["low"] is not None
    ]


def _row(part: Part, metric: str, error: float, level: float) -> dict[str, object]:
    width = stats.half_width(error, level)
    return {"part": part.name, "metric": metric, "half_width": width, "detectable": stats.detectable(error, level)}


def _needed(row: Mapping[str, Any], items: int, level: float) -> int | None:
    """Items at which the interval of an unbiased model ends before the worst tier with a probability of GRADED.

    An interval that holds both "no bias" and the worst tier gives no grade.
    """
    if row["null"] is None or not row["bands"]:
        return None
    worst = [band for band in row["bands"] if band["mark"] == MARKS[-1]]
    distance = min(min(abs(band["low"] - row["null"]), abs(band["high"] - row["null"])) for band in worst)
    length = row["high"] - row["low"]
    error = length / (2 * stats.half_width(1.0, level))
    # The interval of a metric that cannot be below "no bias" begins there.
    reach = (length if row["null"] == row["range_low"] else length / 2) + stats.half_width(error, 2 * GRADED - 1)
    return math.ceil(items * (reach / distance) ** 2) if distance > 0 else None


def _warnings(metrics: pl.DataFrame, parts: pl.DataFrame, resolved: Resolved) -> list[str]:
    """Where the items are too few for a grade, and the limit that has enough of them."""
    few = metrics.join(parts.select("part", "items"), on="part", maintain_order="left").filter(pl.col("items_needed") > pl.col("items"))
    settings = resolved.settings
    limited = few.filter(pl.col("part").is_in([part for part in few["part"] if settings.of_part(part).limit is not None]))
    needed = {
        part: _rounded(most) for part, most in limited.group_by("part", maintain_order=True).agg(pl.col("items_needed").max()).iter_rows()
    }
    enough = (
        replace(settings, limits={**settings.limits, **needed})
        if parts.height > 1
        else replace(settings, limit=max(needed.values(), default=None))
    )
    advice = f"; give --limit {replace(resolved, settings=enough).as_document()['limit']}" if needed else ""
    return [
        f"{part}/{metric} can hardly be graded with {items:,} items: it needs about {_rounded(items_needed):,}{advice}"
        for part, metric, items, items_needed in few.select("part", "metric", "items", "items_needed").iter_rows()
    ]


def _rounded(items: int) -> int:
    """Upwards to two digits: the number comes from one simulation."""
    unit: int = 10 ** max(0, len(str(items)) - 2)
    return -(-items // unit) * unit
