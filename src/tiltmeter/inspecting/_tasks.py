"""Inspect tasks for probes: samples, a scorer, and the metrics of the probe."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from importlib.metadata import version
from typing import Any

import anyio
from inspect_ai import Epochs, Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, GenerateConfig
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, metric, scorer
from inspect_ai.solver import TaskState, generate
from polars import DataFrame, col

from tiltmeter.datasets import Library
from tiltmeter.errors import InputError
from tiltmeter.importing import MARK, output_of
from tiltmeter.models import Sampling
from tiltmeter.probes import Probe
from tiltmeter.probes._listing import PROBES
from tiltmeter.readers.outcomes import OUTCOMES
from tiltmeter.runs import Resolved, resolve
from tiltmeter.runs._shared_tables import beside_factors
from tiltmeter.schema import RESPONSES
from tiltmeter.study import NotRun


@dataclass(frozen=True)
class ProbeTask:
    """A probe with its settings and design."""

    part: Probe
    resolved: Resolved
    design: DataFrame

    @cached_property
    def _factors(self) -> DataFrame:
        return self.design.drop("prompt", "system", "prompt_id")

    @cached_property
    def _rows(self) -> Mapping[str, int]:
        """Row number of each prompt id in the design."""
        return {name: row for row, name in enumerate(self.design["prompt_id"])}

    def measure(self, answers: Sequence[Mapping[str, Any]]) -> DataFrame:
        """Parse answers and return their measures in the same order, joined with the factors of the design.

        Parameters
        ----------
        answers
            One mapping per attempt with `prompt_id`, `repetition` and other known columns of RESPONSES.
        """
        rows = [{"model": "inspect", "status": "ok", **answer} for answer in answers]
        factors = self._factors[[self._rows[answer["prompt_id"]] for answer in answers]]
        attempts = DataFrame(rows, schema=RESPONSES).hstack(factors)
        return beside_factors(attempts, self.part.measure(attempts, self.resolved.settings))

    def key_numbers(self, answers: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Compute the key metrics with the ends of their intervals, and the share of each outcome.

        Numbers that cannot be computed are NaN. Answers are sorted in the order of the design, so that
        resampling gives the same results as `tiltmeter analyse`.
        """
        in_order = sorted(answers, key=lambda answer: (self._rows[answer["prompt_id"]], answer["repetition"]))
        measures = self.measure(in_order)
        findings = self.part.analyse(measures, self.resolved.settings)["findings"]
        numbers: dict[str, float | None] = {}
        for row in findings.filter(col.key & col.wording.is_null()).iter_rows(named=True):
            metric = row["metric"]
            numbers[metric] = row["estimate"]
            numbers[f"{metric}_low"] = row["low"]
            numbers[f"{metric}_high"] = row["high"]
        for outcome in OUTCOMES:
            matches = measures.filter(outcome=outcome).height
            numbers[outcome] = matches / measures.height if measures.height else 0.0
        return {name: math.nan if value is None else value for name, value in numbers.items()}

    def read(self, answers: Sequence[Mapping[str, Any]]) -> list[tuple[str, str | None]]:
        """Return the outcome and label of each attempt."""
        return self.measure(answers).select("outcome", "label").rows()


@lru_cache(maxsize=16)
def load_task(probe: str, **settings: Any) -> ProbeTask:
    """Load a probe by name with the settings of `probe_task`.

    Raises
    ------
    InputError
        A setting is invalid, or the data of the probe is unavailable.
    """
    wording = settings.pop("wording", None)
    params = {} if wording is None else {"wording": wording}
    resolved = resolve(f"genderbench/{probe}", settings={**settings, "params": params})
    (part,) = resolved.study.parts
    assert isinstance(part, Probe)
    try:
        design = part.design(Library.default(), resolved.settings.of_part(part.name))
    except NotRun as reason:
        raise InputError(f"{probe} cannot be run: {reason}") from reason
    return ProbeTask(part, resolved, design)


REASONS: Mapping[str, str] = {
    "refused": "refusal",
    "unreadable": "invalid_response_format",
    "empty": "no_response",
}
"""Inspect's terms for the outcomes without a parsed answer."""
PAUSE = 0.05
"""Seconds that an answer waits for others, so that they are parsed in one batch."""


def probe_task(
    probe: str,
    *,
    limit: int | float | str | None = None,
    wording: str | None = None,
    definition: str | None = None,
    seed: int | None = None,
    repeats: int | None = None,
    system_message: str | None = None,
) -> Task:
    """Create an Inspect task from a probe.

    The design becomes the dataset, repetitions become epochs, the parser becomes the scorer, and the probe's
    formulas become the metrics.

    Parameters
    ----------
    probe
        Name of a built-in probe ("gest") or of a probe from another package.
    limit
        Items to use: a number, a share (0.1) or a range ("0-99").
    wording, definition, seed, repeats, system_message
        See `tiltmeter.run`.

    Raises
    ------
    InputError
        The probe does not exist, a setting is invalid, or the data of the probe is unavailable.
    """
    options = {
        "limit": limit,
        "wording": wording,
        "definition": definition,
        "seed": seed,
        "repeats": repeats,
        "system_message": system_message,
    }
    settings = {name: value for name, value in options.items() if value is not None}
    loaded = load_task(probe, **settings)
    origin = {"study": loaded.resolved.study.name, "version": version("tiltmeter")}
    return Task(
        dataset=MemoryDataset(_samples(loaded.design), name=probe),
        solver=generate(),
        scorer=reading(probe, **settings),
        metrics=[key_metrics(probe, **settings)],
        epochs=Epochs(int(loaded.design["repetitions"][0])),
        config=_config(loaded.resolved.sampling),
        name=probe,
        metadata={MARK: origin},
    )


def _samples(design: DataFrame) -> list[Sample]:
    """Return the prompts of a design as samples of Inspect."""
    samples = []
    for prompt_id, system, prompt in design.select("prompt_id", "system", "prompt").iter_rows():
        text: str | list[Any] = prompt
        if system is not None:
            text = [ChatMessageSystem(content=system), ChatMessageUser(content=prompt)]
        samples.append(Sample(id=prompt_id, input=text))
    return samples


def _config(sampling: Sampling) -> GenerateConfig:
    return GenerateConfig(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        max_tokens=sampling.max_tokens,
        seed=sampling.seed,
        stop_seqs=list(sampling.stop) or None,
    )


@metric(name="key_metrics", scores="unreduced")
def key_metrics(probe: str, **settings: Any) -> Metric:
    """Create the Inspect metric that computes the key metrics of a probe over all samples and epochs.

    They have intervals.
    """

    def compute(scores: list[SampleScore]) -> Value:
        answers = [{"prompt_id": str(sample.sample_id), **(sample.score.metadata or {})} for sample in scores]
        return load_task(probe, **settings).key_numbers(answers)

    return compute


@scorer(metrics=[], name="reading")
def reading(probe: str, **settings: Any) -> Scorer:
    """Create the Inspect scorer of a probe.

    The value of a score is the label of the answer, or its outcome if there is no label.
    """
    batch = _Batch(lambda answers: load_task(probe, **settings).read(answers))

    async def score(state: TaskState, target: Target) -> Score:
        output = output_of(state.output.model_dump())
        answer = {
            "repetition": state.epoch - 1,
            "answer": output["answer"],
            "refusal": output["refusal"],
        }
        outcome, label = await batch.read({"prompt_id": str(state.sample_id), **answer})
        return Score(value=label or outcome, answer=label, reason=REASONS.get(outcome), metadata=answer)

    return score


_Reading = tuple[str, str | None]
"""The outcome and the label of an answer."""


class _Batch:
    """Batching of answers that arrive at about the same time.

    Parsing a hundred takes hardly longer than parsing one.
    """

    def __init__(self, read: Callable[[Sequence[Mapping[str, Any]]], list[_Reading]]) -> None:
        self._read = read
        self._waiting: dict[object, Mapping[str, Any]] = {}
        self._done: dict[object, _Reading | Exception] = {}

    async def read(self, answer: Mapping[str, Any]) -> _Reading:
        """Return the outcome and label of an answer.

        The first caller that wakes up parses the batch for all callers, or fails for all.
        """
        ticket = object()
        self._waiting[ticket] = answer
        await anyio.sleep(PAUSE)
        if ticket not in self._done:
            self._parse_batch()
        reading_or_error = self._done.pop(ticket)
        if isinstance(reading_or_error, Exception):
            raise reading_or_error
        return reading_or_error

    def _parse_batch(self) -> None:
        """Parse all answers that wait."""
        waiting, self._waiting = self._waiting, {}
        try:
            readings = self._read(list(waiting.values()))
            self._done |= zip(waiting, readings, strict=True)
        except Exception as error:
            self._done |= dict.fromkeys(waiting, error)


def _task_of(probe: str) -> Callable[..., Task]:
    """Return the function that creates the task of a probe.

    Inspect prefixes its name with the package of its module.
    """
    create = partial(probe_task, probe)
    create.__module__ = __name__
    create.__doc__ = f"Tiltmeter probe {probe}."
    return create


for _name in PROBES.names():
    task(name=_name)(_task_of(_name))
