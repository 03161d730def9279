"""Numbers from a model for many texts: each distinct text once, and a text the model fails on is left out instead of ending it all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import Int64, Series, String, col, when

from tiltmeter.arrays import Integers
from tiltmeter.errors import TiltmeterError

AT_ONCE = 1024
"""Texts given to a model together: what is computed again, some ten times at most, to find the one text that it fails on."""


@dataclass(frozen=True, slots=True)
class FeatureColumn:
    """What one number of a text means."""

    name: str
    low: float | None
    """Smallest possible value; None: open."""
    high: float | None
    neutral: float | None
    """The value that means "no lean"; None where there is none."""
    title: str
    calibrated: bool = True
    """Whether the baseline's value may be taken from it (not of distances: they are to the baseline)."""
    constant: float = 0.0
    """A classifier's column is this plus the sum of weight x score of a label."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Of labels; empty where the column is computed in another way."""


class DistinctTexts(NamedTuple):
    """Texts and baselines, row by row, as numbers of distinct texts."""

    distinct: list[str]
    """In order of first appearance, texts before baselines; none is blank."""
    texts: Integers
    """Shape (rows,): number of the distinct text; -1 where it is null or blank."""
    baselines: Integers | None
    """The same of the baselines; None where there are none at all."""


def number_texts(texts: Series, baselines: Series | None = None) -> DistinctTexts:
    """Number the distinct texts of two columns of one length."""
    every = [one.cast(String).alias("text") for one in (texts, baselines) if one is not None]
    table = pl.concat(every, rechunk=True).to_frame().select(when(col.text.str.strip_chars() != "").then("text"))
    known = table.drop_nulls().unique(maintain_order=True).with_row_index("number")
    numbers = table.join(known, on="text", how="left", maintain_order="left")["number"].cast(Int64).fill_null(-1).to_numpy()
    rows = len(texts)
    return DistinctTexts(known["text"].to_list(), numbers[:rows], None if baselines is None else numbers[rows:])


class TextScores(NamedTuple):
    """What was computed of each of some texts."""

    values: NDArray[np.floating[Any]]
    """Shape (texts, width); NaN where a text could not be scored."""
    failed: int
    """Texts that could not be scored."""
    reason: str | None
    """Why the first of them could not, in words."""
    truncated: int = 0
    """Texts that were not read to their end."""


def score_all(
    rows: Callable[[Sequence[str]], NDArray[np.floating[Any]]], texts: Sequence[str], width: int, *, precise: bool = False
) -> TextScores:
    """The model's row of each text; a text is missing where the model raises on it alone or gives a number that is not finite.

    Parameters
    ----------
    rows
        The model: one row of `width` numbers per text.
    precise
        Keep them in double precision instead of single (what classifiers and encoders give).

    Raises
    ------
    TiltmeterError
        The model cannot be used at all (no weights, no device, no store).
    """
    values = np.full((len(texts), width), np.nan, dtype=np.float64 if precise else np.float32)
    reasons: list[str] = []
    # Long texts first, so that those computed together are of like length.
    order = sorted(range(len(texts)), key=lambda number: -len(texts[number]))
    waiting = [order[start : start + AT_ONCE] for start in range(0, len(order), AT_ONCE)][::-1]
    while waiting:
        some = waiting.pop()
        try:
            values[some] = rows([texts[number] for number in some])
        except TiltmeterError:
            raise
        except Exception as error:
            if len(some) == 1:
                reasons.append(failure_on_one_line(error))
            else:
                waiting += [some[len(some) // 2 :], some[: len(some) // 2]]
    finite = np.isfinite(values).all(axis=1)
    values[~finite] = np.nan
    failed = int(len(texts) - finite.sum())
    return TextScores(values, failed, next(iter(reasons), "the model gave a number that is not finite") if failed else None)


def failure_on_one_line(error: Exception) -> str:
    """What went wrong, on one line."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said[:200]}" if said else type(error).__name__
