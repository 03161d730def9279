"""One function for all formats: what was asked for is checked, then the writer of the format is called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tiltmeter.errors import InputError
from tiltmeter.registry import check_known, did_you_mean

if TYPE_CHECKING:
    from tiltmeter.runs import Run


class Wanted(NamedTuple):
    """What a writer is asked for."""

    run: Run
    path: Path
    """The file or folder to make; for a service, the run folder."""
    table: str
    every: bool
    """Every finding, not only the key ones."""
    model: str | None
    """Only this model; None: all of them."""


class Format(NamedTuple):
    """One format.

    `writer` is "module:function"; the function takes a `Wanted`, makes what is wanted whole or not at all, and returns where it is:
    one path, or one address for each thing a service was given.
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


_HERE = "tiltmeter.exports"

FORMATS: Mapping[str, Format] = {
    "csv": Format(f"{_HERE}.plain_tables:write_csv", "a table, formulas made harmless", ".csv", tables=None),
    "json": Format(f"{_HERE}.plain_tables:write_json", "a table as a list of objects", ".json", tables=None),
    "jsonl": Format(f"{_HERE}.plain_tables:write_jsonl", "a table, one object a line", ".jsonl", tables=None),
    "parquet": Format(f"{_HERE}.plain_tables:write_parquet", "a table, typed and compressed", ".parquet", tables=None),
    "markdown": Format(f"{_HERE}.documents:write_markdown", "a table to read", ".md", tables=("findings", "normalised")),
    "latex": Format(f"{_HERE}.documents:write_latex", "a table for a paper (booktabs)", ".tex", tables=("findings", "normalised")),
    "huggingface": Format(f"{_HERE}.cards:write_dataset", "a dataset folder with its card", "", one_model=False),
    "modelcard": Format(f"{_HERE}.cards:write_card", "a section and metadata for a model card", ".md"),
    "mlflow": Format(f"{_HERE}.trackers:log_to_mlflow", "an MLflow run for each model", None),
    "wandb": Format(f"{_HERE}.trackers:log_to_wandb", "a Weights & Biases run for each model", None),
}
"""Name to format; another one is another entry."""


FOLDER = "exports"
"""Where, in the run folder, a file goes for which no place was given."""


def export(
    run: Run | str | Path,
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
    """
    from tiltmeter.runs import load

    opened = load(run) if isinstance(run, str | Path) else run
    chosen = _format(format)
    known = opened.about["models"]
    if model is not None and model not in (names := [one["name"] for one in known]):
        raise InputError(f"{opened.place} has no model {model!r}: {did_you_mean(model, names)}")
    if model is not None and not chosen.one_model:
        raise InputError(f"the format {format} takes the run as it is, with all its models; leave out --model")
    name = _chosen_table(format, chosen, table)
    if every and name != "findings":
        raise InputError(f"--all is about the findings; leave it out for --table {name}")
    module, _, function = chosen.writer.partition(":")
    place = _place(opened, format, chosen, name, path)
    writer: Any = getattr(import_module(module), function)
    made: list[str] = writer(Wanted(opened, place, name, every, model))
    if path is not None or chosen.suffix is None:
        return made
    opened.folder.hand_over(place)
    return [opened.folder.named(place)]


def _format(name: str) -> Format:
    check_known(name, FORMATS, f"there is no format {name!r}")
    return FORMATS[name]


def _chosen_table(format: str, chosen: Format, table: str | None) -> str:
    known = chosen.tables or ("findings",)
    if table is not None and chosen.tables is not None and table not in known:
        others = ", ".join(name for name, one in FORMATS.items() if one.tables is None)
        raise InputError(f"--table {table}: the format {format} can show {' or '.join(known)} only; tables go into {others}")
    return table or known[0]


def _place(run: Run, format: str, chosen: Format, table: str, path: str | Path | None) -> Path:
    """Where to write; never over what the run itself is made of."""
    if chosen.suffix is None:
        if path is not None:
            raise InputError(f"the format {format} writes no file but logs to where its own settings point; leave out -o")
        return run.path
    if path is None:
        name = {"huggingface": "dataset", "modelcard": "modelcard"}.get(format, table)
        return run.path / FOLDER / f"{name}{chosen.suffix}"
    target, home = Path(path).resolve(), run.path.resolve()
    if target == home or (home in target.parents and _is_of_run(target, home)):
        raise InputError(f"{path} belongs to the run itself, which an export leaves as it is; give another place with -o")
    return Path(path)


def _is_of_run(target: Path, home: Path) -> bool:
    first = target.relative_to(home).parts[0]
    return first in ("stages", "run.json", "study.yaml") or (target.parent == home and target.suffix == ".parquet")
