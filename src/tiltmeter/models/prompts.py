"""How a request is put to a causal language model of transformers: as token numbers, and a recipe for drawing the answer.

A request of the open box (spec badf.md, section 3; after Ghandeharioun et al. 2024) has a source prompt as well. The target prompt then
holds as many placeholder tokens as the span of the source has tokens; `generation` replaces their hidden states by those of the span.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

from tiltmeter.models.base import Message, ModelError, Sampling, split_system

MOST_TOKENS = 512
"""Length of an answer where neither the request nor the model's own configuration bounds it."""
MARKER = "⟦X⟧"
"""Written once in a target prompt, where the vectors of the source go."""
_RANGES: Mapping[str, tuple[float, float]] = {
    "top_k": (-1, float("inf")),
    "min_p": (0, 1),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
    "repetition_penalty": (0.01, 100),
}
_TEMPLATE = "chat_template_kwargs"
_ROLES = frozenset({"system", "user", "assistant"})
_SOURCE_ROLES = ("source", "span")


class Recipe(NamedTuple):
    """Everything about drawing that the rows of one batch share; what is switched off has the value that changes nothing."""

    temperature: float = 0.0
    """0: the most probable token."""
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    max_tokens: int = MOST_TOKENS
    stop: tuple[str, ...] = ()


class MarkedTokens(NamedTuple):
    """A prompt in tokens, and which of them matter: those of a source's span, or the placeholders of a target."""

    ids: list[int]
    positions: list[int]


@dataclass(eq=False, slots=True)
class PromptRow:
    """A prompt that was read, and what the model has answered so far."""

    ids: list[int]
    recipe: Recipe
    limit: int
    """Tokens its answer may have."""
    seed: int
    thinking: bool
    """Whether the answer begins within thinking that the template opened."""
    open_box: tuple[MarkedTokens, MarkedTokens] | None = None
    """The source and the target of an open-box request."""
    given_up: Callable[[], bool] = bool
    """Whether its answer is no longer wanted; asked at every step."""
    made: list[int] = field(default_factory=list)
    """Tokens of the answer, without one that ended it."""
    tokens: int = 0
    """Their number, with that token."""
    finish_reason: str = ""
    """ "stop": by its own end or a stop text; "length"."""


class PromptReader:
    """Puts requests to a model; needs its tokenizer and configurations, not its weights.

    Parameters
    ----------
    name
        Of the model, for messages.
    tokenizer, config, generation
        As transformers loads them: `generation` is what the model's generation_config.json says.
    placeholder
        The word that is there once for each token of the source (the open box).
    """

    def __init__(self, name: str, tokenizer: Any, config: Any, generation: Any, placeholder: str) -> None:
        positions = getattr(config.get_text_config(), "max_position_embeddings", None)
        self.positions = positions if isinstance(positions, int) else None
        """Tokens a prompt and its answer may have together; None where the model sets no bound."""
        tokenizer.model_max_length = 1 << 30  # `read` compares lengths
        self.tokenizer, self._name, self._placeholder = tokenizer, name, placeholder
        self._defaults = {name: value for name, value in generation.to_dict().items() if value is not None}

    def read(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> PromptRow:
        """Return the request as tokens.

        Raises
        ------
        ModelError
            A vendor extra cannot be used (fatal), or these messages cannot (permanent).
        """
        recipe, template, open_box, thinking = recipe_of(sampling, self._defaults), sampling.extra.get(_TEMPLATE, {}), None, False
        if any(message.role in _SOURCE_ROLES for message in messages):
            open_box = read_open_box(self.tokenizer, messages, template, self._placeholder)
            ids = open_box[1].ids
        else:
            ids, thinking = _encode(self.tokenizer, messages, template)
        limit = recipe.max_tokens
        if self.positions is not None:
            limit = min(limit, self.positions - len(ids))
        if limit < 1:
            detail = f"the prompt has {len(ids):,} tokens and {self._name} takes {self.positions:,} with the answer"
            raise ModelError("context_length", detail, scope="permanent")
        return PromptRow(ids, recipe, limit, seed_of(messages, sampling.seed, sample), thinking, open_box)


def recipe_of(sampling: Sampling, defaults: Mapping[str, Any]) -> Recipe:
    """Return what `sampling` asks for; what it leaves open is as in the model's own `defaults`, or switched off.

    A temperature left open is 0 for a model whose defaults do not sample.

    Raises
    ------
    ModelError
        A vendor extra is not known here, or not of its range (fatal: it is the same with every request).
    """
    extra = dict(sampling.extra)
    if not isinstance(extra.pop(_TEMPLATE, {}), Mapping):
        raise _refused(f'{_TEMPLATE} should be an object such as {{"enable_thinking": false}}')
    if unknown := sorted(extra.keys() - _RANGES.keys()):
        known = ", ".join(sorted([*_RANGES, _TEMPLATE]))
        raise _refused(f"{', '.join(unknown)} is not known to models that run in this process: they know {known}")
    own = {name: defaults.get(name) for name in ("top_p", *_RANGES)}
    own["temperature"] = defaults.get("temperature", 1.0) if defaults.get("do_sample") else 0.0
    own["max_tokens"] = defaults.get("max_new_tokens")
    asked = {"temperature": sampling.temperature, "top_p": sampling.top_p, "max_tokens": sampling.max_tokens, **extra}
    given = {name: value for source in (own, asked) for name, value in source.items() if value is not None}
    for name, (low, high) in _RANGES.items():
        value = given.get(name, low)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise _refused(f"{name}={value!r} should be a number from {low:g} to {high:g}")
    recipe = Recipe(**given, stop=sampling.stop)
    return recipe._replace(temperature=float(recipe.temperature), top_k=max(0, int(recipe.top_k)))


def _refused(detail: str) -> ModelError:
    return ModelError("bad_request", detail, scope="fatal")


def _unusable(detail: str) -> ModelError:
    return ModelError("bad_request", detail, scope="permanent")


def seed_of(messages: Sequence[Message], seed: int | None, sample: int) -> int:
    """Return the seed of one request's generator (63 bits): of its messages, the seed of its sampling, and its sample number."""
    parts = json.dumps([[list(message) for message in messages], seed, sample]).encode("ascii")
    return int.from_bytes(blake2b(parts, digest_size=8).digest(), "big") >> 1


def _encode(tokenizer: Any, messages: Sequence[Message], template: Mapping[str, Any]) -> tuple[list[int], bool]:
    """The token numbers of the prompt, and whether it ends within thinking that the template opened."""
    if strange := {message.role for message in messages} - _ROLES:
        raise _unusable(f"it takes no message of the role {', '.join(sorted(strange))}")
    text = render(tokenizer, messages, template)
    ids: list[int] = tokenizer(text, add_special_tokens=tokenizer.chat_template is None)["input_ids"]
    if not ids:
        ids = [one for one in (tokenizer.bos_token_id, tokenizer.eos_token_id) if one is not None][:1]
    if not ids:
        raise _unusable("the prompt is empty and the tokenizer has no token to begin with")
    return ids, text.rstrip().endswith(("<think>", "<thinking>"))


def render(tokenizer: Any, messages: Sequence[Message], template: Mapping[str, Any]) -> str:
    """Return the prompt as one text: by the chat template, which writes special tokens, or as plain text where there is none.

    An assistant message at the end is the beginning of the answer, to be continued. Where the template has no place for a
    system message it goes in front of the first user message.

    Parameters
    ----------
    template
        What the template is given besides the messages.

    Raises
    ------
    ModelError
        The template refuses the messages (permanent).
    """
    from jinja2 import TemplateError

    if tokenizer.chat_template is None:
        return "\n\n".join(message.content for message in messages)
    system, turns = split_system(messages)
    system = system.strip()
    first = next((turn for turn in turns if turn.role == "user"), None)
    folded = [Message("user", f"{system}\n\n{turn.content}") if turn is first else turn for turn in turns]
    refused: Exception | None = None
    for form in (messages, folded) if system else (messages,):
        try:
            text = _apply_template(tokenizer, form, template)
        except (TemplateError, ValueError, TypeError, KeyError) as error:
            refused = error
        else:
            if system in text or form is folded:
                return text
    said = str(refused).partition("\n")[0] or type(refused).__name__
    raise _unusable(f"its chat template refuses these messages: {said[:200]}")


def _apply_template(tokenizer: Any, messages: Sequence[Message], template: Mapping[str, Any]) -> str:
    turns = [message._asdict() for message in messages]
    if messages[-1].role == "assistant":
        try:
            return str(tokenizer.apply_chat_template(turns, tokenize=False, continue_final_message=True, **template))
        except ValueError:  # the template changes the text of an assistant's turn, so that its end is not found
            return _apply_template(tokenizer, [*messages[:-1]], template) + messages[-1].content
    return str(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True, **template))


# The open box -------------------------------------------------------------------------------------------------------------------------


def read_open_box(
    tokenizer: Any, messages: Sequence[Message], template: Mapping[str, Any], placeholder: str
) -> tuple[MarkedTokens, MarkedTokens]:
    """Return the source, and the target prompt with as many placeholders as the span of the source has tokens.

    Raises
    ------
    ModelError
        The span is not in the source exactly once, nor the marker in the target, or the template refuses the messages (permanent).
    """
    (source,), (span,) = ([message.content for message in messages if message.role == role] for role in _SOURCE_ROLES)
    target = [message for message in messages if message.role not in _SOURCE_ROLES]
    system = [message for message in target if message.role == "system"]
    rendered = render(tokenizer, [*system, Message("user", source)], template)
    if rendered.count(span) != 1:
        raise _unusable(f"the span {span!r} must be in the source prompt exactly once, also as the chat template writes it")
    start = rendered.index(span)
    marked = read_span(tokenizer, rendered, (start, start + len(span)))
    return marked, expand_target(tokenizer, render(tokenizer, target, template), len(marked.positions), placeholder)


def read_span(tokenizer: Any, text: str, span: tuple[int, int]) -> MarkedTokens:
    """Return a rendered prompt in tokens (the template has written the special ones), and which spell a character of the span.

    Raises
    ------
    ModelError
        No token spells the span, or the tokenizer gives no places of its tokens (permanent).
    """
    if not getattr(tokenizer, "is_fast", False):
        raise _unusable(f"the open box needs a fast tokenizer, which gives the places of its tokens; {type(tokenizer).__name__} does not")
    start, end = span
    read = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    places = [number for number, (first, last) in enumerate(read["offset_mapping"]) if max(first, start) < min(last, end)]
    if not places:
        raise _unusable(f"no token spells {text[start:end]!r} in the prompt")
    return MarkedTokens(list(read["input_ids"]), places)


def expand_target(tokenizer: Any, rendered: str, count: int, placeholder: str) -> MarkedTokens:
    """Return a target prompt whose marker ⟦X⟧ has become `count` placeholder tokens.

    The text is read with one placeholder, and the token that spells it is repeated: so there are exactly as many as asked for, whatever
    the tokenizer does with several of them or with the blanks around them.

    Raises
    ------
    ModelError
        The marker is not there exactly once, or the placeholder is no token of its own there (permanent).
    """
    if (times := rendered.count(MARKER)) != 1:
        raise _unusable(f"the target prompt must hold the marker {MARKER} exactly once, and holds it {times} times")
    start = rendered.index(MARKER)
    ids, places = read_span(tokenizer, rendered.replace(MARKER, placeholder), (start, start + len(placeholder)))
    spelled = [tokenizer.decode([ids[place]]).strip() for place in places]
    if spelled != [placeholder]:
        raise _unusable(f"{placeholder!r} is no token of its own at the marker {MARKER} ({spelled}): put blanks around the marker")
    (at,) = places
    return MarkedTokens([*ids[:at], *[ids[at]] * count, *ids[at + 1 :]], list(range(at, at + count)))
