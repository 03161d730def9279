"""What features ask of the models behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Classifies", "Cuts", "Encodes"]


class Encodes(Protocol):
    """A sentence encoder."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of length 1 per text: shape (texts, dimensions)."""
        ...


class Classifies(Protocol):
    """A text classifier."""

    @property
    def name(self) -> str:
        """What identifies its scores."""
        ...

    @property
    def labels(self) -> Sequence[str]:
        """Names of the labels, in the order of the scores."""
        ...

    def scores(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text, one column per label: shape (texts, labels)."""
        ...


@runtime_checkable
class Cuts(Protocol):
    """A model that can say which texts it does not read to their end."""

    def cut(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Whether each text is longer than what is read of it."""
        ...
