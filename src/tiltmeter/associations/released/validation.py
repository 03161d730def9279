"""Validation of the judge steps from a sample that people annotated: how right extraction, decomposition, unifying and filter are.

A phrase counts as right if the corrected list of the same character of the same story holds the same words; case and white space
do not matter, and a phrase counts once in a list. Recall is the share of the corrected phrases that the judge listed, precision
(after decomposition: accuracy) the share of the judge's phrases that the corrected list keeps. Macro means are over stories, micro
figures over all phrases. Scores typed into a sheet are shown beside, and every one that differs from the recomputed one is listed.
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
from tiltmeter.associations.released.published import ROW, Sheet, read_sheet
from tiltmeter.errors import InputError
from tiltmeter.study import beside

CONFIDENCE = 0.95
RESAMPLES = 2_000
SEED = 123
JACKKNIFE_GROUPS = 200

FIGURES = {
    "step": String,  # "extraction", "decomposition", "unifying" or "exclusivity"
    "metric": String,
    "estimate": Float64,  # recomputed; null where the sample does not allow it
    "low": Float64,  # null: a plain count, or nothing to resample
    "high": Float64,
    "n": Int64,  # units the figure rests on
    "units": String,  # what they are: "stories", "decisions", "gold clusters"
    "interval": String,  # how the interval was made, and what was resampled
    "typed": Float64,  # the figure by the scores typed into the sheet
}
DISAGREEMENTS = {
    "row": Int64,  # of the sheet, its header being row 1
    "about": String,  # the concept decided on; null for a story or the whole sample
    "step": String,
    "metric": String,
    "typed": Float64,
    "recomputed": Float64,
}

_OWN_LISTS = {"extraction": ("found", "truth"), "decomposition": ("decomposed", "decomposed_truth")}
"""Step -> columns of the judge's lists and the corrected ones."""
_RELEASED_LISTS = {"extraction": ("1_summ", "1_ans"), "decomposition": ("2_summ_combine", "2_ans")}
_RELEASED_SCORES = {
    "recall_1": ("extraction", "recall"),
    "precision_1": ("extraction", "precision"),
    "accuracy_2": ("decomposition", "accuracy"),
}
_RELEASED_TOTALS = {"homogeneity": "homogeneity", "completeness": "completeness", "v-measure": "v_measure"}
_DENOMINATORS = {"extraction": {"recall": "truth", "precision": "found"}, "decomposition": {"accuracy": "found"}}
_TYPED = {"row": pl.UInt32, "story": String, "step": String, "metric": String, "typed": String}
"""Scores typed beside the stories, as they are written there."""
_ANSWERS = {"yes": True, "true": True, "no": False, "false": False}
_OUTCOMES = ("true positives", "false negatives", "false positives", "true negatives")
_WILSON = "Wilson, decisions independent"
_BOOTSTRAP = f"bootstrap percentiles, {RESAMPLES:,} resamples of "

Rows = list[dict[str, Any]]


class Validation(NamedTuple):
    """What a sample shows."""

    figures: DataFrame
    """Columns FIGURES."""
    disagreements: DataFrame
    """Columns DISAGREEMENTS: what was typed and is not what the sheet's own rows give."""


def validate(path: Path, *, concepts: Path | None = None) -> Validation:
    """Figures of an annotated sample, each with its interval, and the typed scores that differ from them.

    The kind of a sample is known by its columns. Released sheets: `1_summ`, `2_summ_combine`, `1_ans`, `2_ans` (lists before and after
    decomposition, by the judge and corrected; a line a character, "name: phrase; phrase") with typed scores; or `gt`, `filter_res`
    (YES or NO) with the typed tally `RES`. Our own tables: `story`, `character` with `found`, `truth` or `decomposed`,
    `decomposed_truth` or all four (a list, or text with ";" between phrases); `concept`, `truth`, `found` (yes or no); `phrase`, `gold`
    and `concept`.

    Parameters
    ----------
    concepts
        A run's table of phrases and concepts, for a sample of gold clusters that does not hold them.

    Raises
    ------
    InputError
        The columns are none of these, or a value cannot be read; file, row and column are named.
    """
    sheet = read_sheet(path)
    columns = set(sheet.rows.columns)
    if concepts is not None and "gold" not in columns:
        raise InputError(f"--concepts goes with a sample of phrases and gold clusters, which {path} is not")
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
            f"{path} is no annotated sample: give the columns story, character, found, truth (lists), "
            "or concept, truth, found (yes or no), or phrase, gold, concept (clusters)"
        )
    shown = DataFrame(figures, schema=FIGURES, strict=False).with_columns(col(Float64).fill_nan(None))
    return Validation(shown, DataFrame(disagreements, schema=DISAGREEMENTS))


def _figure(
    step: str,
    metric: str,
    estimate: float | None,
    n: float,
    units: str,
    ends: Sequence[Any] = (math.nan, math.nan),
    interval: str = "none: a count of this sample",
) -> dict[str, Any]:
    known = {"step": step, "metric": metric, "estimate": estimate, "n": n, "units": units, "interval": interval}
    return known | dict(zip(("low", "high"), map(float, ends), strict=True))


def _percentiles(estimate: float, samples: Floats, n: int, bounds: tuple[float, float] | None) -> stats.Interval:
    """Percentiles of the resamples; where all of them agree, how many of the units may yet behave otherwise."""
    if bounds is not None and stats.is_constant(samples):
        return stats.rare_event_interval(estimate, n, *bounds, CONFIDENCE)
    return stats.percentile_interval(samples, CONFIDENCE)


# -- lists ------------------------------------------------------------------------------------------------------------


def _read_own_lists(sheet: Sheet) -> DataFrame:
    """`row`, `story`, `character`, `step`, `found` and `truth`: one row per step, story and character."""
    sheet.demand(("story", "character"))
    sheet.refuse_repeats(["story", "character"])
    steps = {step: pair for step, pair in _OWN_LISTS.items() if set(pair) & set(sheet.rows.columns)}
    for pair in steps.values() or [_OWN_LISTS["extraction"]]:
        sheet.demand(pair, lists=True)
    parts = [
        sheet.rows.select(ROW, "story", "character", step=lit(step), found=_phrases(sheet, found), truth=_phrases(sheet, truth))
        for step, (found, truth) in steps.items()
    ]
    return pl.concat(parts)


def _phrases(sheet: Sheet, column: str) -> Expr:
    """Phrases of a column of lists, or of texts with ";" between phrases: trimmed, without empty ones."""
    kind = sheet.rows.schema[column]
    if kind == String:
        return _trimmed(col(column).str.split(";"))
    if isinstance(kind, pl.List) and kind.inner in (String, pl.Null):
        return _trimmed(col(column).cast(pl.List(String)).fill_null([]))
    raise InputError(f"{sheet.path}, column {column!r} holds neither text nor lists of text")


def _trimmed(phrases: Expr) -> Expr:
    trimmed = phrases.list.eval(pl.element().str.replace_all(r"\s+", " ").str.strip_chars())
    return trimmed.list.eval(pl.element().filter(pl.element() != ""))


def _read_stories(sheet: Sheet) -> tuple[Sheet, Sheet]:
    """The annotated stories, which end at the first row without a prompt, and the rows of totals below."""
    sheet.demand(("prompt", *(name for pair in _RELEASED_LISTS.values() for name in pair), *_RELEASED_SCORES))
    ended = (sheet.rows["prompt"].str.strip_chars() == "").cum_max()
    sheet.refuse(ended & (pl.int_range(pl.len()) == 0), "prompt", "is empty: the stories come first")
    return Sheet(sheet.path, sheet.rows.filter(~ended).with_columns(story=pl.format("row {}", ROW))), sheet.only(ended)


def _read_released_lists(stories: Sheet) -> DataFrame:
    """Lists as from `_read_own_lists`."""
    lists = [
        _read_lines(stories, column).with_columns(step=lit(step), kind=lit(kind))
        for step, pair in _RELEASED_LISTS.items()
        for kind, column in zip(("found", "truth"), pair, strict=True)
    ]
    both = {kind: col.phrases.filter(col.kind == kind).first().fill_null([]) for kind in ("found", "truth")}
    return pl.concat(lists).group_by("row", "story", "character", "step", maintain_order=True).agg(**both)


def _read_lines(stories: Sheet, column: str) -> DataFrame:
    """One row per line "name: phrase; phrase" of `column`: row, story, character and the phrases."""
    lines = stories.rows.select(ROW, "story", col(column).str.split("\n")).explode(column)
    lines = lines.with_columns(col(column).str.strip_chars()).filter(col(column) != "")
    Sheet(stories.path, lines).refuse(~col(column).str.contains(":", literal=True), column, "names no character before a colon")
    parts = col(column).str.splitn(":", 2)
    lines = lines.with_columns(character=parts.struct.field("field_0").str.strip_chars())
    Sheet(stories.path, lines).refuse(~pl.struct(ROW, "character").is_first_distinct(), column, "is a second list of the character")
    return lines.select(ROW, "story", "character", phrases=_trimmed(parts.struct.field("field_1").str.split(";")))


def _read_scores(stories: Sheet) -> DataFrame:
    """Typed scores of every story."""
    for column in _RELEASED_SCORES:
        stories.numbers(column, low=0, high=1)
    return pl.concat(
        stories.rows.select(ROW, "story", step=lit(step), metric=lit(metric), typed=col(column).str.strip_chars())
        for column, (step, metric) in _RELEASED_SCORES.items()
    )


def _figures_of_lists(lists: DataFrame, typed: DataFrame) -> tuple[Rows, Rows]:
    """Figures of each step, from the numbers of matched, found and true phrases of each story; and typed scores that differ."""
    figures: Rows = []
    wrong: Rows = []
    lowered = lists.with_columns(col("found", "truth").list.eval(pl.element().str.to_lowercase()).list.unique())
    lowered = lowered.with_columns(matched=col.found.list.set_intersection("truth"))
    for (step,), mine in lowered.group_by("step", maintain_order=True):
        numbers = col("matched", "found", "truth").list.len().sum()
        stories = mine.group_by("story", maintain_order=True).agg(numbers, characters=pl.len())
        count = stories.height
        for metric, of in _DENOMINATORS[step].items():
            scored = stories.select("story", score=when(col(of) > 0).then(col.matched / col(of)))
            mean, differing = _compare_typed(typed.filter(step=step, metric=metric), scored)
            wrong += differing
            scores = scored["score"]
            figures.append(_ratio(step, f"{metric} (macro)", scores.fill_null(0.0), scores.is_not_null()) | {"typed": mean})
            figures.append(_ratio(step, f"{metric} (micro)", stories["matched"], stories[of]))
        figures += [
            _figure(step, "phrases", float(stories["found"].sum()), count, "stories"),
            _ratio(step, "phrases per story", stories["found"], Series([1.0] * count), None),
            _ratio(step, "phrases per character", stories["found"], stories["characters"], None),
            _figure(step, "unique phrases", mine["found"].explode().drop_nulls().n_unique(), count, "stories"),
        ]
    return figures, wrong


def _compare_typed(typed: DataFrame, scored: DataFrame) -> tuple[float | None, Rows]:
    """Mean of the typed scores of a metric, and those that are not the recomputed ones."""
    both = beside(typed, scored, "story").rename({"score": "recomputed"}).drop("story")
    digits = both["typed"].str.extract(r"\.(.*)").str.len_chars().fill_null(0)
    both = both.with_columns(col.typed.cast(Float64))
    # A typed number is rounded to the digits typed; a bare 0 or 1 must be exact.
    slack = when(digits > 1).then(0.5 / 10.0**digits + 1e-12).otherwise(1e-9)
    is_rounded = (col.typed - col.recomputed).abs() <= slack
    mean: float | None = both.select(col.typed.mean()).item()
    return mean, both.filter(~is_rounded.fill_null(False)).to_dicts()


def _ratio(step: str, metric: str, part: Series, whole: Series, bounds: tuple[float, float] | None = (0.0, 1.0)) -> dict[str, Any]:
    """Ratio of two sums over stories, its interval by resampling stories; `bounds` are its possible values."""
    columns = np.column_stack([part.to_numpy(), whole.to_numpy()]).astype(np.float64)
    estimate = float(stats.ratio(*columns.sum(axis=0)))
    totals = stats.resampled_totals(columns, resamples=RESAMPLES, seed=SEED)
    ends = _percentiles(estimate, stats.ratio(totals[:, 0], totals[:, 1]), int((columns[:, 1] > 0).sum()), bounds)
    return _figure(step, metric, estimate, len(part), "stories", ends, _BOOTSTRAP + "stories")


# -- decisions --------------------------------------------------------------------------------------------------------


def _read_decisions(sheet: Sheet, concept: str, truth: str, found: str) -> DataFrame:
    """`row`, `concept`, `truth`, `found`, and `right`: what the sheet says of the decision (null: nothing)."""
    sheet.demand((concept, truth, found))
    answers = []
    for column in (truth, found):
        said = sheet.rows[column].str.strip_chars().str.to_lowercase()
        answers.append(said.replace_strict(_ANSWERS, default=None, return_dtype=Boolean))
        sheet.refuse(answers[-1].is_null(), column, "is neither yes nor no")
    concepts = col(concept).str.strip_chars()
    return sheet.rows.select(ROW, concept=concepts, truth=answers[0], found=answers[1], right=lit(None, Boolean))


def _read_released_decisions(sheet: Sheet) -> DataFrame:
    """Decisions with their tally; the last row of the sheet has nothing but its sum."""
    sheet.demand(("phrase", "gt", "filter_res"))
    rows = sheet.only(col.phrase.str.strip_chars() != "")
    if rows.rows.is_empty():
        raise InputError(f"{sheet.path} holds no decision: column 'phrase' is empty in every row")
    decisions = _read_decisions(rows, "phrase", "gt", "filter_res")
    if "RES" not in rows.rows.columns:
        return decisions
    return decisions.with_columns(right=rows.numbers("RES", low=0, high=1, whole=True).cast(Boolean))


def _figures_of_decisions(decisions: DataFrame) -> tuple[Rows, Rows]:
    """Figures of yes-or-no decisions: proportions with Wilson's interval, kappa by resampling decisions; and a wrong tally."""
    outcomes = stats.decision_outcomes(decisions["truth"].to_numpy(), decisions["found"].to_numpy())
    counts, n = outcomes.sum(axis=0), len(outcomes)
    tp, fn, fp, tn = counts.tolist()
    shares = {"accuracy": (tp + tn, n), "precision": (tp, tp + fp), "recall": (tp, tp + fn), "accuracy of always no": (fp + tn, n)}
    figures = [
        _figure("exclusivity", metric, right / of if of else None, of, "decisions", stats.wilson_interval(right, of, CONFIDENCE), _WILSON)
        for metric, (right, of) in shares.items()
    ]
    figures[0]["typed"] = decisions["right"].mean()
    kappa = float(stats.cohen_kappa(counts))
    samples = stats.cohen_kappa(stats.resampled_totals(outcomes, resamples=RESAMPLES, seed=SEED))
    ends = _percentiles(kappa, samples, n, (-1.0, 1.0))
    figures.append(_figure("exclusivity", "Cohen's kappa", kappa, n, "decisions", ends, _BOOTSTRAP + "decisions"))
    figures += [_figure("exclusivity", name, count, n, "decisions") for name, count in zip(_OUTCOMES, counts, strict=True)]
    wrong = decisions.filter(col.right != (col.truth == col.found))
    named = wrong.select(
        ROW,
        about="concept",
        step=lit("exclusivity"),
        metric=lit("decision right"),
        typed=col.right.cast(Float64),
        recomputed=(~col.right).cast(Float64),
    )
    return figures, named.to_dicts()


# -- clusters ---------------------------------------------------------------------------------------------------------


def _read_clusters(sheet: Sheet, concepts: Path | None) -> DataFrame:
    """`phrase`, `gold` and `concept` (of the table `concepts` of a run, where one is given)."""
    sheet.demand(("phrase", "gold"))
    if concepts is not None:
        named = read_sheet(concepts)
        named.demand(("phrase", "concept"))
        named.refuse_repeats(["phrase"])
        table = sheet.rows.drop("concept", strict=False)
        sheet = Sheet(sheet.path, beside(table, named.rows.select("phrase", "concept"), "phrase"))
        sheet.refuse(col.concept.is_null(), "phrase", f"is no phrase of {concepts}")
    elif "concept" not in sheet.rows.columns:
        raise InputError(
            f"{sheet.path} has no column 'concept': add the concept each phrase was given, or give a run's table with --concepts FILE"
        )
    sheet.refuse_repeats(["phrase"])
    sheet.refuse_empty(("phrase", "gold", "concept"))
    return sheet.rows


def _figures_of_clusters(clusters: DataFrame) -> Rows:
    """Figures of unifying against gold clusters; intervals by leaving gold clusters out.

    A bootstrap would draw phrases twice, and copies of one phrase always agree: hence the jackknife, over gold clusters because
    the phrases of one rise and fall together (over groups of them where there are very many).
    """
    gold = clusters["gold"].rank("dense").to_numpy().astype(np.int64) - 1
    found = clusters["concept"].rank("dense").to_numpy().astype(np.int64)
    known = int(gold.max()) + 1
    groups = min(known, JACKKNIFE_GROUPS)
    figures = [_figure("unifying", name, value, known, "gold clusters") for name, value in _agreement(gold, found).items()]
    if groups > 1:
        parts = [_agreement(gold[kept], found[kept]) for kept in (gold % groups != group for group in range(groups))]
        for figure in figures:
            low, high = _jackknife(figure["estimate"], np.array([part[figure["metric"]] for part in parts]), known)
            how = f"jackknife, {groups:,} groups of gold clusters left out in turn"
            figure |= {"low": low, "high": high, "interval": how}
    sizes = {"phrases": clusters.height, "concepts": clusters["concept"].n_unique()}
    return figures + [_figure("unifying", name, size, known, "gold clusters") for name, size in sizes.items()]


def _agreement(gold: Integers, found: Integers) -> dict[str, float]:
    names = ("homogeneity", "completeness", "v_measure", "b_cubed_precision", "b_cubed_recall", "b_cubed_f")
    return dict(zip(names, (*stats.v_measure(gold, found), *stats.b_cubed(gold, found)), strict=True))


def _jackknife(estimate: float, left: Floats, n: int) -> tuple[float, float]:
    """Normal interval within [0, 1] from the values with each group left out."""
    if stats.is_constant(left):
        return stats.rare_event_interval(estimate, n, 0.0, 1.0, CONFIDENCE)
    half = stats.half_width(float((left.var() * (left.size - 1)) ** 0.5), CONFIDENCE)
    return max(0.0, estimate - half), min(1.0, estimate + half)


def _typed_clusters(totals: Sheet) -> Rows:
    """Typed figures of unifying: without the clusters they cannot be recomputed, but V follows from the other two.

    A row of words such as "homogeneity" has its numbers in the row below.
    """
    values: dict[str, float] = {}
    texts = totals.rows.select(ROW, col(String).str.strip_chars())
    for words, below in pairwise(texts.iter_rows(named=True)):
        for column, word in words.items():
            if column != ROW and word.lower() in _RELEASED_TOTALS and below[column]:
                typed = totals.only(col(ROW) == below[ROW]).numbers(column, low=0, high=1)
                values[_RELEASED_TOTALS[word.lower()]] = typed.item()
    unknown = _figure("unifying", "", None, 0, "gold clusters", interval="none: the sample does not hold the clusters")
    figures = {metric: unknown | {"metric": metric, "typed": value} for metric, value in values.items()}
    h, c = values.get("homogeneity"), values.get("completeness")
    if h and c and "v_measure" in figures:
        figures["v_measure"] |= {"estimate": 2 * h * c / (h + c), "interval": "none: from the typed homogeneity and completeness"}
    return list(figures.values())
