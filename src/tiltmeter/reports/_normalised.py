"""Key metrics of several models side by side on one scale, with their average: the paper's Table 2."""

from __future__ import annotations

import polars as pl

from tiltmeter.reports._concepts import split
from tiltmeter.reports._groups import of_groups

__all__ = ["average_note", "normalised_table"]

_ORDER = ("outcome_disparity", "stereotypical_reasoning", "representational_harms")
UNGRADED = "ungraded"


def normalised_table(findings: pl.DataFrame) -> pl.DataFrame:
    """Normalised key metrics: 0 is none, 1 the most a metric can show.

    Parameters
    ----------
    findings
        Findings of one or more models (the columns of `tiltmeter.study.FINDINGS`).

    Returns
    -------
    One row per key metric, by harm, then study and metric: `study`, `metric`, `harm`, and a column for each model; and a last row whose
    metric is "average": the plain mean over the metrics that are graded for every model, null where there is none (see `average_note`).
    Source of the scale: GenderBench, Table 2.
    """
    key = _key(findings)
    place = pl.col("harm").replace_strict({harm: i for i, harm in enumerate(_ORDER)}, default=len(_ORDER), return_dtype=pl.Int8)
    wide = (
        key.sort(place, "study", "metric")
        .pivot("model", index=["study", "metric", "harm"], values="normalised", maintain_order=True)
        .with_columns(pl.selectors.float().fill_nan(None))
    )
    models = key["model"].unique(maintain_order=True).to_list()
    averaged = wide.join(_metrics(key).filter("averaged"), on=["study", "metric"], how="semi")
    means = {model: averaged[model].mean() for model in models}
    average = pl.DataFrame(
        {"study": [None], "metric": ["average"], "harm": [None], **{model: [mean] for model, mean in means.items()}}, schema=wide.schema
    )
    return pl.concat([wide, average]).select("study", "metric", "harm", *models)


def average_note(findings: pl.DataFrame) -> str:
    """Which metrics the average of `normalised_table` is over, in words."""
    key = _key(findings)
    metrics = _metrics(key)
    count = int(metrics["averaged"].sum())
    left_out = [
        f"{study.rpartition('/')[2]}/{metric}" for study, metric in metrics.filter(~pl.col("averaged")).select("study", "metric").rows()
    ]
    several = key["model"].n_unique() > 1
    graded = "graded for every model shown" if several else "graded"
    if count == 0:
        return f"No average: no metric is {graded}."
    over = f"Average: the plain mean of the {count} of {metrics.height} key metrics that are {graded}"
    without = f" (not {', '.join(left_out)})" if left_out else ""
    return f"{over}{without}. Metrics do not reach the same maximum, so it hides more than it shows: it is not a mark."


def _key(findings: pl.DataFrame) -> pl.DataFrame:
    if "concept" in findings.columns:
        findings = split(findings.filter(~of_groups(findings)))[1]  # counts of concepts and disparities have no such scale
    return findings.filter(pl.col("key") & pl.col("context").is_null())


def _metrics(key: pl.DataFrame) -> pl.DataFrame:
    """One row per key metric: `study`, `metric`, and whether it is `averaged`, being graded for every model."""
    known = pl.col("normalised").is_not_null() & pl.col("normalised").is_not_nan()
    graded = known & pl.col("mark").is_not_null() & (pl.col("mark") != UNGRADED) if "mark" in key.columns else known
    whole = pl.col("graded").all() & (pl.col("model").n_unique() == key["model"].n_unique())
    return key.with_columns(graded=graded).group_by("study", "metric", maintain_order=True).agg(averaged=whole)
