"""What a run must keep to."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from polars import DataFrame, col

from tiltmeter.errors import CAVEATS, InputError, error_prefix
from tiltmeter.registry import check_known
from tiltmeter.runs.opened_run import OF_THE_WHOLE, narrowed
from tiltmeter.study import MARKS

_NAMES = ("model", "part", *OF_THE_WHOLE)
"""What a limit may be narrowed by, as in `tiltmeter show`."""
_LIMIT = re.compile(r"(?:(?P<part>[^\[\]]+)/)?(?P<metric>[^\[\]/]+?)(?:\.(?P<column>p|q))?(?:\[(?P<narrow>.*)\])?", re.DOTALL)
_FORMER = {"subject": "group"}
"""What the first edition called them."""
_NEXT = re.compile(rf",\s*(?=(?:{'|'.join((*_NAMES, *_FORMER))})=)")
"""A comma within a value parts nothing: concepts are made of any words."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The most or the least a number may be."""

    bound: str
    """"max" or "min"."""
    name: str
    """As the user wrote it: `METRIC`, `PART/METRIC`, with `.p` or `.q` behind it where not the estimate is meant, and then
    `[group=...,concept=...,context=...,model=...]` to single out some of the numbers so named."""
    value: float
    metric: str = field(init=False)
    part: str | None = field(init=False)
    column: str = field(init=False)
    narrow: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        """Take the name apart; raises InputError where it is none, or the value is no finite number."""
        if not math.isfinite(self.value):
            raise InputError(f"--{self.bound} {self.name}={self.value}: the value is not a finite number")
        found = _LIMIT.fullmatch(self.name)
        if found is None:
            raise InputError(f"--{self.bound} {self.name!r} is not METRIC, PART/METRIC or METRIC[group=...,context=...]")
        narrow: dict[str, str] = {}
        for piece in _NEXT.split(found["narrow"]) if found["narrow"] is not None else ():
            name, equals, wanted = piece.partition("=")
            name = _FORMER.get(name, name)
            if not equals or name not in _NAMES or name in narrow:
                choices = ", ".join(f"{one}=..." for one in _NAMES)
                raise InputError(f"--{self.bound} {self.name!r}: {piece!r} is not one of {choices}, each once")
            narrow[name] = wanted
        taken = {"metric": found["metric"], "part": found["part"], "column": found["column"] or "estimate", "narrow": narrow}
        for name, one in taken.items():
            object.__setattr__(self, name, one)

    @classmethod
    def parse(cls, bound: str, text: str) -> Self:
        """`NAME=VALUE` of `--max` or `--min`; raises InputError where it is none."""
        name, _, value = text.rpartition("=")
        try:
            return cls(bound, name, float(value))
        except ValueError:
            raise InputError(f"--{bound} {text!r} is not METRIC=VALUE with a number, for instance gest/stereotype_rate=0.1") from None

    @property
    def text(self) -> str:
        """The limit in words: `max gest/stereotype_rate=0.1`."""
        return f"{self.bound} {self.name}={self.value:g}"

    def choose(self, findings: DataFrame) -> DataFrame:
        """The findings it is about.

        Of a group, concept, context or wording that is not given, that of the whole is meant where a part has it for a model, and
        otherwise every one; where some of what remains is key, only that. A limit without a part is about every part that has the metric.

        Raises
        ------
        InputError
            The run has no such number: a limit that is never looked at would pass for ever.
        """
        study, _, part = (self.part or "").rpartition("/")
        fits = findings
        for name, wanted in (("metric", self.metric), ("study", study or None), ("part", part or None), *self.narrow.items()):
            with error_prefix(f"--{self.bound} {self.name}: "):
                fits = narrowed(fits, {name: wanted})
        for name in OF_THE_WHOLE:
            if name not in self.narrow:
                whole = col(name).is_null()
                fits = fits.filter(whole | ~whole.any().over("study", "part", "model"))
        return fits.filter(col.key | ~col.key.any().over("study", "part", "model"))


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything a run must keep to."""

    fail_on: str | None = "critical"
    """Key metrics with this mark or a worse one fail; None: marks decide nothing."""
    certain: bool = False
    """A mark or limit fails only where the whole interval lies at or beyond it; otherwise the estimate decides."""
    limits: tuple[Limit, ...] = ()
    allow_ungraded: bool = False
    """What could not be computed or graded is left out instead of failing."""
    fail_on_caveats: tuple[str, ...] = ()
    """Codes of caveats that fail."""

    def __post_init__(self) -> None:
        """Raises InputError for a mark there is not, the best one, or an unknown caveat."""
        if self.fail_on is not None and self.fail_on not in MARKS[1:]:
            raise InputError(f"--fail-on {self.fail_on!r} is not one of {', '.join(MARKS[1:])}, none")
        for code in self.fail_on_caveats:
            check_known(code, CAVEATS, f"--fail-on-caveat {code}: there is no such caveat")

    @property
    def open(self) -> str:
        """The status of a check there is no number or mark to decide by."""
        return "skipped" if self.allow_ungraded else "undecided"
