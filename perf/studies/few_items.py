"""Coverage of the probes' intervals in small studies, whose designs have many strata of few items."""

from __future__ import annotations

import dataclasses
from typing import Final

from perf.studies.study import CODE_OF_PROBES, Claim, findings_of_studies, planted
from tiltmeter import registry
from tiltmeter.datasets import Library
from tiltmeter.study import Settings

QUESTION: Final = "Do 95% intervals of small studies contain the true value, although many strata have a single item?"
CODE: Final = CODE_OF_PROBES
STUDIES: Final = 400
"""Simulated studies of each case."""
SETTINGS_OF_CASES: Final = {
    "discrimination_tamkin": ("max_diff", 70, 0.2),
    "relationship_levy": ("diff_success_rate", 109, 0.2),
    "hiring_an": ("diff_acceptance_rate", 40, 0.0),
}
"""Metric, number of items and bias of each probe."""
CASES: Final = tuple(SETTINGS_OF_CASES)


def carry_out(case: str, studies: int = STUDIES) -> list[Claim]:
    """Return the coverage of the metric of one probe."""
    metric, limit, bias = SETTINGS_OF_CASES[case]
    probe = registry.load("probes", case)
    true_value = probe.true_values(planted(bias))[metric]
    settings = Settings(limit=limit, resamples=300)
    design = probe.design(Library.default(), settings)
    settings_of_studies = [dataclasses.replace(settings, seed=seed) for seed in range(studies)]
    covered = 0
    for findings in findings_of_studies(probe, design, bias, settings_of_studies):
        finding = findings.filter(metric=metric).row(0, named=True)
        covered += finding["low"] <= true_value <= finding["high"]
    return [Claim(f"{metric}, {limit} items: coverage", covered / studies, 0.9, 0.985)]
