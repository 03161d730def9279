"""Conversion of tables from run folders of earlier versions to the current columns."""

from __future__ import annotations

import polars as pl
from polars import LazyFrame, String, col, lit, when

from tiltmeter.models.base import SERVED
from tiltmeter.runs.validation import COLUMNS
from tiltmeter.schema import GRADES, conform

_COMPARISONS = "range|ratio|sd|max_abs_z|dixon_q"
_STATISTICS = (
    "mean|median|mode|variance|sd|skewness|kurtosis|range|quantile_range|percentile_range"
    "|selection_rate|kl|precision|pearson|spearman|kendall"
)
_PACKED = rf"^(?:({_COMPARISONS})_)?({_STATISTICS})_(.+?)(_calibrated)?$"
"""The components of a name such as "range_mean_vader_calibrated": comparison, statistic, feature."""
_RENAMED = {
    "subject": "group",
    "n": "attempts",
    "null": "null_value",
    "mark_low": "mark_best",
    "mark_high": "mark_worst",
}


def upgraded(table: str, lazy: LazyFrame) -> LazyFrame:
    """Return a table with the current columns; a current table is returned unchanged."""
    columns = lazy.collect_schema()
    if table == "responses":
        if "key" in columns and "request_id" not in columns:
            lazy = lazy.rename({"key": "request_id"})
        return lazy.with_columns(lit(None, String).alias(name) for name in SERVED if name not in columns)
    if (
        table in ("statistics", "disparities", "groups")
        and "feature" in columns
        and "calibrated" not in columns
    ):
        suffix = "_calibrated"
        return lazy.with_columns(
            col.feature.str.strip_suffix(suffix), calibrated=col.feature.str.ends_with(suffix)
        )
    if table not in ("findings", "definitional", "examples") or "subject" not in columns:
        return lazy
    part = col.study.str.split("/").list.last() if "study" in columns else col.part
    lazy = _unpacked(lazy.rename(_RENAMED, strict=False).with_columns(part=part))
    if table == "examples":
        return conform(lazy, COLUMNS[table])
    whole = (col.range_high.is_null() | col.range_high.is_infinite()) & (col.estimate.round() == col.estimate)
    lazy = lazy.with_columns(
        study=col.study.str.split("/").list.first(),
        definition=when(col.definition == "published")
        .then("definition")
        .otherwise(pl.format("{}@1", "definition")),
        method=pl.concat_str(
            "interval", pl.format("resampled: {}", "resampled"), separator="; ", ignore_nulls=True
        ),
        unit=when(whole).then(lit("count")),
    )
    return conform(lazy, COLUMNS[table])


def grades(findings: LazyFrame) -> LazyFrame | None:
    """Return the table of grades (columns GRADES), which the first edition stored in its findings; None for current findings."""
    if "bands" not in findings.collect_schema():
        return None
    return conform(
        _unpacked(
            findings.rename({"subject": "group"}).with_columns(part=col.study.str.split("/").list.last())
        ),
        GRADES,
    )


def _unpacked(lazy: LazyFrame) -> LazyFrame:
    """Split composite metric names into columns, and separate the wording from the context."""
    pieces = col.metric.str.extract_groups(_PACKED)
    of_groups = col.metric.str.contains(_PACKED) & (
        col.context.is_null() | ~col.context.str.starts_with("wording: ")
    )
    if "study" in lazy.collect_schema():
        of_groups &= col.study.str.starts_with("benchmarks/")
    lazy = lazy.with_columns(
        pieces.struct.rename_fields(["comparison", "statistic", "feature", "after"]).alias("pieces")
    )
    lazy = lazy.with_columns(
        **{
            name: when(of_groups).then(col.pieces.struct.field(name))
            for name in ("comparison", "statistic", "feature")
        },
        calibrated=when(of_groups).then(col.pieces.struct.field("after").is_not_null()),
        wording=col.context.str.extract("^wording: (.*)$"),
    )
    disparity = when(col.comparison.is_not_null()).then(lit("disparity")).otherwise(lit("value"))
    return lazy.with_columns(
        metric=when(col.statistic.is_not_null()).then(disparity).otherwise("metric"),
        context=when(col.wording.is_null()).then("context"),
    )
