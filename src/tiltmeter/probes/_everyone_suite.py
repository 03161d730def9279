"""The suite `everyone`: what the tasks of the paper's suite can measure for each attribute.

Heavy modules are imported only when the study is created.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tiltmeter.errors import InputError, check_known
from tiltmeter.probes._attributes._tasks import listed_variants
from tiltmeter.probes._attributes._variants import variant_of
from tiltmeter.probes._listing import load_probe
from tiltmeter.probes._suite import GenderBenchSuite

if TYPE_CHECKING:
    from tiltmeter.probes._parts import Probe
    from tiltmeter.study import Study

GENDER: Final = tuple(dict.fromkeys(probe for probe, _ in listed_variants().values()))
"""The probes of the paper's suite whose tasks have other attributes, too; they measure gender."""


class EveryoneSuite(GenderBenchSuite):
    """Registry entry of the suite: texts for listings; calling it creates the study."""

    title = "Bias by gender, race, age and other attributes"
    source = "Tasks of GenderBench (2025) with the groups of Tiltmeter"
    description = "Does this model treat people differently by gender, race, age, religion, ...?"
    lists_parts = False
    """Whether `tiltmeter list` has a row for each part."""
    parts: tuple[str, ...] = (*GENDER, *listed_variants())

    def __call__(self, name: str | None = None, params: Mapping[str, str] | None = None) -> Study:
        """Return the study `everyone`, or a single part as `everyone/NAME`.

        Raises
        ------
        InputError
            There is no such part, or a parameter chooses another attribute or language.
        """
        for param in ("attribute", "language"):
            if param in (params or {}):
                raise InputError(
                    f"-P {param}= applies to the probes of genderbench; leave it out, and choose parts of "
                    "everyone with --only"
                )
        if name is not None:
            check_known(name, self.parts, f"everyone has no part {name!r}")
            part = _part(name)
            return self._study(f"everyone/{name}", part.card.title, [part], part.card.asks)
        return self._study("everyone", self.title, [_part(part) for part in self.parts], self.description)


def _part(name: str) -> Probe:
    """Return a part of the suite."""
    if name not in GENDER:
        return variant_of(*listed_variants()[name])
    part = copy.copy(load_probe(name))
    part.study = "everyone"
    return part


suite = EveryoneSuite()
