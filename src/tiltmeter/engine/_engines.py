"""Selection of the engine: this process, or a Ray cluster that is joined or started here."""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tiltmeter._sanitising import redacted
from tiltmeter.engine._local_engine import Engine
from tiltmeter.errors import InputError, ProviderError

if TYPE_CHECKING:
    from tiltmeter.engine._ray_engine import RayOptions

_RAY = "ray"
_STORE = 256 * 2**20
"""Bytes of shared memory for a cluster started here: batches are small, and the largest object is the pickle
of one model."""


@contextmanager
def open_engine(name: str | None = None, options: Mapping[str, str] | None = None) -> Iterator[Engine]:
    """Open the engine with this name within the block.

    Parameters
    ----------
    name
        "local" (the default), "ray" (the cluster that this process has already joined, or the one named by
        RAY_ADDRESS, or one that is started here and stopped at the end) or "ray://HOST:PORT" (a remote
        cluster, through its Ray client server).
    options
        `-E key=value`, for Ray only; see `RayOptions`.

    Raises
    ------
    InputError
        The engine or an option is unknown, or a cluster started here has no room for a worker of this size.
    ProviderError
        Ray is not installed, or the cluster cannot be reached.
    """
    name, options = name or Engine.name, options or {}
    if name == Engine.name:
        if options:
            first = next(iter(options))
            raise InputError(f"-E {first}= is an option of Ray; add --engine ray or remove the option")
        yield Engine()
        return
    if name != _RAY and not name.startswith(f"{_RAY}://"):
        raise InputError(f"--engine {name!r} is not one of local, ray, ray://HOST:PORT")
    from tiltmeter.engine._ray_engine import RayEngine, RayOptions

    wanted = RayOptions.parse(options)
    if find_spec("ray") is None:
        raise ProviderError(f'--engine {redacted(name)} needs the package ray: pip install "tiltmeter[ray]"')
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
    # Otherwise Ray would print events of its workers on standard output, which is for the output of the
    # command.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    import ray

    address = os.environ.get("RAY_ADDRESS") if name == _RAY else name
    joins = not ray.is_initialized()
    with ExitStack() as stack:
        if joins:
            stack.callback(ray.shutdown)
            _connect(address, wanted)
        engine = RayEngine(redacted(name), _fitted(wanted, started=joins and not address))
        stack.callback(engine.close)
        yield engine


def _connect(address: str | None, options: RayOptions) -> None:
    """Join the cluster at this address, or start one on this machine.

    A cluster on this machine declares enough cores for all workers.
    """
    import ray

    from tiltmeter.engine._ray_engine import last_line

    settings: dict[str, Any]
    if address:
        cluster = f"the Ray cluster at {redacted(address)}"
        _refuse_unreachable(address)
        settings = {"address": address}
    else:
        cluster = "a Ray cluster on this machine"
        cores = max(os.cpu_count() or 1, math.ceil(max(1, options.workers[1]) * options.cpus))
        settings = {
            "address": "local",
            "num_cpus": cores,
            "include_dashboard": False,
            "object_store_memory": _STORE,
        }
    before = signal.getsignal(signal.SIGTERM)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings of changes in future versions of Ray
            ray.init(logging_level=logging.ERROR, log_to_driver=False, **settings)
    except Exception as error:
        raise ProviderError(
            f"{cluster} cannot be used ({last_line(error)}): check that it is running, and the address"
        ) from None
    finally:
        with suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGTERM, before or signal.SIG_DFL)  # Ray installs its own handler


def _refuse_unreachable(address: str) -> None:
    """Raise ProviderError if no machine answers there: Ray would wait for a minute and then end the process.

    An address without a port ("auto", or the name of a Ray service) is not checked.
    """
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=15.0).close()
    except (OSError, OverflowError) as error:
        message = f"no Ray cluster answers at {redacted(address)} ({error})"
        raise ProviderError(f"{message}: check that it is running, and the address") from None


def _fitted(options: RayOptions, *, started: bool) -> RayOptions:
    """Return the options with a number of workers; by default as many as fit."""
    import ray

    cluster: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    cpus, gpus = cluster.get("CPU", 0.0), cluster.get("GPU", 0.0)
    if started and gpus < options.gpus:
        raise InputError(
            f"-E gpus={options.gpus:g}: this machine has {gpus:g} GPUs, which is too few for one worker"
        )
    if options.workers[0]:
        return options
    fitting = cpus / options.cpus
    if options.gpus:
        fitting = min(fitting, gpus / options.gpus)
    workers = max(1, int(fitting + 1e-9))
    return replace(options, workers=(workers, workers))
