"""The command `tiltmeter view` where it cannot show anything."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.verify


Tiltmeter = Callable[..., "subprocess.CompletedProcess[str]"]


def test_a_run_there_is_not(tiltmeter: Tiltmeter) -> None:
    done = tiltmeter("view nowhere --no-browser")
    assert (done.returncode, done.stdout) == (2, "")
    assert "nowhere is not a run folder" in done.stderr


def test_a_port_that_is_taken(tiltmeter: Tiltmeter) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = tiltmeter("view --no-browser --port", str(port))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"port {port}" in done.stderr
    assert "choose another --port" in done.stderr


def test_an_address_that_is_not_of_this_machine(tiltmeter: Tiltmeter) -> None:
    done = tiltmeter("view --no-browser --host 192.0.2.1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "192.0.2.1" in done.stderr


def test_without_streamlit_the_extra_is_named(environment: dict[str, str]) -> None:
    code = "import sys; sys.modules['streamlit'] = None; sys.argv = ['tiltmeter', 'view']; from tiltmeter.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert 'pip install "tiltmeter[app]"' in done.stderr


def test_the_explorer_is_not_loaded_before_it_is_wanted() -> None:
    heavy = ("streamlit", "polars", "sqlalchemy")
    code = f"import sys; import tiltmeter.app, tiltmeter.cli.results_commands; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
