"""Requests to causal language models of transformers, as token IDs and a recipe for sampling the answer.

A request in the open-box setting (spec badf.md, section 3; after Ghandeharioun et al. 2024) also has a source
prompt. The target prompt then contains as many placeholder tokens as the span of the source has tokens;
`generation` replaces their hidden states by those of the span.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from tiltmeter.models._base import ALLOWED, Message, ModelError, Sampling, fold_system, split_system
from tiltmeter.models._token_lists import START, Place, TokenList, Vocabulary

MOST_TOKENS: Final = 512
"""Maximum length of an answer if neither the request nor the configuration of the model limits it."""
MARKER: Final = "⟦X⟧"
"""The place in a target prompt at which the vectors of the source are inserted."""
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
_CLOSING = {"<think>": "</think>", "<thinking>": "</thinking>"}
"""The mark that ends a thinking section, by the mark with which a template opens it."""


class Recipe(NamedTuple):
    """All sampling parameters that the rows of one batch share; disabled ones have a neutral value."""

    temperature: float = 0.0
    """0: always the most probable token."""
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    max_tokens: int = MOST_TOKENS
    stop: tuple[str, ...] = ()


class MarkedTokens(NamedTuple):
    """A tokenised prompt with marked positions: the span of a source, or the placeholders of a target."""

    ids: list[int]
    positions: list[int]


@dataclass(eq=False, slots=True)
class PromptRow:
    """A tokenised prompt, and the answer of the model so far."""

    ids: list[int]
    recipe: Recipe
    limit: int
    """Maximum number of tokens in the answer."""
    seed: int
    thinking: bool
    """Whether the template opens a thinking section, so that the answer begins within it."""
    open_box: tuple[MarkedTokens, MarkedTokens] | None = None
    """The source and the target of an open-box request."""
    allowed: TokenList | None = None
    """The allowed answers, if the answer is constrained."""
    given_up: Callable[[], bool] = bool
    """Function that returns whether the answer is no longer needed; called at every step."""
    generated: list[int] = field(default_factory=list)
    """Tokens of the answer, without the end token."""
    tokens: int = 0
    """Number of tokens, including the end token."""
    finish_reason: str = ""
    """ "stop" (an end token or a stop text) or "length"."""
    place: Place = START
    """What was generated so far of an allowed answer."""

    def clear_answer(self) -> None:
        """Remove the answer so far, for instance that of a batch that did not fit into memory."""
        self.generated = []
        self.tokens = 0
        self.finish_reason = ""
        self.place = START

    @property
    def chosen(self) -> str | None:
        """The allowed answer that was generated completely, or None."""
        if self.allowed is None or self.finish_reason != "stop":
            return None
        return self.allowed.complete(self.place)


class PromptReader:
    """Converts requests to tokens; it needs the tokenizer and configurations of a model, but not its weights.

    Parameters
    ----------
    name
        Name of the model in messages.
    tokenizer, config, generation
        Objects loaded by transformers; `generation` is the content of the model's generation_config.json.
    placeholder
        The word that is repeated once for each token of the source (open-box setting).
    """

    def __init__(self, name: str, tokenizer: Any, config: Any, generation: Any, placeholder: str) -> None:
        positions = getattr(config.get_text_config(), "max_position_embeddings", None)
        self.positions: int | None = positions if isinstance(positions, int) else None
        """Maximum number of tokens in a prompt and its answer; None if the model has no limit."""
        tokenizer.model_max_length = 1 << 30  # `read` compares lengths
        self.tokenizer: Any = tokenizer
        self._name = name
        self._placeholder = placeholder
        self._vocabulary = Vocabulary(tokenizer)
        self._defaults = {name: value for name, value in generation.to_dict().items() if value is not None}

    def read(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> PromptRow:
        """Return the tokenised request.

        Raises
        ------
        ModelError
            A vendor extra is not usable (fatal), or the messages are not (permanent).
        """
        recipe = recipe_of(sampling, self._defaults)
        template = sampling.extra.get(_TEMPLATE, {})
        turns = [message for message in messages if message.role != ALLOWED]
        lists = [message.content for message in messages if message.role == ALLOWED]
        allowed = self._token_list(lists[0]) if lists else None
        open_box: tuple[MarkedTokens, MarkedTokens] | None = None
        opening: str | None = None
        if any(message.role in _SOURCE_ROLES for message in turns):
            open_box = read_open_box(self.tokenizer, turns, template, self._placeholder)
            ids = open_box[1].ids
        else:
            ids, opening = _encode(self.tokenizer, turns, template)
        if opening is not None and allowed is not None:  # the answer follows at once
            end_of_thinking = f"\n{_CLOSING[opening]}\n\n"
            ids = [*ids, *self.tokenizer(end_of_thinking, add_special_tokens=False)["input_ids"]]
            opening = None
        limit = recipe.max_tokens
        if self.positions is not None:
            limit = min(limit, self.positions - len(ids))
        if limit < 1:
            detail = (
                f"the prompt has {len(ids):,} tokens, "
                f"and {self._name} accepts {self.positions:,} including the answer"
            )
            raise ModelError("context_length", detail, scope="permanent")
        return PromptRow(
            ids=ids,
            recipe=recipe,
            limit=limit,
            seed=seed_of(messages, sampling.seed, sample),
            thinking=opening is not None,
            open_box=open_box,
            allowed=allowed,
        )

    def _token_list(self, content: str) -> TokenList:
        """Return the tokens of a JSON list of allowed answers."""
        try:
            answers = json.loads(content)
            is_list = isinstance(answers, list) and bool(answers)
            if not is_list or not all(isinstance(answer, str) and answer for answer in answers):
                raise ValueError("it must be a JSON list of texts")
            return self._vocabulary.token_list(tuple(answers))
        except ValueError as error:
            raise _unusable(f"the list of allowed answers cannot be used: {error}") from None


def recipe_of(sampling: Sampling, defaults: Mapping[str, Any]) -> Recipe:
    """Return the recipe for `sampling`; unset parameters have the model's `defaults`, or are disabled.

    An unset temperature is 0 if the defaults of the model do not enable sampling.

    Raises
    ------
    ModelError
        A vendor extra is unknown or out of range (fatal, because it applies to every request).
    """
    extra = dict(sampling.extra)
    if not isinstance(extra.pop(_TEMPLATE, {}), Mapping):
        raise _refused(f'{_TEMPLATE} should be an object such as {{"enable_thinking": false}}')
    if unknown := sorted(extra.keys() - _RANGES.keys()):
        supported = ", ".join(sorted([*_RANGES, _TEMPLATE]))
        raise _refused(
            f"{', '.join(unknown)} is not supported by models that run in this process: "
            f"they support {supported}"
        )
    of_model = {name: defaults.get(name) for name in ("top_p", *_RANGES)}
    of_model["temperature"] = defaults.get("temperature", 1.0) if defaults.get("do_sample") else 0.0
    of_model["max_tokens"] = defaults.get("max_new_tokens")
    of_request = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        **extra,
    }
    parameters = _without_nulls(of_model) | _without_nulls(of_request)
    for name, (low, high) in _RANGES.items():
        value = parameters.get(name, low)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise _refused(f"{name}={value!r} should be a number from {low:g} to {high:g}")
    recipe = Recipe(**parameters, stop=sampling.stop)
    return recipe._replace(temperature=float(recipe.temperature), top_k=max(0, int(recipe.top_k)))


def _without_nulls(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}


def _refused(detail: str) -> ModelError:
    return ModelError("bad_request", detail, scope="fatal")


def _unusable(detail: str) -> ModelError:
    return ModelError("bad_request", detail, scope="permanent")


def seed_of(messages: Sequence[Message], seed: int | None, sample: int) -> int:
    """Return the seed (63 bits) for the generator of one request.

    It depends on the messages, the sampling seed and the sample number.
    """
    parts = json.dumps([[list(message) for message in messages], seed, sample]).encode("ascii")
    return int.from_bytes(blake2b(parts, digest_size=8).digest(), "big") >> 1


def _encode(
    tokenizer: Any, messages: Sequence[Message], template: Mapping[str, Any]
) -> tuple[list[int], str | None]:
    """Return the token IDs of the prompt, and the mark that opens a thinking section at its end.

    The mark is None if the template opens no such section.
    """
    if unknown := {message.role for message in messages} - _ROLES:
        raise _unusable(f"it does not accept messages with the role {', '.join(sorted(unknown))}")
    text = render(tokenizer, messages, template)
    ids: list[int] = tokenizer(text, add_special_tokens=tokenizer.chat_template is None)["input_ids"]
    if not ids:
        start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
        if start is None:
            raise _unusable("the prompt is empty, and the tokenizer has no start token")
        ids = [start]
    prompt = text.rstrip()
    return ids, next((opening for opening in _CLOSING if prompt.endswith(opening)), None)


def render(tokenizer: Any, messages: Sequence[Message], template: Mapping[str, Any]) -> str:
    """Return the prompt as one text.

    The chat template writes it, with special tokens; without a template it is plain text.

    An assistant message at the end is the beginning of the answer, which the model continues. If the template
    does not support system messages, the system message is placed before the first user message.

    Parameters
    ----------
    template
        Further arguments of the template.

    Raises
    ------
    ModelError
        The template rejects the messages (permanent).
    """
    from jinja2 import TemplateError

    if tokenizer.chat_template is None:
        return "\n\n".join(message.content for message in messages)
    system = split_system(messages)[0].strip()
    folded = fold_system(messages)
    failure: Exception | None = None
    for form in (messages, folded) if system else (messages,):
        try:
            text = _apply_template(tokenizer, form, template)
        except (TemplateError, ValueError, TypeError, KeyError) as error:
            failure = error
        else:
            if system in text or form is folded:
                return text
    reason = str(failure).partition("\n")[0] or type(failure).__name__
    raise _unusable(f"its chat template rejects these messages: {reason[:200]}")


def _apply_template(tokenizer: Any, messages: Sequence[Message], template: Mapping[str, Any]) -> str:
    turns = [message._asdict() for message in messages]
    if messages[-1].role == "assistant":
        try:
            text = tokenizer.apply_chat_template(
                turns, tokenize=False, continue_final_message=True, **template
            )
            return str(text)
        except ValueError:  # the template changes the text of an assistant turn, so that its end is not found
            return _apply_template(tokenizer, [*messages[:-1]], template) + messages[-1].content
    return str(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True, **template))


# The open box
# ------------------------------------------------------------------------------------------------------------


def read_open_box(
    tokenizer: Any, messages: Sequence[Message], template: Mapping[str, Any], placeholder: str
) -> tuple[MarkedTokens, MarkedTokens]:
    """Return the source and the target prompt.

    The target has as many placeholders as the span of the source has tokens.

    Raises
    ------
    ModelError
        The span does not occur exactly once in the source, the marker does not occur exactly once in the
        target, or the template rejects the messages (permanent).
    """
    (source,) = [message.content for message in messages if message.role == "source"]
    (span,) = [message.content for message in messages if message.role == "span"]
    target = [message for message in messages if message.role not in _SOURCE_ROLES]
    system = [message for message in target if message.role == "system"]
    rendered = render(tokenizer, [*system, Message("user", source)], template)
    if rendered.count(span) != 1:
        raise _unusable(
            f"the span {span!r} must occur exactly once in the source prompt as written by the chat template"
        )
    start = rendered.index(span)
    marked = read_span(tokenizer, rendered, (start, start + len(span)))
    prompt = render(tokenizer, target, template)
    return marked, expand_target(tokenizer, prompt, len(marked.positions), placeholder)


def read_span(tokenizer: Any, text: str, span: tuple[int, int]) -> MarkedTokens:
    """Tokenise a rendered prompt, which contains the special tokens, and mark the tokens of a span.

    These are all tokens that overlap it.

    Parameters
    ----------
    span
        Positions of its first character, and of the character after its last one.

    Raises
    ------
    ModelError
        No token overlaps the span, or the tokenizer does not return the offsets of its tokens (permanent).
    """
    if not getattr(tokenizer, "is_fast", False):
        raise _unusable(
            "the open-box setting needs a fast tokenizer, which returns offsets; "
            f"{type(tokenizer).__name__} does not"
        )
    start, end = span
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    positions = [
        position
        for position, (token_start, token_end) in enumerate(encoded["offset_mapping"])
        if max(token_start, start) < min(token_end, end)
    ]
    if not positions:
        raise _unusable(f"no token of the prompt corresponds to {text[start:end]!r}")
    return MarkedTokens(list(encoded["input_ids"]), positions)


def expand_target(tokenizer: Any, rendered: str, count: int, placeholder: str) -> MarkedTokens:
    """Return a target prompt in which the marker ⟦X⟧ is replaced by `count` placeholder tokens.

    The text is tokenised with one placeholder, and its token is repeated. The number of placeholder tokens is
    therefore exact, however the tokenizer treats repeated placeholders or the blanks around them.

    Raises
    ------
    ModelError
        The marker does not occur exactly once, or the placeholder is not a single token there (permanent).
    """
    if (times := rendered.count(MARKER)) != 1:
        raise _unusable(
            f"the target prompt must contain the marker {MARKER} exactly once, but contains it {times} times"
        )
    start = rendered.index(MARKER)
    span = (start, start + len(placeholder))
    ids, positions = read_span(tokenizer, rendered.replace(MARKER, placeholder), span)
    spelled = [tokenizer.decode([ids[position]]).strip() for position in positions]
    if spelled != [placeholder]:
        raise _unusable(
            f"{placeholder!r} is not a single token at the marker {MARKER} ({spelled}): "
            "put blanks around the marker"
        )
    (position,) = positions
    placeholders = [ids[position]] * count
    expanded = [*ids[:position], *placeholders, *ids[position + 1 :]]
    return MarkedTokens(expanded, list(range(position, position + count)))
