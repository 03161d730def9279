"""Listing commands: studies, probes, models, features, statistics, runs and external data."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from tiltmeter import datasets, reports, runs
from tiltmeter._cli.command_options import Format, as_json
from tiltmeter.blocks import Text
from tiltmeter.datasets._library import COPIES, MODELS
from tiltmeter.errors import EXIT_INCOMPLETE, EXIT_INPUT, check_known
from tiltmeter.runs import _listings as listings

KINDS: Final = ("prices", "studies", "probes", "models", "datasets", "runs", "features", "statistics")
"""Kinds of objects that can be listed."""
_COLUMNS: Final = {"probes": ("study", "title", "harm", "asks")}
"""Columns shown in tables where not all fields fit; JSON output has all fields."""
_PROSE: Final = {"title": 16, "asks": 25, "about": 30, "models": 25}
"""Columns that may wrap, with their minimum widths."""
_OPTIONAL: Final = ("from", "harm")
"""Columns that are omitted if a table is too wide."""
_LOCAL_MODELS: Final = (
    "hf/... is a model that runs in this process: a name on the Hugging Face hub, a folder,"
    " or a GGUF file (hf/FILE.gguf)."
)


def _runs() -> list[dict[str, Any]]:
    return runs.known_runs()


def _prices() -> list[dict[str, Any]]:
    from tiltmeter.engine import Prices
    from tiltmeter.runs._price_list import price_list

    return price_list(datasets.Library.default(), Prices.load())


def _features() -> list[dict[str, Any]]:
    from tiltmeter.features import FEATURES, OUTSIDE_FEATURES, outside_feature

    built_in = [
        {
            "feature": feature.name,
            "about": feature.title,
            "model": feature.model or "",
            "from": "tiltmeter",
        }
        for feature in FEATURES.values()
    ]
    plugins = [
        {"feature": name, "about": "", "model": "", "from": OUTSIDE_FEATURES.reference(name)}
        for name in listings.usable(OUTSIDE_FEATURES, outside_feature)
    ]
    return built_in + plugins


def _statistics() -> list[dict[str, Any]]:
    from tiltmeter.benchmarks._definitions import OUTSIDE_STATISTICS, find_statistics
    from tiltmeter.stats import STATISTICS

    plugins = listings.usable(OUTSIDE_STATISTICS, lambda name: find_statistics([name])[name])
    return [
        {
            "statistic": name,
            "needs a baseline": "yes" if statistic.paired else "",
            "from": OUTSIDE_STATISTICS.reference(name) if name in plugins else "tiltmeter",
        }
        for name, statistic in {**STATISTICS, **plugins}.items()
    ]


_ROWS: Final[Mapping[str, Callable[[], list[dict[str, Any]]]]] = {
    "prices": _prices,
    "studies": listings.list_studies,
    "probes": listings.list_probes,
    "models": listings.list_models,
    "runs": _runs,
    "features": _features,
    "statistics": _statistics,
}


def list_things(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="[prices|studies|probes|models|datasets|runs|features|statistics]",
            help="Kind of objects to list; prices: all studies and their parts, with calls and price.",
        ),
    ] = "prices",
    output: Format = "table",
) -> None:
    """List studies with their parts and prices, probes, models and other available objects."""
    check_known(kind, KINDS, f"cannot list {kind!r}")
    if kind == "datasets":
        list_data(output)
        return
    is_json = as_json(output)
    rows = _ROWS[kind]()
    if kind == "prices" and not is_json:
        _print_prices(rows)
        return
    if kind in _COLUMNS and not is_json:
        rows = [{name: row[name] for name in _COLUMNS[kind]} for row in rows]
    reports.print_rows(rows, as_json=is_json, prose=_PROSE, optional=_OPTIONAL)
    if kind == "models" and not is_json:
        reports.print_blocks([Text(f"{_LOCAL_MODELS} {_catalogued_models()}")])


def _print_prices(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print all studies and their parts, compactly; a dash where the data are not on this machine."""
    from tiltmeter.engine import Prices
    from tiltmeter.runs._price_list import MODEL, SIZE

    printed = [
        {
            "study": row["study"],
            "title": row["title"],
            "calls": "–".rjust(6) if row["calls"] is None else f"{row['calls']:6,}",
            "at most": "–".rjust(7) if row["dollars"] is None else f"${row['dollars']:,.2f}".rjust(7),
        }
        for row in rows
    ]
    reports.print_rows(printed, prose={"title": 16})
    price = Prices.load().price(MODEL)
    list_price = (
        "" if price is None else f" (${price.input:.2f} in, ${price.output:.2f} out per million tokens)"
    )
    reports.print_text(
        f"calls and highest price: --size {SIZE}, {MODEL}{list_price}. Another size or model:"
        " tiltmeter plan STUDY -m MODEL.",
        always=True,
    )
    if any(row["calls"] is None for row in rows):
        reports.print_text("–: the data are not on this machine (tiltmeter data fetch)", always=True)


def _catalogued_models() -> str:
    """Return a sentence about each model of the catalogue, with the sizes of download and copy."""
    entries = {entry.name: entry for entry in datasets.load_catalogue().entries}
    sentences = []
    for name, file in MODELS.items():
        download, copy = reports.size(entries[file].size or 0), reports.size(COPIES[name])
        sentences.append(
            f"hf/{name} is in the catalogue: {download} are downloaded once, and a copy"
            f" of {copy} is kept in the cache."
        )
    return " ".join(sentences)


_SCHEMAS: Final = {
    "study": ("tiltmeter.runs._resolving", "StudyDocument"),
    "grid": ("tiltmeter.associations._grid", "Grid"),
    "benchmark": ("tiltmeter.benchmarks._builder.spec", "Spec"),
    "probe": ("tiltmeter.probes._table_of_prompts", "ProbeRow"),
}
"""Pydantic models of user-written files; for a probe, the model describes one row of its table."""


def schema(
    kind: Annotated[
        str, typer.Argument(metavar="[study|grid|benchmark|probe]", help="Kind of file.", show_default=False)
    ],
) -> None:
    """Print the JSON schema of a file format, for text editors."""
    from importlib import import_module

    check_known(kind, _SCHEMAS, f"there is no schema for {kind!r}")
    module, name = _SCHEMAS[kind]
    model = getattr(import_module(module), name)
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **model.model_json_schema(),
    }
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))


data_app: Final = typer.Typer(
    help="Manage external data: origin, licence, local copies.", no_args_is_help=True
)
Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME...]", help="Names from `tiltmeter data list` [default: all].", show_default=False
    ),
]


def print_copies(copies: Sequence[datasets.Copy], output: str = "table") -> None:
    """Print files with their licence and location; the table shows a path only for files with a problem."""
    if as_json(output):
        reports.print_json(copies)
        return
    rows = [
        {
            "name": copy.name,
            "size": "" if copy.size is None else reports.size(copy.size),
            "licence": copy.licence,
            "restricted": copy.restricted,
            "where": copy.where,
            "ok": copy.ok,
            "problem": copy.problem and f"{copy.path} {copy.problem}",
        }
        for copy in copies
    ]
    reports.print_rows(rows, prose={"licence": 14, "restricted": 20, "problem": 30})


@data_app.command("list")
def list_data(output: Format = "table") -> None:
    """List all external files with licence and location."""
    print_copies(datasets.status(datasets.Library.default()), output)


@data_app.command()
def fetch(names: Names = None) -> None:
    """Download missing files and verify their checksums. Exit status 3 if one is unavailable."""
    library = datasets.Library.default(progress=lambda line: typer.echo(line, err=True))
    results = datasets.fetch_all(library, names or None)
    rows = [fetched._asdict() for fetched in results]
    reports.print_rows(rows, prose={"problem": 30, "remedy": 30})
    if any(fetched.problem for fetched in results):
        raise typer.Exit(EXIT_INCOMPLETE)


@data_app.command()
def check(names: Names = None) -> None:
    """Verify the checksums of local files. Exit status 2 if one differs."""
    copies = datasets.check(datasets.Library.default(), names or None)
    print_copies(copies)
    if any(copy.ok is False for copy in copies):
        raise typer.Exit(EXIT_INPUT)
