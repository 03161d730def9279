"""The list of studies, and how one case of a study is carried out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Final, Protocol, cast

from perf.studies.study import Claim

MODULES: Final = (
    "probe_coverage",
    "few_items",
    "group_sizes",
    "impact_ratios",
    "planted_refusals",
    "populations",
    "planted_associations",
    "compared_models",
    "labelled_maxima",
    "fair_suites",
    "everyone",
    "fair_benchmarks",
    "changed_bias",
)
"""Modules of `perf.studies` that are a study, in the order of the record."""


class StudyModule(Protocol):
    """A module of this package that is a study."""

    QUESTION: str
    """What is examined, in one sentence."""
    CODE: Sequence[str]
    """Modules and packages of `tiltmeter` whose code and data decide about the outcome."""
    # A study whose generator is in other modules of `perf` names them in `GENERATOR`, because they decide
    # about the outcome as well.
    CASES: Sequence[str]
    """Parts that are independent of each other and can be carried out at the same time."""

    # A study may define `overall`, a function from the claims of all cases, by case, to claims about them
    # together.
    def carry_out(self, case: str, studies: int = ...) -> list[Claim]:
        """Carry out one case and return its claims.

        `studies` is the number of simulated studies; tests use fewer than the default.
        """


def study_named(name: str) -> StudyModule:
    """Return the module of a study."""
    return cast("StudyModule", import_module(f"perf.studies.{name}"))


def claims_of_case(name: str, case: str) -> tuple[list[Claim], float]:
    """Carry out one case of a study; return its claims and the seconds of processor time that it used."""
    study = study_named(name)
    before = _processor_seconds()
    claims = study.carry_out(case)
    return claims, _processor_seconds() - before


def _processor_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
