"""Accuracy of the judge's steps (extraction, decomposition, clustering, exclusivity filter) against human annotations.

A phrase is correct if the corrected list of the same character of the same story contains the same words;
case and white space are ignored, and a phrase counts once in a list. Recall is the share of corrected phrases
that the judge listed; precision (after decomposition: accuracy) is the share of the judge's phrases that the
corrected list contains. Macro figures are means over stories, micro figures are computed over all phrases.
Scores recorded in the sheet are reported as well; those that differ from the recomputed ones are listed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from polars import Boolean, DataFrame, Expr, Float64, Int64, Series, String, col, lit, when

from tiltmeter import stats
from tiltmeter.arrays import Floats, Integers
from tiltmeter.errors import InputError
from tiltmeter.files.tables import ROW, UserTable, read_user_table
from tiltmeter.schema import beside

CONFIDENCE = 0.95
RESAMPLES = 2_000
SEED = 123
JACKKNIFE_GROUPS = 200

FIGURES = {
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
DISAGREEMENTS = {
    "row": Int64,  # row of the sheet; the header is row 1
    "about": String,  # the concept of a decision; null for a story or the whole sample
    "step": String,
    "metric": String,
    "typed": Float64,
    "recomputed": Float64,
}

_OWN_LISTS = {"extraction": ("found", "truth"), "decomposition": ("decomposed", "decomposed_truth")}
"""Columns of the judge's lists and of the corrected lists, by step."""
_RELEASED_LISTS = {"extraction": ("1_summ", "1_ans"), "decomposition": ("2_summ_combine", "2_ans")}
_RELEASED_SCORES = {
    "recall_1": ("extraction", "recall"),
    "precision_1": ("extraction", "precision"),
    "accuracy_2": ("decomposition", "accuracy"),
}
_RELEASED_TOTALS = {"homogeneity": "homogeneity", "completeness": "completeness", "v-measure": "v_measure"}
_DENOMINATORS = {
    "extraction": {"recall": "truth", "precision": "found"},
    "decomposition": {"accuracy": "found"},
}
_TYPED = {ROW: pl.UInt32, "story": String, "step": String, "metric": String, "typed": String}
"""Columns of the scores recorded in a sheet, as text."""
_ANSWERS = {"yes": True, "true": True, "no": False, "false": False}
_OUTCOMES = ("true positives", "false negatives", "false positives", "true negatives")
_WILSON = "Wilson, decisions independent"
_BOOTSTRAP = f"bootstrap percentiles, {RESAMPLES:,} resamples of "

Rows = list[dict[str, Any]]


class Validation(NamedTuple):
    """The results of `validate`."""

    figures: DataFrame
    """One row per step and metric, with the columns FIGURES."""
    disagreements: DataFrame
    """Recorded scores that differ from the recomputed ones, with the columns DISAGREEMENTS."""


def validate(path: Path, *, concepts: Path | None = None) -> Validation:
    """Compute the accuracy figures of an annotated sample with intervals, and compare them with the recorded scores.

    The columns determine the kind of the sample. Released sheets have `1_summ`, `2_summ_combine`, `1_ans` and
    `2_ans` (the judge's and the corrected lists before and after decomposition; one line "name: phrase;
    phrase" per character) with recorded scores; or `gt` and `filter_res` (YES or NO) with the recorded tally
    `RES`. Other tables have `story` and `character` with `found` and `truth`, or `decomposed` and
    `decomposed_truth`, or all four (lists, or text with ";" between phrases); `concept`, `truth` and `found`
    (yes or no); or `phrase`, `gold` and `concept`.

    Parameters
    ----------
    path
        A CSV, JSON Lines or Parquet file.
    concepts
        The table `concepts` of a run, for a sample of gold clusters without the column `concept`.

    Raises
    ------
    InputError
        The columns are none of these, or a value is invalid; the message names the file, row and column.
    """
    sheet = read_user_table(path)
    columns = set(sheet.rows.columns)
    if concepts is not None and "gold" not in columns:
        raise InputError(
            f"--concepts applies only to a sample with phrases and gold clusters, which {path} is not"
        )
    disagreements: Rows = []
    if columns & {"1_summ", "1_ans"}:
        stories, totals = _read_stories(sheet)
        figures, disagreements = _figures_of_lists(_read_released_lists(stories), _read_scores(stories))
        figures += _typed_clusters(totals)
    elif columns & {"gt", "filter_res"}:
        figures, disagreements = _figures_of_decisions(_read_released_decisions(sheet))
    elif "gold" in columns:
        figures = _figures_of_clusters(_read_clusters(sheet, concepts))
    elif "story" in columns:
        figures, disagreements = _figures_of_lists(_read_own_lists(sheet), DataFrame(schema=_TYPED))
    elif "concept" in columns:
        figures, disagreements = _figures_of_decisions(_read_decisions(sheet, "concept", "truth", "found"))
    else:
        raise InputError(
            f"{path} is not an annotated sample: it needs the columns story, character, found, truth (lists), "
            "or concept, truth, found (yes or no), or phrase, gold, concept (clusters)"
        )
    shown = DataFrame(figures, schema=FIGURES, strict=False).with_columns(col(Float64).fill_nan(None))
    return Validation(
        shown, DataFrame([one | {"row": one[ROW]} for one in disagreements], schema=DISAGREEMENTS)
    )


def _figure(
    step: str,
    metric: str,
    estimate: float | None,
    n: float,
    units: str,
    ends: Sequence[Any] = (math.nan, math.nan),
    interval: str = "none: a count",
) -> dict[str, Any]:
    low, high = map(float, ends)
    return {
        "step": step,
        "metric": metric,
        "estimate": estimate,
        "low": low,
        "high": high,
        "n": n,
        "units": units,
        "interval": interval,
    }


def _percentiles(
    estimate: float, samples: Floats, n: int, bounds: tuple[float, float] | None
) -> stats.Interval:
    """Return the percentile interval of the resamples, or the interval for rare events if all resamples are equal."""
    if bounds is not None and stats.is_constant(samples):
        return stats.rare_event_interval(estimate, n, *bounds, CONFIDENCE)
    return stats.percentile_interval(samples, CONFIDENCE)


# -- lists ------------------------------------------------------------------------------------------------------------


def _read_own_lists(sheet: UserTable) -> DataFrame:
    """Return ROW, `story`, `character`, `step`, `found` and `truth`, one row per step, story and character."""
    sheet.demand(("story", "character"))
    sheet.refuse_repeats(["story", "character"])
    steps = {step: pair for step, pair in _OWN_LISTS.items() if set(pair) & set(sheet.rows.columns)}
    for pair in steps.values() or [_OWN_LISTS["extraction"]]:
        sheet.demand(pair, lists=True)
    parts = [
        sheet.rows.select(
            ROW,
            "story",
            "character",
            step=lit(step),
            found=_phrases(sheet, found),
            truth=_phrases(sheet, truth),
        )
        for step, (found, truth) in steps.items()
    ]
    return pl.concat(parts)


def _phrases(sheet: UserTable, column: str) -> Expr:
    """Return the phrases of a column of lists, or of texts with ";" between phrases; see `_trimmed`."""
    kind = sheet.rows.schema[column]
    if kind == String:
        return _trimmed(col(column).str.split(";"))
    if isinstance(kind, pl.List) and kind.inner in (String, pl.Null):
        return _trimmed(col(column).cast(pl.List(String)).fill_null([]))
    raise InputError(f"{sheet.place}, column {column!r} contains neither text nor lists of text")


def _trimmed(phrases: Expr) -> Expr:
    """Return the distinct phrases of lists in lower case, without surrounding or repeated white space and without empty ones."""
    phrase = pl.element().str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars()
    return phrases.list.eval(phrase.filter(phrase != "").unique())


def _read_stories(sheet: UserTable) -> tuple[UserTable, UserTable]:
    """Split a released sheet into the stories, which end at the first row without a prompt, and the rows of totals below."""
    sheet.demand(("prompt", *(name for pair in _RELEASED_LISTS.values() for name in pair), *_RELEASED_SCORES))
    ended = (sheet.rows["prompt"].str.strip_chars() == "").cum_max()
    sheet.refuse(ended & (pl.int_range(pl.len()) == 0), "prompt", "is empty: the stories must come first")
    return UserTable(
        sheet.place, sheet.rows.filter(~ended).with_columns(story=pl.format("row {}", ROW))
    ), sheet.only(ended)


def _read_released_lists(stories: UserTable) -> DataFrame:
    """Return the lists of a released sheet in the format of `_read_own_lists`."""
    lists = [
        _read_lines(stories, column).with_columns(step=lit(step), kind=lit(kind))
        for step, pair in _RELEASED_LISTS.items()
        for kind, column in zip(("found", "truth"), pair, strict=True)
    ]
    both = {kind: col.phrases.filter(col.kind == kind).first().fill_null([]) for kind in ("found", "truth")}
    return pl.concat(lists).group_by(ROW, "story", "character", "step", maintain_order=True).agg(**both)


def _read_lines(stories: UserTable, column: str) -> DataFrame:
    """Return one row per line "name: phrase; phrase" of a column: ROW, `story`, `character` and `phrases`."""
    line, parts = col(column).str.strip_chars(), col(column).str.splitn(":", 2).struct
    rows = (
        stories.rows.select(ROW, "story", col(column).str.split("\n"))
        .explode(column)
        .with_columns(line)
        .filter(col(column) != "")
    )
    named = rows.with_columns(
        character=parts.field("field_0").str.strip_chars(),
        phrases=_trimmed(parts.field("field_1").str.split(";")),
    )
    lines = UserTable(stories.place, named)
    lines.refuse(col.phrases.is_null(), column, "has no character name before a colon")
    lines.refuse(
        ~pl.struct(ROW, "character").is_first_distinct(), column, "is a second list of the character"
    )
    return named.drop(column)


def _read_scores(stories: UserTable) -> DataFrame:
    """Return the recorded scores of every story."""
    for column in _RELEASED_SCORES:
        stories.numbers(column, low=0, high=1)
    return pl.concat(
        stories.rows.select(
            ROW, "story", step=lit(step), metric=lit(metric), typed=col(column).str.strip_chars()
        )
        for column, (step, metric) in _RELEASED_SCORES.items()
    )


def _figures_of_lists(lists: DataFrame, typed: DataFrame) -> tuple[Rows, Rows]:
    """Compute the figures of each step from the phrase counts of each story.

    Also return the recorded scores that differ.
    """
    figures: Rows = []
    wrong: Rows = []
    compared = lists.with_columns(matched=col.found.list.set_intersection("truth"))
    for (step,), mine in compared.group_by("step", maintain_order=True):
        numbers = col("matched", "found", "truth").list.len().sum()
        stories = mine.group_by("story", maintain_order=True).agg(numbers, characters=pl.len())
        count = stories.height
        for metric, of in _DENOMINATORS[step].items():
            scored = stories.select("story", recomputed=(col.matched / col(of)).fill_nan(None))
            mean, differing = _compare_typed(typed.filter(step=step, metric=metric), scored)
            wrong += differing
            scores = scored["recomputed"]
            figures.append(
                _ratio(step, f"{metric} (macro)", scores.fill_null(0.0), scores.is_not_null())
                | {"typed": mean}
            )
            figures.append(_ratio(step, f"{metric} (micro)", stories["matched"], stories[of]))
        figures += [
            _figure(step, "phrases", float(stories["found"].sum()), count, "stories"),
            _ratio(step, "phrases per story", stories["found"], Series([1.0] * count), None),
            _ratio(step, "phrases per character", stories["found"], stories["characters"], None),
            _figure(
                step, "unique phrases", mine["found"].explode().drop_nulls().n_unique(), count, "stories"
            ),
        ]
    return figures, wrong


def _compare_typed(typed: DataFrame, scored: DataFrame) -> tuple[float | None, Rows]:
    """Return the mean of the recorded scores of a metric, and those that differ from the recomputed scores."""
    both = beside(typed, scored, "story").drop("story")
    digits = both["typed"].str.extract(r"\.(.*)").str.len_chars().fill_null(0)
    both = both.with_columns(col.typed.cast(Float64))
    # A recorded number is rounded to its digits; a bare 0 or 1 must be exact.
    slack = when(digits > 1).then(0.5 / 10.0**digits + 1e-12).otherwise(1e-9)
    is_rounded = (col.typed - col.recomputed).abs() <= slack
    mean: float | None = both.select(col.typed.mean()).item()
    return mean, both.filter(~is_rounded.fill_null(False)).to_dicts()


def _ratio(
    step: str, metric: str, part: Series, whole: Series, bounds: tuple[float, float] | None = (0.0, 1.0)
) -> dict[str, Any]:
    """Compute the ratio of two sums over stories, with an interval by resampling stories.

    `bounds` is its range.
    """
    columns = np.column_stack([part, whole]).astype(np.float64)
    estimate = float(stats.ratio(*columns.sum(axis=0)))
    totals = stats.resampled_totals(columns, resamples=RESAMPLES, seed=SEED)
    ends = _percentiles(estimate, stats.ratio(*totals.T), int((columns[:, 1] > 0).sum()), bounds)
    return _figure(step, metric, estimate, len(part), "stories", ends, _BOOTSTRAP + "stories")


# -- decisions --------------------------------------------------------------------------------------------------------


def _read_decisions(sheet: UserTable, concept: str, truth: str, found: str) -> DataFrame:
    """Return ROW, `concept`, `truth`, `found` and `right`, the recorded correctness of the decision (here null)."""
    sheet.demand((concept, truth, found))
    words = col(truth, found).str.strip_chars().str.to_lowercase()
    answers = sheet.rows.select(words.replace_strict(_ANSWERS, default=None, return_dtype=Boolean))
    for answer in answers:
        sheet.refuse(answer.is_null(), answer.name, "is neither yes nor no")
    concepts = col(concept).str.strip_chars()
    return sheet.rows.select(
        ROW, concept=concepts, truth=answers[truth], found=answers[found], right=lit(None, Boolean)
    )


def _read_released_decisions(sheet: UserTable) -> DataFrame:
    """Return the decisions of a released sheet with their recorded correctness.

    The last row contains only its sum.
    """
    sheet.demand(("phrase", "gt", "filter_res"))
    rows = sheet.only(col.phrase.str.strip_chars() != "")
    if rows.rows.is_empty():
        raise InputError(f"{sheet.place} contains no decisions: column 'phrase' is empty in every row")
    decisions = _read_decisions(rows, "phrase", "gt", "filter_res")
    if "RES" not in rows.rows.columns:
        return decisions
    return decisions.with_columns(right=rows.numbers("RES", low=0, high=1, whole=True).cast(Boolean))


def _figures_of_decisions(decisions: DataFrame) -> tuple[Rows, Rows]:
    """Compute figures of binary decisions: proportions with Wilson intervals, and kappa.

    Also return errors in the recorded tally.
    """
    outcomes = stats.decision_outcomes(decisions["truth"].to_numpy(), decisions["found"].to_numpy())
    counts, n = outcomes.sum(axis=0), len(outcomes)
    tp, fn, fp, tn = counts.tolist()
    shares = {
        "accuracy": (tp + tn, n),
        "precision": (tp, tp + fp),
        "recall": (tp, tp + fn),
        "accuracy of always no": (fp + tn, n),
    }
    figures = [
        _figure(
            "exclusivity",
            metric,
            right / of if of else None,
            of,
            "decisions",
            stats.wilson_interval(right, of, CONFIDENCE),
            _WILSON,
        )
        for metric, (right, of) in shares.items()
    ]
    figures[0]["typed"] = decisions["right"].mean()
    kappa = float(stats.cohen_kappa(counts))
    samples = stats.cohen_kappa(stats.resampled_totals(outcomes, resamples=RESAMPLES, seed=SEED))
    ends = _percentiles(kappa, samples, n, (-1.0, 1.0))
    figures.append(
        _figure("exclusivity", "Cohen's kappa", kappa, n, "decisions", ends, _BOOTSTRAP + "decisions")
    )
    figures += [
        _figure("exclusivity", name, count, n, "decisions")
        for name, count in zip(_OUTCOMES, counts, strict=True)
    ]
    named = decisions.select(
        ROW,
        about="concept",
        step=lit("exclusivity"),
        metric=lit("decision right"),
        typed=col.right.cast(Float64),
        recomputed=(col.truth == col.found).cast(Float64),
    )
    return figures, named.filter(col.typed != col.recomputed).to_dicts()


# -- clusters ---------------------------------------------------------------------------------------------------------


def _read_clusters(sheet: UserTable, concepts: Path | None) -> DataFrame:
    """Return `phrase`, `gold` and `concept` (from the table `concepts` of a run, if given)."""
    sheet.demand(("phrase", "gold"))
    if concepts is not None:
        named = read_user_table(concepts)
        named.demand(("phrase", "concept"))
        named.refuse_repeats(["phrase"])
        sheet = UserTable(
            sheet.place,
            beside(
                sheet.rows.drop("concept", strict=False), named.rows.select("phrase", "concept"), "phrase"
            ),
        )
        sheet.refuse(col.concept.is_null(), "phrase", f"is not a phrase of {concepts}")
    elif "concept" not in sheet.rows.columns:
        raise InputError(
            f"{sheet.place} has no column 'concept': add the concept of each phrase, or give the table of a run with --concepts FILE"
        )
    sheet.refuse_repeats(["phrase"])
    sheet.refuse_empty(("phrase", "gold", "concept"))
    return sheet.rows


def _figures_of_clusters(clusters: DataFrame) -> Rows:
    """Compare concepts with gold clusters, with jackknife intervals over gold clusters.

    A bootstrap would draw phrases twice, and copies of a phrase always agree. The jackknife leaves out gold
    clusters (groups of them if there are very many), because the phrases of a cluster are dependent.
    """
    gold, found = (
        clusters[name].rank("dense").to_numpy().astype(np.int64) - 1 for name in ("gold", "concept")
    )
    known = int(gold.max()) + 1
    groups = min(known, JACKKNIFE_GROUPS)
    figures = [
        _figure("unifying", name, value, known, "gold clusters")
        for name, value in _agreement(gold, found).items()
    ]
    if groups > 1:
        parts = [
            _agreement(gold[kept], found[kept])
            for kept in (gold % groups != group for group in range(groups))
        ]
        for figure in figures:
            low, high = _jackknife(
                figure["estimate"], np.array([part[figure["metric"]] for part in parts]), known
            )
            figure |= {
                "low": low,
                "high": high,
                "interval": f"jackknife over {groups:,} groups of gold clusters",
            }
    sizes = {"phrases": clusters.height, "concepts": clusters["concept"].n_unique()}
    return figures + [_figure("unifying", name, size, known, "gold clusters") for name, size in sizes.items()]


def _agreement(gold: Integers, found: Integers) -> dict[str, float]:
    names = ("homogeneity", "completeness", "v_measure", "b_cubed_precision", "b_cubed_recall", "b_cubed_f")
    return dict(zip(names, (*stats.v_measure(gold, found), *stats.b_cubed(gold, found)), strict=True))


def _jackknife(estimate: float, left: Floats, n: int) -> tuple[float, float]:
    """Return the normal interval within [0, 1] from the estimates with each group left out."""
    if stats.is_constant(left):
        return stats.rare_event_interval(estimate, n, 0.0, 1.0, CONFIDENCE)
    half = stats.half_width(float((left.var() * (left.size - 1)) ** 0.5), CONFIDENCE)
    return max(0.0, estimate - half), min(1.0, estimate + half)


def _typed_clusters(totals: UserTable) -> Rows:
    """Return the recorded clustering figures.

    Only V can be recomputed without the clusters, from the other two.

    The numbers are in the row below a row of words such as "homogeneity".
    """
    values: dict[str, float] = {}
    texts = totals.rows.select(ROW, col(String).str.strip_chars())
    for words, below in pairwise(texts.iter_rows(named=True)):
        for column, word in words.items():
            if column != ROW and word.lower() in _RELEASED_TOTALS and below[column]:
                typed = totals.only(col(ROW) == below[ROW]).numbers(column, low=0, high=1)
                values[_RELEASED_TOTALS[word.lower()]] = typed.item()
    unknown = _figure(
        "unifying", "", None, 0, "gold clusters", interval="none: the sample does not contain the clusters"
    )
    figures = {metric: unknown | {"metric": metric, "typed": value} for metric, value in values.items()}
    h, c = values.get("homogeneity"), values.get("completeness")
    if h and c and "v_measure" in figures:
        figures["v_measure"] |= {
            "estimate": 2 * h * c / (h + c),
            "interval": "none: from the recorded homogeneity and completeness",
        }
    return list(figures.values())
