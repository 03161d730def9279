"""What a study is, and the list of all studies."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Final, Protocol, cast

MODULES: Final = ("probe_coverage", "few_items", "populations", "planted_associations", "compared_models")
"""Modules of `perf.studies` that are a study, in the order of the record."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A figure of a study with the range that it must lie in (both ends included)."""

    name: str
    observed: float
    low: float
    high: float

    @property
    def holds(self) -> bool:
        """Whether the figure lies in the range."""
        return self.low <= self.observed <= self.high


class StudyModule(Protocol):
    """A module of this package that is a study."""

    QUESTION: str
    """What is examined, in one sentence."""
    CODE: Sequence[str]
    """Modules and packages of `tiltmeter` whose code decides about the outcome."""
    CASES: Sequence[str]
    """Parts that are independent of each other and can be carried out at the same time."""

    def carry_out(self, case: str) -> list[Claim]:
        """Carry out one case and return its claims."""


def study_named(name: str) -> StudyModule:
    """Return the module of a study."""
    return cast("StudyModule", import_module(f"perf.studies.{name}"))


def claims_of_case(name: str, case: str) -> tuple[list[Claim], float]:
    """Carry out one case of a study; return its claims and its seconds."""
    begun = time.perf_counter()
    claims = study_named(name).carry_out(case)
    return claims, time.perf_counter() - begun
