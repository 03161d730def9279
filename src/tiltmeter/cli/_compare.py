"""`tiltmeter compare`: what differs between two models, or two runs; alone, what hangs on wording and chance within one."""

from __future__ import annotations

from typing import Annotated

import typer

from tiltmeter.cli import _options as o
from tiltmeter.errors import InputError

__all__ = ["compare"]


def compare(
    first: Annotated[str, typer.Argument(metavar="RUN", help="A run folder, its URL, or its name under runs/.", show_default=False)],
    second: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="The run to compare it with [default: two models of the first].", show_default=False),
    ] = None,
    model_a: Annotated[str | None, typer.Option(metavar="NAME", help="Model of the first side, where there are several.")] = None,
    model_b: Annotated[str | None, typer.Option(metavar="NAME", help="Model of the second side, where there are several.")] = None,
    all_metrics: Annotated[bool, typer.Option("--all", help="Every number, not only key metrics and concepts that differ.")] = False,
    output: o.Format = "table",
) -> None:
    """Compare two models or runs: what got better or worse, how surely. One run alone: how its wordings and repeated answers agree."""
    as_json = o.as_json(output)
    if second is None and model_a is None and model_b is None:
        if all_metrics:
            raise InputError("--all is about the differences between two models or runs: name a second run, or --model-a and --model-b")
        from tiltmeter.comparing import repeat_stability, wording_sensitivity
        from tiltmeter.reports import print_within

        print_within(wording_sensitivity(first), repeat_stability(first), as_json=as_json)
        return
    from tiltmeter.comparing import compare as compared
    from tiltmeter.reports import print_compared

    found = compared(first, second, model_a=model_a, model_b=model_b)
    print_compared(found.first, found.second, found.differences, found.notes, all_metrics=all_metrics, as_json=as_json)
