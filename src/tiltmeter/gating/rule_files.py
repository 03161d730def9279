"""Rules of a gate: marks, limits and caveats."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from polars import DataFrame, col

from tiltmeter.benchmarks.definitions import BASELINES
from tiltmeter.blocks import MARKS
from tiltmeter.errors import CAVEATS, InputError, check_known, error_prefix
from tiltmeter.runs.selecting import OF_THE_WHOLE, narrowed

_NAMES = ("model", "part", *OF_THE_WHOLE)
"""Fields by which a limit can be restricted, as in `tiltmeter show`."""
_LIMIT = re.compile(
    r"(?:(?P<part>[^\[\]]+)/)?(?P<metric>[^\[\]/]+?)(?:\.(?P<column>p|q))?(?:\[(?P<narrow>.*)\])?", re.DOTALL
)
_FORMER = {"subject": "group"}
"""Field names of earlier versions, with their current names."""
_NEXT = re.compile(rf",\s*(?=(?:{'|'.join((*_NAMES, *_FORMER))})=)")
"""Separator of restrictions. A comma inside a value does not separate, because concepts may contain commas.
"""


@dataclass(frozen=True, slots=True)
class Limit:
    """An upper or lower limit for a metric."""

    bound: str
    """"max" or "min"."""
    name: str
    """The name given by the user: `METRIC` or `PART/METRIC`, optionally followed by `.p` or `.q` instead of
    the estimate, and by `[group=...,concept=...,context=...,model=...]` to select some of the findings with
    this name.
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
        found = _LIMIT.fullmatch(self.name)
        if found is None:
            raise InputError(
                f"--{self.bound} {self.name!r} is not of the form METRIC, PART/METRIC or METRIC[group=...,context=...]"
            )
        narrow: dict[str, str] = {}
        for piece in _NEXT.split(found["narrow"]) if found["narrow"] is not None else ():
            name, equals, wanted = piece.partition("=")
            name = _FORMER.get(name, name)
            if not equals or name not in _NAMES or name in narrow:
                choices = ", ".join(f"{one}=..." for one in _NAMES)
                raise InputError(
                    f"--{self.bound} {self.name!r}: {piece!r} is not valid; use {choices}, each at most once"
                )
            narrow[name] = wanted
        fields = {
            "metric": found["metric"],
            "part": found["part"],
            "column": found["column"] or "estimate",
            "narrow": narrow,
        }
        for name, one in fields.items():
            object.__setattr__(self, name, one)
        if self.column != "estimate" and not 0 <= self.value <= 1:
            raise InputError(
                f"--{self.bound} {self.name}={self.value:g}: {self.column} is a probability, from 0 to 1"
            )

    @classmethod
    def parse(cls, bound: str, text: str) -> Self:
        """Parse `NAME=VALUE` of `--max` or `--min`; raises InputError if it is invalid."""
        name, _, value = text.rpartition("=")
        try:
            return cls(bound, name, float(value))
        except ValueError:
            raise InputError(
                f"--{bound} {text!r} is not of the form METRIC=VALUE with a number, such as gest/stereotype_rate=0.1"
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
        fits = findings
        for name, wanted in (
            ("metric", self.metric),
            ("study", study or None),
            ("part", part or None),
            *self.narrow.items(),
        ):
            with error_prefix(f"--{self.bound} {self.name}: "):
                fits = narrowed(fits, {name: wanted})
        for name in OF_THE_WHOLE:
            if name not in self.narrow:
                whole = col(name).is_null()
                fits = fits.filter(whole | ~whole.any().over("study", "part", "model"))
        if (
            self.column == "estimate"
            and 1 < abs(self.value) <= 100
            and (shares := fits.filter(col.unit.is_in(["share", "difference"]))).height
        ):
            raise InputError(
                f"--{self.bound} {self.name}={self.value:g}: it is a {shares['unit'][0]}, at most 1; write 0.5 for 50% or 50 points"
            )
        fits = fits.filter(col.key | ~col.key.any().over("study", "part", "model"))
        if "context" in self.narrow:
            return fits
        # The texts of the baselines were not written by the model.
        by_model = col.context.ne_missing(BASELINES)
        return fits.filter(by_model | ~by_model.any().over("study", "part", "model"))


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a gate."""

    fail_on: str | None = "critical"
    """Mark from which key metrics fail (this one and worse ones); None ignores marks."""
    certain: bool = False
    """If True, a limit fails only if the whole interval is beyond it; if False, the estimate decides. Marks
    are ranges in any case."""
    limits: tuple[Limit, ...] = ()
    allow_ungraded: bool = False
    """If True, metrics that could not be computed or graded are skipped instead of failing."""
    fail_on_caveats: tuple[str, ...] = ()
    """Codes of caveats that make the gate fail."""
    allow_undecided: bool = False
    """If True, metrics whose mark lies on both sides of `fail_on` pass."""
    population: bool = False
    """If True, a metric is worse than in the baseline if its bias on questions, names and wordings like these
    is; if False, on these."""

    def __post_init__(self) -> None:
        """Raise InputError for an unknown mark, the best mark, or an unknown caveat."""
        if self.fail_on is not None and self.fail_on not in MARKS[1:]:
            raise InputError(
                f"--fail-on {self.fail_on!r} is not one of {', '.join(MARKS[1:])}, none (in Python: None)"
            )
        lowest = {limit.name: limit.value for limit in self.limits if limit.bound == "min"}
        if both := next(
            (
                limit
                for limit in self.limits
                if limit.bound == "max" and limit.value < lowest.get(limit.name, -math.inf)
            ),
            None,
        ):
            raise InputError(
                f"--min {both.name}={lowest[both.name]:g} and --max {both.name}={both.value:g}: no value can satisfy both"
            )
        for code in self.fail_on_caveats:
            check_known(code, CAVEATS, f"--fail-on-caveat {code}: there is no such caveat")

    @property
    def open(self) -> str:
        """Status of checks that have no estimate or mark to check."""
        return "skipped" if self.allow_ungraded else "ungraded"
