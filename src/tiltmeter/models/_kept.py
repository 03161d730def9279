"""Numbers a model makes of texts, each text once: what the store lacks is computed in batches of like length and kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from tiltmeter.errors import InputError
from tiltmeter.models._local import is_out_of_memory
from tiltmeter.models._text_store import TextStore, text_keys

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Elsewhere", "Kept", "in_turn"]

_AT_ONCE: Final = 4096
"""Texts that one process computes between two writes to the store: what an interruption costs at most."""

Compute = Callable[[Sequence[str], int], "NDArray[np.float32]"]


class Elsewhere(Protocol):
    """Other machines, and how many workers there are at most."""

    workers: int

    def __call__(self, what: str, batches: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        """Computes batches of texts, each as `compute` of the same encoder or classifier there does with this `what`.

        Raises MemoryError where a batch does not fit.
        """
        ...


class Kept:
    """Rows of float32 by text.

    Parameters
    ----------
    fingerprint
        What identifies the model and what it computes.
    compute
        Rows for texts, given the size of a batch; shape (texts, width).
    width
        Numbers in a row, asked for only when there is no text.
    store
        Where rows are kept; None: nowhere.
    batch_size
        Texts computed together at most; halved when they do not fit into memory.
    elsewhere
        Who computes, where it is not this process.
    """

    def __init__(
        self,
        fingerprint: str,
        compute: Compute,
        width: Callable[[], int],
        store: Path | None,
        batch_size: int,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        self._fingerprint, self._compute, self._width, self._batch_size = fingerprint, compute, width, batch_size
        self._at_once = _AT_ONCE if elsewhere is None else _AT_ONCE * elsewhere.workers
        self._place = store
        self._store = None if store is None else TextStore(store)

    def rows(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row a text, in order: shape (texts, width).

        Raises
        ------
        InputError
            The store cannot be used.
        """
        import numpy as np

        if not texts:
            return np.empty((0, self._width()), dtype=np.float32)
        place: dict[str, int] = {}
        positions = np.fromiter((place.setdefault(text, len(place)) for text in texts), np.int64, len(texts))
        unique = list(place)
        keys = text_keys(self._fingerprint, unique)
        table, found = self._read(keys)
        # Long texts first: if a batch is too large for the memory, it shows at once. (Characters stand in for tokens.)
        lacking = sorted(np.flatnonzero(~found).tolist(), key=lambda number: -len(unique[number]))
        for start in range(0, len(lacking), self._at_once):
            numbers = lacking[start : start + self._at_once]
            made = np.ascontiguousarray(self._computed([unique[number] for number in numbers]), dtype="<f4")
            if self._store is not None:
                self._store.write((keys[number], row.tobytes()) for number, row in zip(numbers, made, strict=True))
            if table is None:
                table = np.empty((len(unique), made.shape[1]), dtype=np.float32)
            table[numbers] = made
        assert table is not None
        return table[positions] if len(unique) < len(texts) else table

    def _read(self, keys: Sequence[bytes]) -> tuple[NDArray[np.float32] | None, NDArray[np.bool_]]:
        """What the store holds: the table (None where it holds nothing), and which of its rows are filled."""
        import numpy as np

        table: NDArray[np.float32] | None = None
        found = np.zeros(len(keys), dtype=np.bool_)
        if self._store is None:
            return table, found
        place = {key: number for number, key in enumerate(keys)}
        for key, value in self._store.read(keys):
            if not isinstance(value, bytes):
                raise InputError(f"the store of vectors {self._place} is damaged (it holds what is no vector): remove the file")
            if table is None:
                table = np.empty((len(keys), len(value) // 4), dtype=np.float32)
            if key not in place or len(value) != 4 * table.shape[1]:
                said = "rows nobody asked for" if key not in place else "rows of different length for one model"
                raise InputError(f"the store of vectors {self._place} is damaged (it holds {said}): remove the file")
            table[place[key]] = np.frombuffer(value, dtype="<f4")
            found[place[key]] = True
        return table, found

    def _computed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        while True:
            try:
                return self._compute(texts, self._batch_size)
            except Exception as error:
                if not is_out_of_memory(error) or self._batch_size == 1:
                    raise
            self._batch_size //= 2


def in_turn(
    elsewhere: Elsewhere | None, here: Callable[[str, Sequence[str]], NDArray[np.float32]], what: str, batches: Sequence[Sequence[str]]
) -> NDArray[np.float32]:
    """The rows of all batches, one below the other, computed elsewhere or else here."""
    import numpy as np

    return np.concatenate([here(what, batch) for batch in batches] if elsewhere is None else elsewhere(what, batches))
