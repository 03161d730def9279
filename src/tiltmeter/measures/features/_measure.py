"""Values of features for a column of texts and their baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from tiltmeter.errors import InputError
from tiltmeter.measures.features._catalogue import Column
from tiltmeter.measures.features._given import gather
from tiltmeter.measures.features._kinds import Feature

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Measured", "measure_features"]


@dataclass(frozen=True, slots=True)
class Measured:
    """Numbers of texts, and how many texts have none."""

    columns: Sequence[Column]
    values: pl.DataFrame
    """One row per text, one Float64 column per `columns`, in order; null where the text is null, blank or could not be scored."""
    baselines: pl.DataFrame | None
    """The same of the baselines; None where none were given. A baseline's distances to itself are 0."""
    problems: Mapping[str, int]
    """By feature: distinct texts (of both columns) that could not be scored; features without any are left out."""
    reasons: Mapping[str, str]
    """By the same features: why the first one could not, in words."""
    truncated: Mapping[str, int]
    """By feature: distinct texts that were not read to their end; features without any are left out."""

    def calibrated(self) -> pl.DataFrame:
        """Value minus the baseline's value, row by row, of the columns for which that means something; the same names.

        Raises
        ------
        ValueError
            There are no baselines.
        """
        if self.baselines is None:
            raise ValueError("values are calibrated against baselines, and none were given")
        names = [column.name for column in self.columns if column.calibrated]
        return pl.DataFrame([self.values[name] - self.baselines[name] for name in names])


def measure_features(features: Sequence[Feature], texts: pl.Series, baselines: pl.Series | None = None) -> Measured:
    """Measure every feature of every text; each model sees each distinct text (of both columns together) once.

    Parameters
    ----------
    texts, baselines
        Strings, nulls allowed; of one length.

    Raises
    ------
    InputError
        A feature needs baselines and there are none, or two features give a column of the same name.
    ProviderError
        A model cannot be used at all. (Texts it fails on one by one are missing and counted.)
    ValueError
        `texts` and `baselines` have different lengths.
    """
    if baselines is None and (lacking := next((feature for feature in features if feature.needs_baseline), None)):
        raise InputError(f"the feature {lacking.name} compares texts with baselines, and there are none: leave it out, or give baselines")
    given = gather(texts, baselines)
    found = {feature.name: feature.measure(given) for feature in features}
    columns = [column for one in found.values() for column in one.columns]
    names = [column.name for column in columns]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"two features give a column {twice}: call one of them otherwise with NAME=MODULE:FUNCTION")
    return Measured(
        columns=columns,
        values=_table(names, [one.texts for one in found.values()]),
        baselines=None if baselines is None else _table(names, [one.baselines for one in found.values() if one.baselines is not None]),
        problems={name: one.failed for name, one in found.items() if one.failed},
        reasons={name: one.reason for name, one in found.items() if one.reason},
        truncated={name: one.truncated for name, one in found.items() if one.truncated},
    )


def _table(names: Sequence[str], parts: Sequence[NDArray[np.float64]]) -> pl.DataFrame:
    series = [pl.Series(part[:, number], dtype=pl.Float64, nan_to_null=True) for part in parts for number in range(part.shape[1])]
    return pl.DataFrame([one.alias(name) for name, one in zip(names, series, strict=True)])
