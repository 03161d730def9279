"""Resolution of user input (a study name, a study file, flags) to a study with all its settings."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from polars import DataFrame, Series, String
from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, ValidationError

from tiltmeter._files.paths import is_file, is_folder, sha256
from tiltmeter._files.reading import table_of
from tiltmeter._files.records import Filled, Record
from tiltmeter._files.tables import dates_among
from tiltmeter._files.yaml import first_error, read_yaml, shortened
from tiltmeter._plugins.functions import explained, file_of, is_function, load_from_file
from tiltmeter.comparisons import COMPARED_PARAMS, ComparisonOptions
from tiltmeter.definitions import DEFAULT_NAME, GENERAL, Definition
from tiltmeter.designs.limits import SIZES, ItemLimit, StudyLimit
from tiltmeter.errors import InputError, check_known, did_you_mean, error_prefix
from tiltmeter.models import Sampling, refuse_secrets
from tiltmeter.probes._table_roles import BETWEEN, TABLE_PARAMS, TEXT_FILES, WITH_DETAIL
from tiltmeter.runs._definitions import definition_named
from tiltmeter.runs._listings import STUDIES
from tiltmeter.study import Part, Settings, Study

STUDY_FILE = "study.yaml"
"""Name of the file of a run folder that describes its study."""
_TABLE_SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".xlsx", ".gz")
"""Suffixes of files with a table of prompts."""
INFORMATION: Final = ("models", "responses", "inputs", "judged_by", "columns", "scored")
"""Keys that a run adds to its study.yaml for information; they do not change the study."""

_DEFAULT_SEED: Final = Settings().seed

_EXPECTED = {
    "study": "the name of a study such as genderbench",
    "parts": "a list of part names such as [gest, direct]",
    "definition": "the name of a definition such as default",
    "seed": "a whole number of at least 0",
    "limit": "a number of items (50), a range (0-99), a share (0.1) or a size (quick)",
    "repeats": "a whole number from 1 to 1,000",
    "resamples": "a whole number from 20 to 100,000",
    "level": "a confidence level such as 0.95 (0.5 to 0.9999)",
    "system_message": "a text",
    "judge": "the name of a model such as openai/gpt-4o-mini",
    "params": "a mapping of names to texts or numbers such as {wording: all}",
    "replace": "a mapping of tables to files such as {mentions: edited.csv}",
    "sampling": "a mapping such as {temperature: 0.5}",
    "sampling.temperature": "0 to 10",
    "sampling.top_p": "0 to 1",
    "sampling.max_tokens": "a whole number of at least 1",
    "sampling.seed": "a whole number of at least 0",
    "sampling.stop": 'a text or a list of texts such as ["END"]',
    "sampling.extra": "a mapping of what JSON can hold, such as {top_k: 20}",
}
"""Description of the allowed values of each key."""


def _as_json(value: Any) -> Any:
    """Return a value unchanged; raise ValueError unless JSON can hold it."""
    json.dumps(value, allow_nan=False)
    return value


def _as_list(value: Any) -> Any:
    """Return a tuple as a list, and any other value unchanged."""
    return list(value) if isinstance(value, tuple) else value


class SamplingKeys(Record):
    """Fields of `tiltmeter.models.Sampling`; null means the value prescribed by the method."""

    temperature: Annotated[float, Field(ge=0, le=10)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    seed: Annotated[int, Field(ge=0)] | None = None
    stop: Annotated[str | list[str], BeforeValidator(_as_list)] | None = None
    extra: Annotated[dict[str, JsonValue], AfterValidator(_as_json)] | None = None


class StudyDocument(Record):
    """A study, its settings and its sampling; null means the default."""

    study: str
    parts: Filled[list[str]] | None = None
    definition: str | None = None
    seed: Annotated[int, Field(ge=0)] | None = None
    limit: int | float | str | None = None
    repeats: Annotated[int, Field(ge=1, le=1_000)] | None = None
    resamples: Annotated[int, Field(ge=20, le=100_000)] | None = None
    level: Annotated[float, Field(ge=0.5, le=0.9999)] | None = None
    system_message: str | None = None
    judge: str | None = None
    params: dict[str, str | int | float | bool] | None = None
    replace: dict[str, str] | None = None
    sampling: SamplingKeys | None = None


def check(document: object) -> dict[str, Any]:
    """Validate a study document and return its keys that have a value.

    Returns
    -------
    dict
        Only keys with a value; `params` as strings, with `definition` moved to the top level.

    Raises
    ------
    InputError
        A key is unknown, or its value has the wrong type or range; the message describes the first error.
    """
    if isinstance(document, Mapping):
        document = {key: value for key, value in document.items() if key not in INFORMATION}
    try:
        checked = StudyDocument.model_validate(document).model_dump(exclude_none=True)
    except ValidationError as error:
        raise InputError(_sentence(error)) from None
    params = {key: str(value) for key, value in checked.pop("params", {}).items()}
    if "definition" in params:
        checked["definition"] = params.pop("definition")
    return checked | {"params": params, "sampling": checked.get("sampling", {})}


def _sentence(error: ValidationError) -> str:
    """Return the first error of a study document in words."""
    first = first_error(error)
    keys, kind = [str(key) for key in first["loc"]], first["type"]
    if not keys or kind == "missing":
        return "a study file needs the key 'study', for instance 'study: genderbench'"
    is_of_sampling = keys[0] == "sampling" and len(keys) > 1
    keys = keys[: 2 if is_of_sampling else 1]
    if kind in ("extra_forbidden", "invalid_key"):
        fields = SamplingKeys.model_fields if is_of_sampling else StudyDocument.model_fields
        place = "sampling: " if is_of_sampling else ""
        return f"{place}unknown key {keys[-1]!r}: {did_you_mean(keys[-1], list(fields))}"
    name = ".".join(keys)
    return f"{name}: expected {_EXPECTED[name]}, found {shortened(first['input'])}"


_SETTINGS = [field.name for field in dataclasses.fields(Settings) if field.name != "limits"]


@dataclasses.dataclass(frozen=True, slots=True)
class Resolved:
    """A study, its settings and its sampling: all that determines the results, apart from the models."""

    study: Study
    settings: Settings
    sampling: Sampling
    inputs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The sha256 of each input file of the user, by path."""
    limited_alone: Sequence[str] = dataclasses.field(default=(), compare=False)
    """Parts with a limit of their own, if the user gave none for the other parts (`--limit gest=200`)."""

    def as_document(self) -> dict[str, Any]:
        """Return the content of `study.yaml`; `resolve` of that file returns an equal study."""
        settings = {name: getattr(self.settings, name) for name in _SETTINGS}
        settings["definition"] = self.settings.definition.name
        settings["limit"] = self._limit_in_document()
        settings["params"] = dict(self.settings.params)
        settings["replace"] = dict(self.settings.replace)
        if not settings["replace"]:
            del settings["replace"]
        sampling = dataclasses.asdict(self.sampling)
        sampling |= {"stop": list(self.sampling.stop), "extra": dict(self.sampling.extra)}
        document = {
            "study": self.study.name,
            "parts": [part.name for part in self.study.parts],
            **settings,
            "sampling": sampling,
        }
        if self.inputs:
            document["inputs"] = dict(self.inputs)
        return document

    def _limit_in_document(self) -> int | float | str | None:
        """Return the limit as study.yaml has it: a number, or the text of `--limit`."""
        limit, limits = self.settings.limit, self.settings.limits
        if limits or any(part.sizes for part in self.study.parts):
            return str(StudyLimit(SIZES[-1] if limit is None else limit, dict(limits)))
        if limit is None:
            return None
        return str(limit) if isinstance(limit.selection, tuple) else limit.selection


def replaced_tables(study: Study, settings: Settings) -> dict[str, str]:
    """Return the files that replace stage tables, by table.

    They are given with `--replace NAME=FILE`, or in the older form `-P NAME=FILE`.

    Raises
    ------
    InputError
        No stage of the study creates such a table.
    """
    stages = [stage for part in study.parts for stage in part.stages]
    tables = dict.fromkeys(table for stage in stages for table in stage.tables)
    replaceable = [name for name in tables if name not in ("measures", "findings", "examples")]
    for name in settings.replace:
        check_known(name, replaceable, f"--replace {name}=: {study.name} has no such table")
    params = {name: path for name, path in settings.params.items() if name not in study.params}
    of_params = {name: path for name, path in params.items() if name in replaceable}
    return {**of_params, **settings.replace}


Asked = str | Path | Study | Part
"""A study: a name, a file, a `Study` object, or a single part."""


def study_of(part: Part, name: str) -> Study:
    """Return a study with one part.

    If the kind of study is registered, it sets the other properties of the study.
    """
    kind: Any = STUDIES.load(part.study) if part.study in STUDIES.names() else None
    if hasattr(kind, "of_part"):
        study: Study = kind.of_part(part, name)
        return study
    return Study(name=name, title=part.title, parts=[part])


def _in_python_file(name: str) -> Study:
    """Return the study of FILE.py:NAME."""
    loaded = load_from_file(name)
    if isinstance(loaded, type) and issubclass(loaded, Part):
        with explained(loaded, "be created"):
            loaded = loaded()
    if isinstance(loaded, Study):
        return dataclasses.replace(loaded, name=name)
    if not isinstance(loaded, Part):
        raise InputError(f"{name} is a {type(loaded).__name__}; name a probe, a Part or a Study")
    if not isinstance(getattr(loaded, "name", None), str):
        raise InputError(f"{name} has no name; give the class the attribute name, a short word")
    return study_of(loaded, name)


def _in_file(name: str, params: Mapping[str, str], seed: int) -> Study | None:
    """Return the study of FILE.py:NAME or of a file of prompts, or None if the name is neither.

    Parameters
    ----------
    params
        Parameters of the study, which name columns of a table (see TABLE_PARAMS).
    seed
        Seed of the names in prompts with slots.
    """
    if file_of(name):
        return _in_python_file(name)
    path = Path(name)
    is_of_texts = path.suffix.lower() in TEXT_FILES or (is_folder(path) and "swap" in params)
    if is_of_texts:
        if not path.exists():
            raise InputError(f"there is no file {name}")
        return _of_marked_prompts(name, path, params, seed)
    if is_folder(path):
        raise InputError(f"{name} is a folder; name the file in it, such as {path / 'study.yaml'}")
    if path.suffix == ".py" and path.is_file():
        raise InputError(f"{name} is a Python file; name the probe in it: {name}:NAME")
    if path.suffix.lower() in _TABLE_SUFFIXES:
        if "swap" in params:
            return _of_marked_prompts(name, path, params, seed)
        table = table_of(path)
        _refuse_unfilled(name, table, params)
        return _of_table(name, path.stem, table, params)
    return None


def _refuse_unfilled(name: str, table: DataFrame, params: Mapping[str, str]) -> None:
    """Raise InputError if the prompts of a table have slots, and no column is named as their group."""
    from tiltmeter.designs.slots import first_slot

    if "prompt" not in table.columns or "group" in table.columns or "group" in params:
        return
    slot = first_slot(table["prompt"].cast(String).drop_nulls().to_list())
    if slot is not None:
        raise InputError(
            f"{name}: the prompts have slots such as {slot}; say what fills them, such as --swap gender, or"
            " --swap names.csv"
        )


def _of_marked_prompts(name: str, path: Path, params: Mapping[str, str], seed: int) -> Study:
    """Return the study of prompts with slots, filled for every group."""
    from tiltmeter.probes._marked_prompts import filled_prompts

    filled = filled_prompts(path, params, seed)
    return _of_table(name, path.stem, filled.table, filled.params)


def _of_table(name: str, stem: str, table: DataFrame, params: Mapping[str, str]) -> Study:
    """Return the study of a table of prompts; print a note about groups that look like dates."""
    from tiltmeter.probes._suite import suite
    from tiltmeter.probes._table_probe import parts_of_table

    stem = re.sub(r"\W+", "_", stem).lower()
    probes = parts_of_table(stem, table, name, params)
    for probe in probes:
        if note := dates_among(name, Series(probe.groups)):
            print(f"note: {note}", file=sys.stderr)
    title = stem.replace("_", " ").capitalize() if len(probes) > 1 else probes[0].title
    return suite.of_table(name, title, probes)


def _study(name: str, params: Mapping[str, str], seed: int = _DEFAULT_SEED) -> Study:
    """Return the study of this name with all its parts; raise InputError if it is unknown."""
    if (study_in_file := _in_file(name, params, seed)) is not None:
        return study_in_file
    family, _, part_name = _with_full_family(name).partition("/")
    if family not in STUDIES.names():
        choices = [choice for loaded in STUDIES.load_all()[0] for choice in (loaded, *_parts_of(loaded))]
        remedy = " (or give a file: STUDY.yaml, PROBE.py:NAME or PROMPTS.csv)"
        check_known(name, choices, f"unknown study {name!r}", remedy)
    load: Callable[..., Study] = STUDIES.load(family)
    try:
        return load(part_name or None, params)
    except InputError:
        if "," not in part_name:
            raise
        remedy = f"{family} --only {part_name}"
        raise InputError(f"{name!r} is not one study; for several parts of a study: {remedy}") from None


def _with_full_family(name: str) -> str:
    """Return the name of a study, also if the kind of study is in the singular, such as "benchmark"."""
    family, slash, part = name.partition("/")
    families = STUDIES.names()
    if family not in families and f"{family}s" in families:
        family += "s"
    return f"{family}{slash}{part}"


def _with_parts(study: Study, parts: Sequence[str] | None, place: str) -> Study:
    """Return a study with only these of its parts, in this order; None: with all of them.

    Parameters
    ----------
    place
        The key or the flag that names the parts.

    Raises
    ------
    InputError
        A part is unknown, or named twice.
    """
    if parts is None:
        return study
    by_name = {part.name: part for part in study.parts}
    for part in parts:
        if parts.count(part) > 1:
            raise InputError(f"{place}: {part!r} is listed twice; list it once")
        check_known(part, by_name, f"{place}: unknown part {part!r} of {study.name}")
    chosen = [by_name[part] for part in parts]
    return dataclasses.replace(study, parts=chosen, title=study.title_of(len(parts)))


def groups_of(names: Sequence[str], params: Mapping[str, str] | None = None) -> dict[str, list[str]]:
    """Return which studies several names on a command line mean, each with the names of its parts.

    Names of parts of one kind, such as genderbench/gest and genderbench/direct, are one study of this kind
    with these parts. Every other name is a study of its own, whose list of parts is empty.

    Parameters
    ----------
    params
        Parameters of the studies.

    Raises
    ------
    InputError
        A study or a part is named twice.
    """
    full_names = [_with_full_family(name) for name in names]
    for name in full_names:
        family, slash, _ = name.partition("/")
        if full_names.count(name) > 1:
            raise InputError(f"{name} is named twice; name it once")
        if slash and family in full_names and name in _parts_of(family):
            raise InputError(f"{family} contains {name}; name one of them")
    groups: dict[str, list[str]] = {}
    for name in full_names:
        family = name.partition("/")[0]
        of_family = [other for other in full_names if other.startswith(f"{family}/")]
        siblings = [other for other in of_family if family in STUDIES.names() and other in _parts_of(family)]
        if name in siblings and len(siblings) > 1:
            parts = [chosen.name for chosen in _study(name, params or {}).parts]
            groups.setdefault(family, []).extend(parts)
        else:
            groups[name] = []
    return groups


def _parts_of(family: str) -> list[str]:
    """Return the full names of the parts of a kind of study, such as "genderbench/gest"."""
    study = STUDIES.load(family)
    names = dict.fromkeys((*getattr(study, "parts", ()), *getattr(study, "others", ())))
    return [f"{family}/{name}" for name in names]


def _settings(values: Mapping[str, Any], study: Study) -> Settings:
    """Return settings with these values and the limits of the size that applies."""
    values = {key: value for key, value in values.items() if key in _SETTINGS}
    definition = _definition(values.pop("definition", DEFAULT_NAME), study)
    limit = StudyLimit.parse(str(values.pop("limit"))) if "limit" in values else StudyLimit()
    parts = [part.name for part in study.parts]
    for part, limit_of_part in limit.of_parts.items():
        check_known(part, parts, f"--limit {part}={limit_of_part}: the study has no part {part!r}")
    of_all = limit.of_all
    if of_all is None:
        of_all = "standard" if definition.is_default else "full"
    if isinstance(of_all, ItemLimit):
        return Settings(**values, definition=definition, limit=of_all, limits=limit.of_parts)
    of_size = {part.name: ItemLimit(part.sizes[of_all]) for part in study.parts if of_all in part.sizes}
    return Settings(**values, definition=definition, limits=of_size | limit.of_parts)


def _limited_alone(values: Mapping[str, Any], study: Study) -> list[str]:
    """Return the parts that have limits, if there are other parts and no limit applies to these."""
    limit = StudyLimit.parse(str(values["limit"])) if "limit" in values else StudyLimit()
    is_of_some = 0 < len(limit.of_parts) < len(study.parts)
    return list(limit.of_parts) if is_of_some and limit.of_all is None else []


def _definition(name: str, study: Study) -> Definition:
    """Return the definition of that name of the method of a study.

    A study with parts of several methods, or of none that has definitions, has the default definition only.
    """
    methods = {part.method for part in study.parts}
    if len(methods) == 1 and Part.method not in methods:
        return definition_named(name, *methods)
    check_known(name, [DEFAULT_NAME], f"unknown definition {name!r} of {study.name}")
    return GENERAL


def _sampling(base: Sampling, overrides: Mapping[str, Any]) -> Sampling:
    """Return sampling with some fields replaced; raise InputError if they contain a key of an account."""
    for key, value in (overrides.get("extra") or {}).items():
        refuse_secrets(f"sampling.extra.{key}", key, value)
    values = dict(overrides)
    if "stop" in values:
        stop = values["stop"]
        values["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
    return dataclasses.replace(base, **values)


def _files(value: str) -> list[Path]:
    """Return the file that a parameter names, or the files in the folder that it names."""
    if is_file(value):
        return [Path(value)]
    try:
        files = [file for file in Path(value).iterdir() if file.is_file()]
    except (OSError, ValueError):
        return []
    return sorted(file for file in files if not file.name.startswith("."))


def _files_of_outcomes(params: Mapping[str, str]) -> list[Path]:
    """Return the files with the functions that read the responses to a table (FILE.py:FUNCTION)."""
    pieces = [piece.strip() for piece in params.get("outcome", "").split(BETWEEN)]
    files = [file_of(piece) for piece in pieces if not piece.startswith(WITH_DETAIL)]
    return [file for file in files if file is not None and is_file(file)]


def resolve(
    name: Asked,
    *,
    settings: Mapping[str, Any] | None = None,
    sampling: Mapping[str, Any] | None = None,
    only: Sequence[str] | None = None,
) -> Resolved:
    """Return a study with the user's settings.

    `name` is a built-in name, a YAML file, a probe in a Python file (`my_probe.py:MyProbe`), a table of
    prompts (see `tiltmeter.probes.TableProbe`), or an object: a `Study` or a `Part` such as a probe.

    Parameters
    ----------
    settings
        Values for fields of `Settings`, which override the file; for None, the value of the file or the
        default is used.
    sampling
        Values for fields of `Sampling`, which override the file; the file overrides the values prescribed by
        the method.
    only
        Names of the parts, which override those of the file; None: those of the file, or all.

    Raises
    ------
    InputError
        A study, part, key or value is unknown; the message names the file and the key.
    """
    study_object = _study_object(name)
    named = study_object.name if study_object else str(name)
    path = Path(named)
    is_yaml = study_object is None and path.suffix in (".yaml", ".yml")
    place = f"{path}: " if is_yaml else ""
    document = read_yaml(path, "study file") if is_yaml else {"study": named}
    with error_prefix(place):
        in_file = check(document)
    flags = check({"study": named, **(settings or {}), "sampling": dict(sampling or {})})
    params = in_file["params"] | flags["params"]
    with error_prefix(place):
        seed = (in_file | flags).get("seed", _DEFAULT_SEED)
        study = study_object or _study(in_file["study"], params, seed)
        if only is None:
            study = _with_parts(study, in_file.get("parts"), "parts")
        _check_params(study, params)
    study = _with_parts(study, only, "--only")
    with error_prefix("" if "limit" in flags else place):
        resolved_settings = _settings(in_file | flags | {"params": params}, study)
    if resolved_settings.judge is not None and study.judging is None:
        raise InputError(f"{study.name} does not use a judge; remove --judge")
    replaced = replaced_tables(study, resolved_settings)
    files = [file for value in (*params.values(), *replaced.values()) for file in _files(value)]
    files += _files_of_outcomes(params)
    file_of_study = file_of(study.name) or Path(study.name)
    if study_object is None and is_file(file_of_study):
        files.insert(0, file_of_study)
    return Resolved(
        study=study,
        settings=resolved_settings,
        sampling=_sampling(_sampling(study.sampling, in_file["sampling"]), flags["sampling"]),
        inputs={str(file): sha256(file) for file in files},
        limited_alone=_limited_alone(in_file | flags, study),
    )


def _study_object(name: Asked) -> Study | None:
    """Return the study if it is an object, or None if it is a name; raise InputError if it is neither."""
    if isinstance(name, Part):
        return study_of(name, name.name)
    if isinstance(name, Study):
        return name
    if isinstance(name, str | Path):
        return None
    kind = type(name).__name__
    if isinstance(name, type):
        kind = f"the class {name.__name__}; give an instance of it"
    raise InputError(f"the study must be a name such as genderbench, a file, a Study or a Part, not {kind}")


def _check_params(study: Study, params: Mapping[str, str]) -> None:
    """Raise InputError if a parameter is neither one of the study nor a table to replace."""
    ComparisonOptions.of(params)
    replaced = replaced_tables(study, Settings(params=params))
    for key in params:
        if key in TABLE_PARAMS and key not in study.params:
            raise InputError(
                f"--{key} (-P {key}=) applies to tables of prompts such as PROMPTS.csv, not to {study.name}; "
                "remove it"
            )
        if key not in replaced:
            choices = ["definition", *study.params, *COMPARED_PARAMS]
            check_known(key, choices, f"unknown parameter {key!r} (-P) of {study.name}")


# -- the study of a run folder -----------------------------------------------------------------------------


def resolve_stored(
    folder: Path,
    *,
    run_code: bool = False,
    settings: Mapping[str, Any] | None = None,
    only: Sequence[str] | None = None,
) -> Resolved:
    """Return the study of a run folder.

    A run folder may come from someone else, so its code is run only on request.

    Parameters
    ----------
    folder
        The run folder.
    run_code
        Whether code that its study.yaml names (FILE.py:NAME, MODULE:FUNCTION) may be run.
    settings, only
        See `resolve`.

    Raises
    ------
    InputError
        study.yaml names code and `run_code` is False; or see `resolve`.
    """
    if not run_code:
        refuse_code(folder)
    return resolve(folder / STUDY_FILE, settings=settings, only=only)


def refuse_code(folder: Path) -> None:
    """Raise InputError if the study.yaml of a run folder names code, or cannot be read."""
    document = read_yaml(folder / STUDY_FILE, "study of a run")
    code = _code_of(document) if isinstance(document, dict) else []
    if code:
        raise InputError(
            f"{STUDY_FILE} of {folder} names code, which would be run ({', '.join(code)});"
            " read this code, then add --run-code (in Python run_code=True)"
        )


def _code_of(document: Mapping[str, Any]) -> list[str]:
    """Return the names of code in a study document: a study in a Python file, and functions in parameters."""
    texts: list[str] = []
    for key in ("params", "replace"):
        if isinstance(document.get(key), dict):
            texts += [_without_kinds(name, str(value)) for name, value in document[key].items()]
    candidates = [str(document.get("study"))]
    for text in texts:
        for piece in map(str.strip, re.split("[,;]", text)):
            candidates += [piece, *_split_at_equals(piece)]
    return [text for text in dict.fromkeys(candidates) if is_function(text) or file_of(text)]


def _without_kinds(name: object, value: str) -> str:
    """Return the text of a parameter; of the outcomes of a table, only those that may be functions."""
    if name != "outcome":
        return value
    pieces = [piece.strip() for piece in value.split(BETWEEN)]
    return BETWEEN.join(piece for piece in pieces if not piece.startswith(WITH_DETAIL))


def _split_at_equals(text: str) -> tuple[str, str]:
    """Return what follows the first and the last equals sign of NAME=MODULE:FUNCTION."""
    return text.partition("=")[2].strip(), text.rpartition("=")[2].strip()
