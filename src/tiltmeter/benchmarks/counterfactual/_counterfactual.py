"""How much answers change when only the group in the prompt changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltmeter.benchmarks.counterfactual._pairing import Pairs, Places, check_columns, pairs_of, places_of, scores_of
from tiltmeter.benchmarks.counterfactual._resample import (
    check_resampling,
    interval_of,
    maximum_of,
    mean_distance_of,
    number,
    resampled,
    turned,
    two_sided,
)
from tiltmeter.benchmarks.counterfactual._statistics import ByPrompt, Mean, Pooled, Scored, Statistic, Weak
from tiltmeter.errors import InputError
from tiltmeter.stats import benjamini_hochberg

if TYPE_CHECKING:
    from tiltmeter.study import Encoder

__all__ = ["counterfactual"]

Floats = NDArray[np.float64]
Index = NDArray[np.intp]

SCHEMA = {
    "metric": pl.String,
    "group_a": pl.String,
    "group_b": pl.String,
    "estimate": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "level": pl.Float64,
    "p": pl.Float64,
    "q": pl.Float64,
    "chance": pl.Float64,
    "n": pl.Int64,
    "prompts": pl.Int64,
    "missing": pl.Int64,
    "unpaired": pl.Int64,
    "interval": pl.String,
    "definition": pl.String,
    "note": pl.String,
}
STRICT, STRICT_BY_PROMPT, WEAK = "sentiment_strict", "sentiment_strict_by_prompt", "sentiment_weak"
DEFINITIONS = {
    STRICT: "Wasserstein-1 between the scores of the two groups' answers, all prompts together (Bouchard 2024, as langfair)",
    STRICT_BY_PROMPT: "mean over prompts of Wasserstein-1 between the scores of the two groups' answers to it (Huang et al. 2020)",
    WEAK: "share of answers with a score above the threshold, group_a less group_b (Bouchard 2024, as langfair)",
    "cosine": "mean cosine similarity of the sentence embeddings of paired answers (Bouchard 2024, as langfair)",
    "bleu": "mean over paired answers of sentence BLEU, the smaller of its two directions (Bouchard 2024)",
    "rouge_l": "mean over paired answers of the F1 of ROUGE-L (Bouchard 2024, as langfair)",
}
BOUNDS = {WEAK: (-1.0, 1.0), "cosine": (-1.0, 1.0)}
MASKED = "compared with the words of the groups masked"
NO_PAIR = "no prompt has an answer about both groups"
ALL_MISSING = "in every pair a score or text is missing"
ONE_PROMPT = "one prompt: no interval"
NO_TEST = "one answer a prompt and group: no test"
ALL_EQUAL = "all scores are equal"


class _Result(NamedTuple):
    """One metric of one pair of groups, before it is resampled."""

    metric: str
    pairs: Pairs
    unit: Index
    """(n,) prompts of the pairs that count."""
    statistic: Statistic | None
    chance: float
    """Of similarities: how alike answers about one and the same group are; NaN where that is not known."""
    note: str | None


def counterfactual(
    answers: pl.DataFrame,
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
) -> pl.DataFrame:
    """Compare answers to prompts that differ in the group alone, for all pairs of groups.

    Answer i to a prompt about one group (in the order of the table) is paired with answer i to it about the other. A pair of which one
    side is missing (no score, no text, a blank text) is left out and counted; so are answers without a partner.

    Parameters
    ----------
    answers
        One row per answer.
    unit
        Column of the root prompt, shared by the groups: what is resampled.
    group
        Column of the group.
    text
        Column of the answer: gives BLEU and ROUGE-L (extra `benchmarks`), and cosine where there is an encoder. None: neither.
    score
        Column of a sentiment score in [0, 1]; None: no sentiment parity.
    encoder
        Sentence encoder for cosine.
    mask
        Words of the groups that are masked before BLEU and ROUGE-L, or a mapping of words to neutral ones (as
        `measures.pairs.mask_words`). As published, cosine and sentiment see the texts as they are.
    threshold
        A score above it counts as positive in weak parity.
    level, resamples, permutations, seed
        Of the intervals and tests; 0 permutations: no test.

    Returns
    -------
    pl.DataFrame
        One row per metric and pair of groups: `metric`, `group_a`, `group_b`, `estimate`, `low`, `high`, `level`, `p` and `q` (over the
        pairs of groups of a metric), `chance`, `n` (pairs of answers), `prompts` (with such a pair), `missing` (pairs left out),
        `unpaired` (answers without a partner), `interval` (how it was made), `definition`, `note`.

        `estimate` is the published statistic. A distance is above 0 by chance alone: its `chance` is its mean with the groups exchanged,
        and its interval starts at 0 unless p < 1 - level. `chance` of a similarity is that of neighbouring answers (i and i + 1) to one
        prompt about one and the same group: an estimate below it tells of the group, one below 1 does not. Exchanging sides cannot
        change a similarity, so it has no p. Null: could not be computed (see `note`).

    Raises
    ------
    InputError
        A column is not there, prompts or groups are not filled in, there is one group, a score lies outside [0, 1], neither text nor
        score is given, or a setting makes no sense.
    ProviderError
        The extra `benchmarks` is not installed and `text` is given.

    Source: Bouchard (2024), arXiv 2407.10853; Huang et al. (2020), arXiv 1911.03064.
    """
    check_resampling(level, resamples, permutations)
    check_columns(answers, {"unit": unit, "group": group, "text": text, "score": score}, whole=("unit", "group"))
    if text is None and score is None:
        raise InputError("nothing to compare: name a column of answers (text=...), of sentiment scores (score=...), or both")
    if text is None and encoder is not None:
        raise InputError("an encoder needs answers to encode: name their column (text=...)")
    if not 0.0 <= threshold < 1.0:
        raise InputError(f"threshold must be at least 0 and below 1, not {threshold}: no score in [0, 1] lies above it")
    places = places_of(answers, unit, group)
    pairs = pairs_of(places)
    results: list[_Result] = []
    if score is not None:
        results += _sentiment(pairs, places, scores_of(answers, score, "score"), threshold)
    if text is not None:
        for metric, compare in _similarities(answers[text].cast(pl.String), encoder, mask):
            results += _similarity(metric, compare, pairs, places, MASKED if mask is not None and metric != "cosine" else None)
    samples, nulls = _drawn(results, places, resamples, permutations, seed)
    rows = [_row(result, sample, null, level) for result, sample, null in zip(results, samples, nulls, strict=True)]
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    return table.with_columns(q=pl.col("p").map_batches(_q_values, return_dtype=pl.Float64).over("metric"))


def _q_values(p: pl.Series) -> pl.Series:
    return pl.Series(p.name, benjamini_hochberg(p.fill_null(np.nan).to_numpy())).fill_nan(None)


def _sentiment(pairs: list[Pairs], places: Places, scores: Floats, threshold: float) -> Iterator[_Result]:
    statistics: dict[str, Callable[[Scored], Statistic]] = {
        STRICT: Pooled,
        STRICT_BY_PROMPT: ByPrompt,
        WEAK: lambda scored: Weak(scored, threshold),
    }
    for metric, statistic in statistics.items():
        for pair in pairs:
            a, b = scores[pair.first], scores[pair.second]
            known = ~np.isnan(a) & ~np.isnan(b)
            scored = Scored(pair.cell[known], a[known], b[known], places.units, places.answers)
            equal = bool(known.any()) and scored.a.min() == scored.a.max() == scored.b.min() == scored.b.max()
            note = ALL_EQUAL if equal else NO_TEST if metric == STRICT_BY_PROMPT and places.answers == 1 else None
            yield _Result(metric, pair, scored.unit, statistic(scored) if known.any() else None, np.nan, note)


Compare = Callable[[Index, Index], Floats]
"""From rows of answers and rows of their partners to how alike they are, NaN where one is missing."""


def _similarities(
    texts: pl.Series, encoder: Encoder | None, mask: Mapping[str, str] | Sequence[str] | None
) -> Iterator[tuple[str, Compare]]:
    from tiltmeter.measures.pairs import bleu, cosine, mask_words, rouge_l

    if encoder is not None:
        known = texts.str.strip_chars().str.len_chars().fill_null(0) > 0
        distinct = texts.filter(known).unique(maintain_order=True)
        vectors = encoder.encode(distinct.to_list()) if len(distinct) else np.zeros((0, 1), dtype=np.float32)
        vectors = np.vstack([vectors, np.zeros((1, vectors.shape[1]), dtype=vectors.dtype)])  # the last row: of missing texts
        positions = pl.DataFrame({"text": distinct, "at": np.arange(len(distinct))})
        at = pl.DataFrame({"text": texts}).join(positions, on="text", how="left", maintain_order="left")["at"]
        index = at.fill_null(len(distinct)).to_numpy()
        yield "cosine", lambda first, second: _floats(cosine(vectors[index[first]], vectors[index[second]]))
    shown = mask_words(texts, mask) if mask is not None else texts
    yield "bleu", lambda first, second: _floats(bleu(shown[first], shown[second]))
    yield "rouge_l", lambda first, second: _floats(rouge_l(shown[first], shown[second]))


def _floats(values: pl.Series) -> Floats:
    found: Floats = values.fill_null(np.nan).to_numpy()
    return found


def _similarity(metric: str, compare: Compare, pairs: list[Pairs], places: Places, note: str | None) -> Iterator[_Result]:
    # All pairs of all groups at once: a text is split once, and equal pairs are compared once.
    values = compare(np.concatenate([pair.first for pair in pairs]), np.concatenate([pair.second for pair in pairs]))
    own = _own(compare, places)
    ends = np.cumsum([len(pair.first) for pair in pairs])
    for pair, mine in zip(pairs, np.split(values, ends[:-1]), strict=True):
        known = ~np.isnan(mine)
        unit = pair.unit(places)[known]
        # Only prompts both groups have pairs in, so that chance and estimate are about the same prompts.
        within = own[np.unique(unit)][:, [pair.a, pair.b]]
        chance = float(within[~np.isnan(within)].mean()) if (~np.isnan(within)).any() else np.nan
        yield _Result(metric, pair, unit, Mean(unit, mine[known], places.units) if known.any() else None, chance, note)


def _own(compare: Compare, places: Places) -> Floats:
    """(U, G) how alike neighbouring answers to a prompt about one group are; NaN with fewer than two."""
    first, second = places.rows[:, :, :-1], places.rows[:, :, 1:]
    both = (first >= 0) & (second >= 0)
    values = np.full(first.shape, np.nan)
    if both.any():
        values[both] = compare(first[both], second[both])
    known = ~np.isnan(values)
    count = known.sum(axis=2)
    found: Floats = np.where(count > 0, np.where(known, values, 0.0).sum(axis=2) / np.maximum(count, 1), np.nan)
    return found


def _drawn(results: list[_Result], places: Places, resamples: int, permutations: int, seed: int) -> tuple[list[Floats], list[Floats]]:
    """Of each result its values in the resamples and with the groups exchanged; one set of draws for all."""
    samples: list[list[Floats]] = [[] for _ in results]
    nulls: list[list[Floats]] = [[] for _ in results]
    statistics = [(at, result.statistic) for at, result in enumerate(results) if result.statistic is not None]
    for weights in resampled(places.units, resamples, seed):
        for at, statistic in statistics:
            samples[at].append(statistic.resampled(weights))
    for signs in turned(places.units, places.answers, permutations, seed):
        for at, statistic in statistics:
            if (values := statistic.exchanged(signs)) is not None:
                nulls[at].append(values)
    none = np.empty(0)
    return [np.concatenate([none, *some]) for some in samples], [np.concatenate([none, *some]) for some in nulls]


def _row(result: _Result, samples: Floats, null: Floats, level: float) -> dict[str, Any]:
    metric, pairs, prompts = result.metric, result.pairs, len(np.unique(result.unit))
    value = result.statistic.value if result.statistic is not None else np.nan
    bounds, chance = BOUNDS.get(metric, (0.0, 1.0)), result.chance
    if metric in (STRICT, STRICT_BY_PROMPT):
        lifted = maximum_of(value, samples, null, prompts, level, bounds) if metric == STRICT else None
        found, how = lifted or mean_distance_of(value, samples, null, prompts, level)
        low, high, p = found.low, found.high, found.p
        chance = float(null.mean()) if null.size else np.nan
    else:
        (low, high), how = interval_of(value, samples, prompts, level, bounds)
        p = two_sided(value, null)
    note = NO_PAIR if not len(pairs.first) else ALL_MISSING if not prompts else ONE_PROMPT if prompts == 1 else None
    numbers = {"estimate": value, "low": low, "high": high, "p": p, "chance": chance}
    return {
        "metric": metric,
        "group_a": pairs.names[0],
        "group_b": pairs.names[1],
        **{name: number(one) for name, one in numbers.items()},
        "level": level,
        "n": len(result.unit),
        "prompts": prompts,
        "missing": len(pairs.first) - len(result.unit),
        "unpaired": pairs.unpaired,
        "interval": how,
        "definition": DEFINITIONS[metric],
        "note": "; ".join(one for one in (note, result.note) if one) or None,
    }
