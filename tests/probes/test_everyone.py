"""Sentences about models in the suite `everyone`: a small case of the study `perf/studies/everyone.py`."""

from __future__ import annotations

import pytest
from perf.studies.everyone import KEY_TESTS, PARTS, carry_out, fair_tables

from tiltmeter.datasets import Library
from tiltmeter.probes._everyone_suite import suite

pytestmark = pytest.mark.verify


def test_the_study_has_the_parts_and_the_tests_of_the_suite(library: Library) -> None:
    assert suite.parts == PARTS
    findings = [fair_tables(name, "quick", 0)[0] for name in PARTS]
    assert sum(table["key"].sum() for table in findings) == KEY_TESTS


def test_no_bias_of_fair_models_is_stated(library: Library) -> None:
    """The seeds are fixed.

    For other seeds, the probability that at most three of 20 suites state a bias is 98% at a rate of 5%, 23%
    at 25% and 0.1% at 50%. The study has 500 suites.
    """
    (claim,) = carry_out("fair 0", studies=20)
    assert claim.observed <= 3 / 20


def test_a_bias_by_age_twice_as_large_as_planned_is_stated(library: Library) -> None:
    """The seeds are fixed.

    For other seeds, the probability that four or more of five studies state the bias is 98% at a rate of 95%,
    53% at 70% and 19% at 50%.
    """
    (claim,) = carry_out("planted dreaddit_age", studies=5)
    assert claim.observed >= 4 / 5
