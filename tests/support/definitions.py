"""Definitions of the three methods by name."""

from __future__ import annotations

from tiltmeter.associations import _definitions as association_definitions
from tiltmeter.benchmarks import _definitions as benchmark_definitions
from tiltmeter.definitions import of_method
from tiltmeter.probes import _definitions as probe_definitions
from tiltmeter.runs._definitions import definition_named


def probe_definition(name: str) -> probe_definitions.ProbeDefinition:
    """Return a definition of probes."""
    return of_method(definition_named(name, "probes"), probe_definitions.DEFAULT)


def association_definition(name: str) -> association_definitions.AssociationDefinition:
    """Return a definition of associations."""
    return of_method(definition_named(name, "associations"), association_definitions.DEFAULT)


def benchmark_definition(name: str) -> benchmark_definitions.BenchmarkDefinition:
    """Return a definition of benchmarks."""
    return of_method(definition_named(name, "benchmarks"), benchmark_definitions.DEFAULT)
