"""Sentence encoders (sentence-transformers), each text encoded once and kept."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiltmeter.errors import InputError
from tiltmeter.models._kept import Elsewhere, Kept, in_turn
from tiltmeter.models._local import Weights, check_device, find_weights, need_local, pick_device, too_long

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SentenceEncoder", "open_encoder"]

_CUT = 1024
"""Texts whose tokens are counted together."""
CPU_BATCH = 4096
"""Characters in a batch on a CPU: about a thousand tokens, whose inner layers (1,536 wide in the smallest encoders) take a few MB."""


def open_encoder(
    name_or_path: str | Path, *, store: Path | None, device: str = "auto", batch_size: int = 128, elsewhere: Elsewhere | None = None
) -> SentenceEncoder:
    """The sentence encoder in a folder, or of that name on the Hugging Face hub; its weights are read when they are first needed.

    Parameters
    ----------
    store
        SQLite file in which vectors are kept by model and text, shared by any number of processes; None: not kept.
    device
        "auto" (a GPU where there is one), "cpu", "cuda", "cuda:N" or "mps".
    batch_size
        Texts encoded together at most; on a CPU fewer where they are long.
    elsewhere
        What encodes the texts that the store lacks, where that is not this process; `device` is then that of the other machines.

    Raises
    ------
    InputError
        There is no such folder, or it holds no encoder.
    ProviderError
        The extra `local` is not installed, or the hub has no such encoder or cannot be reached.
    """
    check_device(device)
    need_local(f"the encoder {name_or_path}", "torch", "transformers", "sentence_transformers")
    return SentenceEncoder(find_weights(str(name_or_path)), store=store, device=device, batch_size=batch_size, elsewhere=elsewhere)


class SentenceEncoder:
    """Turns texts into vectors of length 1; may be used from several threads."""

    def __init__(self, weights: Weights, *, store: Path | None, device: str, batch_size: int, elsewhere: Elsewhere | None = None) -> None:
        self._weights, self._device, self._elsewhere = weights, device, elsewhere
        self._name = f"{Path(weights.name).name}@{weights.identity.rpartition(':')[2].rpartition('@')[2][:16]}"
        self._kept = Kept(f"encoder/1 {weights.identity}", self._compute, self._width, store, batch_size, elsewhere)
        self._ends = Kept(f"cut/1 {weights.identity}", self._too_long, lambda: 1, store, batch_size, elsewhere)
        self._lock = threading.RLock()
        self._model: Any = None

    @property
    def identity(self) -> str:
        """What identifies its weights. Raises InputError where they cannot be read."""
        return self._weights.identity

    @property
    def name(self) -> str:
        """Its last name, and the beginning of what identifies its weights."""
        return self._name

    def __repr__(self) -> str:
        return f"<SentenceEncoder {self._name}>"

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of length 1 per text: shape (texts, dimensions). Long texts are cut where the encoder's window ends.

        Raises
        ------
        InputError
            The store cannot be used, or the folder holds no encoder.
        ProviderError
            torch sees no such device, or the weights cannot be downloaded.
        """
        return self._kept.rows(texts)

    def cut(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Whether each text is longer than the encoder's window, so that its end is not read: shape (texts,). Raises as `encode`."""
        found: NDArray[np.bool_] = self._ends.rows(texts)[:, 0] > 0
        return found

    def _loaded(self) -> Any:
        with self._lock:
            if self._model is None:
                from sentence_transformers import SentenceTransformer

                from tiltmeter.models._quiet import quiet

                device, folder = pick_device(self._device), self._weights.fetch()
                try:
                    with quiet():
                        self._model = SentenceTransformer(
                            str(folder), device=device, local_files_only=True, model_kwargs={"use_safetensors": True}
                        )
                except Exception as error:
                    raise InputError(
                        f"{self._weights.name} cannot be loaded as a sentence encoder ({type(error).__name__}): name a folder or "
                        "a repository made by sentence-transformers"
                    ) from None
            return self._model

    def _width(self) -> int:
        return int(self._loaded().get_embedding_dimension())

    def compute(self, what: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Computes one batch, neither read from the store nor kept.

        Parameters
        ----------
        what
            "rows": their vectors, shape (texts, dimensions); "cut": 1 where a text is longer than the window, shape (texts, 1).
        """
        import numpy as np

        with self._lock:
            model = self._loaded()
            if what == "cut":
                return too_long(model.tokenizer, texts, model.max_seq_length)
            rows = model.encode(
                list(texts), batch_size=len(texts), normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False
            )
        return np.asarray(rows, dtype=np.float32)

    def _compute(self, texts: Sequence[str], batch_size: int) -> NDArray[np.float32]:
        import numpy as np

        groups = self._batched(texts, batch_size)
        parts = [numbers[start : start + size] for numbers, size in groups for start in range(0, len(numbers), size)]
        batches = [[texts[number] for number in part] for part in parts]
        found = in_turn(self._elsewhere, self.compute, "rows", batches)
        made = np.empty_like(found)
        made[np.concatenate(parts)] = found
        return made

    def _batched(self, texts: Sequence[str], batch_size: int) -> list[tuple[list[int], int]]:
        """Numbers of the texts to encode together, longest first, and the size of their batches.

        A GPU wants large batches. A CPU is faster when a batch stays in its cache: texts are parted by their length, to the power of two.
        """
        if (self._loaded().device.type if self._elsewhere is None else self._device) != "cpu":
            return [(list(range(len(texts))), batch_size)]
        lengths: dict[int, list[int]] = {}
        for number, text in enumerate(texts):
            lengths.setdefault(len(text).bit_length(), []).append(number)
        return [(lengths[bits], min(batch_size, max(8, CPU_BATCH >> bits))) for bits in sorted(lengths, reverse=True)]

    def _too_long(self, texts: Sequence[str], batch_size: int) -> NDArray[np.float32]:
        return in_turn(self._elsewhere, self.compute, "cut", [texts[start : start + _CUT] for start in range(0, len(texts), _CUT)])
