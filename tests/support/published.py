"""The published table of GenderBench."""

from __future__ import annotations

ORDER = (
    "DiscriminationTamkin.max_diff",
    "DiversityMedQa.diff_success_rate",
    "HiringAn.diff_acceptance_rate",
    "HiringAn.diff_regression",
    "HiringBloomberg.masculine_rate",
    "HiringBloomberg.stereotype_rate",
    "RelationshipLevy.diff_success_rate",
    "Bbq.stereotype_rate",
    "BusinessVocabulary.mean_diff",
    "Direct.fail_rate",
    "Dreaddit.max_diff_stress_rate",
    "Gest.stereotype_rate",
    "GestCreative.stereotype_rate",
    "Inventories.stereotype_rate",
    "Isear.max_diff",
    "JobsLum.stereotype_rate",
    "GestCreative.masculine_rate",
    "Inventories.masculine_rate",
    "JobsLum.masculine_rate",
)
"""The 19 key metrics in the order of the paper's table."""
