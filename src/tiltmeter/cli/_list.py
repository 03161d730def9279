"""`tiltmeter list [studies|probes|models|datasets|runs]`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tiltmeter.cli._data import list_data
from tiltmeter.cli._options import Format, as_json

__all__ = ["list_things"]

FIRST = {"probes": ("study", "title", "harm", "asks")}
"""Columns of a table where not all fields fit; JSON has them all."""

KINDS = ("studies", "probes", "models", "datasets", "runs")


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


def list_things(
    kind: Annotated[str, typer.Argument(metavar="[studies|probes|models|datasets|runs]", help="What to list.")] = "studies",
    output: Format = "table",
) -> None:
    """List studies, probes, model providers, datasets or runs."""
    from tiltmeter.errors import InputError
    from tiltmeter.registry import did_you_mean
    from tiltmeter.reports import print_rows

    if kind not in KINDS:
        raise InputError(f"cannot list {kind!r}: {did_you_mean(kind, KINDS)}")
    if kind == "datasets":
        list_data(output)
        return
    rows = {"studies": _studies, "probes": _probes, "models": _models, "runs": _runs}[kind]()
    whole = as_json(output)
    if kind in FIRST and not whole:
        rows = [{name: row[name] for name in FIRST[kind]} for row in rows]
    print_rows(rows, as_json=whole)
