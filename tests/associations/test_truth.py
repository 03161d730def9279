"""Planted associations are found under the right identity and others are not reported: a small case of `perf/studies`.

The planted differences are the smallest of the study (10 points), so that a loss of power is seen.
"""

from __future__ import annotations

import pytest
from perf.studies.planted_associations import carry_out

pytestmark = pytest.mark.verify


@pytest.mark.parametrize(("case", "studies"), [("gender 0.1", 4), ("race 0.1", 4), ("gender 0.0", 8)])
def test_claims_of_a_few_studies_hold(case: str, studies: int) -> None:
    claims = carry_out(case, studies)
    assert [claim for claim in claims if not claim.holds] == []
