"""Where the work of a run is done: in this process, or on a Ray cluster that is joined or started here."""

from __future__ import annotations

import logging
import math
import os
import re
import signal
import socket
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiltmeter.errors import InputError, ProviderError
from tiltmeter.registry import check_known
from tiltmeter.sanitising import redacted

if TYPE_CHECKING:
    from tiltmeter.engine.journal import Journal
    from tiltmeter.engine.prices import Prices
    from tiltmeter.engine.progress import Display, Tally
    from tiltmeter.engine.rate_limit import Limits
    from tiltmeter.engine.work_queue import Request
    from tiltmeter.models import Model, Sampling
    from tiltmeter.models.text_models import CachedTextModel, SentenceEncoder, TextClassifier

_LOCAL = "local"
_RAY = "ray"
_STORE = 256 * 2**20
"""Bytes of shared memory for a cluster started here: batches are small, and the largest thing in it is one model's pickle."""


class Engine:
    """Carries out what costs: answers of models and judges, vectors of encoders, scores of classifiers.

    This one does everything in the calling process. What comes out does not depend on the engine. The journal is read and written by
    the calling process alone.
    """

    name = _LOCAL
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
        from tiltmeter.engine import Display, Limits, Prices, generation

        with self._placed(model, limits or Limits()) as (placed, bounds):
            run = generation.Generation(placed, requests, sampling, journal, bounds, progress or Display(), prices or Prices.load())
            return generation.run_to_end(run)

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


@contextmanager
def open_engine(name: str | None = None, options: Mapping[str, str] | None = None) -> Iterator[Engine]:
    """The engine a user named, until the block ends.

    Parameters
    ----------
    name
        "local" (the default), "ray" (the cluster this process has joined already, or the one RAY_ADDRESS names, else one started here
        and stopped at the end) or "ray://HOST:PORT" (a cluster elsewhere, through its Ray client server).
    options
        `-E key=value`, for Ray only; see `RayOptions`.

    Raises
    ------
    InputError
        There is no such engine, an option it does not know, or a cluster started here could not hold a worker of this size.
    ProviderError
        Ray is not installed, or the cluster cannot be reached.
    """
    name, options = name or _LOCAL, options or {}
    if name == _LOCAL:
        if options:
            raise InputError(f"-E {next(iter(options))}= is about Ray; give --engine ray as well, or leave it out")
        yield Engine()
        return
    if name != _RAY and not name.startswith(f"{_RAY}://"):
        raise InputError(f"--engine {name!r} is not one of local, ray, ray://HOST:PORT")
    wanted = RayOptions.parse(options)
    if find_spec("ray") is None:
        raise ProviderError(f'--engine {redacted(name)} needs the package ray: pip install "tiltmeter[ray]"')
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent home from a measurement
    # What befalls workers would be printed on standard output, where a command's own output belongs.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    import ray

    from tiltmeter.engine.ray_engine import RayEngine

    address = os.environ.get("RAY_ADDRESS") if name == _RAY else name
    joins = not ray.is_initialized()
    with ExitStack() as stack:
        if joins:
            stack.callback(ray.shutdown)
            _connect(address, wanted)
        engine = RayEngine(redacted(name), _fitted(wanted, started=joins and not address))
        stack.callback(engine.close)
        yield engine


_WHOLE = "[1-9][0-9]{0,5}"
_AMOUNT = "0?[.][0-9]*[1-9]|[1-9][0-9]{0,5}"
_WHOLE_WORDS = "a whole number of 1 or more"
_AMOUNT_WORDS = "a number above 0; above 1, Ray takes whole numbers only"
_FORMS = {
    "workers": (f"{_WHOLE}(?:-{_WHOLE})?", f"{_WHOLE_WORDS}, or two as in 2-8"),
    "cpus": (_AMOUNT, _AMOUNT_WORDS),
    "gpus": (f"{_AMOUNT}|0", _AMOUNT_WORDS),
    "batch": (_WHOLE, _WHOLE_WORDS),
}
"""How the value of each option is written, in a pattern and in words."""


@dataclass(frozen=True, slots=True)
class RayOptions:
    """How many workers there are, what each one takes of a machine, and how much it is given at a time."""

    workers: tuple[int, int] = (0, 0)
    """Fewest and most workers; 0: as many as fit into the cluster when it is opened."""
    cpus: float = 1.0
    """Cores of each worker; may be a fraction."""
    gpus: float = 0.0
    """GPUs of each worker; a fraction lets several workers share one."""
    batch: int | None = None
    """Prompts a worker has at a time at most; None: as many as there are connections."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> RayOptions:
        """Read what the user wrote after -E. Raises InputError: an unknown option, or a value that is none of its kind."""
        values: dict[str, Any] = {}
        for name, value in given.items():
            check_known(name, sorted(_FORMS), f"-E {name}={value}: ray takes no such option")
            form, wanted = _FORMS[name]
            if not re.fullmatch(form, value):
                raise InputError(f"-E {name}={value}: give {wanted}")
            numbers = [float(number) for number in value.split("-")]
            if numbers[0] > numbers[-1]:
                raise InputError(f"-E {name}={value}: the smaller number comes first, as in 2-8")
            values[name] = {"workers": (int(numbers[0]), int(numbers[-1])), "batch": int(numbers[0])}.get(name, numbers[0])
        return cls(**values)


def _connect(address: str | None, options: RayOptions) -> None:
    """Join the cluster at this address, or start one on this machine, with cores for all workers even where it has fewer."""
    import ray

    given: dict[str, Any] = {"address": address}
    if address:
        whose = f"the Ray cluster at {redacted(address)}"
        host, _, port = address.rpartition("://")[2].rpartition(":")
        if port.isdecimal():  # otherwise "auto", or a name that Ray has for a service
            try:  # Ray waits a minute for a machine that is not there, and then ends the process
                socket.create_connection((host.strip("[]"), int(port)), timeout=15.0).close()
            except (OSError, OverflowError) as error:
                said = f"no Ray cluster answers at {redacted(address)} ({error})"
                raise ProviderError(f"{said}: check that it runs, and the address") from None
    else:
        cores = max(os.cpu_count() or 1, math.ceil(max(1, options.workers[1]) * options.cpus))
        whose = "a Ray cluster on this machine"
        given = {"address": "local", "num_cpus": cores, "include_dashboard": False, "object_store_memory": _STORE}
    before = signal.getsignal(signal.SIGTERM)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what Ray will do otherwise in some later version
            ray.init(logging_level=logging.ERROR, log_to_driver=False, **given)
    except Exception as error:
        raise ProviderError(f"{whose} cannot be used ({last_line(error)}): check that it runs, and the address") from None
    finally:
        with suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGTERM, before or signal.SIG_DFL)  # which Ray takes for itself


def _fitted(options: RayOptions, *, started: bool) -> RayOptions:
    """Return the options with a number of workers: where the user gave none, as many as fit."""
    import ray

    cluster: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    cpus, gpus = cluster.get("CPU", 0.0), cluster.get("GPU", 0.0)
    if started and gpus < options.gpus:
        raise InputError(f"-E gpus={options.gpus:g}: this machine has {gpus:g} GPUs, on which no such worker fits")
    room = max(1, int(min(cpus / options.cpus, gpus / options.gpus if options.gpus else math.inf) + 1e-9))
    return options if options.workers[0] else replace(options, workers=(room, room))


def last_line(error: Exception) -> str:
    """Return the last line of what Ray said, without its traceback."""
    said = str(error).strip().rpartition("\n")[2]
    return f"{type(error).__name__}: {said}"
