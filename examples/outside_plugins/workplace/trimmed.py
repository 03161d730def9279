"""A robust statistic: the mean without the lowest and the highest tenth of the values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiltmeter.stats import Sample, Statistic

__all__ = ["TRIMMED_MEAN"]

SHARE = 0.1
"""Share of the values that is left out at each end (Tukey and McLaughlin 1963)."""


def _trimmed_mean(sample: Sample) -> NDArray[np.float64]:
    """One number for each leading axis; what is missing (NaN) is sorted last and does not count."""
    cut = np.floor(SHARE * sample.count)[..., None]
    place = np.arange(sample.values.shape[-1])
    central = (place >= cut) & (place < sample.count[..., None] - cut)
    means: NDArray[Any] = np.where(central, sample.ordered, 0.0).sum(axis=-1) / central.sum(axis=-1)
    return means


TRIMMED_MEAN = Statistic(_trimmed_mean)
