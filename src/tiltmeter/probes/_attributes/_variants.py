"""The variants of the probes of the suite: which attributes each has, and the probe of an attribute."""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Final

from tiltmeter.errors import InputError, check_known
from tiltmeter.probes._attributes._tasks import tasks

if TYPE_CHECKING:
    from tiltmeter.probes._attributes._attribute_probe import AttributeProbe
    from tiltmeter.probes._parts import Probe

USUAL: Final = "gender"
"""The attribute of the probes of the suite themselves."""
MOST_GROUPS: Final = 60
"""Largest number of groups of a probe."""
_CLASSES: Final = {
    "discrimination_tamkin": "_decisions:Decisions",
    "dreaddit": "_personas:Stress",
    "isear": "_personas:Emotions",
    "hiring_an": "_applicants:Letters",
    "business_vocabulary": "_applicants:ReferenceLetters",
    "hiring_bloomberg": "_rankings:Rankings",
    "relationship_levy": "_couples:Couples",
}
"""Module and class of the task of each probe."""


def attributes_of(probe: str) -> tuple[str, ...]:
    """Return the single attributes that a probe of the suite can compare, gender first."""
    task = tasks().get(probe)
    listed = task.attributes if task else ()
    singles = dict.fromkeys(name for attribute in listed for name in attribute.split(","))
    return (USUAL, *(name for name in singles if name != USUAL))


def known_attributes() -> tuple[str, ...]:
    """Return the single attributes of all probes, gender first."""
    return tuple(dict.fromkeys(name for probe in tasks() for name in attributes_of(probe)))


@cache
def variant_of(probe: str, attribute: str) -> AttributeProbe:
    """Return the probe with the task of a probe of the suite that compares another attribute.

    Parameters
    ----------
    probe
        Name of the probe of the suite.
    attribute
        An attribute, or several, separated by commas.

    Raises
    ------
    InputError
        The probe does not have the attribute, or there are too many groups.
    """
    place = f"-P attribute={attribute}"
    names = [name.strip() for name in attribute.split(",")]
    attributes = attributes_of(probe)
    if attributes == (USUAL,):
        with_others = ", ".join(tasks())
        raise InputError(
            f"{place}: {probe} compares {USUAL} only; probes with other attributes: {with_others}"
        )
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{place}: {name!r} is named twice; name it once")
        check_known(name, attributes, f"{place}: {probe} has no attribute {name!r}")
    if len(names) > 1 and not tasks()[probe].combines:
        raise InputError(f"{place}: {probe} compares one attribute at a time: {' or '.join(attributes)}")
    in_order = [name for name in (*attributes[1:], USUAL) if name in names]
    chosen = _class_of(probe)(",".join(in_order))
    if len(chosen.groups) > MOST_GROUPS:
        raise InputError(
            f"{place} has {len(chosen.groups)} groups, more than {MOST_GROUPS}; name fewer attributes"
        )
    return chosen


def chosen_variant(probe: Probe, attribute: str) -> Probe:
    """Return a probe of the suite, or its variant if the attribute is not the usual one.

    Raises
    ------
    InputError
        The probe does not have the attribute.
    """
    return probe if attribute == (probe.attribute or USUAL) else variant_of(probe.name, attribute)


def _class_of(probe: str) -> type[AttributeProbe]:
    module, _, name = _CLASSES[probe].partition(":")
    loaded: type[AttributeProbe] = getattr(importlib.import_module(f"{__package__}.{module}"), name)
    return loaded
