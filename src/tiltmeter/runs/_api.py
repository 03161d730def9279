"""The whole of `tiltmeter run` as one function: names in, run folder out. The command line and Python both call it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiltmeter.errors import InputError
from tiltmeter.models import Model, Sampling, create_model, sampling_from_options
from tiltmeter.runs._folder import runs_root
from tiltmeter.runs._load import Run
from tiltmeter.runs._resolve import resolve
from tiltmeter.runs._run import RunResult, check_models, run_study
from tiltmeter.study import Study

if TYPE_CHECKING:
    from tiltmeter.datasets import Library
    from tiltmeter.engine import Limits

__all__ = ["run", "run_named"]


def run_named(
    study: str,
    models: Sequence[str | Model],
    *,
    base_url: str | None = None,
    options: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
    sampling: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    journal: str | None = None,
    out: Path | None = None,
    display: str | None = "none",
    command: str | None = None,
) -> RunResult:
    """Run a study by name on models by name; see `run` for the parameters.

    `settings` are fields of `Settings`, `sampling` fields of `Sampling` that were given as flags, `options` the `-M key=value`.
    """
    from tiltmeter.datasets import Library
    from tiltmeter.engine import Limits, Prices

    resolved = resolve(study, settings=settings, sampling=sampling)
    asked = [_open(one, resolved.sampling, base_url, options or {}, sampling or {}) for one in models]
    check_models([model for model, _ in asked])
    library = Library.default()
    _show_notice(library, resolved.study)
    return run_study(
        resolved,
        asked,
        library=library,
        journal_url=journal or str(runs_root() / "journal.sqlite"),
        limits=limits or Limits(),
        prices=Prices.load(),
        display=display,
        out=out,
        command=command,
    )


def run(
    study: str,
    *,
    model: str | Model | Sequence[str | Model],
    base_url: str | None = None,
    options: Mapping[str, str] | None = None,
    definition: str | None = None,
    limit: int | float | str | None = None,
    repeats: int | None = None,
    seed: int | None = None,
    system_message: str | None = None,
    params: Mapping[str, str] | None = None,
    sampling: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    journal: str | None = None,
    out: str | Path | None = None,
    display: str | None = "none",
) -> Run:
    """Measure one or more models with a study; run it again to go on where it stopped.

    Parameters
    ----------
    study
        A built-in name ("genderbench", "genderbench/gest") or a path to a YAML file.
    model
        `provider/name`, an object fulfilling `tiltmeter.models.Model`, or several of them.
    limit
        Items per part: a number, a share (0.1) or a range ("0-99").
    sampling
        Fields of `tiltmeter.models.Sampling` that override what the method prescribes.
    out
        The run folder itself; by default one named after study, model and settings.

    Returns
    -------
    Run
        Its `findings`, `responses`, `evidence(...)`. What is missing from it stands in `run.about["problems"]`.

    Raises
    ------
    InputError
        Something given cannot be used.
    ProviderError
        The model gives no answers at all.
    """
    models = [model] if isinstance(model, str) or not isinstance(model, Sequence) else list(model)
    settings = {"definition": definition, "limit": limit, "repeats": repeats, "seed": seed, "system_message": system_message}
    return run_named(
        study,
        models,
        base_url=base_url,
        options=options,
        settings={**settings, "params": dict(params or {})},
        sampling=sampling,
        limits=limits,
        journal=journal,
        out=None if out is None else Path(out),
        display=display,
    ).run


def _open(
    one: str | Model, base: Sampling, base_url: str | None, options: Mapping[str, str], flags: Mapping[str, Any]
) -> tuple[Model, Sampling]:
    """A model and what it is asked with: the method's sampling, then flags, then `-M`."""
    if not isinstance(one, str):
        return one, base
    fields, left = sampling_from_options(one, options)
    for key, value in flags.items():
        if value is not None and key in fields:
            raise InputError(f"--{key.replace('_', '-')} and -M {key}= say the same thing; give one of them")
    return create_model(one, base_url=base_url, options=left), dataclasses.replace(base, **fields)


def _show_notice(library: Library, study: Study) -> None:
    """Licences that restrict the use of the data, before their first use."""
    from tiltmeter.datasets import first_use_notice

    names = sorted({name for part in study.parts for name in part.data})
    if notice := first_use_notice(library, [library.entry(name) for name in names]):
        print(notice, file=sys.stderr)
