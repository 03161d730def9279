"""How every command that makes a run ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tiltmeter.errors import EXIT_OK

if TYPE_CHECKING:
    from tiltmeter.runs import RunResult

__all__ = ["finish"]


def finish(result: RunResult) -> None:
    """Print the table, write the page, name what is missing, end with the right status."""
    from tiltmeter.reports import print_findings, print_problems

    run = result.run
    print_findings(run.findings, run.definitional)
    page = run.report()
    print_problems(result.problems)
    typer.echo(f"\nrun     {run.place}\nreport  {run.folder.named(page)}")
    if result.exit_code != EXIT_OK:
        raise typer.Exit(result.exit_code)
