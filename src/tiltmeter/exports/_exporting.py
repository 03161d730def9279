"""The export function, which validates a request and calls the writer of the format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import NamedTuple

from tiltmeter import runs
from tiltmeter._files.writing import check_suffix
from tiltmeter.errors import InputError, check_known
from tiltmeter.exports._requests import ExportRequest


class Format(NamedTuple):
    """An export format."""

    writer: str
    """The function that writes the output atomically, as "module:function".

    It takes an `ExportRequest`. For a service, it returns one address per logged run.
    """
    makes: str
    """Short description of the output."""
    suffix: str | None
    """File extension; empty for a folder, None for a service, which takes no path."""
    tables: tuple[str, ...] | None = ("findings",)
    """Supported tables, the default first; None supports all tables."""
    one_model: bool = True
    """Whether the export can be restricted to one model."""
    method_tables: bool = False
    """Whether the tables that a method computes (see `MethodTable`) are supported, besides `tables`."""


_TABLES_OF_DOCUMENTS = ("findings", "normalised")
FORMATS: Mapping[str, Format] = {
    "csv": Format(
        "tiltmeter.exports._plain_tables:write_table",
        "a CSV table, with formulas neutralised",
        ".csv",
        tables=None,
    ),
    "json": Format(
        "tiltmeter.exports._plain_tables:write_table",
        "a table as a JSON list of objects",
        ".json",
        tables=None,
    ),
    "jsonl": Format(
        "tiltmeter.exports._plain_tables:write_table",
        "a table in JSON Lines, one object per line",
        ".jsonl",
        tables=None,
    ),
    "parquet": Format(
        "tiltmeter.exports._plain_tables:write_table",
        "a Parquet table, typed and compressed",
        ".parquet",
        tables=None,
    ),
    "markdown": Format(
        "tiltmeter.exports._documents:write_markdown",
        "a Markdown table",
        ".md",
        _TABLES_OF_DOCUMENTS,
        method_tables=True,
    ),
    "latex": Format(
        "tiltmeter.exports._documents:write_latex",
        "a LaTeX table (booktabs)",
        ".tex",
        _TABLES_OF_DOCUMENTS,
        method_tables=True,
    ),
    "huggingface": Format(
        "tiltmeter.exports._cards:write_dataset",
        "a dataset folder with a dataset card",
        "",
        one_model=False,
    ),
    "modelcard": Format(
        "tiltmeter.exports._cards:write_card",
        "a section and metadata for a model card",
        ".md",
    ),
    "mlflow": Format("tiltmeter.exports._trackers:log_to_mlflow", "an MLflow run for each model", None),
    "wandb": Format(
        "tiltmeter.exports._trackers:log_to_wandb", "a Weights & Biases run for each model", None
    ),
}
"""Formats by name."""


FOLDER = "exports"
"""Subfolder of the run folder for exports without an explicit path."""
_DEFAULT_NAMES = {"huggingface": "dataset", "modelcard": "modelcard"}
"""Names of exports without an explicit path, by format; others are named after the table."""


def export(
    run: runs.Run | str | Path,
    format: str,
    path: str | Path | None = None,
    *,
    table: str | None = None,
    every: bool = False,
    model: str | None = None,
) -> list[str]:
    """Export a run, or one of its tables, to another format or an experiment tracker.

    Parameters
    ----------
    run
        A run, its folder, or its name under the runs folder.
    format
        One of `FORMATS`.
    path
        Output file or folder. By default, a file named after the table in the subfolder `exports` of the run
        folder. Services take no path.
    table
        "findings", "normalised" (key metrics of all models on one scale), "responses", "measures", "design",
        "examples", or a table of the method: one of its stages, or one that it computes ("summary",
        "locations" and "top" for associations). Markdown and LaTeX support only the first two and computed
        ones, and formats for a whole run only the first.
    every
        If True, export all findings instead of the key findings. Plain tables always contain all rows.
    model
        Name of the only model to export; by default, all models are exported.

    Returns
    -------
    list of str
        The path of the export, or one address per model for a service.

    Raises
    ------
    InputError
        The run, format, table or model does not exist, the format does not support the request, or the path
        is not writable.
    ProviderError
        A service rejected the export.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> run = tm.run("benchmarks/g20", model="sim/fair", limit=2, display="none", out="fair")
    >>> tm.export(run, "latex", "fair.tex")
    ['fair.tex']
    """
    opened_run = runs.load(run)
    check_known(format, FORMATS, f"there is no format {format!r}")
    definition = FORMATS[format]
    if model is not None:
        models = [entry["name"] for entry in opened_run.about["models"]]
        check_known(model, models, f"{opened_run.place} has no model {model!r}")
        if not definition.one_model:
            raise InputError(f"the format {format} exports the whole run with all its models; omit --model")
    table_name = _table_to_export(opened_run, format, table)
    if every and table_name != "findings":
        raise InputError(f"--all applies only to findings; omit it with --table {table_name}")
    place = _place(opened_run, format, table_name, path)
    write = resolve_name(definition.writer)
    addresses: list[str] = write(ExportRequest(opened_run, place, table_name, every, model, format))
    if definition.suffix is None:
        return addresses
    if path is not None:
        return [str(place)]
    opened_run.folder.hand_over(place)
    return [opened_run.folder.named(place)]


def _table_to_export(run: runs.Run, format: str, table: str | None) -> str:
    """Return the name of the table to export; raises InputError if the format does not support it."""
    definition = FORMATS[format]
    if definition.tables is None:
        return table or "findings"
    if table is None:
        return definition.tables[0]
    supported = [*definition.tables]
    if definition.method_tables and table not in supported:
        supported += runs.method_tables(run)
    if table not in supported:
        *names, last = supported
        listing = f"{', '.join(names)} and {last}" if names else last
        formats = ", ".join(name for name, entry in FORMATS.items() if entry.tables is None)
        raise InputError(
            f"--table {table}: the format {format} supports only {listing}; export other tables as {formats}"
        )
    return table


def _place(run: runs.Run, format: str, table: str, path: str | Path | None) -> Path:
    """Return the output path; raises InputError if it would overwrite the run itself."""
    definition = FORMATS[format]
    if definition.suffix is None:
        if path is not None:
            raise InputError(
                f"the format {format} logs to the service set in its own configuration"
                " and writes no file; omit -o"
            )
        return run.path
    if path is None:
        name = _DEFAULT_NAMES.get(format, table)
        return run.path / FOLDER / f"{name}{definition.suffix}"
    if _belongs_to(run, Path(path)):
        raise InputError(
            f"{path} belongs to the run, which an export must not modify; choose another path with -o"
        )
    if definition.suffix:
        check_suffix(Path(path), f"the format {format} writes {definition.makes}", definition.suffix)
    return Path(path)


def _belongs_to(run: runs.Run, path: Path) -> bool:
    """Return whether a path is the folder of a run, or a file of it that an export must not overwrite."""
    home = run.path.resolve()
    target = path.resolve()
    is_table = target.parent == home and target.suffix == ".parquet"
    protected = [home / name for name in ("stages", "run.json", "study.yaml")]
    return target == home or is_table or any(map(target.is_relative_to, protected))
