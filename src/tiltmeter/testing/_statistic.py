"""What every summary statistic owes a benchmark: it is computed for many features, groups and resamples at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiltmeter.stats.summary import Options, Sample, Statistic, summarise
from tiltmeter.testing._promise import promise

__all__ = ["check_statistic"]

Floats = NDArray[np.float64]
SHAPE = (2, 3, 4, 60)
"""Features, groups, resamples, values."""


def check_statistic(statistic: object, *, name: str = "statistic") -> None:
    """Check everything a statistic promises.

    Parameters
    ----------
    statistic
        What the entry point names: a `tiltmeter.stats.summary.Statistic`.
    name
        What it is called in sentences.

    Raises
    ------
    AssertionError
        A promise is broken; the sentence says which.
    """
    promise(isinstance(statistic, Statistic), f"{name}: a statistic is a tiltmeter.stats.summary.Statistic, not {type(statistic).__name__}")
    assert isinstance(statistic, Statistic)
    rng = np.random.default_rng(1)
    values = rng.normal(0.3, 1.0, SHAPE)
    values[rng.random(SHAPE) < 0.1] = np.nan
    baseline = np.where(rng.random(SHAPE) < 0.1, np.nan, np.nan_to_num(values) + rng.normal(0, 0.1, SHAPE))
    found = _compute(statistic, values, baseline, name)
    promise(bool(np.isfinite(found).all()), f"{name}: sixty values with some missing ones give a number")
    if statistic.share:
        promise(bool(((found >= 0) & (found <= 1)).all()), f"{name}: a share (share=True) lies between 0 and 1")
    _check_same(statistic, values, baseline, found, name)
    _check_edges(statistic, name)


def _check_same(statistic: Statistic, values: Floats, baseline: Floats, found: Floats, name: str) -> None:
    promise(_equal(found, _compute(statistic, values, baseline, name)), f"{name}: the same sample gives the same number again")
    for place in np.ndindex(*SHAPE[:2]):
        one = tuple(slice(at, at + 1) for at in place)
        alone = _compute(statistic, values[one], baseline[one], name)
        promise(_equal(alone, found[one]), f"{name}: a sample gives the same number whatever stands beside it in the array")
    order = np.random.default_rng(2).permutation(SHAPE[-1])
    mixed = _compute(statistic, values[..., order], baseline[..., order], name)
    promise(_equal(mixed, found), f"{name}: the order of the values does not matter")
    more = [np.concatenate([side, np.full((*SHAPE[:-1], 5), np.nan)], axis=-1) for side in (values, baseline)]
    promise(_equal(_compute(statistic, more[0], more[1], name), found), f"{name}: missing values (NaN) are left out")


def _check_edges(statistic: Statistic, name: str) -> None:
    nothing = np.full((1, 1, 1, 7), np.nan)
    empty = _compute(statistic, nothing, nothing, name)
    promise(bool(np.isnan(empty).all()), f"{name}: without any value it is NaN, not {empty.ravel()[0]}")
    for size in (1, 2, 7):
        _compute(statistic, np.full((1, 1, 1, size), 0.5), np.full((1, 1, 1, size), 0.5), name)


def _compute(statistic: Statistic, values: Floats, baseline: Floats, name: str) -> Floats:
    """The statistic of a sample, as a benchmark asks for it."""
    kept = values.copy(), baseline.copy()
    # The sample may be read only, so what writes to it shows.
    for side in kept:
        side.setflags(write=False)
    standard = np.zeros((len(values), *(1,) * (values.ndim - 1)))
    sample = Sample(kept[0], kept[1] if statistic.paired else None, standard, Options(), original=False)
    try:
        found: Any = summarise(sample, [name], {name: statistic})[name]
    except Exception as error:
        shape = "x".join(map(str, values.shape))
        raise AssertionError(f"{name}: raises {type(error).__name__} for an array of {shape} values: {error}") from error
    got = np.shape(found)
    promise(got == values.shape[:-1], f"{name}: gives one number for each leading axis: shape {values.shape[:-1]}, not {got}")
    return np.asarray(found, dtype=np.float64)


def _equal(one: Floats, other: Floats) -> bool:
    return bool(np.allclose(one, other, rtol=1e-9, atol=1e-9, equal_nan=True))
