"""Sensitivity of results to the prompt wording, and agreement of repeated answers."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
from polars import DataFrame, Float64, Int64, Series, String, col, lit, when

from tiltmeter import stats
from tiltmeter.comparing.welch import standard_errors, welch_p
from tiltmeter.runs import Run, load
from tiltmeter.runs.sides import Side, SideView, models_of, opened
from tiltmeter.schema import CONTRASTS, NAMED, Schema, beside, conform, q_values
from tiltmeter.study import Part, Settings

WORDINGS: Schema = {
    "model": String,
    "part": String,
    **NAMED,
    "wordings": Int64,
    "spread": Float64,  # largest difference between any two wordings; null if no two wordings have a value
    "least": String,  # wording with the smaller value of these two; "greatest": with the larger value
    "greatest": String,
    "p": Float64,  # null hypothesis: no difference between any two wordings; null: not tested
    "q": Float64,  # over all metrics of the model
    "how": String,
}
"""Columns of the table of wording sensitivity, one row per key metric with several wordings."""

HOW = "Bonferroni-corrected smallest p over all pairs of wordings; {}"
FEWEST_OF_WORDING = 20
"""Smallest number of items of a wording that is tested, if each item was asked in one wording only."""
OF_OTHER_ITEMS = f"the items of two wordings are different ones; only wordings of at least {FEWEST_OF_WORDING} items are tested"
NOT_TESTED = f"not tested: a test needs two wordings of at least {FEWEST_OF_WORDING} items"


def wording_sensitivity(
    run: Run | str | Path, model: str | None = None, *, run_code: bool = False
) -> DataFrame:
    """Compute the spread of each key metric over the prompt wordings of a run, and test whether any two wordings differ.

    Each pair of wordings is contrasted over the shared items, in the same way as two models. If each item was
    asked in one wording only, the estimates of two wordings are compared as independent ones (see
    `_independent`). The spread is biased upwards by noise. The p-value is the smallest p over all pairs of
    wordings after a Bonferroni correction.

    Parameters
    ----------
    run
        A run, its folder, or its name under the runs folder.
    model
        Name of one model of the run; by default, all models.
    run_code
        Whether code that study.yaml of the run names may be run.

    Returns
    -------
    DataFrame
        The columns of WORDINGS; no rows if there is only one wording.

    Raises
    ------
    InputError
        The run cannot be opened, its study cannot be recreated, or study.yaml names code and `run_code` is
        False.
    """
    opened_run = load(run)
    tables = [DataFrame(schema=WORDINGS)]
    asked = opened_run.folder.scan("design").select("part", "wording").unique().collect()
    several = asked.group_by("part").len().filter(col.len > 1)["part"].sort().to_list()
    if several:
        parts, settings = opened(opened_run, run_code=run_code)
        for name in [model] if model is not None else models_of(opened_run):
            side = Side(opened_run, name)
            tables += [
                _of_part(parts[part], side, settings)
                for part in several
                if part in parts and part in side.parts
            ]
    return pl.concat(tables).with_columns(q=col.p.map_batches(q_values, Float64).over("model"))


def _of_part(part: Part, side: Side, settings: Settings) -> DataFrame:
    measures = side.measures(part.name)
    findings, grades = (
        table.filter(part=part.name) for table in (side.findings, side.run.grades.filter(model=side.model))
    )
    key = side.findings.filter(col.key)["metric"].unique()
    views = {
        str(wording): SideView(side, part.name, mine)
        for (wording,), mine in sorted(measures.partition_by("wording", as_dict=True).items())
    }
    pairs, how = [], "each pair over the same items"
    for one, another in combinations(views, 2):
        contrast = part.contrast(views[one], views[another], settings)
        if contrast is None:
            how = OF_OTHER_ITEMS
            contrast = _independent(findings, grades, one, another, settings.level)
        if contrast.height:
            pairs.append(
                contrast.filter(col.metric.is_in(key.implode())).with_columns(
                    one=lit(one), other=lit(another)
                )
            )
    if not pairs:
        return DataFrame(schema=WORDINGS)
    whole = pl.concat(pairs)
    tested = whole.group_by(*NAMED, maintain_order=True).agg(
        p=(col.p.min() * col.p.count()).clip(upper_bound=1.0)
    )
    valued = whole.drop_nulls("difference").with_columns(
        least=when(col.difference < 0).then("other").otherwise("one"),
        greatest=when(col.difference < 0).then("one").otherwise("other"),
    )
    placed = valued.group_by(*NAMED, maintain_order=True).agg(
        wordings=pl.concat_list("one", "other").explode().n_unique(),
        spread=col.difference.abs().max(),
        least=col.least.get(col.difference.abs().arg_max()),
        greatest=col.greatest.get(col.difference.abs().arg_max()),
    )
    untested = NOT_TESTED if how == OF_OTHER_ITEMS else HOW.format(how)
    table = beside(tested, placed, *NAMED).with_columns(
        how=when(col.p.is_null()).then(lit(untested)).otherwise(lit(HOW.format(how)))
    )
    return conform(table.with_columns(model=lit(side.model), part=lit(part.name)), WORDINGS)


def _independent(findings: DataFrame, grades: DataFrame, one: str, another: str, level: float) -> DataFrame:
    """Return the differences (columns CONTRASTS) between the findings of two wordings of different items.

    The standard error of a wording is the larger of two: that of its own interval, and that of all items in
    these wordings, multiplied by the square root of the ratio of the numbers of items. A wording can have few
    items in each stratum, so that its resamples vary too little. There is no p-value if a wording has fewer
    than FEWEST_OF_WORDING items.

    Parameters
    ----------
    findings, grades
        Findings and grades of one part and model.
    one, another
        The two wordings.
    level
        Confidence level of the intervals.
    """
    columns = ("estimate", "low", "high", "items")
    of_items = grades.filter(col.wording.is_null()).select(*NAMED, low_all="low_items", high_all="high_items")
    whole = beside(
        findings.filter(col.wording.is_null()).select(*NAMED, estimate_all="estimate", items_all="items"),
        of_items,
        *NAMED,
    )
    sides = [
        findings.filter(wording=wording).with_columns(wording=lit(None, String)).select(*NAMED, *columns)
        for wording in (one, another)
    ]
    pairs = sides[0].join(sides[1], on=list(NAMED), nulls_equal=True, suffix="_2")
    pairs = beside(pairs, whole, *NAMED)
    estimate, low, high, items = (
        pairs.select(name, f"{name}_2", f"{name}_all").cast(Float64).fill_null(float("nan")).to_numpy()
        for name in columns
    )
    freedom = np.maximum(items - 1, 1)
    errors = standard_errors(low, high, level, freedom)
    own, of_all = errors[:, :2], errors[:, 2:]
    larger = np.fmax(own, of_all * np.sqrt(items[:, 2:] / items[:, :2]))
    difference = estimate[:, 1] - estimate[:, 0]
    is_tested = (items[:, :2].min(axis=1) >= FEWEST_OF_WORDING) & np.isfinite(own).all(axis=1)
    p = np.where(is_tested, welch_p(difference, larger, freedom[:, :2]), np.nan)
    made = pairs.select(*NAMED, difference=Series(difference), p=Series(p))
    return conform(made, CONTRASTS).with_columns(col(Float64).fill_nan(None))


STABILITY: Schema = {
    "model": String,
    "part": String,
    "prompts": Int64,  # number of prompts with more than one answer
    "answers": Int64,
    "of": String,  # "labels", or "numbers" if all labels are numeric
    "identical": Float64,  # share of pairs of answers to the same prompt with identical labels
    "alpha": Float64,  # Krippendorff's alpha: 1 is perfect agreement, 0 is chance agreement
    "low": Float64,  # confidence interval of alpha
    "high": Float64,
    "level": Float64,
}
"""Columns of the table of answer stability, one row per model and part with repeated prompts."""

RESAMPLES = 1_000
SEED = 123


def repeat_stability(run: Run | str | Path, model: str | None = None) -> DataFrame:
    """Compute the agreement between repeated answers to the same prompt (Krippendorff's alpha).

    Labels are treated as nominal, and an answer without a label gets its outcome (refused, unreadable, ...)
    as label. If all labels of a part are numbers, alpha uses the interval metric (squared differences), and
    unparsed answers are omitted. Failed attempts are always omitted. The confidence interval is a percentile
    bootstrap over items; each item keeps all its prompts.

    Parameters
    ----------
    run
        A run, its folder, or its name under the runs folder.
    model
        Name of one model of the run; by default, all models.

    Returns
    -------
    DataFrame
        The columns of STABILITY; no rows if every prompt was sent only once.

    Raises
    ------
    InputError
        The run cannot be opened.
    """
    opened_run = load(run)
    level = float(opened_run.about["level"])
    columns = ("model", "part", "item", "prompt_id", "outcome", "label")
    measures = opened_run.folder.scan("measures").filter(col.outcome != "failed").select(columns)
    names = [model] if model is not None else models_of(opened_run)
    repeated = measures.filter(col.model.is_in(names), pl.len().over("model", "prompt_id") > 1).collect()
    groups = repeated.group_by("model", "part", maintain_order=True)
    rows = [{"model": name, "part": part, **_agreement(answers, level)} for (name, part), answers in groups]
    return DataFrame(rows, schema=STABILITY, infer_schema_length=None).with_columns(
        col(Float64).fill_nan(None)
    )


def _agreement(answers: DataFrame, level: float) -> dict[str, object]:
    numbers = answers.filter(outcome="answered").select(
        "item", "prompt_id", value=col.label.cast(Float64, strict=False)
    )
    numeric = numbers.height > 0 and numbers["value"].null_count() == 0
    owner = ["item", "prompt_id"]
    if numeric:
        counts = numbers.group_by(*owner, "value").agg(n=pl.len().cast(Float64))
        value, n = col.value, col.n
        sums = {
            "m": n.sum(),
            "s": (n * value).sum(),
            "ss": (n * value * value).sum(),
            "equal": (n * (n - 1)).sum(),
        }
        units = counts.group_by(owner).agg(**sums).sort(owner)
        columns = stats.interval_columns(*(units[name].to_numpy() for name in sums))
        of_totals = stats.interval_repeats
    else:
        labels = answers.select(*owner, label=pl.coalesce("label", "outcome"))
        units = (
            labels.group_by(*owner, "label")
            .len()
            .sort("label")
            .pivot("label", index=owner, values="len")
            .fill_null(0)
            .sort(owner)
        )
        columns = stats.nominal_columns(units.drop(owner).to_numpy())
        of_totals = stats.nominal_repeats
    items = (
        DataFrame(columns)
        .with_columns(item=units["item"])
        .group_by("item")
        .sum()
        .sort("item")
        .drop("item")
        .to_numpy()
    )
    here = of_totals(items.sum(axis=0))
    drawn = of_totals(stats.resampled_totals(items, resamples=RESAMPLES, seed=SEED))
    low, high = stats.percentile_interval(drawn.alpha, level)
    counted = answers.filter(outcome="answered") if numeric else answers
    return {
        "prompts": units.height,
        "answers": counted.height,
        "of": "numbers" if numeric else "labels",
        "identical": float(here.identical),
        "alpha": float(here.alpha),
        "low": low,
        "high": high,
        "level": level,
    }
