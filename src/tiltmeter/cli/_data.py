"""`tiltmeter data list|fetch|check`."""

from __future__ import annotations

from typing import Annotated

import typer

from tiltmeter.cli._options import Format

__all__ = ["data_app"]

data_app = typer.Typer(
    help="The outside data the probes need: where it comes from, under which licence, and whether it is here.", no_args_is_help=True
)
Names = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME...]", help="Names from `tiltmeter data list` [default: all].", show_default=False)
]


@data_app.command("list")
def list_data(output: Format = "table") -> None:
    """List every file with its licence and where it was found."""
    from tiltmeter.datasets import Library, status
    from tiltmeter.reports import print_rows

    print_rows([copy._asdict() for copy in status(Library.default())], as_json=output == "json")


@data_app.command()
def fetch(names: Names = None) -> None:
    """Fetch what is missing, verified by checksum. Ends with status 3 when something cannot be had."""
    from tiltmeter.datasets import Library, fetch_all
    from tiltmeter.errors import EXIT_INCOMPLETE
    from tiltmeter.reports import print_rows

    results = fetch_all(Library.default(progress=lambda line: typer.echo(line, err=True)), names or None)
    print_rows([one._asdict() for one in results], as_json=False)
    if any(one.problem for one in results):
        raise typer.Exit(EXIT_INCOMPLETE)


@data_app.command()
def check(names: Names = None) -> None:
    """Verify the checksums of the files that are here. Ends with status 2 when one is wrong."""
    from tiltmeter.datasets import Library
    from tiltmeter.datasets import check as verify
    from tiltmeter.errors import EXIT_INPUT
    from tiltmeter.reports import print_rows

    results = verify(Library.default(), names or None)
    print_rows([one._asdict() for one in results], as_json=False)
    if any(one.ok is False for one in results):
        raise typer.Exit(EXIT_INPUT)
