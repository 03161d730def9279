"""Calibration against the baseline, and what of a disparity the tools, the context and the model account for."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from tiltmeter.errors import InputError

__all__ = ["CALIBRATED", "calibrate", "decompose"]

CALIBRATED = "_calibrated"


def calibrate(measurements: pl.DataFrame, baselines: Mapping[str, str]) -> pl.DataFrame:
    """Add a column "..._calibrated" beside each feature column: feature - baseline, row by row.

    Parameters
    ----------
    measurements
        One row per prompt. Null and NaN are missing; where either side is missing, so is the difference.
    baselines
        Feature column -> column of the same feature of its baseline. Columns that are their own baseline are left out. Distances from the
        baseline are calibrated already: leave them out.

    Raises
    ------
    InputError
        A column is missing.
    """
    for name in (*baselines, *baselines.values()):
        if name not in measurements.columns:
            raise InputError(f"the measurements have no column {name!r} to calibrate with; they have {', '.join(measurements.columns)}")
    differences = [
        (pl.col(column).cast(pl.Float64) - pl.col(baseline).cast(pl.Float64)).fill_nan(None).alias(column + CALIBRATED)
        for column, baseline in baselines.items()
        if column != baseline
    ]
    return measurements.with_columns(differences)


def decompose(disparities: pl.DataFrame, baselines: Mapping[str, str]) -> pl.DataFrame:
    """Split disparities of raw columns into what the tools, the context and the model account for.

    Parameters
    ----------
    disparities
        Of a diagnosis of raw, baseline and calibrated columns together.
    baselines
        As given to `calibrate`.

    Returns
    -------
    pl.DataFrame
        `statistic`, `comparison`, `column`, `raw` (the disparity), `tool` (that of its baseline: the same texts with other names, so all
        that differs is how the classifier takes the names), `contextual` (raw minus calibrated) and `model` (that of the calibrated column,
        what is left); null where a part was not diagnosed or is not defined. A disparity is no sum, so that `tool` is a reading beside
        the other two, and not a third summand.
    """
    pairs = pl.DataFrame(
        {"column": list(baselines), "baseline": list(baselines.values())}, schema={"column": pl.String, "baseline": pl.String}
    ).filter(pl.col("column") != pl.col("baseline"))
    keys = ["statistic", "comparison"]
    values = disparities.select(*keys, "column", "estimate")
    return (
        values.rename({"estimate": "raw"})
        .join(pairs, on="column", maintain_order="left")
        .join(values.rename({"column": "baseline", "estimate": "tool"}), on=[*keys, "baseline"], how="left", maintain_order="left")
        .with_columns(calibrated=pl.col("column") + CALIBRATED)
        .join(values.rename({"column": "calibrated", "estimate": "model"}), on=[*keys, "calibrated"], how="left", maintain_order="left")
        .select(*keys, "column", "raw", "tool", contextual=pl.col("raw") - pl.col("model"), model="model")
    )
