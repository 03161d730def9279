"""The declaration of the groups that a part compares."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from polars import Expr, String, col

_NUMBERS: Final = re.compile(r"(-?\d+(?:\.\d+)?)(?:\s*[-–]\s*(\d+(?:\.\d+)?))?(?:-year-olds)?")
"""A number, or a range of numbers, such as an age."""


def attribute_in_words(attribute: str) -> str:
    """Return the name of an attribute, or of the intersections of several, for a sentence.

    Examples
    --------
    >>> attribute_in_words("race,sexual_orientation")
    'race and sexual orientation'
    """
    *others, last = (name.replace("_", " ") for name in attribute.split(","))
    return f"{', '.join(others)} and {last}" if others else last


@dataclass(frozen=True, slots=True)
class Groups:
    """The attribute that a part varies, and the group that each of its prompts is about.

    Prompts with the same item are a matched set if they are about several groups; otherwise the groups are
    independent.

    Parameters
    ----------
    attribute
        Name of the attribute: "gender", "race", or "race,gender" for intersections.
    column
        Factor of the design that has the group of a prompt, or an expression over the factors. Prompts with
        null are about none of the groups.
    names
        The groups in order; empty: all values of the column, in alphabetical order.
    called
        How a sentence names the groups: {"female": "women"}. Others are named as they are.
    reference
        The group with which the others are compared; None: each group is compared with all others together.
    clusters
        Random samples that the items belong to besides being a sample themselves, by plural noun, as
        expressions over the factors (see `Probe.clusters`).
    about
        What a sentence calls attempts about a group: "requests about".
    verbs
        What a sentence says that the model does, by outcome, where it differs from the usual words.

    Examples
    --------
    >>> groups = Groups("gender", "gender", names=("female", "male"), called={"female": "women"})
    >>> groups.words("female"), groups.words("male")
    ('women', 'male')
    """

    attribute: str
    column: str | Expr
    names: tuple[str, ...] = ()
    called: Mapping[str, str] = field(default_factory=dict)
    reference: str | None = None
    clusters: Mapping[str, Expr] = field(default_factory=dict)
    about: str = "requests about"
    verbs: Mapping[str, str] = field(default_factory=dict)

    @property
    def group(self) -> Expr:
        """The group of a prompt as text, null if it is about none."""
        group = col(self.column) if isinstance(self.column, str) else self.column
        return group.cast(String)

    def numbers(self, names: Sequence[str]) -> list[float] | None:
        """Return the groups as numbers, such as ages; None if one is no number.

        A range ("20-29") is its middle.

        Examples
        --------
        >>> Groups("age", "age").numbers(["20-29", "30", "70-year-olds"])
        [24.5, 30.0, 70.0]
        """
        numbers = []
        for name in names:
            ends = _NUMBERS.fullmatch(name.strip())
            if ends is None:
                return None
            present = [float(end) for end in ends.groups() if end is not None]
            numbers.append(sum(present) / len(present))
        return numbers

    def words(self, name: str) -> str:
        """Return how a sentence names a group."""
        return self.called.get(name, name)
