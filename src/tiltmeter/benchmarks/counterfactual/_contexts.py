"""How much of each group's surroundings a target word takes up, text by text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltmeter.benchmarks.counterfactual._lists import Lists
from tiltmeter.benchmarks.counterfactual._words import STOP, coded

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["contexts_of"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]

BLOCK_CELLS = 1_000_000
PAD = -3


def contexts_of(
    texts: pl.Series, lists: Lists, stop: Iterable[str], window: int | None, beta: float
) -> tuple[list[csr_array], NDArray[np.intp]]:
    """Of each group (H, T + 2) values of the texts that name a group, and which H texts these are.

    Columns: weight of the group's words around each of the T targets, the same around any word that is no word of a group and no stop
    word, and how many words of the group there are. The weight of a word at distance d is beta**d, up to `window` words away.
    """
    from scipy.sparse import csr_array, vstack

    width = len(lists.targets) + 2
    blocks: list[list[csr_array]] = [[csr_array((0, width))] for _ in lists.groups]
    hits = [np.empty(0, dtype=np.intp)]
    for begin, block in coded(texts, lists, stop):
        named = [at for at, text in enumerate(block) if (text >= len(lists.targets)).any()]
        hits.append(np.array(named, dtype=np.intp) + begin)
        # Texts of like length together, so that little is padded; each group's rows are put back in order below.
        by_length = sorted(range(len(named)), key=lambda at: len(block[named[at]]))
        parts = [_values(padded, lists, window, beta) for padded in _padded([block[named[at]] for at in by_length])]
        for group, kept in enumerate(blocks):
            if parts:
                kept.append(vstack([part[group] for part in parts], format="csr")[np.argsort(by_length)])
    return [vstack(kept, format="csr") for kept in blocks], np.concatenate(hits)


def _padded(texts: list[Codes]) -> Iterator[Codes]:
    """Matrices of codes (n, L), ascending in length, of a bounded number of cells."""
    start = 0
    while start < len(texts):
        end = start + 1
        while end < len(texts) and (end + 1 - start) * len(texts[end]) <= BLOCK_CELLS:
            end += 1
        matrix = np.full((end - start, len(texts[end - 1])), PAD, dtype=np.int32)
        for row, text in zip(matrix, texts[start:end], strict=True):
            row[: len(text)] = text
        yield matrix
        start = end


def _values(codes: Codes, lists: Lists, window: int | None, beta: float) -> list[csr_array]:
    from scipy.sparse import csr_array, hstack

    width = len(lists.targets)
    is_target = (codes >= 0) & (codes < width)
    is_context = (codes < width) & (codes != STOP) & (codes != PAD)
    row, column = np.nonzero(is_target)
    found = []
    for group in range(len(lists.groups)):
        own = (codes == width + group).astype(np.float64)
        around = _around(own, window, beta)
        targets = csr_array((around[row, column], (row, codes[row, column])), shape=(len(codes), width))
        sums = np.column_stack([(around * is_context).sum(axis=1), own.sum(axis=1)])
        found.append(hstack([targets, csr_array(sums)], format="csr"))
        found[-1].eliminate_zeros()
    return found


def _around(own: Floats, window: int | None, beta: float) -> Floats:
    """At each place the sum of beta**d over the group's words at distance d on both sides."""
    from scipy.signal import lfilter

    def before(marks: Floats) -> Floats:
        if window is None:
            return np.asarray(lfilter([0.0, beta], [1.0, -beta], marks, axis=1))
        return np.asarray(lfilter([0.0, *(beta**d for d in range(1, window + 1))], [1.0], marks, axis=1))

    return before(own) + before(own[:, ::-1])[:, ::-1]
