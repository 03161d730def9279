"""The command line in processes of its own that begin where the imports end.

Importing Polars, SciPy, SQLAlchemy and the rest takes longer than most commands of the tests. A server imports them once and forks for each
command: a real process with its own exit status, output, folder, environment and memory. What only a fresh interpreter shows (variables
that Python or a library reads when it starts) still gets one: `call` forks only where the environment differs from the server's in nothing
of that kind. Two servers take turns, each with random hashes of its own, so that a command that is repeated does not find the order its
sets had before.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NoReturn, Self

__all__ = ["Commands"]

TIMEOUT = 300.0
MODULES = """
    aiohttp altair jinja2 jsonschema numpy polars pydantic.type_adapter rich.table scipy.special scipy.stats sqlalchemy.dialects.sqlite
    typer._adapters vl_convert yaml tiltmeter.cli._app tiltmeter.comparing tiltmeter.datasets tiltmeter.engine._generate
    tiltmeter.engine._journal tiltmeter.gating tiltmeter.measures tiltmeter.models.sim._model tiltmeter.probes tiltmeter.reports.figures
    tiltmeter.runs tiltmeter.stats
"""
OWN = ("COLUMNS", "GITHUB_STEP_SUMMARY", "PYTEST_CURRENT_TEST")
"""Variables that are read when a command needs them, beside TILTMETER_*, *_API_KEY and *_BASE_URL."""

IDLE = {"python", "jemalloc_bg_thd", "polars-ooc-clea"}
"""Threads an idle server may have. Polars starts those of its allocator, which knows of forks, and a cleaner of files it has not written;
its workers, which a fork would lose, start with the first query."""


class Commands:
    """Two servers, started at the first command; leaving the context ends them."""

    def __init__(self) -> None:
        self._servers: list[_Server] = []
        self._turns = itertools.cycle((0, 1))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for server in self._servers:
            server.close()

    def call(self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Run `tiltmeter` with these arguments in a folder; gives its exit status and what it printed."""
        if not sys.platform.startswith("linux"):
            return _fresh(arguments, folder, environment)
        if not self._servers:
            self._servers = [_Server(), _Server()]
        server = self._servers[next(self._turns)]
        if _starts_otherwise(server.environment, environment):
            return _fresh(arguments, folder, environment)
        return server.call(arguments, folder, environment)


def _starts_otherwise(known: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether the two differ in a variable that may be read while the interpreter starts or imports."""
    changed = {name for name in known.keys() | wanted.keys() if known.get(name) != wanted.get(name)}
    return any(not (name in OWN or name.startswith("TILTMETER_") or name.endswith(("_API_KEY", "_BASE_URL"))) for name in changed)


def _fresh(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tiltmeter.cli", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False)


class _Server:
    def __init__(self) -> None:
        self.environment = dict(os.environ)
        self._process: subprocess.Popen[str] = subprocess.Popen(
            [sys.executable, __file__],
            env=self.environment | {"POLARS_ALLOW_FORKING_THREAD": "1"},  # nothing of Polars runs before the fork: the server checks that
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def call(self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as complained:
            streams = [f"/proc/{os.getpid()}/fd/{stream.fileno()}" for stream in (said, complained)]
            order = {"arguments": list(arguments), "folder": str(folder), "environment": dict(environment), "streams": streams}
            child = int(self._ask(json.dumps(order)))
            late = threading.Timer(TIMEOUT, os.kill, (child, 9))
            late.start()
            try:
                status = int(self._ask("wait"))
            finally:
                late.cancel()
            return subprocess.CompletedProcess(list(arguments), status, _text(said), _text(complained))

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the server of commands has ended; its complaint stands above"
        return answer

    def close(self) -> None:
        self._process.communicate()


def _text(stream: IO[str]) -> str:
    stream.seek(0)
    return stream.read()


def _serve() -> dict[str, Any]:
    """In the server: fork for each order. Returns in a child, with what it is to do; the server itself ends here."""
    for name in MODULES.split():
        importlib.import_module(name)
    orders, answers = sys.stdin, os.fdopen(os.dup(1), "w")
    for line in orders:
        assert _threads() <= IDLE, f"an import has started threads: {_threads() - IDLE}; no process can be forked from here"
        child = os.fork()
        if child == 0:
            answers.close()
            order: dict[str, Any] = json.loads(line)
            return order
        _say(answers, child)
        assert orders.readline() == "wait\n"
        _say(answers, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    sys.exit(0)


def _threads() -> set[str]:
    """Names of this process's threads, its own first one as "python"."""
    tasks = Path("/proc/self/task")
    return {"python" if task.name == str(os.getpid()) else (task / "comm").read_text().strip() for task in tasks.iterdir()}


def _say(answers: IO[str], number: int) -> None:
    answers.write(f"{number}\n")
    answers.flush()


def _become(order: Mapping[str, Any]) -> NoReturn:
    """In a child: what the order says, as a fresh process would find it."""
    import numpy as np

    import tiltmeter.cli

    _redirect([os.devnull, *order["streams"]])
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    random.seed()
    np.random.seed()  # the generator of code without one of its own
    sys.argv = [str(Path(tiltmeter.cli.__file__).with_name("__main__.py")), *order["arguments"]]
    tiltmeter.cli.main()
    raise AssertionError("main ends the process")


def _redirect(paths: Iterable[str]) -> None:
    for number, path in enumerate(paths):
        opened = os.open(path, os.O_RDWR)
        os.dup2(opened, number)
        os.close(opened)


if __name__ == "__main__":
    _become(_serve())
