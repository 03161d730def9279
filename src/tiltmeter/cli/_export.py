"""`tiltmeter export`: a run in the format of another tool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tiltmeter.cli._options import local_only
from tiltmeter.exports import FORMATS

__all__ = ["export"]


def export(
    name: Annotated[str, typer.Argument(metavar="RUN", help="A run folder, its URL, or its name under runs/.")],
    format_name: Annotated[str, typer.Option("--format", "-f", metavar="FORMAT", help=f"One of {', '.join(FORMATS)}.")],
    table: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="findings, normalised, responses, measures, design, examples, or one of the method's own [default: findings].",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every metric, not only the key ones (plain tables always hold every row).")] = False,
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="NAME", help="Only this model.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", callback=local_only, metavar="PATH", help="The file or folder to make [default: in RUN/exports/]."),
    ] = None,
) -> None:
    """Give a run to another tool: tables, a paper, a dataset, a model card, an experiment tracker."""
    from tiltmeter._text import printable
    from tiltmeter.exports import export as make

    for place in make(name, format_name, output, table=table, every=every, model=model):
        typer.echo(printable(place, one_line=True))
