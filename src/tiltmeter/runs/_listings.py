"""The studies that can be run, and rows that describe studies, probes and providers.

Built-in plugins are listed with few imports.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from tiltmeter._plugins.registry import Registry
from tiltmeter.errors import UnusablePlugin
from tiltmeter.models import ENDPOINTS, PROVIDERS, provider_factory
from tiltmeter.probes import PROBES, load_probe

STUDIES: Final = Registry(
    "studies",
    "study",
    {
        "genderbench": "tiltmeter.probes._suite:suite",
        "everyone": "tiltmeter.probes._everyone_suite:suite",
        "associations": "tiltmeter.associations._suite:suite",
        "benchmarks": "tiltmeter.benchmarks._suite:suite",
        "decisions": "tiltmeter.decisions._suite:suite",
    },
    required="a callable that creates a study",
)
"""Studies by name. Each is registered as a callable that creates it; its attributes title, description and
parts (names) are listed."""


def list_studies() -> list[dict[str, Any]]:
    """Return `study`, `title`, `parts` (number of parts) and `about` (description) for each study."""
    rows = []
    for name, suite in usable(STUDIES).items():
        title, description = getattr(suite, "title", ""), getattr(suite, "description", "")
        parts = len(getattr(suite, "parts", ()))
        rows.append({"study": name, "title": title, "parts": parts or None, "about": description})
    return rows


def list_probes() -> list[dict[str, Any]]:
    """Return `study` and the fields of the card for each probe."""
    probes = usable(PROBES, load_probe)
    return [{"study": f"genderbench/{name}", **asdict(probe.card)} for name, probe in probes.items()]


def list_models() -> list[dict[str, Any]]:
    """Return `model`, `endpoint` and `key from` for each provider."""

    def check(name: str) -> object:  # built-in providers are listed without importing them
        return name if PROVIDERS.is_built_in(name) else provider_factory(name)

    rows = []
    for name in usable(PROVIDERS, check):
        endpoint = ENDPOINTS.get(name)
        if endpoint is None:
            rows.append({"model": f"{name}/...", "endpoint": "", "key from": ""})
        else:
            address = endpoint.base_url or "--base-url"
            rows.append({"model": f"{name}/...", "endpoint": address, "key from": endpoint.key_variable})
    return rows


def usable(plugins: Registry, load: Callable[[str], Any] | None = None) -> dict[str, Any]:
    """Return the usable plugins of a kind by name; warn about each unusable one."""
    loaded, unusable = plugins.load_all(load)
    for name, reason in unusable.items():
        warnings.warn(f"not listed: {name}: {reason}", UnusablePlugin, stacklevel=3)
    return loaded
