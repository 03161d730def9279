"""Batch generation with a causal language model of transformers: tokens are sampled, and rows end one by one.

The tokens of a row are sampled with the Gumbel-max trick: the noise of a step comes from a generator seeded
by the request alone, so that an answer does not depend on the other rows of its batch. (Inverting the
cumulative distribution with one uniform number per step would be cheaper, but a rounding difference early in
the vocabulary would shift all later tokens.)

In the open-box setting, hidden states of one prompt replace those of another. Blocks are counted from 0, and
"after block l" refers to the output of block l: with l = 2 and l* = 3, the output of the third block at the
source's span replaces the output of the fourth block at the target's placeholders. The target is patched
once, when its prompt is read. With causal attention, later tokens do not change the states of earlier ones,
so the cached keys and values of the blocks above remain valid for all following tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tiltmeter.errors import InputError
from tiltmeter.models._prompts import MarkedTokens, PromptReader, PromptRow, Recipe
from tiltmeter.models._weights import quiet

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import LogitsProcessorList

_BLOCKS = ("model.layers", "transformer.h", "gpt_neox.layers", "model.decoder.layers", "layers", "h")
"""Attributes in which causal language models of transformers store their blocks."""


class Generator(NamedTuple):
    """A causal language model in memory, ready to generate."""

    model: Any
    reader: PromptReader
    layers: tuple[int, int]
    """The block after which the states of a source are read, and the block after which they are inserted into
    the target."""
    ends: frozenset[int]
    """Tokens that end an answer."""


def generate_batch(generator: Generator, rows: Sequence[PromptRow]) -> None:
    """Answer all rows as one batch; either all of them are open-box requests or none.

    Exceptions of torch propagate.
    """
    import torch
    from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

    for row in rows:
        row.clear_answer()
    model = generator.model
    longest = max(row.limit for row in rows)
    config = GenerationConfig(max_new_tokens=longest, do_sample=False, use_cache=True, pad_token_id=0)
    ids, mask = left_padded([row.ids for row in rows], model.device)
    sampling = processors(rows[0].recipe, [row.seed for row in rows], ids, mask)
    logits_processors = LogitsProcessorList([*_constraints(generator, rows), *sampling])
    stopping_criteria = StoppingCriteriaList([_row_ends(generator, rows)])
    open_boxes = [row.open_box for row in rows if row.open_box]
    patch: AbstractContextManager[None] = nullcontext()
    with quiet(), torch.inference_mode(), _bounded_positions(generator):
        if open_boxes:
            states = source_states(model, [source for source, _ in open_boxes], generator.layers[0])
            patch = patched(model, generator.layers[1], states, [target for _, target in open_boxes])
        with patch:
            model.generate(
                input_ids=ids,
                attention_mask=mask,
                generation_config=config,
                logits_processor=logits_processors,
                stopping_criteria=stopping_criteria,
            )


def left_padded(rows: Sequence[Sequence[int]], device: Any) -> tuple[Tensor, Tensor]:
    """Return the token IDs and the attention mask of a batch, padded on the left: shape (rows, tokens).

    Masked tokens are ignored, so any existing token can be used for padding.
    """
    import torch
    from torch.nn.utils.rnn import pad_sequence

    pad = partial(pad_sequence, batch_first=True, padding_side="left")
    ids = pad([torch.tensor(row) for row in rows])
    mask = pad([torch.ones(len(row), dtype=torch.long) for row in rows])
    return ids.to(device), mask.to(device)


def _row_ends(generator: Generator, rows: Sequence[PromptRow]) -> Callable[..., Tensor]:
    """Return a stopping criterion that ends rows independently.

    A row ends at an end token, a stop text or its limit, or if its answer is no longer needed. The criterion
    also collects the tokens of each answer.
    """
    import torch

    stop = rows[0].recipe.stop
    decode = generator.reader.tokenizer.decode
    # Number of tokens that a stop text at the end of an answer may span: nearly every token is at least one
    # byte.
    tail_length = max((len(text.encode()) for text in stop), default=0) + 8

    def reason(row: PromptRow, token: int) -> str:
        row.tokens += 1
        if token in generator.ends:
            return "stop"
        row.generated.append(token)
        if row.allowed is not None:
            row.place = row.allowed.steps[row.place][token]
            if not row.allowed.tokens(row.place, ()):
                return "stop"
        if stop:
            tail = decode(row.generated[-tail_length:], skip_special_tokens=True)
            if any(text in tail for text in stop):
                return "stop"
        return "length" if row.tokens >= row.limit or row.given_up() else ""

    def ended(input_ids: Tensor, _scores: Any, **_more: Any) -> Tensor:
        for row, token in zip(rows, input_ids[:, -1].tolist(), strict=True):
            row.finish_reason = row.finish_reason or reason(row, token)
        return torch.tensor([bool(row.finish_reason) for row in rows], device=input_ids.device)

    return ended


def _constraints(generator: Generator, rows: Sequence[PromptRow]) -> list[Callable[[Tensor, Tensor], Tensor]]:
    """Return the processor that removes all tokens but those of allowed answers.

    The list is empty if all answers of the batch are free.

    It comes before the others, so that temperature, penalties and filters apply to the remaining tokens. Each
    row may have another list of allowed answers; rows without a list are not changed.
    """
    import torch

    def keep_allowed(_input_ids: Tensor, scores: Tensor) -> Tensor:
        removed = torch.zeros_like(scores)
        for number, row in enumerate(rows):
            if row.allowed is not None and not row.finish_reason:
                removed[number] = -torch.inf
                removed[number, row.allowed.tokens(row.place, generator.ends)] = 0
        return scores + removed

    return [keep_allowed] if any(row.allowed is not None for row in rows) else []


@contextmanager
def _bounded_positions(generator: Generator) -> Iterator[None]:
    """Limit position IDs to the table of positions of the model.

    Finished rows continue with the batch, and would exceed it.
    """
    positions = generator.reader.positions

    def bound(_model: Any, arguments: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if positions is not None and options.get("position_ids") is not None:
            options["position_ids"] = options["position_ids"].clamp(max=positions - 1)
        return arguments, options

    with generator.model.register_forward_pre_hook(bound, with_kwargs=True):
        yield


def processors(recipe: Recipe, seeds: Sequence[int], prompts: Tensor, mask: Tensor) -> LogitsProcessorList:
    """Return the processors that prepare the logits of a step, so that their maximum is the next token.

    Parameters
    ----------
    seeds
        One seed per row.
    prompts, mask
        Token IDs and attention mask, padded on the left: shape (rows, tokens).
    """
    import torch
    from transformers import (
        LogitsProcessorList,
        MinPLogitsWarper,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    generators = [torch.Generator(device=prompts.device).manual_seed(seed) for seed in seeds]

    def penalise(input_ids: Tensor, scores: Tensor) -> Tensor:
        """Apply the frequency, presence and repetition penalties.

        The first two depend on how often, and whether, a token is in the answer; the third is a factor on the
        logits of tokens in the prompt or the answer (Keskar et al. 2019).
        """
        generated = input_ids[:, prompts.shape[1] :]
        ones = torch.ones_like(generated, dtype=scores.dtype)
        counts = torch.zeros_like(scores).scatter_add_(1, generated, ones)
        used = counts.scatter_add(1, prompts, mask.to(scores.dtype)) > 0  # padding is not counted
        factor = recipe.repetition_penalty
        penalised = torch.where(scores > 0, scores / factor, scores * factor)
        scores = torch.where(used, penalised, scores)
        return scores - recipe.frequency_penalty * counts - recipe.presence_penalty * (counts > 0)

    def add_noise(_input_ids: Tensor, scores: Tensor) -> Tensor:
        """Add Gumbel noise, so that the maximum is a sample from the softmax."""
        noise = torch.empty_like(scores, dtype=torch.float32)
        for row, generator in zip(noise, generators, strict=True):
            row.exponential_(generator=generator)
        # -log of an exponential variable is a Gumbel variable; a draw of exactly 0 would select even a token
        # that was filtered out.
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


# The open box
# ------------------------------------------------------------------------------------------------------------


def find_blocks(model: Any, layer: int) -> Sequence[Any]:
    """Return the blocks of a causal language model.

    The structures of Llama, Qwen, GPT-2 and GPT-NeoX are supported.

    Raises
    ------
    InputError
        The structure of the model is not supported, or it has no block number `layer`.
    """
    blocks = _blocks_of(model)
    if not blocks:
        raise InputError(
            f"the open-box setting does not support {type(model).__name__}: "
            f"its blocks are not in {', '.join(_BLOCKS)}"
        )
    if not 0 <= layer < len(blocks):
        raise InputError(f"there is no block {layer}: this model has the blocks 0 to {len(blocks) - 1}")
    return blocks


def _blocks_of(model: Any) -> Sequence[Any]:
    """Return the blocks of a model; empty if they are not in an attribute of `_BLOCKS`."""
    for attribute in _BLOCKS:
        blocks: Any = model
        for name in attribute.split("."):
            blocks = getattr(blocks, name, None)
        if blocks is not None and len(blocks) > 0:
            return list(blocks)
    return []


def source_states(model: Any, sources: Sequence[MarkedTokens], layer: int) -> list[Tensor]:
    """Return the hidden states after block `layer` at the marked tokens of each source.

    They are computed as one batch.

    Returns
    -------
    list of Tensor
        For each source, its vectors in order: shape (tokens, hidden size).

    Raises
    ------
    InputError
        There is no such block.
    """
    import torch

    block = find_blocks(model, layer)[layer]
    ids, mask = left_padded([source.ids for source in sources], model.device)
    outputs: list[Tensor] = []

    def collect(_block: Any, _arguments: Any, output: Any) -> None:
        outputs.append(_hidden_states(output))

    with torch.inference_mode(), block.register_forward_hook(collect):
        model.base_model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=(mask.cumsum(-1) - 1).clamp(min=0),
            use_cache=False,
        )
    return [
        states[-len(source.ids) :][source.positions].clone()
        for states, source in zip(outputs[0], sources, strict=True)
    ]


@contextmanager
def patched(
    model: Any, layer: int, states: Sequence[Tensor], targets: Sequence[MarkedTokens]
) -> Iterator[None]:
    """Replace hidden states after block `layer` at the marked tokens of the targets within the block.

    Use it for one call of the model or of `generate`. The first forward pass determines the width of the
    prompt; later passes that read less (generation with a cache) are not changed, and those that read it
    again (generation without a cache) are patched again.

    Parameters
    ----------
    states
        For each target, the vectors to insert: shape (tokens, hidden size).
    targets
        The rows of the batch, which is padded on the left.

    Raises
    ------
    InputError
        There is no such block.
    """
    import torch

    block = find_blocks(model, layer)[layer]
    # Counted from the end of the prompt, so that padding does not matter.
    marked = [
        (number, position - len(target.ids))
        for number, target in enumerate(targets)
        for position in target.positions
    ]
    rows, columns = torch.tensor(marked, dtype=torch.long).T
    vectors = torch.cat(list(states))
    width = 0

    def insert(_block: Any, _arguments: Any, output: Any) -> Any:
        nonlocal width
        hidden = _hidden_states(output)
        width = width or hidden.shape[1]
        if hidden.shape[1] < width:
            return output
        rows_here = rows.to(hidden.device)
        columns_here = width + columns.to(hidden.device)  # columns are negative
        changed = hidden.clone()
        changed[rows_here, columns_here] = vectors.to(hidden)
        return changed if output is hidden else (changed, *output[1:])

    with block.register_forward_hook(insert):
        yield


def _hidden_states(output: Any) -> Tensor:
    """Return the hidden states in the output of a block.

    They are the output itself or, depending on model and version, its first element.
    """
    hidden: Tensor = output[0] if isinstance(output, tuple) else output
    return hidden
