"""Server of the explorer."""

from __future__ import annotations

import importlib
import secrets
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from tiltmeter._app.permissions import RUN_CODE, is_loopback
from tiltmeter.errors import InputError

_WARMED = ("pandas", "pyarrow", "streamlit.elements.arrow", "tiltmeter._app.explorer")
"""Modules imported at startup so that the first page loads quickly."""
_TOKEN_BYTES = 16


def serve(
    run: str | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8501,
    browser: bool = True,
    journal: str | None = None,
    run_code: bool = False,
) -> None:
    """Show runs in a browser until interrupted.

    On an address other than this machine's own (127.0.0.1), visitors can label responses only with a token,
    which is printed.

    Parameters
    ----------
    run
        The run to show first, by path or by its name under the runs folder; None shows the list of runs.
    host
        Address to listen on.
    port
        Port to listen on.
    browser
        Whether to open a browser window.
    journal
        Response cache, for runs in progress (a path or a database URL); None uses the default journal.
    run_code
        Whether code that study.yaml of any run shown names may be run, which comparing and labelling may
        need.

    Raises
    ------
    InputError
        Streamlit is not installed, the run does not exist, or the address is unavailable.
    """
    try:
        from streamlit.web import bootstrap
    except ModuleNotFoundError as error:
        raise InputError(
            f'the explorer requires {error.name}, which is not installed: pip install "tiltmeter[app]"'
        ) from None
    from tiltmeter._app.known_runs_page import find_run
    from tiltmeter.runs._places import journal_of_runs

    folder = "" if run is None else str(find_run(run))
    _check(host, port)
    options = _options(host, port, browser=browser)
    bootstrap.load_config_options(options)
    for module in _WARMED:
        importlib.import_module(module)
    is_ipv6 = ":" in host
    address = f"http://[{host}]:{port}" if is_ipv6 else f"http://{host}:{port}"
    token = "" if is_loopback(host) else secrets.token_urlsafe(_TOKEN_BYTES)
    if token:
        print(
            f"tiltmeter: the explorer has no password; anyone who can reach {host} can read your runs",
            file=sys.stderr,
        )
        print(f"to label responses, open {address}/?token={token}")
    print(f"explorer at {address} (press Ctrl+C to stop)", flush=True)
    arguments = [folder, journal_of_runs(journal), token]
    if run_code:
        arguments.append(RUN_CODE)
    bootstrap.run(str(Path(__file__).with_name("explorer.py")), False, arguments, options)


_OPTIONS: Mapping[str, object] = {
    "server_showEmailPrompt": False,
    "server_fileWatcherType": "none",
    "server_runOnSave": False,
    "server_enableStaticServing": False,
    "server_enableCORS": True,
    "server_enableXsrfProtection": True,
    "browser_gatherUsageStats": False,
    # Streamlit's CSV may contain cells that spreadsheets execute as formulas; `tiltmeter export`
    # neutralises them.
    "client_disableDataExport": True,
    "client_showErrorDetails": "none",
    "client_showErrorLinks": False,
    "client_toolbarMode": "minimal",
    "global_developmentMode": False,
    "logger_hideWelcomeMessage": True,
    "logger_level": "error",
    "logger_enableRich": False,
    "runner_magicEnabled": False,
}
"""Streamlit options that do not depend on the call."""


def _options(host: str, port: int, *, browser: bool) -> dict[str, object]:
    """Return Streamlit options, which take precedence over the user's config.toml."""
    # Protect against DNS rebinding: other sites must not be able to read the runs.
    allowed_hosts = ["localhost", "127.0.0.1", "::1", host] if is_loopback(host) else []
    return {
        **_OPTIONS,
        "server_address": host,
        "server_port": port,
        "server_headless": not browser,
        "server_allowedHosts": allowed_hosts,
        "browser_serverAddress": host,
    }


def _check(host: str, port: int) -> None:
    """Raise InputError if the server cannot listen on an address."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise InputError(
            f"--host {host!r} is not an address of this machine ({error});"
            " omit it to listen on localhost only"
        ) from None
    family, kind, protocol, _, address = addresses[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            raise InputError(
                f"cannot listen on {host}, port {port} ({error.strerror}); choose another --port or --host"
            ) from None
