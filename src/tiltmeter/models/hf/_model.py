"""A causal language model of transformers, run in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from types import TracebackType
from typing import Any, NamedTuple, Self

from tiltmeter.models._base import Completion, Message, ModelError, Sampling
from tiltmeter.models._local import Weights, is_out_of_memory, pick_device
from tiltmeter.models._thinking import split_thinking
from tiltmeter.models.hf._batches import Batches, DoesNotFitError, Job
from tiltmeter.models.hf._decode import Row, Spoken, decode
from tiltmeter.models.hf._load import Loaded, dtype_of, load
from tiltmeter.models.hf._open_box import Handed, is_open_box, read_open_box
from tiltmeter.models.hf._options import Options
from tiltmeter.models.hf._prompt import encode
from tiltmeter.models.hf._sampling import Recipe, recipe_of, seed_of

__all__ = ["LocalModel"]


class _Ready(NamedTuple):
    """What is known of a request once its prompt was read."""

    row: Row
    recipe: Recipe
    thinking: bool
    """Whether its answer begins within thinking."""


class LocalModel:
    """Answers in batches, on one thread; the same request gives the same answer whatever else is asked beside it.

    A request's answer depends on the model, the messages, the sampling and the sample number (where no seed is given, as with
    the same seed each time); in types narrower than float32 the rounding of a batch may tip the scales between two tokens that
    are about equally probable. What the sampling leaves open is as the model's own generation configuration says: most
    say nothing, and then the most probable token is taken each time.

    Weights are read when it is first entered, and kept.
    """

    local = True
    patches = True

    def __init__(self, name: str, weights: Weights, options: Options) -> None:
        self._name, self._weights, self._options = name, weights, options
        self._fingerprint: str | None = None
        self._loaded: Loaded | None = None
        self._executor: ThreadPoolExecutor | None = None
        self._batches: Batches | None = None
        self._size = options.batch_size

    @property
    def name(self) -> str:
        """`hf/NAME_OR_PATH`, as the user wrote it."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """What the weights are (not where they lie), the type of numbers, and how a source prompt is put in place."""
        if self._fingerprint is None:
            options = self._options
            dtype = dtype_of(options.dtype, pick_device(options.device), self._weights.config)
            patch = f"{options.source_layer}>{options.target_layer} {options.placeholder!r}"
            self._fingerprint = f"hf/1 {self._weights.identity} {dtype} {patch}"
        return self._fingerprint

    @property
    def endpoint(self) -> str:
        """The model's own name."""
        return self._name

    def __repr__(self) -> str:
        return f"<LocalModel {self._name}>"

    def __getstate__(self) -> dict[str, Any]:
        """For another process: no weights, and what they are is looked at again there (files and device may differ)."""
        weights = self._weights
        if weights.folder is not None:
            weights = weights._replace(folder=weights.folder.absolute())
        fresh = {"_fingerprint": None, "_loaded": None, "_executor": None, "_batches": None, "_size": self._options.batch_size}
        return self.__dict__ | fresh | {"_weights": weights}

    async def __aenter__(self) -> Self:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="tiltmeter-hf")
        try:
            if self._loaded is None:
                self._loaded = await asyncio.get_running_loop().run_in_executor(self._executor, self._load)
        except BaseException:
            self._executor.shutdown(wait=False)
            raise
        self._batches = Batches(self._size, self._prepare, self._answer, self._executor)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        batches, executor = self._batches, self._executor
        self._batches = self._executor = None
        if batches is None or executor is None:
            return
        self._size = batches.size
        try:
            await batches.close()
        except BaseException:
            executor.shutdown(wait=False)  # the batch under way ends at its next token, and the thread with it
            raise
        executor.shutdown()

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """See Model.complete."""
        if self._batches is None:
            raise RuntimeError(f"{self!r} must be entered first: async with model")
        return await self._batches.ask(messages, sampling, sample)

    def _load(self) -> Loaded:
        options = self._options
        dtype = dtype_of(options.dtype, pick_device(options.device), self._weights.config)
        return load(self._weights, options.device, dtype, self._name)

    def _prepare(self, job: Job) -> None:
        assert self._loaded is not None
        recipe = recipe_of(job.sampling, self._loaded.defaults)
        handed: Handed | None = None
        if is_open_box(job.messages):
            ids, handed = read_open_box(self._loaded.tokenizer, job.messages, recipe.template, self._options.placeholder)
            thinking = False
        else:
            ids, thinking = encode(self._loaded.tokenizer, job.messages, recipe.template)
        limit = recipe.max_tokens
        positions = self._loaded.positions
        if positions is not None:
            if len(ids) >= positions:
                detail = f"the prompt has {len(ids):,} tokens and {self._name} takes {positions:,} with the answer"
                raise ModelError("context_length", detail, scope="permanent")
            limit = min(limit, positions - len(ids))
        row = Row(ids, limit, seed_of(job.messages, job.sampling.seed, job.sample), job.given_up, handed)
        job.ready, job.group, job.length = _Ready(row, recipe, thinking), (recipe, handed is None), len(ids)

    def _answer(self, jobs: Sequence[Job]) -> list[Completion]:
        assert self._loaded is not None
        ready: list[_Ready] = [job.ready for job in jobs]
        try:
            spoken = decode(self._loaded, [one.row for one in ready], ready[0].recipe, self._options)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        else:
            return [self._completion(job, one) for job, one in zip(jobs, spoken, strict=True)]
        # Beyond the handler: the error held the tensors of the batch.
        _free_memory(self._loaded.device)
        raise DoesNotFitError

    def _completion(self, job: Job, spoken: Spoken) -> Completion:
        assert self._loaded is not None
        ready: _Ready = job.ready
        text = self._loaded.tokenizer.decode(spoken.ids, skip_special_tokens=True)
        ends = [place for stop in ready.recipe.stop if (place := text.find(stop)) >= 0]
        text = text[: min(ends, default=len(text))]
        answer, thinking = split_thinking(f"<think>{text}" if ready.thinking else text)
        latency = perf_counter() - job.begun
        return Completion(answer, spoken.finish_reason, None, thinking, job.length, spoken.tokens, latency)


def _free_memory(device: str) -> None:
    if device.startswith("cuda"):
        import torch

        torch.cuda.empty_cache()
