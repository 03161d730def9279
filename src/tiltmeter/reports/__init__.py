"""Findings become a terminal table, a page, a file. Reports know findings and run.json only, never the method behind them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiltmeter.reports._compared import print_compared, print_within
    from tiltmeter.reports._layout import print_text
    from tiltmeter.reports._normalised import average_note, normalised_table
    from tiltmeter.reports._notebook import as_html
    from tiltmeter.reports._page import write_page
    from tiltmeter.reports._published import read_published
    from tiltmeter.reports._shown import NOTHING_HELD, Shown
    from tiltmeter.reports._tables import write_table
    from tiltmeter.reports._terminal import (
        print_evidence,
        print_findings,
        print_held,
        print_normalised,
        print_plan,
        print_planted,
        print_problems,
        print_rows,
    )
    from tiltmeter.reports._together import report_figures
    from tiltmeter.reports._words import size
    from tiltmeter.reports.figures import write_figures

__all__ = [
    "NOTHING_HELD",
    "Shown",
    "as_html",
    "average_note",
    "normalised_table",
    "print_compared",
    "print_evidence",
    "print_findings",
    "print_held",
    "print_normalised",
    "print_plan",
    "print_planted",
    "print_problems",
    "print_rows",
    "print_text",
    "print_within",
    "read_published",
    "report_figures",
    "size",
    "write_figures",
    "write_page",
    "write_table",
]

_HOMES = {
    "_compared": ("print_compared", "print_within"),
    "_notebook": ("as_html",),
    "_layout": ("print_text",),
    "_normalised": ("average_note", "normalised_table"),
    "_page": ("write_page",),
    "_published": ("read_published",),
    "_shown": ("NOTHING_HELD", "Shown"),
    "_tables": ("write_table",),
    "_terminal": (
        "print_evidence",
        "print_findings",
        "print_held",
        "print_normalised",
        "print_plan",
        "print_planted",
        "print_problems",
        "print_rows",
    ),
    "_together": ("report_figures",),
    "_words": ("size",),
    "figures": ("write_figures",),
}


def __getattr__(name: str) -> Any:
    # Lazily: printing a list must not import Polars.
    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
