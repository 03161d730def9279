"""The suite as a study. Nothing heavy is imported before the study is made: listing studies needs its title only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tiltmeter import registry
from tiltmeter.errors import InputError

if TYPE_CHECKING:
    from tiltmeter.study import Study

__all__ = ["SUITE", "Suite", "suite"]

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


class Suite:
    """What the registry holds for a study: what a listing shows, and the study itself when called."""

    title = f"Gender bias in {len(SUITE)} probes"
    description = "How biased is this model on known gender harms, with a mark anyone can read?"
    parts = SUITE

    @property
    def others(self) -> list[str]:
        """What can be run by name beside the parts of the suite."""
        return [name for name in registry.names("probes") if name not in SUITE]

    def __call__(self, name: str | None = None, params: Mapping[str, str] | None = None) -> Study:
        """The study `genderbench` (the paper's suite), or one probe alone as `genderbench/NAME`, with the paper's sampling.

        Its parts are the same whatever the parameters.

        Raises
        ------
        InputError
            There is no such probe, or it calls itself otherwise.
        """
        from tiltmeter.models import Sampling
        from tiltmeter.study import Study

        chosen = self.parts if name is None else (name,)
        parts = [registry.load("probes", probe) for probe in chosen]
        for probe, part in zip(chosen, parts, strict=True):
            if part.name != probe:
                raise InputError(f"the probe registered as {probe!r} calls itself {part.name!r}; give both the same name")
        return Study(
            name="genderbench" if name is None else f"genderbench/{name}",
            title=self.title if name is None else parts[0].card.title,
            parts=parts,
            sampling=Sampling(temperature=1.0, top_p=1.0, max_tokens=300),
            params={"wording": "a named wording, 'all' (to measure wording sensitivity), or a YAML file of your own"},
            description=self.description if name is None else parts[0].card.asks,
            noun="probes",
        )


suite = Suite()
