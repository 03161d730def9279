"""Text classifiers (transformers, sequence classification), each text scored once and kept."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models._kept import Elsewhere, Kept, in_turn
from tiltmeter.models._local import Weights, check_device, find_weights, is_out_of_memory, need_local, pick_device, too_long

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["TextClassifier", "open_classifier"]

_SPARE: Final = 2
"""Positions some models (RoBERTa) reserve, left free where a tokenizer does not say how long a text may be."""


def open_classifier(
    name_or_path: str | Path, *, store: Path | None, device: str = "auto", batch_size: int = 64, elsewhere: Elsewhere | None = None
) -> TextClassifier:
    """The text classifier in a folder, or of that name on the Hugging Face hub; its weights are read when they are first needed.

    Parameters
    ----------
    store
        SQLite file in which scores are kept by model and text (the same file as vectors', if you like); None: not kept.
    device
        "auto" (a GPU where there is one), "cpu", "cuda", "cuda:N" or "mps".
    batch_size
        Texts scored together at most.
    elsewhere
        What scores the texts that the store lacks, where that is not this process; `device` is then that of the other machines.

    Raises
    ------
    InputError
        There is no such folder, or it holds no classifier.
    ProviderError
        The extra `local` is not installed, or the hub has no such classifier or cannot be reached.
    """
    check_device(device)
    need_local(f"the classifier {name_or_path}", "torch", "transformers")
    return TextClassifier(find_weights(str(name_or_path)), store=store, device=device, batch_size=batch_size, elsewhere=elsewhere)


class _Loaded(NamedTuple):
    model: Any
    tokenizer: Any
    length: int
    """Tokens of a text that are read at most."""


class TextClassifier:
    """Gives each text a score per label; may be used from several threads."""

    def __init__(self, weights: Weights, *, store: Path | None, device: str, batch_size: int, elsewhere: Elsewhere | None = None) -> None:
        self._weights, self._device, self._elsewhere = weights, device, elsewhere
        architectures = weights.config.get("architectures") or ["nothing"]
        if not any("ForSequenceClassification" in str(name) for name in architectures):
            raise InputError(f"{weights.name} is no text classifier: its config.json names {', '.join(map(str, architectures))}")
        self._labels = _labels(weights)
        self._problem = weights.config.get("problem_type")
        self._kept = Kept(f"classifier/1 {weights.identity}", self._compute, lambda: len(self._labels), store, batch_size, elsewhere)
        self._ends = Kept(f"cut/1 {weights.identity}", self._too_long, lambda: 1, store, batch_size, elsewhere)
        self._lock = threading.RLock()
        self._model: _Loaded | None = None

    @property
    def identity(self) -> str:
        """What identifies its weights. Raises InputError where they cannot be read."""
        return self._weights.identity

    @property
    def name(self) -> str:
        """Its last name, and the beginning of what identifies its weights."""
        return f"{Path(self._weights.name).name}@{self._weights.identity.rpartition(':')[2].rpartition('@')[2][:16]}"

    @property
    def labels(self) -> Sequence[str]:
        """Names of the labels, in the order of the scores."""
        return self._labels

    def __repr__(self) -> str:
        return f"<TextClassifier {self.name}>"

    def scores(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text, one column per label: shape (texts, labels). Long texts are cut where the model's window ends.

        Probabilities that sum to 1 where labels exclude each other; one probability a label where they do not (or where
        there is a single one); the bare number of a regression.

        Raises
        ------
        InputError
            The store cannot be used, or the folder holds no classifier.
        ProviderError
            torch sees no such device, or the weights cannot be downloaded.
        """
        return self._kept.rows(texts)

    def cut(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Whether each text is longer than the model's window, so that its end is not read: shape (texts,). Raises as `scores`."""
        found: NDArray[np.bool_] = self._ends.rows(texts)[:, 0] > 0
        return found

    def _loaded(self) -> _Loaded:
        if self._model is None:
            from transformers import AutoModelForSequenceClassification, AutoTokenizer

            from tiltmeter.models._quiet import quiet

            device, folder = pick_device(self._device), str(self._weights.fetch())
            fixed: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
            try:
                with quiet():
                    tokenizer = AutoTokenizer.from_pretrained(folder, **fixed)
                    model, report = AutoModelForSequenceClassification.from_pretrained(
                        folder, use_safetensors=True, output_loading_info=True, **fixed
                    )
                model.to(device).eval()
            except Exception as error:
                if is_out_of_memory(error):
                    raise ProviderError(f"{self._weights.name} does not fit into the memory of {device}: use device=cpu") from None
                raise InputError(f"{self._weights.name} cannot be loaded as a text classifier ({type(error).__name__})") from None
            if report["missing_keys"]:
                raise InputError(f"{self._weights.name} is no text classifier: it lacks weights such as {min(report['missing_keys'])}")
            if tokenizer.pad_token is None:
                tokenizer.pad_token = tokenizer.eos_token
            model.config.pad_token_id = tokenizer.pad_token_id
            self._model = _Loaded(model, tokenizer, _length(tokenizer, model.config))
        return self._model

    def compute(self, what: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Computes one batch, neither read from the store nor kept.

        Parameters
        ----------
        what
            "rows": their scores, shape (texts, labels); "cut": 1 where a text is longer than the window, shape (texts, 1).
        """
        import torch

        with self._lock, torch.inference_mode():
            model, tokenizer, length = self._loaded()
            if what == "cut":
                return too_long(tokenizer, texts, length)
            given = tokenizer(list(texts), truncation=True, max_length=length, padding=True, return_tensors="pt")
            logits = model(**given.to(model.device)).logits.float()
            made: NDArray[np.float32] = self._activation(logits).cpu().numpy()
        return made

    def _compute(self, texts: Sequence[str], batch_size: int) -> NDArray[np.float32]:
        return self._in_batches("rows", texts, batch_size)

    def _too_long(self, texts: Sequence[str], batch_size: int) -> NDArray[np.float32]:
        return self._in_batches("cut", texts, 1024)

    def _in_batches(self, what: str, texts: Sequence[str], size: int) -> NDArray[np.float32]:
        return in_turn(self._elsewhere, self.compute, what, [texts[start : start + size] for start in range(0, len(texts), size)])

    def _activation(self, logits: Any) -> Any:
        if self._problem == "regression":
            return logits
        if self._problem == "multi_label_classification" or len(self._labels) == 1:
            return logits.sigmoid()
        return logits.softmax(dim=-1)


def _labels(weights: Weights) -> list[str]:
    """Names of the labels in order; a configuration without any means two, as transformers has it."""
    named = weights.config.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
    try:
        return [str(named[number]) for number in sorted(named, key=int)]
    except (ValueError, TypeError):
        raise InputError(f"{weights.name}: id2label in its config.json should map numbers to names") from None


def _length(tokenizer: Any, config: Any) -> int:
    positions = getattr(config, "max_position_embeddings", None)
    room = positions - _SPARE if isinstance(positions, int) else 512
    declared = int(min(tokenizer.model_max_length, 1 << 30))  # 10^30 where it does not say
    return declared if declared < (1 << 30) and (not isinstance(positions, int) or declared <= positions) else room
