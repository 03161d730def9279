"""`hf/NAME_OR_PATH`: a causal language model of transformers, from a folder or the Hugging Face hub, run in this process.

Options (`-M key=value`) are those of `LocalOptions`; `-M top_k=, min_p=, frequency_penalty=, presence_penalty=, repetition_penalty=`
and `-M chat_template_kwargs={"enable_thinking": false}` are understood besides the fields of `Sampling`.

Requests come one by one in an event loop and are answered in batches on a thread of their own, which does everything that touches the
tokenizer and the model (neither is safe to use from two threads). With `-M runner=vllm` vLLM answers them, on the GPUs of a cluster.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from time import perf_counter
from typing import Any, Self

from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models.base import (
    Completion,
    Message,
    ModelError,
    NamedModel,
    Range,
    Sampling,
    check_local,
    check_options,
    parse_number,
)
from tiltmeter.models.generation import Generator, generate_batch
from tiltmeter.models.prompts import PromptReader, PromptRow
from tiltmeter.models.weights import Weights, check_device, find_weights, is_out_of_memory, load_pretrained, need_local, pick_device
from tiltmeter.thinking import split_thinking

SMALL = 20_000_000
"""Parameters below which a model is computed by one thread on a CPU: several would mostly wait for each other."""
LINGER = 0.005
"""Seconds without a new request after which a batch that is not full sets off: a run hands its requests over one after the other."""
_WHAT = "causal language model"
_CHOICES = {"dtype": ("auto", "float32", "bfloat16", "float16"), "runner": ("transformers", "vllm")}
_RANGES: Mapping[str, Range] = {
    "batch_size": (int, 1, float("inf")),
    "source_layer": (int, 0, float("inf")),
    "target_layer": (int, 0, float("inf")),
}


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """How a model is loaded and run. The layers and the placeholder matter to messages with a source prompt only (the open box)."""

    device: str = "auto"
    """auto: a GPU where there is one."""
    dtype: str = "auto"
    """auto: as the weights were saved on a GPU, float32 elsewhere."""
    batch_size: int = 32
    """Prompts answered together at most; halved when they do not fit."""
    revision: str | None = None
    """Branch, tag or commit of a repository of the hub."""
    runner: str = "transformers"
    """vllm: in bulk on the GPUs of a cluster, with `--engine ray`; no open box, and answers of a fingerprint of their own."""
    source_layer: int = 2
    """Block (from 0) after which the hidden states of the source are taken."""
    target_layer: int = 3
    """Block (from 0) after which they replace those of the placeholders."""
    placeholder: str = "X"
    """The word that is there once for each token of the source."""


OPTIONS: frozenset[str] = frozenset(option.name for option in fields(LocalOptions))
"""Options `create` takes itself; all others are vendor extras."""


def create(provider: str, model: str, *, base_url: str | None, options: Mapping[str, str]) -> LocalModel | BulkModel:
    """Create the model in the folder `model`, or of that name on the hub; its weights are read when it is first entered.

    Raises
    ------
    InputError
        There is no such folder, or it holds no model; an option is unknown or out of range; or a base URL was given.
    ProviderError
        The extra `local` is not installed, or the hub has no such model or cannot be reached.
    """
    name = f"{provider}/{model}"
    check_local(name, base_url)
    check_options(provider, options, sorted(OPTIONS))
    for option, value in options.items():
        if not value.strip():
            raise InputError(f"-M {option}=: give a value, or leave the option out")
        if option in _CHOICES and value not in _CHOICES[option]:
            raise InputError(f"-M {option}={value}: use one of {', '.join(_CHOICES[option])}")
    numbers = {option: parse_number(option, options[option], allowed) for option, allowed in _RANGES.items() if option in options}
    chosen = LocalOptions(**{**options, **numbers})
    check_device(chosen.device)
    need_local(name, "torch", "transformers")
    made = BulkModel if chosen.runner == "vllm" else LocalModel
    return made(name, find_weights(model, chosen.revision), chosen)


def is_pipeline(one: object) -> bool:
    """Whether an object is a pipeline of transformers; nothing is imported to tell."""
    return any(kind.__name__ == "Pipeline" and kind.__module__.startswith("transformers.") for kind in type(one).__mro__)


@dataclass(eq=False, slots=True)
class WaitingRequest:
    """A request of `LocalModel` whose prompt was read."""

    row: PromptRow
    answer: asyncio.Future[Completion]
    begun: float


class LocalModel(NamedModel):
    """Answers in batches, on one thread; the same request gives the same answer whatever else is asked at the same time.

    A request's answer depends on the model, the messages, the sampling and the sample number (where no seed is given, as with
    the same seed each time); in types narrower than float32 the rounding of a batch may tip the scales between two tokens that
    are about equally probable. What the sampling leaves open is as the model's own generation configuration says: most
    say nothing, and then the most probable token is taken each time.

    A batch is whatever waits when the thread is free: requests of similar length together, the one that has waited longest among
    them. A batch that does not fit into memory is halved, and so are all later ones.

    Weights are read when it is first entered, and kept. In another process they are looked for again: files and device may differ there.
    """

    local = True
    patches = True

    def __init__(self, name: str, weights: Weights, options: LocalOptions) -> None:
        self.name = self.endpoint = name
        self._weights, self._options, self._size = weights, options, options.batch_size
        self._generator: Generator | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._open: set[asyncio.Future[Completion]] = set()
        self._waiting: list[WaitingRequest] = []
        self._worker: asyncio.Task[None] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self._weights, self._options)

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]  # weights are looked at when it is first asked for
        """What the weights are (not where they lie), the type of numbers, and how a source prompt is put in place."""
        options = self._options
        dtype = self._dtype(pick_device(options.device))
        return f"hf/1 {self._weights.identity} {dtype} {options.source_layer}>{options.target_layer} {options.placeholder!r}"

    def _dtype(self, device: str) -> str:
        """The type of numbers on a device; "auto": as saved on a GPU, float32 elsewhere (narrower types are slow there)."""
        if self._options.dtype != "auto":
            return self._options.dtype
        config = self._weights.config
        places = (config, config.get("text_config") or {})
        saved = next((str(place[name]) for place in places for name in ("dtype", "torch_dtype") if place.get(name)), "float32")
        return saved if saved in ("bfloat16", "float16") and not device.startswith("cpu") else "float32"

    def _load(self) -> Generator:
        import torch

        device = pick_device(self._options.device)
        dtype = getattr(torch, self._dtype(device))
        model, tokenizer = load_pretrained(self._weights, "AutoModelForCausalLM", _WHAT, device, dtype=dtype)
        return self._generator_of(model, tokenizer)

    def _generator_of(self, model: Any, tokenizer: Any) -> Generator:
        import torch
        from transformers import GenerationConfig

        options = self._options
        if model.device.type == "cpu" and model.num_parameters() < SMALL:
            torch.set_num_threads(1)
        own, model.generation_config = model.generation_config, GenerationConfig()  # its beams or bans are not what a request asks for
        named = own.eos_token_id
        ends = frozenset([*(named if isinstance(named, list) else [named]), tokenizer.eos_token_id])
        reader = PromptReader(self.name, tokenizer, model.config, own, options.placeholder)
        return Generator(model, reader, (options.source_layer, options.target_layer), ends)

    async def __aenter__(self) -> Self:
        thread = ThreadPoolExecutor(1, thread_name_prefix="tiltmeter-hf")
        try:
            if self._generator is None:
                self._generator = await asyncio.get_running_loop().run_in_executor(thread, self._load)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        self._thread, self._waiting, self._worker = thread, [], None
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Give up what waits, end the batch under way at its next token, and wait for that."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        for answer in self._open:
            answer.cancel()
        try:
            if self._worker is not None:
                await asyncio.wait([self._worker])
        except BaseException:
            thread.shutdown(wait=False)  # the batch under way ends at its next token, and the thread with it
            raise
        thread.shutdown()

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """See `Model.complete`."""
        if self._thread is None or self._generator is None:
            raise RuntimeError(f"{self!r} must be entered first: async with model")
        begun, loop = perf_counter(), asyncio.get_running_loop()
        in_thread = partial(loop.run_in_executor, self._thread)
        answer: asyncio.Future[Completion] = loop.create_future()
        self._open.add(answer)
        try:
            row = await in_thread(self._generator.reader.read, messages, sampling, sample)
            row.given_up = answer.cancelled
            self._waiting.append(WaitingRequest(row, answer, begun))
            if self._worker is None or self._worker.done():
                self._worker = asyncio.create_task(self._work(partial(in_thread, _answers, self._generator)))
            return await answer
        except ModelError:
            raise
        except Exception as error:  # half a surrogate pair, or whatever else a tokenizer does not take
            raise ModelError("bad_request", f"the prompt cannot be read: {type(error).__name__}", scope="permanent") from None
        finally:
            self._open.discard(answer)

    async def _work(self, answers: Callable[[list[WaitingRequest]], Awaitable[Sequence[Completion | ModelError]]]) -> None:
        """Answer all that waits; `answers` is `_answers` on the thread."""
        while self._waiting:
            seen = -1
            while len(self._waiting) < (asked := self._unanswered) or seen < asked < self._size:  # more is being read or handed over
                seen = asked
                await asyncio.sleep(LINGER)
            batch = self._take()
            if not batch:
                continue
            outcomes = await answers(batch)
            if not outcomes and len(batch) > 1:
                self._size = len(batch) // 2
                self._waiting = batch + self._waiting
            elif not outcomes:
                advice = "use a smaller model, a narrower -M dtype or fewer --max-tokens"
                detail = f"a prompt of {len(batch[0].row.ids):,} tokens and its answer do not fit into memory: {advice}"
                outcomes = [ModelError("out_of_memory", detail, scope="permanent")]
            for request, outcome in zip(batch, outcomes, strict=False):
                if request.answer.done():  # it is no longer wanted
                    continue
                if isinstance(outcome, Completion):
                    request.answer.set_result(outcome)
                else:
                    request.answer.set_exception(outcome)

    @property
    def _unanswered(self) -> int:
        """Requests that wait, or whose prompts are being read."""
        return sum(not answer.done() for answer in self._open)

    def _take(self) -> list[WaitingRequest]:
        """The request that has waited longest, with those drawn in the same way whose length is closest."""
        self._waiting = [request for request in self._waiting if not request.answer.done()]
        if not self._waiting:
            return []
        oldest = self._waiting[0].row
        alike = [one for one in self._waiting if one.row.recipe == oldest.recipe and bool(one.row.open_box) == bool(oldest.open_box)]
        batch = sorted(alike, key=lambda request: abs(len(request.row.ids) - len(oldest.ids)))[: self._size]
        self._waiting = [request for request in self._waiting if request not in batch]
        return batch


class PipelineModel(LocalModel):
    """The model and tokenizer of a text-generation pipeline of transformers; its generation settings are not used.

    Parameters
    ----------
    pipeline
        As `transformers.pipeline("text-generation", ...)` makes it. It stays as it is, and can be used meanwhile.

    Raises
    ------
    InputError
        It has no model that generates text, or no tokenizer.
    """

    def __init__(self, pipeline: Any) -> None:
        model, tokenizer = pipeline.model, pipeline.tokenizer
        if tokenizer is None or not model.can_generate():
            raise InputError(f"the pipeline for {pipeline.task} does not generate text; give one made by pipeline('text-generation', ...)")
        name = f"pipeline/{Path(model.name_or_path).name or type(model).__name__}"
        super().__init__(name, Weights(name, None, None, model.config.to_dict()), LocalOptions(device=str(model.device)))
        self._model, self._tokenizer = copy.copy(model), tokenizer

    def __reduce__(self) -> tuple[Any, ...]:
        raise InputError(f"{self.name} is in the memory of this process; save it with save_pretrained and give hf/FOLDER")

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]  # weights are looked at when it is first asked for
        """The digest of the configuration, the vocabulary and the weights."""
        import torch

        digest = hashlib.sha256(json.dumps([self._weights.config, self._tokenizer.get_vocab()], sort_keys=True, default=str).encode())
        for name, values in sorted(self._model.state_dict().items()):
            digest.update(name.encode() + values.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        return f"pipeline/1 {digest.hexdigest()}"

    def _load(self) -> Generator:
        return self._generator_of(self._model, self._tokenizer)


def _answers(generator: Generator, batch: Sequence[WaitingRequest]) -> Sequence[Completion | ModelError]:
    """What came of each request of a batch, on the thread; nothing where the batch does not fit into memory."""
    try:
        generate_batch(generator, [request.row for request in batch])
        texts = [generator.reader.tokenizer.decode(request.row.made, skip_special_tokens=True) for request in batch]
        return [_completion(request.row, text, request.begun) for text, request in zip(texts, batch, strict=True)]
    except Exception as error:
        if not is_out_of_memory(error):
            detail = f"the model failed with {type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
            return [ModelError("internal", detail, scope="permanent") for _ in batch]
    if generator.model.device.type == "cuda":  # beyond the handler: the error held the tensors of the batch
        import torch

        torch.cuda.empty_cache()
    return []


def _completion(row: PromptRow, text: str, begun: float) -> Completion:
    """The answer that a text is: without thinking, which the template may have opened, and up to the first stop text."""
    ends = [place for stop in row.recipe.stop if (place := text.find(stop)) >= 0]
    answer, thinking = split_thinking(("<think>" if row.thinking else "") + text[: min(ends, default=len(text))])
    return Completion(answer, row.finish_reason, None, thinking, len(row.ids), row.tokens, perf_counter() - begun)


class BulkModel(NamedModel):
    """Asks vLLM, which forms its batches itself, on the GPUs of a worker of `--engine ray`.

    Its answers have a fingerprint of their own: vLLM rounds and draws otherwise than transformers, and a request's answer may depend
    on what is asked at the same time.
    """

    local = True
    runner = "vllm"
    gpus = 0
    """Of the worker it is in; 0: it is not in a worker, and cannot be asked."""

    def __init__(self, name: str, weights: Weights, options: LocalOptions) -> None:
        super().__init__(name, f"hf-vllm/1 {weights.identity} {options.dtype}")
        self._weights, self._options, self._asked = weights, options, 0
        self._engine: Any = None

    async def __aenter__(self) -> Self:
        if self.gpus:
            self._engine = self._load()
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._engine is not None:
            self._engine.shutdown()

    def _load(self) -> Any:
        try:
            from vllm import AsyncEngineArgs, AsyncLLMEngine  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            said = f"{self.name}: the package vllm is not installed where the GPUs are: pip install vllm on every node that has some"
            raise ProviderError(said) from None
        given: dict[str, Any] = {"model": str(self._weights.folder or self._weights.name), "tensor_parallel_size": self.gpus}
        given |= {"dtype": self._options.dtype, "trust_remote_code": False, "load_format": "safetensors"}
        if commit := self._weights.commit:
            given |= {"revision": commit, "tokenizer_revision": commit}
        return AsyncLLMEngine.from_engine_args(AsyncEngineArgs(**given))

    @cached_property
    def _reader(self) -> PromptReader:
        from transformers import GenerationConfig

        config, tokenizer = load_pretrained(self._weights, "AutoConfig", _WHAT)
        generation = GenerationConfig()
        with suppress(OSError):  # it has no generation_config.json
            generation = GenerationConfig.from_pretrained(str(self._weights.fetch()), local_files_only=True)
        return PromptReader(self.name, tokenizer, config, generation, self._options.placeholder)

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """See `Model.complete`. The process ends when vLLM fails for good, so that another one is started in its place."""
        if not self.gpus:
            raise ModelError("bad_request", f"{self.name}: -M runner=vllm needs --engine ray (and GPUs); leave it out", scope="fatal")
        from vllm import SamplingParams  # type: ignore[import-not-found,unused-ignore]

        begun = perf_counter()
        row = self._reader.read(messages, sampling, sample)
        drawing = row.recipe._asdict() | {"max_tokens": row.limit, "seed": row.seed >> 31, "stop": list(sampling.stop)}  # 32 bits
        self._asked += 1
        answers = self._engine.generate({"prompt_token_ids": row.ids}, SamplingParams(**drawing), request_id=str(self._asked))
        try:
            async for answer in answers:
                last = answer.outputs[0]  # all tokens so far
        except Exception:
            if self._engine.errored:
                os._exit(1)
            raise
        row.tokens = len(last.token_ids)
        row.finish_reason = "length" if row.tokens >= row.limit else "stop"
        return _completion(row, last.text, begun)
