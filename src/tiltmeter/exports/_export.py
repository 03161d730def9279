"""One function for all formats: what was asked for is checked, then the format's writer is called."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiltmeter.errors import InputError
from tiltmeter.exports._formats import FORMATS, Format, Wanted
from tiltmeter.registry import did_you_mean

if TYPE_CHECKING:
    from tiltmeter.runs import Run

__all__ = ["export"]

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
    name = _table(format, chosen, table)
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
    if name not in FORMATS:
        raise InputError(f"there is no format {name!r}: {did_you_mean(name, list(FORMATS))}")
    return FORMATS[name]


def _table(format: str, chosen: Format, table: str | None) -> str:
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
