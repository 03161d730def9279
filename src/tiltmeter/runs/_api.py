"""The whole of `tiltmeter run` as one function: names in, run folder out. The command line and Python both call it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiltmeter.errors import InputError
from tiltmeter.models import Model, Sampling, create_model, sampling_from_options
from tiltmeter.runs._load import Run
from tiltmeter.runs._remote_place import runs_root
from tiltmeter.runs._resolve import Resolved, resolve
from tiltmeter.runs._run import RunResult, check_models, run_study
from tiltmeter.study import Study

if TYPE_CHECKING:
    from tiltmeter.datasets import Library
    from tiltmeter.engine import Limits

__all__ = ["Judging", "run", "run_named"]


def run_named(
    study: str,
    models: Sequence[str | Model],
    *,
    base_url: str | None = None,
    options: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
    sampling: Mapping[str, Any] | None = None,
    judge: Judging | None = None,
    limits: Limits | None = None,
    journal: str | None = None,
    out: str | Path | None = None,
    display: str | None = "none",
    command: str | None = None,
    engine: str | None = None,
    engine_options: Mapping[str, str] | None = None,
) -> RunResult:
    """Run a study by name on models by name; see `run` for the parameters.

    `settings` are fields of `Settings`, `sampling` fields of `Sampling` that were given as flags, `options` the `-M key=value`.
    """
    from tiltmeter.datasets import Library
    from tiltmeter.engine import Limits, Prices, open_engine

    judge = judge or Judging()
    resolved = resolve(study, settings={**(settings or {}), "judge": judge.name}, sampling=sampling)
    asked = [_open(one, resolved.sampling, base_url, options or {}, sampling or {}) for one in models]
    check_models([model for model, _ in asked])
    library = Library.default()
    _show_notice(library, resolved.study)
    with open_engine(engine, engine_options) as opened:
        return run_study(
            resolved,
            asked,
            library=library,
            journal_url=journal or str(runs_root() / "journal.sqlite"),
            limits=limits or Limits(),
            prices=Prices.load(),
            judge=judge.open(resolved),
            display=display,
            out=out,
            command=command,
            engine=opened,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Judging:
    """The judge a user asked for: a model or its name (None: the one the study file names, if any), where it is, its `-J key=value`."""

    model: str | Model | None = None
    base_url: str | None = None
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str | None:
        """As it stands in study.yaml."""
        return self.model if self.model is None or isinstance(self.model, str) else self.model.name

    def open(self, resolved: Resolved) -> tuple[Model, Sampling] | None:
        """The judge of this study and what it is asked with; None where the study does without.

        Raises
        ------
        InputError
            It is no model, or options are given where there is no judge.
        """
        chosen = self.model or resolved.settings.judge
        if chosen is None:
            if self.options or self.base_url:
                raise InputError("-J and --judge-base-url are about a judge; name it with --judge PROVIDER/NAME")
            return None
        assert resolved.study.judging is not None  # see `resolve`
        return _open(chosen, resolved.study.judging, self.base_url, self.options, {})


def run(
    study: str,
    *,
    model: str | Model | Sequence[str | Model],
    base_url: str | None = None,
    options: Mapping[str, str] | None = None,
    judge: str | Model | None = None,
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
    display: str | None = None,
    engine: str | None = None,
    engine_options: Mapping[str, str] | None = None,
) -> Run:
    """Measure one or more models with a study; run it again to go on where it stopped.

    Parameters
    ----------
    study
        A built-in name ("genderbench", "genderbench/gest") or a path to a YAML file.
    model
        `provider/name`, an object fulfilling `tiltmeter.models.Model`, or several of them.
    judge
        Model asked about the answers, for methods that use one.
    limit
        Items per part: a number, a share (0.1) or a range ("0-99").
    sampling
        Fields of `tiltmeter.models.Sampling` that override what the method prescribes.
    out
        The run folder itself, a path or a URL (s3://bucket/folder); by default one named after study, model and settings.
    display
        How progress is shown: "rich", "plain", "json", "none" or "notebook"; by default a line below the cell in a notebook, and nothing
        elsewhere.
    engine
        "local" (the default), "ray" or "ray://HOST:PORT"; see `tiltmeter.engine.open_engine`.
    engine_options
        Options of that engine, as `-E key=value`.

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
    from tiltmeter.engine import NOTEBOOK, in_notebook

    models = [model] if isinstance(model, str) or not isinstance(model, Sequence) else list(model)
    settings = {"definition": definition, "limit": limit, "repeats": repeats, "seed": seed, "system_message": system_message}
    return run_named(
        study,
        models,
        base_url=base_url,
        options=options,
        settings={**settings, "params": dict(params or {})},
        sampling=sampling,
        judge=Judging(judge),
        limits=limits,
        journal=journal,
        out=out,
        display=display or (NOTEBOOK if in_notebook() else "none"),
        engine=engine,
        engine_options=engine_options,
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
    made = create_model(one, base_url=base_url, options=left)
    prescribed = {key: value for key, value in base.extra.items() if key not in getattr(made, "unsupported", ())}
    extra = {key: value for key, value in {**prescribed, **fields.pop("extra", {})}.items() if value is not None}
    return made, dataclasses.replace(base, **fields, extra=extra)


def _show_notice(library: Library, study: Study) -> None:
    """Licences that restrict the use of the data, before their first use."""
    from tiltmeter.datasets import first_use_notice

    names = sorted({name for part in study.parts for name in part.data})
    if notice := first_use_notice(library, [library.entry(name) for name in names]):
        print(notice, file=sys.stderr)
