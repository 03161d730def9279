"""What the statistics leave open, and the standard that values are held against for the selection rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["METHODS", "Options", "fullest_bin", "parsed", "sorted_quantile", "standards"]

Floats = NDArray[np.float64]
STANDARDS = ("mean", "median", "mode", "quantile", "percentile", "fixed")
METHODS = ("larger", "smaller", "within-range", "within-percentage")


@dataclass(frozen=True)
class Options:
    """What the statistics leave open.

    Attributes:
        width: Bin width of the mode; the first bin begins at the least value of the group.
        quantiles: Both ends of the quantile range.
        percentiles: Both ends of the percentile range.
        bins: Bins of the Kullback-Leibler divergence.
        tolerance: How near the baseline counts as equal, for precision.
        standard: What a value is held against for the selection rate: "mean", "median", "mode=WIDTH", "quantile=Q", "percentile=P" over
            all groups together, or "fixed=VALUE".
        method: "larger" (at least the standard), "smaller" (at most), "within-range=R" or "within-percentage=SHARE" of it.

    Raises:
        ValueError: an option cannot be used; the message names it and what it may be.
    """

    width: float = 0.5
    quantiles: tuple[float, float] = (0.25, 0.75)
    percentiles: tuple[float, float] = (25.0, 75.0)
    bins: int = 10
    tolerance: float = 0.1
    standard: str = "mean"
    method: str = "larger"

    def __post_init__(self) -> None:
        if not self.width > 0:
            raise ValueError(f"the bin width of the mode must be above 0, not {self.width}")
        if self.bins < 1:
            raise ValueError(f"the divergence needs at least one bin, not {self.bins}")
        if not 0 <= self.quantiles[0] <= self.quantiles[1] <= 1:
            raise ValueError(f"the quantile range must lie within 0 and 1, not {self.quantiles}")
        if not 0 <= self.percentiles[0] <= self.percentiles[1] <= 100:
            raise ValueError(f"the percentile range must lie within 0 and 100, not {self.percentiles}")
        parsed(self.standard, STANDARDS, "standard", optional=("mean", "median", "mode"))
        parsed(self.method, METHODS, "method", optional=("larger", "smaller"))


def parsed(given: str, known: Sequence[str], option: str, optional: Sequence[str]) -> tuple[str, float | None]:
    name, _, value = given.partition("=")
    if name not in known:
        raise ValueError(f"the {option} of the selection rate is one of {', '.join(known)}, not {given!r}")
    if not value and name in optional:
        return name, None
    try:
        return name, float(value)
    except ValueError:
        raise ValueError(f"the {option} {name!r} of the selection rate needs a number, such as {name}=0.5, not {given!r}") from None


def standards(values: Floats, options: Options, original: bool) -> Floats:
    """Return the standard of the selection rate of each row of (C, N) values, all groups together.

    By the original definition a missing value makes it NaN, and counts as greater than all others for the mode.
    """
    name, value = parsed(options.standard, STANDARDS, "standard", ("mean", "median", "mode"))
    if name == "fixed":
        assert value is not None
        return np.full(len(values), value)
    if name == "mode":
        return _modes(values, value or 0.1, original)
    present = ~np.isnan(values)
    count = present.sum(axis=-1).astype(np.float64)
    if name == "mean":
        with np.errstate(invalid="ignore"):
            found: Floats = (values if present.all() else np.where(present, values, 0.0)).sum(axis=-1) / count
    else:
        share = 0.5 if value is None else value / 100.0 if name == "percentile" else value
        found = sorted_quantile(np.sort(values, axis=-1), count, share)
    return np.where(count < values.shape[-1], np.nan, found) if original else found


def _modes(values: Floats, width: float, original: bool) -> Floats:
    modes = fullest_bin(np.sort(values, axis=-1), width)
    if not original:
        return modes
    for row, column in enumerate(values):
        missing = np.isnan(column)
        if missing.any() and not missing.all():
            edges = np.arange(np.nanmin(column), np.nanmax(column) + width, width)
            modes[row] = edges[np.bincount(np.digitize(column, edges)).argmax() - 1] + width / 2.0
    return modes


def sorted_quantile(ordered: Floats, count: Floats, share: float) -> Floats:
    """Return a quantile along the last axis of sorted values of which the first `count` are present (linear interpolation, type 7)."""
    last = np.maximum(count - 1.0, 0.0)
    place = last * share
    low = np.floor(place).astype(np.intp)
    high = np.minimum(low + 1, last.astype(np.intp))
    below = np.take_along_axis(ordered, low[..., None], axis=-1)[..., 0]
    above = np.take_along_axis(ordered, high[..., None], axis=-1)[..., 0]
    found: Floats = below + (above - below) * (place - low)
    return found


def fullest_bin(ordered: Floats, width: float) -> Floats:
    """Middle of the fullest bin (the lowest of equals); bins begin at the least value, edges in it belong to the upper bin."""
    start = ordered[..., :1]
    step = (start + width) - start  # the step that np.arange takes, so that values on an edge fall in the same bin
    bins = np.floor((ordered - start) / step)
    above = start + (bins + 1.0) * step <= ordered
    if above.any():
        bins += above
    below = start + bins * step > ordered
    if below.any():
        bins -= below
    places = np.arange(ordered.shape[-1], dtype=np.int32)
    new = np.ones(ordered.shape, dtype=bool)
    np.not_equal(bins[..., 1:], bins[..., :-1], out=new[..., 1:])
    length = places - np.maximum.accumulate(np.where(new, places, np.int32(0)), axis=-1)
    # NaN equals nothing, so that what is missing makes runs of length 0 behind all others.
    fullest = np.take_along_axis(bins, np.argmax(length, axis=-1)[..., None], axis=-1)[..., 0]
    found: Floats = start[..., 0] + fullest * step[..., 0] + width / 2.0
    return found
