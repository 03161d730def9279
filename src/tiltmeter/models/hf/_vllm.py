"""A causal language model that vLLM runs, many requests at a time, on the GPUs of a cluster (`-M runner=vllm`, `--engine ray`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from types import TracebackType
from typing import Any, NamedTuple, Self

from tiltmeter.errors import InputError
from tiltmeter.models._base import Completion, Message, ModelError, Sampling
from tiltmeter.models._local import Weights
from tiltmeter.models._thinking import split_thinking
from tiltmeter.models.hf._open_box import is_open_box
from tiltmeter.models.hf._options import Options
from tiltmeter.models.hf._prompt import encode
from tiltmeter.models.hf._sampling import DEFAULTS, recipe_of, seed_of

__all__ = ["BulkModel", "Prompt"]


class Prompt(NamedTuple):
    """A request as vLLM takes it."""

    ids: list[int]
    """Tokens of the prompt, the same as a model of this process is given."""
    parameters: dict[str, Any]
    """What is given to `vllm.SamplingParams`."""
    thinking: bool
    """Whether the answer begins within thinking."""


class _Tools(NamedTuple):
    tokenizer: Any
    positions: int | None
    defaults: dict[str, Any]


class BulkModel:
    """Knows how requests are put to vLLM and how answers are read, and is not asked itself.

    Its answers have a fingerprint of their own: vLLM rounds and draws otherwise than transformers, and a request's answer may depend
    on what is asked beside it.
    """

    local = True
    runner = "vllm"

    def __init__(self, name: str, weights: Weights, options: Options) -> None:
        self._name, self._weights, self._options = name, weights, options
        self._fingerprint = f"hf-vllm/1 {weights.identity} {options.dtype}"

    @property
    def name(self) -> str:
        """`hf/NAME_OR_PATH`, as the user wrote it."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """What the weights are (not where they lie), and the type of numbers asked for."""
        return self._fingerprint

    @property
    def endpoint(self) -> str:
        """The model's own name."""
        return self._name

    def __repr__(self) -> str:
        return f"<BulkModel {self._name}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """Raises ModelError: it is asked by the engine as a whole."""
        raise ModelError("bad_request", f"{self._name}: -M runner=vllm needs --engine ray (and GPUs); leave it out", scope="fatal")

    @property
    def source(self) -> str:
        """Where vLLM loads it from: a folder, or a name of the hub."""
        return self._weights.name if self._weights.folder is None else str(self._weights.folder.absolute())

    @property
    def arguments(self) -> dict[str, Any]:
        """How vLLM is to load it. Code that came with the weights is never run."""
        found: dict[str, Any] = {"dtype": self._options.dtype, "trust_remote_code": False, "load_format": "safetensors"}
        commit = self._weights.commit
        return found if commit is None else found | {"revision": commit, "tokenizer_revision": commit}

    def prompt(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Prompt:
        """A request as vLLM takes it.

        Raises
        ------
        ModelError
            It cannot be asked: too long, messages its template refuses, a sampling parameter nobody knows.
        """
        if is_open_box(messages):
            said = "hidden states can be replaced in a model of this process only: leave -M runner=vllm out"
            raise ModelError("bad_request", said, scope="fatal")
        tools = self._tools
        recipe = recipe_of(sampling, tools.defaults)
        ids, thinking = encode(tools.tokenizer, messages, recipe.template)
        limit = recipe.max_tokens
        if tools.positions is not None:
            if len(ids) >= tools.positions:
                detail = f"the prompt has {len(ids):,} tokens and {self._name} takes {tools.positions:,} with the answer"
                raise ModelError("context_length", detail, scope="permanent")
            limit = min(limit, tools.positions - len(ids))
        parameters = {
            "temperature": recipe.temperature,
            "top_p": recipe.top_p,
            "top_k": recipe.top_k,
            "min_p": recipe.min_p,
            "frequency_penalty": recipe.frequency_penalty,
            "presence_penalty": recipe.presence_penalty,
            "repetition_penalty": recipe.repetition_penalty,
            "max_tokens": limit,
            "seed": seed_of(messages, sampling.seed, sample) >> 31,  # vLLM's seeds are of 32 bits
        }
        return Prompt(ids, parameters | ({"stop": list(recipe.stop)} if recipe.stop else {}), thinking)

    def completion(self, prompt: Prompt, text: str, tokens: int, latency: float) -> Completion:
        """What vLLM gave as a completion; it reached its limit where it has as many tokens as it might have."""
        answer, thinking = split_thinking(f"<think>{text}" if prompt.thinking else text)
        finish = "length" if tokens >= prompt.parameters["max_tokens"] else "stop"
        return Completion(answer, finish, None, thinking, len(prompt.ids), tokens, latency)

    @cached_property
    def _tools(self) -> _Tools:
        from transformers import AutoConfig, AutoTokenizer, GenerationConfig

        from tiltmeter.models._quiet import quiet

        folder, fixed = str(self._weights.fetch()), {"trust_remote_code": False, "local_files_only": True}
        try:
            with quiet():
                tokenizer = AutoTokenizer.from_pretrained(folder, **fixed)
                tokenizer.model_max_length = 1 << 30  # lengths are looked at here, and told in a sentence of ours
                config = AutoConfig.from_pretrained(folder, **fixed).get_text_config()
                own = _generation(GenerationConfig, folder)
        except Exception as error:
            raise InputError(f"{self._name} cannot be read as a causal language model ({type(error).__name__})") from None
        positions = getattr(config, "max_position_embeddings", None)
        defaults = {name: own[name] for name in DEFAULTS if own.get(name) is not None}
        return _Tools(tokenizer, positions if isinstance(positions, int) else None, defaults)


def _generation(kind: Any, folder: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = kind.from_pretrained(folder, local_files_only=True).to_dict()
    except OSError:  # it has no generation_config.json
        found = kind().to_dict()
    return found
