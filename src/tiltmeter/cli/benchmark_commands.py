"""Commands about benchmarks: build one, inspect, check and convert its files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltmeter import reports, runs
from tiltmeter.cli import command_options as o
from tiltmeter.errors import EXIT_INCOMPLETE, EXIT_INPUT
from tiltmeter.registry import check_known

if TYPE_CHECKING:
    from polars import DataFrame

    from tiltmeter.runs.stage_store import StageResult

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
    from tiltmeter.runs.building import build_benchmark

    built = build_benchmark(
        spec,
        out,
        judge=runs.Judging(judge, judge_base_url, o.key_values("-J", judge_options)),
        asking=runs.Asking(Limits(max_connections=max_connections), journal, display, engine, o.key_values("-E", engine_options)),
        offline=offline,
        progress=_tell,
    )
    reports.print_problems(built.problems)
    typer.echo(f"\nbenchmark  {built.path}\nprompts    {built.benchmark.height:,} about {built.benchmark['concept'].n_unique():,} concepts")
    if built.problems:
        raise typer.Exit(EXIT_INCOMPLETE)


def _tell(stage: StageResult) -> None:
    typer.echo(f"{stage.name:<13}{stage.rows:>9,}  {_SAID[stage.state]}".rstrip(), err=True)


benchmark_app = typer.Typer(help="Benchmarks: what is in them, whether they can be used, a smaller one.", no_args_is_help=True)
_TEXTS = {"prompt": 40, "baseline": 30}
"""Columns of prompts that may wrap, from these widths on."""
Seed = Annotated[int, typer.Option(min=0, metavar="S", help="Of the draw.")]
File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="A benchmark (.parquet, .csv, .json, .jsonl), or a folder tiltmeter build made.", show_default=False
    ),
]


@benchmark_app.command()
def check(file: File, output: o.Format = "table") -> None:
    """Look for imbalance, duplicates, leaked names, missing baselines, unknown licences. Ends with status 2 when it cannot be run."""
    import polars as pl

    from tiltmeter.benchmarks.files import check_benchmark, read_benchmark

    as_json = o.as_json(output)
    found = check_benchmark(read_benchmark(file, strict=False))
    rows = found.select("level", pl.exclude("level"))
    if as_json:
        reports.print_json(rows)
    else:
        reports.print_rows(_without_empty_lists(rows), prose={"finding": 30, "keys": 24}, lead=2)
    if (found["level"] == "problem").any():
        raise typer.Exit(EXIT_INPUT)


@benchmark_app.command()
def show(
    file: File,
    prompts: Annotated[int, typer.Option(min=0, metavar="N", help="Also print so many prompts, drawn from all concepts.")] = 0,
    concept: Annotated[str | None, typer.Option(metavar="NAME", help="Only this concept.")] = None,
    seed: Seed = 123,
    output: o.Format = "table",
) -> None:
    """Tell how much there is of each concept, and print some prompts."""
    from polars import col

    from tiltmeter.benchmarks.files import describe_benchmark, read_benchmark, sample_benchmark

    as_json = o.as_json(output)
    table = read_benchmark(file)
    if concept is not None:
        known = table["concept"].unique(maintain_order=True).to_list()
        check_known(concept, known, f"{file} has no concept {concept!r}")
        table = table.filter(col.concept == concept)
    drawn = sample_benchmark(table, prompts, seed=seed).head(prompts) if prompts else table.clear()
    if as_json:
        reports.print_json([{"concepts": describe_benchmark(table), "prompts": drawn}])
        return
    reports.print_rows(_without_empty_lists(describe_benchmark(table)), prose={"kinds": 12, "source_tags": 12, "licences": 12})
    if prompts:
        reports.print_rows(drawn.select("key", "concept", "keyword", "kind", "prompt", "baseline").to_dicts(), prose=_TEXTS)


def _without_empty_lists(table: DataFrame) -> list[dict[str, Any]]:
    return [{name: None if value == [] else value for name, value in row.items()} for row in table.to_dicts()]


@benchmark_app.command()
def sample(
    file: File,
    size: Annotated[int, typer.Option(min=1, metavar="N", help="Prompts at most.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", callback=o.local_only, metavar="FILE", help="Where to write it (.parquet, .csv or .jsonl) [default: printed]."
        ),
    ] = None,
    seed: Seed = 123,
    output: o.Format = "table",
) -> None:
    """Draw a smaller benchmark, balanced over the concepts; branches stay with their roots."""
    from tiltmeter.benchmarks.files import read_benchmark, sample_benchmark

    as_json = o.as_json(output)
    drawn = sample_benchmark(read_benchmark(file), size, seed=seed)
    if out is not None:
        reports.write_table(drawn, out)
        typer.echo(f"{drawn.height:,} prompts written to {out}")
    elif as_json:
        reports.print_json(drawn)
    else:
        reports.print_rows(drawn.select("key", "concept", "keyword", "kind", "prompt").to_dicts(), prose=_TEXTS)


@benchmark_app.command()
def schema() -> None:
    """Print the JSON schema of a spec, for an editor."""
    from tiltmeter.benchmarks.builder import schema_json

    typer.echo(schema_json(), nl=False)
