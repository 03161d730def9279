"""How the next token is drawn: penalties, temperature, filters, and the noise of each row's own generator.

A row's tokens are drawn by Gumbel-max: the noise of a step comes from a generator seeded by the request alone, so that an
answer does not depend on what else is in its batch. (One uniform number a step and the inverse of the cumulative
distribution would be cheaper, but a rounding difference early in the vocabulary would shift all later tokens.)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from tiltmeter.models._base import Message, ModelError, Sampling

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import LogitsProcessorList

__all__ = ["DEFAULTS", "MOST_TOKENS", "Recipe", "processors", "recipe_of", "seed_of"]

MOST_TOKENS = 512
"""Length of an answer where neither the request nor the model's own configuration bounds it."""

DEFAULTS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "do_sample", "max_new_tokens")
"""What is taken from the model's generation_config.json where a request leaves it open."""

_RANGES: Mapping[str, tuple[float, float]] = {
    "top_k": (-1, float("inf")),
    "min_p": (0, 1),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
    "repetition_penalty": (0.01, 100),
}
_TEMPLATE = "chat_template_kwargs"


class Recipe(NamedTuple):
    """Everything about drawing that the rows of one batch share; what is switched off has the value that changes nothing."""

    temperature: float
    """0: the most probable token."""
    top_p: float
    top_k: int
    min_p: float
    frequency_penalty: float
    presence_penalty: float
    repetition_penalty: float
    max_tokens: int
    stop: tuple[str, ...]
    template: str
    """JSON of what the chat template is given besides the messages."""


def recipe_of(sampling: Sampling, defaults: Mapping[str, Any]) -> Recipe:
    """What `sampling` asks for; what it leaves open is as in the model's own `defaults` (see DEFAULTS), or switched off.

    A temperature left open is 0 for a model whose defaults do not sample.

    Raises
    ------
    ModelError
        A vendor extra is not known here, or not of its range (fatal: it is the same with every request).
    """
    extra = dict(sampling.extra)
    template = extra.pop(_TEMPLATE, {})
    if not isinstance(template, Mapping):
        raise _refusal(f'{_TEMPLATE} should be an object such as {{"enable_thinking": false}}')
    numbers = {name: _number(name, extra.pop(name, defaults.get(name)), *bounds) for name, bounds in _RANGES.items()}
    if extra:
        known = ", ".join(sorted([*_RANGES, _TEMPLATE]))
        raise _refusal(f"{', '.join(sorted(extra))} is not known to models that run in this process: they know {known}")
    own = defaults.get("temperature", 1.0) if defaults.get("do_sample") else 0.0
    temperature = own if sampling.temperature is None else sampling.temperature
    top_p = sampling.top_p if sampling.top_p is not None else defaults.get("top_p")
    return Recipe(
        temperature=float(temperature),
        top_p=1.0 if top_p is None else float(top_p),
        top_k=max(0, int(numbers["top_k"] or 0)),
        min_p=numbers["min_p"] or 0.0,
        frequency_penalty=numbers["frequency_penalty"] or 0.0,
        presence_penalty=numbers["presence_penalty"] or 0.0,
        repetition_penalty=numbers["repetition_penalty"] or 1.0,
        max_tokens=sampling.max_tokens or defaults.get("max_new_tokens") or MOST_TOKENS,
        stop=sampling.stop,
        template=json.dumps(template, sort_keys=True),
    )


def _number(name: str, value: Any, low: float, high: float) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise _refusal(f"{name}={value!r} should be a number from {low:g} to {high:g}")
    return value


def _refusal(detail: str) -> ModelError:
    return ModelError("bad_request", detail, scope="fatal")


def seed_of(messages: Sequence[Message], seed: int | None, sample: int) -> int:
    """The seed of one request's generator (63 bits): of its messages, the seed of its sampling, and its sample number."""
    parts = json.dumps([[list(message) for message in messages], seed, sample]).encode("ascii")
    return int.from_bytes(blake2b(parts, digest_size=8).digest(), "big") >> 1


def processors(recipe: Recipe, seeds: Sequence[int], input_ids: Tensor, attention_mask: Tensor) -> LogitsProcessorList:
    """What makes the logits of a step ready for taking their maximum.

    Parameters
    ----------
    seeds
        One a row.
    input_ids, attention_mask
        The prompts, padded on the left: shape (rows, tokens).
    """
    from transformers import LogitsProcessorList, MinPLogitsWarper, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    steps: list[Any] = []
    if recipe.frequency_penalty or recipe.presence_penalty or recipe.repetition_penalty != 1.0:
        steps.append(_Penalties(recipe, input_ids, attention_mask))
    if recipe.temperature > 0:
        if recipe.temperature != 1.0:
            steps.append(TemperatureLogitsWarper(recipe.temperature))
        if recipe.top_k:
            steps.append(TopKLogitsWarper(recipe.top_k))
        if recipe.top_p < 1.0:
            steps.append(TopPLogitsWarper(recipe.top_p))
        if recipe.min_p:
            steps.append(MinPLogitsWarper(recipe.min_p))
        steps.append(_Gumbel(seeds, str(input_ids.device)))
    return LogitsProcessorList(steps)


class _Gumbel:
    """Adds Gumbel noise, so that the maximum is a draw from the softmax."""

    def __init__(self, seeds: Sequence[int], device: str) -> None:
        import torch

        self._generators = [torch.Generator(device=device).manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        import torch

        noise = torch.empty_like(scores, dtype=torch.float32)
        for row, generator in zip(noise, self._generators, strict=True):
            row.exponential_(generator=generator)
        # -log of an exponential variable is a Gumbel variable; a draw of exactly 0 would outweigh a token that was filtered out.
        return scores.float() - noise.clamp_min_(torch.finfo(torch.float32).tiny).log_()


class _Penalties:
    """Makes tokens that were used less probable: by how often (frequency), whether (presence) they stand in the answer, or in
    the prompt or the answer (repetition: a factor on the logit, after Keskar et al. 2019)."""

    def __init__(self, recipe: Recipe, input_ids: Tensor, attention_mask: Tensor) -> None:
        self._recipe, self._ids, self._mask = recipe, input_ids, attention_mask
        self._prompt: Tensor | None = None

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        import torch

        recipe = self._recipe
        generated = input_ids[:, self._ids.shape[1] :]
        counts = torch.zeros_like(scores).scatter_add_(1, generated, torch.ones_like(generated, dtype=scores.dtype))
        if recipe.repetition_penalty != 1.0:
            if self._prompt is None:  # padding counts as no token
                self._prompt = torch.zeros_like(scores).scatter_add_(1, self._ids, self._mask.to(scores.dtype)) > 0
            factor = recipe.repetition_penalty
            scores = torch.where(self._prompt | (counts > 0), torch.where(scores > 0, scores / factor, scores * factor), scores)
        return scores - recipe.frequency_penalty * counts - recipe.presence_penalty * (counts > 0)
