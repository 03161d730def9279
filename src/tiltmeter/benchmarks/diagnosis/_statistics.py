"""Summary statistics by name: those of the table, and those that outside packages bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tiltmeter import registry
from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean
from tiltmeter.stats.summary import STATISTICS, Statistic

__all__ = ["find_statistics"]


def find_statistics(names: Sequence[str]) -> Mapping[str, Statistic]:
    """The statistics of these names, in order: of `stats.summary.STATISTICS`, or of the entry point group `tiltmeter.statistics`.

    Raises
    ------
    InputError
        There is no such statistic, or an outside one is called like one of ours or is no `Statistic`.
    """
    outside = registry.names("statistics")
    known = list(dict.fromkeys([*STATISTICS, *outside]))
    if unknown := [name for name in names if name not in known]:
        raise InputError(f"there is no statistic {unknown[0]!r}: {did_you_mean(unknown[0], known)}")
    return {name: _outside(name) if name in outside else STATISTICS[name] for name in names}


def _outside(name: str) -> Statistic:
    place = registry.reference("statistics", name)
    if name in STATISTICS:
        raise InputError(f"{place} cannot be the statistic {name!r}: Tiltmeter has one of that name; rename its entry point")
    found: Any = registry.load("statistics", name)
    if not isinstance(found, Statistic):
        raise InputError(f"{place} is no tiltmeter.stats.summary.Statistic but {type(found).__name__}; mend the package it is in")
    return found
