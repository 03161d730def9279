"""Numbers from a model for many texts, where a text the model fails on is left out instead of ending it all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tiltmeter.errors import TiltmeterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Rows", "Scored", "failure", "score_all"]

_AT_ONCE = 1024
"""Texts given to a model together: what is computed again, some ten times at most, to find the one text that it fails on."""

Rows = Callable[[Sequence[str]], "NDArray[np.floating[Any]]"]


class Scored(NamedTuple):
    """What was computed of each of some texts."""

    values: NDArray[np.floating[Any]]
    """Shape (texts, width); NaN where a text could not be scored."""
    failed: int
    """Texts that could not be scored."""
    reason: str | None
    """Why the first of them could not, in words."""


def failure(error: Exception) -> str:
    """What went wrong, on one line."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said[:200]}" if said else type(error).__name__


def score_all(rows: Rows, texts: Sequence[str], width: int, *, precise: bool = False) -> Scored:
    """The model's row of each text; a text is missing where the model raises on it alone or gives a number that is not finite.

    Parameters
    ----------
    rows
        The model: one row of `width` numbers per text.
    precise
        Keep them in double precision instead of single (what classifiers and encoders give).

    Raises
    ------
    TiltmeterError
        The model cannot be used at all (no weights, no device, no store).
    """
    import numpy as np

    values = np.full((len(texts), width), np.nan, dtype=np.float64 if precise else np.float32)
    reasons: list[str] = []
    # Long texts first, so that those computed together are of like length.
    order = sorted(range(len(texts)), key=lambda number: -len(texts[number]))
    waiting = [order[start : start + _AT_ONCE] for start in range(0, len(order), _AT_ONCE)][::-1]
    while waiting:
        some = waiting.pop()
        try:
            values[some] = rows([texts[number] for number in some])
        except TiltmeterError:
            raise
        except Exception as error:
            if len(some) == 1:
                reasons.append(failure(error))
            else:
                waiting += [some[len(some) // 2 :], some[: len(some) // 2]]
    finite = np.isfinite(values).all(axis=1)
    values[~finite] = np.nan
    failed = int(len(texts) - finite.sum())
    return Scored(values, failed, next(iter(reasons), "the model gave a number that is not finite") if failed else None)
