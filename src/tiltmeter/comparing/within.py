"""Sensitivity of results to the prompt wording, and agreement of repeated answers."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import polars as pl
from polars import DataFrame, Float64, Int64, Series, String, col, lit

from tiltmeter import stats
from tiltmeter.comparing.sides import Side, SideView, models_of, opened
from tiltmeter.runs import Run, load
from tiltmeter.study import CONTRASTS, NAMED, Part, Schema, Settings, beside, conform, q_values

WORDINGS: Schema = {
    "model": String,
    "part": String,
    **NAMED,
    "wordings": Int64,
    "spread": Float64,  # maximum minus minimum over the wordings
    "least": String,  # wording with the minimum; "greatest": with the maximum
    "greatest": String,
    "p": Float64,  # null hypothesis: no difference between any two wordings
    "q": Float64,  # over all metrics of the model
    "how": String,
}
"""Columns of the table of wording sensitivity, one row per key metric with several wordings."""

HOW = "Bonferroni-corrected smallest p over all pairs of wordings; {}"


def wording_sensitivity(run: Run | str | Path, model: str | None = None) -> DataFrame:
    """Compute the spread of each key metric over the prompt wordings of a run, and test whether any two wordings differ.

    Each pair of wordings is contrasted over the shared items, in the same way as two models. If each item was asked in one wording only,
    the estimates of two wordings are compared as independent ones. The spread is biased upwards by noise. The p-value is the smallest p
    over all pairs of wordings after a Bonferroni correction.

    Parameters
    ----------
    run
        A run, its folder, or its name under the runs folder.
    model
        Name of one model of the run; by default, all models.

    Returns
    -------
    DataFrame
        The columns of WORDINGS; no rows if there is only one wording.

    Raises
    ------
    InputError
        The run cannot be opened, or its study cannot be recreated.
    """
    opened_run = load(run)
    tables = [DataFrame(schema=WORDINGS)]
    asked = opened_run.folder.scan("design").select("part", "wording").unique().collect()
    several = asked.group_by("part").len().filter(col.len > 1)["part"].sort().to_list()
    if several:
        parts, settings = opened(opened_run)
        for name in [model] if model is not None else models_of(opened_run):
            side = Side(opened_run, name)
            tables += [_of_part(parts[part], side, settings) for part in several if part in parts and part in side.parts]
    return pl.concat(tables).with_columns(q=col.p.map_batches(q_values, Float64).over("model"))


def _of_part(part: Part, side: Side, settings: Settings) -> DataFrame:
    measures = side.measures(part.name)
    key = side.findings.filter(col.key)["metric"].unique()
    views = {
        str(wording): SideView(side, part.name, mine) for (wording,), mine in sorted(measures.partition_by("wording", as_dict=True).items())
    }
    pairs, how = [], "each pair over the same items"
    for one, another in combinations(views, 2):
        contrast = part.contrast(views[one], views[another], settings)
        if contrast is None:
            how = "the items of two wordings are different ones"
            contrast = _independent(side.findings.filter(part=part.name), one, another, settings.level)
        if contrast.height:
            pairs.append(contrast.filter(col.metric.is_in(key.implode())).with_columns(one=lit(one), other=lit(another)))
    if not pairs:
        return DataFrame(schema=WORDINGS)
    whole = pl.concat(pairs)
    tested = whole.group_by(*NAMED, maintain_order=True).agg(p=(col.p.min() * col.p.count()).clip(upper_bound=1.0))
    # Differences are relative to the first wording.
    origin = lit(next(iter(views)))
    first = whole.filter(one=origin)
    start = first.unique([*NAMED], maintain_order=True).with_columns(other=origin, difference=lit(0.0))
    difference, other = col.difference, col.other
    placed = (
        pl.concat([start, first])
        .group_by(*NAMED, maintain_order=True)
        .agg(
            wordings=pl.len(),
            spread=difference.max() - difference.min(),
            least=other.get(difference.arg_min()),
            greatest=other.get(difference.arg_max()),
        )
    )
    table = beside(placed, tested, *NAMED)
    return conform(table.with_columns(model=lit(side.model), part=lit(part.name), how=lit(HOW.format(how))), WORDINGS)


def _independent(findings: DataFrame, one: str, another: str, level: float) -> DataFrame:
    """Return the differences (columns CONTRASTS) between the findings of two wordings of different items."""
    sides = [findings.filter(wording=wording).with_columns(wording=lit(None, String)) for wording in (one, another)]
    pairs = sides[0].join(sides[1], on=list(NAMED), nulls_equal=True, suffix="_2")
    estimates, lows, highs = (pairs.select(name, f"{name}_2").to_numpy() for name in ("estimate", "low", "high"))
    low, high, p = map(Series, stats.independent_difference(estimates, lows, highs, level))
    made = pairs.select(*NAMED, difference=col.estimate_2 - col.estimate, low=low, high=high, p=p)
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

    Labels are treated as nominal, and an answer without a label gets its outcome (refused, unreadable, ...) as label. If all labels of a
    part are numbers, alpha uses the interval metric (squared differences), and unparsed answers are omitted. Failed attempts are always
    omitted. The confidence interval is a percentile bootstrap over items; each item keeps all its prompts.

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
    return DataFrame(rows, schema=STABILITY, infer_schema_length=None).with_columns(col(Float64).fill_nan(None))


def _agreement(answers: DataFrame, level: float) -> dict[str, object]:
    numbers = answers.filter(outcome="answered").select("item", "prompt_id", value=col.label.cast(Float64, strict=False))
    numeric = numbers.height > 0 and numbers["value"].null_count() == 0
    owner = ["item", "prompt_id"]
    if numeric:
        counts = numbers.group_by(*owner, "value").agg(n=pl.len().cast(Float64))
        value, n = col.value, col.n
        sums = {"m": n.sum(), "s": (n * value).sum(), "ss": (n * value * value).sum(), "equal": (n * (n - 1)).sum()}
        units = counts.group_by(owner).agg(**sums).sort(owner)
        columns = stats.interval_columns(*(units[name].to_numpy() for name in sums))
        of_totals = stats.interval_repeats
    else:
        labels = answers.select(*owner, label=pl.coalesce("label", "outcome"))
        units = labels.group_by(*owner, "label").len().sort("label").pivot("label", index=owner, values="len").fill_null(0).sort(owner)
        columns = stats.nominal_columns(units.drop(owner).to_numpy())
        of_totals = stats.nominal_repeats
    items = DataFrame(columns).with_columns(item=units["item"]).group_by("item").sum().sort("item").drop("item").to_numpy()
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
