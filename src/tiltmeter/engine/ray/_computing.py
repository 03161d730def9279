"""Vectors of encoders and scores of classifiers, computed by the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from tiltmeter.engine.ray._team import Team
from tiltmeter.engine.ray._work import Report, State, Work
from tiltmeter.errors import ProviderError
from tiltmeter.models._local import is_out_of_memory
from tiltmeter.models.classifiers import TextClassifier, open_classifier
from tiltmeter.models.encoders import SentenceEncoder, open_encoder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["OPENERS", "Computing", "Spread"]

OPENERS: Final[dict[str, Callable[..., SentenceEncoder | TextClassifier]]] = {"encoder": open_encoder, "classifier": open_classifier}
_SHARE: Final = 4
"""A part is a fourth of what a worker would have of the rest: parts become smaller, so that all workers end at about the same time."""


class Computing:
    """One encoder or classifier; see `tiltmeter.engine.ray._work.Work`. A payload: what to compute, and batches of texts.

    A result: one array a batch; None where one of them does not fit into the memory of the worker.
    """

    def __init__(self, kind: str, name: str, device: str, identity: str) -> None:
        self._kind, self._name, self._device, self._identity = kind, name, device, identity

    def start(self) -> None:
        """See `Work`."""
        self._model = OPENERS[self._kind](self._name, store=None, device=self._device)
        if self._model.identity != self._identity:
            raise ProviderError(f"the {self._kind} {self._name} is not the same on every machine: give all of them the same files")

    def do(self, payload: tuple[str, Sequence[Sequence[str]]], before: Sequence[Any], report: Report) -> list[NDArray[np.float32]] | None:
        """See `Work`."""
        what, batches = payload
        try:
            return [self._model.compute(what, batch) for batch in batches]
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        return None

    def state(self) -> State:
        """See `Work`."""
        return State()

    def stop(self) -> None:
        """See `Work`; a batch is short."""
        return


class Spread:
    """Hands batches of one encoder or classifier to the workers; see `tiltmeter.models._kept.Elsewhere`."""

    def __init__(self, work: Work, whose: str, working: Callable[[Work, str], AbstractContextManager[Team]], workers: int) -> None:
        self._work, self._whose, self._working, self.workers = work, whose, working, workers

    def __call__(self, what: str, batches: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        with self._working(self._work, self._whose) as team:
            futures = [team.submit((what, part), _nothing) for part in self._parts(batches)]
            results = [future.result() for future in futures]
        if any(result is None for result in results):
            raise MemoryError
        return [rows for result in results for rows in result]

    def _parts(self, batches: Sequence[Sequence[str]]) -> Iterator[Sequence[Sequence[str]]]:
        start = 0
        while start < len(batches):
            end = start + max(1, (len(batches) - start) // (_SHARE * self.workers))
            yield batches[start:end]
            start = end


def _nothing(_part: object) -> None:
    return
