"""`tiltmeter validate`: how far the judge steps of a study are right, from samples that people annotated."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltmeter.cli import _options as o

if TYPE_CHECKING:
    from tiltmeter.associations.released import Validation

__all__ = ["validate"]


def validate(
    samples: Annotated[
        list[Path],
        typer.Argument(
            metavar="SAMPLE...",
            help="Annotated tables: story, character, found, truth (lists); concept, truth, found (yes or no); phrase, gold, concept "
            "(clusters); or the sheets released with BADF.",
            show_default=False,
        ),
    ],
    concepts: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A run's table of concepts, for a sample that has gold clusters only.")
    ] = None,
    output: o.Format = "table",
) -> None:
    """Tell how right extraction, decomposition, unifying and the exclusivity filter are, each figure with its interval."""
    from tiltmeter.associations.released import validate as validated
    from tiltmeter.reports import print_rows

    as_json = o.as_json(output)
    found = {sample: validated(sample, concepts=concepts) for sample in samples}
    if as_json:
        print_rows([_document(sample, one) for sample, one in found.items()], as_json=True)
        return
    for sample, one in found.items():
        typer.echo(f"{'' if sample == samples[0] else chr(10)}{sample.name}\n")
        figures = [_figure(row) for row in one.figures.iter_rows(named=True)]
        print_rows(figures, as_json=False, prose={"units": 12, "interval by": 20}, optional=("interval by",), lead=2)
        if not one.disagreements.is_empty():
            typer.echo("Typed into the sheet, and not what its own rows give:\n")
            print_rows([_rounded(row) for row in one.disagreements.iter_rows(named=True)], as_json=False, lead=2)


def _document(sample: Path, one: Validation) -> dict[str, Any]:
    from tiltmeter.associations.released import CONFIDENCE

    return {"sample": sample.name, "level": CONFIDENCE, "figures": one.figures.to_dicts(), "disagreements": one.disagreements.to_dicts()}


def _figure(row: dict[str, Any]) -> dict[str, Any]:
    """A figure as a row of the table: counts without decimals, the interval in one cell."""
    from tiltmeter.associations.released import CONFIDENCE

    value, low, high = row["estimate"], row["low"], row["high"]
    return {
        "step": row["step"],
        "metric": row["metric"],
        "value": None if value is None else f"{value:,.0f}" if low is None and value == int(value) else f"{value:.4f}",
        f"{100 * CONFIDENCE:g}% interval": None if low is None else f"{low:.4f} … {high:.4f}",
        "typed": None if row["typed"] is None else f"{row['typed']:.4f}",
        "n": row["n"] or None,
        "units": row["units"],
        "interval by": row["interval"],
    }


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {name: f"{value:.4f}" if isinstance(value, float) else value for name, value in row.items()}
