"""Conformance checks for statistics."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tiltmeter._arrays import Floats
from tiltmeter.stats import Sample, Statistic, SummaryOptions as Options, summarise
from tiltmeter.testing._requirements import Requirement, raising_nothing, requirement_of

SHAPE = (2, 3, 4, 60)
"""Shape (features, groups, resamples, values) of test arrays."""


def check_statistic(statistic: Any, *, name: str = "statistic") -> None:
    """Check that a statistic meets all requirements.

    Parameters
    ----------
    statistic
        The object of the entry point: a `tiltmeter.stats.Statistic`.
    name
        Name of the statistic in messages.

    Raises
    ------
    AssertionError
        A requirement is not met; the message says which one.
    """
    require = requirement_of(name)
    require(
        isinstance(statistic, Statistic),
        f"a statistic must be a tiltmeter.stats.Statistic, not {type(statistic).__name__}",
    )
    rng = np.random.default_rng(1)
    values = rng.normal(0.3, 1.0, SHAPE)
    values[rng.random(SHAPE) < 0.1] = np.nan
    baseline = np.where(rng.random(SHAPE) < 0.1, np.nan, np.nan_to_num(values) + rng.normal(0, 0.1, SHAPE))
    compute = partial(_compute, statistic, require)
    numbers = compute(values, baseline)
    require(
        np.isfinite(numbers).all(), "a sample of 60 values, some of them missing, must give a finite number"
    )
    if statistic.share:
        is_share = (numbers >= 0) & (numbers <= 1)
        require(is_share.all(), "a share (share=True) must be between 0 and 1")
    _check_invariance(compute, require, values, baseline)
    missing = np.full((1, 1, 1, 7), np.nan)
    of_no_values = compute(missing, missing)
    require(
        np.isnan(of_no_values).all(),
        f"the statistic of no values must be NaN, not {of_no_values.ravel()[0]}",
    )
    for size in (1, 2, 7):
        few_values = np.full((1, 1, 1, size), 0.5)
        compute(few_values, few_values)


def _check_invariance(
    compute: Callable[[Floats, Floats], Floats], require: Requirement, values: Floats, baseline: Floats
) -> None:
    """Check that only the values of a sample matter, and not their order."""
    numbers = compute(values, baseline)
    require(_equal(numbers, compute(values, baseline)), "the statistic must be deterministic")
    for feature, group in np.ndindex(*SHAPE[:2]):
        sample = slice(feature, feature + 1), slice(group, group + 1)
        require(
            _equal(compute(values[sample], baseline[sample]), numbers[sample]),
            "the statistic of a sample must not depend on other samples in the array",
        )
    order = np.random.default_rng(2).permutation(SHAPE[-1])
    reordered = compute(values[..., order], baseline[..., order])
    require(_equal(reordered, numbers), "the order of the values must not matter")
    padded = compute(_with_missing_values(values), _with_missing_values(baseline))
    require(_equal(padded, numbers), "missing values (NaN) must be ignored")


def _with_missing_values(values: Floats) -> Floats:
    """Add five missing values to each sample."""
    return np.pad(values, [(0, 0), (0, 0), (0, 0), (0, 5)], constant_values=np.nan)


def _compute(statistic: Statistic, require: Requirement, values: Floats, baseline: Floats) -> Floats:
    """Compute the statistic of a sample in the same way as a benchmark."""
    values = _read_only(values)
    baseline = _read_only(baseline)
    standard = np.zeros((len(values), *(1,) * (values.ndim - 1)))
    sample = Sample(values, baseline if statistic.paired else None, standard, Options())
    with raising_nothing(require, f"for an array of shape {'x'.join(map(str, values.shape))}"):
        numbers: Any = summarise(sample, ["checked"], {"checked": statistic})["checked"]
    shape, expected = np.shape(numbers), values.shape[:-1]
    require(shape == expected, f"the result must have the shape {expected}, not {shape}")
    return np.asarray(numbers, dtype=np.float64)


def _read_only(values: Floats) -> Floats:
    """Return a copy that raises an error if a statistic writes to it."""
    copy = values.copy()
    copy.setflags(write=False)
    return copy


def _equal(first: Floats, second: Floats) -> bool:
    return bool(np.allclose(first, second, rtol=1e-9, atol=1e-9, equal_nan=True))
