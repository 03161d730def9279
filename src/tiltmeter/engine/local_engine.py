"""The engine that does everything in this process, and how it ends a run in order when a signal comes."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiltmeter.engine.generation import Generation, Request
from tiltmeter.engine.journal import Journal
from tiltmeter.engine.prices import Prices
from tiltmeter.engine.progress import Display, Tally
from tiltmeter.engine.rate_limit import Limits
from tiltmeter.models import Model, Sampling

if TYPE_CHECKING:
    from tiltmeter.models.text_models import CachedTextModel, SentenceEncoder, TextClassifier


def run_to_end(run: Generation) -> Tally:
    """Carry out a run, also inside a running event loop (of a notebook): then in a thread of its own, where Ctrl-C acts like SIGINT."""
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
    """Run in this event loop; ended in order by signals."""
    run.loop = asyncio.get_running_loop()
    with _stop_on_signal(run):
        return await run.go()


@contextmanager
def _stop_on_signal(run: Generation) -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP (unless it is ignored, as under nohup) into an orderly end of `run`.

    Handlers can be set in the main thread only; elsewhere this does nothing.
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
    """Carries out what costs: answers of models and judges, vectors of encoders, scores of classifiers.

    This one does everything in the calling process. What comes out does not depend on the engine. The journal is read and written by
    the calling process alone.
    """

    name = "local"
    """As the user wrote it, without credentials; kept in run.json."""

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
        """Ask `model` every request that `journal` does not yet hold an answer to, and keep each answer there.

        `requests` is read lazily, a thousand or so at a time, in the thread of the run. Answers are committed at least twice a
        second. Requests another process is asking through the same journal are awaited, not asked again. Failures that pass are
        retried, with the whole endpoint slowed down when it says so; a request given up becomes a row with status "failed".

        SIGINT, SIGTERM and SIGHUP (in the main thread) end the run in order: requests in flight finish, for ten seconds at most, and are
        committed; a second signal does not wait for them. May be called inside a running event loop (a notebook), where it
        runs in a thread of its own and Ctrl-C acts like SIGINT.

        Raises
        ------
        ProviderError
            Nothing was answered in this run nor held before it, and nothing will be: wrong key, wrong model, no server.
        InputError
            The journal cannot be written (disk full, read-only, locked), or the price file cannot be used.
        """
        with self._placed(model, limits or Limits()) as (placed, bounds):
            return run_to_end(Generation(placed, requests, sampling, journal, bounds, progress or Display(), prices or Prices.load()))

    def _placed(self, model: Model, limits: Limits) -> AbstractContextManager[tuple[Model, Limits]]:
        """The model as this engine asks it, and the limits under which it does."""
        return nullcontext((model, limits))

    def encoder(self, name_or_path: str | Path, *, store: Path | None) -> SentenceEncoder:
        """See `tiltmeter.models.text_models.SentenceEncoder`."""
        from tiltmeter.models.text_models import SentenceEncoder

        return SentenceEncoder(name_or_path, store=store, **self._elsewhere(SentenceEncoder, name_or_path))

    def classifier(self, name_or_path: str | Path, *, store: Path | None) -> TextClassifier:
        """See `tiltmeter.models.text_models.TextClassifier`."""
        from tiltmeter.models.text_models import TextClassifier

        return TextClassifier(name_or_path, store=store, **self._elsewhere(TextClassifier, name_or_path))

    def _elsewhere(self, kind: type[CachedTextModel], name_or_path: str | Path) -> dict[str, Any]:
        """Further arguments of an encoder or classifier: on which machines it computes."""
        return {}


generate = Engine().generate
"""As the local engine does it."""
