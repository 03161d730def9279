"""The paper's suite as a study. Nothing heavy is imported before the study is made: listing studies needs its title only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tiltmeter import registry
from tiltmeter.errors import InputError

if TYPE_CHECKING:
    from tiltmeter.blocks import Block
    from tiltmeter.probes.base import Probe
    from tiltmeter.study import ReportView, Study

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


class GenderBenchSuite:
    """What the registry holds for a study: what a listing shows, and the study itself when called."""

    title = f"Gender bias in {len(SUITE)} probes"
    source = "GenderBench: Evaluation Suite for Gender Biases in LLMs (2025)"
    description = "How biased is this model on known gender harms, with a mark anyone can read?"
    parts = SUITE

    def __call__(self, name: str | None = None, params: Mapping[str, str] | None = None) -> Study:
        """The study `genderbench` (the paper's suite), or one probe alone as `genderbench/NAME`, with the paper's sampling.

        Its parts are the same whatever the parameters.

        Raises
        ------
        InputError
            There is no such probe, or it cannot be used.
        """
        if name is not None:
            return self.of_part(load_probe(name), f"genderbench/{name}")
        return self._study("genderbench", self.title, [load_probe(probe) for probe in self.parts], self.description)

    def of_part(self, probe: Probe, name: str) -> Study:
        """Return the study that consists of one probe, with the paper's sampling."""
        return self._study(name, probe.card.title, [probe], probe.card.asks)

    def _study(self, name: str, title: str, parts: Sequence[Probe], description: str) -> Study:
        from tiltmeter.models import Sampling
        from tiltmeter.study import Study

        return Study(
            name=name,
            title=title,
            parts=parts,
            sampling=Sampling(temperature=1.0, top_p=1.0, max_tokens=300),
            params={"wording": "a named wording, 'all' (to measure wording sensitivity), or a YAML file of your own"},
            description=description,
            noun="probes",
        )

    def present(self, view: ReportView) -> list[Block]:
        """What a report shows of probes."""
        from tiltmeter.probes.presentation import present

        return present(view)


suite = GenderBenchSuite()


def load_probe(name: str) -> Probe:
    """The probe registered under `name`.

    Raises
    ------
    InputError
        There is no such probe, its module cannot be imported, what it defines is not a probe, or it has another name.
    """
    from tiltmeter.probes.base import Probe

    found = registry.load("probes", name)
    place = registry.reference("probes", name)
    if not isinstance(found, Probe):
        raise InputError(f"{place} is not an instance of a subclass of tiltmeter.probes.Probe but {type(found).__name__}")
    if found.name != name:
        raise InputError(f"the probe registered as {name!r} calls itself {found.name!r}; give both the same name")
    return found
