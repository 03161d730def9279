"""Counterfactual measures of answers to prompts that differ in the group only.

They are sentiment parity, cosine similarity, BLEU and ROUGE-L. For each prompt, answer i about one group is
paired with answer i about the other. Each statistic of these pairs is computed for the data, for bootstrap
resamples of prompts, and with the two groups exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import DataFrame, Float64, Int64, Series, String, col

from tiltmeter._arrays import Floats, Index
from tiltmeter.benchmarks._inference import (
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
from tiltmeter.benchmarks._word_company import cooccurrence_bias, default_words, stereotypical_associations
from tiltmeter.errors import InputError
from tiltmeter.schema import q_values
from tiltmeter.stats import ratio

if TYPE_CHECKING:
    from tiltmeter.models import Encoder

__all__ = ["cooccurrence_bias", "counterfactual", "default_words", "stereotypical_associations", "toxicity"]


BLOCK_CELLS: Final = 200_000
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
    """(n,) number of the prompt * K + number of the answer."""
    first: Floats
    """(n,) scores of the answers about the first group."""
    second: Floats
    threshold: float
    units: int
    answers: int
    """K, the largest number of answers to a prompt about one group."""

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
        first_above = scored.first > scored.threshold
        second_above = scored.second > scored.threshold
        difference = np.subtract(first_above, second_above, dtype=np.float64)
        super().__init__(scored.unit, difference, scored.units)

    def exchanged(self, signs: Floats) -> Floats:
        """See _PromptMean."""
        shares: Floats = signs[:, :, 0] @ self._total / self._count.sum()
        return shares


class _DistanceByPrompt(_PromptMean):
    """Mean over prompts of the Wasserstein-1 distance between the scores of both sides.

    Answers are exchanged within pairs.
    """

    def __init__(self, scored: _Scored) -> None:
        units, segment = np.unique(scored.unit, return_inverse=True)
        self._ladder = _Ladder(scored, segment, scored.cell)
        distances = np.bincount(segment[self._ladder.pair], weights=self._ladder.area)
        super().__init__(units, distances.astype(np.float64), scored.units)
        self._prompts = len(units)
        # Exchanging the only pair of a prompt has no effect.
        self._changes = bool(np.bincount(segment).max() > 1)

    def exchanged(self, signs: Floats) -> Floats:
        """See _PromptMean."""
        if not self._changes:
            return np.empty(0)
        return self._ladder.distances(signs.reshape(len(signs), -1)) / self._prompts


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
        pairs = len(segment)
        scores = np.concatenate([scored.first, scored.second])
        side = np.repeat([1.0, -1.0], pairs)
        pair = np.tile(np.arange(pairs), 2)
        order = np.lexsort((scores, segment[pair]))
        ordered = scores[order]
        segment_of = segment[pair[order]]
        is_within = segment_of[1:] == segment_of[:-1]
        step = np.append(np.where(is_within, np.diff(ordered), 0.0), 0.0)
        self.pair: Index = pair[order]
        self._at: Index = at[self.pair]
        self._side: Floats = side[order]
        self._step: Floats = step / np.bincount(segment)[segment_of]

    @property
    def area(self) -> Floats:
        """Contribution of each step to the distance of its comparison, shape (2n,)."""
        return np.asarray(np.abs(np.cumsum(self._side)) * self._step)

    def distances(self, weights: Floats) -> Floats:
        """Sum the distances of all comparisons, (R, m) -> (R,).

        A score with negative weight counts for the other side.
        """
        block = max(1, BLOCK_CELLS // len(self._at))
        distances = np.empty(len(weights))
        for first in range(0, len(weights), block):
            draws = slice(first, first + block)
            # One column per draw, so that entire rows are gathered.
            running = np.ascontiguousarray(weights[draws].T)[self._at]
            running *= self._side[:, None]
            np.cumsum(running, axis=0, out=running)
            distances[draws] = self._step @ np.abs(running, out=running)
        return distances


_PairStatistic = _PromptMean | _DistanceOfAll


class _Metric(NamedTuple):
    """One metric."""

    definition: str
    infer: Callable[[float, Floats, Floats, int, float, Bounds], Inference] = infer_smooth
    bounds: Bounds = (0.0, 1.0)
    of_scores: Callable[[_Scored], _PairStatistic] | None = None
    """Statistic of the scores of pairs, for sentiment metrics."""


METRICS: Mapping[str, _Metric] = {
    "sentiment_strict": _Metric(
        "Wasserstein-1 distance between the scores of the two groups' answers, all prompts together "
        "(Bouchard 2024, as in langfair)",
        infer_distance,
        of_scores=_DistanceOfAll,
    ),
    "sentiment_strict_by_prompt": _Metric(
        "mean over prompts of the Wasserstein-1 distance between the scores of the two groups' answers "
        "(Huang et al. 2020)",
        infer_mean_distance,
        of_scores=_DistanceByPrompt,
    ),
    "sentiment_weak": _Metric(
        "share of answers with a score above the threshold, group_a minus group_b (Bouchard 2024, as in "
        "langfair)",
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
            "nothing to compare; give a column of answers (text=...), of sentiment scores (score=...), "
            "or both"
        )
    if text is None and encoder is not None:
        raise InputError("an encoder requires answers; give their column (text=...)")
    if not 0.0 <= threshold < 1.0:
        raise InputError(f"threshold must be at least 0 and below 1, not {threshold}")
    numbered = _numbered_answers(answers, unit, group)
    pairs = list(_pairs_of(numbered))
    compared: list[_Compared] = []
    if score is not None:
        compared += _sentiment(pairs, numbered, unit_scores(answers, score), threshold)
    if text is not None:
        for metric, compare in _similarities(answers[text].cast(String), encoder, mask).items():
            is_masked = mask is not None and metric != "cosine"
            compared += _similarity(metric, compare, pairs, numbered, MASKED if is_masked else None)
    statistics = [comparison.statistic for comparison in compared]
    samples = _resampled(statistics, numbered, resamples, seed)
    nulls = _exchanged(statistics, numbered, permutations, seed)
    rows = [
        _result_row(comparison, drawn, null, numbered.groups, level)
        for comparison, drawn, null in zip(compared, samples, nulls, strict=True)
    ]
    q = col.p.map_batches(q_values, return_dtype=Float64).over("metric")
    return results_table(rows).with_columns(q=q)


def _resampled(
    statistics: Sequence[_PairStatistic], answers: _Answers, resamples: int, seed: int
) -> list[Floats]:
    """Compute each statistic of each resample of prompts, (R,).

    All statistics use the same draws, of which one block is held in memory at a time.
    """
    blocks: list[list[Floats]] = [[] for _ in statistics]
    for weights in resampled(answers.units, resamples, seed):
        for block, statistic in zip(blocks, statistics, strict=True):
            block.append(statistic.resampled(weights))
    return [np.concatenate(block) for block in blocks]


def _exchanged(
    statistics: Sequence[_PairStatistic], answers: _Answers, permutations: int, seed: int
) -> list[Floats]:
    """Compute each statistic with the groups exchanged at random, (D,); see `_resampled`."""
    blocks: list[list[Floats]] = [[np.empty(0)] for _ in statistics]
    for draws in exchange_draws(answers.units, answers.most, permutations, seed):
        signs = np.where(draws < 0.5, -1.0, 1.0)
        for block, statistic in zip(blocks, statistics, strict=True):
            block.append(statistic.exchanged(signs))
    return [np.concatenate(block) for block in blocks]


def _numbered_answers(answers: DataFrame, unit: str, group: str) -> _Answers:
    """Assign numbers to the prompts, to the groups, and to the answers within both.

    Raises InputError for fewer than two groups.
    """
    groups = answers[group].cast(String).unique(maintain_order=True).to_list()
    if len(groups) < 2:
        content = f"only {groups[0]!r}" if groups else "no rows"
        raise InputError(f"group={group!r}: the column contains {content}; at least two groups are needed")
    numbers = list(range(len(groups)))
    row = pl.int_range(pl.len())
    rows = answers.select(
        row=row,
        unit=col(unit).rank("dense").cast(Int64) - 1,
        group=col(group).cast(String).replace_strict(groups, numbers, return_dtype=Int64),
    )
    rows = rows.with_columns(k=row.over("unit", "group"))
    return _Answers(groups, rows, rows["unit"].n_unique(), rows["k"].n_unique())


def _pairs_of(answers: _Answers) -> Iterator[_Pairs]:
    """Yield all pairs of groups, in the order in which the groups first appear."""
    cells = answers.rows.select("row", "group", cell=col.unit * answers.most + col.k)
    by_group = cells.partition_by("group", as_dict=True)
    for groups in combinations(range(len(answers.groups)), 2):
        first, second = by_group[groups[0],], by_group[groups[1],]
        both = first.join(second, on="cell").sort("cell")
        unpaired = first.height + second.height - 2 * both.height
        yield _Pairs(groups, both["cell"].to_numpy(), both["row"], both["row_right"], unpaired)


def _sentiment(
    pairs: list[_Pairs], answers: _Answers, scores: Floats, threshold: float
) -> Iterator[_Compared]:
    """Yield the sentiment metrics of all pairs of groups."""
    for name, metric in METRICS.items():
        if metric.of_scores is None:
            continue
        for pair in pairs:
            first, second = scores[pair.first], scores[pair.second]
            is_complete = ~np.isnan(first) & ~np.isnan(second)
            scored = _Scored(
                cell=pair.cell[is_complete],
                first=first[is_complete],
                second=second[is_complete],
                threshold=threshold,
                units=answers.units,
                answers=answers.most,
            )
            statistic: _PairStatistic
            if is_complete.any():
                statistic = metric.of_scores(scored)
            else:
                statistic = _PromptMean(scored.unit, scored.first, answers.units)
            yield _Compared(name, pair, scored.unit, statistic, None, _note_of_scores(name, scored))


def _note_of_scores(metric: str, scored: _Scored) -> str | None:
    """Return why the scores have no spread or the metric no test."""
    scores = np.concatenate([scored.first, scored.second])
    if scores.size and np.ptp(scores) == 0.0:
        return ALL_EQUAL
    if metric == "sentiment_strict_by_prompt" and scored.answers == 1:
        return NO_TEST
    return None


_Compare = Callable[[Series, Series], Series]
"""Function from rows of answers and rows of their partners to similarities, null where one is missing."""


def _similarities(
    texts: Series, encoder: Encoder | None, mask: Mapping[str, str] | Sequence[str] | None
) -> dict[str, _Compare]:
    """Return the function of each similarity metric; cosine only with an encoder."""
    from tiltmeter.features import bleu, cosine, mask_words, rouge_l
    from tiltmeter.features._scoring import number_texts

    functions: dict[str, _Compare] = {}
    if encoder is not None:
        distinct, place, _ = number_texts(texts)
        vectors = encoder.encode(distinct) if distinct else np.zeros((0, 1), dtype=np.float32)
        # The last row is for missing texts, which have the number -1.
        vectors = np.pad(vectors, ((0, 1), (0, 0)))
        functions["cosine"] = lambda first, second: cosine(vectors[place[first]], vectors[place[second]])
    masked = mask_words(texts, mask) if mask is not None else texts
    functions["bleu"] = lambda first, second: bleu(masked[first], masked[second])
    functions["rouge_l"] = lambda first, second: rouge_l(masked[first], masked[second])
    return functions


def _similarity(
    metric: str, compare: _Compare, pairs: list[_Pairs], answers: _Answers, note: str | None
) -> Iterator[_Compared]:
    """Yield a similarity metric of all pairs of groups."""
    # All pairs of all groups at once, so that each text is tokenised once and equal pairs are compared once.
    first = pl.concat([pair.first for pair in pairs])
    second = pl.concat([pair.second for pair in pairs])
    similarities = compare(first, second).to_numpy()
    within = _similarity_within_groups(compare, answers)
    ends = np.cumsum([len(pair.first) for pair in pairs])
    for pair, values in zip(pairs, np.split(similarities, ends[:-1]), strict=True):
        is_complete = ~np.isnan(values)
        unit = pair.cell[is_complete] // answers.most
        # Only prompts with pairs of both groups, so that chance and estimate refer to the same prompts.
        of_both = within.filter(col.unit.is_in(unit.tolist()), col.group.is_in(pair.groups))
        alike = of_both["alike"].to_numpy()
        chance = float(alike.mean()) if alike.size else np.nan
        statistic = _PromptMean(unit, values[is_complete], answers.units)
        yield _Compared(metric, pair, unit, statistic, chance, note)


def _similarity_within_groups(compare: _Compare, answers: _Answers) -> DataFrame:
    """Compute `alike`, the similarity of consecutive answers to a prompt about one group.

    One row per prompt (`unit`) and `group`; those without such answers are omitted.
    """
    previous = answers.rows.with_columns(col.k - 1)
    consecutive = answers.rows.join(previous, on=["unit", "group", "k"], suffix="_next")
    consecutive = consecutive.sort("unit", "group", "k")
    consecutive = consecutive.with_columns(alike=compare(consecutive["row"], consecutive["row_next"]))
    by_prompt = consecutive.group_by("unit", "group", maintain_order=True)
    return by_prompt.agg(col.alike.mean()).drop_nulls()


def _result_row(
    compared: _Compared, samples: Floats, null: Floats, groups: list[str], level: float
) -> dict[str, Any]:
    """Return one row of the table of results."""
    metric = METRICS[compared.metric]
    pairs = compared.pairs
    prompts = len(np.unique(compared.unit))
    inference = metric.infer(compared.statistic.value, samples, null, prompts, level, metric.bounds)
    if compared.chance is not None:
        inference = inference._replace(chance=compared.chance)
    notes = [_note_of_size(len(pairs.first), prompts), compared.note]
    names = {"group_a": groups[pairs.groups[0]], "group_b": groups[pairs.groups[1]]}
    counts = {
        "n": len(compared.unit),
        "prompts": prompts,
        "missing": len(pairs.first) - len(compared.unit),
        "unpaired": pairs.unpaired,
    }
    return {
        "metric": compared.metric,
        **names,
        **inference._asdict(),
        "level": level,
        "q": None,
        **counts,
        "definition": metric.definition,
        "note": "; ".join(note for note in notes if note) or None,
    }


def _note_of_size(pairs: int, prompts: int) -> str | None:
    """Return why there is no estimate or no interval.

    `pairs` is the number of pairs, `prompts` the number of prompts with a complete pair.
    """
    if pairs == 0:
        return NO_PAIR
    if prompts == 0:
        return ALL_MISSING
    return ONE_PROMPT if prompts == 1 else None
