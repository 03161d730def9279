"""The engine on a cluster that has been joined."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tiltmeter.engine.ray._foreman import CALLS, WAITING, Stage
from tiltmeter.engine.ray._options import RayOptions
from tiltmeter.errors import InputError

if TYPE_CHECKING:
    from tiltmeter.engine._display import Display
    from tiltmeter.engine._journal import Journal
    from tiltmeter.engine._limits import Limits
    from tiltmeter.engine._prices import Prices
    from tiltmeter.engine._request import Request
    from tiltmeter.engine._tally import Tally
    from tiltmeter.engine.ray._team import Team
    from tiltmeter.engine.ray._work import Work
    from tiltmeter.models import Model, Sampling
    from tiltmeter.models._kept import Elsewhere
    from tiltmeter.models.classifiers import TextClassifier
    from tiltmeter.models.encoders import SentenceEncoder
    from tiltmeter.models.hf import BulkModel

__all__ = ["RayEngine"]

LEAST_BATCH: Final = 16
MOST_BATCH: Final = 1024


class RayEngine:
    """See `tiltmeter.engine.Engine`. One kind of work has the cluster's workers at a time."""

    def __init__(self, name: str, options: RayOptions, stage: Stage) -> None:
        self._name, self._options, self._stage = name, options, stage
        self._lock = threading.RLock()
        self._team = ExitStack()
        self._hired: Team | None = None

    @property
    def name(self) -> str:
        """As the user wrote it, without credentials."""
        return self._name

    def generate(
        self,
        model: Model,
        requests: Iterable[Request],
        sampling: Sampling,
        *,
        journal: Journal,
        limits: Limits | None = None,
        progress: Display | None = None,
        prices: Prices | None = None,
    ) -> Tally:
        """See `tiltmeter.engine.generate`. The limits hold for all workers together: each has its share of them."""
        from tiltmeter.engine._generate import drive
        from tiltmeter.engine._limits import Limits
        from tiltmeter.engine._prices import Prices
        from tiltmeter.engine.ray._asking import Asking
        from tiltmeter.engine.ray._spread import SpreadRun
        from tiltmeter.models.hf import BulkModel

        chosen, table = limits or Limits(), prices or Prices.load()
        if isinstance(model, BulkModel):
            return self._in_bulk(model, requests, sampling, journal, chosen, progress, table)
        carriers, share = self._shared_out(chosen, local=bool(getattr(model, "local", False)))
        least = self._options.batch or max(LEAST_BATCH, share.max_connections)
        batch = least, self._options.batch or max(MOST_BATCH, least)
        with self._working(Asking(model, share), model.name) as team:
            return drive(
                lambda: SpreadRun(model, requests, sampling, journal, chosen, progress, table, team=team, carriers=carriers, batch=batch)
            )

    def _in_bulk(
        self,
        model: BulkModel,
        requests: Iterable[Request],
        sampling: Sampling,
        journal: Journal,
        limits: Limits,
        progress: Display | None,
        prices: Prices,
    ) -> Tally:
        from tiltmeter.engine._generate import drive
        from tiltmeter.engine.ray._bulk import BulkRun, processor_of

        if self._name.startswith("ray://"):
            raise InputError(f"--engine {self._name}: -M runner=vllm needs a machine of the cluster itself; run there, with --engine ray")
        self.close()  # the pool's workers, whose cores and GPUs the engines need
        speak = processor_of(model, self._stage, self._options.batch)
        return drive(lambda: BulkRun(model, requests, sampling, journal, limits, progress, prices, speak=speak))

    def encoder(self, name_or_path: str | Path, *, store: Path | None) -> SentenceEncoder:
        """See `tiltmeter.models.encoders.open_encoder`; the store is read and written here, the vectors it lacks are made by workers."""
        from tiltmeter.models.encoders import open_encoder

        return open_encoder(name_or_path, store=store, device=self._device, elsewhere=self._spread("encoder", name_or_path))

    def classifier(self, name_or_path: str | Path, *, store: Path | None) -> TextClassifier:
        """See `tiltmeter.models.classifiers.open_classifier`; as `encoder`."""
        from tiltmeter.models.classifiers import open_classifier

        return open_classifier(name_or_path, store=store, device=self._device, elsewhere=self._spread("classifier", name_or_path))

    @property
    def _device(self) -> str:
        return "cuda" if self._stage.gpus else "cpu"

    def _spread(self, kind: str, name_or_path: str | Path) -> Elsewhere:
        from tiltmeter.engine.ray._computing import Computing, Spread
        from tiltmeter.models._local import find_weights

        name = str(Path(name_or_path).expanduser().absolute()) if Path(name_or_path).expanduser().is_dir() else str(name_or_path)
        work = Computing(kind, name, self._device, find_weights(name).identity)
        return Spread(work, f"the {kind} {Path(name).name}", self._working, self._stage.workers[1])

    def close(self) -> None:
        """Let the workers go; they are hired again when there is work."""
        with self._lock:
            self._team.close()
            self._hired = None

    @contextmanager
    def _working(self, work: Work, whose: str) -> Iterator[Team]:
        """The team, with this work, for the time of the block."""
        from tiltmeter.engine.ray._team import Team

        with self._lock:
            if self._hired is None:
                self._hired = self._team.enter_context(Team(self._stage))
            self._hired.assign(work, whose)
            yield self._hired

    def _shared_out(self, limits: Limits, *, local: bool) -> tuple[int, Limits]:
        """How many batches may be out at once, and the limits of each worker.

        A model that lives in the worker itself has no endpoint to spare: each worker may have all the requests at once. Where there are
        fewer connections than workers, a batch has one at a time, and there are no more batches than connections.
        """
        carriers, most = self._stage.workers[1] * (CALLS + WAITING), self._stage.workers[1]
        if local:
            return carriers, limits
        if limits.max_connections < most:
            carriers = most = limits.max_connections
        requests, tokens = limits.requests_per_minute, limits.tokens_per_minute
        return carriers, dataclasses.replace(
            limits,
            max_connections=limits.max_connections // most,
            requests_per_minute=None if requests is None else requests / most,
            tokens_per_minute=None if tokens is None else tokens / most,
        )
