"""The commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltmeter.cli import _options as o
from tiltmeter.cli._data import data_app
from tiltmeter.cli._list import list_things
from tiltmeter.cli._show import report, show
from tiltmeter.cli._sim import sim_app
from tiltmeter.errors import EXIT_INCOMPLETE, EXIT_OK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tiltmeter.runs import RunResult

__all__ = ["app"]

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
app.command("list")(list_things)

MaxConnections = Annotated[
    int,
    typer.Option(
        min=1, metavar="C", envvar="TILTMETER_MAX_CONNECTIONS", help="Requests in flight at most; the engine finds the right number below."
    ),
]
Journal = Annotated[
    str | None,
    typer.Option(metavar="URL", envvar="TILTMETER_JOURNAL", help="Where paid-for answers are kept [default: runs/journal.sqlite]."),
]


@app.callback()
def version_option(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False) -> None:
    """Measures which way a language model leans, how far, and how sure we are."""
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"tiltmeter {installed('tiltmeter')}")
        raise typer.Exit


@app.command()
def run(
    study: o.StudyName,
    model: o.ModelNames,
    base_url: o.BaseUrl = None,
    options: o.ModelOptions = None,
    params: o.Params = None,
    definition: o.Definition = None,
    limit: o.Limit = None,
    repeats: o.Repeats = None,
    seed: o.Seed = None,
    system_message: o.SystemMessage = None,
    temperature: Annotated[float | None, typer.Option(min=0, max=10, help="Sampling temperature [default: the method's].")] = None,
    top_p: Annotated[float | None, typer.Option(min=0, max=1, help="Nucleus sampling [default: the method's].")] = None,
    max_tokens: o.MaxTokens = None,
    max_connections: MaxConnections = 64,
    rpm: Annotated[float | None, typer.Option(min=0, help="Requests per minute at most.")] = None,
    tpm: Annotated[float | None, typer.Option(min=0, help="Tokens per minute at most.")] = None,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds one request may take.")] = 120.0,
    retries: Annotated[int, typer.Option(min=0, max=1_000, help="Attempts after a passing failure.")] = 6,
    journal: Journal = None,
    out: o.Out = None,
    display: o.Display = None,
) -> None:
    """Measure one or more models with a study. Run the same command again to go on where it stopped."""
    from tiltmeter.engine import Limits
    from tiltmeter.runs import run_named

    o.check_base_url(base_url, model)
    settings = o.settings_from(definition=definition, seed=seed, limit=limit, repeats=repeats, system_message=system_message, params=params)
    finish(
        run_named(
            study,
            model,
            base_url=base_url,
            options=o.key_values("-M", options),
            settings=settings,
            sampling={"temperature": temperature, "top_p": top_p, "max_tokens": max_tokens},
            limits=Limits(
                max_connections=max_connections, requests_per_minute=rpm, tokens_per_minute=tpm, timeout=timeout, retries=retries
            ),
            journal=journal,
            out=out,
            display=display,
            command=o.command_line(),
        )
    )


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


@app.command()
def demo(
    limit: Annotated[str, typer.Option(help="Items per probe.")] = "300",
    out: o.Out = None,
    display: o.Display = None,
) -> None:
    """Run every method on the built-in simulated model, which leans by a known amount. Needs no key."""
    from tiltmeter import registry
    from tiltmeter.models.sim import PRESETS, create
    from tiltmeter.runs import run_named

    study, preset = "genderbench", "mild"
    simulated = create("sim", preset)
    typer.echo(
        f"{simulated.name} is not a language model but a program that answers every prompt by chance, and leans by a known amount: "
        f"each key metric below is set about {PRESETS[preset]:g} away from its value without bias.\n",
        err=True,
    )
    dials = simulated.dials.mapping()
    planted = {part.name: part.truth(dials) for part in registry.load("studies", study)().parts}
    finish(run_named(study, [simulated], settings={"limit": limit}, out=out, display=display), lenient=True, planted=planted)


@app.command()
def plan(
    study: o.StudyName,
    model: Annotated[list[str] | None, typer.Option("--model", "-m", metavar="PROVIDER/NAME", help="To know the price.")] = None,
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
    from tiltmeter.datasets import Library
    from tiltmeter.engine import Prices
    from tiltmeter.models import sampling_from_options
    from tiltmeter.reports import print_plan
    from tiltmeter.runs import make_plan, resolve

    settings = o.settings_from(definition=definition, seed=seed, limit=limit, repeats=repeats, system_message=system_message, params=params)
    shown_as_json = o.as_json(output)
    for name in model or ():
        sampling_from_options(name, {})  # refuses what is no provider/model
    resolved = resolve(study, settings=settings, sampling={"max_tokens": max_tokens})
    made = make_plan(resolved, model or [], library=Library.default(), prices=Prices.load())
    if prompts is not None:
        from tiltmeter.reports import write_table

        write_table(made.design.drop("part"), prompts)
        typer.echo(f"prompts written to {prompts}", err=True)
    print_plan(made.parts, made.metrics, made.not_run, made.cost, as_json=shown_as_json)
    if made.not_run:
        raise typer.Exit(EXIT_INCOMPLETE)


@app.command()
def analyse(
    responses: Annotated[
        list[Path], typer.Argument(metavar="RESPONSES...", help="CSV, JSONL or Parquet tables, or GenderBench probe logs.")
    ],
    study: Annotated[str, typer.Option("--study", metavar="STUDY", help="The study whose prompts were answered.")],
    model: Annotated[
        str, typer.Option("--model", "-m", metavar="NAME", help="The model's name, where the table has no column for it.")
    ] = "own responses",
    params: o.Params = None,
    definition: o.Definition = None,
    seed: o.Seed = None,
    out: o.Out = None,
) -> None:
    """Measure responses you already have. No model is called."""
    from tiltmeter.datasets import Library
    from tiltmeter.runs import analyse_responses, resolve

    settings = o.settings_from(definition=definition, seed=seed, limit=None, repeats=None, system_message=None, params=params)
    resolved = resolve(study, settings=settings)
    finish(analyse_responses(responses, resolved, library=Library.default(), model=model, out=out, command=o.command_line()))


app.command()(show)
app.command()(report)
