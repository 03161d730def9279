"""Join a Ray cluster, or start one on this machine, and leave or stop it afterwards."""

from __future__ import annotations

import math
import os
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Final

from tiltmeter._text import redacted
from tiltmeter.engine.ray._engine import RayEngine
from tiltmeter.engine.ray._foreman import Stage, reason
from tiltmeter.engine.ray._options import RayOptions
from tiltmeter.errors import InputError, ProviderError

__all__ = ["open_ray"]

PATIENCE: Final = 15.0
"""Seconds a cluster gets to take a connection; four times that to take us in, for a client it starts a process of its own."""
_STORE: Final = 256 * 2**20
"""Bytes of shared memory for a cluster started here: batches are small, and the largest thing in it is one model's pickle."""
_UNREAD: Final = {"task_events_report_interval_ms": 0, "enable_metrics_collection": False}
"""What Ray's processes tell each other for a dashboard, which a cluster started here has not: it takes 1% of two cores."""


@contextmanager
def open_ray(name: str, options: RayOptions) -> Iterator[RayEngine]:
    """The engine on a Ray cluster, until the block ends.

    Parameters
    ----------
    name
        "ray": the cluster this process has joined already, or the one RAY_ADDRESS names, else one started here and stopped at the end.
        "ray://HOST:PORT": a cluster elsewhere, through its Ray client server.

    Raises
    ------
    InputError
        A cluster started here could not hold a worker of this size.
    ProviderError
        Ray is not installed, or the cluster cannot be reached.
    """
    for package in ("ray", "pyarrow"):
        if find_spec(package) is None:
            raise ProviderError(f'--engine {redacted(name)} needs the package {package}: pip install "tiltmeter[ray]"')
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent home from a measurement
    import ray

    mine = not ray.is_initialized()
    with _silence() if mine else nullcontext():
        if mine:
            with _signals_kept(), _undisturbed() if _is_new(name) else nullcontext():
                _join(name, options)
        try:
            if mine and _is_new(name):
                _end_log_monitor()
            engine = RayEngine(redacted(name), options, _stage(options, started=mine and _is_new(name)))
            try:
                yield engine
            finally:
                engine.close()
        finally:
            if mine:
                ray.shutdown()


@contextmanager
def _silence() -> Iterator[None]:
    """Ray prints what befalls workers on standard output, where a command's own output belongs; it has no setting against that."""
    worker = import_module("ray._private.worker")
    before = getattr(worker, "print_to_stdstream", None)
    if before is None:
        yield
        return
    worker.print_to_stdstream = lambda *given, **named: None  # type: ignore[attr-defined]
    try:
        yield
    finally:
        worker.print_to_stdstream = before  # type: ignore[attr-defined]


def _end_log_monitor() -> None:
    """A process that looks through the logs twenty times a second, and shows them to nobody here; no setting leaves it out."""
    end = getattr(getattr(import_module("ray._private.worker"), "_global_node", None), "kill_log_monitor", None)
    if end is not None:
        end(check_alive=False)


def _is_new(name: str) -> bool:
    return name == "ray" and not os.environ.get("RAY_ADDRESS")


def _join(name: str, options: RayOptions) -> None:
    import ray

    quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    if _is_new(name):
        cores = os.cpu_count() or 1
        wanted = math.ceil((options.workers or (1, 1))[1] * options.cpus)
        local: dict[str, Any] = {"num_cpus": max(cores, wanted), "include_dashboard": False, "object_store_memory": _STORE}
        given = quiet | local | {"address": "local", "_system_config": _UNREAD}
    elif name == "ray":
        given = quiet | {"address": os.environ["RAY_ADDRESS"]}
    else:
        given = quiet | {"address": name}
    if not _is_new(name):
        _knock(str(given["address"]))
    failed: list[Exception] = []

    def join() -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what Ray will do otherwise in some later version
                ray.init(**given)
        except Exception as error:
            failed.append(error)

    # Some ways of waiting for a cluster that is not there have no end: that is left to a thread which dies with the process.
    # The processes of a new cluster, however, end with the thread that started them.
    thread = threading.Thread(target=join, name="tiltmeter-ray-init", daemon=True)
    if _is_new(name):
        join()
    else:
        thread.start()
        thread.join(4 * PATIENCE)
    if thread.is_alive() or failed:
        said = reason(failed[0]) if failed else f"no answer within {4 * PATIENCE:.0f} s"
        where = f"the Ray cluster at {redacted(str(given['address']))}" if not _is_new(name) else "a Ray cluster on this machine"
        raise ProviderError(f"{where} cannot be used ({said}): check that it runs, and the address")


def _knock(address: str) -> None:
    """Ray waits a minute for a machine that is not there, and then ends the process."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdecimal():
        return  # "auto", or a name that Ray has for a service
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:
        said = getattr(error, "strerror", None) or type(error).__name__
        raise ProviderError(f"no Ray cluster answers at {redacted(address)} ({said}): check that it runs, and the address") from None


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray takes SIGTERM for itself when it is started in the main thread; what a run does with it must stay."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Processes that are started in the block do not take a core from each other before their time is over.

    Each process of Ray looks around a hundred times a second. Where workers have all the cores, that would interrupt each of them some
    five hundred times a second.
    """
    if not hasattr(os, "SCHED_BATCH") or os.sched_getscheduler(0) != os.SCHED_OTHER:
        yield
        return
    nothing = os.sched_param(0)
    with suppress(OSError):  # some sandboxes know nothing of it
        os.sched_setscheduler(0, os.SCHED_BATCH, nothing)
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_OTHER, nothing)


def _stage(options: RayOptions, *, started: bool) -> Stage:
    import ray

    resources: Callable[[], dict[str, float]] = ray.cluster_resources
    has = resources()
    room = int(has.get("CPU", 0.0) / options.cpus + 1e-9)
    if options.gpus:
        room = min(room, int(has.get("GPU", 0.0) / options.gpus + 1e-9))
    if started and room < 1:
        found = f"{has.get('CPU', 0.0):g} CPUs and {has.get('GPU', 0.0):g} GPUs"
        raise InputError(f"-E cpus={options.cpus:g} gpus={options.gpus:g}: this machine has {found}, on which no such worker fits")
    return Stage(options.workers or (max(1, room), max(1, room)), options.cpus, options.gpus, version("tiltmeter"))
