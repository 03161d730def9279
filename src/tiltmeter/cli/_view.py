"""`tiltmeter view`: runs, findings and responses in a browser."""

from __future__ import annotations

from typing import Annotated

import typer

from tiltmeter.cli._options import Journal

__all__ = ["view"]


def view(
    name: Annotated[str | None, typer.Argument(metavar="[RUN]", help="A run folder, URL, or name under runs/ [default: all].")] = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen; there is no password.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port to listen at.")] = 8501,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser window.")] = False,
    journal: Journal = None,
) -> None:
    """Look through runs in a browser, finished or in progress."""
    from tiltmeter.app import serve

    serve(name, host=host, port=port, browser=not no_browser, journal=journal)
