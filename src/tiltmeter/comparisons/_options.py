"""Options of every study about what is compared between groups (`-P key=value`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tiltmeter.comparisons._outcomes import REQUESTED
from tiltmeter.errors import InputError, check_known

LENGTH: Final = "length"
"""The number of words of a response, as an outcome."""
WORD: Final = r"[\p{L}\p{N}]+(?:[-'’.,][\p{L}\p{N}]+)*"
"""A word of a response."""
COMPARED_PARAMS: Final[Mapping[str, str]] = {
    "reference": "the group that each other one is compared with [default: all others together]",
    "outcomes": (
        "comma-separated further outcomes of the responses that are compared between groups: length (words), "
        "or features (tiltmeter list features; NAME=MODEL; MODULE:FUNCTION)"
    ),
    "comparisons": (
        "comma-separated comparisons of each outcome besides differences: ratio, or slope (of groups that "
        "are numbers, such as ages)"
    ),
}
"""Parameters of every study, with a description."""


@dataclass(frozen=True, slots=True)
class ComparisonOptions:
    """What a study compares between groups besides missing responses.

    Parameters
    ----------
    reference
        The group that each other one is compared with, or None.
    outcomes
        LENGTH and names of features (see `tiltmeter.features.open_features`).
    comparisons
        Those of REQUESTED that are made besides differences.

    Examples
    --------
    >>> ComparisonOptions.of({"comparisons": "ratio,slope"}).comparisons
    ('ratio', 'slope')
    """

    reference: str | None = None
    outcomes: tuple[str, ...] = ()
    comparisons: tuple[str, ...] = ()

    @classmethod
    def of(cls, params: Mapping[str, str]) -> ComparisonOptions:
        """Read the options from the parameters of a study.

        Raises
        ------
        InputError
            A value is empty, listed twice, or no comparison.
        """
        comparisons = _names(params, "comparisons")
        for name in comparisons:
            check_known(name, REQUESTED, f"-P comparisons={params['comparisons']}")
        return cls(params.get("reference"), _names(params, "outcomes"), comparisons)


def _names(params: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Return the comma-separated names of a parameter; none if it is not given."""
    if key not in params:
        return ()
    names = [name.strip() for name in params[key].split(",")]
    if not all(names):
        raise InputError(f"-P {key}={params[key]}: a name is empty; name at least one")
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise InputError(f"-P {key}={params[key]}: {repeated[0]} is listed twice")
    return tuple(names)
