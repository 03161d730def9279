"""The kinds of features: by a classifier, by a lexicon, by the distance to the baseline, by a function of the user's."""

from __future__ import annotations

import math
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from polars import DataFrame, Series

from tiltmeter.arrays import Floats, Integers
from tiltmeter.errors import InputError
from tiltmeter.features.scoring import (
    DistinctTexts,
    FeatureColumn,
    TextScores,
    failure_on_one_line,
    number_texts,
    score_all,
)
from tiltmeter.models import Classifier, Encoder

PAIRS_AT_ONCE = 16_384
"""Pairs whose difference is held at once (100 MB at 384 dimensions in double precision)."""
WORDS_READ = 2000
"""Words of a text that VADER reads, and pictures that stand for words."""
_BEFORE, _BEHIND = 3, 2
"""Words that a rule of VADER looks at."""


@dataclass(frozen=True, slots=True)
class Described:
    """A feature of the catalogue."""

    name: str
    title: str
    kind: Literal["classifier", "lexicon", "distance"]
    model: str | None
    """Folder or name of the hub of the model it is computed with; None: it needs none."""
    licence: str | None
    """Of the model or lexicon; None: its card has to be looked at."""
    formula: str
    labels: Mapping[str, Sequence[str]]
    """What else classifiers call the labels the formulas name."""
    columns: Sequence[FeatureColumn]


class Feature(ABC):
    """Something that is measured of a text, ready to measure.

    A kind implements `score`; its columns, of a user's function, are known only once it has been called.
    """

    needs_baseline = False

    def __init__(self, name: str, columns: Sequence[FeatureColumn], *, model: str | None) -> None:
        self.name, self.columns, self.model = name, columns, model

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @abstractmethod
    def score(self, texts: Sequence[str]) -> TextScores:
        """Values of distinct texts, one column per column of the feature.

        Raises TiltmeterError where the model cannot be used at all.
        """

    def rows(self, given: DistinctTexts, scores: TextScores) -> tuple[Floats, Floats | None]:
        """Values of texts and of baselines row by row; NaN where there is no text or it could not be scored."""
        return _rows_of(scores.values, given.texts), None if given.baselines is None else _rows_of(scores.values, given.baselines)


def _rows_of(table: NDArray[np.floating[Any]], numbers: Integers) -> Floats:
    """Rows of the table by number; NaN for -1."""
    return np.asarray(np.vstack([table, np.full((1, table.shape[1]), np.nan)]).astype(np.float64)[numbers])


def _with_cut(scores: TextScores, model: Encoder | Classifier, texts: Sequence[str]) -> TextScores:
    """The scores, with the number of scored texts that the model did not read to their end, if it can say which."""
    if not (cut := getattr(model, "cut", None)):
        return scores
    readable = [text for text, row in zip(texts, np.isfinite(scores.values[:, 0]), strict=True) if row]
    return scores._replace(truncated=int(cut(readable).sum()))


class ByClassifier(Feature):
    """Sums of the probabilities of labels; `places`: number of the classifier's label for each label the formulas name."""

    def __init__(self, described: Described, classifier: Classifier, places: Mapping[str, int]) -> None:
        super().__init__(described.name, described.columns, model=classifier.name)
        self._classifier, self._places = classifier, places

    def score(self, texts: Sequence[str]) -> TextScores:
        """See `Feature`."""
        scored = score_all(self._classifier.scores, texts, len(self._classifier.labels))
        weights = np.zeros((len(self._classifier.labels), len(self.columns)))
        for number, column in enumerate(self.columns):
            for label, weight in column.weights.items():
                weights[self._places[label], number] = weight
        values = scored.values @ weights + np.array([column.constant for column in self.columns])
        return _with_cut(scored, self._classifier, texts)._replace(values=values)


class Distance(Feature):
    """How far the vector of a text lies from its baseline's: 1 - cosine, l1, l2. A baseline's own distances are 0."""

    needs_baseline = True

    def __init__(self, described: Described, encoder: Encoder, model: str) -> None:
        super().__init__(described.name, described.columns, model=model)
        self._encoder = encoder

    def score(self, texts: Sequence[str]) -> TextScores:
        """Vectors of the texts."""
        return _with_cut(score_all(self._encoder.encode, texts, self._encoder.encode([]).shape[1]), self._encoder, texts)

    def rows(self, given: DistinctTexts, scores: TextScores) -> tuple[Floats, Floats | None]:
        """See `Feature`."""
        assert given.baselines is not None
        texts = np.full((len(given.texts), 3), np.nan)
        pairs = np.flatnonzero((given.texts >= 0) & (given.baselines >= 0))
        for start in range(0, len(pairs), PAIRS_AT_ONCE):
            some = pairs[start : start + PAIRS_AT_ONCE]
            first, second = (scores.values[numbers[some]].astype(np.float64) for numbers in (given.texts, given.baselines))
            lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
            difference = first - second
            cosine = np.clip(1 - np.einsum("ij,ij->i", first, second) / lengths, 0, 2)
            texts[some] = np.column_stack([cosine, np.abs(difference).sum(axis=1), np.linalg.norm(difference, axis=1)])
        return texts, _rows_of((0.0 * scores.values[:, :1]).repeat(3, axis=1), given.baselines)


class ByFunction(Feature):
    """A function of the user's: text -> a number, a mapping of numbers by name, or None (nothing to say about it).

    A text on which the function raises, or for which it gives no finite number, is missing and counted.
    """

    def __init__(self, name: str, function: Callable[[str], Any], place: str) -> None:
        super().__init__(name, [], model=place)
        self._function = function

    def score(self, texts: Sequence[str]) -> TextScores:
        """See `Feature`."""
        found: list[dict[str, float]] = []
        reasons: list[str] = []
        for text in texts:
            try:
                found.append(self._numbers(self._function(text)))
            except Exception as error:
                # The line of the user's function; nothing where the function itself did not raise it.
                frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename != __file__]
                line = f" ({Path(frames[0].filename).name}, line {frames[0].lineno})" if frames else ""
                reasons.append(failure_on_one_line(error) + line)
                found.append({})
        names = list(dict.fromkeys(name for one in found for name in one)) or [self.name]
        self.columns = [FeatureColumn(name, None, None, None, name) for name in names]
        values = np.array([[one.get(name, math.nan) for name in names] for one in found]).reshape(len(found), len(names))
        return TextScores(values, len(reasons), next(iter(reasons), None))

    def _numbers(self, given: object) -> dict[str, float]:
        """By name of the column; raises for what is no finite number."""
        named = {f"{self.name}_{key}": value for key, value in given.items()} if isinstance(given, Mapping) else {self.name: given}
        numbers = {}
        for name, value in named.items():
            if value is None:
                continue
            if isinstance(value, str | bytes):
                raise TypeError(f"gave {value[:40]!r}, not a number")
            numbers[name] = float(value)  # type: ignore[arg-type]  # the error of what is no number is the reason given
            if not math.isfinite(numbers[name]):
                raise ValueError(f"{name} is {numbers[name]}, not a finite number")
        return numbers


class ByLexicon(Feature):
    """VADER: `compound`, `positive` and `negative` of English text, in time that grows with the length of the text.

    Hutto and Gilbert (2014), "VADER: A Parsimonious Rule-based Model for Sentiment Analysis of Social Media Text".
    """

    def __init__(self, described: Described) -> None:
        super().__init__(described.name, described.columns, model=None)

    def score(self, texts: Sequence[str]) -> TextScores:
        """See `Feature`."""

        def rows(some: Sequence[str]) -> Floats:
            found = map(vader_analyzer().polarity_scores, some)
            return np.array([[one["compound"], one["pos"], one["neg"]] for one in found])

        read = [vader_beginning(text) for text in texts]
        truncated = sum(len(short) < len(text) for short, text in zip(read, texts, strict=True))
        return score_all(rows, read, 3, precise=True)._replace(truncated=truncated)


def vader_beginning(text: str) -> str:
    """What is read of a text: the text itself unless it has more than WORDS_READ words or pictures."""
    if len(text) > 2 * WORDS_READ and len(text.split(None, WORDS_READ)) > WORDS_READ:
        text = " ".join(text.split()[:WORDS_READ])
    if len(text) > WORDS_READ and not text.isascii():
        pictures = (place for place, letter in enumerate(text) if letter in vader_analyzer().emojis)
        return text[: next(islice(pictures, WORDS_READ, None), len(text))]
    return text


@cache
def vader_analyzer() -> Any:
    """VADER's analyzer with the scores of the package; its word list is read once.

    The rules of vaderSentiment look at three words before a word and two behind it, but lower the case of all words of the text for each
    of them. Here each word is shown its neighbours alone.
    """
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    class Analyzer(SentimentIntensityAnalyzer):  # type: ignore[misc]
        def sentiment_valence(self, valence: float, sentitext: Any, item: str, i: int, sentiments: list[float]) -> Any:
            words, start = sentitext.words_and_emoticons, max(0, i - _BEFORE)
            near = SimpleNamespace(words_and_emoticons=words[start : i + _BEHIND + 1], is_cap_diff=sentitext.is_cap_diff)
            return super().sentiment_valence(valence, near, item, i - start, sentiments)

    return Analyzer()


@dataclass(frozen=True, slots=True)
class Measured:
    """Numbers of texts, and how many texts have none."""

    columns: Sequence[FeatureColumn]
    values: DataFrame
    """One row per text, one Float64 column per `columns`, in order; null where the text is null, blank or could not be scored."""
    baselines: DataFrame | None
    """The same of the baselines; None where none were given. A baseline's distances to itself are 0."""
    problems: Mapping[str, int]
    """By feature: distinct texts (of both columns) that could not be scored; features without any are left out."""
    reasons: Mapping[str, str]
    """By the same features: why the first one could not, in words."""
    truncated: Mapping[str, int]
    """By feature: distinct texts that were not read to their end; features without any are left out."""


def measure_features(features: Sequence[Feature], texts: Series, baselines: Series | None = None) -> Measured:
    """Measure every feature of every text; each model sees each distinct text (of both columns together) once.

    Parameters
    ----------
    texts, baselines
        Strings, nulls allowed; of one length.

    Raises
    ------
    InputError
        A feature needs baselines and there are none, or two features give a column of the same name.
    ProviderError
        A model cannot be used at all. (Texts it fails on one by one are missing and counted.)
    """
    if baselines is None and (lacking := next((feature for feature in features if feature.needs_baseline), None)):
        raise InputError(f"the feature {lacking.name} compares texts with baselines, and there are none: leave it out, or give baselines")
    given = number_texts(texts, baselines)
    scores = {feature.name: feature.score(given.distinct) for feature in features}
    columns = [column for feature in features for column in feature.columns]
    names = [column.name for column in columns]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"two features give a column {twice}: call one of them otherwise with NAME=MODULE:FUNCTION")
    rows = [feature.rows(given, scores[feature.name]) for feature in features]
    return Measured(
        columns=columns,
        values=_table(names, [of_texts for of_texts, _ in rows]),
        baselines=None if baselines is None else _table(names, [part for _, part in rows if part is not None]),
        problems={name: one.failed for name, one in scores.items() if one.failed},
        reasons={name: one.reason for name, one in scores.items() if one.reason},
        truncated={name: one.truncated for name, one in scores.items() if one.truncated},
    )


def _table(names: Sequence[str], parts: Sequence[Floats]) -> DataFrame:
    whole = np.hstack(parts) if parts else np.empty((0, 0))
    return DataFrame([Series(name, whole[:, number], nan_to_null=True) for number, name in enumerate(names)])
