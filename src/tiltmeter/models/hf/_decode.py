"""One batch through the model: tokens in, tokens out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from tiltmeter.models._quiet import quiet
from tiltmeter.models.hf._load import Loaded
from tiltmeter.models.hf._open_box import Handed, handing_over
from tiltmeter.models.hf._options import Options
from tiltmeter.models.hf._sampling import Recipe, processors

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Row", "Spoken", "decode"]


class Row(NamedTuple):
    """One prompt of a batch."""

    ids: list[int]
    limit: int
    """Tokens its answer may have."""
    seed: int
    given_up: Callable[[], bool]
    """Whether nobody waits for its answer any more; asked at every step."""
    handed: Handed | None = None
    """Hidden states it is handed over from a source prompt (the open box)."""


class Spoken(NamedTuple):
    """What the model said to one prompt."""

    ids: list[int]
    """Without a token that ended it."""
    tokens: int
    """With that token."""
    finish_reason: str
    """ "stop": by its own end or a stop text; "length"."""


def decode(loaded: Loaded, rows: Sequence[Row], recipe: Recipe, options: Options) -> list[Spoken]:
    """Answer all rows together, the shorter prompts padded on the left. Raises whatever torch raises."""
    import torch
    from transformers import GenerationConfig, StoppingCriteriaList

    width = max(len(row.ids) for row in rows)
    padded = [[loaded.pad] * (width - len(row.ids)) + row.ids for row in rows]
    mask = [[0] * (width - len(row.ids)) + [1] * len(row.ids) for row in rows]
    ends = _Ends(loaded, rows, recipe.stop, width)
    patch = handing_over(loaded, options, [row.handed for row in rows], [width - len(row.ids) for row in rows])
    with quiet(), torch.inference_mode(), patch, _bounded_positions(loaded):
        ids, attention = torch.tensor(padded, device=loaded.device), torch.tensor(mask, device=loaded.device)
        config = GenerationConfig(max_new_tokens=max(row.limit for row in rows), do_sample=False, use_cache=True, pad_token_id=loaded.pad)
        loaded.model.generate(
            input_ids=ids,
            attention_mask=attention,
            generation_config=config,
            logits_processor=processors(recipe, [row.seed for row in rows], ids, attention),
            stopping_criteria=StoppingCriteriaList([ends]),
        )
    return [Spoken(said, tokens, reason) for said, tokens, reason in zip(ends.said, ends.tokens, ends.reasons, strict=True)]


class _Ends:
    """Ends each row on its own: at an end token, a stop text, its limit, or when nobody waits for it; keeps what it said till then."""

    def __init__(self, loaded: Loaded, rows: Sequence[Row], stop: tuple[str, ...], width: int) -> None:
        self._loaded, self._rows, self._stop, self._width = loaded, rows, stop, width
        self._tail = max((len(text.encode()) for text in stop), default=0) + 8
        """Tokens that a stop text at the end of an answer may span: every token is a byte at least, few are none."""
        self.said: list[list[int]] = [[] for _ in rows]
        self.tokens = [0] * len(rows)
        self.reasons = [""] * len(rows)

    def __call__(self, input_ids: Tensor, scores: Any, **more: Any) -> Tensor:
        import torch

        for number, token in enumerate(input_ids[:, -1].tolist()):
            if not self.reasons[number]:
                self.tokens[number] += 1
                self.reasons[number] = self._reason(number, token)
        return torch.tensor([bool(reason) for reason in self.reasons], device=input_ids.device)

    def _reason(self, number: int, token: int) -> str:
        row, said = self._rows[number], self.said[number]
        if token in self._loaded.ends:
            return "stop"
        said.append(token)
        if self._stop:
            tail = self._loaded.tokenizer.decode(said[-self._tail :], skip_special_tokens=True)
            if any(text in tail for text in self._stop):
                return "stop"
        return "length" if self.tokens[number] >= row.limit or row.given_up() else ""


@contextmanager
def _bounded_positions(loaded: Loaded) -> Iterator[None]:
    """Keep rows that have ended, but are carried on with the batch, from running out of a table of positions."""
    if loaded.positions is None:
        yield
        return
    last = loaded.positions - 1

    def bound(_model: Any, given: Any, named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if named.get("position_ids") is not None:
            named["position_ids"] = named["position_ids"].clamp(max=last)
        return given, named

    hook = loaded.model.register_forward_pre_hook(bound, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()
