"""Models and judges as users specify them: a name, an object, a function or a pipeline of transformers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace as with_fields
from typing import Any

from tiltmeter.errors import InputError, error_prefix
from tiltmeter.models import Model, Sampling, create_model, sampling_from_options
from tiltmeter.models._function import model_of
from tiltmeter.models._huggingface import PipelineModel, is_pipeline
from tiltmeter.models._thinking_models import thinks, with_room_to_think
from tiltmeter.runs._resolving import Resolved

AskedModel = str | Model | Callable[..., Any]
"""A model: its name, an object that implements `tiltmeter.models.Model`, a function, or a text-generation
pipeline of transformers."""


def several(model: AskedModel | Sequence[AskedModel]) -> list[AskedModel]:
    """Return one or more models as a list; raise InputError if it is empty."""
    models = list(model) if isinstance(model, Sequence) and not isinstance(model, str) else [model]
    if not models:
        raise InputError("model= is an empty list; give at least one model")
    return models


def name_of(model: AskedModel) -> str:
    """Return the name of a model; raise InputError if the argument is not a model."""
    if isinstance(model, str):
        sampling_from_options(model, {})  # raises unless it is written provider/model
        return model
    return _model_of_object("model", model, {}).name


@dataclass(frozen=True, slots=True)
class Judging:
    """The judge that a user specified.

    Attributes
    ----------
    model
        A model or its name; None: the judge of the study file, if any.
    base_url
        Base URL of its endpoint.
    options
        Its `-J key=value`.
    """

    model: AskedModel | None = None
    base_url: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str | None:
        """The name of the judge, as in study.yaml."""
        if self.model is None or isinstance(self.model, str):
            return self.model
        return _model_of_object("judge", self.model, {}).name

    def open(self, resolved: Resolved) -> tuple[Model, Sampling] | None:
        """Return the judge of this study and its sampling, or None if the study has no judge.

        Raises
        ------
        InputError
            The judge is not a model, the study does not use one, or options are given without a judge.
        """
        chosen = with_fields(self, model=self.model or resolved.settings.judge)
        if chosen.model is not None and resolved.study.judging is None:
            raise InputError(f"{resolved.study.name} does not use a judge; remove --judge")
        return chosen.opened(
            resolved.study.judging or Sampling(), room_to_think=has_room_to_think(resolved, judge=True)
        )

    def opened(self, sampling: Sampling, *, room_to_think: bool = False) -> tuple[Model, Sampling] | None:
        """Return the judge and the sampling with its options, or None if no judge is named.

        Raise InputError as `open` does.
        """
        if self.model is None:
            if self.options or self.base_url:
                raise InputError("-J and --judge-base-url need a judge; name it with --judge PROVIDER/NAME")
            return None
        with error_prefix("judge: "):
            return open_model(
                self.model,
                sampling,
                self.base_url,
                self.options,
                {},
                role="judge",
                room_to_think=room_to_think,
            )


def has_room_to_think(resolved: Resolved, *, judge: bool = False) -> bool:
    """Return whether the limit of tokens is raised for models (or a judge) that are known to think.

    It is not raised under published definitions, and not if the study file gives another limit than the
    method.
    """
    is_of_method = judge or resolved.sampling.max_tokens == resolved.study.sampling.max_tokens
    return is_of_method and resolved.settings.definition.is_default


def mapping(name: str, given: object) -> dict[str, Any]:
    """Return the argument as a dictionary; raise InputError if it is not a mapping of names to values."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise InputError(
            f"{name}= must be a mapping of names to values such as {{'key': 'value'}}, not {given!r}"
        )
    return dict(given)


def as_text(place: str, value: object) -> str:
    """Return a value as it would be written on the command line."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise InputError(
            f"{place}: give a text, a number, true or false, or a list or mapping of these, not {value!r}"
        ) from None


def _model_of_object(role: str, model: object, options: Mapping[str, Any]) -> Model:
    """Return the model for an object or a function; raise InputError for anything else."""
    if isinstance(model, type):
        name = model.__name__
        raise InputError(f"{role}= is the class {name}; give an instance of it, such as {name}()")
    if isinstance(model, Model):
        if options:
            raise InputError(
                f"options= is for models given by name; {model.name} is already an object:"
                " set its options when you create it"
            )
        return model
    if is_pipeline(model):
        return PipelineModel(model)
    if callable(model):
        return model_of(model, options)
    raise InputError(
        f"{role}= must be a name such as openai/gpt-4o-mini, a function, a pipeline, or an object with name,"
        f" fingerprint, endpoint and complete, not {type(model).__name__}"
    )


def open_model(
    model: AskedModel,
    base: Sampling,
    base_url: str | None,
    options: Mapping[str, Any],
    flags: Mapping[str, Any],
    *,
    role: str = "model",
    room_to_think: bool = False,
) -> tuple[Model, Sampling]:
    """Return a model and its sampling: the method's sampling, overridden by flags and by `-M`.

    Parameters
    ----------
    room_to_think
        Whether the limit of tokens is raised for a model that is known to think, unless the user chose a
        limit.
    """
    if not isinstance(model, str):
        if base_url is not None:
            raise InputError(
                f"base_url= is for models given by name; the {role} given as an object has its own address"
            )
        if not callable(model) or isinstance(model, Model | type) or is_pipeline(model):
            return _model_of_object(role, model, options), base
    provider = model if isinstance(model, str) else "python/function"
    texts = {key: as_text(f"-M {key}", value) for key, value in options.items()}
    fields, options_of_model = sampling_from_options(provider, texts)
    for key, value in flags.items():
        if value is not None and key in fields:
            raise InputError(
                f"--{key.replace('_', '-')} and -M {key}= set the same parameter; give only one of them"
            )
    if isinstance(model, str):
        opened = create_model(model, base_url=base_url, options=options_of_model)
    else:
        opened = _model_of_object(role, model, {key: options[key] for key in options_of_model})
    extra = _extra(base, opened, fields.pop("extra", {}))
    sampling = with_fields(base, **fields, extra=extra)
    is_chosen = "max_tokens" in fields or flags.get("max_tokens") is not None
    if room_to_think and isinstance(model, str) and not is_chosen and thinks(model, extra):
        sampling = with_room_to_think(sampling)
    return opened, sampling


def _extra(base: Sampling, model: Model, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the further fields of requests: those of the method that the model supports, and the user's.

    A field that the user sets to null is left out.
    """
    unsupported = getattr(model, "unsupported", ())
    prescribed = {key: value for key, value in base.extra.items() if key not in unsupported}
    merged = {**prescribed, **overrides}
    return {key: value for key, value in merged.items() if value is not None}
