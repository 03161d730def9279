"""The Typer application, with the commands `run` and `plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import tiltmeter as tm
from tiltmeter import reports
from tiltmeter._cli import command_options as o
from tiltmeter._cli.association_commands import reanalyse, validate
from tiltmeter._cli.benchmark_commands import benchmark_app, build
from tiltmeter._cli.demo_command import demo
from tiltmeter._cli.journal_commands import journal_app
from tiltmeter._cli.listing_commands import data_app, list_things, schema
from tiltmeter._cli.questions import is_on_terminal
from tiltmeter._cli.results_commands import compare, export, gate, label, report, show, verify, view
from tiltmeter._cli.run_commands import analyse, finish, sim_app
from tiltmeter._cli.several_studies import plan_each, run_each, studies_of
from tiltmeter._cli.study_commands import init
from tiltmeter._cli.swap_command import swap
from tiltmeter._cli.word_commands import explain
from tiltmeter._sanitising import printable
from tiltmeter.errors import EXIT_INCOMPLETE, InputError

app = typer.Typer(
    name="tiltmeter",
    help="Measure social bias in language models: direction, size and statistical uncertainty.",
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
app.command()(schema)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"tiltmeter {version('tiltmeter')}")
        raise typer.Exit


@app.callback()
def tiltmeter(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", help="Print the version and exit.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """Measure social bias in language models: direction, size and statistical uncertainty."""


@app.command()
@o.with_options(
    "model only base_url options judge judge_base_url judge_options params",
    "group swap item expected system label outcome replace",
    "definition size limit repeats seed system_message",
    "temperature top_p max_tokens",
    "max_cost max_connections rpm tpm timeout retries deadline",
    "journal engine engine_options out display",
)
def run(
    study: o.StudyNames,
    *,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            "-y",
            help="Request all responses to a part although its first 20 cannot be used (all cut off,"
            " empty, unread or failed). Without it, the command asks on a terminal, and elsewhere"
            " the part is stopped (status 3). On a terminal, a run without --max-cost that may cost"
            " more than 5 dollars asks, too.",
        ),
    ] = False,
    show: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
    **options: Any,
) -> None:
    """Measure one or more models with a study. Run the same command again to resume."""
    o.check_base_url(options["base_url"], options["model"])
    accepts = yes or (_wants_all if is_on_terminal() else False)
    options |= {"yes": accepts, "command": o.command_line()}
    studies = studies_of(study, options)
    if len(studies) > 1:
        run_each(studies, options, show=show)
    else:
        finish(tm.run(studies[0].name, **options | studies[0].options), show=show)


def _wants_all(sentence: str) -> bool:
    """Ask on the terminal whether to request all responses although this sentence advises against it.

    It is about a fault that the first ones show, or about their cost.

    Raises
    ------
    KeyboardInterrupt
        The answer was Ctrl-C.
    """
    typer.echo(printable(sentence), err=True)
    try:
        return typer.confirm("Request the responses anyway?", err=True)
    except typer.Abort as abort:
        typer.echo(err=True)
        if isinstance(abort.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        return False


app.command()(demo)


@app.command()
@o.with_options(
    "only judge params group swap item expected system label outcome",
    "definition size limit repeats seed system_message",
    "max_tokens max_connections rpm",
)
def plan(
    study: o.StudyNames,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            metavar="PROVIDER/NAME",
            help="Model to estimate the cost for; repeat for several.",
        ),
    ] = None,
    *,
    heterogeneity: Annotated[
        float,
        typer.Option(
            min=0,
            max=3,
            metavar="SD",
            help="Assumed SD (logit) of the bias over questions, names and"
            " wordings: 0 means none, 0.4 is large.",
        ),
    ] = 0.0,
    prompts: Annotated[
        Path | None,
        typer.Option(
            callback=o.new_file,
            metavar="FILE",
            help="Also write the prompts here (.csv, .jsonl or .parquet).",
        ),
    ] = None,
    output: o.Format = "table",
    **options: Any,
) -> None:
    """Estimate calls, cost, time and the smallest detectable bias before a run. Calls no model."""
    options |= {"model": model or (), "heterogeneity": heterogeneity}
    as_json = o.as_json(output)
    studies = studies_of(study, options)
    if len(studies) > 1:
        if prompts is not None:
            raise InputError("--prompts writes the prompts of one study; plan each study by itself")
        plan_each(studies, options, as_json=as_json)
        return
    planned = tm.plan(studies[0].name, **options | studies[0].options)
    if prompts is not None:
        formulas = reports.write_table(planned.design.drop("part"), prompts, exact=True)
        typer.echo(f"prompts written to {prompts}", err=True)
        o.note_formulas(prompts, formulas)
    numbers = (planned.parts, planned.metrics, planned.not_run, planned.costs)
    reports.print_plan(*numbers, planned.warnings, planned.meaning, planned.seconds, as_json=as_json)
    if planned.not_run:
        raise typer.Exit(EXIT_INCOMPLETE)


app.command()(init)
app.command()(swap)
app.command()(analyse)
app.command()(build)
app.command()(show)
app.command()(report)
app.command()(compare)
app.command()(gate)
app.command()(verify)
app.command()(label)
app.command()(validate)
app.command()(reanalyse)
app.command()(view)
app.command()(export)
app.command()(explain)

command = typer.main.get_command(app)
"""The command line. Typer would build it again at every call of `app`."""
