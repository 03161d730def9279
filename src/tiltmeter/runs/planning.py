"""Before spending: how many calls, how many tokens, what they cost, and how small a bias they could show."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import polars as pl
from polars import DataFrame, Float64, Int64, String, col

from tiltmeter import stats
from tiltmeter.datasets import Library
from tiltmeter.engine import Cost, Prices
from tiltmeter.runs.resolving import Resolved
from tiltmeter.study import NotRun, Part

CHARACTERS_PER_TOKEN = 4.0
"""A rule of thumb for English text; tokenizers differ by some 20%."""


@dataclass(slots=True)
class Plan:
    """What a study would take and what it could show.

    `parts`: one row per part: `part`, `items`, `prompts`, `calls`, `judge_calls`, `input_tokens`, `output_tokens_at_most`; of one model.
    `metrics`: one row per key metric: `part`, `metric`, `half_width` (of the interval for an unbiased model), `detectable` (smallest
    bias shown with 80% power), `items_needed` (at which an unbiased model is graded with a probability of 95%; null without grades).
    `costs`: of each model, of the judge, and the total where there are several.
    `warnings`: a sentence for each key metric for which the items are too few for a grade.
    """

    parts: DataFrame
    metrics: DataFrame
    not_run: dict[str, str] = field(default_factory=dict)
    costs: list[Cost] = field(default_factory=list)
    design: DataFrame = field(default_factory=DataFrame)
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
        length = col.prompt.str.len_chars() + col.system.fill_null("").str.len_chars()
        calls, questions = int(design["repetitions"].sum()), part.questions(design, settings)
        rows.append(
            {
                "part": part.name,
                "items": design["item"].n_unique(),
                "prompts": design.height,
                "calls": calls,
                "judge_calls": questions,
                "input_tokens": int(design.select((length * col.repetitions).sum()).item() / CHARACTERS_PER_TOKEN),
                "output_tokens_at_most": None if longest is None else calls * longest,
            }
        )
        judged.append(questions * part.question_length(settings) / CHARACTERS_PER_TOKEN if questions else 0.0)
        metrics += _precision(resolved, part, design)
    counts = ("items", "prompts", "calls", "judge_calls", "input_tokens", "output_tokens_at_most")
    parts = DataFrame(rows, schema={"part": String, **dict.fromkeys(counts, Int64)})
    precise = {"part": String, "metric": String, "half_width": Float64, "detectable": Float64, "items_needed": Int64}
    precision = DataFrame(metrics, schema=precise)
    costs = _costs(resolved, models, parts, sum(judged), prices)
    design = pl.concat(designs) if designs else DataFrame()
    return Plan(parts, precision, not_run, costs, design, _warnings(precision, parts, resolved))


def _costs(resolved: Resolved, models: list[str], parts: DataFrame, question_tokens: float, prices: Prices) -> list[Cost]:
    """From answers of one token each to answers of `max_tokens`.

    A question to a judge holds its instructions, the answer it is about, and from the second stage on what the judge answered before.
    """
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


def _precision(resolved: Resolved, part: Part, design: DataFrame) -> list[dict[str, object]]:
    """Interval half-widths for an unbiased model at this size."""
    level, items = resolved.settings.level, design["item"].n_unique()
    errors = part.precision(design, resolved.settings)
    needed = part.items_needed(errors, items, resolved.settings)
    return [
        {
            "part": part.name,
            "metric": metric,
            "half_width": stats.half_width(error, level),
            "detectable": stats.detectable(error, level),
            "items_needed": needed.get(metric),
        }
        for metric, error in errors.items()
    ]


def _warnings(metrics: DataFrame, parts: DataFrame, resolved: Resolved) -> list[str]:
    """Where the items are too few for a grade, and the limit that has enough of them."""
    few = metrics.join(parts.select("part", "items"), on="part", maintain_order="left").filter(col.items_needed > col.items)
    settings = resolved.settings
    limited = few.filter(col.part.is_in([part for part in few["part"] if settings.of_part(part).limit is not None]))
    most = limited.group_by("part", maintain_order=True).agg(col.items_needed.max())
    needed = {part: _rounded(items) for part, items in most.iter_rows()}
    advice = ""
    if needed:
        enough = {"limits": {**settings.limits, **needed}} if parts.height > 1 else {"limit": max(needed.values())}
        document = replace(resolved, settings=replace(settings, **enough)).as_document()
        advice = f"; give --limit {document['limit']}"
    return [
        f"{part}/{metric} can hardly be graded with {items:,} items: it needs about {_rounded(items_needed):,}{advice}"
        for part, metric, items, items_needed in few.select("part", "metric", "items", "items_needed").iter_rows()
    ]


def _rounded(items: int) -> int:
    """Upwards to two digits: the number comes from one simulation."""
    unit: int = 10 ** max(0, len(str(items)) - 2)
    return -(-items // unit) * unit
