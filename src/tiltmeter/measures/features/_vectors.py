"""Vectors of texts, each asked for once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tiltmeter.measures.features._models import Encodes
from tiltmeter.measures.features._scoring import score_all

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Vectors"]


class Vectors:
    """An encoder that remembers what it encoded."""

    def __init__(self, encoder: Encodes) -> None:
        self._encoder = encoder
        self._numbers: dict[str, int] = {}
        self._table = encoder.encode([])

    def of(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text, shape (texts, dimensions); NaN where a text could not be encoded."""
        import numpy as np

        if new := [text for text in dict.fromkeys(texts) if text not in self._numbers]:
            made = score_all(self._encoder.encode, new, self._table.shape[1]).values.astype(np.float32, copy=False)
            self._numbers |= {text: number for number, text in enumerate(new, len(self._table))}
            self._table = np.concatenate([self._table, made])
        return self._table[[self._numbers[text] for text in texts]]
