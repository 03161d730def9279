"""Errors of the command `tiltmeter view`."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from conftest import Tiltmeter

pytestmark = pytest.mark.verify


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("nowhere", "nowhere is not a run folder"),
        ("--host 192.0.2.1", "192.0.2.1"),
        ("--port {port}", "port {port}"),
    ],
)
def test_mistakes_in_the_options_of_view_are_named(
    tiltmeter: Tiltmeter, arguments: str, message: str
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        command = f"view --no-browser {arguments.format(port=port)}"
        done = tiltmeter(command, exits=2, says=message.format(port=port))
    assert done.stdout == ""
    assert "{port}" not in message or "choose another --port" in done.stderr


def test_without_streamlit_the_extra_is_named(environment: dict[str, str]) -> None:
    code = (
        "import sys; sys.modules['streamlit'] = None; sys.argv = ['tiltmeter', 'view'];"
        " from tiltmeter._cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert 'pip install "tiltmeter[app]"' in done.stderr
