"""The kinds of features: by a classifier, by a lexicon, by the distance to the baseline, by a function of the user's."""

from __future__ import annotations

import math
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tiltmeter.measures.features._catalogue import Column, Described
from tiltmeter.measures.features._given import Given
from tiltmeter.measures.features._models import Classifies, Cuts, Encodes
from tiltmeter.measures.features._scoring import Scored, failure, score_all
from tiltmeter.measures.features._vader import Vader

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ByClassifier", "ByFunction", "ByLexicon", "Distance", "Feature", "Values"]


class Values(NamedTuple):
    """What one feature gives of some texts and their baselines."""

    columns: Sequence[Column]
    texts: NDArray[np.float64]
    """Shape (rows, columns); NaN where there is no text or it could not be scored."""
    baselines: NDArray[np.float64] | None
    failed: int
    """Distinct texts that could not be scored."""
    reason: str | None
    """Why the first of them could not, in words."""
    truncated: int
    """Distinct texts that were not read to their end."""


class Feature(ABC):
    """Something that is measured of a text, ready to measure."""

    def __init__(self, name: str, columns: Sequence[Column], *, model: str | None, needs_baseline: bool = False) -> None:
        self.name, self.model, self.needs_baseline = name, model, needs_baseline
        self.columns: Sequence[Column] = columns
        """Its columns; of a user's function they are known only once it has been called."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @abstractmethod
    def measure(self, given: Given) -> Values:
        """Its values for texts and baselines, every distinct text looked at once; TiltmeterError where the model cannot be used at all."""


def _spread(table: NDArray[np.floating[Any]], numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Rows of the table by number; NaN for -1."""
    import numpy as np

    return np.vstack([table, np.full((1, table.shape[1]), np.nan)]).astype(np.float64)[numbers]


def _each(columns: Sequence[Column], scored: Scored, given: Given, truncated: int = 0) -> Values:
    """Values of the rows, from those of the distinct texts."""
    baselines = None if given.baselines is None else _spread(scored.values, given.baselines)
    return Values(columns, _spread(scored.values, given.texts), baselines, scored.failed, scored.reason, truncated)


def _cut(model: object, texts: Sequence[str]) -> int:
    return int(model.cut(texts).sum()) if isinstance(model, Cuts) else 0


class ByClassifier(Feature):
    """Sums of the probabilities of labels.

    Parameters
    ----------
    places
        Number of the classifier's label for each label the formulas name.
    """

    def __init__(self, described: Described, classifier: Classifies, places: Mapping[str, int]) -> None:
        super().__init__(described.name, described.columns, model=classifier.name)
        self._formulas, self._classifier, self._places = described.formulas, classifier, places

    def measure(self, given: Given) -> Values:
        """See `Feature`."""
        import numpy as np

        scored = score_all(self._classifier.scores, given.distinct, len(self._classifier.labels))
        weights = np.zeros((len(self._classifier.labels), len(self._formulas)))
        for column, formula in enumerate(self._formulas):
            for label, weight in formula.weights.items():
                weights[self._places[label], column] = weight
        constants = np.array([formula.constant for formula in self._formulas])
        readable = [text for text, row in zip(given.distinct, np.isfinite(scored.values[:, 0]), strict=True) if row]
        scored = scored._replace(values=scored.values @ weights + constants)
        return _each(self.columns, scored, given, _cut(self._classifier, readable))


class ByLexicon(Feature):
    """VADER: `compound`, `positive` and `negative` of English text.

    Hutto and Gilbert (2014), "VADER: A Parsimonious Rule-based Model for Sentiment Analysis of Social Media Text".
    """

    def __init__(self, described: Described) -> None:
        super().__init__(described.name, described.columns, model=None)

    def measure(self, given: Given) -> Values:
        """See `Feature`."""
        import numpy as np

        vader = Vader()
        read = [vader.beginning(text) for text in given.distinct]
        cut = sum(len(short) < len(text) for short, text in zip(read, given.distinct, strict=True))

        def rows(texts: Sequence[str]) -> NDArray[np.float64]:
            return np.array([vader.scores(text) for text in texts])

        return _each(self.columns, score_all(rows, read, 3, precise=True), given, cut)


class Distance(Feature):
    """How far the vector of a text lies from its baseline's: 1 - cosine, l1, l2."""

    def __init__(self, described: Described, encoder: Encodes, model: str) -> None:
        super().__init__(described.name, described.columns, model=model, needs_baseline=True)
        self._encoder = encoder

    def measure(self, given: Given) -> Values:
        """See `Feature`; a baseline's own distances are 0."""
        import numpy as np

        assert given.baselines is not None
        vectors, failed, reason = score_all(self._encoder.encode, given.distinct, self._encoder.encode([]).shape[1])
        texts = np.full((len(given.texts), 3), np.nan)
        pairs = np.flatnonzero((given.texts >= 0) & (given.baselines >= 0))
        for start in range(0, len(pairs), _PAIRS):
            some = pairs[start : start + _PAIRS]
            first, second = (vectors[numbers[some]].astype(np.float64) for numbers in (given.texts, given.baselines))
            lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
            difference = first - second
            texts[some, 0] = np.clip(1 - np.einsum("ij,ij->i", first, second) / lengths, 0, 2)
            texts[some, 1] = np.abs(difference).sum(axis=1)
            texts[some, 2] = np.linalg.norm(difference, axis=1)
        own = _spread(np.where(np.isfinite(vectors[:, :1]), 0.0, np.nan).repeat(3, axis=1), given.baselines)
        readable = [text for text, row in zip(given.distinct, np.isfinite(vectors[:, 0]), strict=True) if row]
        return Values(self.columns, texts, own, failed, reason, _cut(self._encoder, readable))


_PAIRS = 16_384
"""Pairs whose difference is held at once (100 MB at 384 dimensions in double precision)."""


class ByFunction(Feature):
    """A function of the user's: text -> a number, a mapping of numbers by name, or None (nothing to say about it)."""

    def __init__(self, name: str, function: Callable[[str], Any], place: str) -> None:
        super().__init__(name, [], model=place)
        self._function = function

    def measure(self, given: Given) -> Values:
        """See `Feature`; a text on which the function raises, or for which it gives no number, is missing and counted."""
        import numpy as np

        found: list[dict[str, float]] = []
        reasons: list[str] = []
        for text in given.distinct:
            try:
                found.append(self._numbers(self._function(text)))
            except Exception as error:
                reasons.append(failure(error) + _place_of(error))
                found.append({})
        names = list(dict.fromkeys(name for one in found for name in one)) or [self.name]
        self.columns = [Column(name, None, None, None, True, name) for name in names]
        values = np.array([[one.get(name, math.nan) for name in names] for one in found]).reshape(len(found), len(names))
        return _each(self.columns, Scored(values, len(reasons), next(iter(reasons), None)), given)

    def _numbers(self, given: object) -> dict[str, float]:
        """By name of the column; raises ValueError for what is no finite number."""
        if given is None:
            return {}
        named = {f"{self.name}_{key}": value for key, value in given.items()} if isinstance(given, Mapping) else {self.name: given}
        numbers = {name: _number(value) for name, value in named.items() if value is not None}
        if wrong := next((name for name, value in numbers.items() if not math.isfinite(value)), None):
            raise ValueError(f"{wrong} is {numbers[wrong]}, not a finite number")
        return numbers


def _place_of(error: Exception) -> str:
    """The line of the user's function that an error comes from; nothing where the function itself did not raise it."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename != __file__]
    return f" ({Path(frames[0].filename).name}, line {frames[0].lineno})" if frames else ""


def _number(value: Any) -> float:
    if isinstance(value, str | bytes):
        raise TypeError(f"gave {value[:40]!r}, not a number")
    return float(value)
