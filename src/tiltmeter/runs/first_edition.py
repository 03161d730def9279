"""Tables of run folders that the first edition wrote, in the columns of today."""

from __future__ import annotations

import polars as pl

from tiltmeter.runs.validation import COLUMNS
from tiltmeter.study import GRADES, conform

_COMPARISONS = ("range", "ratio", "sd", "max_abs_z", "dixon_q")
_STATISTICS = (
    "mean", "median", "mode", "variance", "sd", "skewness", "kurtosis", "range", "quantile_range", "percentile_range",
    "selection_rate", "kl", "precision", "pearson", "spearman", "kendall",
)  # fmt: skip
_PACKED = rf"^(?:({'|'.join(_COMPARISONS)})_)?({'|'.join(_STATISTICS)})_(.+?)(_calibrated)?$"
"""What a name such as "range_mean_vader_calibrated" was made of: comparison, statistic, feature."""
_RENAMED = {
    "subject": "group",
    "n": "attempts",
    "null": "null_value",
    "mark_low": "mark_best",
    "mark_high": "mark_worst",
}


def upgraded(table: str, lazy: pl.LazyFrame) -> pl.LazyFrame:
    """The table as it is written today; one of today is left as it is."""
    columns = lazy.collect_schema()
    if table == "responses" and "key" in columns and "request_id" not in columns:
        return lazy.rename({"key": "request_id"})
    if table in ("statistics", "disparities", "groups") and "feature" in columns and "calibrated" not in columns:
        suffix = "_calibrated"
        return lazy.with_columns(pl.col("feature").str.strip_suffix(suffix), calibrated=pl.col("feature").str.ends_with(suffix))
    if table not in ("findings", "definitional", "examples") or "subject" not in columns:
        return lazy
    part = pl.col("study").str.split("/").list.last() if "study" in columns else pl.col("part")
    lazy = lazy.rename({old: new for old, new in _RENAMED.items() if old in columns}).with_columns(part=part)
    lazy = _unpacked(lazy)
    if table == "examples":
        return conform(lazy, COLUMNS[table])
    whole = (pl.col("range_high").is_null() | pl.col("range_high").is_infinite()) & (pl.col("estimate").round() == pl.col("estimate"))
    lazy = lazy.with_columns(
        study=pl.col("study").str.split("/").list.first(),
        definition=pl.when(pl.col("definition") == "published").then("definition").otherwise(pl.format("{}@1", "definition")),
        method=pl.concat_str("interval", pl.format("resampled: {}", "resampled"), separator="; ", ignore_nulls=True),
        unit=pl.when(whole).then(pl.lit("count")),
    )
    return conform(lazy, COLUMNS[table])


def grades(findings: pl.LazyFrame) -> pl.LazyFrame | None:
    """GRADES, which the first edition kept in its findings; None for findings of today."""
    if "bands" not in findings.collect_schema():
        return None
    lazy = _unpacked(findings.rename({"subject": "group"}).with_columns(part=pl.col("study").str.split("/").list.last()))
    return conform(lazy, GRADES)


def _unpacked(lazy: pl.LazyFrame) -> pl.LazyFrame:
    """What a name was made of in columns, and the wording out of the context."""
    pieces = pl.col("metric").str.extract_groups(_PACKED)
    of_groups = pl.col("metric").str.contains(_PACKED) & (pl.col("context").is_null() | ~pl.col("context").str.starts_with("wording: "))
    if "study" in lazy.collect_schema():
        of_groups &= pl.col("study").str.starts_with("benchmarks/")
    lazy = lazy.with_columns(pieces.struct.rename_fields(["comparison", "statistic", "feature", "after"]).alias("pieces"))
    lazy = lazy.with_columns(
        **{name: pl.when(of_groups).then(pl.col("pieces").struct.field(name)) for name in ("comparison", "statistic", "feature")},
        calibrated=pl.when(of_groups).then(pl.col("pieces").struct.field("after").is_not_null()),
        wording=pl.col("context").str.extract("^wording: (.*)$"),
    )
    disparity = pl.when(pl.col("comparison").is_not_null()).then(pl.lit("disparity")).otherwise(pl.lit("value"))
    return lazy.with_columns(
        metric=pl.when(pl.col("statistic").is_not_null()).then(disparity).otherwise("metric"),
        context=pl.when(pl.col("wording").is_null()).then("context"),
    )
