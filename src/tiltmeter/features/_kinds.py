"""Kinds of features, and the measurement of features.

The kinds are: classifier, VADER, share of words of a list, distance to the baseline, and the user's function.
"""

from __future__ import annotations

import math
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import DataFrame, Float64, Series, String

from tiltmeter._arrays import Floats, Integers
from tiltmeter._files.yaml import packaged_yaml
from tiltmeter.errors import InputError
from tiltmeter.features._scoring import (
    LARGEST,
    DistinctTexts,
    FeatureColumn,
    TextScores,
    failure_on_one_line,
    number_texts,
    score_all,
)
from tiltmeter.models import Classifier, Encoder

PAIRS_AT_ONCE = 16_384
"""Number of pairs whose differences are computed at a time (about 100 MB for 384 dimensions in double
precision)."""
WORDS_READ = 2000
"""Maximum number of words and maximum number of emojis of a text that VADER scores."""
_WORD = r"\p{L}+(?:[-'’]\p{L}+)*"
_BEFORE, _AFTER = 3, 2
"""Number of words before and after a word that VADER's rules use."""


@dataclass(frozen=True, slots=True)
class Described:
    """The description of a feature of the catalogue."""

    name: str
    title: str
    kind: Literal["classifier", "lexicon", "words", "distance"]
    model: str | None
    """Folder of the model, or its name on the Hugging Face Hub; None if no model is needed."""
    licence: str | None
    """Licence of the model or lexicon; None if only the model card states it."""
    formula: str
    labels: Mapping[str, Sequence[str]]
    """Alternative names of the labels used in the formulas."""
    columns: Sequence[FeatureColumn]


class Feature(ABC):
    """A feature that is ready to score texts.

    Subclasses implement `score`. The columns of a user's function are known only after `score` was called.
    """

    needs_baseline: ClassVar[bool] = False

    def __init__(self, name: str, columns: Sequence[FeatureColumn], *, model: str | None) -> None:
        self.name = name
        self.columns: Sequence[FeatureColumn] = columns
        self.model = model

    def __repr__(self) -> str:
        """Return the kind and the name of the feature."""
        return f"<{type(self).__name__} {self.name}>"

    @abstractmethod
    def score(self, texts: Sequence[str]) -> TextScores:
        """Score distinct texts.

        Returns
        -------
        TextScores
            Values of shape (texts, columns of the feature).

        Raises
        ------
        TiltmeterError
            The model cannot be used at all.
        """

    def rows(self, numbered: DistinctTexts, scores: TextScores) -> tuple[Floats, Floats | None]:
        """Return the values of texts and of baselines by row.

        NaN if a text is missing or could not be scored.
        """
        texts = _rows_of(scores.values, numbered.texts)
        if numbered.baselines is None:
            return texts, None
        return texts, _rows_of(scores.values, numbered.baselines)


def _rows_of(table: NDArray[np.floating[Any]], numbers: Integers) -> Floats:
    """Return the rows of a table at the given indices; a row of NaN for index -1."""
    missing = np.full((1, table.shape[1]), np.nan)
    extended = np.vstack([table, missing]).astype(np.float64)
    return np.asarray(extended[numbers])


def _with_cut(scores: TextScores, model: Encoder | Classifier, texts: Sequence[str]) -> TextScores:
    """Add the number of truncated texts to scores, if the model reports it."""
    if not (cut := getattr(model, "cut", None)):
        return scores
    readable = [text for text, row in zip(texts, np.isfinite(scores.values[:, 0]), strict=True) if row]
    return scores._replace(truncated=int(cut(readable).sum()))


class ByClassifier(Feature):
    """Weighted sums of label probabilities.

    `places` maps each label in the formulas to its index among the labels of the classifier.
    """

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
    """Distances between the embeddings of a text and its baseline: 1 - cosine, L1 and L2.

    Baselines have distance 0.
    """

    needs_baseline: ClassVar[bool] = True

    def __init__(self, described: Described, encoder: Encoder, model: str) -> None:
        super().__init__(described.name, described.columns, model=model)
        self._encoder = encoder

    def score(self, texts: Sequence[str]) -> TextScores:
        """Encode the texts."""
        dimensions = self._encoder.encode([]).shape[1]
        return _with_cut(score_all(self._encoder.encode, texts, dimensions), self._encoder, texts)

    def rows(self, numbered: DistinctTexts, scores: TextScores) -> tuple[Floats, Floats | None]:
        """See `Feature`."""
        assert numbered.baselines is not None
        texts = np.full((len(numbered.texts), 3), np.nan)
        pairs = np.flatnonzero((numbered.texts >= 0) & (numbered.baselines >= 0))
        for start in range(0, len(pairs), PAIRS_AT_ONCE):
            rows = pairs[start : start + PAIRS_AT_ONCE]
            first = scores.values[numbered.texts[rows]].astype(np.float64)
            second = scores.values[numbered.baselines[rows]].astype(np.float64)
            texts[rows] = _distances(first, second)
        of_encoded_baselines = (0.0 * scores.values[:, :1]).repeat(3, axis=1)
        return texts, _rows_of(of_encoded_baselines, numbered.baselines)


def _distances(first: Floats, second: Floats) -> Floats:
    """Compute 1 - cosine, L1 and L2 of each pair of vectors, shape (pairs, 3)."""
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosine = np.clip(1 - np.einsum("ij,ij->i", first, second) / lengths, 0, 2)
    difference = first - second
    l1, l2 = np.abs(difference).sum(axis=1), np.linalg.norm(difference, axis=1)
    return np.column_stack([cosine, l1, l2])


class ByFunction(Feature):
    """A function of the user that maps a text to a number, a mapping of names to numbers, or None (no value).

    A column whose values are all True or False is a decision (`FeatureColumn.decision`). A text is counted as
    missing if the function raises an error or returns a number that is not finite or larger than LARGEST.
    """

    def __init__(self, name: str, function: Callable[[str], Any], place: str) -> None:
        super().__init__(name, [], model=place)
        self._function = function

    def score(self, texts: Sequence[str]) -> TextScores:
        """See `Feature`."""
        rows: list[dict[str, float]] = []
        reasons: list[str] = []
        kinds: dict[str, set[bool]] = {}
        """Whether the values of each column are truth values: all, none or both."""
        for text in texts:
            try:
                scores = self._named(self._function(text))
                rows.append(self._numbers(scores))
            except (Exception, SystemExit) as error:  # the function may call sys.exit
                reasons.append(failure_on_one_line(error) + _line_of(error))
                rows.append({})
                continue
            for name, value in scores.items():
                if value is not None:
                    kinds.setdefault(name, set()).add(isinstance(value, bool | np.bool_))
        names = list(dict.fromkeys(name for row in rows for name in row)) or [self.name]
        self.columns: Sequence[FeatureColumn] = [
            FeatureColumn(name, None, None, None, name, decision=kinds.get(name) == {True}) for name in names
        ]
        values = DataFrame(rows, schema=dict.fromkeys(names, Float64)).to_numpy()
        return TextScores(values, len(reasons), reasons[0] if reasons else None)

    def _named(self, value: object) -> dict[str, object]:
        """Return the values of a text by column name."""
        if not isinstance(value, Mapping):
            return {self.name: value}
        return {f"{self.name}_{key}": number for key, number in value.items()}

    def _numbers(self, named: Mapping[str, object]) -> dict[str, float]:
        """Return the numbers by column name.

        Raises TypeError or ValueError if a value is not a usable number.
        """
        numbers = {}
        for name, value in named.items():
            if value is None:
                continue
            if isinstance(value, str | bytes):
                raise TypeError(f"returned {value[:40]!r}, not a number")
            numbers[name] = float(value)  # type: ignore[arg-type]  # the error is the reported reason
            if not math.isfinite(numbers[name]):
                raise ValueError(f"{name} is {numbers[name]}, not a finite number")
            if abs(numbers[name]) > LARGEST:
                raise ValueError(f"{name} is {numbers[name]:g}, more than {LARGEST:g}; scale it")
        return numbers


def _line_of(error: BaseException) -> str:
    """Return the line of the user's function that raised an error; empty if it was not raised there."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    return f" ({Path(frames[0].filename).name}, line {frames[0].lineno})" if frames else ""


class ByWords(Feature):
    """Share of the words of an English text that belong to a theme, in any inflected form.

    Negations are ignored.
    """

    def __init__(self, described: Described) -> None:
        super().__init__(described.name, described.columns, model=None)
        self._lemmas = frozenset(map(_lemma, themes("en")[described.name]))

    def score(self, texts: Sequence[str]) -> TextScores:
        """See `Feature`; a text without words has no value."""
        words = Series(texts, dtype=String).str.to_lowercase().str.extract_all(_WORD)
        among = [form for form in words.explode().drop_nulls().unique() if _lemma(form) in self._lemmas]
        shares = words.list.eval(pl.element().is_in(among)).list.mean()
        without_words = shares.null_count()
        reason = "the text contains no words" if without_words else None
        return TextScores(shares.to_numpy()[:, None], without_words, reason)


@cache
def themes(language: str) -> dict[str, list[str]]:
    """Return the words of each theme in a language; empty if there are none."""
    by_language = packaged_yaml(Path(__file__).with_name("themes.yaml"))
    return {name: text.split() for name, text in by_language.get(language, {}).items()}


def _lemma(word: str) -> str:
    from simplemma import lemmatize

    return str(lemmatize(word, "en")).lower()


class ByLexicon(Feature):
    """VADER scores `compound`, `positive` and `negative` of English texts.

    They take time linear in the length of a text.

    References
    ----------
    Hutto and Gilbert (2014), "VADER: A Parsimonious Rule-based Model for Sentiment Analysis of Social Media
    Text".
    """

    def __init__(self, described: Described) -> None:
        super().__init__(described.name, described.columns, model=None)

    def score(self, texts: Sequence[str]) -> TextScores:
        """See `Feature`."""

        def rows(batch: Sequence[str]) -> Floats:
            scores = map(vader_analyzer().polarity_scores, batch)
            return np.array([[score["compound"], score["pos"], score["neg"]] for score in scores])

        beginnings = [vader_beginning(text) for text in texts]
        truncated = sum(len(short) < len(text) for short, text in zip(beginnings, texts, strict=True))
        return score_all(rows, beginnings, 3, precise=True)._replace(truncated=truncated)


def vader_beginning(text: str) -> str:
    """Return the part of a text that VADER scores: at most WORDS_READ words and WORDS_READ emojis."""
    if len(text) > 2 * WORDS_READ and len(text.split(None, WORDS_READ)) > WORDS_READ:
        text = " ".join(text.split()[:WORDS_READ])
    if len(text) > WORDS_READ and not text.isascii():
        emojis = vader_analyzer().emojis
        places = (place for place, letter in enumerate(text) if letter in emojis)
        end = next(islice(places, WORDS_READ, None), len(text))
        return text[:end]
    return text


@cache
def vader_analyzer() -> Any:
    """Return a VADER analyzer that gives the same scores as vaderSentiment in linear time.

    The rules of vaderSentiment use three words before and two words after a word, but for each word, they
    convert all words of the text to lower case. Here, only the neighbours of a word are passed to the rules.
    The lexicon is read once.
    """
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    class Analyzer(SentimentIntensityAnalyzer):  # type: ignore[misc]
        def sentiment_valence(
            self, valence: float, sentitext: Any, item: str, i: int, sentiments: list[float]
        ) -> Any:
            start, end = max(0, i - _BEFORE), i + _AFTER + 1
            near = SimpleNamespace(
                words_and_emoticons=sentitext.words_and_emoticons[start:end],
                is_cap_diff=sentitext.is_cap_diff,
            )
            return super().sentiment_valence(valence, near, item, i - start, sentiments)

    return Analyzer()


@dataclass(frozen=True, slots=True)
class Measured:
    """Feature values of texts, and the number of texts that could not be scored."""

    columns: Sequence[FeatureColumn]
    values: DataFrame
    """One row per text and one Float64 column per entry of `columns`; null if the text is null, blank or
    could not be scored."""
    baselines: DataFrame | None
    """The same for the baselines; None if there are no baselines. A baseline has distance 0 to itself."""
    problems: Mapping[str, int]
    """Number of distinct texts (of both columns) that could not be scored, by feature; features without such
    texts are omitted."""
    reasons: Mapping[str, str]
    """Reason why one of these texts could not be scored, by feature."""
    truncated: Mapping[str, int]
    """Number of distinct texts that were truncated, by feature; features without such texts are omitted."""


def measure_features(features: Sequence[Feature], texts: Series, baselines: Series | None = None) -> Measured:
    """Compute all features of all texts.

    Each model scores each distinct text (of both columns together) once.

    Parameters
    ----------
    texts, baselines
        Strings, nulls allowed, of equal length.

    Raises
    ------
    InputError
        A feature needs baselines and there are none, or two features have columns of the same name.
    ProviderError
        A model cannot be used at all. (Single texts that it cannot score are counted as missing.)
    """
    unusable = [feature.name for feature in features if feature.needs_baseline]
    if baselines is None and unusable:
        raise InputError(
            f"the feature {unusable[0]} compares texts with baselines, but there are none; "
            "omit it or provide baselines"
        )
    numbered = number_texts(texts, baselines)
    scores = {feature.name: feature.score(numbered.distinct) for feature in features}
    columns = [column for feature in features for column in feature.columns]
    names = [column.name for column in columns]
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise InputError(
            f"two features have the column {repeated[0]!r}; rename one of them with NAME=MODULE:FUNCTION"
        )
    of_texts: list[Floats] = []
    of_baselines: list[Floats] = []
    for feature in features:
        text_rows, baseline_rows = feature.rows(numbered, scores[feature.name])
        of_texts.append(text_rows)
        if baseline_rows is not None:
            of_baselines.append(baseline_rows)
    problems = {name: scored.failed for name, scored in scores.items() if scored.failed}
    reasons = {name: scored.reason for name, scored in scores.items() if scored.reason}
    truncated = {name: scored.truncated for name, scored in scores.items() if scored.truncated}
    return Measured(
        columns=columns,
        values=_table(names, of_texts),
        baselines=None if baselines is None else _table(names, of_baselines),
        problems=problems,
        reasons=reasons,
        truncated=truncated,
    )


def columns_without_value(measured: Measured, texts: int) -> Iterator[str]:
    """Yield a sentence for each column of a feature that has no value for any of the texts."""
    if not texts:
        return
    for column in measured.values:
        if column.count():
            continue
        reasons = (
            reason
            for feature, reason in measured.reasons.items()
            if f"{column.name}_".startswith(f"{feature}_")
        )
        reason = next(reasons, "it returned nothing")
        yield (
            f"the feature {column.name} has no value for any of {texts:,} answers ({reason}); "
            "correct it or remove it"
        )


def _table(names: Sequence[str], parts: Sequence[Floats]) -> DataFrame:
    """Return the columns of all features side by side."""
    if not parts:
        return DataFrame()
    return DataFrame(np.hstack(parts), schema=names, nan_to_null=True)
