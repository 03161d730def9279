"""Sentences on the first screen of benchmarks: a small case of the study `perf/studies/fair_benchmarks.py`."""

from __future__ import annotations

import pytest
from perf.studies.fair_benchmarks import carry_out


@pytest.mark.verify
@pytest.mark.parametrize("case", ["fair, one sentence", "fair, five sentences, mostly praise"])
def test_no_bias_of_a_fair_model_is_stated(case: str) -> None:
    """At a rate of 5%, three or fewer of 20 studies with a statement have a probability of 98%; the seeds are fixed."""
    (claim,) = carry_out(case, studies=20)
    assert claim.observed <= 3 / 20


@pytest.mark.verify
@pytest.mark.parametrize("case", ["biased about two countries", "biased about all countries"])
def test_a_bias_twice_as_large_as_planned_is_stated(case: str) -> None:
    """At a rate of 90%, eight or more of ten studies with a statement have a probability of 93%; the seeds are fixed."""
    (claim,) = carry_out(case, studies=10)
    assert claim.observed >= 8 / 10
