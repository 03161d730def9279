"""Plan of a study before any request: calls, tokens and costs, and the smallest detectable bias."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean
from typing import Any, NamedTuple

import polars as pl
from polars import DataFrame, Float64, Int64, Series, String, col

from tiltmeter import stats
from tiltmeter.blocks import REPEATED_LOOKS, Bars, Block, Callout, Kind, Table, columns_of
from tiltmeter.datasets import Library
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.engine import Cost, Limits, Prices
from tiltmeter.errors import InputError
from tiltmeter.models import Sampling
from tiltmeter.models._thinking_models import thinks, with_room_to_think
from tiltmeter.reports import Result
from tiltmeter.runs._asked_models import has_room_to_think
from tiltmeter.runs._attempts import TEXTS_OF_REQUEST, Unanalysable
from tiltmeter.runs._rehearsal import Comparisons, rehearse
from tiltmeter.runs._resolving import Resolved
from tiltmeter.runs._short_lists import first_of
from tiltmeter.schema import SHOWN_BELOW, Schema
from tiltmeter.study import SINGLE_TESTS, NotRun, Part, Settings

SECONDS = 2.0
"""Assumed duration of one response; endpoints differ by more than a factor of ten."""
PRECISION: Schema = {
    "part": String,
    "metric": String,
    "half_width": Float64,
    "detectable": Float64,
    "items_needed": Int64,
}
"""Columns of `Plan.metrics`."""
CHARACTERS_PER_TOKEN = 4.0
"""A rule of thumb for English text; tokenizers differ by about 20%."""
_COUNTS = ("items", "prompts", "calls", "judge_calls", "input_tokens", "output_tokens_at_most")
"""Columns of `Plan.parts` after the first."""
_OF_DESIGN = ("prompt_id", "part", "system", "prompt", "repetitions")
"""Columns of `Plan.design`; the `listed_factors` of the parts follow."""
_KINDS: Mapping[str, Kind] = {
    "part": "name",
    "metric": "name",
    "half width": "number",
    "detectable": "number",
}
"""Kinds of columns in the tables of a plan; all others are counts."""


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
        The prompts: `prompt_id`, `part`, `system`, `prompt`, `repetitions`. A prompt that several parts share
        is that of the first.
    warnings
        Sentences about sizes that are too small (key metrics with too few items for a decided mark, and
        benchmarks that can show large differences only), and on when to choose the number of items.
    meaning
        What `detectable` is, in one sentence; empty without key metrics.
    words
        Names of the key metrics in words, in the order of `metrics`.
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
    words: Sequence[str] = ()
    seconds: float = 0.0

    def frame(self) -> DataFrame:
        """Return `parts`."""
        return self.parts

    def blocks(self) -> list[Block]:
        """Return the tables of the plan, and a chart of the smallest detectable bias of each key metric."""
        blocks: list[Block] = []
        for title, rows in (("What it takes", self.parts), ("What it could show", self.metrics)):
            if rows.height:
                named = rows.rename(lambda name: name.replace("_", " "))
                blocks.append(Table(title, columns_of(named, _KINDS, "count")))
        if self.words:
            title = "Smallest bias stated with a probability of about 80%"
            detectable = {"detectable": self.metrics["detectable"].to_list()}
            axis = "smallest detectable bias, in the unit of the metric"
            blocks.append(Bars(title, list(self.words), detectable, "number", self.meaning, axis=axis))
        blocks += [Callout(sentence) for sentence in (*self.warnings, *self.not_run.values())]
        return blocks

    def __repr__(self) -> str:
        price = ""
        total = self.costs[-1] if self.costs else None
        if total is not None and total.low is not None:
            price = f", ${total.low:,.2f}"
            if total.high is not None:
                price += f" to ${total.high:,.2f}"
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

    Parameters
    ----------
    heterogeneity
        See `Part.standard_errors`.
    fixed_length
        Whether the limit of tokens of a response is that of the user, also for models that think.
    """
    room = has_room_to_think(resolved) and not fixed_length
    longest_of = {model: _longest(resolved.sampling, model, room_to_think=room) for model in models}
    longest = max(longest_of.values(), key=lambda length: length or 0, default=resolved.sampling.max_tokens)
    rows: list[dict[str, Any]] = []
    planned: list[_Planned] = []
    prompts: list[DataFrame] = []
    not_run: dict[str, str] = {}
    question_tokens = 0.0
    comparisons = Comparisons(resolved.settings, library)
    requests = CountedRequests()
    for part in resolved.study.parts:
        settings = resolved.settings.of_part(part.name)
        try:
            design = part.design(library, settings)
            comparisons.add(part, design, settings)
            rehearse(part, design, settings)
        except NotRun as reason:
            if isinstance(reason, Unanalysable) and len(resolved.study.parts) == 1:
                raise reason.for_study from reason
            not_run[part.name] = str(reason)
            continue
        planned.append(_planned(resolved, part, design, heterogeneity))
        of_first = requests.new_of(design)
        listed = (*_OF_DESIGN, *part.listed_factors)
        prompts.append(of_first.filter(col.repetitions > 0).select(listed))
        row = _effort(part, of_first, settings, longest)
        rows.append(row)
        if row["judge_calls"]:
            question_tokens += row["judge_calls"] * part.question_length(settings) / CHARACTERS_PER_TOKEN
    comparisons.check(resolved.study.name)
    parts = DataFrame(rows, schema={"part": String, **dict.fromkeys(_COUNTS, Int64)})
    metrics = _precision(planned)
    return Plan(
        parts=parts,
        metrics=metrics,
        not_run=not_run,
        costs=_costs(resolved, longest_of, parts, question_tokens, prices),
        design=pl.concat(prompts, how="diagonal") if prompts else DataFrame(),
        warnings=[
            *remarks([of_part.part for of_part in planned]),
            *limit_warnings(resolved, _calls(parts)),
            *_warnings(metrics, parts, resolved, library),
            *_size_warnings(planned),
            *_thinking_words(resolved, longest_of),
        ],
        meaning=_meaning(planned),
        words=[
            f"{of_part.part.title}: {of_part.part.metric_in_words(metric)}"
            for of_part in planned
            for metric in of_part.errors
        ],
        seconds=max(1, len(models)) * _calls(parts) * _seconds_per_call(limits or Limits()),
    )


def highest_costs(
    resolved: Resolved,
    design: DataFrame,
    models: Sequence[str],
    prices: Prices,
    *,
    fixed_length: bool,
) -> dict[str, float]:
    """Return the upper bound of the cost of each model, and of the judge, whose bound is known.

    Parameters
    ----------
    design
        The prompts of all parts.
    fixed_length
        See `make_plan`.
    """
    room = has_room_to_think(resolved) and not fixed_length
    longest_of = {model: _longest(resolved.sampling, model, room_to_think=room) for model in models}
    rows: list[dict[str, Any]] = []
    question_tokens = 0.0
    requests = CountedRequests()
    for part in resolved.study.parts:
        prompts = design.filter(part=part.name)
        if prompts.is_empty():
            continue
        settings = resolved.settings.of_part(part.name)
        row = _effort(part, requests.new_of(prompts), settings, resolved.sampling.max_tokens)
        rows.append(row)
        question_tokens += row["judge_calls"] * part.question_length(settings) / CHARACTERS_PER_TOKEN
    parts = DataFrame(rows, schema={"part": String, **dict.fromkeys(_COUNTS, Int64)})
    costs = _costs(resolved, longest_of, parts, question_tokens, prices)
    return {cost.of: cost.high for cost in costs if cost.high is not None and cost.of != "total"}


class CountedRequests:
    """The requests of several parts, so that a request that several of them need is counted once.

    The journal has one response for all of them: requests are equal if messages and sample number are.
    """

    def __init__(self) -> None:
        self._keys = Series("key", [], pl.UInt64)

    def new_of(self, design: DataFrame) -> DataFrame:
        """Return a design in which `repetitions` are the numbers of requests that no earlier part has."""
        texts = [name for name in TEXTS_OF_REQUEST if name in design.columns]
        numbered = design.select(*texts, "first_sample", "repetitions").with_row_index("row")
        attempts = numbered.with_columns(repetition=pl.int_ranges(0, "repetitions")).explode("repetition")
        sample = (col.first_sample + col.repetition).cast(Int64)
        keyed = attempts.select("row", key=pl.struct(*texts, sample=sample).hash())
        of_attempts = keyed.select("row", is_new=~col.key.is_in(self._keys.implode()))
        new = of_attempts.group_by("row").agg(new=col.is_new.sum())
        self._keys = pl.concat([self._keys, keyed["key"]]).unique()
        counts = numbered.select("row").join(new, on="row", how="left", maintain_order="left")
        return design.with_columns(repetitions=counts["new"].fill_null(0).cast(design.schema["repetitions"]))


def _effort(part: Part, design: DataFrame, settings: Settings, longest: int | None) -> dict[str, Any]:
    """Return the row of `Plan.parts` for one part.

    Parameters
    ----------
    longest
        The largest limit of tokens of a response; None without a limit.
    """
    length = col.prompt.str.len_chars() + col.system.fill_null("").str.len_chars()
    characters = design.select((length * col.repetitions).sum()).item()
    calls = int(design["repetitions"].sum())
    return {
        "part": part.name,
        "items": design["item"].n_unique(),
        "prompts": design.height,
        "calls": calls,
        "judge_calls": part.judge_call_count(design, settings),
        "input_tokens": int(characters / CHARACTERS_PER_TOKEN),
        "output_tokens_at_most": None if longest is None else calls * longest,
    }


def _seconds_per_call(limits: Limits) -> float:
    """Return the assumed time per call, with as many concurrent calls as the limits allow."""
    per_minute = limits.requests_per_minute or math.inf
    return max(SECONDS / limits.max_connections, 60 / per_minute)


def _calls(parts: DataFrame) -> int:
    """Return the number of calls for one model, with those of the judge."""
    return int(parts["calls"].sum()) + int(parts["judge_calls"].sum())


def _longest(sampling: Sampling, model: str, *, room_to_think: bool) -> int | None:
    """Return the limit of tokens of a response, with room for thinking if the model is known to think.

    None without a limit.
    """
    if room_to_think and thinks(model, sampling.extra):
        return with_room_to_think(sampling).max_tokens
    return sampling.max_tokens


def _thinking_words(resolved: Resolved, longest_of: Mapping[str, int | None]) -> list[str]:
    """Return a sentence about the models whose limit of tokens has room for thinking."""
    usual = resolved.sampling.max_tokens
    raised = {model: length for model, length in longest_of.items() if length != usual}
    if not raised:
        return []
    most = max(length or 0 for length in raised.values())
    verb = "thinks" if len(raised) == 1 else "think"
    return [
        f"{', '.join(raised)} {verb} before answering, which takes tokens as well: up to {most:,} tokens per"
        f" response are requested instead of {usual:,} (--max-tokens sets another limit)"
    ]


def _costs(
    resolved: Resolved,
    longest_of: Mapping[str, int | None],
    parts: DataFrame,
    question_tokens: float,
    prices: Prices,
) -> list[Cost]:
    """Return the range of costs of each model and of the judge, with the total if there are several.

    It goes from answers of one token each to answers of the limit of tokens.

    Parameters
    ----------
    longest_of
        The limit of tokens of a response by model; None without a limit.
    question_tokens
        Tokens of all questions to the judge, without the answers that they quote.
    """
    calls, input_tokens = int(parts["calls"].sum()), int(parts["input_tokens"].sum())
    costs = []
    for model, longest in longest_of.items():
        low = prices.cost(model, input_tokens, calls)
        high = None if longest is None else prices.cost(model, input_tokens, calls * longest)
        costs.append(Cost(model, low, high))
    judge, judging = resolved.settings.judge, resolved.study.judging
    if judge is not None and judging is not None:
        questions = int(parts["judge_calls"].sum())
        models = max(1, len(longest_of))
        costs.append(_judge_cost(resolved, judge, judging, models, questions, question_tokens, prices))
    if len(costs) > 1:
        low, high = _sum([cost.low for cost in costs]), _sum([cost.high for cost in costs])
        costs.append(Cost("total", low, high))
    return costs


def _judge_cost(
    resolved: Resolved,
    judge: str,
    sampling: Sampling,
    models: int,
    questions: int,
    question_tokens: float,
    prices: Prices,
) -> Cost:
    """Return the range of costs of the judge.

    A question contains the instructions, the answer to judge and, from the second stage on, the judge's
    previous answers.

    Parameters
    ----------
    models
        Number of models whose answers are judged.
    questions, question_tokens
        Number of questions about one model, and their tokens without the answers that they quote.
    """
    fewest_tokens = question_tokens + questions  # each answer and each reply has one token
    low = prices.cost(judge, models * fewest_tokens, models * questions)
    if not questions:
        return Cost(f"judge {judge}", low, low)
    answer = resolved.sampling.max_tokens
    reply = _longest(sampling, judge, room_to_think=has_room_to_think(resolved, judge=True))
    high = None
    if answer is not None and reply is not None:
        most_tokens = question_tokens + questions * (answer + reply)
        high = prices.cost(judge, models * most_tokens, models * questions * reply)
    return Cost(f"judge {judge}", low, high)


def _sum(values: list[float | None]) -> float | None:
    """Return the sum of values, or None if one is unknown."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) if len(numbers) == len(values) else None


class _Planned(NamedTuple):
    """A part with its design, settings and expected standard errors."""

    part: Part
    design: DataFrame
    settings: Settings
    errors: Mapping[str, Sequence[stats.ExpectedError]]

    @property
    def tests_of_a_family(self) -> int | None:
        """See `Part.tests_of_a_family`."""
        return self.part.tests_of_a_family(self.design, self.settings)


def _planned(resolved: Resolved, part: Part, design: DataFrame, heterogeneity: float = 0.0) -> _Planned:
    errors = part.standard_errors(design, resolved.settings, heterogeneity=heterogeneity)
    return _Planned(part, design, resolved.settings, errors)


def _levels(planned: Sequence[_Planned]) -> list[float]:
    """Return for each part the level at which one test must show bias so that it is stated.

    This holds if it is the only bias of its family: the smallest of K p-values has q < SHOWN_BELOW if it is
    below SHOWN_BELOW / K (Benjamini and Hochberg 1995).
    """
    families = [part.tests_of_a_family for part in planned]
    tests_of_run = sum(
        len(part.errors) for part, tests in zip(planned, families, strict=True) if tests is None
    )
    return [1 - SHOWN_BELOW / max(1, tests_of_run if tests is None else tests) for tests in families]


def _size_warnings(planned: Sequence[_Planned]) -> list[str]:
    """Return what the parts say about designs that are too small."""
    sentences: list[str] = []
    for of_part, level in zip(planned, _levels(planned), strict=True):
        sentences += of_part.part.size_warnings(of_part.design, of_part.settings, level)
    return sentences


def _meaning(planned: Sequence[_Planned]) -> str:
    """Return what `detectable` is, in one sentence; empty without key metrics."""
    measured = [part for part in planned if part.errors]
    if not measured:
        return ""
    families = {part.tests_of_a_family for part in measured}
    if families == {SINGLE_TESTS}:
        return (
            "detectable: smallest difference that a single test at 5% shows with a probability of about 80%;"
            " associations are selected among many tests, which takes larger differences"
        )
    tests_of_run = sum(len(part.errors) for part in measured)
    tests = max((number for number in families if number is not None), default=tests_of_run)
    family = f" if it is the only one in its family of {tests} tests" if tests > 1 else ""
    of_numbers = ""
    if any(part.part.in_standard_deviations for part in measured):
        of_numbers = "; differences of numbers are in their standard deviations"
    return (
        "detectable: smallest bias that is stated (q < 0.05) with a probability of about 80%"
        f"{family}; none: no bias is so large{of_numbers}"
    )


def _precision(planned: Sequence[_Planned]) -> DataFrame:
    """Return what each key metric could show (columns PRECISION)."""
    rows = []
    for (part, design, settings, errors), level in zip(planned, _levels(planned), strict=True):
        half_widths = {
            metric: _quadratic_mean(error.half_width(settings.level) for error in of_metric)
            for metric, of_metric in errors.items()
        }
        z = stats.two_sided_z(settings.level)
        standard_errors = {metric: half_width / z for metric, half_width in half_widths.items()}
        needed = part.items_needed(standard_errors, design["item"].n_unique(), settings)
        effects = part.detectable_effects(errors, design, settings, level)
        for metric, half_width in half_widths.items():
            rows.append(
                {
                    "part": part.name,
                    "metric": metric,
                    "half_width": half_width,
                    "detectable": effects.get(metric),
                    "items_needed": needed.get(metric),
                }
            )
    return DataFrame(rows, schema=PRECISION)


def _quadratic_mean(values: Iterable[float]) -> float:
    return math.sqrt(mean(value**2 for value in values))


def _warnings(metrics: DataFrame, parts: DataFrame, resolved: Resolved, library: Library) -> list[str]:
    """Return a sentence about the metrics with too few items for a decided mark.

    It names a sufficient limit, and says when to choose it.
    """
    few = _too_few(metrics, parts)
    if few.is_empty():
        return []
    needed_of = few.group_by("part", maintain_order=True).agg(col.items_needed.max(), col("items").first())
    part_of = {part.name: part for part in resolved.study.parts}
    limits, totals = {}, {}
    for part, needed, items in needed_of.iter_rows():
        total = total_items(part_of[part], library, resolved.settings)
        if total is None:
            limits[part] = _rounded(needed)
            continue
        if total > items:
            limits[part] = min(_rounded(needed), total)
        if total < needed:
            totals[part] = total
    names = [
        f"{part}/{metric} ({_rounded(items):,})"
        for part, metric, items in few.select("part", "metric", "items_needed").iter_rows()
    ]
    sentence = (
        "even without bias, the mark is undecided in more than 20% of studies, because more items are needed"
        f" (about how many): {first_of(names)}. {REPEATED_LOOKS} Choose the number before the run"
    )
    if limits:
        sentence += f"; give --limit {_limit_words(limits, parts, resolved)}"
    if totals:
        no_more = ", ".join(f"{part} ({total:,})" for part, total in totals.items())
        sentence += f". There are no more items than these: {no_more}"
    return [sentence]


def _limit_words(limits: Mapping[str, int], parts: DataFrame, resolved: Resolved) -> str:
    """Return the value of --limit that gives these numbers of items by part.

    It leaves the other parts as they are.
    """
    settings = resolved.settings
    if parts.height > 1:
        of_parts = {part: ItemLimit(items) for part, items in limits.items()}
        settings = replace(settings, limits={**settings.limits, **of_parts})
    else:
        settings = replace(settings, limit=ItemLimit(max(limits.values())))
    return str(replace(resolved, settings=settings).as_document()["limit"])


def total_items(part: Part, library: Library, settings: Settings) -> int | None:
    """Return the number of items of a part without a limit; None if its design cannot be created here."""
    try:
        return part.design(library, replace(settings, limit=None, limits={}))["item"].n_unique()
    except (NotRun, InputError):
        return None


def _too_few(metrics: DataFrame, parts: DataFrame) -> DataFrame:
    """Return the rows of `metrics` that need more items than the parts (`part`, `items`) have."""
    sizes = parts.select("part", "items")
    joined = metrics.join(sizes, on="part", maintain_order="left")
    return joined.filter(col.items_needed > col.items)


def size_sentence(resolved: Resolved, design: DataFrame) -> str | None:
    """Return a sentence about the key metrics whose marks can be decided with this design.

    None without marks.
    """
    designs = {str(name): rows for (name,), rows in design.partition_by("part", as_dict=True).items()}
    parts = [part for part in resolved.study.parts if part.name in designs]
    metrics = _precision([_planned(resolved, part, designs[part.name]) for part in parts])
    total = metrics["items_needed"].count()
    if not total:
        return None
    sizes = design.group_by("part").agg(items=col.item.n_unique())
    few = _too_few(metrics, sizes).select(pl.format("{}/{}", "part", "metric")).to_series()
    sentence = (
        f"with this number of items, the marks of {total - few.len()} of {total} key metrics can be decided"
        " if there is no bias"
    )
    if few.len():
        sentence += f"; undecided more often than in 20% of studies: {first_of(few.to_list())}"
    return sentence


def remarks(parts: Iterable[Part]) -> list[str]:
    """Return the remarks of parts about their prompts."""
    return [f"{part.title}: {part.remark}" for part in parts if part.remark]


def limit_warnings(resolved: Resolved, calls: int) -> list[str]:
    """Return a sentence about the other parts, if only single parts have a limit (`--limit gest=200`).

    Parameters
    ----------
    calls
        Number of calls of all parts.
    """
    limited = resolved.limited_alone
    if not limited:
        return []
    limits = ",".join(f"{part}={resolved.settings.limits[part]}" for part in limited)
    others = [part.name for part in resolved.study.parts if part.name not in limited]
    number = f"part, {others[0]}, keeps its" if len(others) == 1 else f"{len(others)} parts keep their"
    return [
        f"--limit {limits} limits {' and '.join(limited)} only: the other {number} size, and all parts"
        f" together take {calls:,} calls per model; for {' and '.join(limited)} alone, add"
        f" --only {','.join(limited)}"
    ]


def _rounded(items: int) -> int:
    """Round up to two significant digits, because the number comes from simulations."""
    unit: int = 10 ** max(0, len(str(items)) - 2)
    return -(-items // unit) * unit
