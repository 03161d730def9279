"""Functions of all studies. This file is part of the fingerprint of each study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from tiltmeter.probes import Probe
from tiltmeter.study import Settings

HARMS: Final = ("outcome_disparity", "stereotypical_reasoning", "representational_harms")
CODE_OF_PROBES: Final = ("probes", "stats", "schema", "study", "designs", "_arrays")
"""Modules and packages of `tiltmeter` that decide about the outcome of studies of probes."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A figure of a study with the range that it must lie in (both ends included)."""

    name: str
    observed: float
    low: float
    high: float

    @property
    def holds(self) -> bool:
        """Whether the figure lies in the range."""
        return self.low <= self.observed <= self.high


def planted(bias: float) -> dict[str, float]:
    """Return the settings of a simulated model that has the same bias in each harm."""
    return dict.fromkeys(HARMS, bias)


def simulated_measures(probe: Probe, design: pl.DataFrame, bias: float, seed: int) -> pl.DataFrame:
    """Return the measures of one simulated study of a probe."""
    measures = probe.simulate_measures(design, planted(bias), seed)
    if measures is None:
        raise ValueError(f"measures of {probe.name} cannot be simulated")
    return measures


def findings_of_studies(
    probe: Probe, design: pl.DataFrame, bias: float, settings: Sequence[Settings]
) -> Iterator[pl.DataFrame]:
    """Yield the findings of one simulated study of a probe for each of the settings."""
    for seed, settings_of_study in enumerate(settings):
        measures = simulated_measures(probe, design, bias, seed)
        yield probe.analyse(measures, settings_of_study)["findings"]
