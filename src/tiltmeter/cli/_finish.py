"""How every command that makes a run ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tiltmeter.errors import EXIT_INCOMPLETE, EXIT_OK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tiltmeter.runs import RunResult

__all__ = ["finish"]


def finish(result: RunResult, *, lenient: bool = False, planted: Mapping[str, Mapping[str, float]] | None = None) -> None:
    """Print the table, write the page, name what is missing, end with the right status.

    `planted` are the true values of the key metrics by part, where they are known; then it is also said how many intervals hold them.
    """
    from tiltmeter.reports import print_findings, print_held, print_problems, write_page

    run = result.run
    findings, about = run.findings, run.about
    print_findings(findings)
    if planted is not None:
        print_held(findings, planted)
    page = write_page([(findings, about)], run.path / "report.html")
    print_problems(result.problems)
    typer.echo(f"\nrun     {run.path}\nreport  {page}")
    if result.exit_code not in (EXIT_OK, EXIT_INCOMPLETE) or (result.exit_code == EXIT_INCOMPLETE and not lenient):
        raise typer.Exit(result.exit_code)
