"""Key metrics of several models side by side on one scale, with their average: the paper's Table 2."""

from __future__ import annotations

import polars as pl

from tiltmeter.reports._concepts import split
from tiltmeter.reports._groups import of_groups

__all__ = ["normalised_table"]

_ORDER = ("outcome_disparity", "stereotypical_reasoning", "representational_harms")


def normalised_table(findings: pl.DataFrame) -> pl.DataFrame:
    """Normalised key metrics: 0 is none, 1 the most a metric can show.

    Parameters
    ----------
    findings
        Findings of one or more models (the columns of `tiltmeter.study.FINDINGS`).

    Returns
    -------
    One row per key metric, by harm, then study and metric: `study`, `metric`, `harm`, and a column for each model; and a last row whose
    metric is "average": the plain mean of a model's metrics, null where one of them is missing.
    Source of the scale: GenderBench, Table 2.
    """
    if "concept" in findings.columns:
        findings = split(findings.filter(~of_groups(findings)))[1]  # counts of concepts and disparities have no such scale
    key = findings.filter(pl.col("key") & pl.col("context").is_null())
    place = pl.col("harm").replace_strict({harm: i for i, harm in enumerate(_ORDER)}, default=len(_ORDER), return_dtype=pl.Int8)
    wide = (
        key.sort(place, "study", "metric")
        .pivot("model", index=["study", "metric", "harm"], values="normalised", maintain_order=True)
        .with_columns(pl.selectors.float().fill_nan(None))
    )
    models = key["model"].unique(maintain_order=True).to_list()
    means = {model: wide[model].mean() if wide[model].null_count() == 0 else None for model in models}
    average = pl.DataFrame(
        {"study": [None], "metric": ["average"], "harm": [None], **{m: [v] for m, v in means.items()}}, schema=wide.schema
    )
    return pl.concat([wide, average]).select("study", "metric", "harm", *models)
