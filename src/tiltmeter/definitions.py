"""Definitions: versioned ways to compute the results of a method.

`tiltmeter.runs.definition_named` returns a definition by its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

from tiltmeter.errors import InputError

DEFAULT_NAME: Final = "default"
"""Name of the definition that each method uses unless the user names another."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A versioned way to compute the results of a method.

    Each method has a subclass, with fields for what differs between its definitions.
    """

    name: str
    version: int

    @property
    def label(self) -> str:
        """Name and version, such as "default@1"."""
        return f"{self.name}@{self.version}"

    @property
    def is_default(self) -> bool:
        """Whether this is the default definition of its method, and not a published one."""
        return self.name == DEFAULT_NAME


GENERAL: Final = Definition(DEFAULT_NAME, 1)
"""The definition of parts whose method has no definitions of its own. In settings that were made without a
study, it stands for the default definition of every method."""

MethodDefinition = TypeVar("MethodDefinition", bound=Definition)


def of_method(definition: Definition, default: MethodDefinition) -> MethodDefinition:
    """Return a definition as one of the method whose default definition is given.

    Raises
    ------
    InputError
        It is a definition of another method.

    Examples
    --------
    >>> from tiltmeter.probes._definitions import DEFAULT
    >>> of_method(GENERAL, DEFAULT) is DEFAULT
    True
    """
    if isinstance(definition, type(default)):
        return definition
    if definition == GENERAL:
        return default
    expected = type(default).__name__
    raise InputError(
        f"expected a definition of the class {expected}, found one of {type(definition).__name__}"
    )
