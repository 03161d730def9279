"""Scoring of texts by a model.

Each distinct text is scored once; texts on which the model fails are missing and do not stop the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import Int64, Series, String, col, when

from tiltmeter._arrays import Integers
from tiltmeter.errors import TiltmeterError

LARGEST = 1e15
"""Largest absolute value of a feature. Statistics square values, and doubles have no decimals beyond it."""
AT_ONCE = 1024
"""Number of texts per batch. If the model fails on a batch, the batch is halved repeatedly (about ten times)
to find the failing text."""


@dataclass(frozen=True, slots=True)
class FeatureColumn:
    """Meaning and range of a numeric column of a feature."""

    name: str
    low: float | None
    """Smallest possible value; None if unbounded."""
    high: float | None
    """Largest possible value; None if unbounded."""
    neutral: float | None
    """The neutral value; None if there is none."""
    title: str
    calibrated: bool = True
    """Whether the baseline's value may be subtracted. False for distances, which are already relative to the
    baseline."""
    decision: bool = False
    """Whether each value is a decision: 1 (accepted, yes) or 0 (rejected, no). The four-fifths rule applies
    to decisions only."""
    constant: float = 0.0
    """Constant term of a classifier's column, which is `constant` plus the sum of weight x probability over
    the labels."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Weights of the labels; empty if the column is not computed by a classifier."""


class DistinctTexts(NamedTuple):
    """Texts and baselines by row, as indices of distinct texts."""

    distinct: list[str]
    """Distinct texts in order of first appearance, texts before baselines, without blank ones."""
    texts: Integers
    """Index of the distinct text of each row, shape (rows,); -1 if the text is null or blank."""
    baselines: Integers | None
    """The same for the baselines; None if there are none."""


def number_texts(texts: Series, baselines: Series | None = None) -> DistinctTexts:
    """Assign numbers to the distinct texts of two columns of equal length."""
    columns = [texts] if baselines is None else [texts, baselines]
    strings = [column.cast(String).alias("text") for column in columns]
    not_blank = when(col.text.str.strip_chars() != "").then("text")
    table = pl.concat(strings, rechunk=True).to_frame().select(not_blank)
    distinct = table.drop_nulls().unique(maintain_order=True).with_row_index("number")
    numbered = table.join(distinct, on="text", how="left", maintain_order="left")
    numbers = numbered["number"].cast(Int64).fill_null(-1).to_numpy()
    rows = len(texts)
    return DistinctTexts(
        distinct=distinct["text"].to_list(),
        texts=numbers[:rows],
        baselines=None if baselines is None else numbers[rows:],
    )


class TextScores(NamedTuple):
    """Scores of texts."""

    values: NDArray[np.floating[Any]]
    """Shape (texts, width); NaN if a text could not be scored."""
    failed: int
    """Number of texts that could not be scored."""
    reason: str | None
    """Reason why one of these texts could not be scored; None if there are none."""
    truncated: int = 0
    """Number of texts that were truncated."""


def score_all(
    rows: Callable[[Sequence[str]], NDArray[np.floating[Any]]],
    texts: Sequence[str],
    width: int,
    *,
    precise: bool = False,
) -> TextScores:
    """Score all texts.

    A text is missing if the model raises an error for it or returns a number that is not finite or above
    LARGEST.

    Parameters
    ----------
    rows
        The model, which returns one row of `width` numbers per text.
    precise
        If True, keep the values in double precision instead of single precision, which classifiers and
        encoders use.

    Raises
    ------
    TiltmeterError
        The model cannot be used at all (its weights, device or cache are not available).
    """
    values = np.full((len(texts), width), np.nan, dtype=np.float64 if precise else np.float32)
    reasons: list[str] = []
    # Sort long texts first, so that the texts of a batch have similar lengths.
    order = sorted(range(len(texts)), key=lambda number: -len(texts[number]))
    batches = [order[start : start + AT_ONCE] for start in range(0, len(order), AT_ONCE)]
    batches.reverse()  # the last one is scored next
    while batches:
        batch = batches.pop()
        try:
            values[batch] = rows([texts[number] for number in batch])
        except TiltmeterError:
            raise
        except (Exception, SystemExit) as error:  # a user's function may call sys.exit
            if len(batch) == 1:
                reasons.append(failure_on_one_line(error))
            else:
                middle = len(batch) // 2
                batches += [batch[middle:], batch[:middle]]
    usable = (np.abs(values) <= LARGEST).all(axis=1)  # false for NaN and infinite numbers
    values[~usable] = np.nan
    failed = int(len(texts) - usable.sum())
    if not failed:
        return TextScores(values, 0, None)
    unusable = f"the model returned a number that is not finite or more than {LARGEST:g}"
    return TextScores(values, failed, reasons[0] if reasons else unusable)


def failure_on_one_line(error: BaseException) -> str:
    """Return the type and the message of an error on one line."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message[:200]}" if message else type(error).__name__
