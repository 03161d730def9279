"""The command line in the process of the test.

Importing Polars, SciPy, SQLAlchemy and other packages takes longer than most commands. What only a
fresh interpreter shows (variables that Python or a library reads when it starts) still gets one:
`call` stays in this process only where the environment differs from this one in nothing of that kind.
"""

from __future__ import annotations

import importlib
import io
import logging
import os
import random
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiltmeter._cli import main

TIMEOUT = 300.0
OWN = ("COLUMNS", "GITHUB_STEP_SUMMARY", "PYTEST_CURRENT_TEST")
"""Variables that are read when a command needs them, beside TILTMETER_*, *_API_KEY and *_BASE_URL."""
SILENT = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
"""Warnings that a user's Python does not show."""


def user_environment(shared: Path | None, runs: Path) -> dict[str, str]:
    """Return the environment of a user who has the data, or has none if `shared` is None.

    Runs and journal are in a folder of their own. No key of this machine is passed on.
    """
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith("_API_KEY") and not name.startswith("TILTMETER_")
    }
    cache = {name: os.environ[name] for name in ("TILTMETER_CACHE",) if name in os.environ}
    data = {} if shared is None else {"TILTMETER_DATA": str(shared / "data")}
    return variables | cache | data | {"TILTMETER_RUNS": str(runs), "COLUMNS": "200"}


def call(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run `tiltmeter` with these arguments in a folder; gives its exit status and what it printed."""
    changed = {
        name
        for name in os.environ.keys() | environment.keys()
        if os.environ.get(name) != environment.get(name)
    }
    if all(
        name in OWN or name.startswith("TILTMETER_") or name.endswith(("_API_KEY", "_BASE_URL"))
        for name in changed
    ):
        return _here(arguments, folder, environment)
    command = [sys.executable, "-m", "tiltmeter", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )


def begin(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], **streams: Any
) -> subprocess.Popen[str]:
    """Begin the command in a process of its own; its output goes to pipes unless `streams` say otherwise."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    return subprocess.Popen(
        [sys.executable, "-m", "tiltmeter", *arguments], cwd=folder, env=environment, text=True, **streams
    )


def _here(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run the command in this process, in the state of a fresh process.

    Modules of the folder are forgotten.
    """
    output, errors = _stream(), _stream()
    own_environment, path = dict(os.environ), [*sys.path]
    random.seed()
    np.random.seed()  # the generator of code without one of its own
    with (
        pytest.MonkeyPatch.context() as patched,
        redirect_stdout(output),
        redirect_stderr(errors),
        warnings.catch_warnings(),
    ):
        warnings.resetwarnings()
        for kind in SILENT:
            warnings.simplefilter("ignore", kind)
        patched.chdir(folder)
        patched.setattr("sys.argv", ["tiltmeter", *arguments])
        patched.setattr("sys.stdin", io.StringIO())
        patched.setattr(
            logging.getLogger("tiltmeter"), "handlers", [logging.lastResort]
        )  # as where nothing is set up
        os.environ.clear()
        os.environ.update(environment)
        try:
            with pytest.raises(SystemExit) as ended:
                main()
        finally:
            os.environ.clear()
            os.environ.update(own_environment)
            sys.path[:] = path
            forget_modules_of(folder)
    status = ended.value.code
    status = status if isinstance(status, int) else int(status is not None)
    return subprocess.CompletedProcess([*arguments], status, _text(output), _text(errors))


def forget_modules_of(folder: Path) -> None:
    """Forget the modules of a folder: the next command may import others of these names."""
    inside = f"{folder}{os.sep}"
    for name, module in [*sys.modules.items()]:
        if (getattr(module, "__file__", None) or "").startswith(inside):
            del sys.modules[name]
    importlib.invalidate_caches()


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()
