"""A run into MLflow, where MLflow's own settings point (MLFLOW_TRACKING_URI, MLFLOW_EXPERIMENT_NAME)."""

from __future__ import annotations

from typing import Any

from tiltmeter._text import printable, redacted
from tiltmeter.errors import ProviderError
from tiltmeter.exports._formats import Wanted
from tiltmeter.exports._tracked import Tracked, library, tracked

__all__ = ["log_run"]

_BATCH = 300
"""Findings a request may tell of: a server takes 1,000 metrics at most."""


def log_run(wanted: Wanted) -> list[str]:
    """One MLflow run per model, with parameters, metrics, tags, findings.csv and report.html; returns `runs:/ID` of each.

    Raises
    ------
    InputError
        MLflow is not installed.
    ProviderError
        It does not take the run; a run that was begun is marked as failed there.
    """
    mlflow = library("mlflow")
    with tracked(wanted) as models:
        return [_log(mlflow, one) for one in models]


def _log(mlflow: Any, one: Tracked) -> str:
    try:
        with mlflow.start_run(run_name=one.name, tags=one.tags, nested=True) as run:
            mlflow.log_params(one.params)
            metrics = list(one.metrics.items())
            for start in range(0, len(metrics), 3 * _BATCH):
                mlflow.log_metrics(dict(metrics[start : start + 3 * _BATCH]))
            for file in one.files:
                mlflow.log_artifact(str(file))
            return f"runs:/{run.info.run_id}"
    except (mlflow.exceptions.MlflowException, OSError, ImportError) as error:
        said = printable(redacted(str(error)), one_line=True)[:300]
        place = redacted(mlflow.get_tracking_uri())
        raise ProviderError(f"MLflow at {place} does not take the run: {said}; see MLFLOW_TRACKING_URI") from error
