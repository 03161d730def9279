"""Benchmark commands: build a benchmark, and inspect, check and subsample its files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import tiltmeter as tm
from tiltmeter import reports
from tiltmeter._cli import command_options as o
from tiltmeter._sanitising import printable
from tiltmeter.errors import EXIT_INCOMPLETE, EXIT_INPUT, check_known

if TYPE_CHECKING:
    from polars import DataFrame

    from tiltmeter.runs._stage_store import StageResult

_STATES: Final = {"made": "", "kept": "unchanged", "edited": "edited by hand; kept"}
"""What is printed about the states of stages."""


@o.with_options(
    "judge_base_url judge_options offline local",
    "max_connections journal display engine engine_options",
)
def build(
    spec: Annotated[
        Path, typer.Argument(metavar="SPEC.yaml", help="Specification of the benchmark.", show_default=False)
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            callback=o.local_only,
            metavar="DIR",
            help="Output folder for the benchmark and its stages.",
            show_default=False,
        ),
    ],
    judge: Annotated[
        str | None,
        typer.Option(
            "--judge",
            metavar="PROVIDER/NAME",
            envvar="TILTMETER_JUDGE",
            help="Model that generates what SPEC.yaml requests: keywords, articles, questions, or the words"
            " that replace a group's name.",
        ),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not download pages.")] = False,
    local: Annotated[
        bool | None,
        typer.Option(
            "--local/--no-local",
            help="Read pages that SPEC.yaml names on this machine or its network,"
            " or refuse them [default: ask].",
            show_default=False,
        ),
    ] = None,
    **options: Any,
) -> None:
    """Build a benchmark on any subject.

    Run it again to resume, or to rebuild the rest after editing an intermediate table.
    """
    built = tm.build(
        spec,
        out,
        judge=judge,
        offline=offline,
        local=_may_read_local if local is None else local,
        progress=_print_stage,
        **options,
    )
    reports.print_problems(built.problems)
    concepts = built.benchmark["concept"].n_unique()
    typer.echo(f"\nbenchmark  {built.path}")
    typer.echo(f"prompts    {built.benchmark.height:,} about {concepts:,} concepts")
    if built.problems:
        raise typer.Exit(EXIT_INCOMPLETE)


def _may_read_local(hosts: Sequence[str]) -> bool:
    """Ask on a terminal whether pages may be read from hosts of this machine or its network.

    Without a terminal the answer is no.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    names = printable(", ".join(hosts), one_line=True)
    return typer.confirm(
        f"The benchmark's spec names pages on this machine or its network ({names}). Read them?", err=True
    )


def _print_stage(stage: StageResult) -> None:
    typer.echo(f"{stage.name:<13}{stage.rows:>9,}  {_STATES[stage.state]}".rstrip(), err=True)


benchmark_app: Final = typer.Typer(help="Inspect, validate and subsample benchmarks.", no_args_is_help=True)
_TEXTS: Final = {"prompt": 40, "baseline": 30}
"""Columns of prompts that may wrap, with their minimum widths."""
Seed = Annotated[int, typer.Option(min=0, metavar="S", help="Random seed.")]
File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="A benchmark (.parquet, .csv, .json, .jsonl), or a folder created by tiltmeter build.",
        show_default=False,
    ),
]


@benchmark_app.command()
def check(file: File, output: o.Format = "table") -> None:
    """Check a benchmark.

    Reports imbalance, duplicates, prompts that name another group, missing baselines and unknown licences.

    Exit status 2 if the benchmark is unusable.
    """
    import polars as pl

    from tiltmeter.benchmarks._files import check_benchmark, read_benchmark

    as_json = o.as_json(output)
    findings = check_benchmark(read_benchmark(file, strict=False))
    rows = findings.select("level", pl.exclude("level"))
    if as_json:
        reports.print_json(rows)
    else:
        reports.print_rows(_without_empty_lists(rows), prose={"finding": 30, "keys": 24}, lead=2)
    if (findings["level"] == "problem").any():
        raise typer.Exit(EXIT_INPUT)


@benchmark_app.command()
def show(
    file: File,
    prompts: Annotated[
        int,
        typer.Option(
            min=0, max=o.MOST_ROWS, metavar="N", help="Also print N prompts, sampled from all groups."
        ),
    ] = 0,
    concept: Annotated[
        str | None, typer.Option(metavar="NAME", help="Show only this group (a value of the column concept).")
    ] = None,
    seed: Seed = 123,
    output: o.Format = "table",
) -> None:
    """Summarise a benchmark by group, and print sample prompts."""
    from polars import col

    from tiltmeter.benchmarks._files import describe_benchmark, read_benchmark, sample_benchmark

    as_json = o.as_json(output)
    table = read_benchmark(file)
    if concept is not None:
        concepts = table["concept"].unique(maintain_order=True).to_list()
        check_known(concept, concepts, f"{file} has no concept {concept!r}")
        table = table.filter(col.concept == concept)
    drawn = sample_benchmark(table, prompts, seed=seed).head(prompts) if prompts else table.clear()
    if as_json:
        reports.print_json([{"concepts": describe_benchmark(table), "prompts": drawn}])
        return
    reports.print_rows(
        _without_empty_lists(describe_benchmark(table)),
        prose={"kinds": 12, "source_tags": 12, "licences": 12},
    )
    if prompts:
        reports.print_rows(
            drawn.select("key", "concept", "keyword", "kind", "prompt", "baseline").to_dicts(), prose=_TEXTS
        )


def _without_empty_lists(table: DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table, with None in place of empty lists."""
    rows = table.to_dicts()
    return [{name: None if value == [] else value for name, value in row.items()} for row in rows]


@benchmark_app.command()
def sample(
    file: File,
    size: Annotated[
        int, typer.Option(min=1, metavar="N", help="Maximum number of prompts.", show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            callback=o.new_file,
            metavar="FILE",
            help="Output file (.parquet, .csv or .jsonl) [default: standard output].",
        ),
    ] = None,
    seed: Seed = 123,
    output: o.Format = "table",
) -> None:
    """Draw a subsample of a benchmark with equal numbers of prompts about each group.

    Counterfactual versions of a prompt stay together.
    """
    from tiltmeter.benchmarks._files import read_benchmark, sample_benchmark

    as_json = o.as_json(output)
    drawn = sample_benchmark(read_benchmark(file), size, seed=seed)
    if out is not None:
        formulas = reports.write_table(drawn, out, exact=True)
        typer.echo(f"{drawn.height:,} prompts written to {out}")
        o.note_formulas(out, formulas)
    elif as_json:
        reports.print_json(drawn)
    else:
        reports.print_rows(
            drawn.select("key", "concept", "keyword", "kind", "prompt").to_dicts(), prose=_TEXTS
        )


@benchmark_app.command()
def schema() -> None:
    """Print the JSON schema of SPEC.yaml. Same as `tiltmeter schema benchmark`."""
    from tiltmeter.benchmarks._builder import schema_json

    typer.echo(schema_json(), nl=False)
