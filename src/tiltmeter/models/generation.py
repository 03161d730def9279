"""How a causal language model of transformers answers a batch: tokens are drawn, rows end one by one.

A row's tokens are drawn by Gumbel-max: the noise of a step comes from a generator seeded by the request alone, so that an
answer does not depend on what else is in its batch. (One uniform number a step and the inverse of the cumulative
distribution would be cheaper, but a rounding difference early in the vocabulary would shift all later tokens.)

In the open box hidden states of one prompt replace those of another. Blocks are counted from 0, and "after block l" is what block l
gives out: with l = 2 and l* = 3, what the third block makes of the source's span takes the place of what the fourth makes of the target's
placeholders. The target is patched once, when its prompt is read. Causal attention lets no later token change the states of an earlier
one, so the cached keys and values of the blocks above stay right for every token that follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from tiltmeter.errors import InputError
from tiltmeter.models.prompts import MarkedTokens, PromptReader, PromptRow, Recipe
from tiltmeter.models.weights import quiet

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import LogitsProcessorList

_BLOCKS = ("model.layers", "transformer.h", "gpt_neox.layers", "model.decoder.layers", "layers", "h")
"""Where causal language models of transformers keep their blocks."""


class Generator(NamedTuple):
    """A causal language model in memory, ready to generate."""

    model: Any
    reader: PromptReader
    layers: tuple[int, int]
    """The block after which the states of a source are taken, and the block after which they are put into the target."""
    ends: frozenset[int]
    """Tokens that end an answer."""


def generate_batch(generator: Generator, rows: Sequence[PromptRow]) -> None:
    """Answer all rows together: either all of them are open-box requests or none. Raise whatever torch raises."""
    import torch
    from transformers import GenerationConfig, StoppingCriteriaList

    for row in rows:
        row.made, row.tokens, row.finish_reason = [], 0, ""
    model = generator.model
    config = GenerationConfig(max_new_tokens=max(row.limit for row in rows), do_sample=False, use_cache=True, pad_token_id=0)
    ids, mask = left_padded([row.ids for row in rows], model.device)
    boxes = [row.open_box for row in rows if row.open_box]
    patch: AbstractContextManager[None] = nullcontext()
    with quiet(), torch.inference_mode(), _bounded_positions(generator):
        if boxes:
            states = source_states(model, [source for source, _ in boxes], generator.layers[0])
            patch = patched(model, generator.layers[1], states, [target for _, target in boxes])
        with patch:
            model.generate(
                input_ids=ids,
                attention_mask=mask,
                generation_config=config,
                logits_processor=processors(rows[0].recipe, [row.seed for row in rows], ids, mask),
                stopping_criteria=StoppingCriteriaList([_row_ends(generator, rows)]),
            )


def left_padded(rows: Sequence[Sequence[int]], device: Any) -> tuple[Tensor, Tensor]:
    """Return token numbers and attention mask of a batch, the shorter rows padded on the left: shape (rows, tokens).

    Masked tokens are never looked at, so any token that exists will do.
    """
    import torch
    from torch.nn.utils.rnn import pad_sequence

    pad = partial(pad_sequence, batch_first=True, padding_side="left")
    ids, mask = pad([torch.tensor(row) for row in rows]), pad([torch.ones(len(row), dtype=torch.long) for row in rows])
    return ids.to(device), mask.to(device)


def _row_ends(generator: Generator, rows: Sequence[PromptRow]) -> Callable[..., Tensor]:
    """Ends each row on its own: at an end token, a stop text, its limit, or when it is given up; keeps what it said till then."""
    import torch

    stop, decode = rows[0].recipe.stop, generator.reader.tokenizer.decode
    # Tokens that a stop text at the end of an answer may span: every token is a byte at least, few are none.
    tail = max((len(text.encode()) for text in stop), default=0) + 8

    def reason(row: PromptRow, token: int) -> str:
        row.tokens += 1
        if token in generator.ends:
            return "stop"
        row.made.append(token)
        if stop:
            end = decode(row.made[-tail:], skip_special_tokens=True)
            if any(text in end for text in stop):
                return "stop"
        return "length" if row.tokens >= row.limit or row.given_up() else ""

    def ended(input_ids: Tensor, _scores: Any, **_more: Any) -> Tensor:
        for row, token in zip(rows, input_ids[:, -1].tolist(), strict=True):
            row.finish_reason = row.finish_reason or reason(row, token)
        return torch.tensor([bool(row.finish_reason) for row in rows], device=input_ids.device)

    return ended


@contextmanager
def _bounded_positions(generator: Generator) -> Iterator[None]:
    """Keep rows that have ended, but are carried on with the batch, from running out of a table of positions."""
    most = generator.reader.positions

    def bound(_model: Any, given: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if most is not None and named.get("position_ids") is not None:
            named["position_ids"] = named["position_ids"].clamp(max=most - 1)
        return given, named

    with generator.model.register_forward_pre_hook(bound, with_kwargs=True):
        yield


def processors(recipe: Recipe, seeds: Sequence[int], prompts: Tensor, mask: Tensor) -> LogitsProcessorList:
    """Return what makes the logits of a step ready for taking their maximum.

    Parameters
    ----------
    seeds
        One a row.
    prompts, mask
        Token numbers and attention mask, padded on the left: shape (rows, tokens).
    """
    import torch
    from transformers import LogitsProcessorList, MinPLogitsWarper, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    generators = [torch.Generator(device=prompts.device).manual_seed(seed) for seed in seeds]

    def penalise(input_ids: Tensor, scores: Tensor) -> Tensor:
        """Make tokens less probable by how often (frequency) and whether (presence) they are in the answer, or in the prompt or the
        answer (repetition: a factor on the logit, after Keskar et al. 2019)."""
        generated, factor = input_ids[:, prompts.shape[1] :], recipe.repetition_penalty
        counts = torch.zeros_like(scores).scatter_add_(1, generated, torch.ones_like(generated, dtype=scores.dtype))
        used = counts.scatter_add(1, prompts, mask.to(scores.dtype)) > 0  # padding counts as no token
        scores = torch.where(used, torch.where(scores > 0, scores / factor, scores * factor), scores)
        return scores - recipe.frequency_penalty * counts - recipe.presence_penalty * (counts > 0)

    def add_noise(_input_ids: Tensor, scores: Tensor) -> Tensor:
        """Add Gumbel noise, so that the maximum is a draw from the softmax."""
        noise = torch.empty_like(scores, dtype=torch.float32)
        for row, generator in zip(noise, generators, strict=True):
            row.exponential_(generator=generator)
        # -log of an exponential variable is a Gumbel variable; a draw of exactly 0 would outweigh a token that was filtered out.
        return scores.float() - noise.clamp_min_(torch.finfo(torch.float32).tiny).log_()

    steps: list[Any] = []
    if recipe.frequency_penalty or recipe.presence_penalty or recipe.repetition_penalty != 1.0:
        steps.append(penalise)
    if recipe.temperature > 0:
        if recipe.temperature != 1.0:
            steps.append(TemperatureLogitsWarper(recipe.temperature))
        if recipe.top_k:
            steps.append(TopKLogitsWarper(recipe.top_k))
        if recipe.top_p < 1.0:
            steps.append(TopPLogitsWarper(recipe.top_p))
        if recipe.min_p:
            steps.append(MinPLogitsWarper(recipe.min_p))
        steps.append(add_noise)
    return LogitsProcessorList(steps)


# The open box -------------------------------------------------------------------------------------------------------------------------


def find_blocks(model: Any, layer: int) -> Sequence[Any]:
    """Return the blocks of a causal language model (Llama-, Qwen-, GPT-2-, GPT-NeoX-like ones and those built in the same way).

    Raises
    ------
    InputError
        The model keeps its blocks in a place not known here, or has no block number `layer`.
    """
    places = (reduce(lambda module, name: getattr(module, name, None), place.split("."), model) for place in _BLOCKS)
    found: Sequence[Any] | None = next((place for place in places if place is not None and len(place)), None)
    if found is None:
        raise InputError(f"the open box cannot look into a {type(model).__name__}: its blocks are not in {', '.join(_BLOCKS)}")
    if not 0 <= layer < len(found):
        raise InputError(f"there is no block {layer}: this model has the blocks 0 to {len(found) - 1}")
    return found


def source_states(model: Any, sources: Sequence[MarkedTokens], layer: int) -> list[Tensor]:
    """Return the hidden states after block `layer` of the marked tokens of each source, read as one batch.

    Returns
    -------
    list of Tensor
        For each source its vectors in order, shape (tokens, hidden size).

    Raises
    ------
    InputError
        There is no such block.
    """
    import torch

    block = find_blocks(model, layer)[layer]
    ids, mask = left_padded([source.ids for source in sources], model.device)
    seen: list[Tensor] = []
    with torch.inference_mode(), block.register_forward_hook(lambda _block, _given, made: seen.append(_hidden_states(made))):
        model.base_model(input_ids=ids, attention_mask=mask, position_ids=(mask.cumsum(-1) - 1).clamp(min=0), use_cache=False)
    return [states[-len(source.ids) :][source.positions].clone() for states, source in zip(seen[0], sources, strict=True)]


@contextmanager
def patched(model: Any, layer: int, states: Sequence[Tensor], targets: Sequence[MarkedTokens]) -> Iterator[None]:
    """While it is entered, the targets the model reads next have other hidden states after block `layer` at their marked tokens.

    Meant for one call of the model or of `generate`. The first forward pass fixes how wide the prompt is; later passes that read less
    (those of generation from the cache) are left alone, those that read it again (generation without a cache) are patched again.

    Parameters
    ----------
    states
        For each target the vectors that are put in, shape (tokens, hidden size).
    targets
        The rows of the batch, which is padded on the left.

    Raises
    ------
    InputError
        There is no such block.
    """
    import torch

    block = find_blocks(model, layer)[layer]
    # Counted from the end of the prompt, where padding does not matter.
    marked = [(number, place - len(target.ids)) for number, target in enumerate(targets) for place in target.positions]
    places = torch.tensor(marked, dtype=torch.long).T
    vectors = torch.cat(list(states))
    width = 0

    def put_in(_block: Any, _given: Any, made: Any) -> Any:
        nonlocal width
        hidden = _hidden_states(made)
        width = width or hidden.shape[1]
        if hidden.shape[1] < width:
            return made
        changed = hidden.clone()
        rows, columns = places.to(hidden.device)
        changed[rows, width + columns] = vectors.to(hidden)
        return changed if made is hidden else (changed, *made[1:])

    with block.register_forward_hook(put_in):
        yield


def _hidden_states(made: Any) -> Tensor:
    """What a block gives out: the hidden states alone or, depending on model and version, first among others."""
    hidden: Tensor = made[0] if isinstance(made, tuple) else made
    return hidden
