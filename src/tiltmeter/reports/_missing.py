"""What of a study was not measured of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tiltmeter.reports._harms import HARMS, harm_title

__all__ = ["missing", "not_run"]


def missing(model: str, parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Parts and harms of which there is nothing, and parts of which there is not everything.

    Parameters
    ----------
    parts
        The entry `parts` of run.json.

    Returns
    -------
    Mapping with `absent` (titles), `partly` (`title`, `found`, `wanted`), `harms` (`title`, `asks`, `parts`: titles), and `found`, `wanted`
    and `unit` of all parts together (`wanted` 0 where run.json does not say).
    """
    counts = {name: one["responses"][model] for name, one in parts.items() if model in one.get("responses", {})}
    titles = {name: one.get("title") or name for name, one in parts.items()}
    measured = {name for name, one in parts.items() if one["status"] == "run" and (name not in counts or counts[name]["found"])}
    by_harm: dict[str, list[str]] = {}
    for name, one in parts.items():
        for harm in one.get("harms", ()):
            by_harm.setdefault(harm, []).append(name)
    return {
        "absent": [titles[name] for name in parts if name not in measured],
        "partly": [{"title": titles[name], **one} for name, one in counts.items() if name in measured and one["found"] < one["wanted"]],
        "harms": [
            {"title": harm_title(harm), "asks": HARMS[harm].asks if harm in HARMS else "", "parts": [titles[name] for name in names]}
            for harm, names in by_harm.items()
            if not measured.intersection(names)
        ],
        "found": sum(one["found"] for one in counts.values()),
        "wanted": sum(one["wanted"] for one in counts.values()),
        "unit": next((one["unit"] for one in counts.values()), ""),
    }


def not_run(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Titles of the parts that were not run, by the reason; `parts` is that entry of run.json."""
    found: dict[str, list[str]] = {}
    for name, one in parts.items():
        if one["status"] != "run":
            found.setdefault(one.get("reason") or "for a reason not told", []).append(one.get("title") or name)
    return found
