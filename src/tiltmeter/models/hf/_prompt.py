"""From messages to tokens: the chat template where the tokenizer has one, plain text otherwise."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tiltmeter.models._base import Message, ModelError

__all__ = ["encode", "render"]

_ROLES = frozenset({"system", "user", "assistant"})


def encode(tokenizer: Any, messages: Sequence[Message], template: str) -> tuple[list[int], bool]:
    """Token numbers of the prompt, and whether it ends within thinking that the template opened.

    Raises
    ------
    ModelError
        The template or we refuse the messages, or there is nothing to continue (permanent).
    """
    if strange := {message.role for message in messages} - _ROLES:
        raise ModelError("bad_request", f"it takes no message of the role {', '.join(sorted(strange))}", scope="permanent")
    text, special = render(tokenizer, messages, template)
    ids: list[int] = tokenizer(text, add_special_tokens=special)["input_ids"]
    if not ids:
        first = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
        if first is None:
            raise ModelError("bad_request", "the prompt is empty and the tokenizer has no token to begin with", scope="permanent")
        ids = [first]
    return ids, text.rstrip().endswith(("<think>", "<thinking>"))


def render(tokenizer: Any, messages: Sequence[Message], template: str = "{}") -> tuple[str, bool]:
    """The prompt as one text, and whether the tokenizer is to add its special tokens (a chat template has written them itself).

    An assistant message at the end is the beginning of the answer, to be continued. Where the template has no place for a
    system message it goes in front of the first user message.

    Parameters
    ----------
    template
        JSON of what the template is given besides the messages.

    Raises
    ------
    ModelError
        The template refuses the messages (permanent).
    """
    if tokenizer.chat_template is None:
        return "\n\n".join(message.content for message in messages), True
    given = json.loads(template)
    system = "\n\n".join(message.content for message in messages if message.role == "system").strip()
    try:
        text = _apply(tokenizer, messages, given)
    except _refusals() as error:
        if not system:
            raise _refused(error) from None
    else:
        if system in text:
            return text, False
    try:
        return _apply(tokenizer, _folded(messages, system), given), False
    except _refusals() as error:
        raise _refused(error) from None


def _refusals() -> tuple[type[Exception], ...]:
    from jinja2 import TemplateError

    return TemplateError, ValueError, TypeError, KeyError


def _refused(error: Exception) -> ModelError:
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    return ModelError("bad_request", f"its chat template refuses these messages: {said[:200]}", scope="permanent")


def _apply(tokenizer: Any, messages: Sequence[Message], given: dict[str, Any]) -> str:
    turns = [{"role": role, "content": content} for role, content in messages]
    if turns[-1]["role"] != "assistant":
        return str(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True, **given))
    try:
        return str(tokenizer.apply_chat_template(turns, tokenize=False, continue_final_message=True, **given))
    except ValueError:  # the template changes the text of an assistant's turn, so that its end is not found
        opened = str(tokenizer.apply_chat_template(turns[:-1], tokenize=False, add_generation_prompt=True, **given))
        return opened + turns[-1]["content"]


def _folded(messages: Sequence[Message], system: str) -> list[Message]:
    turns = [message for message in messages if message.role != "system"]
    first = next((number for number, turn in enumerate(turns) if turn.role == "user"), None)
    if first is None:
        return [Message("user", system), *turns]
    turns[first] = Message("user", f"{system}\n\n{turns[first].content}")
    return turns
