"""What the columns of a table of prompts are used for: the options `--group`, `--item` and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tiltmeter.errors import InputError

TABLE_PARAMS: Final[Mapping[str, str]] = {
    "group": "column with the group of each prompt; several columns with ';', each of which is a part of the "
    "study; columns joined by ',' make intersections",
    "swap": "what is swapped in prompts with slots such as {first_name} and {he/she/they}: lists of groups"
    " (gender, race, age, nationality, religion, disability; race,gender are crossed), or a table with the"
    " columns of the groups and of the slots",
    "item": "column that identifies the prompts that differ in their groups only",
    "expected": "column with the expected answers",
    "system": "column with the system message of each prompt",
    "label": "name of the outcome that is counted, such as invited",
    "outcome": "what is read from the responses, several with ';': expected, yes-no, choice:A|B, accept, "
    "number, refusal, length, similarity, a feature, MODULE:FUNCTION or judge:QUESTION",
}
"""Parameters of a study that is a table of prompts, with a description."""
TEXT_FILES: Final = (".txt", ".md")
"""Suffixes of files of prompts that are no tables."""
BETWEEN: Final = ";"
"""Separator of several attributes, and of several outcomes, in a parameter."""

WITH_DETAIL: Final = ("choice:", "number:", "judge:")
"""Beginnings of outcomes with further words, which name no function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRoles:
    """What the columns of a table of prompts are used for.

    Without attributes, the column `group` is used, and `item`, `expected` and `system` if they exist.

    Parameters
    ----------
    attributes
        Columns with the group of each prompt: one column, or several separated by commas, whose combinations
        are the groups.
    item
        Column shared by the prompts that differ in their groups only.
    expected
        Column with the expected answers.
    system
        Column with the system message of each prompt.
    label
        Name of the outcome that is counted, such as "invited".
    outcomes
        What is read from the responses; the first is compared in the key metric.

    Examples
    --------
    >>> TableRoles.of({"group": "race; gender", "label": "invited"}).attributes
    ('race', 'gender')
    """

    attributes: tuple[str, ...] = ()
    item: str | None = None
    expected: str | None = None
    system: str | None = None
    label: str | None = None
    outcomes: tuple[str, ...] = ()

    @classmethod
    def of(cls, params: Mapping[str, str]) -> TableRoles:
        """Read the roles from the parameters of a study.

        Raises
        ------
        InputError
            A value is empty or listed twice.
        """
        single = {}
        for name in ("item", "expected", "system", "label"):
            if name in params:
                single[name] = params[name].strip()
                if not single[name]:
                    raise InputError(f"--{name} is empty; {_needed(name)}")
        return cls(attributes=_several("group", params), outcomes=_several("outcome", params), **single)


def as_param(name: str, values: str | Sequence[str]) -> str:
    """Return one or more values of an option as the text of a parameter.

    Raises
    ------
    InputError
        A value is no text, or contains the separator of values.
    """
    several = [values] if isinstance(values, str) else list(values)
    for value in several:
        if not isinstance(value, str):
            raise InputError(f"{name}= must be a text or a list of texts, not {value!r}")
    for value in several if len(several) > 1 else ():
        if BETWEEN in value:
            raise InputError(f"--{name} {value!r}: write it without '{BETWEEN}', which separates values")
    return BETWEEN.join(several)


def _several(name: str, params: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of a parameter that may have several; none if it is not given."""
    if name not in params:
        return ()
    values = [value.strip() for value in params[name].split(BETWEEN)]
    if not all(values):
        raise InputError(f"--{name} {params[name]!r}: a value is empty; {_needed(name)}")
    repeated = [value for value in values if values.count(value) > 1]
    if repeated:
        raise InputError(f"--{name} {repeated[0]} is given twice; give it once")
    return tuple(values)


def _needed(name: str) -> str:
    """Return what the value of an option has to be."""
    if name == "label":
        return "name what is counted, such as invited"
    if name == "outcome":
        return "name an outcome, such as yes-no"
    return "name a column of the table"
