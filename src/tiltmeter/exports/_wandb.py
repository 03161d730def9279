"""A run into Weights & Biases, where its own settings point (WANDB_PROJECT, WANDB_ENTITY, WANDB_MODE)."""

from __future__ import annotations

import os
import re
from typing import Any

from tiltmeter._text import printable, redacted
from tiltmeter.errors import ProviderError
from tiltmeter.exports._formats import Wanted
from tiltmeter.exports._tracked import Tracked, library, tracked

__all__ = ["log_run"]


def log_run(wanted: Wanted) -> list[str]:
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
    wandb = library("wandb")
    with tracked(wanted) as models:
        return [_log(wandb, one) for one in models]


def _log(wandb: Any, one: Tracked) -> str:
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
        said = printable(redacted(str(error)), one_line=True)[:300]
        raise ProviderError(f"Weights & Biases does not take the run: {said}; see WANDB_MODE, WANDB_BASE_URL and `wandb login`") from error
