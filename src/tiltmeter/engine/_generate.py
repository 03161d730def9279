"""`generate`: very many answers from one model, each asked and paid for once."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tiltmeter.engine._journal import Journal
from tiltmeter.engine._limits import Limits
from tiltmeter.engine._prices import Prices
from tiltmeter.engine._request import Request
from tiltmeter.engine._run import Run
from tiltmeter.engine._tally import Tally
from tiltmeter.models import Model, Sampling

if TYPE_CHECKING:
    from tiltmeter.engine._display import Display

__all__ = ["agenerate", "drive", "generate"]


async def agenerate(
    model: Model,
    requests: Iterable[Request],
    sampling: Sampling,
    *,
    journal: Journal,
    limits: Limits | None = None,
    progress: Display | None = None,
    prices: Prices | None = None,
) -> Tally:
    """Ask `model` every request that `journal` does not yet hold an answer to; see `generate`."""
    chosen = limits or Limits(), progress, prices or Prices.load()
    return await _go(lambda: Run(model, requests, sampling, journal, *chosen))


def generate(
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
    chosen = limits or Limits(), progress, prices or Prices.load()
    return drive(lambda: Run(model, requests, sampling, journal, *chosen))


def drive(make: Callable[[], Run]) -> Tally:
    """Carry out the run that `make` gives (called inside the event loop it will live in), ended in order by signals; see `generate`."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with asyncio.Runner() as runner:
            return runner.run(_go(make))
    return _in_thread(make)


async def _go(make: Callable[[], Run]) -> Tally:
    run = make()
    with _stop_on_signal(run, asyncio.get_running_loop()):
        return await run.go()


def _in_thread(make: Callable[[], Run]) -> Tally:
    outcome: list[Tally | BaseException] = []
    running: list[tuple[Run, asyncio.AbstractEventLoop]] = []

    async def main() -> Tally:
        run = make()
        running.append((run, asyncio.get_running_loop()))
        return await run.go()

    def body() -> None:
        try:
            with asyncio.Runner() as runner:
                outcome.append(runner.run(main()))
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=body, name="tiltmeter-generate")
    thread.start()
    while thread.is_alive():
        try:
            thread.join()
        except KeyboardInterrupt:
            for run, loop in running:
                loop.call_soon_threadsafe(_interrupt, run)
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def _interrupt(run: Run) -> None:
    run.stop(interrupted=True)


@contextmanager
def _stop_on_signal(run: Run, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP (unless it is ignored, as under nohup) into an orderly end of `run`.

    Handlers can be set in the main thread only; elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(_number: int, _frame: Any) -> None:
        loop.call_soon_threadsafe(_interrupt, run)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
