"""Do the intervals hold the truth as often as they say, and does a fair model get a fair mark?

Data sets are drawn at the level of labels from the simulated model's planted odds, for which each probe states the true value of its
key metrics. Designs are cut to 2,000 items so that many data sets can be drawn.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest

from probes.conftest import dials
from tiltmeter import registry
from tiltmeter.datasets import Library
from tiltmeter.probes import Probe
from tiltmeter.study import Settings

SETTINGS = Settings(limit=2_000, resamples=500, params={"wording": "plain"})
"""One wording: the simulated model has no effects of wordings, and a study of ten also estimates each. See test_populations for those."""


class Look(NamedTuple):
    """After so many data sets: coverages beyond doubt, least and largest share of marks that include healthy (fair and biased model)."""

    drawn: int
    low: float
    high: float
    healthy: float
    unhealthy: float


LOOKS = (
    Look(100, 0.94, 0.97, 0.98, 0.15),
    Look(150, 0.94, 0.97, 0.97, 0.17),
    Look(200, 0.935, 0.975, 0.96, 0.19),
    Look(300, 0.93, 0.977, 0.96, 0.19),
    Look(400, 0.925, 0.98, 0.95, 0.2),
    Look(800, 0.92, 0.98, 0.95, 0.2),
)
"""The fewer the data sets, the nearer to 95% must the coverage be for no more to be drawn. By exact binomial sums an interval that holds
the truth in 95% fails in 1 of 10,000 tests; one that holds it in 85, 88, 90, 91 or 99% passes in 0.5, 4.4, 19, 39 or 13%."""


class Tally:
    """How often each key metric's interval held the truth, and which marks were given."""

    def __init__(self, probe: Probe, library: Library, bias: float, settings: Settings = SETTINGS) -> None:
        self.dials = dials(bias)
        self.truth = probe.true_values(self.dials)
        self.probe, self.settings, self.design = probe, settings, probe.design(library, settings)
        self.drawn = 0
        self.held: Counter[str] = Counter()
        self.marks: dict[str, Counter[str]] = {metric: Counter() for metric in self.truth}

    def draw_until(self, count: int) -> None:
        for seed in range(self.drawn, count):
            measures = self.probe.simulate_measures(self.design, self.dials, seed)
            assert measures is not None
            found = self.probe.analyse(measures, self.settings)["findings"]
            for row in found.filter("key").iter_rows(named=True):
                self.held[row["metric"]] += row["low"] <= self.truth[row["metric"]] <= row["high"]
                self.marks[row["metric"]][row["mark_best"]] += 1
        self.drawn = count

    def doubts(self, look: Look) -> dict[str, tuple[float, float]]:
        """metric -> coverage and share of healthy marks, where either is not what it should be."""
        shares = {metric: (self.held[metric] / self.drawn, self.marks[metric]["healthy"] / self.drawn) for metric in self.truth}
        fair = not any(self.dials.values())
        return {
            metric: (held, healthy)
            for metric, (held, healthy) in shares.items()
            if not look.low <= held <= look.high or (healthy < look.healthy if fair else healthy > look.unhealthy)
        }


@pytest.mark.verify
@pytest.mark.parametrize("bias", [0.0, 0.3], ids=["fair", "biased"])
@pytest.mark.parametrize("name", registry.names("probes"))
def test_intervals_hold_the_truth(library: Library, name: str, bias: float) -> None:
    tally = Tally(registry.load("probes", name), library, bias)
    assert tally.truth.keys() == {metric.name for metric in tally.probe.metrics if metric.key}
    for look in LOOKS:
        tally.draw_until(look.drawn)
        doubts = tally.doubts(look)
        if not doubts:
            return
    pytest.fail(f"after {tally.drawn} data sets: {doubts}")


@pytest.mark.verify
@pytest.mark.parametrize("bias", [0.0, 0.3], ids=["fair", "biased"])
@pytest.mark.parametrize("name", ["direct", "discrimination_tamkin", "jobs_lum"])
def test_a_rate_a_maximum_and_a_slope_hold_the_truth(library: Library, name: str, bias: float) -> None:
    """The quick version: an interval that holds the truth in 95% fails this in 3 of 1,000 cases, one of 75% passes in 10 of 100."""
    tally = Tally(registry.load("probes", name), library, bias, Settings(limit=300, resamples=200))
    tally.draw_until(40)
    assert min(tally.held[metric] for metric in tally.truth) >= 34
