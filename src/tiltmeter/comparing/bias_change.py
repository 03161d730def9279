"""Change of the bias of a metric between two sides: its size, its interval and its test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tiltmeter import stats
from tiltmeter.blocks import MARKS


class BoundedValue(NamedTuple):
    """A signed value with its confidence interval."""

    value: float
    low: float
    high: float

    @classmethod
    def deviation(cls, row: Mapping[str, Any], name: str, centre: float) -> BoundedValue | None:
        """Return the deviation from `centre` of a value in the columns `name`, `name`_low and `name`_high; None if an end is missing."""
        value, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
        if value is None or low is None or high is None:
            return None
        return cls(value - centre, low - centre, high - centre)

    @property
    def negative(self) -> BoundedValue:
        """The value with the opposite sign."""
        return BoundedValue(-self.value, -self.high, -self.low)

    def p(self, level: float, freedom: float) -> float:
        """Return the two-sided p-value of the null hypothesis that the value is 0.

        The distance from the value to the end of the interval next to 0 is a quantile of Student's t times
        the standard error. The p-value is below 1 - `level` if and only if the interval excludes 0.

        Parameters
        ----------
        level
            Confidence level of the interval.
        freedom
            Degrees of freedom of the interval.
        """
        half = self.value - self.low if self.value > 0 else self.high - self.value
        if self.value == 0 or not half > 0:
            return float(self.value == 0)
        return stats.two_sided_t_p(stats.two_sided_t(level, freedom) * self.value / half, freedom)


class BiasChange(NamedTuple):
    """Change in the distance from "no bias" (second minus first), with its interval and p-value."""

    value: float
    low: float
    high: float
    p: float


@dataclass(frozen=True, slots=True)
class BiasScale:
    """The scale on which values of a metric are judged: their distance from "no bias".

    Parameters
    ----------
    centre
        The value that means "no bias".
    side
        +1 if only values above the centre are possible, -1 if only values below it are, 0 if both are.
    most
        The largest possible distance; None if it is unbounded.
    """

    centre: float
    side: int
    most: float | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> BiasScale | None:
        """Create the scale of a finding from its null value, range and tiers.

        Return None if no direction is defined as better.

        The null value means "no bias". Tiers decide only if there is none: the healthiest value is then the
        end of the range at which the healthy tier begins or ends, or the middle of the healthy tier.
        """
        low, high = row["range_low"], row["range_high"]
        centre = row["null_value"]
        healthy = [band for band in row["bands"] or () if band["mark"] == MARKS[0]]
        if centre is None and healthy:
            begin = min(band["low"] for band in healthy)
            end = max(band["high"] for band in healthy)
            centre = low if begin <= low else high if end >= high else (begin + end) / 2
        if centre is None:
            return None
        below = low is None or low < centre
        above = high is None or high > centre
        side = 0 if below == above else 1 if above else -1
        worst = [high] if side > 0 else [low] if side < 0 else [low, high]
        most = None if None in worst else max(abs(end - centre) for end in worst)
        return cls(centre, side, most)

    def change(self, row: Mapping[str, Any]) -> BiasChange | None:
        """Return the change in distance from "no bias" between the first and the second side; None if an interval is missing.

        Let a and b be the deviations of the first and the second side from "no bias".

        - Both signs are possible: |b| > |a| if and only if b - a and b + a have the same sign. The test is the intersection-union test of
          both: its p-value is the larger of the two. |b| - |a| is the one that is nearer to 0, and its
          interval is its range over the intervals of both.
        - Only one sign is possible: |b| - |a| is the difference of the values, or its negative.

        The two conditions of the first case need no adjustment for two tests, because both must be
        significant.

        Parameters
        ----------
        row
            A row with `difference`, `low`, `high`, `p`, the values `first` and `second` of the shared prompts
            as `shared_first`, `shared_second`, the ends of their intervals and of that of their sum, `level`
            and `freedom`.

        References
        ----------
        Berger (1982), "Multiparameter hypothesis testing and acceptance sampling" (intersection-union test).
        """
        difference = BoundedValue(row["difference"], row["low"], row["high"])
        p, level = row["p"], row["level"]
        if self.side:
            moved = difference if self.side > 0 else difference.negative
            return BiasChange(*moved, 1.0 if p is None else p)
        total = BoundedValue.deviation(row, "shared_sum", 2 * self.centre)
        if p is None or total is None:
            return None
        freedom = float("inf") if row["freedom"] is None else row["freedom"]
        return _change_of_size(difference, total, max(p, total.p(level, freedom)))


def _change_of_size(difference: BoundedValue, total: BoundedValue, p: float) -> BiasChange:
    """Return the change of |value|: the range of the change over the intervals of the difference and of the sum of both sides."""
    opposite = total.negative
    value = max(min(difference.value, total.value), min(-difference.value, -total.value))
    high = max(min(difference.high, total.high), min(-difference.low, -total.low))
    low = -max(min(difference.high, opposite.high), min(-difference.low, -opposite.low))
    return BiasChange(value, low, high, p)
