"""The commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tiltmeter import datasets, reports, runs
from tiltmeter.cli import command_options as o
from tiltmeter.cli.association_commands import reanalyse, validate
from tiltmeter.cli.benchmark_commands import benchmark_app, build
from tiltmeter.cli.journal_commands import journal_app
from tiltmeter.cli.listing_commands import data_app, list_things
from tiltmeter.cli.results_commands import compare, export, gate, report, show, view
from tiltmeter.cli.run_commands import analyse, demo, finish, sim_app
from tiltmeter.errors import EXIT_INCOMPLETE

app = typer.Typer(
    name="tiltmeter",
    help="Measures which way a language model leans, how far, and how sure we are.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data_app, name="data")
app.add_typer(sim_app, name="sim")
app.add_typer(benchmark_app, name="benchmark")
app.add_typer(journal_app, name="journal")
app.command("list")(list_things)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"tiltmeter {version('tiltmeter')}")
        raise typer.Exit


@app.callback()
def tiltmeter(
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Measures which way a language model leans, how far, and how sure we are."""


@app.command()
def run(
    study: o.StudyName,
    model: o.ModelNames,
    base_url: o.BaseUrl = None,
    options: o.ModelOptions = None,
    judge: o.JudgeName = None,
    judge_base_url: o.JudgeBaseUrl = None,
    judge_options: o.JudgeOptions = None,
    params: o.Params = None,
    replace: o.Replace = None,
    definition: o.Definition = None,
    limit: o.Limit = None,
    repeats: o.Repeats = None,
    seed: o.Seed = None,
    system_message: o.SystemMessage = None,
    temperature: Annotated[float | None, typer.Option(min=0, max=10, help="Sampling temperature [default: the method's].")] = None,
    top_p: Annotated[float | None, typer.Option(min=0, max=1, help="Nucleus sampling [default: the method's].")] = None,
    max_tokens: o.MaxTokens = None,
    max_connections: o.MaxConnections = 64,
    rpm: Annotated[float | None, typer.Option(min=0, help="Requests per minute at most.")] = None,
    tpm: Annotated[float | None, typer.Option(min=0, help="Tokens per minute at most.")] = None,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds one request may take.")] = 120.0,
    retries: Annotated[int, typer.Option(min=0, max=1_000, help="Attempts after a passing failure.")] = 6,
    journal: o.Journal = None,
    engine: o.EngineName = None,
    engine_options: o.EngineOptions = None,
    out: o.Out = None,
    display: o.Display = None,
) -> None:
    """Measure one or more models with a study. Run the same command again to go on where it stopped."""
    from tiltmeter.engine import Limits

    o.check_base_url(base_url, model)
    limits = Limits(max_connections=max_connections, requests_per_minute=rpm, tokens_per_minute=tpm, timeout=timeout, retries=retries)
    given = o.study_settings(params, definition, replace)
    finish(
        runs.run_named(
            study,
            model,
            base_url=base_url,
            options=o.key_values("-M", options),
            settings={**given, "seed": seed, "limit": limit, "repeats": repeats, "system_message": system_message},
            sampling={"temperature": temperature, "top_p": top_p, "max_tokens": max_tokens},
            judge=runs.Judging(judge, judge_base_url, o.key_values("-J", judge_options)),
            asking=runs.Asking(limits, journal, display, engine, o.key_values("-E", engine_options)),
            out=out,
            command=o.command_line(),
        )
    )


app.command()(demo)


@app.command()
def plan(
    study: o.StudyName,
    model: Annotated[list[str] | None, typer.Option("--model", "-m", metavar="PROVIDER/NAME", help="To know the price.")] = None,
    judge: o.JudgeName = None,
    params: o.Params = None,
    definition: o.Definition = None,
    limit: o.Limit = None,
    repeats: o.Repeats = None,
    seed: o.Seed = None,
    system_message: o.SystemMessage = None,
    max_tokens: o.MaxTokens = None,
    prompts: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the prompts here (.csv, .jsonl or .parquet).")] = None,
    output: o.Format = "table",
) -> None:
    """Before spending: calls, tokens, price, expected interval widths, smallest detectable bias."""
    from tiltmeter.engine import Prices
    from tiltmeter.models import sampling_from_options

    settings = {"seed": seed, "limit": limit, "repeats": repeats, "system_message": system_message, "judge": judge}
    settings |= o.study_settings(params, definition)
    shown_as_json = o.as_json(output)
    resolved = runs.resolve(study, settings=settings, sampling={"max_tokens": max_tokens})
    for name in [*(model or ()), *filter(None, [resolved.settings.judge])]:
        sampling_from_options(name, {})  # refuses what is no provider/model
    made = runs.make_plan(resolved, model or [], library=datasets.Library.default(), prices=Prices.load())
    if prompts is not None:
        reports.write_table(made.design.drop("part"), prompts)
        typer.echo(f"prompts written to {prompts}", err=True)
    reports.print_plan(made.parts, made.metrics, made.not_run, made.costs, made.warnings, as_json=shown_as_json)
    if made.not_run:
        raise typer.Exit(EXIT_INCOMPLETE)


app.command()(analyse)
app.command()(build)
app.command()(show)
app.command()(report)
app.command()(compare)
app.command()(gate)
app.command()(validate)
app.command()(reanalyse)
app.command()(view)
app.command()(export)
