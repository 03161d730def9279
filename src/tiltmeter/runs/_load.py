"""A run as an object: its tables, its findings, and the responses behind each number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from tiltmeter.errors import InputError
from tiltmeter.runs._folder import RunFolder, reading, runs_root
from tiltmeter.study import Finding

__all__ = ["Run", "known_runs", "load"]


class Run:
    """A run folder opened for reading. Tables are read when asked for.

    Attributes
    ----------
    folder
        Where it lives.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.folder.path

    @property
    def about(self) -> dict[str, Any]:
        """The content of run.json: versions, settings, data licences, counts, problems."""
        return self.folder.read_json()

    @property
    def findings(self) -> pl.DataFrame:
        """One row per number (the columns of `tiltmeter.study.FINDINGS`)."""
        return self.folder.read("findings")

    @property
    def design(self) -> pl.DataFrame:
        """One row per prompt."""
        return self.folder.read("design")

    @property
    def responses(self) -> pl.DataFrame:
        """One row per model and attempt, with the answer's text."""
        return self.folder.read("responses")

    @property
    def measures(self) -> pl.DataFrame:
        """One row per model and attempt, with factors, outcome and label."""
        return self.folder.read("measures")

    def finding(self, metric: str, *, model: str | None = None, study: str | None = None) -> Finding:
        """One finding by the name of its metric; narrow with `model` and `study` where several share it.

        Raises
        ------
        InputError
            No finding, or more than one, fits.
        """
        where = [pl.col("metric") == metric, pl.col("context").is_null()]
        where += [pl.col(name) == value for name, value in (("model", model), ("study", study)) if value is not None]
        found = self.findings.filter(where)
        if found.height != 1:
            choices = self.findings.select(pl.concat_str("study", pl.lit(" "), "metric", pl.lit(" "), "model")).to_series().to_list()
            fits = "no finding fits" if found.is_empty() else f"{found.height} findings fit"
            raise InputError(f"{fits} {metric!r}; give study= and model= (for instance {', '.join(choices[:3])})")
        return Finding.from_row(found.row(0, named=True))

    def evidence(self, metric: str, *, model: str | None = None, study: str | None = None, limit: int | None = None) -> pl.DataFrame:
        """The attempts a finding rests on, with prompt and answer: at most `limit` rows of the finding `finding` gives.

        Raises
        ------
        InputError
            No finding, or more than one, fits.
        """
        finding = self.finding(metric, model=model, study=study)
        condition = finding.values["evidence"]
        measures, responses, design = (self.folder.scan(table) for table in ("measures", "responses", "design"))
        texts = responses.select("model", "prompt_id", "repetition", "answer", "thinking", "key")
        with reading(self.path):
            query = pl.SQLContext(measures=measures).execute(f"SELECT * FROM measures WHERE {condition}")  # noqa: S608
            chosen = query.filter(pl.col("model") == finding.model)
            if limit is not None:
                chosen = chosen.head(limit)
            return (
                chosen.join(texts, on=["model", "prompt_id", "repetition"], maintain_order="left")
                .join(design.select("prompt_id", "prompt"), on="prompt_id", how="left", maintain_order="left")
                .collect()
            )


def load(path: str | Path) -> Run:
    """Open a run by its folder, or by its name under the runs folder; raises InputError if there is none."""
    return Run(RunFolder.open(path))


def known_runs() -> list[dict[str, Any]]:
    """Runs under the runs folder: name, study, models, completeness, when written; oldest first. What cannot be read is left out."""
    found: list[dict[str, Any]] = []
    for path in sorted(runs_root().glob("*/run.json")):
        try:
            about = RunFolder(path.parent).read_json()
        except InputError:
            continue
        models = [model["name"] for model in about["models"]]
        shown = {"study": about["study"], "models": models, "complete": about["complete"], "written": about["written"]}
        found.append({"name": path.parent.name} | shown)
    return sorted(found, key=lambda run: str(run["written"]))
