"""What an experiment tracker is told of each model: parameters, metrics, tags and files."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import polars as pl

from tiltmeter._text import printable
from tiltmeter.errors import InputError
from tiltmeter.exports._formats import Wanted
from tiltmeter.exports._plain import csv_table
from tiltmeter.exports._tables import findings_of
from tiltmeter.reports import Shown, write_page
from tiltmeter.study import NAMED

__all__ = ["Tracked", "library", "tracked"]

_FOREIGN = re.compile(r"[^\w. \-]+")
"""What not every tracker allows in a name; a slash would make a folder of it."""
_LONGEST_NAME = 200
"""Bytes of a metric's name; trackers keep metrics in files called so."""
_LONGEST = 500
"""Characters of a parameter or tag; trackers refuse very long ones."""
_SETTINGS = ("definition", "seed", "limit", "repeats", "resamples", "level", "system_message", "judge", "tiltmeter", "params", "sampling")


class Tracked(NamedTuple):
    """One model of a run as a tracker's run."""

    name: str
    params: dict[str, str]
    metrics: dict[str, float]
    """Each finding by PART.METRIC, with its interval as `_low` and `_high`."""
    tags: dict[str, str]
    """The model, whether the run is complete, and the mark of each graded finding as `mark.NAME`."""
    findings: pl.DataFrame
    """Every finding of the model, lists as JSON."""
    files: tuple[Path, ...]
    """findings.csv, report.html, run.json and study.yaml."""


def library(name: str) -> Any:
    """The tracker's module; raises InputError saying what to install where it is lacking."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise InputError(f'the format {name} needs a library that is not installed: pip install "tiltmeter[{name}]"') from None


@contextmanager
def tracked(wanted: Wanted) -> Iterator[Iterator[Tracked]]:
    """One `Tracked` per model; its files are there until the block ends."""
    names = [wanted.model] if wanted.model is not None else [one["name"] for one in wanted.run.about["models"]]
    shown = wanted.run.shown
    with TemporaryDirectory(prefix="tiltmeter-") as folder:
        yield (_tracked(wanted, shown, name, Path(folder) / str(i)) for i, name in enumerate(names))


def _tracked(wanted: Wanted, shown: Shown, name: str, place: Path) -> Tracked:
    place.mkdir()
    about = shown.about
    of_model = pl.col("model") == name
    mine = Shown(shown.findings.filter(of_model), about, shown.examples.filter(of_model), shown.definitional.filter(of_model))
    readable = csv_table(mine.findings.lazy()).collect()
    readable.write_csv(place / "findings.csv", quote_style="non_numeric")
    page = write_page([mine], place / "report.html")
    metrics, marks = _metrics(findings_of(wanted._replace(model=name)))
    settings = {key: about[key] for key in _SETTINGS if about.get(key) not in (None, {})}
    tags = {"model": name, "complete": str(about["complete"]).lower(), **marks}
    return Tracked(
        name=_short(f"{about['study']} {name}"),
        params=_texts({"model": name, "study": about["study"], **settings}),
        metrics=metrics,
        tags=_texts(tags),
        findings=readable,
        files=(place / "findings.csv", page, wanted.run.path / "run.json", wanted.run.path / "study.yaml"),
    )


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {key: _short(value if isinstance(value, str) else json.dumps(value)) for key, value in values.items()}


def _short(said: str) -> str:
    said = printable(said, one_line=True)
    return said if len(said) <= _LONGEST else said[: _LONGEST - 1] + "…"


def _metrics(findings: pl.DataFrame) -> tuple[dict[str, float], dict[str, str]]:
    """Values and marks by name; names that become the same are told apart by a number."""
    metrics: dict[str, float] = {}
    marks: dict[str, str] = {}
    taken: set[str] = set()
    times: Counter[str] = Counter()
    for row in findings.iter_rows(named=True):
        name = plain = _plain(row)
        times[plain] += 1
        if times[plain] > 1:
            name = f"{plain}_{times[plain]}"
        while not taken.isdisjoint((name, f"{name}_low", f"{name}_high")):
            times[plain] += 1
            name = f"{plain}_{times[plain]}"
        found = {name: row["estimate"], f"{name}_low": row["low"], f"{name}_high": row["high"]}
        taken |= set(found)
        metrics |= {key: value for key, value in found.items() if value is not None and math.isfinite(value)}
        if row["mark"] is not None:
            marks[f"mark.{name}"] = row["mark"]
    return metrics, marks


def _plain(row: Mapping[str, Any]) -> str:
    """`PART.METRIC`, and what the finding is about where it is not the model as a whole."""
    names = [row["study"].rpartition("/")[2], *(row[name] for name in NAMED)]
    plain = _FOREIGN.sub("_", ".".join(name for name in names if name is not None))
    return plain.encode()[:_LONGEST_NAME].decode(errors="ignore").strip()
