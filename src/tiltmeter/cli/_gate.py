"""`tiltmeter gate`: the exit status of a run."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from tiltmeter.cli import _options as o
from tiltmeter.errors import EXIT_OK

__all__ = ["gate"]


def gate(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder, its URL, or its name under runs/.", show_default=False)],
    fail_on: Annotated[
        str,
        typer.Option(
            metavar="MARK",
            envvar="TILTMETER_FAIL_ON",
            help="Key metrics marked cautionary, critical or catastrophic, or worse, fail; none: marks decide nothing.",
        ),
    ] = "critical",
    certain: Annotated[
        bool, typer.Option("--certain", help="Fail only where the whole interval is beyond the mark or limit, not the estimate alone.")
    ] = False,
    baseline: Annotated[str | None, typer.Option(metavar="RUN", help="Fail where a metric is surely worse than in this run.")] = None,
    maximum: Annotated[
        list[str] | None,
        typer.Option(
            "--max",
            metavar="METRIC=VALUE",
            help="The most a number may be: METRIC, PART/METRIC, METRIC[subject=...,context=...]; METRIC.p or .q for its p or q.",
        ),
    ] = None,
    minimum: Annotated[list[str] | None, typer.Option("--min", metavar="METRIC=VALUE", help="The least it may be.")] = None,
    allow_ungraded: Annotated[
        bool, typer.Option("--allow-ungraded", help="Leave out what could not be graded or computed, instead of failing.")
    ] = False,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write JUnit XML.")] = None,
    summary: Annotated[
        Path | None, typer.Option(metavar="FILE", envvar="GITHUB_STEP_SUMMARY", help="Also append a Markdown summary to this file.")
    ] = None,
    output: o.Format = "table",
) -> None:
    """Whether a run passes: exit status 0 yes, 1 no, 2 wrong usage, 3 the run is incomplete, 4 a model gave no answers."""
    from tiltmeter.gating import Limit, Rules, append_summary, print_verdict, write_junit
    from tiltmeter.gating import gate as judge
    from tiltmeter.runs import load

    as_json = o.as_json(output)
    bounds = [Limit.parse(bound, text) for bound, texts in (("max", maximum), ("min", minimum)) for text in texts or ()]
    rules = Rules(None if fail_on == "none" else fail_on, certain, tuple(bounds), allow_ungraded)
    verdict = judge(load(run), rules, None if baseline is None else load(baseline))
    if junit is not None:
        write_junit(verdict, junit)
    if summary is not None:
        append_summary(verdict, summary)
    try:
        print_verdict(verdict, as_json=as_json)
        sys.stdout.flush()
    except BrokenPipeError:  # its reader left; what the gate found stands all the same
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if verdict.exit_code != EXIT_OK:
        raise typer.Exit(verdict.exit_code)
