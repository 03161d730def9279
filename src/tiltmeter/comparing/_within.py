"""Sensitivity of results to the prompt wording, and agreement of repeated answers."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
from polars import DataFrame, Float64, Int64, Series, String, col, lit, when

from tiltmeter import stats
from tiltmeter._arrays import Floats
from tiltmeter.comparing._welch import standard_errors, welch_p
from tiltmeter.runs import Run, load
from tiltmeter.runs._sides import Side, SideView, models_of, opened
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
OF_SAME_ITEMS = "each pair over the same items"
OF_OTHER_ITEMS = (
    "the items of two wordings are different ones; "
    f"only wordings of at least {FEWEST_OF_WORDING} items are tested"
)
NOT_TESTED = f"not tested: a test needs two wordings of at least {FEWEST_OF_WORDING} items"


def wording_sensitivity(
    run: Run | str | Path, model: str | None = None, *, run_code: bool = False
) -> DataFrame:
    """Compute the spread of each key metric over the wordings of a run, and test whether any two differ.

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
    wordings = opened_run.folder.scan("design").select("part", "wording").unique().collect()
    several = wordings.group_by("part").len().filter(col.len > 1)["part"].sort().to_list()
    if several:
        parts, settings = opened(opened_run, run_code=run_code)
        models = [model] if model is not None else models_of(opened_run)
        for name in models:
            side = Side(opened_run, name)
            common = [part for part in several if part in parts and part in side.parts]
            tables += [_of_part(parts[part], side, settings) for part in common]
    return pl.concat(tables).with_columns(q=col.p.map_batches(q_values, Float64).over("model"))


def _of_part(part: Part, side: Side, settings: Settings) -> DataFrame:
    """Return the rows of WORDINGS of one part and model, without q-values."""
    contrasts, how = _pairs_of_wordings(part, side, settings)
    if contrasts.is_empty():
        return DataFrame(schema=WORDINGS)
    p_values = contrasts.group_by(*NAMED, maintain_order=True).agg(
        p=(col.p.min() * col.p.count()).clip(upper_bound=1.0)
    )
    is_negative = col.difference < 0
    ordered = contrasts.drop_nulls("difference").with_columns(
        least=when(is_negative).then("second_wording").otherwise("first_wording"),
        greatest=when(is_negative).then("first_wording").otherwise("second_wording"),
    )
    largest = col.difference.abs().arg_max()
    spreads = ordered.group_by(*NAMED, maintain_order=True).agg(
        wordings=pl.concat_list("first_wording", "second_wording").explode().n_unique(),
        spread=col.difference.abs().max(),
        least=col.least.get(largest),
        greatest=col.greatest.get(largest),
    )
    tested = HOW.format(how)
    untested = NOT_TESTED if how == OF_OTHER_ITEMS else tested
    table = beside(p_values, spreads, *NAMED).with_columns(
        how=when(col.p.is_null()).then(lit(untested)).otherwise(lit(tested)),
        model=lit(side.model),
        part=lit(part.name),
    )
    return conform(table, WORDINGS)


def _pairs_of_wordings(part: Part, side: Side, settings: Settings) -> tuple[DataFrame, str]:
    """Return the contrasts of the key metrics between each two wordings of a part, and what they rest on.

    The contrasts have the columns of CONTRASTS, `first_wording` and `second_wording`. They rest on the same
    items (OF_SAME_ITEMS), or, if a pair of wordings has none in common, on different ones (OF_OTHER_ITEMS).
    """
    findings = side.findings.filter(part=part.name)
    grades = side.run.grades.filter(model=side.model, part=part.name)
    key_metrics = side.findings.filter(col.key)["metric"].unique()
    by_wording = side.measures(part.name).partition_by("wording", as_dict=True)
    views = {
        str(wording): SideView(side, part.name, measures)
        for (wording,), measures in sorted(by_wording.items())
    }
    how = OF_SAME_ITEMS
    tables = [DataFrame(schema={**CONTRASTS, "first_wording": String, "second_wording": String})]
    for first, second in combinations(views, 2):
        contrast = part.contrast(views[first], views[second], settings)
        if contrast is None:
            how = OF_OTHER_ITEMS
            contrast = _independent(findings, grades, first, second, settings.level)
        of_key_metrics = contrast.filter(col.metric.is_in(key_metrics.implode()))
        tables.append(
            conform(of_key_metrics, CONTRASTS).with_columns(
                first_wording=lit(first), second_wording=lit(second)
            )
        )
    return pl.concat(tables), how


def _independent(findings: DataFrame, grades: DataFrame, first: str, second: str, level: float) -> DataFrame:
    """Return the differences (columns CONTRASTS) between the findings of two wordings of different items.

    The standard error of a wording is the larger of two: that of its interval, and that of all items in
    these wordings, multiplied by the square root of the ratio of the numbers of items. A wording can have few
    items in each stratum, so that its resamples vary too little. There is no p-value if a wording has fewer
    than FEWEST_OF_WORDING items.

    Parameters
    ----------
    findings, grades
        Findings and grades of one part and model.
    first, second
        The two wordings.
    level
        Confidence level of the intervals.
    """
    columns = ("estimate", "low", "high", "items")
    of_first = _of_wording(findings, first).select(*NAMED, *columns)
    of_second = _of_wording(findings, second).select(*NAMED, *columns)
    of_all = beside(
        findings.filter(col.wording.is_null()).select(*NAMED, estimate_all="estimate", items_all="items"),
        grades.filter(col.wording.is_null()).select(*NAMED, low_all="low_items", high_all="high_items"),
        *NAMED,
    )
    pairs = of_first.join(of_second, on=list(NAMED), nulls_equal=True, suffix="_second")
    pairs = beside(pairs, of_all, *NAMED)
    estimates = _numbers_of_pairs(pairs, "estimate")
    items = _numbers_of_pairs(pairs, "items")
    freedom = np.maximum(items - 1, 1)
    errors = standard_errors(
        _numbers_of_pairs(pairs, "low"), _numbers_of_pairs(pairs, "high"), level, freedom
    )
    errors_of_wordings, errors_of_all = errors[:, :2], errors[:, 2:]
    scaled_errors = errors_of_all * np.sqrt(items[:, 2:] / items[:, :2])
    larger = np.fmax(errors_of_wordings, scaled_errors)
    difference = estimates[:, 1] - estimates[:, 0]
    has_items = items[:, :2].min(axis=1) >= FEWEST_OF_WORDING
    is_tested = has_items & np.isfinite(errors_of_wordings).all(axis=1)
    p = np.where(is_tested, welch_p(difference, larger, freedom[:, :2]), np.nan)
    contrasts = pairs.select(*NAMED, difference=Series(difference), p=Series(p))
    return conform(contrasts, CONTRASTS).with_columns(col(Float64).fill_nan(None))


def _of_wording(findings: DataFrame, wording: str) -> DataFrame:
    """Return the findings of one wording, without its name."""
    return findings.filter(wording=wording).with_columns(wording=lit(None, String))


def _numbers_of_pairs(pairs: DataFrame, name: str) -> Floats:
    """Return the numbers (pairs, 3) of the first wording, the second wording and all items; missing: NaN."""
    columns = pairs.select(name, f"{name}_second", f"{name}_all").cast(Float64)
    return columns.fill_null(float("nan")).to_numpy()


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
    rows = []
    for (name, part), answers in repeated.group_by("model", "part", maintain_order=True):
        rows.append({"model": name, "part": part, **_agreement(answers, level)})
    table = DataFrame(rows, schema=STABILITY, infer_schema_length=None)
    return table.with_columns(col(Float64).fill_nan(None))


_PROMPT = ["item", "prompt_id"]


def _agreement(answers: DataFrame, level: float) -> dict[str, object]:
    """Return the columns of STABILITY of one model and part, without their names."""
    answered = answers.filter(outcome="answered")
    value = col.label.cast(Float64, strict=False)
    numbers = answered.select(*_PROMPT, value=value)
    is_numeric = numbers.height > 0 and numbers["value"].null_count() == 0
    if is_numeric:
        prompts, terms = _terms_of_numbers(numbers)
        repeats_of = stats.interval_repeats
    else:
        prompts, terms = _terms_of_labels(answers)
        repeats_of = stats.nominal_repeats
    items = DataFrame(terms).with_columns(prompts["item"]).group_by("item").sum().sort("item")
    totals = items.drop("item").to_numpy()
    repeats = repeats_of(totals.sum(axis=0))
    resampled = repeats_of(stats.resampled_totals(totals, resamples=RESAMPLES, seed=SEED))
    low, high = stats.percentile_interval(resampled.alpha, level)
    return {
        "prompts": prompts.height,
        "answers": answered.height if is_numeric else answers.height,
        "of": "numbers" if is_numeric else "labels",
        "identical": float(repeats.identical),
        "alpha": float(repeats.alpha),
        "low": low,
        "high": high,
        "level": level,
    }


def _terms_of_numbers(numbers: DataFrame) -> tuple[DataFrame, Floats]:
    """Return the prompts, and the terms of alpha with the interval metric for each of them."""
    counts = numbers.group_by(*_PROMPT, "value").agg(n=pl.len().cast(Float64))
    value, n = col.value, col.n
    sums = {
        "n": n.sum(),
        "sum": (n * value).sum(),
        "sum_of_squares": (n * value * value).sum(),
        "equal": (n * (n - 1)).sum(),
    }
    prompts = counts.group_by(_PROMPT).agg(**sums).sort(_PROMPT)
    terms = stats.interval_columns(
        prompts["n"].to_numpy(),
        prompts["sum"].to_numpy(),
        prompts["sum_of_squares"].to_numpy(),
        prompts["equal"].to_numpy(),
    )
    return prompts, terms


def _terms_of_labels(answers: DataFrame) -> tuple[DataFrame, Floats]:
    """Return the prompts, and the terms of nominal alpha for each of them."""
    labels = answers.select(*_PROMPT, label=pl.coalesce("label", "outcome"))
    prompts = (
        labels.group_by(*_PROMPT, "label")
        .len()
        .sort("label")
        .pivot("label", index=_PROMPT, values="len")
        .fill_null(0)
        .sort(_PROMPT)
    )
    return prompts, stats.nominal_columns(prompts.drop(_PROMPT).to_numpy())
