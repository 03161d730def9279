"""`tiltmeter data list|fetch|check`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tiltmeter.cli._options import Format, as_json

if TYPE_CHECKING:
    from tiltmeter.datasets import Copy

__all__ = ["data_app", "print_copies"]

data_app = typer.Typer(
    help="The outside data the probes need: where it comes from, under which licence, and whether it is here.", no_args_is_help=True
)
Names = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME...]", help="Names from `tiltmeter data list` [default: all].", show_default=False)
]


def print_copies(copies: Sequence[Copy], output: str = "table") -> None:
    """Files with their licence and place; in the table the path stands only where something is wrong with the file."""
    from tiltmeter.reports import print_rows, size

    if as_json(output):
        print_rows([copy._asdict() for copy in copies], as_json=True)
        return
    print_rows(
        [
            {
                "name": copy.name,
                "size": size(copy.size),
                "licence": copy.licence,
                "restricted": copy.restricted,
                "where": copy.where,
                "ok": copy.ok,
                "problem": copy.problem and f"{copy.path} {copy.problem}",
            }
            for copy in copies
        ],
        as_json=False,
        prose={"licence": 14, "restricted": 20, "problem": 30},
    )


@data_app.command("list")
def list_data(output: Format = "table") -> None:
    """List every file with its licence and where it was found."""
    from tiltmeter.datasets import Library, status

    print_copies(status(Library.default()), output)


@data_app.command()
def fetch(names: Names = None) -> None:
    """Fetch what is missing, verified by checksum. Ends with status 3 when something cannot be had."""
    from tiltmeter.datasets import Library, fetch_all
    from tiltmeter.errors import EXIT_INCOMPLETE
    from tiltmeter.reports import print_rows

    results = fetch_all(Library.default(progress=lambda line: typer.echo(line, err=True)), names or None)
    print_rows([one._asdict() for one in results], as_json=False, prose={"problem": 30, "remedy": 30})
    if any(one.problem for one in results):
        raise typer.Exit(EXIT_INCOMPLETE)


@data_app.command()
def check(names: Names = None) -> None:
    """Verify the checksums of the files that are here. Ends with status 2 when one is wrong."""
    from tiltmeter.datasets import Library
    from tiltmeter.datasets import check as verify
    from tiltmeter.errors import EXIT_INPUT

    results = verify(Library.default(), names or None)
    print_copies(results)
    if any(one.ok is False for one in results):
        raise typer.Exit(EXIT_INPUT)
