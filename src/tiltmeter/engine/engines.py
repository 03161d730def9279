"""Where the work of a run is done: in this process, or on a Ray cluster that is joined or started here."""

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

from tiltmeter.engine.local_engine import Engine
from tiltmeter.errors import InputError, ProviderError
from tiltmeter.sanitising import redacted

if TYPE_CHECKING:
    from tiltmeter.engine.ray_engine import RayOptions

_RAY = "ray"
_STORE = 256 * 2**20
"""Bytes of shared memory for a cluster started here: batches are small, and the largest thing in it is one model's pickle."""


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
    name, options = name or Engine.name, options or {}
    if name == Engine.name:
        if options:
            raise InputError(f"-E {next(iter(options))}= is about Ray; give --engine ray as well, or leave it out")
        yield Engine()
        return
    if name != _RAY and not name.startswith(f"{_RAY}://"):
        raise InputError(f"--engine {name!r} is not one of local, ray, ray://HOST:PORT")
    from tiltmeter.engine.ray_engine import RayEngine, RayOptions

    wanted = RayOptions.parse(options)
    if find_spec("ray") is None:
        raise ProviderError(f'--engine {redacted(name)} needs the package ray: pip install "tiltmeter[ray]"')
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent home from a measurement
    # What befalls workers would be printed on standard output, where a command's own output belongs.
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
    """Join the cluster at this address, or start one on this machine, with cores for all workers even where it has fewer."""
    import ray

    from tiltmeter.engine.ray_engine import last_line

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
