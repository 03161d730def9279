"""Open box: hidden states of one prompt put in the place of those of another (spec badf.md, section 3; after Ghandeharioun et al. 2024).

Blocks are counted from 0, and "after block l" is what block l gives out: with l = 2 and l* = 3, what the third block makes of the
source's span takes the place of what the fourth makes of the target's placeholders.

The target is patched once, when its prompt is read. Causal attention lets no later token change the states of an earlier one, so the
cached keys and values of the blocks above stay right for every token that follows; patching again at each step would give the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tiltmeter.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["MARKER", "SpanTokens", "Target", "expand_target", "find_blocks", "patched", "read_span", "source_states"]

MARKER: Final = "⟦X⟧"
"""Stands once in a target prompt, where the vectors of the source go."""

_PLACES: Final = ("model.layers", "transformer.h", "gpt_neox.layers", "model.decoder.layers", "layers", "h")
"""Where causal language models of transformers keep their blocks."""


class Target(NamedTuple):
    """A target prompt in tokens."""

    ids: list[int]
    positions: list[int]
    """Where in `ids` the placeholders stand, in order."""


def find_blocks(model: Any, layer: int) -> Sequence[Any]:
    """The blocks of a causal language model (Llama-, Qwen-, GPT-2-, GPT-NeoX-like ones and those built in the same way).

    Raises
    ------
    InputError
        The model keeps its blocks in a place not known here, or has no block number `layer`.
    """
    for place in _PLACES:
        found = model
        for name in place.split("."):
            found = getattr(found, name, None)
        if found is not None and len(found):
            break
    else:
        raise InputError(f"the open box cannot look into a {type(model).__name__}: its blocks are not in {', '.join(_PLACES)}")
    if not 0 <= layer < len(found):
        raise InputError(f"there is no block {layer}: this model has the blocks 0 to {len(found) - 1}")
    blocks: Sequence[Any] = found
    return blocks


def source_states(model: Any, tokenizer: Any, sources: Sequence[str], spans: Sequence[tuple[int, int]], layer: int) -> list[Tensor]:
    """Hidden states after block `layer` of the tokens that spell a part of each source.

    Parameters
    ----------
    model, tokenizer
        A causal language model of transformers and its (fast) tokenizer.
    sources
        Prompts as rendered by the chat template; read as one batch, the shorter ones padded on the left.
    spans
        First character and end of the part, in each rendered text. A token that spells any of its characters belongs to it.
    layer
        Of the block, from 0.

    Returns
    -------
    list of Tensor
        For each source its vectors in order, shape (tokens, hidden size).

    Raises
    ------
    InputError
        A span is empty, lies outside its text or holds no token; there is no such block; the tokenizer gives no places of its tokens.
    """
    import torch

    block = find_blocks(model, layer)[layer]
    rows = [read_span(tokenizer, text, span) for text, span in zip(sources, spans, strict=True)]
    width = max(len(row.ids) for row in rows)
    device = model.get_input_embeddings().weight.device
    pads = [width - len(row.ids) for row in rows]
    # Masked tokens are never looked at, so any token that exists will do.
    ids = torch.tensor([[0] * pad + row.ids for pad, row in zip(pads, rows, strict=True)], device=device)
    mask = torch.tensor([[0] * pad + [1] * len(row.ids) for pad, row in zip(pads, rows, strict=True)], device=device)
    seen: list[Tensor] = []
    hook = block.register_forward_hook(lambda _block, _given, made: seen.append(_hidden(made)))
    try:
        with torch.inference_mode():
            model.base_model(input_ids=ids, attention_mask=mask, position_ids=(mask.cumsum(-1) - 1).clamp(min=0), use_cache=False)
    finally:
        hook.remove()
    (hidden,) = seen
    return [hidden[number, [pad + at for at in row.positions]].clone() for number, (pad, row) in enumerate(zip(pads, rows, strict=True))]


def expand_target(tokenizer: Any, rendered: str, count: int, placeholder: str = "X") -> Target:
    """Tokens of a target prompt whose marker ⟦X⟧ has become `count` placeholder tokens, and where these are.

    The text is read with one placeholder, and the token that spells it is repeated: so there are exactly as many as asked for, whatever
    the tokenizer does with several of them or with the blanks around them.

    Raises
    ------
    InputError
        The marker is missing or there twice; the placeholder is no token of its own there; the tokenizer gives no places of its tokens.
    """
    times = rendered.count(MARKER)
    if times != 1:
        raise InputError(f"the target prompt must hold the marker {MARKER} exactly once, and holds it {times} times")
    if count < 1:
        raise InputError(f"the source must give at least one vector, not {count}")
    start = rendered.index(MARKER)
    text = rendered.replace(MARKER, placeholder)
    row = read_span(tokenizer, text, (start, start + len(placeholder)))
    spelled = [text[slice(*row.offsets[at])].strip() for at in row.positions]
    if spelled != [placeholder]:
        found = " ".join(repr(one) for one in spelled)
        raise InputError(f"{placeholder!r} is no token of its own at the marker {MARKER} ({found}): put blanks around the marker")
    at = row.positions[0]
    ids = [*row.ids[:at], *[row.ids[at]] * count, *row.ids[at + 1 :]]
    return Target(ids, list(range(at, at + count)))


@contextmanager
def patched(model: Any, layer: int, rows: Sequence[Tensor], positions: Sequence[Sequence[int]]) -> Iterator[None]:
    """While it is entered, the prompt the model reads next has other hidden states after block `layer` at some places.

    Meant for one call of the model or of `generate`. The first forward pass fixes how wide the prompt is; later passes that read less
    (those of generation from the cache) are left alone, those that read it again (generation without a cache) are patched again.

    Parameters
    ----------
    model
        A causal language model of transformers.
    layer
        Of the block, from 0.
    rows
        For each row of the batch the vectors that are put in, shape (tokens, hidden size); none where a row is to stay as it is.
    positions
        For each row of the batch where they go: columns of the batch as it is given to the model, padding on the left included.

    Raises
    ------
    InputError
        There is no such block.
    ValueError
        Vectors and positions, or rows and batch, differ in number; the vectors have another size than the model's.
    """
    import torch

    block = find_blocks(model, layer)[layer]
    sizes = [(len(vectors), len(places)) for vectors, places in zip(rows, positions, strict=True)]
    if any(vectors != places for vectors, places in sizes):
        raise ValueError(f"vectors and positions of each row, in pairs: {sizes}")
    row = torch.tensor([number for number, places in enumerate(positions) for _ in places], dtype=torch.long)
    column = torch.tensor([place for places in positions for place in places], dtype=torch.long)
    vectors = torch.cat(list(rows))
    width = 0

    def put_in(_block: Any, _given: Any, made: Any) -> Any:
        nonlocal width
        hidden = _hidden(made)
        width = width or hidden.shape[1]
        if hidden.shape[1] < width:
            return made
        if (len(rows), vectors.shape[-1]) != (hidden.shape[0], hidden.shape[2]):
            raise ValueError(f"{len(rows)} rows of vectors of size {vectors.shape[-1]} for hidden states of shape {tuple(hidden.shape)}")
        changed = hidden.clone()
        changed[row.to(hidden.device), column.to(hidden.device)] = vectors.to(hidden)
        return changed if made is hidden else (changed, *made[1:])

    hook = block.register_forward_hook(put_in)
    try:
        yield
    finally:
        hook.remove()


def _hidden(made: Any) -> Tensor:
    """What a block gives out: the hidden states alone or, depending on model and version, first among others."""
    hidden: Tensor = made[0] if isinstance(made, tuple) else made
    return hidden


class SpanTokens(NamedTuple):
    """A prompt in tokens, and which of them spell a part of it."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    positions: list[int]
    """Tokens that spell a character of the span."""


def read_span(tokenizer: Any, text: str, span: tuple[int, int]) -> SpanTokens:
    """A rendered prompt in tokens (the template has put in the special ones already), and which spell a character of the span.

    Raises
    ------
    InputError
        The span is empty, lies outside the text or holds no token; the tokenizer gives no places of its tokens.
    """
    start, end = span
    if not 0 <= start < end <= len(text):
        raise InputError(f"the span {start} to {end} is empty or not in the source prompt, which has {len(text)} characters")
    if not getattr(tokenizer, "is_fast", False):
        raise InputError(f"the open box needs a fast tokenizer, which tells where its tokens stand; {type(tokenizer).__name__} does not")
    read = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    offsets = [(int(first), int(last)) for first, last in read["offset_mapping"]]
    positions = [number for number, (first, last) in enumerate(offsets) if first < end and last > start]
    if not positions:
        raise InputError(f"no token spells {text[start:end]!r} in the source prompt")
    return SpanTokens(list(read["input_ids"]), offsets, positions)
