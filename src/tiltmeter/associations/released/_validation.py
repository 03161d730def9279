"""Validation of the judge steps from a sample that people annotated: how far extraction, decomposition, unifying and filter are right.

A phrase counts as right if the corrected list of the same character of the same story holds the same words; case and white space
do not matter, and a phrase counts once in a list. Recall is the share of the corrected phrases that the judge listed, precision
(after decomposition: accuracy) the share of the judge's phrases that the corrected list keeps. Macro means are over stories, micro
figures over all phrases. Scores typed into a sheet are shown beside, and every one that differs from the recomputed one is listed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from tiltmeter.associations.released._samples import Sample, read_sample

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tiltmeter.stats import Interval

__all__ = ["CONFIDENCE", "DISAGREEMENTS", "FIGURES", "Validation", "validate"]

CONFIDENCE = 0.95
RESAMPLES = 2_000
SEED = 123
JACKKNIFE_GROUPS = 200

FIGURES = {
    "step": pl.String,  # "extraction", "decomposition", "unifying" or "exclusivity"
    "metric": pl.String,
    "estimate": pl.Float64,  # recomputed; null where the sample does not allow it
    "low": pl.Float64,  # null: a plain count, or nothing to resample
    "high": pl.Float64,
    "n": pl.Int64,  # units the figure rests on
    "units": pl.String,  # what they are: "stories", "decisions", "gold clusters"
    "interval": pl.String,  # how the interval was made, and what was resampled
    "typed": pl.Float64,  # the figure by the scores typed into the sheet
}
DISAGREEMENTS = {
    "row": pl.Int64,  # of the sheet, its header being row 1
    "about": pl.String,  # the concept decided on; null for a story or the whole sample
    "step": pl.String,
    "metric": pl.String,
    "typed": pl.Float64,
    "recomputed": pl.Float64,
}

_OF = {"extraction": {"recall": "truth", "precision": "found"}, "decomposition": {"accuracy": "found"}}
_BOOTSTRAP = f"bootstrap percentiles, {RESAMPLES:,} resamples of "
_OUTCOMES = ("true positives", "false negatives", "false positives", "true negatives")


class Validation(NamedTuple):
    """What a sample tells."""

    figures: pl.DataFrame
    """Columns FIGURES."""
    disagreements: pl.DataFrame
    """Columns DISAGREEMENTS: what was typed and is not what the sheet's own rows give."""


def validate(path: Path, *, concepts: Path | None = None, level: float = CONFIDENCE) -> Validation:
    """Figures of an annotated sample, each with its interval at `level`, and the typed scores that differ from them.

    Parameters
    ----------
    path
        A sample in one of the formats of `read_sample`.
    concepts
        A run's table of phrases and concepts, for a sample of gold clusters that does not hold them.

    Raises
    ------
    InputError
        The sample cannot be read; file, row and column are named.
    """
    sample = read_sample(path, concepts)
    rows: list[dict[str, Any]] = []
    wrong: list[dict[str, Any]] = []
    for step in sample.lists["step"].unique(maintain_order=True):
        _lists(sample, step, level, rows, wrong)
    if not sample.decisions.is_empty():
        _decisions(sample, level, rows, wrong)
    if not sample.clusters.is_empty():
        rows += _clusters(sample.clusters, level)
    rows += _typed_clusters(sample)
    return Validation(pl.DataFrame(rows, schema=FIGURES), pl.DataFrame(wrong, schema=DISAGREEMENTS))


def _lists(sample: Sample, step: str, level: float, rows: list[dict[str, Any]], wrong: list[dict[str, Any]]) -> None:
    """Figures of the lists of one step, from the numbers of matched, found and true phrases of each story."""
    lists = sample.lists.filter(pl.col("step") == step)
    found, truth = (pl.col(name).list.eval(pl.element().str.to_lowercase()).list.unique() for name in ("found", "truth"))
    stories = lists.group_by("story", maintain_order=True).agg(
        pl.col("row").first(),
        found.list.set_intersection(truth).list.len().sum().cast(pl.Int64).alias("matched"),
        found.list.len().sum().cast(pl.Int64).alias("found"),
        truth.list.len().sum().cast(pl.Int64).alias("truth"),
        pl.len().cast(pl.Int64).alias("characters"),
    )
    for metric, of in _OF[step].items():
        scored = stories.with_columns(score=pl.when(pl.col(of) > 0).then(pl.col("matched") / pl.col(of)))
        typed = _typed(sample, step, metric, scored, wrong)
        defined = scored.select(pl.col("score").fill_null(0.0), pl.col("score").is_not_null().cast(pl.Float64).alias("scored"))
        rows.append(_share(step, f"{metric} (macro)", defined["score"], defined["scored"], level) | {"typed": typed})
        rows.append(_share(step, f"{metric} (micro)", stories["matched"], stories[of], level))
    one = pl.Series("one", [1.0] * stories.height)
    unique = lists.select(found.explode().drop_nulls().n_unique()).item()
    rows.append(_figure(step, "phrases", float(stories["found"].sum()), stories.height, "stories"))
    rows.append(_share(step, "phrases per story", stories["found"], one, level, top=None))
    rows.append(_share(step, "phrases per character", stories["found"], stories["characters"], level, top=None))
    rows.append(_figure(step, "unique phrases", unique, stories.height, "stories"))


def _typed(sample: Sample, step: str, metric: str, scored: pl.DataFrame, wrong: list[dict[str, Any]]) -> float | None:
    """Mean of the typed scores of a metric; scores that are not the recomputed ones go to `wrong`."""
    typed = sample.typed.filter((pl.col("step") == step) & (pl.col("metric") == metric))
    by_story = typed.drop_nulls("story").join(scored.select("story", "score"), on="story", how="left", maintain_order="left")
    mean: float | None = by_story.select(pl.col("typed").cast(pl.Float64).mean()).item()
    whole = typed.filter(pl.col("story").is_null()).with_columns(score=pl.lit(mean, pl.Float64))
    both = pl.concat([by_story, whole.select(by_story.columns)])
    wrong += [
        _disagreement(row["row"], None, step, metric, float(row["typed"]), row["score"])
        for row in both.iter_rows(named=True)
        if row["score"] is None or not _same(row["typed"], row["score"])
    ]
    return mean


def _same(typed: str, value: float) -> bool:
    """Whether a typed number is `value`, rounded to the digits typed; a bare 0 or 1 must be exact."""
    digits = len(typed.partition(".")[2])
    return abs(float(typed) - value) <= (0.5 * 10.0**-digits + 1e-12 if digits > 1 else 1e-9)


def _share(step: str, metric: str, part: pl.Series, whole: pl.Series, level: float, top: float | None = 1.0) -> dict[str, Any]:
    """Ratio of two sums over stories, its interval by resampling stories; `top` is its greatest possible value."""
    import numpy as np

    from tiltmeter.stats import ratio, resampled_totals

    columns = np.column_stack([part.to_numpy(), whole.to_numpy()]).astype(np.float64)
    estimate = float(ratio(*columns.sum(axis=0)))
    totals = resampled_totals(columns, resamples=RESAMPLES, seed=SEED)
    low, high = _interval(estimate, ratio(totals[:, 0], totals[:, 1]), int((columns[:, 1] > 0).sum()), level, 0.0, top)
    return _figure(step, metric, estimate, len(part), "stories", low, high, _BOOTSTRAP + "stories")


def _interval(estimate: float, samples: NDArray[np.float64], n: int, level: float, bottom: float, top: float | None) -> Interval:
    """Percentiles of the resamples; where all of them agree, how many of the units may yet behave otherwise."""
    from tiltmeter.stats import is_constant, percentile_interval, rare_event_interval

    if top is not None and is_constant(samples):
        return rare_event_interval(estimate, n, bottom, top, level)
    return percentile_interval(samples, level)


def _decisions(sample: Sample, level: float, rows: list[dict[str, Any]], wrong: list[dict[str, Any]]) -> None:
    """Figures of yes-or-no decisions: proportions with Wilson's interval, kappa by resampling decisions."""
    from tiltmeter.stats import decision_agreement, decision_outcomes, resampled_totals, wilson_interval

    decisions = sample.decisions
    outcomes = decision_outcomes(decisions["truth"].to_numpy(), decisions["found"].to_numpy())
    counts = outcomes.sum(axis=0)
    tp, fn, fp, tn = counts.tolist()
    values = decision_agreement(counts)
    tally = decisions["right"].mean()
    wilson = "Wilson, decisions independent"
    for metric, right, of in (
        ("accuracy", tp + tn, tp + fn + fp + tn),
        ("precision", tp, tp + fp),
        ("recall", tp, tp + fn),
        ("accuracy of always no", fp + tn, tp + fn + fp + tn),
    ):
        low, high = (float(end) for end in wilson_interval(right, of, level))
        estimate = right / of if of else None
        rows.append(_figure("exclusivity", metric, estimate, of, "decisions", low, high, wilson))
    rows[-4]["typed"] = tally
    kappa = decision_agreement(resampled_totals(outcomes, resamples=RESAMPLES, seed=SEED)).kappa
    low, high = _interval(float(values.kappa), kappa, len(outcomes), level, -1.0, 1.0)
    rows.append(
        _figure("exclusivity", "Cohen's kappa", float(values.kappa), len(outcomes), "decisions", low, high, _BOOTSTRAP + "decisions")
    )
    rows += [_figure("exclusivity", name, count, len(outcomes), "decisions") for name, count in zip(_OUTCOMES, counts, strict=True)]
    wrong += [
        _disagreement(row["row"], row["concept"], "exclusivity", "decision right", float(row["right"]), float(not row["right"]))
        for row in decisions.filter(pl.col("right") != (pl.col("truth") == pl.col("found"))).iter_rows(named=True)
    ]
    total = float(decisions["right"].sum())
    wrong += [
        _disagreement(row["row"], None, "exclusivity", row["metric"], float(row["typed"]), total)
        for row in sample.typed.filter(pl.col("step") == "exclusivity").iter_rows(named=True)
        if float(row["typed"]) != total
    ]


def _clusters(clusters: pl.DataFrame, level: float) -> list[dict[str, Any]]:
    """Figures of unifying against gold clusters; intervals by leaving gold clusters out.

    A bootstrap would draw phrases twice, and copies of one phrase always agree: hence the jackknife, over gold clusters because
    the phrases of one rise and fall together (over groups of them where there are very many).
    """
    import numpy as np

    gold = clusters["gold"].rank("dense").to_numpy().astype(np.int64) - 1
    found = clusters["concept"].rank("dense").to_numpy().astype(np.int64)
    known = int(gold.max()) + 1
    groups = min(known, JACKKNIFE_GROUPS)
    values = _agreement_of_clusters(gold, found)
    rows = [_figure("unifying", name, value, known, "gold clusters") for name, value in values.items()]
    if groups > 1:
        parts = [_agreement_of_clusters(gold[kept], found[kept]) for kept in (gold % groups != group for group in range(groups))]
        for row in rows:
            left = np.array([part[row["metric"]] for part in parts])
            low, high = _jackknife(row["estimate"], left, known, level)
            row |= {"low": float(low), "high": float(high), "interval": f"jackknife, {groups:,} groups of gold clusters left out in turn"}
    phrases = _figure("unifying", "phrases", clusters.height, known, "gold clusters")
    return [*rows, phrases, _figure("unifying", "concepts", clusters["concept"].n_unique(), known, "gold clusters")]


def _agreement_of_clusters(gold: NDArray[np.int64], found: NDArray[np.int64]) -> dict[str, float]:
    from tiltmeter.stats import b_cubed, v_measure

    v, b = v_measure(gold, found), b_cubed(gold, found)
    names = ("homogeneity", "completeness", "v_measure", "b_cubed_precision", "b_cubed_recall", "b_cubed_f")
    return dict(zip(names, (*v, *b), strict=True))


def _jackknife(estimate: float, left: NDArray[np.float64], n: int, level: float) -> tuple[float, float]:
    """Normal interval within [0, 1] from the values with each group left out."""
    from statistics import NormalDist

    from tiltmeter.stats import is_constant, rare_event_interval

    if is_constant(left):
        return rare_event_interval(estimate, n, 0.0, 1.0, level)
    half = NormalDist().inv_cdf((1.0 + level) / 2.0) * float((left.var() * (left.size - 1)) ** 0.5)
    return max(0.0, estimate - half), min(1.0, estimate + half)


def _typed_clusters(sample: Sample) -> list[dict[str, Any]]:
    """Typed figures of unifying: without the clusters they cannot be recomputed, but V follows from the other two."""
    typed = {row["metric"]: float(row["typed"]) for row in sample.typed.filter(pl.col("step") == "unifying").iter_rows(named=True)}
    rows = []
    for metric, value in typed.items():
        figure = _figure("unifying", metric, None, 0, "gold clusters", made="none: the sample does not hold the clusters") | {
            "typed": value
        }
        h, c = typed.get("homogeneity"), typed.get("completeness")
        if metric == "v_measure" and h is not None and c is not None and h + c > 0:
            figure |= {"estimate": 2 * h * c / (h + c), "interval": "none: from the typed homogeneity and completeness"}
        rows.append(figure)
    return rows


def _figure(
    step: str,
    metric: str,
    estimate: float | None,
    n: float,
    units: str,
    low: float | None = None,
    high: float | None = None,
    made: str = "none: a count of this sample",
) -> dict[str, Any]:
    import math

    ends = {
        name: None if value is None or math.isnan(value) else float(value)
        for name, value in (("estimate", estimate), ("low", low), ("high", high))
    }
    return {"step": step, "metric": metric, **ends, "n": int(n), "units": units, "interval": made, "typed": None}


def _disagreement(row: int, about: str | None, step: str, metric: str, typed: float, recomputed: float | None) -> dict[str, Any]:
    return {"row": row, "about": about, "step": step, "metric": metric, "typed": typed, "recomputed": recomputed}
