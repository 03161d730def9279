"""Printing of the accuracy of a judge, and of the clustering, on annotated samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tiltmeter import reports

if TYPE_CHECKING:
    from tiltmeter.labelling.scoring import SampleScores

_DIFFERENCES = "Figures stated in the sheet that differ from those computed from its rows:\n"


def print_scores(samples: Sequence[Path], *, concepts: Path | None, as_json: bool) -> None:
    """Print the figures of annotated samples, and the recorded scores that differ from the recomputed ones.

    Parameters
    ----------
    concepts
        Concepts table of a run, for samples of gold clusters without concepts.
    """
    from tiltmeter.labelling.scoring import score_sample

    scores = [score_sample(sample, concepts=concepts) for sample in samples]
    if as_json:
        reports.print_json([_document(sample, score) for sample, score in zip(samples, scores, strict=True)])
        return
    for number, (sample, score) in enumerate(zip(samples, scores, strict=True)):
        if number > 0:
            typer.echo("")
        typer.echo(f"{sample.name}\n")
        _print_tables(score)


def _document(sample: Path, scores: SampleScores) -> dict[str, Any]:
    """Return the scores of a sample as a JSON document."""
    from tiltmeter.labelling.scoring import CONFIDENCE

    return {
        "sample": sample.name,
        "level": CONFIDENCE,
        "figures": scores.figures,
        "disagreements": scores.disagreements,
    }


def _print_tables(scores: SampleScores) -> None:
    figures = [_figure_row(row) for row in scores.figures.iter_rows(named=True)]
    reports.print_rows(figures, prose={"units": 12, "interval by": 20}, optional=("interval by",), lead=2)
    if scores.disagreements.is_empty():
        return
    typer.echo(_DIFFERENCES)
    reports.print_rows([_rounded(row) for row in scores.disagreements.iter_rows(named=True)], lead=2)


def _figure_row(figure: dict[str, Any]) -> dict[str, Any]:
    """Format a figure as a table row, with the interval in one cell."""
    from tiltmeter.labelling.scoring import CONFIDENCE

    low, high, typed = figure["low"], figure["high"], figure["typed"]
    return {
        "step": figure["step"],
        "metric": figure["metric"],
        "value": _value(figure),
        f"{100 * CONFIDENCE:g}% interval": None if low is None else f"{low:.4f} … {high:.4f}",
        "typed": None if typed is None else f"{typed:.4f}",
        "n": figure["n"] or None,
        "units": figure["units"],
        "interval by": figure["interval"],
    }


def _value(figure: dict[str, Any]) -> str | None:
    """Format the estimate of a figure: counts without decimals."""
    estimate = figure["estimate"]
    if estimate is None:
        return None
    is_count = figure["low"] is None and estimate == int(estimate)
    return f"{estimate:,.0f}" if is_count else f"{estimate:.4f}"


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {name: f"{value:.4f}" if isinstance(value, float) else value for name, value in row.items()}
