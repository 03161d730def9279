"""User documents in YAML, validated strictly against Pydantic models.

Import this module lazily, because importing Pydantic is slow.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from tiltmeter._files.yaml import error_sentence, read_yaml
from tiltmeter.errors import InputError

Line: TypeAlias = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, pattern=r"^[^\n]*$")]
"""One line of text, stripped of surrounding whitespace."""
T = TypeVar("T")
Filled: TypeAlias = Annotated[T, Field(min_length=1)]
"""A non-empty list, mapping or text."""


class Record(BaseModel):
    """Base model of a mapping that rejects unknown keys."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, frozen=True)


Model = TypeVar("Model", bound=BaseModel)


def read_record(path: Path, what: str, model: type[Model]) -> Model:
    """Read and validate a YAML file.

    Parameters
    ----------
    what
        Kind of file for messages, such as "grid".

    Raises
    ------
    InputError
        The file is invalid; the message describes the first error: file, key, expected and actual value.
    """
    loaded = read_yaml(path, what)
    if not isinstance(loaded, dict):
        fields = model.model_fields
        needed = [name for name, field in fields.items() if field.is_required()]
        raise InputError(f"{path}: expected a mapping with the keys {', '.join(needed or fields)}")
    return validated(loaded, model, str(path))


def validated(loaded: Any, model: type[Model], place: str) -> Model:
    """Validate a value against a model.

    Raise InputError with the place and one sentence about the first error.
    """
    try:
        return model.model_validate(loaded)
    except ValidationError as error:
        raise InputError(f"{place}: {error_sentence(error, model)}") from None
