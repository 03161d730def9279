"""Findings become a terminal table, a page, a file. Reports know findings and run.json only, never the method behind them."""

from tiltmeter.reports._normalised import normalised_table
from tiltmeter.reports._page import write_page
from tiltmeter.reports._tables import write_table
from tiltmeter.reports._terminal import print_evidence, print_findings, print_held, print_plan, print_problems, print_rows
from tiltmeter.reports._words import size

__all__ = [
    "normalised_table",
    "print_evidence",
    "print_findings",
    "print_held",
    "print_plan",
    "print_problems",
    "print_rows",
    "size",
    "write_page",
    "write_table",
]
