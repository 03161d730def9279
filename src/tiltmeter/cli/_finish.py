"""How every command that makes a run ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tiltmeter.errors import EXIT_OK

if TYPE_CHECKING:
    from tiltmeter.runs import RunResult

__all__ = ["finish"]


def finish(result: RunResult) -> None:
    """Name what is missing, print the table, write the page, end with the right status."""
    from tiltmeter.reports import print_findings, print_problems

    run = result.run
    print_problems(result.problems)
    print_findings(run.findings, run.definitional)
    page = run.report()
    typer.echo(f"\nrun     {run.place}\nreport  {run.folder.named(page)}")
    if result.exit_code != EXIT_OK:
        raise typer.Exit(result.exit_code)
