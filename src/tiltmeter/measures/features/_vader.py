"""VADER's scores in time that grows with the length of the text.

The rules of vaderSentiment look at three words before a word and two behind it, but lower the case of all words of the text for each of
them, and look for each word's number from the beginning of the list. Here each word is shown its neighbours alone, and the same numbers
are found by their places; the scores are those of the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from heapq import heappop, heappush
from itertools import islice
from types import SimpleNamespace
from typing import Any

__all__ = ["WORDS_READ", "Vader"]

WORDS_READ = 2000
"""Words of a text that are read, and pictures that stand for words."""

_BEFORE, _BEHIND = 3, 2
"""Words that a rule looks at."""


class Vader:
    """The analyser; its word list is read once."""

    def __init__(self) -> None:
        analyzer = _analyzer()
        self._scores, self._pictures = analyzer.polarity_scores, analyzer.emojis.keys()

    def scores(self, text: str) -> tuple[float, float, float]:
        """`compound`, `positive` and `negative`."""
        found = self._scores(text)
        return found["compound"], found["pos"], found["neg"]

    def beginning(self, text: str) -> str:
        """What is read of a text: the text itself unless it has more than WORDS_READ words or pictures."""
        if len(text) > 2 * WORDS_READ and len(text.split(None, WORDS_READ)) > WORDS_READ:
            text = " ".join(text.split()[:WORDS_READ])
        if len(text) > WORDS_READ and not text.isascii():
            pictures = (place for place, letter in enumerate(text) if letter in self._pictures)
            return text[: next(islice(pictures, WORDS_READ, None), len(text))]
        return text


@cache
def _analyzer() -> Any:
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    class Analyzer(SentimentIntensityAnalyzer):  # type: ignore[misc]
        def sentiment_valence(self, valence: float, sentitext: Any, item: str, i: int, sentiments: list[float]) -> list[float]:
            words, start = sentitext.words_and_emoticons, max(0, i - _BEFORE)
            near = SimpleNamespace(words_and_emoticons=words[start : i + _BEHIND + 1], is_cap_diff=sentitext.is_cap_diff)
            found: list[float] = super().sentiment_valence(valence, near, item, i - start, sentiments)
            return found

        @staticmethod
        def _but_check(words_and_emoticons: Sequence[str], sentiments: list[float]) -> list[float]:
            lowered = [word.lower() for word in words_and_emoticons]
            return _weighted(sentiments, lowered.index("but")) if "but" in lowered else sentiments

    return Analyzer()


def _weighted(sentiments: list[float], but: int) -> list[float]:
    """As `_but_check` does it: for each number in turn the first of the list that equals it is halved before "but", times 1.5 after it."""
    places: dict[float, list[int]] = {}
    for place, value in enumerate(sentiments):
        places.setdefault(value, []).append(place)
    for place in range(len(sentiments)):
        value = sentiments[place]
        first = places[value][0]
        if value and first != but:
            sentiments[first] = value * (0.5 if first < but else 1.5)
            heappush(places.setdefault(sentiments[first], []), heappop(places[value]))
    return sentiments
