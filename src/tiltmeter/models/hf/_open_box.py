"""The open box as a request: a source prompt, the part of it that is handed over, and a target prompt that names nobody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from tiltmeter.errors import InputError
from tiltmeter.models._base import Message, ModelError
from tiltmeter.models.hf._patch import expand_target, patched, read_span, source_states
from tiltmeter.models.hf._prompt import render

if TYPE_CHECKING:
    from tiltmeter.models.hf._load import Loaded
    from tiltmeter.models.hf._options import Options

__all__ = ["Handed", "handing_over", "is_open_box", "read_open_box"]

SOURCE, SPAN = "source", "span"


class Handed(NamedTuple):
    """What is handed over to one target prompt."""

    source: str
    """The source prompt as rendered by the chat template."""
    span: tuple[int, int]
    """First character and end, in it, of the part that is handed over."""
    positions: list[int]
    """Places of the placeholders among the target's tokens."""


def is_open_box(messages: Sequence[Message]) -> bool:
    """Whether the messages hold a source prompt."""
    return any(message.role in (SOURCE, SPAN) for message in messages)


def read_open_box(tokenizer: Any, messages: Sequence[Message], template: str, placeholder: str) -> tuple[list[int], Handed]:
    """Tokens of the target prompt, with as many placeholders as the span has tokens, and what is handed over.

    Raises
    ------
    ModelError
        There is not exactly one source and one span, the span is no part of the source, the marker is not in the target exactly once,
        or the template refuses the messages (permanent).
    """
    given = {role: [message.content for message in messages if message.role == role] for role in (SOURCE, SPAN)}
    if any(len(contents) != 1 for contents in given.values()):
        raise ModelError("bad_request", "an open-box request has exactly one source and one span", scope="permanent")
    (source,), (span,) = given[SOURCE], given[SPAN]
    if source.count(span) != 1:
        raise ModelError("bad_request", f"the span {span!r} must stand in the source prompt exactly once", scope="permanent")
    target = [message for message in messages if message.role not in (SOURCE, SPAN)]
    system = [message for message in target if message.role == "system"]
    rendered, _ = render(tokenizer, [*system, Message("user", source)], template)
    if rendered.count(span) != 1:
        raise ModelError("bad_request", f"the chat template changes the span {span!r} or repeats it", scope="permanent")
    place = (rendered.index(span), rendered.index(span) + len(span))
    try:
        count = len(read_span(tokenizer, rendered, place).positions)
        expanded = expand_target(tokenizer, render(tokenizer, target, template)[0], count, placeholder)
    except InputError as error:
        raise ModelError("bad_request", str(error), scope="permanent") from None
    return expanded.ids, Handed(rendered, place, expanded.positions)


@contextmanager
def handing_over(loaded: Loaded, options: Options, handed: Sequence[Handed | None], shifts: Sequence[int]) -> Iterator[None]:
    """While it is entered, the prompts read next have the hidden states handed over to them.

    Parameters
    ----------
    handed
        For each row of the batch; a batch has them for every row or for none.
    shifts
        Padding on the left of each row.
    """
    given = [one for one in handed if one is not None]
    if not given:
        yield
        return
    states = source_states(loaded.model, loaded.tokenizer, [one.source for one in given], [one.span for one in given], options.source_layer)
    positions = [[shift + place for place in one.positions] for one, shift in zip(given, shifts, strict=True)]
    with patched(loaded.model, options.target_layer, states, positions):
        yield
