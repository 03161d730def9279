"""From what the user wrote (a name or a YAML file, and flags) to a study with nothing left open."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tiltmeter import registry
from tiltmeter._paths import is_file, sha256
from tiltmeter._yaml import read_yaml
from tiltmeter.errors import InputError
from tiltmeter.models import Sampling, refuse_secrets
from tiltmeter.registry import did_you_mean
from tiltmeter.study import Settings, Study

__all__ = ["Resolved", "parse_limit", "resolve"]

_SETTINGS = [field.name for field in dataclasses.fields(Settings) if field.name != "limits"]


@dataclasses.dataclass(frozen=True, slots=True)
class Resolved:
    """A study, its settings and its sampling: everything that decides which numbers come out, apart from the models."""

    study: Study
    settings: Settings
    sampling: Sampling
    inputs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """sha256 of each file of the user's that takes part in it, by path."""

    def as_document(self) -> dict[str, Any]:
        """The content of `study.yaml`; `resolve` of that file gives an equal study."""
        settings = dataclasses.asdict(self.settings)
        own = [f"{part}={_limit_text(limit)}" for part, limit in settings.pop("limits").items()]
        if own or isinstance(self.settings.limit, tuple):
            settings["limit"] = ",".join([*([] if self.settings.limit is None else [_limit_text(self.settings.limit)]), *own])
        sampling = dataclasses.asdict(self.sampling) | {"stop": list(self.sampling.stop), "extra": dict(self.sampling.extra)}
        document = {"study": self.study.name, "parts": [part.name for part in self.study.parts], **settings, "sampling": sampling}
        return document | ({"inputs": dict(self.inputs)} if self.inputs else {})


Limit = int | float | tuple[int, int]


def _limit_text(limit: Limit) -> str:
    return "{}-{}".format(*limit) if isinstance(limit, tuple) else str(limit)


def parse_limit(text: str) -> Limit:
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


def _parse_limits(text: str, parts: Sequence[str]) -> tuple[Limit | None, dict[str, Limit]]:
    """The limit of all parts, and those of single ones: `100,hiring_an=2000`."""
    common: list[Limit] = []
    own: dict[str, Limit] = {}
    for piece in text.split(","):
        part, equals, value = (one.strip() for one in piece.rpartition("="))
        limit = parse_limit(value)
        if equals and part not in parts:
            raise InputError(f"--limit {piece.strip()}: the study has no part {part!r}: {did_you_mean(part, parts)}")
        if part in own or (not equals and common):
            raise InputError(f"--limit {text!r} gives {f'{part} two limits' if equals else 'two limits for all parts'}; give one")
        if equals:
            own[part] = limit
        else:
            common.append(limit)
    return (common[0] if common else None), own


def _study(name: str, parts: Sequence[str] | None, params: Mapping[str, str], place: str) -> Study:
    family, _, rest = name.partition("/")
    if family not in registry.names("studies") and f"{family}s" in registry.names("studies"):
        family += "s"  # "benchmark", where one is meant
    if family not in registry.names("studies"):
        known = [one for family in registry.load_all("studies")[0] for one in (family, *_parts_of(family))]
        raise InputError(f"{place}unknown study {name!r}: {did_you_mean(name, known)} (or give a path to a .yaml file)")
    try:
        study: Study = registry.load("studies", family)(rest or None, params)
    except InputError as error:
        raise InputError(f"{place}{error}") from error
    if parts is None:
        return study
    by_name = {part.name: part for part in study.parts}
    for part in parts:
        if parts.count(part) > 1:
            raise InputError(f"{place}parts names {part!r} twice; name it once")
        if part not in by_name:
            raise InputError(f"{place}unknown part {part!r} of {study.name}: {did_you_mean(str(part), list(by_name))}")
    return dataclasses.replace(study, parts=[by_name[part] for part in parts], title=study.title_of(len(parts)))


def _parts_of(family: str) -> list[str]:
    study = registry.load("studies", family)
    return [f"{family}/{name}" for name in dict.fromkeys((*getattr(study, "parts", ()), *getattr(study, "others", ())))]


def _settings(values: Mapping[str, Any], study: Study, place: str) -> Settings:
    values = {key: value for key, value in values.items() if key in _SETTINGS}
    if "limit" in values:
        try:
            values["limit"], values["limits"] = _parse_limits(str(values["limit"]), [part.name for part in study.parts])
        except InputError as error:
            raise InputError(f"{place}{error}") from None
    return Settings(**values)


def _sampling(base: Sampling, given: Mapping[str, Any]) -> Sampling:
    for key, value in (given.get("extra") or {}).items():
        refuse_secrets(f"sampling.extra.{key}", key, value)
    values = dict(given)
    if "stop" in values:
        values["stop"] = (values["stop"],) if isinstance(values["stop"], str) else tuple(values["stop"])
    return dataclasses.replace(base, **values)


def _files(value: str) -> list[Path]:
    """The file that a parameter names, or those in the folder it names."""
    if is_file(value):
        return [Path(value)]
    try:
        return sorted(file for file in Path(value).iterdir() if file.is_file() and not file.name.startswith("."))
    except (OSError, ValueError):
        return []


def resolve(name: str | Path | Study, *, settings: Mapping[str, Any] | None = None, sampling: Mapping[str, Any] | None = None) -> Resolved:
    """The study called `name` (a built-in name or a path to a YAML file), or a `Study` itself, with the user's settings.

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
    from tiltmeter.runs._document import check

    made = name if isinstance(name, Study) else None
    if made is None and not isinstance(name, str | Path):
        raise InputError(f"the study must be a name such as genderbench, a path to a YAML file or a Study, not {type(name).__name__}")
    named = made.name if made else str(name)
    path = Path(named)
    is_yaml = made is None and path.suffix in (".yaml", ".yml")
    place = f"{path}: " if is_yaml else ""
    written = check(read_yaml(path, "study file") if is_yaml else {"study": named}, place)
    flags = check({"study": named, **(settings or {}), "sampling": dict(sampling or {})}, "")
    params = written["params"] | flags["params"]
    study = made or _study(written["study"], written.get("parts"), params, place)
    for key in params:
        if key not in study.params:
            raise InputError(f"{place}unknown parameter {key!r} (-P) of {study.name}: {did_you_mean(key, ['definition', *study.params])}")
    chosen = _settings(written | flags | {"params": params}, study, place if "limit" not in flags else "")
    if chosen.judge is not None and study.judging is None:
        raise InputError(f"{study.name} asks no judge; leave --judge out")
    inputs = {str(file): sha256(file) for value in params.values() for file in _files(value)}
    return Resolved(study, chosen, _sampling(_sampling(study.sampling, written["sampling"]), flags["sampling"]), inputs)
