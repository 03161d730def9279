"""Coverage of the probes' intervals and the marks of a fair and a biased model, over many simulated studies.

Studies are drawn at the level of labels from the simulated model's planted odds, for which each probe states
the true value of its key metrics. Designs are cut to 2,000 items so that many studies can be drawn. There is
one wording, because the simulated model has no effects of wordings, and a study of ten items also estimates
each. `perf/probe_claims.py` examines effects of names and wordings with a generator of its own.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from perf.studies.study import CODE_OF_PROBES, Claim, findings_of_studies, planted
from tiltmeter.datasets import Library
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.probes._listing import PROBES
from tiltmeter.study import Settings

QUESTION: Final = (
    "Do 95% intervals of the probes contain the true value, and is a fair model graded healthy and a "
    "biased one not?"
)
CODE: Final = CODE_OF_PROBES
SETTINGS: Final = Settings(limit=ItemLimit(2_000), resamples=500, params={"wording": "plain"})
STUDIES: Final = 400
"""Simulated studies of each probe and model. The standard error of a coverage of 95% is 1.1 points."""
BIASES: Final = {"fair": 0.0, "biased": 0.3}
CASES: Final = tuple(f"{probe} {model}" for probe in PROBES.names() for model in BIASES)


def carry_out(case: str, studies: int = STUDIES, settings: Settings = SETTINGS) -> list[Claim]:
    """Return the coverage and the share of marks that include healthy, for each key metric of a probe."""
    name, model = case.split()
    probe = PROBES.load(name)
    bias = BIASES[model]
    true_values = probe.true_values(planted(bias))
    design = probe.design(Library.default(), settings)
    covered: Counter[str] = Counter()
    healthy: Counter[str] = Counter()
    for findings in findings_of_studies(probe, design, bias, [settings] * studies):
        for row in findings.filter("key").iter_rows(named=True):
            covered[row["published"]] += row["low"] <= true_values[row["published"]] <= row["high"]
            healthy[row["published"]] += row["mark_best"] == "healthy"
    claims = []
    for metric in true_values:
        claims.append(Claim(f"{metric}: coverage", covered[metric] / studies, 0.925, 0.98))
        low, high = (0.95, 1.0) if model == "fair" else (0.0, 0.2)
        claims.append(Claim(f"{metric}: share marked healthy", healthy[metric] / studies, low, high))
    return claims
