"""Export of runs to experiment trackers: MLflow and Weights & Biases."""

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

from polars import DataFrame

from tiltmeter.errors import InputError, ProviderError
from tiltmeter.exports.plain_tables import findings_of
from tiltmeter.exports.requests import ExportRequest
from tiltmeter.reports import Report, write_page
from tiltmeter.reports.files import csv_table
from tiltmeter.runs.presenting import blocks_of
from tiltmeter.sanitising import printable, redacted, shortened
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
def tracked(wanted: ExportRequest) -> Iterator[Iterator[Tracked]]:
    """Yield one `Tracked` per model; its files are deleted when the block ends."""
    names = (
        [wanted.model] if wanted.model is not None else [one["name"] for one in wanted.run.about["models"]]
    )
    with TemporaryDirectory(prefix="tiltmeter-") as folder:
        yield (_tracked(wanted, name, Path(folder) / str(i)) for i, name in enumerate(names))


def _tracked(wanted: ExportRequest, name: str, place: Path) -> Tracked:
    place.mkdir()
    about = wanted.run.about
    readable = csv_table(wanted.run.findings.filter(model=name).lazy()).collect()
    readable.write_csv(place / "findings.csv", quote_style="non_numeric")
    page = write_page(Report([about], blocks_of([wanted.run], only={"model": name})), place / "report.html")
    metrics, marks = _metrics(findings_of(wanted._replace(model=name)))
    settings = {key: about[key] for key in _SETTINGS if about.get(key) not in (None, {})}
    tags = {"model": name, "complete": str(about["complete"]).lower(), **marks}
    return Tracked(
        name=shortened(f"{about['study']} {name}", _MAX_TEXT),
        params=_texts({"model": name, "study": about["study"], **settings}),
        metrics=metrics,
        tags=_texts(tags),
        findings=readable,
        files=(place / "findings.csv", page, wanted.run.path / "run.json", wanted.run.path / "study.yaml"),
    )


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {
        key: shortened(value if isinstance(value, str) else json.dumps(value), _MAX_TEXT)
        for key, value in values.items()
    }


def _metrics(findings: DataFrame) -> tuple[dict[str, float], dict[str, str]]:
    """Return values and marks by name; duplicate names are numbered."""
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
    """Return the tracker's name of a finding: PART.METRIC, followed by group, concept, context and wording."""
    names = [row[name] for name in ("part", "metric", "group", "group_2", "concept", "context", "wording")]
    plain = _FORBIDDEN.sub("_", ".".join(name for name in names if name is not None))
    return plain.encode()[:_MAX_NAME].decode(errors="ignore").strip()


_BATCH = 900
"""Number of metrics per request; servers accept at most 1,000."""


def log_to_mlflow(wanted: ExportRequest) -> list[str]:
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
    except (
        ModuleNotFoundError
    ) as error:  # a part of MLflow is installed (mlflow-skinny), which writes to servers only
        install = 'pip install "tiltmeter[mlflow]", or set MLFLOW_TRACKING_URI to a server'
        raise InputError(
            f"MLflow needs the package {error.name} to write to {redacted(mlflow.get_tracking_uri())}: {install}"
        ) from None
    except (mlflow.exceptions.MlflowException, OSError) as error:
        raise _rejection(
            f"MLflow at {redacted(mlflow.get_tracking_uri())}", error, "MLFLOW_TRACKING_URI"
        ) from error


def log_to_wandb(wanted: ExportRequest) -> list[str]:
    """Log one Weights & Biases run per model: parameters as config, metrics as summary, findings as a table, files as an artifact.

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
    return _log(wanted, "wandb", _log_wandb)


def _log(wanted: ExportRequest, name: str, log_one: Callable[[Any, Tracked], str]) -> list[str]:
    """Call `log_one` with the tracker's module for each model and return the addresses."""
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise InputError(
            f'the format {name} requires a package that is not installed: pip install "tiltmeter[{name}]"'
        ) from None
    with tracked(wanted) as models:
        return [log_one(module, one) for one in models]


def _rejection(service: str, error: Exception, remedy: str) -> ProviderError:
    message = printable(redacted(str(error)), one_line=True)[:300]
    return ProviderError(f"{service} rejected the run: {message}; check {remedy}")


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
            run.log(
                {
                    "findings": wandb.Table(
                        columns=one.findings.columns, data=[list(row) for row in one.findings.iter_rows()]
                    )
                }
            )
            artifact = wandb.Artifact(re.sub(r"[^A-Za-z0-9_.-]+", "-", one.name)[:120], type="tiltmeter-run")
            for file in one.files:
                artifact.add_file(str(file))
            run.log_artifact(artifact)
            return str(run.url or run.dir)
    except (wandb.Error, OSError) as error:
        raise _rejection("Weights & Biases", error, "WANDB_MODE, WANDB_BASE_URL and `wandb login`") from error
