"""All figures of some findings, and their files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from tiltmeter.reports._files import writing
from tiltmeter.reports.figures._figure import FORMATS, Figure, Maker, render

if TYPE_CHECKING:
    import polars as pl

__all__ = ["make_figures", "page_figures", "write_figures"]

_MODULES = ("_probes", "_associations", "_benchmarks")
"""Modules with makers: each has `MAKERS`, name -> maker."""
_AS_TABLES = ("groups",)
"""Makers of figures that a page shows as tables instead, for their size."""


def _makers(module: str) -> Mapping[str, Maker]:
    found: Mapping[str, Maker] = import_module(f"{__package__}.{module}").MAKERS
    return found


def make_figures(findings: pl.DataFrame) -> list[Figure]:
    """All figures there are of these findings (the columns of `tiltmeter.study.FINDINGS`, of one or more runs)."""
    return [figure for module in _MODULES for make in _makers(module).values() for figure in make(findings)]


def page_figures(findings: pl.DataFrame) -> dict[str, list[Figure]]:
    """By maker the figures a page shows of all models together; those of _AS_TABLES stand there as tables."""
    made = {name: make for module in _MODULES for name, make in _makers(module).items() if name not in _AS_TABLES}
    return {name: list(make(findings)) for name, make in made.items()}


def write_figures(figures: Iterable[Figure], folder: Path) -> list[Path]:
    """Write each figure as NAME.png, NAME.svg and NAME.pdf; returns where they are.

    Raises
    ------
    InputError
        A file cannot be written.
    """
    written = []
    for figure in figures:
        for suffix in FORMATS:
            path = folder / f"{figure.name}{suffix}"
            with writing(path) as aside:
                aside.write_bytes(render(figure, suffix))
            written.append(path)
    return written
