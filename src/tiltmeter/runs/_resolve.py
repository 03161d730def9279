"""From what the user wrote (a name or a YAML file, and flags) to a study with nothing left open."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tiltmeter import registry
from tiltmeter.errors import InputError
from tiltmeter.models import Sampling
from tiltmeter.registry import did_you_mean
from tiltmeter.study import Settings, Study

__all__ = ["Resolved", "parse_limit", "resolve"]

_SETTINGS = {field.name: field for field in dataclasses.fields(Settings)}
_SAMPLING = {field.name: field for field in dataclasses.fields(Sampling)}


@dataclasses.dataclass(frozen=True, slots=True)
class Resolved:
    """A study, its settings and its sampling: everything that decides which numbers come out, apart from the models."""

    study: Study
    settings: Settings
    sampling: Sampling

    def as_document(self) -> dict[str, Any]:
        """The content of `study.yaml`; `resolve` of that file gives an equal study."""
        settings = dataclasses.asdict(self.settings)
        if isinstance(self.settings.limit, tuple):
            settings["limit"] = "{}-{}".format(*self.settings.limit)
        sampling = dataclasses.asdict(self.sampling) | {"stop": list(self.sampling.stop), "extra": dict(self.sampling.extra)}
        return {"study": self.study.name, "parts": [part.name for part in self.study.parts], **settings, "sampling": sampling}


def parse_limit(text: str) -> int | float | tuple[int, int]:
    """`N` items, `A-B` the items numbered A to B, or a share such as `0.1`."""
    first, dash, last = text.partition("-")
    try:
        if dash:
            low, high = int(first), int(last)
            if 0 <= low <= high:
                return low, high
        elif "." in text:
            if 0 < float(text) <= 1:
                return float(text)
        elif int(text) > 0:
            return int(text)
    except ValueError:
        pass
    raise InputError(f"--limit {text!r} is not a number of items (50), a range (0-99) or a share (0.1)")


def _read_file(path: Path) -> dict[str, Any]:
    import yaml

    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the study file {path}: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise InputError(f"{path}{place}: not valid YAML ({getattr(error, 'problem', None) or error}); mend that line") from error
    if not isinstance(loaded, dict) or not isinstance(loaded.get("study"), str):
        raise InputError(f"{path}: a study file needs the key 'study', for instance 'study: genderbench'")
    known = ["study", "parts", "sampling", *_SETTINGS]
    for key in loaded:
        if key not in known:
            raise InputError(f"{path}: unknown key {key!r}: {did_you_mean(str(key), known)}")
    return loaded


def _study(name: str, parts: Sequence[str] | None, place: str) -> Study:
    family, _, rest = name.partition("/")
    if family not in registry.names("studies"):
        known = [*registry.names("studies"), *(f"genderbench/{probe}" for probe in registry.names("probes"))]
        raise InputError(f"{place}unknown study {name!r}: {did_you_mean(name, known)} (or give a path to a .yaml file)")
    study: Study = registry.load("studies", family)(rest or None)
    if parts is None:
        return study
    by_name = {part.name: part for part in study.parts}
    for part in parts:
        if part not in by_name:
            raise InputError(f"{place}unknown part {part!r} of {study.name}: {did_you_mean(str(part), list(by_name))}")
    return dataclasses.replace(study, parts=[by_name[part] for part in parts])


def _checked(place: str, key: str, value: Any, kinds: tuple[type, ...], what: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise InputError(f"{place}{key}: expected {what}, found {value!r}")
    return value


def _settings(document: Mapping[str, Any], place: str) -> Settings:
    values: dict[str, Any] = {key: value for key, value in document.items() if key in _SETTINGS and value is not None}
    params = _checked(place, "params", values.get("params", {}), (dict,), "a mapping")
    values["params"] = {str(key): str(value) for key, value in params.items()}
    if "definition" in values["params"]:
        values["definition"] = values["params"].pop("definition")
    for key, low in (("seed", 0), ("repeats", 1), ("resamples", 20)):
        if key in values and _checked(place, key, values[key], (int,), "a whole number") < low:
            raise InputError(f"{place}{key}: expected at least {low}, found {values[key]}")
    if "level" in values and not 0.5 <= _checked(place, "level", values["level"], (int, float), "a number") < 1:
        raise InputError(f"{place}level: expected a confidence level such as 0.95, found {values['level']}")
    if "limit" in values:
        values["limit"] = parse_limit(str(values["limit"]))
    return Settings(**values)


def _sampling(base: Sampling, given: Mapping[str, Any], place: str) -> Sampling:
    for key in given:
        if key not in _SAMPLING:
            raise InputError(f"{place}sampling: unknown key {key!r}: {did_you_mean(str(key), list(_SAMPLING))}")
    values = {key: value for key, value in given.items() if value is not None}
    for key, low, high in (("temperature", 0, 10), ("top_p", 0, 1)):
        if key in values and not low <= _checked(place, key, values[key], (int, float), "a number") <= high:
            raise InputError(f"{place}{key}: expected {low} to {high}, found {values[key]}")
    for key, low in (("max_tokens", 1), ("seed", 0)):
        if key in values and _checked(place, key, values[key], (int,), "a whole number") < low:
            raise InputError(f"{place}{key}: expected at least {low}, found {values[key]}")
    if "stop" in values:
        values["stop"] = (values["stop"],) if isinstance(values["stop"], str) else tuple(values["stop"])
    return dataclasses.replace(base, **values)


def resolve(name: str, *, settings: Mapping[str, Any] | None = None, sampling: Mapping[str, Any] | None = None) -> Resolved:
    """The study called `name` (a built-in name or a path to a YAML file) with the user's settings.

    Parameters
    ----------
    settings
        Values for fields of `Settings`; None entries leave the file's or the default value. They win over the file.
    sampling
        Values for fields of `Sampling`, likewise; they win over the file, which wins over what the method prescribes.

    Raises
    ------
    InputError
        Unknown study, part, key or value; the message names the file and key.
    """
    path = Path(name)
    is_file = path.suffix in (".yaml", ".yml")
    document: dict[str, Any] = _read_file(path) if is_file else {"study": name}
    place = f"{path}: " if is_file else ""
    study = _study(document["study"], document.get("parts"), place)
    given = {key: value for key, value in (settings or {}).items() if value is not None}
    params = {**(document.get("params") or {}), **given.pop("params", {})}
    resolved = _settings({**document, **given, "params": params}, place)
    for key in resolved.params:
        if key not in study.params:
            raise InputError(f"{place}unknown parameter {key!r} (-P) of {study.name}: {did_you_mean(key, ['definition', *study.params])}")
    base = _sampling(study.sampling, document.get("sampling") or {}, place)
    return Resolved(study, resolved, _sampling(base, sampling or {}, ""))
