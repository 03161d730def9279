"""Documents of a user, read from YAML and checked strictly against Pydantic models. Import it only where one is read: Pydantic is slow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError, model_validator

from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean
from tiltmeter.yaml_files import first_error, read_yaml

Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, pattern=r"^[^\n]*$")]
"""One line of text, without blanks around it."""

_EXPECTED = {
    "missing": "is missing",
    "too_short": "is empty",
    "string_too_short": "is an empty text",
    "string_pattern_mismatch": "must be one line of text",
    "string_type": "must be a text (put numbers, dates and words such as yes and no in quotes)",
    "int_type": "must be a whole number such as 10",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "list_type": "must be a list such as [one, another]",
}
_WITHOUT_VALUE = ("missing", "too_short", "string_too_short", "value_error")
_LONGEST = 60


class Record(BaseModel):
    """A mapping with known keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, given: Any) -> Any:
        for key in given if isinstance(given, dict) else ():
            if not isinstance(key, str):
                raise ValueError("a key must be a text: put numbers, dates and words such as yes and no in quotes")  # noqa: TRY004 - what Pydantic takes
            if key not in cls.model_fields:
                raise ValueError(f"unknown key {key!r}: {did_you_mean(key, list(cls.model_fields))}")
        return given


RecordType = TypeVar("RecordType", bound=Record)


def read_record(path: Path, what: str, model: type[RecordType]) -> RecordType:
    """The content of a YAML file as its model.

    Parameters
    ----------
    what
        What the file is, for messages: "grid".

    Raises
    ------
    InputError
        One sentence about the first thing that is wrong: file, key, what is expected and what was found.
    """
    loaded = read_yaml(path, what)
    if not isinstance(loaded, dict):
        raise InputError(f"{path}: expected a mapping with the keys {', '.join(model.model_fields)}")
    try:
        return model.model_validate(loaded)
    except ValidationError as error:
        raise InputError(f"{path}: {_describe_error(first_error(error))}") from None


def _describe_error(error: Any) -> str:
    where, kind = [str(key) for key in error["loc"]], error["type"]
    said = (
        str(error["ctx"]["error"]) if kind == "value_error" else _EXPECTED.get(kind) or error["msg"].replace("Input should be", "must be")
    )
    shown = repr(error["input"])
    if kind not in _WITHOUT_VALUE:
        said += f", found {shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + '…'}"
    if where[-1:] == ["[key]"]:
        said, where = f"a key {said}", where[:-2]
    return f"{'.'.join(where)}{': ' if kind == 'value_error' or said.startswith('a key') else ' '}{said}" if where else said
