"""Accuracy of the steps of a study (extraction, decomposition, clustering, filter) against human annotations.

A phrase is correct if the corrected list of the same character of the same story contains the same words;
case and white space are ignored, and a phrase counts once in a list. Recall is the share of corrected phrases
that the judge listed; precision (after decomposition: accuracy) is the share of the judge's phrases that the
corrected list contains. Macro figures are means over stories, micro figures are computed over all phrases.
Scores recorded in the sheet are reported as well; those that differ from the recomputed ones are listed.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from polars import DataFrame, Float64, Int64, Series, String, col, lit, when

from tiltmeter import stats
from tiltmeter._arrays import Floats, Integers
from tiltmeter._files.tables import ROW, UserTable, read_user_table
from tiltmeter.errors import InputError
from tiltmeter.labelling import _sheets as sheets
from tiltmeter.schema import Schema, beside

CONFIDENCE: Final = 0.95
RESAMPLES: Final = 2_000
SEED: Final = 123
JACKKNIFE_GROUPS: Final = 200

FIGURES: Final[Schema] = {
    "step": String,  # "extraction", "decomposition", "unifying" or "exclusivity"
    "metric": String,
    "estimate": Float64,  # recomputed; null if the sample does not allow it
    "low": Float64,  # null for counts, and if there is nothing to resample
    "high": Float64,
    "n": Int64,  # number of units
    "units": String,  # "stories", "decisions" or "gold clusters"
    "interval": String,  # method of the interval, and what was resampled
    "typed": Float64,  # the figure according to the scores recorded in the sheet
}
"""Columns of the figures of a sample."""

DISAGREEMENTS: Final[Schema] = {
    "row": Int64,  # row of the sheet; the header is row 1
    "about": String,  # the concept of a decision; null for a story or the whole sample
    "step": String,
    "metric": String,
    "typed": Float64,
    "recomputed": Float64,
}
"""Columns of the recorded scores that differ from the recomputed ones."""

_DENOMINATORS: Final = {
    sheets.EXTRACTION: {"recall": "label", "precision": "read"},
    sheets.DECOMPOSITION: {"accuracy": "read"},
}
"""Column of the lists whose phrases are the denominator of a metric, by step and metric."""
_UNIFYING: Final = "unifying"
_EXCLUSIVITY: Final = "exclusivity"
_OUTCOMES: Final = ("true positives", "false negatives", "false positives", "true negatives")
_WILSON: Final = "Wilson, decisions independent"
_BOOTSTRAP: Final = f"bootstrap percentiles, {RESAMPLES:,} resamples of "
_SAMPLE_OF_RUN: Final = frozenset({"model", "part", "prompt_id", "stratum"})
"""Columns of a sample that `tiltmeter label RUN` writes."""


@dataclass(frozen=True, slots=True)
class SampleScores:
    """The results of `score_sample`."""

    figures: DataFrame
    """One row per step and metric, with the columns FIGURES."""
    disagreements: DataFrame
    """Recorded scores that differ from the recomputed ones, with the columns DISAGREEMENTS."""


@dataclass(frozen=True, slots=True)
class _Figure:
    """A row of FIGURES."""

    step: str
    metric: str
    estimate: float | None
    n: int
    units: str
    low: float = math.nan
    high: float = math.nan
    interval: str = "none: a count"
    typed: float | None = None


def score_sample(path: Path, *, concepts: Path | None = None) -> SampleScores:
    r"""Compute the accuracy figures of an annotated sample, with intervals.

    The columns determine the kind of the sample (see `tiltmeter.labelling._sheets`). Scores that are recorded
    in a released sheet are compared with the recomputed ones.

    Parameters
    ----------
    path
        A CSV, JSON Lines or Parquet file.
    concepts
        The table `concepts` of a run, for a sample of gold clusters without the concepts of its phrases.

    Raises
    ------
    InputError
        The columns are those of no kind of sample, or a value is invalid; the message names the file, row
        and column.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from tiltmeter.labelling.scoring import score_sample
    >>> with TemporaryDirectory() as folder:
    ...     sample = Path(folder, "sample.csv")
    ...     _ = sample.write_text("concept,read,label\nmale,yes,yes\ncalm,no,no\nobserves Ramadan,no,yes\n")
    ...     accuracy = score_sample(sample).figures.row(0, named=True)
    >>> accuracy["metric"], round(accuracy["estimate"], 3), accuracy["n"]
    ('accuracy', 0.667, 3)
    """
    sheet = read_user_table(path)
    columns = set(sheet.rows.columns)
    if columns >= _SAMPLE_OF_RUN:
        raise InputError(
            f"{path} is a sample of the responses of a run; add its labels to the run, which scores them: "
            f"tiltmeter label RUN --from {path}"
        )
    is_clusters = "gold" in columns or ("phrase" in columns and bool(columns & {"read", "label"}))
    if concepts is not None and not is_clusters:
        raise InputError(
            f"--concepts applies only to a sample with phrases and gold clusters, which {path} is not"
        )
    disagreements = DataFrame(schema=DISAGREEMENTS)
    if columns & {"1_summ", "1_ans"}:
        stories, totals = sheets.split_released(sheet)
        lists = sheets.read_released_lists(stories)
        figures, disagreements = _score_lists(lists, sheets.read_released_scores(stories))
        figures += _recorded_clusters(totals)
    elif columns & {"gt", "filter_res"}:
        decisions = sheets.read_released_decisions(sheet)
        figures = _score_decisions(decisions)
        disagreements = _wrong_tallies(decisions)
    elif is_clusters:
        figures = _score_clusters(sheets.read_clusters(sheet, concepts))
    elif "story" in columns:
        figures, disagreements = _score_lists(sheets.read_lists(sheet), DataFrame(schema=sheets.RECORDED))
    elif "concept" in columns:
        figures = _score_decisions(sheets.read_decisions(sheet))
    else:
        raise InputError(
            f"{path} is not an annotated sample: it needs the columns story, character, read, label (lists), "
            "or concept, read, label (yes or no), or phrase, read, label (clusters)"
        )
    table = DataFrame([asdict(figure) for figure in figures], schema=FIGURES, strict=False)
    return SampleScores(table.with_columns(col(Float64).fill_nan(None)), disagreements)


def _percentiles(
    estimate: float, samples: Floats, n: int, bounds: tuple[float, float] | None
) -> stats.Interval:
    """Return the percentile interval of the resamples.

    If all resamples are equal, return the interval for rare events.
    """
    if bounds is not None and stats.is_constant(samples):
        return stats.rare_event_interval(estimate, n, *bounds, CONFIDENCE)
    return stats.percentile_interval(samples, CONFIDENCE)


# -- lists -----------------------------------------------------------------------------------------


def _score_lists(lists: DataFrame, recorded: DataFrame) -> tuple[list[_Figure], DataFrame]:
    """Compute the figures of each step from the phrase counts of each story.

    Also return the recorded scores that differ (DISAGREEMENTS).
    """
    figures: list[_Figure] = []
    disagreements = [DataFrame(schema=DISAGREEMENTS)]
    compared = lists.with_columns(matched=col.read.list.set_intersection("label"))
    for (step,), lists_of_step in compared.group_by("step", maintain_order=True):
        step = str(step)
        counts = col("matched", "read", "label").list.len().sum()
        stories = lists_of_step.group_by("story", maintain_order=True).agg(counts, characters=pl.len())
        for metric, denominator in _DENOMINATORS[step].items():
            share = (col.matched / col(denominator)).fill_nan(None)
            scored = stories.select("story", recomputed=share)
            both = beside(recorded.filter(step=step, metric=metric), scored, "story")
            disagreements.append(_differing(both))
            scores = scored["recomputed"]
            macro = _ratio(step, f"{metric} (macro)", scores.fill_null(0.0), scores.is_not_null())
            figures.append(replace(macro, typed=both.select(col.typed.cast(Float64).mean()).item()))
            figures.append(_ratio(step, f"{metric} (micro)", stories["matched"], stories[denominator]))
        figures += _phrase_counts(step, stories, lists_of_step["read"].explode().drop_nulls().n_unique())
    return figures, pl.concat(disagreements)


def _phrase_counts(step: str, stories: DataFrame, distinct: int) -> list[_Figure]:
    """Return the number of phrases of a step: in total, per story, per character, and distinct ones."""
    count = stories.height
    phrases = stories["read"]
    each_story = Series([1.0] * count)
    return [
        _Figure(step, "phrases", float(phrases.sum()), count, "stories"),
        _ratio(step, "phrases per story", phrases, each_story, bounds=None),
        _ratio(step, "phrases per character", phrases, stories["characters"], bounds=None),
        _Figure(step, "unique phrases", distinct, count, "stories"),
    ]


def _differing(scores: DataFrame) -> DataFrame:
    """Return the recorded scores that differ from the recomputed ones (DISAGREEMENTS)."""
    digits = scores["typed"].str.extract(r"\.(.*)").str.len_chars().fill_null(0)
    # A recorded number is rounded to its digits; a bare 0 or 1 must be exact.
    tolerance = when(digits > 1).then(0.5 / 10.0**digits + 1e-12).otherwise(1e-9)
    typed = col.typed.cast(Float64)
    is_rounded = (typed - col.recomputed).abs() <= tolerance
    return scores.filter(~is_rounded.fill_null(False)).select(
        col(ROW).cast(Int64).alias("row"),
        lit(None, String).alias("about"),
        "step",
        "metric",
        typed,
        "recomputed",
    )


def _ratio(
    step: str, metric: str, part: Series, whole: Series, *, bounds: tuple[float, float] | None = (0.0, 1.0)
) -> _Figure:
    """Compute the ratio of two sums over stories, with an interval by resampling stories.

    Parameters
    ----------
    bounds
        Range of the ratio; None if it has no upper bound.
    """
    columns = np.column_stack([part, whole]).astype(np.float64)
    estimate = float(stats.ratio(*columns.sum(axis=0)))
    totals = stats.resampled_totals(columns, resamples=RESAMPLES, seed=SEED)
    scored = int((columns[:, 1] > 0).sum())
    low, high = _percentiles(estimate, stats.ratio(*totals.T), scored, bounds)
    return _Figure(
        step=step,
        metric=metric,
        estimate=estimate,
        n=len(part),
        units="stories",
        low=low,
        high=high,
        interval=_BOOTSTRAP + "stories",
    )


# -- decisions -------------------------------------------------------------------------------------


def _score_decisions(decisions: DataFrame) -> list[_Figure]:
    """Compute figures of yes-no decisions: proportions with Wilson intervals, kappa and counts."""
    outcomes = stats.decision_outcomes(decisions["label"].to_numpy(), decisions["read"].to_numpy())
    counts = outcomes.sum(axis=0)
    n = len(outcomes)
    tp, fn, fp, tn = counts.tolist()
    accuracy = _proportion("accuracy", tp + tn, n)
    figures = [
        replace(accuracy, typed=decisions.select(col.is_right.mean()).item()),
        _proportion("precision", tp, tp + fp),
        _proportion("recall", tp, tp + fn),
        _proportion("accuracy of always no", fp + tn, n),
        _kappa(outcomes),
    ]
    for name, count in zip(_OUTCOMES, counts.tolist(), strict=True):
        figures.append(_Figure(_EXCLUSIVITY, name, count, n, "decisions"))
    return figures


def _proportion(metric: str, correct: float, n: float) -> _Figure:
    low, high = stats.wilson_interval(correct, n, CONFIDENCE)
    return _Figure(
        step=_EXCLUSIVITY,
        metric=metric,
        estimate=correct / n if n else None,
        n=int(n),
        units="decisions",
        low=float(low),
        high=float(high),
        interval=_WILSON,
    )


def _kappa(outcomes: Floats) -> _Figure:
    """Compute Cohen's kappa of decisions, with an interval by resampling them.

    Parameters
    ----------
    outcomes
        (n, 4) indicators, see `stats.decision_outcomes`.
    """
    n = len(outcomes)
    kappa = float(stats.cohen_kappa(outcomes.sum(axis=0)))
    samples = stats.cohen_kappa(stats.resampled_totals(outcomes, resamples=RESAMPLES, seed=SEED))
    low, high = _percentiles(kappa, samples, n, (-1.0, 1.0))
    return _Figure(
        step=_EXCLUSIVITY,
        metric="Cohen's kappa",
        estimate=kappa,
        n=n,
        units="decisions",
        low=low,
        high=high,
        interval=_BOOTSTRAP + "decisions",
    )


def _wrong_tallies(decisions: DataFrame) -> DataFrame:
    """Return the decisions whose recorded correctness is wrong (DISAGREEMENTS)."""
    recorded = col.is_right.cast(Float64)
    recomputed = (col.label == col.read).cast(Float64)
    return decisions.filter(recorded != recomputed).select(
        col(ROW).cast(Int64).alias("row"),
        about="concept",
        step=lit(_EXCLUSIVITY),
        metric=lit("decision right"),
        typed=recorded,
        recomputed=recomputed,
    )


# -- clusters --------------------------------------------------------------------------------------


def _score_clusters(clusters: DataFrame) -> list[_Figure]:
    """Compare concepts with gold clusters, with jackknife intervals over gold clusters.

    A bootstrap would draw phrases twice, and copies of a phrase always agree. The jackknife leaves out gold
    clusters (groups of them if there are very many), because the phrases of a cluster are dependent.

    Parameters
    ----------
    clusters
        `phrase`, `label` (gold cluster) and `read` (concept), as from `sheets.read_clusters`.
    """
    gold = _numbered(clusters["label"])
    concept = _numbered(clusters["read"])
    count = int(gold.max()) + 1
    groups = min(count, JACKKNIFE_GROUPS)
    estimates = _agreement(gold, concept)
    figures = [
        _Figure(_UNIFYING, metric, value, count, "gold clusters") for metric, value in estimates.items()
    ]
    if groups > 1:
        retained = [gold % groups != group for group in range(groups)]
        parts = [_agreement(gold[rows], concept[rows]) for rows in retained]
        figures = [
            _with_jackknife(figure, np.array([part[figure.metric] for part in parts])) for figure in figures
        ]
    distinct = clusters["read"].n_unique()
    figures.append(_Figure(_UNIFYING, "phrases", clusters.height, count, "gold clusters"))
    figures.append(_Figure(_UNIFYING, "concepts", distinct, count, "gold clusters"))
    return figures


def _numbered(names: Series) -> Integers:
    """Return the number of each name in alphabetical order, from 0."""
    return names.rank("dense").to_numpy().astype(np.int64) - 1


def _agreement(gold: Integers, concept: Integers) -> dict[str, float]:
    """Return the measures of agreement of concepts with gold clusters, by name."""
    v = stats.v_measure(gold, concept)
    b_cubed = stats.b_cubed(gold, concept)
    return {
        "homogeneity": v.homogeneity,
        "completeness": v.completeness,
        "v_measure": v.v,
        "b_cubed_precision": b_cubed.precision,
        "b_cubed_recall": b_cubed.recall,
        "b_cubed_f": b_cubed.f,
    }


def _with_jackknife(figure: _Figure, left_out: Floats) -> _Figure:
    """Add the normal interval within [0, 1] to a figure.

    Parameters
    ----------
    left_out
        The estimates with each group of gold clusters left out.
    """
    estimate = figure.estimate or 0.0
    if stats.is_constant(left_out):
        low, high = stats.rare_event_interval(estimate, figure.n, 0.0, 1.0, CONFIDENCE)
    else:
        error = float((left_out.var() * (left_out.size - 1)) ** 0.5)
        half = stats.half_width(error, CONFIDENCE)
        low, high = max(0.0, estimate - half), min(1.0, estimate + half)
    return replace(
        figure, low=low, high=high, interval=f"jackknife over {left_out.size:,} groups of gold clusters"
    )


def _recorded_clusters(totals: UserTable) -> list[_Figure]:
    """Return the recorded clustering figures.

    Only V can be recomputed without the clusters, from the other two.
    """
    recorded = sheets.read_released_totals(totals)
    homogeneity, completeness = recorded.get("homogeneity"), recorded.get("completeness")
    figures = []
    for metric, value in recorded.items():
        estimate = None
        interval = "none: the sample does not contain the clusters"
        if metric == "v_measure" and homogeneity and completeness:
            estimate = 2 * homogeneity * completeness / (homogeneity + completeness)
            interval = "none: from the recorded homogeneity and completeness"
        figures.append(
            _Figure(
                step=_UNIFYING,
                metric=metric,
                estimate=estimate,
                n=0,
                units="gold clusters",
                interval=interval,
                typed=value,
            )
        )
    return figures
