"""The probe suite of the GenderBench paper as a study.

Heavy modules are imported only when the study is created.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tiltmeter.errors import InputError
from tiltmeter.probes._listing import load_probe

if TYPE_CHECKING:
    from tiltmeter.blocks import Block
    from tiltmeter.probes._parts import Probe
    from tiltmeter.study import ReportView, Study

SUITE: Final = (
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
"""The 14 probes of the paper. Other probes, built-in or from plugins, are run by name, so that the suite
stays comparable."""

CHOOSING: Final = frozenset(("attribute", "language"))
"""Parameters that choose variants of the probes."""


class GenderBenchSuite:
    """Registry entry of the suite: texts for listings; calling it creates the study."""

    title = f"Gender bias in {len(SUITE)} probes"
    source = "GenderBench: Evaluation Suite for Gender Biases in LLMs (2025)"
    description = "How biased is this model on known gender harms, with a grade for each?"
    parts: tuple[str, ...] = SUITE

    def __call__(self, name: str | None = None, params: Mapping[str, str] | None = None) -> Study:
        """Return the study `genderbench` (the paper's suite), or a single probe as `genderbench/NAME`.

        Both have the paper's sampling. The parameters `attribute` and `language` choose a variant of each
        probe; of the suite, only the probes that have it are left.

        Raises
        ------
        InputError
            There is no such probe or variant, or it cannot be used.
        """
        params = params or {}
        if name is not None:
            return self.of_part(_variant(name, params), f"genderbench/{name}")
        if CHOOSING.isdisjoint(params):
            probes = [load_probe(probe) for probe in self.parts]
            return self._study("genderbench", self.title, probes, self.description)
        probes = _variants(self.parts, params)
        return self._study("genderbench", _title_of(probes), probes, self.description)

    def of_part(self, probe: Probe, name: str) -> Study:
        """Return a study of one probe, with the paper's sampling."""
        return self._study(name, probe.card.title, [probe], probe.card.asks)

    def of_table(self, name: str, title: str, probes: Sequence[Probe]) -> Study:
        """Return the study of a table of prompts, with a probe for each attribute.

        It has the paper's sampling, and the parameters of a table.
        """
        from dataclasses import replace

        from tiltmeter.probes._table_roles import TABLE_PARAMS

        only = probes[0].card
        study = self._study(name, title, probes, only.asks)
        return replace(study, params={**study.params, **TABLE_PARAMS}, noun="attributes")

    def _study(self, name: str, title: str, parts: Sequence[Probe], description: str) -> Study:
        from tiltmeter.models import Sampling
        from tiltmeter.study import Study

        return Study(
            name=name,
            title=title,
            parts=parts,
            sampling=Sampling(temperature=1.0, top_p=1.0, max_tokens=300),
            judging=Sampling(temperature=0.0, max_tokens=256),
            params={
                "wording": "'dealt' (default: each item in one of ten wordings), a wording's name, 'all', "
                "or a YAML file",
                "answers": "'free' (default), or 'constrained': the endpoint accepts only one of the "
                "allowed answers, or a refusal",
                "attribute": "the attribute whose groups are compared: gender (default), race, age, ..., or "
                "several for their intersections (race,gender), where the probe has them",
                "language": "the language of the prompts: en (default), or another that the probe has",
                "unread": "'none' (default), or 'judge': a judge (--judge) reads the answers that the rules "
                "leave unread, and no others",
            },
            description=description,
            noun="probes",
        )

    def present(self, view: ReportView) -> list[Block]:
        """Return the report blocks of the probes."""
        from tiltmeter.probes._presentation import present

        return present(view)


def _title_of(variants: Sequence[Probe]) -> str:
    """Return the title of the suite with variants of its probes."""
    from tiltmeter.comparisons import attribute_in_words

    number = "1 probe" if len(variants) == 1 else f"{len(variants)} probes"
    return f"Bias by {attribute_in_words(variants[0].attribute)} in {number}"


def _variants(names: Sequence[str], params: Mapping[str, str]) -> list[Probe]:
    """Return the variants of the probes that have the one that parameters choose.

    Raises
    ------
    InputError
        No probe has it.
    """
    from tiltmeter.probes._attributes._variants import known_attributes
    from tiltmeter.readers._languages import languages

    variants: list[Probe] = []
    for name in names:
        with suppress(InputError):
            variants.append(_variant(name, params))
    if not variants:
        choices = ", ".join(f"-P {name}={params[name]}" for name in sorted(CHOOSING.intersection(params)))
        raise InputError(
            f"{choices}: no probe of genderbench has it; attributes: {', '.join(known_attributes())}; "
            f"languages: {', '.join(languages())}"
        )
    return variants


def _variant(name: str, params: Mapping[str, str]) -> Probe:
    """Return the variant of a probe that parameters choose; raise InputError if there is none."""
    from tiltmeter.probes._attributes._variants import chosen_variant

    in_language = load_probe(name).variant(params)
    return chosen_variant(in_language, params["attribute"]) if "attribute" in params else in_language


suite = GenderBenchSuite()
