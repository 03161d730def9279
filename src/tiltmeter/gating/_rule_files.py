"""Rules of a gate: marks, limits and caveats."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from polars import DataFrame, Expr, col

from tiltmeter.benchmarks._tables import BASELINES
from tiltmeter.blocks import MARKS
from tiltmeter.errors import CAVEATS, InputError, check_known, error_prefix
from tiltmeter.runs._selecting import OF_THE_WHOLE, narrowed

_NAMES = ("model", "part", *OF_THE_WHOLE)
"""Fields by which a limit can be restricted, as in `tiltmeter show`."""
_LIMIT = re.compile(
    r"""
    (?:(?P<part>[^\[\]]+)/)?
    (?P<metric>[^\[\]/]+?)
    (?:\.(?P<column>p|q))?
    (?:\[(?P<restrictions>.*)\])?
    """,
    re.DOTALL | re.VERBOSE,
)
"""`METRIC`, `PART/METRIC`, `METRIC.q`, `METRIC[group=...,context=...]`."""
MISSING_GAP: Final = 0.1
"""Difference of the shares of missing responses of two groups from which a gate fails by default."""
_FORMER = {"subject": "group"}
"""Field names of earlier versions, with their current names."""
_SEPARATOR = re.compile(rf",\s*(?=(?:{'|'.join((*_NAMES, *_FORMER))})=)")
"""Separator of restrictions. Other commas do not separate, because concepts may contain them."""


@dataclass(frozen=True, slots=True)
class Limit:
    """An upper or lower limit for a metric."""

    bound: str
    """"max" or "min"."""
    name: str
    """The name of the metric as the user wrote it: `METRIC` or `PART/METRIC`.

    It may be followed by `.p` or `.q` instead of the estimate, and by
    `[group=...,concept=...,context=...,model=...]` to select some of the findings with this name.
    """
    value: float
    metric: str = field(init=False)
    part: str | None = field(init=False)
    column: str = field(init=False)
    narrow: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        """Parse the name; raises InputError if the name is invalid or the value is not finite."""
        if not math.isfinite(self.value):
            raise InputError(f"--{self.bound} {self.name}={self.value}: the value is not a finite number")
        match = _LIMIT.fullmatch(self.name)
        if match is None:
            raise InputError(
                f"--{self.bound} {self.name!r} is not of the form METRIC, PART/METRIC"
                " or METRIC[group=...,context=...]"
            )
        object.__setattr__(self, "metric", match["metric"])
        object.__setattr__(self, "part", match["part"])
        object.__setattr__(self, "column", match["column"] or "estimate")
        object.__setattr__(self, "narrow", self._restrictions(match["restrictions"]))
        if self.column != "estimate" and not 0 <= self.value <= 1:
            raise InputError(
                f"--{self.bound} {self.name}={self.value:g}: {self.column} is a probability, from 0 to 1"
            )

    def _restrictions(self, text: str | None) -> dict[str, str]:
        """Parse the restrictions in brackets; raises InputError if one is invalid or occurs twice."""
        restrictions: dict[str, str] = {}
        for part in [] if text is None else _SEPARATOR.split(text):
            name, equals, value = part.partition("=")
            name = _FORMER.get(name, name)
            if not equals or name not in _NAMES or name in restrictions:
                choices = ", ".join(f"{choice}=..." for choice in _NAMES)
                raise InputError(
                    f"--{self.bound} {self.name!r}: {part!r} is not valid; use {choices}, each at most once"
                )
            restrictions[name] = value
        return restrictions

    @classmethod
    def parse(cls, bound: str, text: str) -> Self:
        """Parse `NAME=VALUE` of `--max` or `--min`; raises InputError if it is invalid."""
        name, _, value = text.rpartition("=")
        try:
            return cls(bound, name, float(value))
        except ValueError:
            raise InputError(
                f"--{bound} {text!r} is not of the form METRIC=VALUE with a number,"
                " such as gest/stereotype_rate=0.1"
            ) from None

    @property
    def text(self) -> str:
        """The limit as text: `max gest/stereotype_rate=0.1`."""
        return f"{self.bound} {self.name}={self.value:g}"

    def choose(self, findings: DataFrame) -> DataFrame:
        """Return the findings that the limit applies to.

        If no group, concept, context or wording is given, the limit applies to the overall finding of a part
        and model if there is one, and otherwise to all its findings. If some of the selected findings are key
        findings, the limit applies only to them. It applies to the baselines of a benchmark only if the
        context is given. A limit without a part applies to all parts that have the metric.

        Raises
        ------
        InputError
            The run has no such finding. (Otherwise, a limit with a mistyped name would always pass.)
        """
        study, _, part = (self.part or "").rpartition("/")
        names = {"metric": self.metric, "study": study or None, "part": part or None, **self.narrow}
        chosen = findings
        for name, value in names.items():
            with error_prefix(f"--{self.bound} {self.name}: "):
                chosen = narrowed(chosen, {name: value})
        for name in OF_THE_WHOLE:
            if name not in self.narrow:
                chosen = _preferred(chosen, col(name).is_null())
        self._check_percentage(chosen)
        chosen = _preferred(chosen, col.key)
        if "context" not in self.narrow:
            # The texts of the baselines were not written by the model.
            chosen = _preferred(chosen, col.context.ne_missing(BASELINES))
        return chosen

    def _check_percentage(self, findings: DataFrame) -> None:
        """Raise InputError if the limit looks like a percentage, and a finding is a share."""
        if self.column != "estimate" or not 1 < abs(self.value) <= 100:
            return
        shares = findings.filter(col.unit.is_in(["share", "difference"]))
        if not shares.is_empty():
            raise InputError(
                f"--{self.bound} {self.name}={self.value:g}: it is a {shares['unit'][0]}, at most 1;"
                " write 0.5 for 50% or 50 points"
            )


def _preferred(findings: DataFrame, is_preferred: Expr) -> DataFrame:
    """Return the preferred findings of each part and model, or all its findings if none is preferred."""
    any_preferred = is_preferred.any().over("study", "part", "model")
    return findings.filter(is_preferred | ~any_preferred)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a gate."""

    fail_on: str | None = "critical"
    """Mark from which key metrics fail (this one and worse ones); None ignores marks."""
    certain: bool = False
    """If True, a limit fails only if the whole interval is beyond it; if False, the estimate decides.

    Marks are ranges in any case.
    """
    limits: tuple[Limit, ...] = ()
    allow_ungraded: bool = False
    """If True, metrics that could not be computed or graded are skipped instead of failing."""
    fail_on_caveats: tuple[str, ...] = ()
    """Codes of caveats that make the gate fail."""
    allow_undecided: bool = False
    """If True, metrics whose mark lies on both sides of `fail_on` pass."""
    missing_gap: float | None = MISSING_GAP
    """Largest accepted difference between groups in the share of refused, unreadable, empty or failed
    responses; None ignores them. Only differences with q < 0.05 fail."""
    population: bool = False
    """Whether the comparison with the baseline is about questions, names and wordings like these.

    If False, it is about the bias on these.
    """

    def __post_init__(self) -> None:
        """Raise InputError for an unknown mark, the best mark, or an unknown caveat."""
        if self.fail_on is not None and self.fail_on not in MARKS[1:]:
            raise InputError(
                f"--fail-on {self.fail_on!r} is not one of {', '.join(MARKS[1:])}, none (in Python: None)"
            )
        if self.missing_gap is not None and not 0 <= self.missing_gap <= 1:
            raise InputError(
                f"--missing-gap {self.missing_gap:g} is not a share from 0 to 1, or none; 0.1 is 10 points"
            )
        minimum = {limit.name: limit.value for limit in self.limits if limit.bound == "min"}
        for limit in self.limits:
            if limit.bound == "max" and limit.value < minimum.get(limit.name, -math.inf):
                raise InputError(
                    f"--min {limit.name}={minimum[limit.name]:g} and --max {limit.name}={limit.value:g}:"
                    " no value can satisfy both"
                )
        for code in self.fail_on_caveats:
            check_known(code, CAVEATS, f"--fail-on-caveat {code}: there is no such caveat")

    @property
    def open(self) -> str:
        """Status of checks that have no estimate or mark to check."""
        return "skipped" if self.allow_ungraded else "ungraded"
