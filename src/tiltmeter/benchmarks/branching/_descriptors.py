"""Which words of a root's texts belong to it: the candidates for a replacement table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from tiltmeter.benchmarks.branching._asked import ask, question, templates
from tiltmeter.benchmarks.branching._words import PARTICLES
from tiltmeter.errors import InputError
from tiltmeter.measures import read_yes_no
from tiltmeter.study import Encoder, Judge

__all__ = ["GUESSES", "WORDS", "Descriptors", "find_descriptors"]

WORDS: Mapping[str, Any] = {
    "word": pl.String,  # in its most frequent spelling
    "count": pl.Int64,  # how often the texts have it, in any case
    "similarity": pl.Float64,  # cosine to the concept, to six decimals
    "kept": pl.Boolean,  # reaches the threshold
}
GUESSES: Mapping[str, Any] = {
    "threshold": pl.Float64,
    "words": pl.List(pl.String),  # those shown to the judge
    "answer": pl.String,  # "yes", "no" or "unreadable", which counts as "yes"
    "key": pl.String,  # of the judge's answer in the journal
}

_SHOWN = 15
_ROUNDS = 50
_WORD = r"\p{L}[\p{L}\p{M}\p{N}]*(?:['’\-\x{2010}\x{2011}][\p{L}\p{M}\p{N}]+)*"
_CLITIC = r"(?i)(?:['’](?:s|ll|d|re|ve|m)|n['’]t)$"


class Descriptors(NamedTuple):
    """Words of a root's texts by their similarity to the concept."""

    threshold: float
    words: pl.DataFrame
    """WORDS, the most similar first."""
    guesses: pl.DataFrame
    """GUESSES, one row per question to the judge; none where the threshold was given."""

    @property
    def kept(self) -> list[str]:
        """The words that reach the threshold, the most similar first."""
        return self.words.filter(pl.col("kept"))["word"].to_list()


def find_descriptors(
    texts: pl.Series,
    concept: str,
    encoder: Encoder,
    *,
    threshold: float | None = None,
    judge: Judge | None = None,
    wording: str | None = None,
) -> Descriptors:
    """The words of the texts that are near to a concept; articles, prepositions, conjunctions and auxiliaries are none.

    Without a threshold it is looked for by bisection of the sorted similarities: at each guess the judge is asked whether any of the
    15 words next below it can be associated with the concept. If so, the threshold may not go higher. The search ends when two values
    are left, of which the lower is taken, or after 50 rounds (SAGED's rule).

    Parameters
    ----------
    texts
        Strings about the concept, nulls allowed.
    threshold
        Cosine that kept words reach, from -1 to 1; None: to be found.
    judge
        Only asked for a threshold.
    wording
        Name of a wording, or a file with one.

    Raises
    ------
    InputError
        No words, a threshold out of range or one to be found without a judge, an unusable wording.
    NotRun, ProviderError
        The judge did not answer.
    """
    if threshold is None and judge is None:
        raise InputError(f"the words that belong to {concept!r}: give a threshold of similarity, or a judge that finds one (--judge)")
    if threshold is not None and not -1 <= threshold <= 1:
        raise InputError(f"the threshold of descriptors must be a similarity from -1 to 1, not {threshold}")
    words = _similar(_counted(texts), concept, encoder)
    if words.is_empty():
        raise InputError(f"the texts about {concept!r} hold no words; choose a concept with sentences")
    guesses: list[tuple[float, list[str], str, str | None]] = []
    if threshold is None and judge is not None:
        threshold = _found(words, concept, judge, wording, guesses)
    made = words.with_columns(kept=pl.col("similarity") >= threshold).select(pl.col(name).cast(kind) for name, kind in WORDS.items())
    return Descriptors(float(threshold or 0.0), made, pl.DataFrame(guesses, schema=dict(GUESSES), orient="row"))


def _counted(texts: pl.Series) -> pl.DataFrame:
    """Each word once, in its most frequent spelling (of equals the first of the alphabet), without clitics; no particles."""
    found = pl.DataFrame({"word": texts.cast(pl.String)}).select(pl.col("word").str.normalize("NFC").str.extract_all(_WORD)).explode("word")
    found = found.with_columns(pl.col("word").str.replace(_CLITIC, "")).filter(pl.col("word").str.len_chars() > 1)
    spelt = found.group_by("word").agg(count=pl.len()).sort("count", "word", descending=[True, False])
    spelt = spelt.with_columns(low=pl.col("word").str.to_lowercase()).filter(~pl.col("low").is_in(sorted(PARTICLES)))
    return spelt.group_by("low", maintain_order=True).agg(pl.col("word").first(), pl.col("count").sum())


def _similar(words: pl.DataFrame, concept: str, encoder: Encoder) -> pl.DataFrame:
    if words.is_empty():
        return words
    vectors = encoder.encode([concept, *words["word"]])
    cosines = vectors[1:] @ vectors[0]
    # To six decimals, so that the order does not hang on how an encoder sums up.
    return words.with_columns(similarity=pl.Series(cosines).cast(pl.Float64).round(6)).sort("similarity", "word", descending=[True, False])


def _found(
    words: pl.DataFrame, concept: str, judge: Judge, wording: str | None, guesses: list[tuple[float, list[str], str, str | None]]
) -> float:
    """The threshold by the judge's answers, which are added to `guesses`."""
    chosen = templates(wording)

    def may_go_higher(guess: float) -> bool:
        below = words.filter(pl.col("similarity") < guess)["word"].head(_SHOWN).to_list()
        asked = question(chosen, "associated", {"concept": concept, "words": below})
        reply, answer, _ = ask(judge, [asked], _read)[0]
        guesses.append((guess, below, answer or "unreadable", reply.key))
        return answer == "no"

    return _bisected(words["similarity"].unique().sort(descending=True).to_list(), may_go_higher)


def _read(answer: str) -> tuple[str | None, str]:
    return read_yes_no(pl.Series([answer], dtype=pl.String), "statement")["label"][0], "it is neither yes nor no"


def _bisected(falling: Sequence[float], may_go_higher: Callable[[float], bool]) -> float:
    """The lower of the last two values (or of what is left after 50 rounds) of a falling list."""
    left = list(falling)
    for _ in range(_ROUNDS):
        if len(left) <= 2:
            break
        middle = len(left) // 2
        left = left[: middle + 1] if may_go_higher(left[middle]) else left[middle:]
    return left[-1]
