"""The engine that does everything in this process, and the orderly end of a run after a signal."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiltmeter.engine._generation import Generation
from tiltmeter.engine._journal import Journal
from tiltmeter.engine._prices import Prices
from tiltmeter.engine._progress import Display, Tally
from tiltmeter.engine._rate_limit import Limits
from tiltmeter.engine._requests import Request
from tiltmeter.models import Model, Sampling

if TYPE_CHECKING:
    from tiltmeter.models._text_models import CachedTextModel, SentenceEncoder, TextClassifier


def run_to_end(run: Generation) -> Tally:
    """Carry out a run.

    Within a running event loop (a notebook) in a separate thread, where Ctrl-C acts like SIGINT.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_carry_out(run))
    with ThreadPoolExecutor(1, thread_name_prefix="tiltmeter-generate") as executor:
        outcome = executor.submit(asyncio.run, _carry_out(run))
        while True:
            try:
                return outcome.result()
            except KeyboardInterrupt:
                if outcome.done():
                    raise
                run.interrupt()


async def _carry_out(run: Generation) -> Tally:
    """Carry out a run in this event loop, with an orderly end after a signal."""
    with _stop_on_signal(run):
        return await run.go()


@contextmanager
def _stop_on_signal(run: Generation) -> Iterator[None]:
    """Handle SIGINT, SIGTERM and SIGHUP (unless it is ignored, as under nohup) by an orderly end of `run`.

    Signal handlers can be set only in the main thread; in other threads this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, run.interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


class Engine:
    """Carries out the expensive work.

    These are answers of models and judges, vectors of encoders, and scores of classifiers. This engine does
    everything in the calling process. Results do not depend on the engine. Only the calling process reads and
    writes the journal.
    """

    name: str = "local"
    """The name as the user wrote it, without credentials; stored in run.json."""

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
        patience: float | None = None,
        budget: float | None = None,
    ) -> Tally:
        """Send every request that has no answer in `journal` to `model`, and store the answers there.

        `requests` is read lazily, about a thousand at a time, in the thread of the run. Answers are committed
        at least twice per second. Requests that another process with the same journal is sending are awaited,
        not repeated. Transient failures are retried, and all requests to the endpoint slow down when it
        reports overload; a request that is given up becomes a row with status "failed".

        SIGINT, SIGTERM and SIGHUP (in the main thread) end the run in an orderly way: requests in flight have
        ten seconds to finish and are committed; a second signal ends the run immediately. The method may be
        called within a running event loop (a notebook): it then runs in a separate thread, and Ctrl-C acts
        like SIGINT.

        If the endpoint has only reported overload for `patience` seconds, the method returns with
        `Tally.postponed`, so that the caller can ask other models first; None: it goes on until the deadline
        of each request.

        When the answers of this call cost `budget` US dollars, no further request is sent, those in flight
        are awaited, and the method returns with `Tally.over_cost`; None: there is no limit. Token counts that
        the endpoint does not report are estimated, the output as `Sampling.max_tokens`.

        Raises
        ------
        ProviderError
            There is no answer in this run or in the journal, and none can be expected: wrong key, wrong
            model, no server.
        InputError
            The journal cannot be written (disk full, read-only, locked), or the price file cannot be used.
        """
        with self._placed(model, limits or Limits()) as (placed, bounds):
            run = Generation(
                model=placed,
                requests=requests,
                sampling=sampling,
                journal=journal,
                limits=bounds,
                display=progress or Display(),
                prices=prices or Prices.load(),
                patience=patience,
                budget=budget,
            )
            return run_to_end(run)

    def _placed(self, model: Model, limits: Limits) -> AbstractContextManager[tuple[Model, Limits]]:
        """Return the model and the limits in the form that this engine uses."""
        return nullcontext((model, limits))

    def encoder(self, name_or_path: str | Path, *, store: Path | None) -> SentenceEncoder:
        """Return an encoder; see `tiltmeter.models._text_models.SentenceEncoder`."""
        from tiltmeter.models._text_models import SentenceEncoder

        return SentenceEncoder(name_or_path, store=store, **self._elsewhere(SentenceEncoder, name_or_path))

    def classifier(self, name_or_path: str | Path, *, store: Path | None) -> TextClassifier:
        """Return a classifier; see `tiltmeter.models._text_models.TextClassifier`."""
        from tiltmeter.models._text_models import TextClassifier

        return TextClassifier(name_or_path, store=store, **self._elsewhere(TextClassifier, name_or_path))

    def _elsewhere(self, kind: type[CachedTextModel], name_or_path: str | Path) -> dict[str, Any]:
        """Return further arguments of an encoder or classifier, which select the machines it uses."""
        return {}


generate = Engine().generate
"""The method `generate` of the local engine."""
