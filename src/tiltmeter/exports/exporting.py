"""One function for all formats: what was asked for is checked, then the writer of the format is called."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import NamedTuple

from tiltmeter import runs
from tiltmeter.errors import InputError
from tiltmeter.registry import check_known


class Wanted(NamedTuple):
    """What a writer is asked for."""

    run: runs.Run
    path: Path
    """The file or folder to make; for a service, the run folder."""
    table: str
    every: bool
    """Every finding, not only the key ones."""
    model: str | None
    """Only this model; None: all of them."""
    format: str


class Format(NamedTuple):
    """One format.

    `writer` is "module:function"; the function takes a `Wanted` and makes what is wanted whole or not at all; that of a service returns an
    address for each thing the service was given.
    """

    writer: str
    makes: str
    """What comes out, in a few words."""
    suffix: str | None
    """Of the file's name; empty for a folder, None for a service, which is given no path."""
    tables: tuple[str, ...] | None = ("findings",)
    """What it can be asked for, the first being the default; None: any table."""
    one_model: bool = True
    """Whether it can be narrowed to one model."""


FORMATS: Mapping[str, Format] = {
    "csv": Format("tiltmeter.exports.plain_tables:write_table", "a table, formulas made harmless", ".csv", tables=None),
    "json": Format("tiltmeter.exports.plain_tables:write_table", "a table as a list of objects", ".json", tables=None),
    "jsonl": Format("tiltmeter.exports.plain_tables:write_table", "a table, one object a line", ".jsonl", tables=None),
    "parquet": Format("tiltmeter.exports.plain_tables:write_table", "a table, typed and compressed", ".parquet", tables=None),
    "markdown": Format("tiltmeter.exports.documents:write_markdown", "a table to read", ".md", tables=("findings", "normalised")),
    "latex": Format("tiltmeter.exports.documents:write_latex", "a table for a paper (booktabs)", ".tex", tables=("findings", "normalised")),
    "huggingface": Format("tiltmeter.exports.cards:write_dataset", "a dataset folder with its card", "", one_model=False),
    "modelcard": Format("tiltmeter.exports.cards:write_card", "a section and metadata for a model card", ".md"),
    "mlflow": Format("tiltmeter.exports.trackers:log_to_mlflow", "an MLflow run for each model", None),
    "wandb": Format("tiltmeter.exports.trackers:log_to_wandb", "a Weights & Biases run for each model", None),
}
"""Name to format; another one is another entry."""


FOLDER = "exports"
"""Where, in the run folder, a file goes for which no place was given."""


def export(
    run: runs.Run | str | Path,
    format: str,
    path: str | Path | None = None,
    *,
    table: str | None = None,
    every: bool = False,
    model: str | None = None,
) -> list[str]:
    """Give a run, or a table of it, to another tool.

    Parameters
    ----------
    run
        A run, its folder, or its name under the runs folder.
    format
        One of `FORMATS`.
    path
        The file or folder to make, by default one named after the table in `exports/` of the run folder. Services take none.
    table
        "findings", "normalised" (key metrics of all models on one scale), "responses", "measures", "design", "examples", or a table of
        the method's own. Formats for readers know the first two only, those of a whole run only the first.
    every
        Every finding instead of the key ones, in formats made for readers and in trackers; plain tables always hold every row.
    model
        Only this model.

    Returns
    -------
    list of str
        Where it is: one path, or an address for each model a service was given.

    Raises
    ------
    InputError
        There is no such run, format, table or model, the format cannot do what is asked, or the place cannot be written.
    ProviderError
        A service does not take it.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> run = tm.run("benchmarks/g20", model="sim/fair", limit=2, display="none", out="fair")
    >>> tm.export(run, "latex", "fair.tex")
    ['fair.tex']
    """
    opened = runs.load(run)
    check_known(format, FORMATS, f"there is no format {format!r}")
    chosen = FORMATS[format]
    if model is not None:
        check_known(model, [one["name"] for one in opened.about["models"]], f"{opened.place} has no model {model!r}")
        if not chosen.one_model:
            raise InputError(f"the format {format} takes the run as it is, with all its models; leave out --model")
    name = _chosen_table(format, chosen, table)
    if every and name != "findings":
        raise InputError(f"--all is about the findings; leave it out for --table {name}")
    place = _place(opened, format, chosen, name, path)
    made: list[str] = resolve_name(chosen.writer)(Wanted(opened, place, name, every, model, format))
    if chosen.suffix is None:
        return made
    if path is not None:
        return [str(place)]
    opened.folder.hand_over(place)
    return [opened.folder.named(place)]


def _chosen_table(format: str, chosen: Format, table: str | None) -> str:
    known = chosen.tables or ("findings",)
    if table is not None and chosen.tables is not None and table not in known:
        others = ", ".join(name for name, one in FORMATS.items() if one.tables is None)
        raise InputError(f"--table {table}: the format {format} can show {' or '.join(known)} only; tables go into {others}")
    return table or known[0]


def _place(run: runs.Run, format: str, chosen: Format, table: str, path: str | Path | None) -> Path:
    """Where to write; never over what the run itself is made of."""
    if chosen.suffix is None:
        if path is not None:
            raise InputError(f"the format {format} writes no file but logs to where its own settings point; leave out -o")
        return run.path
    if path is None:
        name = {"huggingface": "dataset", "modelcard": "modelcard"}.get(format, table)
        return run.path / FOLDER / f"{name}{chosen.suffix}"
    target, home = Path(path).resolve(), run.path.resolve()
    is_table = target.parent == home and target.suffix == ".parquet"
    if is_table or target == home or any(target.is_relative_to(home / own) for own in ("stages", "run.json", "study.yaml")):
        raise InputError(f"{path} belongs to the run itself, which an export leaves as it is; give another place with -o")
    return Path(path)
