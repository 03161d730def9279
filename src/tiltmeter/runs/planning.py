"""Plan of a study before any request: numbers of calls and tokens, their costs, and the smallest detectable bias."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean
from typing import NamedTuple

import polars as pl
from polars import DataFrame, Float64, Int64, String, col

from tiltmeter import stats
from tiltmeter.blocks import REPEATED_LOOKS, Bars, Block, Callout, Kind, Table, columns_of
from tiltmeter.datasets import Library
from tiltmeter.engine import Cost, Limits, Prices
from tiltmeter.errors import InputError
from tiltmeter.models import Sampling
from tiltmeter.models.thinking_models import thinks, with_room_to_think
from tiltmeter.reports import Result
from tiltmeter.runs.asked_models import has_room_to_think
from tiltmeter.runs.resolving import Resolved
from tiltmeter.schema import SHOWN_BELOW
from tiltmeter.study import SINGLE_TESTS, NotRun, Part, Settings

SECONDS = 2.0
"""Assumed duration of one response; endpoints differ by more than a factor of ten."""
PRECISION = {
    "part": String,
    "metric": String,
    "half_width": Float64,
    "detectable": Float64,
    "items_needed": Int64,
}
"""Columns of `Plan.metrics`."""
CHARACTERS_PER_TOKEN = 4.0
"""A rule of thumb for English text; tokenizers differ by about 20%."""


@dataclass(slots=True)
class Plan(Result):
    """The effort of a study and the bias that it could detect.

    Attributes
    ----------
    parts
        One row per part, for one model: `part`, `items`, `prompts`, `calls`, `judge_calls`, `input_tokens`,
        `output_tokens_at_most`.
    metrics
        One row per key metric: `part`, `metric`, `half_width` (of the interval for an unbiased model),
        `detectable` (smallest bias that is stated with probability 80%, that is with q < 0.05, if it is the
        only one among the key metrics of the study; null if no bias is so large), `items_needed` (items for
        which the mark of an unbiased model is decided with probability 80%; null without marks).
    not_run
        Parts that cannot be run here, with the reason.
    costs
        US dollars for each model and for the judge, with the total if there are several.
    design
        The prompts: `prompt_id`, `part`, `system`, `prompt`, `repetitions`.
    warnings
        Sentences about sizes that are too small (key metrics with too few items for a decided mark, and
        benchmarks that can show large differences only), and on when to choose the number of items.
    meaning
        What `detectable` is, in one sentence; empty without key metrics.
    seconds
        Duration of all calls at `SECONDS` each, with as many concurrent calls as the limits allow.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> tm.plan("benchmarks/g20", limit=2)
    <Plan 210 calls a model, about 0 min>
    """

    parts: DataFrame
    metrics: DataFrame
    not_run: dict[str, str] = field(default_factory=dict)
    costs: list[Cost] = field(default_factory=list)
    design: DataFrame = field(default_factory=DataFrame)
    warnings: list[str] = field(default_factory=list)
    meaning: str = ""
    seconds: float = 0.0

    def frame(self) -> DataFrame:
        """Return `parts`."""
        return self.parts

    def blocks(self) -> list[Block]:
        """Return the tables of the plan, and a chart of the smallest detectable bias of each key metric."""
        kinds: dict[str, Kind] = {
            "part": "name",
            "metric": "name",
            "half width": "number",
            "detectable": "number",
        }
        tables = [
            Table(title, columns_of(rows.rename(lambda name: name.replace("_", " ")), kinds, "count"))
            for title, rows in (("What it takes", self.parts), ("What it could show", self.metrics))
            if rows.height
        ]
        labels = self.metrics.select(pl.format("{}: {}", "part", "metric")).to_series().to_list()
        bars = Bars(
            "Smallest bias stated with a probability of about 80%",
            labels,
            {"detectable": self.metrics["detectable"].to_list()},
            "number",
        )
        return [*tables, *([bars] if labels else []), *map(Callout, [*self.warnings, *self.not_run.values()])]

    def __repr__(self) -> str:
        low, high = (None, None) if not self.costs else self.costs[-1][1:]
        price = "" if low is None else f", ${low:,.2f}" + ("" if high is None else f" to ${high:,.2f}")
        calls = _calls(self.parts)
        return f"<Plan {calls:,} calls a model{price}, about {self.seconds / 60:,.0f} min>"


def make_plan(
    resolved: Resolved,
    models: list[str],
    *,
    library: Library,
    prices: Prices,
    limits: Limits | None = None,
    heterogeneity: float = 0.0,
    fixed_length: bool = False,
) -> Plan:
    """Plan a study for models with these names, without calling any model.

    For `heterogeneity`, see `Part.standard_errors`.

    With `fixed_length`, the limit of tokens of a response is that of the user, also for models that think.
    """
    rows, planned, designs, not_run, judged = [], [], [], {}, []
    room = has_room_to_think(resolved) and not fixed_length
    longest_of = {model: _longest(resolved.sampling, model, room_to_think=room) for model in models}
    longest = max(longest_of.values(), key=lambda length: length or 0, default=resolved.sampling.max_tokens)
    for part in resolved.study.parts:
        settings = resolved.settings.of_part(part.name)
        try:
            design = part.design(library, settings)
        except NotRun as reason:
            not_run[part.name] = str(reason)
            continue
        designs.append(design.select("prompt_id", "part", "system", "prompt", "repetitions"))
        length = col.prompt.str.len_chars() + col.system.fill_null("").str.len_chars()
        calls, questions = int(design["repetitions"].sum()), part.judge_call_count(design, settings)
        rows.append(
            {
                "part": part.name,
                "items": design["item"].n_unique(),
                "prompts": design.height,
                "calls": calls,
                "judge_calls": questions,
                "input_tokens": int(
                    design.select((length * col.repetitions).sum()).item() / CHARACTERS_PER_TOKEN
                ),
                "output_tokens_at_most": None if longest is None else calls * longest,
            }
        )
        judged.append(questions * part.question_length(settings) / CHARACTERS_PER_TOKEN if questions else 0.0)
        planned.append(_planned(resolved, part, design, heterogeneity))
    counts = ("items", "prompts", "calls", "judge_calls", "input_tokens", "output_tokens_at_most")
    parts = DataFrame(rows, schema={"part": String, **dict.fromkeys(counts, Int64)})
    precision = _precision(planned)
    costs = _costs(resolved, longest_of, parts, sum(judged), prices)
    design = pl.concat(designs) if designs else DataFrame()
    asked = limits or Limits()
    seconds = (
        max(1, len(models))
        * _calls(parts)
        * max(SECONDS / asked.max_connections, 60 / (asked.requests_per_minute or math.inf))
    )
    too_small = [
        sentence
        for one, level in zip(planned, _levels(planned), strict=True)
        for sentence in one.part.size_warnings(one.design, one.settings, level)
    ]
    warnings = [
        *_warnings(precision, parts, resolved, library),
        *too_small,
        *_thinking_words(resolved, longest_of),
    ]
    return Plan(parts, precision, not_run, costs, design, warnings, _meaning(planned), seconds)


def _calls(parts: DataFrame) -> int:
    """Return the number of calls for one model, with those of the judge."""
    return int(parts["calls"].sum()) + int(parts["judge_calls"].sum())


def _longest(sampling: Sampling, model: str, *, room_to_think: bool) -> int | None:
    """Return the limit of tokens of a response, with room for thinking if the model is known to think; None without a limit."""
    is_raised = room_to_think and thinks(model, sampling.extra)
    return with_room_to_think(sampling).max_tokens if is_raised else sampling.max_tokens


def _thinking_words(resolved: Resolved, longest_of: Mapping[str, int | None]) -> list[str]:
    """Return a sentence about the models whose limit of tokens has room for thinking."""
    usual = resolved.sampling.max_tokens
    raised = {model: length for model, length in longest_of.items() if length != usual}
    if not raised:
        return []
    models, most = ", ".join(raised), max(length or 0 for length in raised.values())
    return [
        f"{models} {'thinks' if len(raised) == 1 else 'think'} before answering, which takes tokens as well: up to {most:,} tokens per "
        f"response are requested instead of {usual:,} (--max-tokens sets another limit)"
    ]


def _costs(
    resolved: Resolved,
    longest_of: Mapping[str, int | None],
    parts: DataFrame,
    question_tokens: float,
    prices: Prices,
) -> list[Cost]:
    """Return the range of costs: from answers of one token each to answers of `max_tokens`, which `longest_of` gives for each model.

    A question to a judge contains the instructions, the answer to judge and, from the second stage on, the
    judge's previous answers.
    """
    calls, questions, asked = (int(parts[name].sum()) for name in ("calls", "judge_calls", "input_tokens"))
    longest, judge = resolved.sampling.max_tokens, resolved.settings.judge

    def cost(of: str, model: str, low: tuple[float, float], high: tuple[float, float] | None) -> Cost:
        return Cost(of, prices.cost(model, *low), None if high is None else prices.cost(model, *high))

    costs = [
        cost(model, model, (asked, calls), None if most is None else (asked, calls * most))
        for model, most in longest_of.items()
    ]
    if judge is not None and resolved.study.judging is not None:
        each = max(1, len(longest_of))
        judged_at_most = _longest(
            resolved.study.judging, judge, room_to_think=has_room_to_think(resolved, judge=True)
        )
        low = each * (question_tokens + questions), float(each * questions)
        high = None
        if longest is not None and judged_at_most is not None:
            high = (
                each * (question_tokens + questions * (longest + judged_at_most)),
                float(each * questions * judged_at_most),
            )
        costs.append(cost(f"judge {judge}", judge, low, high if questions else low))
    if len(costs) > 1:
        costs.append(Cost("total", _sum([one.low for one in costs]), _sum([one.high for one in costs])))
    return costs


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


class _Planned(NamedTuple):
    """A part with its design, settings and expected standard errors."""

    part: Part
    design: DataFrame
    settings: Settings
    errors: Mapping[str, Sequence[stats.ExpectedError]]


def _planned(resolved: Resolved, part: Part, design: DataFrame, heterogeneity: float = 0.0) -> _Planned:
    errors = part.standard_errors(design, resolved.settings, heterogeneity=heterogeneity)
    return _Planned(part, design, resolved.settings, errors)


def _levels(planned: Sequence[_Planned]) -> list[float]:
    """Return for each part the level at which one test must show bias so that it is stated if it is the only one of its family.

    The smallest of K p-values has q < SHOWN_BELOW if it is below SHOWN_BELOW / K (Benjamini and Hochberg
    1995).
    """
    own = [one.part.tests_of_a_family(one.design, one.settings) for one in planned]
    of_run = sum(len(one.errors) for one, tests in zip(planned, own, strict=True) if tests is None)
    return [1 - SHOWN_BELOW / max(1, of_run if tests is None else tests) for tests in own]


def _meaning(planned: Sequence[_Planned]) -> str:
    """Return what `detectable` is, in one sentence; empty without key metrics."""
    measured = [one for one in planned if one.errors]
    if not measured:
        return ""
    own = {one.part.tests_of_a_family(one.design, one.settings) for one in measured}
    if own == {SINGLE_TESTS}:
        return (
            "detectable: smallest difference that a single test at 5% shows with a probability of about 80%; associations are selected "
            "among many tests, which takes larger differences"
        )
    tests = max(
        (number for number in own if number is not None), default=sum(len(one.errors) for one in measured)
    )
    family = f" if it is the only one in its family of {tests} tests" if tests > 1 else ""
    return f"detectable: smallest bias that is stated (q < 0.05) with a probability of about 80%{family}; none: no bias is so large"


def _precision(planned: Sequence[_Planned]) -> DataFrame:
    """Return the half-widths of the intervals for an unbiased model, the bias that is stated, and the items needed."""
    rows = []
    for (part, design, settings, errors), level in zip(planned, _levels(planned), strict=True):
        halves = {
            metric: _quadratic_mean(one.half_width(settings.level) for one in of_metric)
            for metric, of_metric in errors.items()
        }
        usual = {metric: half / stats.two_sided_z(settings.level) for metric, half in halves.items()}
        needed = part.items_needed(usual, design["item"].n_unique(), settings)
        effects = part.detectable_effects(errors, design, settings, level)
        rows += [
            {
                "part": part.name,
                "metric": metric,
                "half_width": half,
                "detectable": effects.get(metric),
                "items_needed": needed.get(metric),
            }
            for metric, half in halves.items()
        ]
    return DataFrame(rows, schema=PRECISION)


def _quadratic_mean(values: Iterable[float]) -> float:
    return math.sqrt(mean(value**2 for value in values))


def _warnings(metrics: DataFrame, parts: DataFrame, resolved: Resolved, library: Library) -> list[str]:
    """Return a sentence about the metrics with too few items for a decided mark, with a sufficient limit, and on when to choose it."""
    few = _too_few(metrics, parts)
    if few.is_empty():
        return []
    settings = resolved.settings
    most = few.group_by("part", maintain_order=True).agg(col.items_needed.max(), col("items").first())
    of_study = {part.name: part for part in resolved.study.parts}
    limits, totals = {}, {}
    for part, needed, items in most.iter_rows():
        total = total_items(of_study[part], library, settings)
        rounded = _rounded(needed)
        if total is None or total > items:
            limits[part] = rounded if total is None else min(rounded, total)
        if total is not None and total < needed:
            totals[part] = total
    advice = f"; give --limit {_limit_words(limits, parts, resolved)}" if limits else ""
    no_more = ", ".join(f"{part} ({total:,})" for part, total in totals.items())
    end = f". There are no more items than these: {no_more}" if totals else ""
    named = [
        f"{part}/{metric} ({_rounded(items):,})"
        for part, metric, items in few.select("part", "metric", "items_needed").iter_rows()
    ]
    return [
        "even without bias, the mark is undecided in more than 20% of studies, because more items are needed (about how many): "
        f"{', '.join(named)}. "
        f"{REPEATED_LOOKS} Choose the number before the run{advice}{end}"
    ]


def _limit_words(limits: Mapping[str, int], parts: DataFrame, resolved: Resolved) -> str:
    """Return the value of --limit that gives these numbers of items by part, and leaves the other parts as they are."""
    settings = resolved.settings
    enough = (
        {"limits": {**settings.limits, **limits}} if parts.height > 1 else {"limit": max(limits.values())}
    )
    return str(replace(resolved, settings=replace(settings, **enough)).as_document()["limit"])


def total_items(part: Part, library: Library, settings: Settings) -> int | None:
    """Return the number of items of a part without a limit; None if its design cannot be created here."""
    try:
        return part.design(library, replace(settings, limit=None, limits={}))["item"].n_unique()
    except (NotRun, InputError):
        return None


def _too_few(metrics: DataFrame, parts: DataFrame) -> DataFrame:
    """Return the rows of `metrics` that need more items than the parts (`part`, `items`) have."""
    return metrics.join(parts.select("part", "items"), on="part", maintain_order="left").filter(
        col.items_needed > col.items
    )


def size_sentence(resolved: Resolved, design: DataFrame) -> str | None:
    """Return a sentence about the key metrics whose marks can be decided with this design; None without marks."""
    designs = {str(name): rows for (name,), rows in design.partition_by("part", as_dict=True).items()}
    planned = [
        _planned(resolved, part, designs[part.name]) for part in resolved.study.parts if part.name in designs
    ]
    metrics = _precision(planned)
    total = metrics["items_needed"].count()
    if not total:
        return None
    sizes = design.group_by("part").agg(items=col.item.n_unique())
    few = _too_few(metrics, sizes).select(pl.format("{}/{}", "part", "metric")).to_series()
    rest = f"; undecided more often than in 20% of studies: {', '.join(few)}" if few.len() else ""
    return f"with this number of items, the marks of {total - few.len()} of {total} key metrics can be decided if there is no bias{rest}"


def _rounded(items: int) -> int:
    """Round up to two significant digits, because the number comes from simulations."""
    unit: int = 10 ** max(0, len(str(items)) - 2)
    return -(-items // unit) * unit
