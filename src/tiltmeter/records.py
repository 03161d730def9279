"""Documents of a user, read from YAML and checked strictly against Pydantic models. Import it only where one is read: Pydantic is slow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from tiltmeter.errors import InputError
from tiltmeter.yaml_files import error_sentence, read_yaml

Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, pattern=r"^[^\n]*$")]
"""One line of text, without blanks around it."""
T = TypeVar("T")
Filled: TypeAlias = Annotated[T, Field(min_length=1)]
"""A list, mapping or text that is not empty."""


class Record(BaseModel):
    """A mapping with known keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Model = TypeVar("Model", bound=BaseModel)


def read_record(path: Path, what: str, model: type[Model]) -> Model:
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
        fields = model.model_fields
        needed = [name for name, field in fields.items() if field.is_required()]
        raise InputError(f"{path}: expected a mapping with the keys {', '.join(needed or fields)}")
    return validated(loaded, model, str(path))


def validated(loaded: Any, model: type[Model], place: str) -> Model:
    """A value as its model; raises InputError with the place and one sentence about the first thing that is wrong."""
    try:
        return model.model_validate(loaded)
    except ValidationError as error:
        raise InputError(f"{place}: {error_sentence(error, model)}") from None
