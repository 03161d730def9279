"""`tiltmeter sim serve`: the simulated model as an OpenAI-compatible endpoint."""

from __future__ import annotations

from typing import Annotated

import typer

from tiltmeter.cli import _options as o

__all__ = ["sim_app"]

sim_app = typer.Typer(help="The simulated model, which leans by a known amount.", no_args_is_help=True)


@sim_app.callback()
def group() -> None:
    """The simulated model, which leans by a known amount."""


@sim_app.command()
def serve(
    model: Annotated[str, typer.Argument(metavar="[sim/NAME]", help="sim/fair, sim/mild or sim/biased.")] = "sim/mild",
    options: o.ModelOptions = None,
    study: Annotated[
        list[str] | None,
        typer.Option(metavar="STUDY", help="Lean on the prompts of this study; repeat for several [default: genderbench]."),
    ] = None,
    params: o.Params = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 picks a free one.")] = 8765,
) -> None:
    """Serve the simulated model over HTTP until interrupted."""
    from tiltmeter.datasets import Library
    from tiltmeter.errors import InputError
    from tiltmeter.models import create_model
    from tiltmeter.models.sim import SimulatedModel
    from tiltmeter.models.sim.serve import serve as serve_forever
    from tiltmeter.runs import resolve
    from tiltmeter.study import NotRun

    simulated = create_model(model, base_url=None, options=o.key_values("-M", options))
    if not isinstance(simulated, SimulatedModel):
        raise InputError(f"{model} is not a simulated model; give sim/fair, sim/mild or sim/biased")
    library = Library.default()
    for name in study or ["genderbench"]:
        resolved = resolve(name, settings={"params": o.key_values("-P", params)})
        for part in resolved.study.parts:
            try:
                key = part.simulate(part.design(library, resolved.settings.of_part(part.name)), simulated.dials.mapping())
            except NotRun as reason:
                typer.echo(f"{part.name}: answered without a lean, since its prompts are not known ({reason})", err=True)
                continue
            if key is not None:
                simulated.learn(key)
    serve_forever(simulated, host=host, port=port, ready=lambda url: typer.echo(f"serving {simulated.name} at {url}"))
