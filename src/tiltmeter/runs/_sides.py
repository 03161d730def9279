"""The two sides of a comparison: the choice of runs and models, and access to their tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from polars import DataFrame, String, col

from tiltmeter._files.yaml import read_yaml
from tiltmeter.errors import InputError, check_known
from tiltmeter.runs._folder import without_foreign
from tiltmeter.runs._listings import STUDIES
from tiltmeter.runs._opened_run import Run, load
from tiltmeter.runs._resolving import refuse_code, resolve, resolve_stored
from tiltmeter.study import NotRun, Part, Settings

_TEXTS = ("text", "identity", "location", "name", "model", "prompt", "baseline", "pair", "cluster")
"""Columns of the user's own texts; a part is recreated from an empty table with these columns."""
_SETTINGS_OF_OWN = ("definition", "seed", "limit", "resamples", "level", "judge", "params")
"""Settings of a study of the user's own texts or decisions."""


class SideView:
    """The tables of one part of one side (implements `tiltmeter.study.RunView`)."""

    def __init__(self, side: Side, part: str, measures: DataFrame) -> None:
        self.measures = measures
        self._side, self._owner = side, {"model": side.model, "part": part}

    def stage(self, table: str) -> DataFrame:
        """Return a table of a stage; see `tiltmeter.study.RunView`."""
        stages = self._side.run.folder.stages()
        if table not in stages:
            raise NotRun(f"the run has no table {table!r}")
        rows = stages[table]
        columns = rows.collect_schema().names()
        for name, value in self._owner.items():
            if name in columns:
                rows = rows.filter(col(name).is_null() | (col(name) == value))
        return rows.collect()


class Side:
    """One model of one run.

    Attributes
    ----------
    run, model
        The run, and the name of the model.
    """

    def __init__(self, run: Run, model: str) -> None:
        self.run, self.model = run, model

    @property
    def named(self) -> dict[str, str]:
        """Names of the run and of the model."""
        return {"run": self.run.path.name, "model": self.model}

    @cached_property
    def findings(self) -> DataFrame:
        """Findings of the model (columns FINDINGS)."""
        return self.run.findings.filter(model=self.model)

    @cached_property
    def parts(self) -> list[str]:
        """Names of the parts with findings."""
        return list(self.findings["part"].unique(maintain_order=True))

    @cached_property
    def prompts(self) -> DataFrame:
        """Columns `part`, `prompt_id` and `prompt` of all prompts that were sent to the model."""
        design = self.run.folder.scan("design").select("part", "prompt_id", "prompt")
        measured = self.run.folder.scan("measures").filter(model=self.model).select("prompt_id").unique()
        return design.join(measured, on="prompt_id", how="semi", maintain_order="left").collect()

    def measures(self, part: str) -> DataFrame:
        """Return the measures of one part, without columns that belong to other parts only."""
        rows = self.run.folder.scan("measures").filter(model=self.model, part=part)
        return without_foreign(rows.collect())


def models_of(run: Run) -> list[str]:
    """Return the names of the models with findings in a run, in order.

    Raises InputError if no model has findings.
    """
    names = run.folder.models("findings")
    if not names:
        raise InputError(
            f"{run.place} has no findings, because no part of its study could be run;"
            " see `parts` in its run.json"
        )
    return names


def choose(
    a: Run | str | Path, b: Run | str | Path | None, model_a: str | None, model_b: str | None
) -> tuple[Side, Side]:
    """Return the two sides of a comparison.

    Raises
    ------
    InputError
        A run cannot be opened, or the choice of models is ambiguous. The message names the available models
        and the option to use.
    """
    first = load(a)
    second = first if b is None else load(b)
    models_a, models_b = models_of(first), models_of(second)
    is_one_run = first.path.resolve() == second.path.resolve()
    if is_one_run and len(models_a) == 2:
        model_a = model_a or next(name for name in models_a if name != model_b)
        model_b = model_b or next(name for name in models_b if name != model_a)
    elif is_one_run and len(models_a) == 1:
        if b is None:
            subject, article = f"{first.place} has", "a second"
        else:
            subject, article = f"both are the run {first.place}, which has", "another"
        raise InputError(f"{subject} only one model, {models_a[0]}; give {article} run to compare with")
    model_a = _pick(first, models_a, model_a, "--model-a")
    model_b = _pick(second, models_b, model_b, "--model-b")
    if is_one_run and model_a == model_b:
        raise InputError(
            f"both sides are {model_a} of {first.place}; choose two models with --model-a and --model-b"
        )
    return Side(first, model_a), Side(second, model_b)


def _pick(run: Run, models: list[str], name: str | None, flag: str) -> str:
    """Return the model of this name, or the only one; raise InputError if there is none."""
    if name is not None:
        check_known(name, models, f"{flag} {name!r} is not a model of {run.place}")
        return name
    if len(models) > 1:
        raise InputError(
            f"{run.place} has {len(models)} models ({', '.join(models)}); choose one with {flag}"
        )
    return models[0]


def opened(run: Run, *, run_code: bool = False) -> tuple[Mapping[str, Part], Settings]:
    """Return the parts of a run's study by name, and the settings of the study.

    Parameters
    ----------
    run_code
        Whether code that study.yaml names may be run.

    Raises
    ------
    InputError
        study.yaml names code and `run_code` is False; or the study cannot be recreated, for example because a
        user file is missing.
    """
    if not run_code:
        refuse_code(run.path)
    try:
        resolved = resolve_stored(run.path, run_code=run_code)
        parts = resolved.study.parts
    except InputError:
        document = document_of(run)
        settings = {key: document.get(key) for key in _SETTINGS_OF_OWN}
        family, _, name = str(document.get("study")).partition("/")
        suite: Any = STUDIES.load(family) if family in STUDIES.names() else None
        if name == "texts" and hasattr(suite, "of_texts"):
            resolved = resolve(family, settings=settings)
            texts = DataFrame(schema=dict.fromkeys(_TEXTS, String))
            parts = suite.of_texts(texts, resolved.settings.params).parts
        elif hasattr(suite, "of_stored_decisions"):
            study = suite.of_stored_decisions(run.design, document)
            resolved = resolve(study, settings=settings)
            parts = study.parts
        else:
            raise
    return {part.name: part for part in parts}, resolved.settings


def document_of(run: Run) -> dict[str, Any]:
    """Read the study.yaml of a run; raises InputError if it cannot be read."""
    loaded = read_yaml(run.path / "study.yaml", "study of a run")
    return loaded if isinstance(loaded, dict) else {}
