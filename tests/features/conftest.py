"""Models that are opened as a run opens them, and that count the texts they get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from support.minilm import minilm_folder
from support.tiny_models import save_classifier
from tiltmeter.models._text_models import SentenceEncoder, TextClassifier


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2, unpacked by pip."""
    return minilm_folder()


@pytest.fixture
def polar(tmp_path: Path) -> Path:
    """The folder of a classifier with two labels, which reads 64 tokens."""
    return save_classifier(tmp_path / "polar", ["negative", "positive"])


class Watched:
    """An encoder or a classifier that counts the texts it gets."""

    def __init__(self, model: TextClassifier | SentenceEncoder) -> None:
        self._model: Any = model
        self.seen = Counter[str]()

    @property
    def name(self) -> str:
        return str(self._model.name)

    @property
    def labels(self) -> Sequence[str]:
        return list(self._model.labels)

    def scores(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.seen.update(texts)
        return np.asarray(self._model.scores(texts))

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.seen.update(texts)
        return np.asarray(self._model.encode(texts))

    def cut(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        return np.asarray(self._model.cut(texts))


class Opener:
    """Open models by folder, as `Tools.encoder` and `Tools.classifier` do."""

    def __init__(self, minilm: Path) -> None:
        self._minilm = minilm
        self.opened: dict[str, Watched] = {}

    def encoder(self, name: str) -> Watched:
        folder = self._minilm if name == "all-MiniLM-L6-v2" else name
        return self.opened.setdefault(name, Watched(SentenceEncoder(folder, store=None)))

    def classifier(self, name: str) -> Watched:
        return self.opened.setdefault(name, Watched(TextClassifier(name, store=None)))


@pytest.fixture
def opener(minilm: Path) -> Opener:
    return Opener(minilm)
