"""Runs logged to experiment trackers: MLflow and Weights & Biases."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from itertools import chain, count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from polars import DataFrame, col

from tiltmeter.errors import InputError, ProviderError
from tiltmeter.exports.exporting import Wanted
from tiltmeter.exports.plain_tables import csv_table, findings_of
from tiltmeter.reports import Report, write_page
from tiltmeter.runs.opened_run import blocks_of
from tiltmeter.sanitising import printable, redacted, shortened
from tiltmeter.study import metric_name

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
    findings: DataFrame
    """Every finding of the model, lists as JSON."""
    files: tuple[Path, ...]
    """findings.csv, report.html, run.json and study.yaml."""


@contextmanager
def tracked(wanted: Wanted) -> Iterator[Iterator[Tracked]]:
    """One `Tracked` per model; its files are there until the block ends."""
    names = [wanted.model] if wanted.model is not None else [one["name"] for one in wanted.run.about["models"]]
    with TemporaryDirectory(prefix="tiltmeter-") as folder:
        yield (_tracked(wanted, name, Path(folder) / str(i)) for i, name in enumerate(names))


def _tracked(wanted: Wanted, name: str, place: Path) -> Tracked:
    place.mkdir()
    about = wanted.run.about
    readable = csv_table(wanted.run.findings.filter(col.model == name).lazy()).collect()
    readable.write_csv(place / "findings.csv", quote_style="non_numeric")
    page = write_page(Report([about], blocks_of([wanted.run], only={"model": name})), place / "report.html")
    metrics, marks = _metrics(findings_of(wanted._replace(model=name)))
    settings = {key: about[key] for key in _SETTINGS if about.get(key) not in (None, {})}
    tags = {"model": name, "complete": str(about["complete"]).lower(), **marks}
    return Tracked(
        name=shortened(f"{about['study']} {name}", _LONGEST),
        params=_texts({"model": name, "study": about["study"], **settings}),
        metrics=metrics,
        tags=_texts(tags),
        findings=readable,
        files=(place / "findings.csv", page, wanted.run.path / "run.json", wanted.run.path / "study.yaml"),
    )


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {key: shortened(value if isinstance(value, str) else json.dumps(value), _LONGEST) for key, value in values.items()}


def _metrics(findings: DataFrame) -> tuple[dict[str, float], dict[str, str]]:
    """Values and marks by name; names that become the same are told apart by a number."""
    found: dict[str, float | None] = {}
    marks: dict[str, str] = {}
    for row in findings.with_columns(metric=metric_name()).iter_rows(named=True):
        plain = _plain(row)
        candidates = chain([plain], (f"{plain}_{number}" for number in count(2)))
        name = next(one for one in candidates if found.keys().isdisjoint((one, f"{one}_low", f"{one}_high")))
        found |= {name: row["estimate"], f"{name}_low": row["low"], f"{name}_high": row["high"]}
        if row["mark"] is not None:
            marks[f"mark.{name}"] = row["mark"]
    return {name: value for name, value in found.items() if value is not None and math.isfinite(value)}, marks


def _plain(row: Mapping[str, Any]) -> str:
    """`PART.METRIC`, and what the finding is about where it is not the model as a whole."""
    names = [row[name] for name in ("part", "metric", "group", "group_2", "concept", "context", "wording")]
    plain = _FOREIGN.sub("_", ".".join(name for name in names if name is not None))
    return plain.encode()[:_LONGEST_NAME].decode(errors="ignore").strip()


_BATCH = 900
"""Metrics of a request; a server takes 1,000 at most."""


def log_to_mlflow(wanted: Wanted) -> list[str]:
    """One MLflow run per model, with parameters, metrics, tags, findings.csv and report.html; returns `runs:/ID` of each.

    Raises
    ------
    InputError
        MLflow is not installed.
    ProviderError
        It does not take the run; a run that was begun is marked as failed there.
    """
    return _log(wanted, "mlflow", _log_mlflow)


def _log_mlflow(mlflow: Any, one: Tracked) -> str:
    try:
        with mlflow.start_run(run_name=one.name, tags=one.tags, nested=True) as run:
            mlflow.log_params(one.params)
            metrics = iter(one.metrics.items())
            while some := dict(islice(metrics, _BATCH)):
                mlflow.log_metrics(some)
            for file in one.files:
                mlflow.log_artifact(str(file))
            return f"runs:/{run.info.run_id}"
    except (mlflow.exceptions.MlflowException, OSError, ImportError) as error:
        raise _refused(f"MLflow at {redacted(mlflow.get_tracking_uri())}", error, "MLFLOW_TRACKING_URI") from error


def log_to_wandb(wanted: Wanted) -> list[str]:
    """One run per model: parameters as its config, metrics as its summary, findings as a table, files as an artifact.

    Returns
    -------
    list of str
        The address of each run, or its local folder in offline mode.

    Raises
    ------
    InputError
        The library is not installed.
    ProviderError
        It does not take the run.
    """
    return _log(wanted, "wandb", _log_wandb)


def _log(wanted: Wanted, name: str, log_one: Callable[[Any, Tracked], str]) -> list[str]:
    """Log each model by a function of the tracker's module and the model; returns what it gives."""
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise InputError(f'the format {name} needs a library that is not installed: pip install "tiltmeter[{name}]"') from None
    with tracked(wanted) as models:
        return [log_one(module, one) for one in models]


def _refused(service: str, error: Exception, remedy: str) -> ProviderError:
    said = printable(redacted(str(error)), one_line=True)[:300]
    return ProviderError(f"{service} does not take the run: {said}; see {remedy}")


def _log_wandb(wandb: Any, one: Tracked) -> str:
    marks = {name: mark for name, mark in one.tags.items() if name.startswith("mark.")}
    try:
        with wandb.init(
            project=os.environ.get("WANDB_PROJECT", "tiltmeter"),
            name=one.name[:128],
            job_type="bias",
            config=one.params | {"complete": one.tags["complete"]},
            reinit="create_new",
        ) as run:
            run.summary.update({**one.metrics, **marks})
            run.log({"findings": wandb.Table(columns=one.findings.columns, data=[list(row) for row in one.findings.iter_rows()])})
            artifact = wandb.Artifact(re.sub(r"[^A-Za-z0-9_.-]+", "-", one.name)[:120], type="tiltmeter-run")
            for file in one.files:
                artifact.add_file(str(file))
            run.log_artifact(artifact)
            return str(run.url or run.dir)
    except (wandb.Error, OSError) as error:
        raise _refused("Weights & Biases", error, "WANDB_MODE, WANDB_BASE_URL and `wandb login`") from error
