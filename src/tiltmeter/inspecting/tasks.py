"""Probes as Inspect tasks: their samples, and a scorer whose metrics are the probe's own numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from importlib.metadata import version
from typing import Any

import anyio
import polars as pl
from inspect_ai import Epochs, Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, GenerateConfig
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, metric, scorer
from inspect_ai.solver import TaskState, generate
from polars import DataFrame, col

from tiltmeter import registry
from tiltmeter.datasets import Library
from tiltmeter.errors import InputError
from tiltmeter.importing import MARK, output_of
from tiltmeter.models import Sampling
from tiltmeter.probes import Probe
from tiltmeter.runs import Resolved, resolve
from tiltmeter.study import OUTCOMES, RESPONSES, NotRun


@dataclass(frozen=True)
class Asked:
    """A probe with its settings and its design."""

    part: Probe
    resolved: Resolved
    design: DataFrame

    @cached_property
    def _factors(self) -> DataFrame:
        return self.design.drop("prompt", "system", "prompt_id")

    @cached_property
    def _rows(self) -> Mapping[str, int]:
        """Number of the row of each prompt."""
        return {name: row for row, name in enumerate(self.design["prompt_id"])}

    def measure(self, answers: Sequence[Mapping[str, Any]]) -> DataFrame:
        """Measures in the order of the answers, joined with the factors of the design.

        Parameters
        ----------
        answers
            Of each attempt `prompt_id`, `repetition`, and what else of RESPONSES is known.
        """
        given = DataFrame([{"model": "inspect", "status": "ok", **answer} for answer in answers], schema=RESPONSES)
        factors = self._factors[[self._rows[answer["prompt_id"]] for answer in answers]]
        joined = pl.concat([given, factors], how="horizontal")
        read = self.part.measure(joined, self.resolved.settings)
        kept = [name for name in joined.columns if name not in RESPONSES or name in ("model", "prompt_id", "repetition")]
        return pl.concat([joined.select(kept), read], how="horizontal")

    def key_numbers(self, answers: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Each key metric of the probe with both ends of its interval, and the share of every outcome; NaN for what cannot be computed.

        The answers are put in the order of the design first, in which `tiltmeter analyse` resamples them.
        """
        measures = self.measure(sorted(answers, key=lambda answer: (self._rows[answer["prompt_id"]], answer["repetition"])))
        found = self.part.analyse(measures, self.resolved.settings)["findings"].filter(col.key & col.wording.is_null())
        numbers: dict[str, float | None] = {}
        for row in found.iter_rows(named=True):
            numbers |= {row["metric"]: row["estimate"], f"{row['metric']}_low": row["low"], f"{row['metric']}_high": row["high"]}
        shares = {name: float((measures["outcome"] == name).mean() or 0.0) for name in OUTCOMES}  # type: ignore[arg-type]
        return {name: float("nan") if value is None else value for name, value in (numbers | shares).items()}

    def read(self, answers: Sequence[Mapping[str, Any]]) -> list[tuple[str, str | None]]:
        """Outcome and label of each attempt."""
        return self.measure(answers).select("outcome", "label").rows()


@lru_cache(maxsize=16)
def asked(probe: str, **settings: Any) -> Asked:
    """A probe by name, with the settings of `probe_task`.

    Raises
    ------
    InputError
        A setting cannot be used, or the data of the probe cannot be had.
    """
    wording = settings.pop("wording", None)
    resolved = resolve(f"genderbench/{probe}", settings={**settings, "params": {} if wording is None else {"wording": wording}})
    (part,) = resolved.study.parts
    assert isinstance(part, Probe)
    try:
        return Asked(part, resolved, part.design(Library.default(), resolved.settings.of_part(part.name)))
    except NotRun as reason:
        raise InputError(f"{probe} cannot be run: {reason}") from reason


REASONS = {"refused": "refusal", "unreadable": "invalid_response_format", "empty": "no_response"}
"""Inspect's words for outcomes that are no answer."""
PAUSE = 0.05
"""Seconds an answer waits for others to be read with it."""


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
    """A probe as a task: its design as the dataset, its repetitions as epochs, its readers as the scorer, its formulas as the metric.

    Parameters
    ----------
    probe
        Name of a probe ("gest"), ours or of an outside package.
    limit
        Items: a number, a share (0.1) or a range ("0-99").
    wording, definition, seed, repeats, system_message
        As `tiltmeter run` takes them.

    Raises
    ------
    InputError
        There is no such probe, a setting cannot be used, or the probe's data cannot be had.
    """
    settings = {"limit": limit, "wording": wording, "definition": definition, "seed": seed, "repeats": repeats}
    settings["system_message"] = system_message
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
    return [Sample(id=name, input=prompt if system is None else _with_system(system, prompt)) for name, system, prompt in texts]


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
    """The probe's key metrics over all samples and epochs, each with its interval."""

    def compute(scores: list[SampleScore]) -> Value:
        answers = [{"prompt_id": str(one.sample_id), **(one.score.metadata or {})} for one in scores]
        return asked(probe, **settings).key_numbers(answers)

    return compute


@scorer(metrics=[], name="reading")
def reading(probe: str, **settings: Any) -> Scorer:
    """How the probe reads an answer: the value is the label, or the outcome of an attempt without one."""

    together = _Together(lambda answers: asked(probe, **settings).read(answers))

    async def score(state: TaskState, target: Target) -> Score:
        said = output_of(state.output.model_dump())
        answer = {"repetition": state.epoch - 1, **{name: said[name] for name in ("answer", "refusal")}}
        outcome, label = await together.read({"prompt_id": str(state.sample_id), **answer})
        return Score(value=label or outcome, answer=label, reason=REASONS.get(outcome), metadata=answer)

    return score


class _Together:
    """Reads answers that come at about the same time together: a reader takes hardly longer for a hundred than for one."""

    def __init__(self, read: Callable[[Sequence[Mapping[str, Any]]], list[tuple[str, str | None]]]) -> None:
        self._read = read
        self._waiting: dict[object, Mapping[str, Any]] = {}
        self._done: dict[object, tuple[str, str | None]] = {}

    async def read(self, answer: Mapping[str, Any]) -> tuple[str, str | None]:
        """Outcome and label. The first to find its answer unread reads all there are."""
        mine = object()
        self._waiting[mine] = answer
        await anyio.sleep(PAUSE)
        if mine not in self._done:
            waiting, self._waiting = self._waiting, {}
            self._done |= zip(waiting, self._read(list(waiting.values())), strict=True)
        return self._done.pop(mine)


def _task_of(probe: str) -> Callable[..., Task]:
    """What makes the task of one probe; Inspect puts the package of its module before its name."""
    made = partial(probe_task, probe)
    made.__module__, made.__doc__ = __name__, f"The probe {probe} of Tiltmeter."
    return made


for _name in registry.names("probes"):
    task(name=_name)(_task_of(_name))
