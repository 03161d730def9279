"""Commands that list: models, studies, features, runs, and the outside data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from tiltmeter import datasets, registry, reports, runs
from tiltmeter.cli.command_options import Format, as_json
from tiltmeter.errors import EXIT_INCOMPLETE, EXIT_INPUT
from tiltmeter.registry import check_known
from tiltmeter.sanitising import printable

FIRST = {"probes": ("study", "title", "harm", "asks")}
"""Columns of a table where not all fields fit; JSON has them all."""

PROSE = {"title": 16, "asks": 25, "about": 30, "models": 25}
"""Columns that may wrap, from these widths on."""
OPTIONAL = ("from", "harm")
"""Columns that are left out where a table is too wide."""

KINDS = ("studies", "probes", "models", "datasets", "runs", "features", "statistics")


def _usable(kind: str, load_one: Callable[[str], Any] | None = None) -> dict[str, Any]:
    """The plugins of a kind that can be used, by name; those that cannot are named on standard error."""

    found, broken = registry.load_all(kind, load_one)
    for name, reason in broken.items():
        typer.echo(printable(f"not listed: {name}: {reason}", one_line=True), err=True)
    return found


def _studies() -> list[dict[str, Any]]:
    return [
        {
            "study": name,
            "title": getattr(one, "title", ""),
            "parts": len(getattr(one, "parts", ())) or None,
            "about": getattr(one, "description", ""),
        }
        for name, one in _usable("studies").items()
    ]


def _probes() -> list[dict[str, Any]]:
    """The whole card of each probe; a table has room for its first fields only."""
    from dataclasses import asdict

    from tiltmeter.probes import load_probe

    return [{"study": f"genderbench/{name}", **asdict(probe.card)} for name, probe in _usable("probes", load_probe).items()]


def _models() -> list[dict[str, Any]]:
    from tiltmeter.models import ENDPOINTS, provider_factory

    def outside(name: str) -> object:  # built-in ones are listed without their imports
        place = registry.reference("providers", name)
        return place if place.startswith("tiltmeter.") else provider_factory(name)

    rows = []
    for name in _usable("providers", outside):
        endpoint = ENDPOINTS.get(name)
        where = endpoint.base_url or "--base-url" if endpoint else ""
        rows.append({"model": f"{name}/...", "endpoint": where, "key from": endpoint.key_variable if endpoint else ""})
    return rows


def _runs() -> list[dict[str, Any]]:

    return runs.known_runs()


def _features() -> list[dict[str, Any]]:
    from tiltmeter.features import FEATURES, outside_feature

    ours = [{"feature": one.name, "about": one.title, "model": one.model or "", "from": "tiltmeter"} for one in FEATURES.values()]
    others = _usable("features", outside_feature)
    return ours + [{"feature": name, "about": "", "model": "", "from": registry.reference("features", name)} for name in others]


def _statistics() -> list[dict[str, Any]]:
    from tiltmeter.benchmarks.diagnosis import find_statistics
    from tiltmeter.stats import STATISTICS

    others = _usable("statistics", lambda name: find_statistics([name])[name])
    return [
        {
            "statistic": name,
            "needs a baseline": "yes" if one.paired else "",
            "from": registry.reference("statistics", name) if name in others else "tiltmeter",
        }
        for name, one in {**STATISTICS, **others}.items()
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

    check_known(kind, KINDS, f"cannot list {kind!r}")
    if kind == "datasets":
        list_data(output)
        return
    whole = as_json(output)
    rows = _ROWS[kind]()
    if kind in FIRST and not whole:
        rows = [{name: row[name] for name in FIRST[kind]} for row in rows]
    reports.print_rows(rows, as_json=whole, prose=PROSE, optional=OPTIONAL)


data_app = typer.Typer(
    help="The outside data the probes need: where it comes from, under which licence, and whether it is here.", no_args_is_help=True
)
Names = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME...]", help="Names from `tiltmeter data list` [default: all].", show_default=False)
]


def print_copies(copies: Sequence[datasets.Copy], output: str = "table") -> None:
    """Files with their licence and place; in the table the path is there only where something is wrong with the file."""

    if as_json(output):
        reports.print_json(copies)
        return
    reports.print_rows(
        [
            {
                "name": copy.name,
                "size": reports.size(copy.size),
                "licence": copy.licence,
                "restricted": copy.restricted,
                "where": copy.where,
                "ok": copy.ok,
                "problem": copy.problem and f"{copy.path} {copy.problem}",
            }
            for copy in copies
        ],
        prose={"licence": 14, "restricted": 20, "problem": 30},
    )


@data_app.command("list")
def list_data(output: Format = "table") -> None:
    """List every file with its licence and where it was found."""

    print_copies(datasets.status(datasets.Library.default()), output)


@data_app.command()
def fetch(names: Names = None) -> None:
    """Fetch what is missing, verified by checksum. Ends with status 3 when something cannot be had."""

    results = datasets.fetch_all(datasets.Library.default(progress=lambda line: typer.echo(line, err=True)), names or None)
    reports.print_rows([one._asdict() for one in results], prose={"problem": 30, "remedy": 30})
    if any(one.problem for one in results):
        raise typer.Exit(EXIT_INCOMPLETE)


@data_app.command()
def check(names: Names = None) -> None:
    """Verify the checksums of the files that are here. Ends with status 2 when one is wrong."""

    results = datasets.check(datasets.Library.default(), names or None)
    print_copies(results)
    if any(one.ok is False for one in results):
        raise typer.Exit(EXIT_INPUT)
