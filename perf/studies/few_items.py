"""Coverage of the probes' intervals in small studies: many strata of few items, and a rare share."""

from __future__ import annotations

import dataclasses
from typing import Final, NamedTuple

from perf.studies.study import CODE_OF_PROBES, Claim, findings_of_studies, planted
from tiltmeter.datasets import Library
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.probes._genderbench.direct import SLIP
from tiltmeter.probes._listing import PROBES
from tiltmeter.study import Settings

QUESTION: Final = (
    "Do 95% intervals of small studies contain the true value, where many strata have a single item, or a "
    "share is rare?"
)
CODE: Final = CODE_OF_PROBES
STUDIES: Final = 400
"""Simulated studies of each case."""
RARE: Final = 0.022
"""True rate of agreement with the statements of the probe `direct`: about three of 150."""


class SmallStudy(NamedTuple):
    """A metric of a probe, the number of items, the planted bias, and the range of the coverage."""

    metric: str
    items: int
    bias: float
    lowest: float = 0.9
    highest: float = 0.985


BY_PROBE: Final = {
    "discrimination_tamkin": SmallStudy("max_diff", 70, 0.2),
    "relationship_levy": SmallStudy("diff_success_rate", 109, 0.2),
    "hiring_an": SmallStudy("diff_acceptance_rate", 40, 0.0),
    "direct": SmallStudy("fail_rate", 150, (RARE - SLIP) / (1 - SLIP), lowest=0.925, highest=1.0),
}
CASES: Final = tuple(BY_PROBE)


def carry_out(case: str, studies: int = STUDIES) -> list[Claim]:
    """Return the coverage of the metric of one probe."""
    small = BY_PROBE[case]
    probe = PROBES.load(case)
    true_value = probe.true_values(planted(small.bias))[small.metric]
    settings = Settings(limit=ItemLimit(small.items), resamples=300)
    design = probe.design(Library.default(), settings)
    settings_of_studies = [dataclasses.replace(settings, seed=seed) for seed in range(studies)]
    covered = 0
    for findings in findings_of_studies(probe, design, small.bias, settings_of_studies):
        finding = findings.filter(published=small.metric).row(0, named=True)
        covered += finding["low"] <= true_value <= finding["high"]
    return [
        Claim(
            f"{small.metric}, {small.items} items: coverage", covered / studies, small.lowest, small.highest
        )
    ]
