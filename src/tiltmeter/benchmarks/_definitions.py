"""The definitions of benchmarks: how statistics are computed and compared, and which statistics there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tiltmeter._plugins.registry import Registry
from tiltmeter.definitions import Definition, of_method
from tiltmeter.errors import InputError, check_known
from tiltmeter.stats import DEFAULT_FORMULAS, SAGED_FORMULAS, STATISTICS, Formulas, Statistic
from tiltmeter.study import Settings

DEFAULT_STATISTICS: Final = ("mean", "median", "sd", "selection_rate", "kl", "precision", "pearson")
FOUR_FIFTHS: Final = 0.8
"""Threshold of the four-fifths rule: a lower impact ratio indicates adverse impact."""
OUTSIDE_STATISTICS: Final = Registry("statistics", "statistic", {})
"""Statistics of other packages (entry points in the group `tiltmeter.statistics`).

The built-in ones are `tiltmeter.stats.STATISTICS`."""


@dataclass(frozen=True, slots=True)
class BenchmarkDefinition(Definition):
    """Formulas of statistics and comparisons: the default ones, or those of the package `sagedbias`."""

    formulas: Formulas = DEFAULT_FORMULAS
    names_replaced: bool = True
    """Whether calibration replaces the names of the groups before it subtracts the value of the baseline."""
    calibrated_keys: bool = True
    """Whether the key numbers are calibrated where there is a baseline, and form a family of q-values of
    their own."""
    decision_rates: bool = True
    """Whether the selection rate of decisions is their mean, which is never calibrated.

    Otherwise it is computed as that of other features."""


DEFAULT: Final = BenchmarkDefinition("default", 3)
SAGED: Final = BenchmarkDefinition(
    "saged",
    1,
    formulas=SAGED_FORMULAS,
    names_replaced=False,
    calibrated_keys=False,
    decision_rates=False,
)


def definition_of(settings: Settings) -> BenchmarkDefinition:
    """Return the definition of benchmarks in the settings of a study.

    Raises
    ------
    InputError
        It is a definition of another method.
    """
    return of_method(settings.definition, DEFAULT)


def find_statistics(names: Sequence[str]) -> Mapping[str, Statistic]:
    """Return the named statistics in order, built-in ones and those of plugins.

    Raises
    ------
    InputError
        There is no such statistic, or a plugin's statistic has the name of a built-in one or is not a
        `Statistic`.
    """
    outside = OUTSIDE_STATISTICS.names()
    available = dict.fromkeys([*STATISTICS, *outside])
    for name in names:
        check_known(name, available, f"there is no statistic {name!r}")
    return {name: _outside_statistic(name) if name in outside else STATISTICS[name] for name in names}


def _outside_statistic(name: str) -> Statistic:
    place = OUTSIDE_STATISTICS.reference(name)
    if name in STATISTICS:
        raise InputError(
            f"{place} cannot define the statistic {name!r}, which is built in; rename its entry point"
        )
    statistic: Any = OUTSIDE_STATISTICS.load(name)
    if not isinstance(statistic, Statistic):
        raise InputError(
            f"{place} must be a tiltmeter.stats.Statistic, not {type(statistic).__name__}; "
            "correct the package that defines it"
        )
    return statistic
