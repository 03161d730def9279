"""Counterfactual measures of answers to prompts that differ in the group only: sentiment parity, cosine, BLEU and ROUGE-L.

For each prompt, answer i about one group is paired with answer i about the other. Each statistic of these
pairs is computed for the data, for bootstrap resamples of prompts, and with the two groups exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import DataFrame, Float64, Int64, Series, String, col

from tiltmeter.arrays import Floats, Index
from tiltmeter.benchmarks.inference import (
    ONE_PROMPT,
    Bounds,
    Inference,
    check_columns,
    check_resampling,
    exchange_draws,
    infer_distance,
    infer_mean_distance,
    infer_smooth,
    resampled,
    results_table,
    toxicity,
    unit_scores,
)
from tiltmeter.benchmarks.word_company import cooccurrence_bias, default_words, stereotypical_associations
from tiltmeter.errors import InputError
from tiltmeter.schema import q_values
from tiltmeter.stats import ratio

if TYPE_CHECKING:
    from tiltmeter.models import Encoder

__all__ = ["cooccurrence_bias", "counterfactual", "default_words", "stereotypical_associations", "toxicity"]


BLOCK_CELLS = 200_000
"""Scores of resamples processed at a time, so that they fit in the processor's cache."""
MASKED = "the words of the groups were masked"
NO_PAIR = "no prompt has answers about both groups"
ALL_MISSING = "a score or text is missing in every pair"
NO_TEST = "no test: only one answer per prompt and group"
ALL_EQUAL = "all scores are equal"


class _Answers(NamedTuple):
    """The answers of all prompts."""

    groups: list[str]
    rows: DataFrame
    """`row` of the table, `unit` (number of the prompt), `group` (number) and `k`, the number of the answer
    within prompt and group."""
    units: int
    most: int
    """K, the largest number of answers to a prompt about one group."""


class _Pairs(NamedTuple):
    """n pairs of answers about two groups, ordered by prompt and answer."""

    groups: tuple[int, int]
    cell: Index
    """(n,) number of the prompt * K + number of the answer."""
    first: Series
    """(n,) row of the answer about the first group."""
    second: Series
    unpaired: int
    """Number of answers about either group without a partner."""


class _Scored(NamedTuple):
    """Scores of n > 0 complete pairs, ordered by prompt."""

    cell: Index
    a: Floats
    b: Floats
    threshold: float
    units: int
    answers: int

    @property
    def unit(self) -> Index:
        """Prompt of each pair, shape (n,)."""
        return self.cell // self.answers


class _PromptMean:
    """Mean over pairs of a value that does not change when the groups are exchanged."""

    def __init__(self, unit: NDArray[np.integer[Any]], values: Floats, units: int) -> None:
        self.value = float(ratio(values.sum(), len(values)))
        self._total = np.bincount(unit, weights=values, minlength=units).astype(np.float64)
        self._count = np.bincount(unit, minlength=units).astype(np.float64)

    def resampled(self, weights: Floats) -> Floats:
        """Compute the statistic with the prompt weights in each row of `weights` (R, U)."""
        return ratio(weights @ self._total, weights @ self._count)

    def exchanged(self, signs: Floats) -> Floats:
        """Compute the statistic after exchanging the pairs with sign -1 in `signs` (D, U, K).

        Empty if it cannot change.
        """
        return np.empty(0)


class _ShareDifference(_PromptMean):
    """Share of scores above the threshold, first side minus second; whole prompts are exchanged."""

    def __init__(self, scored: _Scored) -> None:
        above = (side > scored.threshold for side in (scored.a, scored.b))
        super().__init__(scored.unit, np.subtract(*above, dtype=np.float64), scored.units)

    def exchanged(self, signs: Floats) -> Floats:
        """See _PromptMean."""
        found: Floats = signs[:, :, 0] @ self._total / self._count.sum()
        return found


class _DistanceByPrompt(_PromptMean):
    """Mean over prompts of the Wasserstein-1 distance between the scores of both sides.

    Answers are exchanged within pairs.
    """

    def __init__(self, scored: _Scored) -> None:
        units, segment = np.unique(scored.unit, return_inverse=True)
        self._ladder = _Ladder(scored, segment, scored.cell)
        own = np.bincount(segment[self._ladder.pair], weights=self._ladder.area).astype(np.float64)
        super().__init__(units, own, scored.units)
        self._prompts = len(units)
        self._changes = bool(
            np.bincount(segment).max() > 1
        )  # exchanging the only pair of a prompt has no effect

    def exchanged(self, signs: Floats) -> Floats:
        """See _PromptMean."""
        return (
            self._ladder.distances(signs.reshape(len(signs), -1)) / self._prompts
            if self._changes
            else np.empty(0)
        )


class _DistanceOfAll:
    """Wasserstein-1 distance between all scores of both sides; whole prompts are exchanged."""

    def __init__(self, scored: _Scored) -> None:
        self._pairs = len(scored.unit)
        self._ladder = _Ladder(scored, np.zeros(self._pairs, dtype=np.intp), scored.unit)
        self._count = np.bincount(scored.unit, minlength=scored.units).astype(np.float64)
        self.value = float(self._ladder.area.sum())

    def resampled(self, weights: Floats) -> Floats:
        """See _PromptMean."""
        # The steps are divided by n; the number of pairs in a resample is the sum of its weights.
        return ratio(self._ladder.distances(weights) * self._pairs, weights @ self._count)

    def exchanged(self, signs: Floats) -> Floats:
        """See _PromptMean."""
        return self._ladder.distances(signs[:, :, 0])


class _Ladder:
    """Scores of several comparisons in ascending order, one comparison after the other.

    The Wasserstein-1 distance is the area between two distribution functions: the sum over steps between
    neighbouring scores of the step times the absolute difference between the numbers of scores of both sides
    below it. Both sides of a comparison have the same number of scores, so the running difference is 0
    between comparisons.
    """

    def __init__(self, scored: _Scored, segment: Index, at: Index) -> None:
        """Sort the scores.

        `segment` (n,) is the comparison of each pair, ascending from 0; `at` (n,) is its column of the
        weights.
        """
        n = len(segment)
        values, side, pair = (
            np.concatenate([scored.a, scored.b]),
            np.repeat([1.0, -1.0], n),
            np.tile(np.arange(n), 2),
        )
        order = np.lexsort((values, segment[pair]))
        ordered, of = values[order], segment[pair[order]]
        step = np.append(np.where(of[1:] == of[:-1], np.diff(ordered), 0.0), 0.0)
        self.pair: Index = pair[order]
        self._at: Index = at[self.pair]
        self._side: Floats = side[order]
        self._step: Floats = step / np.bincount(segment)[of]

    @property
    def area(self) -> Floats:
        """Contribution of each step to the distance of its comparison, shape (2n,)."""
        return np.asarray(np.abs(np.cumsum(self._side)) * self._step)

    def distances(self, weights: Floats) -> Floats:
        """Sum the distances of all comparisons, (R, m) -> (R,).

        A score with negative weight counts for the other side.
        """
        wide = max(1, BLOCK_CELLS // len(self._at))
        found = np.empty(len(weights))
        for begin in range(0, len(weights), wide):
            # One column per draw, so that whole rows are gathered.
            running = np.ascontiguousarray(weights[begin : begin + wide].T)[self._at]
            running *= self._side[:, None]
            np.cumsum(running, axis=0, out=running)
            found[begin : begin + wide] = self._step @ np.abs(running, out=running)
        return found


_PairStatistic = _PromptMean | _DistanceOfAll


class _Metric(NamedTuple):
    """One metric: its definition, its inference function, its bounds, and, for sentiment metrics, the statistic of scores."""

    definition: str
    infer: Callable[[float, Floats, Floats, int, float, Bounds], Inference] = infer_smooth
    bounds: Bounds = (0.0, 1.0)
    of_scores: Callable[[_Scored], _PairStatistic] | None = None


METRICS: Mapping[str, _Metric] = {
    "sentiment_strict": _Metric(
        "Wasserstein-1 distance between the scores of the two groups' answers, all prompts together (Bouchard 2024, as in langfair)",
        infer_distance,
        of_scores=_DistanceOfAll,
    ),
    "sentiment_strict_by_prompt": _Metric(
        "mean over prompts of the Wasserstein-1 distance between the scores of the two groups' answers (Huang et al. 2020)",
        infer_mean_distance,
        of_scores=_DistanceByPrompt,
    ),
    "sentiment_weak": _Metric(
        "share of answers with a score above the threshold, group_a minus group_b (Bouchard 2024, as in langfair)",
        bounds=(-1.0, 1.0),
        of_scores=_ShareDifference,
    ),
    "cosine": _Metric(
        "mean cosine similarity of the sentence embeddings of paired answers (Bouchard 2024, as in langfair)",
        bounds=(-1.0, 1.0),
    ),
    "bleu": _Metric(
        "mean over paired answers of sentence BLEU, the smaller of both directions (Bouchard 2024)"
    ),
    "rouge_l": _Metric("mean over paired answers of the ROUGE-L F1 score (Bouchard 2024, as in langfair)"),
}


class _Compared(NamedTuple):
    """One metric of one pair of groups, before resampling."""

    metric: str
    pairs: _Pairs
    unit: Index
    """(n,) prompts of the complete pairs."""
    statistic: _PairStatistic
    chance: float | None
    """For similarities: similarity of answers about the same group (NaN if unknown). None: chance is the mean
    with exchanged groups."""
    note: str | None


def counterfactual(
    answers: DataFrame,
    *,
    unit: str,
    group: str,
    text: str | None = None,
    score: str | None = None,
    encoder: Encoder | None = None,
    mask: Mapping[str, str] | Sequence[str] | None = None,
    threshold: float = 0.5,
    level: float = 0.95,
    resamples: int = 1000,
    permutations: int = 1000,
    seed: int = 123,
) -> DataFrame:
    """Compare answers to prompts that differ in the group only, for all pairs of groups.

    For each prompt, answer i about one group (in the order of the table) is paired with answer i about the
    other. Pairs with a missing side (no score, no text, a blank text) and answers without a partner are
    excluded and counted.

    Parameters
    ----------
    answers
        One row per answer.
    unit
        Column of the root prompt, which the groups share; the unit of resampling.
    group
        Column of the group.
    text
        Column of the answer, for BLEU and ROUGE-L (extra `benchmarks`) and, with an encoder, cosine. None:
        none of these.
    score
        Column of a sentiment score in [0, 1]; None: no sentiment parity.
    encoder
        Sentence encoder for cosine.
    mask
        Words of the groups that are masked before BLEU and ROUGE-L, or a mapping of words to neutral ones
        (see `features.mask_words`). As published, cosine and sentiment use the unmasked texts.
    threshold
        Scores above it count as positive in weak parity.
    level, resamples, permutations, seed
        Confidence level, number of resamples (of prompts), number of permutations (0: no test) and random
        seed.

    Returns
    -------
    pl.DataFrame
        One row per metric and pair of groups: `metric`, `group_a`, `group_b`, `estimate`, `low`, `high`,
        `level`, `p` and `q` (over the pairs of groups of a metric), `chance`, `n` (pairs of answers),
        `prompts` (with such a pair), `missing` (pairs excluded), `unpaired` (answers without a partner),
        `interval` (method), `definition`, `note`.

        `estimate` is the published statistic. Distances are above 0 by chance: `chance` is the mean with
        exchanged groups, and the interval starts at 0 unless p < 1 - level. For similarities, `chance` is the
        similarity of consecutive answers (i and i + 1) to one prompt about the same group; only an estimate
        below it indicates an effect of the group. Exchanging the sides does not change a similarity, so it
        has no p-value. Null values could not be computed (see `note`).

    Raises
    ------
    InputError
        A column is missing, prompts or groups have null values, there is only one group, a score is outside
        [0, 1], neither text nor score is given, or a setting is not valid.
    ProviderError
        The extra `benchmarks` is not installed and `text` is given.

    References
    ----------
    Bouchard (2024), arXiv 2407.10853; Huang et al. (2020), "Reducing Sentiment Bias in Language Models via
    Counterfactual Evaluation", arXiv 1911.03064.
    """
    check_resampling(level, resamples, permutations)
    check_columns(answers, (unit, group), filter(None, (text, score)))
    if text is None and score is None:
        raise InputError(
            "nothing to compare; give a column of answers (text=...), of sentiment scores (score=...), or both"
        )
    if text is None and encoder is not None:
        raise InputError("an encoder requires answers; give their column (text=...)")
    if not 0.0 <= threshold < 1.0:
        raise InputError(f"threshold must be at least 0 and below 1, not {threshold}")
    asked = _answers_of(answers, unit, group)
    pairs = list(_pairs_of(asked))
    compared: list[_Compared] = []
    if score is not None:
        compared += _sentiment(pairs, asked, unit_scores(answers, score), threshold)
    if text is not None:
        for metric, compare in _similarities(answers[text].cast(String), encoder, mask).items():
            compared += _similarity(
                metric, compare, pairs, asked, MASKED if mask is not None and metric != "cosine" else None
            )
    signs = (
        np.where(draw < 0.5, -1.0, 1.0)
        for draw in exchange_draws(asked.units, asked.most, permutations, seed)
    )
    statistics = [one.statistic for one in compared]
    # All statistics use the same draws, of which one block is held in memory at a time.
    samples = [
        [one.resampled(weights) for one in statistics] for weights in resampled(asked.units, resamples, seed)
    ]
    nulls = [
        [np.empty(0)] * len(statistics),
        *([one.exchanged(draw) for one in statistics] for draw in signs),
    ]
    drawn, exchanged = (
        [np.concatenate(parts) for parts in zip(*blocks, strict=True)] for blocks in (samples, nulls)
    )
    table = results_table(
        _result_row(*one, asked.groups, level) for one in zip(compared, drawn, exchanged, strict=True)
    )
    return table.with_columns(q=col.p.map_batches(q_values, return_dtype=Float64).over("metric"))


def _answers_of(answers: DataFrame, unit: str, group: str) -> _Answers:
    """Assign numbers to the prompts, to the groups, and to the answers within both.

    Raises InputError for fewer than two groups.
    """
    groups = answers[group].cast(String).unique(maintain_order=True).to_list()
    if len(groups) < 2:
        found = f"only {groups[0]!r}" if groups else "no rows"
        raise InputError(f"group={group!r}: the column contains {found}; at least two groups are needed")
    rows = answers.select(
        row=pl.int_range(pl.len()),
        unit=col(unit).rank("dense").cast(Int64) - 1,
        group=col(group).cast(String).replace_strict(groups, list(range(len(groups))), return_dtype=Int64),
    ).with_columns(k=pl.int_range(pl.len()).over("unit", "group"))
    return _Answers(groups, rows, rows["unit"].n_unique(), rows["k"].n_unique())


def _pairs_of(answers: _Answers) -> Iterator[_Pairs]:
    """Yield all pairs of groups, in the order in which the groups first appear."""
    by_group = answers.rows.select("row", "group", cell=col.unit * answers.most + col.k).partition_by(
        "group", as_dict=True
    )
    for a, b in combinations(range(len(answers.groups)), 2):
        first, second = by_group[a,], by_group[b,]
        both = first.join(second, on="cell").sort("cell")
        alone = first.height + second.height - 2 * both.height
        yield _Pairs((a, b), both["cell"].to_numpy(), both["row"], both["row_right"], alone)


def _sentiment(pairs: list[_Pairs], asked: _Answers, scores: Floats, threshold: float) -> Iterator[_Compared]:
    for name, metric in METRICS.items():
        if metric.of_scores is None:
            continue
        for pair in pairs:
            a, b = scores[pair.first], scores[pair.second]
            known = ~np.isnan(a) & ~np.isnan(b)
            scored = _Scored(pair.cell[known], a[known], b[known], threshold, asked.units, asked.most)
            equal = bool(known.any()) and np.ptp(np.concatenate([scored.a, scored.b])) == 0.0
            note = (
                ALL_EQUAL
                if equal
                else NO_TEST
                if name == "sentiment_strict_by_prompt" and asked.most == 1
                else None
            )
            yield _Compared(
                name,
                pair,
                scored.unit,
                metric.of_scores(scored) if known.any() else _PromptMean(scored.unit, scored.a, asked.units),
                None,
                note,
            )


_Compare = Callable[[Series, Series], Series]
"""Function from rows of answers and rows of their partners to similarities, null where one is missing."""


def _similarities(
    texts: Series, encoder: Encoder | None, mask: Mapping[str, str] | Sequence[str] | None
) -> dict[str, _Compare]:
    from tiltmeter.features import bleu, cosine, mask_words, rouge_l
    from tiltmeter.features.scoring import number_texts

    found: dict[str, _Compare] = {}
    if encoder is not None:
        distinct, place, _ = number_texts(texts)
        vectors = encoder.encode(distinct) if distinct else np.zeros((0, 1), dtype=np.float32)
        vectors = np.pad(
            vectors, ((0, 1), (0, 0))
        )  # the last row is for missing texts, which have the number -1
        found["cosine"] = lambda first, second: cosine(vectors[place[first]], vectors[place[second]])
    shown = mask_words(texts, mask) if mask is not None else texts
    found["bleu"] = lambda first, second: bleu(shown[first], shown[second])
    found["rouge_l"] = lambda first, second: rouge_l(shown[first], shown[second])
    return found


def _similarity(
    metric: str, compare: _Compare, pairs: list[_Pairs], asked: _Answers, note: str | None
) -> Iterator[_Compared]:
    # All pairs of all groups at once, so that each text is tokenised once and equal pairs are compared once.
    values = compare(
        pl.concat([pair.first for pair in pairs]), pl.concat([pair.second for pair in pairs])
    ).to_numpy()
    # Similarity of consecutive answers to a prompt about one group.
    both = asked.rows.join(asked.rows.with_columns(col.k - 1), on=["unit", "group", "k"], suffix="_b").sort(
        "unit", "group", "k"
    )
    alike = both.with_columns(alike=compare(both["row"], both["row_b"]))
    within = alike.group_by("unit", "group", maintain_order=True).agg(col.alike.mean()).drop_nulls()
    ends = np.cumsum([len(pair.first) for pair in pairs])
    for pair, mine in zip(pairs, np.split(values, ends[:-1]), strict=True):
        known = ~np.isnan(mine)
        unit = pair.cell[known] // asked.most
        # Only prompts with pairs of both groups, so that chance and estimate refer to the same prompts.
        of_both = within.filter(col.unit.is_in(unit.tolist()), col.group.is_in(pair.groups))[
            "alike"
        ].to_numpy()
        chance = float(of_both.mean()) if of_both.size else np.nan
        yield _Compared(metric, pair, unit, _PromptMean(unit, mine[known], asked.units), chance, note)


def _result_row(
    one: _Compared, samples: Floats, null: Floats, groups: list[str], level: float
) -> dict[str, Any]:
    metric, prompts = METRICS[one.metric], len(np.unique(one.unit))
    found = metric.infer(one.statistic.value, samples, null, prompts, level, metric.bounds)
    if one.chance is not None:
        found = found._replace(chance=one.chance)
    note = (
        NO_PAIR
        if not len(one.pairs.first)
        else ALL_MISSING
        if not prompts
        else ONE_PROMPT
        if prompts == 1
        else None
    )
    return {
        "metric": one.metric,
        "group_a": groups[one.pairs.groups[0]],
        "group_b": groups[one.pairs.groups[1]],
        **found._asdict(),
        "level": level,
        "q": None,
        "n": len(one.unit),
        "prompts": prompts,
        "missing": len(one.pairs.first) - len(one.unit),
        "unpaired": one.pairs.unpaired,
        "definition": metric.definition,
        "note": "; ".join(part for part in (note, one.note) if part) or None,
    }
