"""`tiltmeter show` and `tiltmeter report`: look at runs that are there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltmeter.cli import _options as o
from tiltmeter.errors import InputError

if TYPE_CHECKING:
    from tiltmeter.runs import Run

__all__ = ["report", "show"]

RunName = Annotated[str, typer.Argument(metavar="RUN", help="A run folder, its URL, or its name under runs/.")]


def _load(name: str) -> Run:
    from tiltmeter.runs import load

    return load(name)


def show(
    name: RunName,
    all_metrics: Annotated[bool, typer.Option("--all", help="Every metric, not only the key ones.")] = False,
    normalised: Annotated[
        bool, typer.Option("--normalised", help="Key metrics of all models side by side on one scale, with their average.")
    ] = False,
    metric: Annotated[str | None, typer.Option(metavar="METRIC", help="Show the answers one metric rests on.")] = None,
    part: Annotated[str | None, typer.Option(metavar="PART", help="Only this probe (with --metric).")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="NAME", help="Only this model (with --metric).")] = None,
    subject: Annotated[str | None, typer.Option(metavar="GROUP", help="Only this group or identity (with --metric).")] = None,
    concept: Annotated[str | None, typer.Option(metavar="CONCEPT", help="Only this concept (with --metric).")] = None,
    context: Annotated[str | None, typer.Option(metavar="CONTEXT", help="Only this location or wording (with --metric).")] = None,
    examples: Annotated[int, typer.Option(min=1, metavar="N", help="How many answers (with --metric).")] = 10,
    output: o.Format = "table",
) -> None:
    """Print the findings of a run, or the very answers behind one of them."""
    from tiltmeter.reports import normalised_table, print_evidence, print_findings, print_problems, print_rows

    as_json = o.as_json(output)
    run = _load(name)
    if normalised:
        table = normalised_table(run.findings)
        if table.height <= 1:  # nothing but the average
            raise InputError("no metric of this run has a normalised score: only probes are put on one scale; leave out --normalised")
        print_rows([{name: _rounded(value) for name, value in row.items()} for row in table.iter_rows(named=True)], as_json=as_json)
    elif metric is None:
        print_findings(run.findings, run.definitional, all_metrics=all_metrics, as_json=as_json)
        print_problems(run.about["problems"])
    else:
        narrow = {"part": part, "model": model, "subject": subject, "concept": concept, "context": context}
        print_evidence(run.evidence(metric, limit=examples, **narrow), as_json=as_json)


def _rounded(value: object) -> object:
    return round(value, 4) if isinstance(value, float) else value


def report(
    names: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run folders, their URLs, or their names under runs/.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", callback=o.local_only, metavar="FILE", help="The page [default: report.html in the first run]."),
    ] = None,
    figures: Annotated[Path | None, typer.Option(metavar="DIR", help="Also write every figure here, as PNG, SVG and PDF.")] = None,
    published: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Published results of other models (GenderBench's JSON), shown as background.")
    ] = None,
) -> None:
    """Write one self-contained HTML page about one or more runs."""
    from tiltmeter.reports import read_published, report_figures, write_figures, write_page

    runs = [_load(name) for name in names]
    behind = None if published is None else read_published(published)
    shown = [run.shown for run in runs]
    if figures is not None:
        for path in write_figures(report_figures(shown, behind), figures):
            typer.echo(path, err=True)
    first = runs[0].folder
    page = write_page(shown, output or first.path / "report.html", published=behind)
    if output is None:
        first.hand_over(page)
    typer.echo(first.named(page))
