"""Generation by vLLM through `ray.data.llm`: waves of requests, each one dataset, answers kept as they come.

Ray Data drives it from the calling process, which therefore has to be a part of the cluster. The engines of vLLM live as long as a wave:
waves are large, so that loading the weights is little beside them, and the next one is gathered before anything waits for it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tiltmeter.engine._feed import Job
from tiltmeter.engine._journal import Journal
from tiltmeter.engine._limits import Limits
from tiltmeter.engine._prices import Prices
from tiltmeter.engine._request import Request
from tiltmeter.engine._run import Run
from tiltmeter.engine.ray._foreman import Stage, quieten, reason
from tiltmeter.errors import ProviderError
from tiltmeter.models import ModelError, Sampling

if TYPE_CHECKING:
    from ray.data import Dataset

    from tiltmeter.engine._display import Display
    from tiltmeter.models.hf import BulkModel, Prompt

__all__ = ["MOST_LOSSES", "BulkRun", "Speak", "processor_of"]

WAVE: Final = 20_000
"""Requests in one dataset at most; they are claimed together."""
BATCH: Final = 64
"""Rows that travel to an engine together; it has several such batches under way."""
MOST_LOSSES: Final = 3
"""Waves in a row that end with an error and without a single answer, before the run is given up."""

Speak = Callable[["Dataset"], "Dataset"]
"""From rows of `number`, `tokenized_prompt` and `sampling_params` to rows of `number`, `generated_text`, `num_generated_tokens`,
`time_taken_llm` and `__inference_error__`, in any order."""


def processor_of(model: BulkModel, stage: Stage, batch: int | None) -> Speak:
    """vLLM's own processor of `ray.data.llm`, with as many engines as the pool has workers.

    Raises
    ------
    ProviderError
        The cluster has no GPUs for a worker, or vLLM is not installed where the GPUs are.
    """
    import ray

    there = ray.cluster_resources().get("GPU", 0)  # type: ignore[no-untyped-call]
    if stage.gpus < 1 or there < stage.gpus:
        said = f"-M runner=vllm needs whole GPUs for each worker, and -E gpus= is {stage.gpus:g} on a cluster that has"
        raise ProviderError(f"{said} {there:g}: give -E gpus=1 or more, or leave runner=vllm out")
    if not ray.get(ray.remote(_has_vllm).options(num_cpus=0, num_gpus=stage.gpus).remote()):
        raise ProviderError(
            f"{model.name}: the package vllm is not installed where the GPUs are: pip install vllm on every node that has some"
        )
    return _processor(config_of(model, stage, batch))


def config_of(model: BulkModel, stage: Stage, batch: int | None) -> Any:
    """The `vLLMEngineProcessorConfig`: prompts come as tokens, so that no stage but the engine's is needed."""
    from ray.data.llm import vLLMEngineProcessorConfig

    arguments = model.arguments | {"tensor_parallel_size": math.ceil(stage.gpus)}
    return vLLMEngineProcessorConfig(
        model_source=model.source,
        engine_kwargs=arguments,
        concurrency=stage.workers if stage.workers[0] < stage.workers[1] else stage.workers[0],
        batch_size=batch or BATCH,
        should_continue_on_error=True,
        log_engine_metrics=False,
        chat_template_stage=False,
        tokenize_stage=False,
        detokenize_stage=False,
        prepare_multimodal_stage=False,
    )


def _processor(config: Any) -> Speak:
    from ray.data.llm import build_processor

    kept = ("number", "generated_text", "num_generated_tokens", "time_taken_llm")
    made: Speak = build_processor(config, preprocess=dict, postprocess=lambda row: {name: row[name] for name in kept})
    return made


def _has_vllm() -> bool:
    from importlib.util import find_spec

    return find_spec("vllm") is not None


class BulkRun(Run):
    """Feed, journal, tally and display as ever; one worker gathers waves and has them spoken."""

    def __init__(
        self,
        model: BulkModel,
        requests: Iterable[Request],
        sampling: Sampling,
        journal: Journal,
        limits: Limits,
        display: Display | None,
        prices: Prices,
        *,
        speak: Speak,
        wave: int = WAVE,
    ) -> None:
        bounded = Limits(max_connections=1, timeout=limits.timeout, retries=limits.retries, deadline=limits.deadline)
        super().__init__(model, requests, sampling, journal, bounded, display, prices)
        self._bulk, self._speak, self._wave = model, speak, wave
        self._feed.claim_size = wave
        self._losses = 0

    async def _work(self, number: int) -> None:
        last = False
        while not self._stopping and not last:
            jobs: list[Job] = []
            while len(jobs) < self._wave and not last and not self._stopping:
                self._hungry.set()
                job = await self._queue.get()
                if job is None:
                    last = True
                else:
                    jobs.append(job)
            while jobs and not self._stopping:
                jobs = await self._speak_all(number, jobs)

    async def _speak_all(self, number: int, jobs: Sequence[Job]) -> list[Job]:
        """Have a wave answered; gives back what was lost on the way."""
        open_jobs = dict(enumerate(jobs))
        prompts: dict[int, Prompt] = {}
        for place, job in list(open_jobs.items()):
            try:
                prompts[place] = self._bulk.prompt(job.request.messages, self._sampling, job.request.sample)
            except ModelError as error:
                del open_jobs[place]
                self._refused(job, error)
        loop = asyncio.get_running_loop()
        answers: asyncio.Queue[Mapping[str, Any] | Exception | None] = asyncio.Queue()
        self._sending[number] = time.monotonic()
        spoken = loop.run_in_executor(None, self._stream, prompts, loop, answers)
        try:
            while (told := await answers.get()) is not None:
                if isinstance(told, Exception):
                    self._lost(told, begun_with=len(jobs), left=len(open_jobs))
                else:
                    self._take_in(told, open_jobs, prompts)
        finally:
            self._sending[number] = 0.0
            spoken.cancel()
        return list(open_jobs.values())

    def _stream(self, prompts: Mapping[int, Prompt], loop: asyncio.AbstractEventLoop, answers: asyncio.Queue[Any]) -> None:
        """In a thread: rows as they come; then the error that ended them, if one did; then None."""

        def tell(what: object) -> None:
            loop.call_soon_threadsafe(answers.put_nowait, what)

        try:
            for row in self._rows(prompts) if prompts else ():
                if self._stopping:
                    break
                tell(row)
        except Exception as error:
            tell(error)
        tell(None)

    def _rows(self, prompts: Mapping[int, Prompt]) -> Iterator[Mapping[str, Any]]:
        import ray

        quieten()
        rows = [{"number": number, "tokenized_prompt": one.ids, "sampling_params": one.parameters} for number, one in prompts.items()]
        yield from self._speak(ray.data.from_items(rows)).iter_rows()

    def _take_in(self, row: Mapping[str, Any], open_jobs: dict[int, Job], prompts: Mapping[int, Prompt]) -> None:
        job = open_jobs.pop(int(row["number"]), None)
        if job is None:  # told twice, by a worker that took over from a lost one
            return
        self._losses = 0
        if failure := row.get("__inference_error__"):
            said = str(failure).partition(":")[0]
            self._give_up(job, ModelError("internal", f"vLLM failed with {said}", scope="permanent"), 1, None)
            return
        seconds = row["time_taken_llm"]
        latency = math.nan if seconds is None or seconds < 0 else float(seconds)
        answer = self._bulk.completion(prompts[int(row["number"])], row["generated_text"], int(row["num_generated_tokens"]), latency)
        self._keep(job, answer, 1)

    def _refused(self, job: Job, error: ModelError) -> None:
        self.tally.errors[error.kind] += 1
        self._give_up(job, error, 1, self._streak.attempt_failed(error, time.monotonic()))

    def _lost(self, error: Exception, *, begun_with: int, left: int) -> None:
        self._losses = 0 if left < begun_with else self._losses + 1
        if self._losses >= MOST_LOSSES:
            said = f"{self._bulk.name}: vLLM gave no answer {MOST_LOSSES} times in a row ({reason(error)}); answers so far are kept"
            self._error = ProviderError(said)
            self.stop(grace=0.0)
