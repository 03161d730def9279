"""`tiltmeter build`: from a spec to a benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltmeter.cli import _options as o
from tiltmeter.errors import EXIT_INCOMPLETE

if TYPE_CHECKING:
    from tiltmeter.benchmarks.building import StageResult

__all__ = ["build"]

_SAID = {"made": "", "kept": "as before", "edited": "edited; used as it is"}


def build(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.yaml", help="What the benchmark is about.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", callback=o.local_only, metavar="DIR", help="Folder of the benchmark and its stages.", show_default=False
        ),
    ],
    judge: Annotated[
        str | None,
        typer.Option(
            "--judge",
            metavar="PROVIDER/NAME",
            envvar="TILTMETER_JUDGE",
            help="Model asked for keywords, articles, questions and replacements, where the spec wants any.",
        ),
    ] = None,
    judge_base_url: o.JudgeBaseUrl = None,
    judge_options: o.JudgeOptions = None,
    offline: Annotated[bool, typer.Option("--offline", help="Fetch no pages.")] = False,
    max_connections: o.MaxConnections = 64,
    journal: o.Journal = None,
    display: o.Display = None,
    engine: o.EngineName = None,
    engine_options: o.EngineOptions = None,
) -> None:
    """Build a benchmark about any subject. Run the same command again to go on where it stopped, or after editing a stage's table."""
    from tiltmeter.engine import Limits
    from tiltmeter.reports import print_problems
    from tiltmeter.runs import Judging
    from tiltmeter.runs._build import build_benchmark

    built = build_benchmark(
        spec,
        out,
        judge=Judging(judge, judge_base_url, o.key_values("-J", judge_options)),
        offline=offline,
        limits=Limits(max_connections=max_connections),
        journal=journal,
        display=display,
        progress=_tell,
        engine=engine,
        engine_options=o.key_values("-E", engine_options),
    )
    print_problems(built.problems)
    typer.echo(f"\nbenchmark  {built.path}\nprompts    {built.benchmark.height:,} about {built.benchmark['concept'].n_unique():,} concepts")
    if built.problems:
        raise typer.Exit(EXIT_INCOMPLETE)


def _tell(stage: StageResult) -> None:
    typer.echo(f"{stage.name:<13}{stage.rows:>9,}  {_SAID[stage.state]}".rstrip(), err=True)
