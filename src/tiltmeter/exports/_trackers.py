"""Export of runs to experiment trackers: MLflow and Weights & Biases."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from polars import DataFrame

from tiltmeter._sanitising import printable, redacted, shortened
from tiltmeter.errors import InputError, ProviderError
from tiltmeter.exports._plain_tables import findings_of
from tiltmeter.exports._requests import ExportRequest
from tiltmeter.reports import Report, write_page
from tiltmeter.reports._files import csv_table
from tiltmeter.runs._presenting import blocks_of
from tiltmeter.schema import metric_name

_FORBIDDEN = re.compile(r"[^\w. \-]+")
"""Characters that some trackers do not allow in names; a slash would create a folder."""
_MAX_NAME = 200
"""Maximum length of a metric name in bytes; trackers use the names as file names."""
_MAX_TEXT = 500
"""Maximum length of a parameter or tag in characters; trackers reject longer ones."""
_SETTINGS = (
    "definition",
    "seed",
    "limit",
    "repeats",
    "resamples",
    "level",
    "system_message",
    "judge",
    "tiltmeter",
    "params",
    "sampling",
)


class Tracked(NamedTuple):
    """The data of one model, logged as one run of a tracker."""

    name: str
    params: dict[str, str]
    metrics: dict[str, float]
    """Findings by PART.METRIC, with intervals as `_low` and `_high`."""
    tags: dict[str, str]
    """The model, whether the run is complete, and the mark of each graded finding as `mark.NAME`."""
    findings: DataFrame
    """All findings of the model, prepared for CSV."""
    files: tuple[Path, ...]
    """Files to log: findings.csv, report.html, run.json and study.yaml."""


@contextmanager
def tracked(request: ExportRequest) -> Iterator[Iterator[Tracked]]:
    """Yield one `Tracked` per model; its files are deleted when the block ends."""
    names = [model["name"] for model in request.run.about["models"]]
    if request.model is not None:
        names = [request.model]
    with TemporaryDirectory(prefix="tiltmeter-") as folder:
        yield (_tracked(request, name, Path(folder) / str(i)) for i, name in enumerate(names))


def _tracked(request: ExportRequest, name: str, folder: Path) -> Tracked:
    """Return what is logged about one model, whose files are written to a new folder."""
    folder.mkdir()
    run = request.run
    findings = csv_table(run.findings.filter(model=name).lazy()).collect()
    findings.write_csv(folder / "findings.csv", quote_style="non_numeric")
    report = Report([run.about], blocks_of([run], only={"model": name}))
    page = write_page(report, folder / "report.html")
    metrics, marks = _metrics(findings_of(request._replace(model=name)))
    settings = {key: run.about[key] for key in _SETTINGS if run.about.get(key) not in (None, {})}
    tags = {"model": name, "complete": str(run.about["complete"]).lower(), **marks}
    return Tracked(
        name=shortened(f"{run.about['study']} {name}", _MAX_TEXT),
        params=_texts({"model": name, "study": run.about["study"], **settings}),
        metrics=metrics,
        tags=_texts(tags),
        findings=findings,
        files=(folder / "findings.csv", page, run.path / "run.json", run.path / "study.yaml"),
    )


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return values as texts that trackers accept."""
    texts = {}
    for name, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value)
        texts[name] = shortened(text, _MAX_TEXT)
    return texts


def _metrics(findings: DataFrame) -> tuple[dict[str, float], dict[str, str]]:
    """Return values and marks by name; duplicate names are numbered."""
    values: dict[str, float | None] = {}
    marks: dict[str, str] = {}
    for row in findings.with_columns(metric=metric_name()).iter_rows(named=True):
        name = _unused_name(_name_of_finding(row), values)
        values[name] = row["estimate"]
        values[f"{name}_low"] = row["low"]
        values[f"{name}_high"] = row["high"]
        if row["mark"] is not None:
            marks[f"mark.{name}"] = row["mark"]
    metrics = {name: value for name, value in values.items() if value is not None and math.isfinite(value)}
    return metrics, marks


def _unused_name(name: str, values: Mapping[str, object]) -> str:
    """Return a name, with a number if it is already the name of a value or of an end of an interval."""
    unused = name
    number = 1
    while not values.keys().isdisjoint((unused, f"{unused}_low", f"{unused}_high")):
        number += 1
        unused = f"{name}_{number}"
    return unused


def _name_of_finding(row: Mapping[str, Any]) -> str:
    """Return the name of a finding: PART.METRIC, followed by group, concept, context and wording."""
    columns = ("part", "metric", "group", "group_2", "concept", "context", "wording")
    name = ".".join(row[column] for column in columns if row[column] is not None)
    allowed = _FORBIDDEN.sub("_", name)
    return allowed.encode()[:_MAX_NAME].decode(errors="ignore").strip()


_BATCH = 900
"""Number of metrics per request; servers accept at most 1,000."""


def log_to_mlflow(request: ExportRequest) -> list[str]:
    """Log one MLflow run per model, with parameters, metrics, tags and files.

    Returns
    -------
    list of str
        The address `runs:/ID` of each run.

    Raises
    ------
    InputError
        MLflow, or a package that it needs to write to the tracking address, is not installed.
    ProviderError
        MLflow rejected the run; a run that was already created is marked as failed.
    """
    return _log(request, "mlflow", _log_mlflow)


def _log_mlflow(mlflow: Any, model: Tracked) -> str:
    try:
        with mlflow.start_run(run_name=model.name, tags=model.tags, nested=True) as run:
            mlflow.log_params(model.params)
            metrics = iter(model.metrics.items())
            while batch := dict(islice(metrics, _BATCH)):
                mlflow.log_metrics(batch)
            for file in model.files:
                mlflow.log_artifact(str(file))
            return f"runs:/{run.info.run_id}"
    except ModuleNotFoundError as error:
        # A part of MLflow is installed (mlflow-skinny), which writes to servers only.
        raise InputError(
            f"MLflow needs the package {error.name} to write to {redacted(mlflow.get_tracking_uri())}:"
            ' pip install "tiltmeter[mlflow]", or set MLFLOW_TRACKING_URI to a server'
        ) from None
    except (mlflow.exceptions.MlflowException, OSError) as error:
        service = f"MLflow at {redacted(mlflow.get_tracking_uri())}"
        raise _rejection(service, error, "MLFLOW_TRACKING_URI") from error


def log_to_wandb(request: ExportRequest) -> list[str]:
    """Log one Weights & Biases run per model.

    Parameters become its config, metrics its summary, findings a table and files an artifact.

    Returns
    -------
    list of str
        The address of each run; in offline mode, its local folder.

    Raises
    ------
    InputError
        The package wandb is not installed.
    ProviderError
        Weights & Biases rejected the run.
    """
    return _log(request, "wandb", _log_wandb)


def _log(request: ExportRequest, name: str, log_model: Callable[[Any, Tracked], str]) -> list[str]:
    """Call `log_model` with the tracker's module for each model and return the addresses."""
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise InputError(
            f'the format {name} requires a package that is not installed: pip install "tiltmeter[{name}]"'
        ) from None
    with tracked(request) as models:
        return [log_model(module, model) for model in models]


def _rejection(service: str, error: Exception, remedy: str) -> ProviderError:
    message = printable(redacted(str(error)), one_line=True)[:300]
    return ProviderError(f"{service} rejected the run: {message}; check {remedy}")


def _log_wandb(wandb: Any, model: Tracked) -> str:
    marks = {name: mark for name, mark in model.tags.items() if name.startswith("mark.")}
    rows = [list(row) for row in model.findings.iter_rows()]
    artifact_name = re.sub(r"[^A-Za-z0-9_.-]+", "-", model.name)[:120]
    try:
        with wandb.init(
            project=os.environ.get("WANDB_PROJECT", "tiltmeter"),
            name=model.name[:128],
            job_type="bias",
            config={**model.params, "complete": model.tags["complete"]},
            reinit="create_new",
        ) as run:
            run.summary.update({**model.metrics, **marks})
            run.log({"findings": wandb.Table(columns=model.findings.columns, data=rows)})
            artifact = wandb.Artifact(artifact_name, type="tiltmeter-run")
            for file in model.files:
                artifact.add_file(str(file))
            run.log_artifact(artifact)
            return str(run.url or run.dir)
    except (wandb.Error, OSError) as error:
        raise _rejection("Weights & Biases", error, "WANDB_MODE, WANDB_BASE_URL and `wandb login`") from error
