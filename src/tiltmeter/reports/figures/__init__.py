"""Figures of findings: charts for the page and as files. Makers are found through `MAKERS` of each module."""

from __future__ import annotations

from tiltmeter.reports.figures._figure import FORMATS, Figure, Maker, paint_rules, plain, render, svg
from tiltmeter.reports.figures._make import make_figures, page_figures, write_figures

__all__ = ["FORMATS", "Figure", "Maker", "make_figures", "page_figures", "paint_rules", "plain", "render", "svg", "write_figures"]
