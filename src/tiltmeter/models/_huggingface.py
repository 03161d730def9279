"""Causal language models of transformers in this process: `hf/NAME_OR_PATH`.

The path is that of a folder or a GGUF file, the name is that of a model of the Hugging Face hub.

Options (`-M key=value`) are those of `LocalOptions`. The sampling options are the fields of `Sampling`, and
`-M top_k=, min_p=, frequency_penalty=, presence_penalty=, repetition_penalty=,
chat_template_kwargs={"enable_thinking": false}`.

Requests arrive one by one in an event loop and are answered in batches on a separate thread, which does all
work with the tokenizer and the model (neither is thread-safe). With `-M runner=vllm`, vLLM answers them on
the GPUs of a cluster.
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
from typing import Any, Final, NamedTuple, Self

from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models._base import Completion, Message, ModelError, NamedModel, Sampling
from tiltmeter.models._generation import Generator, generate_batch
from tiltmeter.models._gguf_files import SUFFIX, find_gguf
from tiltmeter.models._memory import is_out_of_memory
from tiltmeter.models._options import Range, check_local, check_options, parse_number
from tiltmeter.models._prompts import PromptReader, PromptRow
from tiltmeter.models._thinking import split_thinking
from tiltmeter.models._weights import (
    Weights,
    check_device,
    check_gguf_use,
    find_weights,
    load_pretrained,
    need_local,
    pick_device,
)

SMALL: Final = 20_000_000
"""Number of parameters below which a model uses one thread on a CPU.

Several threads would mostly wait for each other.
"""
LONGER: Final = 2
"""Largest ratio of the length of a prompt to that of the oldest one in its batch, in either direction.

Two other prompts of the batch may differ more.
"""
MARGIN: Final = 64
"""Tokens by which the lengths may differ beyond this ratio."""
LINGER: Final = 0.005
"""Seconds without a new request after which an incomplete batch starts.

A run sends its requests one after the other.
"""
_KIND = "causal language model"
_CHOICES = {"dtype": ("auto", "float32", "bfloat16", "float16"), "runner": ("transformers", "vllm")}
_RANGES: Mapping[str, Range] = {
    "batch_size": (int, 1, float("inf")),
    "source_layer": (int, 0, float("inf")),
    "target_layer": (int, 0, float("inf")),
}


@dataclass(frozen=True, slots=True)
class LocalOptions:
    """Options for loading and running a model.

    Layers and placeholder apply only to messages with a source prompt (open box).
    """

    device: str = "auto"
    """auto: a GPU if there is one."""
    dtype: str = "auto"
    """auto: the type of the saved weights on a GPU, float32 otherwise."""
    batch_size: int = 32
    """Maximum number of prompts per batch; halved if a batch does not fit into memory."""
    revision: str | None = None
    """Branch, tag or commit of a repository on the hub."""
    runner: str = "transformers"
    """vllm: in bulk on the GPUs of a cluster, with `--engine ray`; without the open-box setting, and with a
    separate fingerprint."""
    source_layer: int = 2
    """Block (from 0) after which the hidden states of the source are read."""
    target_layer: int = 3
    """Block (from 0) after which they replace those of the placeholders."""
    placeholder: str = "X"
    """The word that is repeated once for each token of the source."""


OPTIONS: Final[frozenset[str]] = frozenset(option.name for option in fields(LocalOptions))
"""Options of `create`; all others are vendor extras."""


class CataloguedFile(NamedTuple):
    """A GGUF file of the catalogue of external files."""

    name: str
    """Its name in the catalogue."""
    find: Callable[[], Path]
    """Returns its path. It may download the file, and is called after all other checks."""


def create(
    provider: str,
    model: str,
    *,
    base_url: str | None,
    options: Mapping[str, str],
    catalogued: CataloguedFile | None = None,
) -> LocalModel | BulkModel:
    """Create the model in the folder or GGUF file `model`, or with that name on the hub.

    Its weights are loaded when it is first entered.

    Parameters
    ----------
    catalogued
        The GGUF file of a model of the catalogue, whose name is not its path.

    Raises
    ------
    InputError
        There is no such folder or file, or it contains no model; an option is unknown or out of range; or a
        base URL was given.
    ProviderError
        The extra `local` is not installed, or the hub has no such model or cannot be reached.
    """
    name = f"{provider}/{model}"
    check_local(name, base_url)
    check_options(provider, options, sorted(OPTIONS))
    for option, value in options.items():
        if not value.strip():
            raise InputError(f"-M {option}=: give a value, or remove the option")
        if option in _CHOICES and value not in _CHOICES[option]:
            raise InputError(f"-M {option}={value}: use one of {', '.join(_CHOICES[option])}")
    numbers = {
        option: parse_number(option, options[option], allowed)
        for option, allowed in _RANGES.items()
        if option in options
    }
    chosen = LocalOptions(**(dict(options) | numbers))
    check_device(chosen.device)
    need_local(name, "torch", "transformers")
    if catalogued is not None or model.lower().endswith(SUFFIX):
        if chosen.runner == "vllm":
            raise InputError(f"-M runner=vllm does not read GGUF files such as {name}: remove the option")
        check_gguf_use(model, chosen.revision)
        weights = Weights(
            name=model,
            folder=None,
            commit=None,
            config={},
            file=find_gguf(str(catalogued.find()) if catalogued else model),
            catalogued=catalogued.name if catalogued else None,
        )
        return LocalModel(name, weights, chosen)
    model_type = BulkModel if chosen.runner == "vllm" else LocalModel
    return model_type(name, find_weights(model, chosen.revision), chosen)


def is_pipeline(candidate: object) -> bool:
    """Return whether an object is a pipeline of transformers, without importing transformers."""
    return any(
        base.__name__ == "Pipeline" and base.__module__.startswith("transformers.")
        for base in type(candidate).__mro__
    )


class WaitingRequest(NamedTuple):
    """A request of `LocalModel` with a tokenised prompt."""

    row: PromptRow
    answer: asyncio.Future[Completion]
    begun: float


class LocalModel(NamedModel):
    """A local model, which answers in batches on one thread; answers do not depend on concurrent requests.

    An answer depends on the model, the messages, the sampling and the sample number (without a seed, the same
    fixed seed is used every time). With types narrower than float32, rounding in a batch may change the order
    of two tokens of nearly equal probability. Unset sampling parameters have the values in the model's
    generation configuration; most models define none, so that the most probable token is always chosen.

    When the thread is free, it forms a batch of waiting requests of similar length, including the one that
    has waited longest. If a batch does not fit into memory, it is halved, and so are all later batches.

    The weights are loaded when the model is first entered, and kept. In another process they are looked up
    again, because files and device may differ there.
    """

    local = True
    patches = True
    constrains = True

    def __init__(self, name: str, weights: Weights, options: LocalOptions) -> None:
        self.name = name
        self.endpoint = name
        self._weights = weights
        self._options = options
        self._size = options.batch_size
        """Maximum number of prompts per batch that fit into memory."""
        self._generator: Generator | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._open: set[asyncio.Future[Completion]] = set()
        self._waiting: list[WaitingRequest] = []
        self._worker: asyncio.Task[None] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self._weights, self._options)

    @property
    def catalogued(self) -> str | None:
        """The name of its file in the catalogue of external files, if it is from there."""
        return self._weights.catalogued

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]  # weights are read on first access
        """The identity of the weights (not their location), the number type, and the open-box options."""
        options = self._options
        dtype = self._dtype(pick_device(options.device))
        layers = f"{options.source_layer}>{options.target_layer}"
        return f"hf/1 {self._weights.identity} {dtype} {layers} {options.placeholder!r}"

    def _dtype(self, device: str) -> str:
        """Return the number type on a device.

        "auto" is the saved type on a GPU, and float32 otherwise, because narrower types are slow on a CPU.
        """
        if self._options.dtype != "auto":
            return self._options.dtype
        if device.startswith("cpu"):
            return "float32"
        config = self._weights.config
        saved = [
            str(part[name])
            for part in (config, config.get("text_config") or {})
            for name in ("dtype", "torch_dtype")
            if part.get(name)
        ]
        return saved[0] if saved and saved[0] in ("bfloat16", "float16") else "float32"

    def _load(self) -> Generator:
        import torch

        device = pick_device(self._options.device)
        dtype = getattr(torch, self._dtype(device))
        model, tokenizer = load_pretrained(self._weights, "AutoModelForCausalLM", _KIND, device, dtype=dtype)
        return self._generator_of(model, tokenizer)

    def _generator_of(self, model: Any, tokenizer: Any) -> Generator:
        import torch
        from transformers import GenerationConfig

        options = self._options
        if model.device.type == "cpu" and model.num_parameters() < SMALL:
            torch.set_num_threads(1)
        saved = model.generation_config
        model.generation_config = GenerationConfig()  # requests do not use its beams or banned tokens
        end_tokens = saved.eos_token_id if isinstance(saved.eos_token_id, list) else [saved.eos_token_id]
        ends = frozenset({*end_tokens, tokenizer.eos_token_id} - {None})
        reader = PromptReader(self.name, tokenizer, model.config, saved, options.placeholder)
        return Generator(model, reader, (options.source_layer, options.target_layer), ends)

    async def __aenter__(self) -> Self:
        thread = ThreadPoolExecutor(1, thread_name_prefix="tiltmeter-hf")
        try:
            if self._generator is None:
                self._generator = await asyncio.get_running_loop().run_in_executor(thread, self._load)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        self._thread = thread
        self._waiting = []
        self._worker = None
        return self

    async def __aexit__(self, *exception: object) -> None:
        """Cancel waiting requests, and wait until the current batch stops at its next token."""
        thread = self._thread
        self._thread = None
        if thread is None:
            return
        for answer in self._open:
            answer.cancel()
        try:
            if self._worker is not None:
                await asyncio.wait([self._worker])
        finally:  # if the wait was cancelled, the current batch and the thread end at the next token
            thread.shutdown(wait=self._worker is None or self._worker.done())

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """See `Model.complete`."""
        if self._thread is None or self._generator is None:
            raise RuntimeError(f"{self!r} must be entered first: async with model")
        begun = perf_counter()
        loop = asyncio.get_running_loop()
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
        except Exception as error:  # half a surrogate pair, or other text that a tokenizer rejects
            raise ModelError(
                "bad_request", f"the prompt cannot be read: {type(error).__name__}", scope="permanent"
            ) from None
        finally:
            self._open.discard(answer)

    async def _work(
        self, answers: Callable[[list[WaitingRequest]], Awaitable[Sequence[Completion | ModelError]]]
    ) -> None:
        """Answer all waiting requests; `answers` is `_answers` on the thread."""
        while self._waiting:
            await self._wait_for_more()
            batch = self._take()
            if not batch:
                continue
            outcomes = await answers(batch)
            if not outcomes and len(batch) > 1:
                self._size = len(batch) // 2
                self._waiting = batch + self._waiting
                continue
            if not outcomes:
                detail = (
                    f"a prompt of {len(batch[0].row.ids):,} tokens and its answer do not fit into memory: "
                    "use a smaller model, a narrower -M dtype or fewer --max-tokens"
                )
                outcomes = [ModelError("out_of_memory", detail, scope="permanent")]
            for request, outcome in zip(batch, outcomes, strict=True):
                if request.answer.done():  # cancelled
                    continue
                if isinstance(outcome, Completion):
                    request.answer.set_result(outcome)
                else:
                    request.answer.set_exception(outcome)

    async def _wait_for_more(self) -> None:
        """Wait until all prompts are tokenised, and the batch is full or no new request arrives."""
        previous = -1
        unanswered = self._unanswered
        while len(self._waiting) < unanswered or previous < unanswered < self._size:
            previous = unanswered
            await asyncio.sleep(LINGER)
            unanswered = self._unanswered

    @property
    def _unanswered(self) -> int:
        """Number of requests that are waiting, or whose prompts are being tokenised."""
        return sum(not answer.done() for answer in self._open)

    def _take(self) -> list[WaitingRequest]:
        """Remove and return the next batch.

        It consists of the oldest request, and those with the same recipe and the most similar length.
        """
        self._waiting = [request for request in self._waiting if not request.answer.done()]
        if not self._waiting:
            return []
        oldest = self._waiting[0].row
        similar = [request for request in self._waiting if _fits_beside(request.row, oldest)]
        similar.sort(key=lambda request: abs(len(request.row.ids) - len(oldest.ids)))
        batch = similar[: self._size]
        self._waiting = [request for request in self._waiting if request not in batch]
        return batch


def _fits_beside(row: PromptRow, oldest: PromptRow) -> bool:
    """Return whether a prompt has the same recipe as the oldest one of a batch, and a similar length."""
    if row.recipe != oldest.recipe or bool(row.open_box) != bool(oldest.open_box):
        return False
    shorter, longer = sorted((len(row.ids), len(oldest.ids)))
    return longer <= LONGER * shorter + MARGIN


class PipelineModel(LocalModel):
    """The model and tokenizer of a text-generation pipeline of transformers.

    Its generation settings are not used.

    Parameters
    ----------
    pipeline
        The result of `transformers.pipeline("text-generation", ...)`. It is not changed, and can be used at
        the same time.

    Raises
    ------
    InputError
        The pipeline has no model that generates text, or no tokenizer.
    """

    def __init__(self, pipeline: Any) -> None:
        model = pipeline.model
        if pipeline.tokenizer is None or not model.can_generate():
            raise InputError(
                f"the pipeline for {pipeline.task} does not generate text; "
                "use one created with pipeline('text-generation', ...)"
            )
        name = f"pipeline/{Path(model.name_or_path).name or type(model).__name__}"
        weights = Weights(name, None, None, model.config.to_dict())
        super().__init__(name, weights, LocalOptions(device=str(model.device)))
        self._model = copy.copy(model)
        self._tokenizer = pipeline.tokenizer

    def __reduce__(self) -> tuple[Any, ...]:
        raise InputError(
            f"{self.name} exists only in the memory of this process; "
            "save it with save_pretrained and use hf/FOLDER"
        )

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]  # weights are read on first access
        """The digest of the configuration, the vocabulary and the weights."""
        import torch

        description = [self._weights.config, self._tokenizer.get_vocab()]
        digest = hashlib.sha256(json.dumps(description, sort_keys=True, default=str).encode())
        for name, values in sorted(self._model.state_dict().items()):
            content = values.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
            digest.update(name.encode())
            digest.update(content.tobytes())
        return f"pipeline/1 {digest.hexdigest()}"

    def _load(self) -> Generator:
        return self._generator_of(self._model, self._tokenizer)


def _answers(generator: Generator, batch: Sequence[WaitingRequest]) -> Sequence[Completion | ModelError]:
    """Return the outcome of each request of a batch (on the thread).

    Empty if the batch does not fit into memory.
    """
    try:
        generate_batch(generator, [request.row for request in batch])
        decode = partial(generator.reader.tokenizer.decode, skip_special_tokens=True)
        return [_completion(request.row, decode(request.row.generated), request.begun) for request in batch]
    except Exception as error:
        if not is_out_of_memory(error):
            message = str(error).partition("\n")[0][:200]
            detail = f"the model failed with {type(error).__name__}: {message}"
            return [ModelError("internal", detail, scope="permanent") for _ in batch]
    # The error references the tensors of the batch until the end of its handler.
    if generator.model.device.type == "cuda":
        import torch

        torch.cuda.empty_cache()
    return []


def _completion(row: PromptRow, text: str, begun: float) -> Completion:
    """Return the completion for a generated text.

    Thinking is separated, and the answer ends before the first stop text. An answer from a list of allowed
    ones is written as an object; an incomplete one is a free answer.
    """
    thinking: str | None = None
    if row.chosen is not None:
        answer = json.dumps({"answer": row.chosen})
    else:
        positions = [text.find(stop) for stop in row.recipe.stop]
        end = min((position for position in positions if position >= 0), default=len(text))
        opening = "<think>" if row.thinking else ""
        answer, thinking = split_thinking(opening + text[:end])
    return Completion(
        text=answer,
        finish_reason=row.finish_reason,
        thinking=thinking,
        input_tokens=len(row.ids),
        output_tokens=row.tokens,
        latency=perf_counter() - begun,
    )


class BulkModel(NamedModel):
    """A model that runs in vLLM, which forms its own batches, on the GPUs of a worker of `--engine ray`.

    It has a separate fingerprint, because rounding and sampling differ between vLLM and transformers, and
    answers may depend on concurrent requests.
    """

    local = True
    gpus = 0
    """Number of GPUs of its worker; 0 outside a worker, where it cannot be used."""

    def __init__(self, name: str, weights: Weights, options: LocalOptions) -> None:
        super().__init__(name, f"hf-vllm/1 {weights.identity} {options.dtype}")
        self._weights = weights
        self._options = options
        self._requests = 0
        """Number of requests so far, which numbers them."""
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
            raise ProviderError(
                f"{self.name}: the package vllm is not installed on a node with GPUs: "
                "pip install vllm on every such node"
            ) from None
        arguments: dict[str, Any] = {
            "model": str(self._weights.folder or self._weights.name),
            "tensor_parallel_size": self.gpus,
            "dtype": self._options.dtype,
            "trust_remote_code": False,
            "load_format": "safetensors",
        }
        if commit := self._weights.commit:
            arguments |= {"revision": commit, "tokenizer_revision": commit}
        return AsyncLLMEngine.from_engine_args(AsyncEngineArgs(**arguments))

    @cached_property
    def _reader(self) -> PromptReader:
        from transformers import GenerationConfig

        config, tokenizer = load_pretrained(self._weights, "AutoConfig", _KIND)
        generation = GenerationConfig()
        with suppress(OSError):  # there is no generation_config.json
            generation = GenerationConfig.from_pretrained(str(self._weights.fetch()), local_files_only=True)
        return PromptReader(self.name, tokenizer, config, generation, self._options.placeholder)

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """See `Model.complete`.

        If vLLM fails permanently, the process exits, so that another one replaces it.
        """
        if not self.gpus:
            detail = f"{self.name}: -M runner=vllm needs --engine ray (and GPUs); remove it"
            raise ModelError("bad_request", detail, scope="fatal")
        from vllm import SamplingParams  # type: ignore[import-not-found,unused-ignore]

        begun = perf_counter()
        row = self._reader.read(messages, sampling, sample)
        parameters = row.recipe._asdict()
        parameters["max_tokens"] = row.limit
        parameters["seed"] = row.seed >> 31  # 32 bits
        parameters["stop"] = list(sampling.stop)
        self._requests += 1
        answers = self._engine.generate(
            {"prompt_token_ids": row.ids}, SamplingParams(**parameters), request_id=str(self._requests)
        )
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
