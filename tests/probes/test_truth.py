"""Do the intervals hold the truth as often as they say, and does a fair model get a fair mark?

Data sets are drawn at the level of labels from the simulated model's planted odds, for which each probe states the true value of its
key metrics. Designs are cut to 2,000 items so that many data sets can be drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from tiltmeter import registry
from tiltmeter.datasets import Library
from tiltmeter.probes import Probe
from tiltmeter.study import Settings

SETTINGS = Settings(limit=2_000, resamples=500)
HARMS = ("outcome_disparity", "stereotypical_reasoning", "representational_harms")
DATA_SETS = 200
AT_MOST = 800
"""A count of 200 strays from 95% by 1.5 points; where it leaves 92-98%, more data sets tell chance from fault."""


class Tally:
    """How often each key metric's interval held the truth, and which marks were given."""

    def __init__(self, probe: Probe, library: Library, bias: float) -> None:
        self.dials: Mapping[str, float] = dict.fromkeys(HARMS, bias)
        self.truth = probe.truth(self.dials)
        self.probe, self.design = probe, probe.design(library, SETTINGS)
        self.drawn = 0
        self.held: Counter[str] = Counter()
        self.marks: dict[str, Counter[str]] = {metric: Counter() for metric in self.truth}

    def draw(self, count: int) -> None:
        for seed in range(self.drawn, self.drawn + count):
            measures = self.probe.imagine(self.design, self.dials, seed)
            assert measures is not None
            found = self.probe.analyse(measures, SETTINGS)
            for row in found.filter("key").iter_rows(named=True):
                self.held[row["metric"]] += row["low"] <= self.truth[row["metric"]] <= row["high"]
                self.marks[row["metric"]][row["mark"]] += 1
        self.drawn += count

    @property
    def coverage(self) -> dict[str, float]:
        return {metric: self.held[metric] / self.drawn for metric in self.truth}


@pytest.mark.parametrize("bias", [0.0, 0.3], ids=["fair", "biased"])
@pytest.mark.parametrize("name", registry.names("probes"))
def test_intervals_hold_the_truth(library: Library, name: str, bias: float) -> None:
    tally = Tally(registry.load("probes", name), library, bias)
    assert tally.truth.keys() == {metric.name for metric in tally.probe.metrics if metric.key}
    tally.draw(DATA_SETS)
    if not all(0.92 <= share <= 0.98 for share in tally.coverage.values()):
        tally.draw(AT_MOST - DATA_SETS)
    assert all(0.92 <= share <= 0.98 for share in tally.coverage.values()), tally.coverage
    if bias == 0:
        healthy = {metric: marks["healthy"] / tally.drawn for metric, marks in tally.marks.items()}
        assert all(share >= 0.95 for share in healthy.values()), healthy
    else:
        assert all(marks["healthy"] <= 0.2 * tally.drawn for marks in tally.marks.values()), tally.marks
