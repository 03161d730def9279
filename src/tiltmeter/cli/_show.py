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

EXAMPLES = 10
"""Answers shown unless the user says otherwise."""
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
    part: Annotated[str | None, typer.Option(metavar="PART", help="Only this probe, grid or benchmark.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="NAME", help="Only this model.")] = None,
    subject: Annotated[str | None, typer.Option(metavar="GROUP", help="Only numbers about this group or identity, every one.")] = None,
    concept: Annotated[str | None, typer.Option(metavar="CONCEPT", help="Only this concept.")] = None,
    context: Annotated[str | None, typer.Option(metavar="CONTEXT", help="Only numbers of this location or wording, every one.")] = None,
    examples: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How many answers (with --metric) [default: 10].", show_default=False)
    ] = None,
    output: o.Format = "table",
) -> None:
    """Print the findings of a run, or the very answers behind one of them."""
    from tiltmeter.reports import print_evidence, print_findings, print_normalised, print_problems
    from tiltmeter.runs import narrowed

    as_json = o.as_json(output)
    _refuse_together(metric, normalised, all_metrics, examples)
    run = _load(name)
    narrow = {"model": model, "part": part, "subject": subject, "concept": concept, "context": context}
    if metric is not None:
        print_evidence(run.evidence(metric, limit=examples or EXAMPLES, **narrow), as_json=as_json)
        return
    findings = narrowed(run.findings, narrow)
    if normalised:
        print_normalised(findings, as_json=as_json)
        return
    print_problems(run.about["problems"])
    definitional = narrowed(run.definitional, narrow, may_be_none=True)
    print_findings(findings, definitional, all_metrics=all_metrics or any((subject, concept, context)), as_json=as_json)


def _refuse_together(metric: str | None, normalised: bool, all_metrics: bool, examples: int | None) -> None:
    """Raises InputError for options of which one would be ignored."""
    if metric is None and examples is not None:
        raise InputError("--examples is about the answers behind one metric: add --metric METRIC, or leave it out")
    given = {"--metric": metric is not None, "--normalised": normalised, "--all": all_metrics}
    if sum(given.values()) > 1:
        raise InputError(f"{' and '.join(flag for flag, is_given in given.items() if is_given)} cannot be combined: leave out one of them")


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
