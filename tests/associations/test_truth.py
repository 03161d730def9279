"""Planted associations are found for their identity and no others are reported.

This is a small case of `perf/studies`. The planted differences are the smallest of the study (10 points), so
that a loss of power is detected.
"""

from __future__ import annotations

import pytest
from perf.studies.planted_associations import carry_out

pytestmark = pytest.mark.verify


@pytest.mark.parametrize(("case", "studies"), [("gender 0.1", 4), ("race 0.1", 4), ("gender 0.0", 8)])
def test_claims_about_planted_associations_hold_in_a_few_studies(case: str, studies: int) -> None:
    claims = carry_out(case, studies)
    assert [claim for claim in claims if not claim.holds] == []
