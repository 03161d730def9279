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
        """Return the deviation of a value from `centre`; None if it or an end of its interval is missing.

        The value is in the column `name` of a row, its interval in `name`_low and `name`_high.
        """
        value = row[name]
        low = row[f"{name}_low"]
        high = row[f"{name}_high"]
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
            if begin <= low:
                centre = low
            elif end >= high:
                centre = high
            else:
                centre = (begin + end) / 2
        if centre is None:
            return None
        below = low is None or low < centre
        above = high is None or high > centre
        side = int(above) - int(below)
        if side > 0:
            worst = [high]
        elif side < 0:
            worst = [low]
        else:
            worst = [low, high]
        unbounded = None in worst
        most = None if unbounded else max(abs(value - centre) for value in worst)
        return cls(centre, side, most)

    def change(self, row: Mapping[str, Any]) -> BiasChange | None:
        """Return the change in distance from "no bias" (second side minus first); None without an interval.

        Let a and b be the deviations of the first and the second side from "no bias".

        - Both signs are possible: |b| > |a| if and only if b - a and b + a have the same sign. The test is
          the intersection-union test of both: its p-value is the larger of the two. |b| - |a| is the one that
          is nearer to 0, and its interval is its range over the intervals of both.
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
        p = row["p"]
        if self.side:
            change = difference if self.side > 0 else difference.negative
            return BiasChange(*change, 1.0 if p is None else p)
        total = BoundedValue.deviation(row, "shared_sum", 2 * self.centre)
        if p is None or total is None:
            return None
        freedom = float("inf") if row["freedom"] is None else row["freedom"]
        p_of_sum = total.p(row["level"], freedom)
        return _change_of_size(difference, total, max(p, p_of_sum))


def _change_of_size(difference: BoundedValue, total: BoundedValue, p: float) -> BiasChange:
    """Return the change of |value|: its range over the intervals of the difference and of the sum."""
    opposite = total.negative
    value = max(min(difference.value, total.value), min(-difference.value, -total.value))
    high = max(min(difference.high, total.high), min(-difference.low, -total.low))
    low = -max(min(difference.high, opposite.high), min(-difference.low, -opposite.low))
    return BiasChange(value, low, high, p)
