"""Whether a word is met in the surroundings of one group rather than another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltmeter.benchmarks.counterfactual._associations import exchanged_totals
from tiltmeter.benchmarks.counterfactual._contexts import contexts_of
from tiltmeter.benchmarks.counterfactual._lists import checked_lists, default_words
from tiltmeter.benchmarks.counterfactual._resample import check_resampling, exchanged, interval_of, maximum_of, number, resampled, two_sided
from tiltmeter.benchmarks.counterfactual._words import known_texts
from tiltmeter.errors import InputError
from tiltmeter.stats import benjamini_hochberg, ratio

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["cooccurrence_bias"]

Floats = NDArray[np.float64]

SCHEMA = {
    "metric": pl.String,
    "group_a": pl.String,
    "group_b": pl.String,
    "target": pl.String,
    "estimate": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "level": pl.Float64,
    "p": pl.Float64,
    "q": pl.Float64,
    "chance": pl.Float64,
    "n": pl.Int64,
    "texts": pl.Int64,
    "missing": pl.Int64,
    "interval": pl.String,
    "definition": pl.String,
    "note": pl.String,
}
PUBLISHED, BALANCED = "cooccurrence_bias", "cooccurrence_bias_balanced"
DEFINITIONS = {
    PUBLISHED: (
        "log10 of P(word | group_a) / P(word | group_b), each its share of the group's surroundings over the share of the group's words; "
        "without a target: the mean of absolute values over targets met with both (Bordia and Bowman 2019; base 10 as langfair)"
    ),
    BALANCED: (
        "log10 of the word's share of the surroundings of group_a over its share of those of group_b, whichever group is named more "
        "often; without a target: the mean of absolute values over targets met with both"
    ),
}
NO_GROUP = "no text names {group}"
ONE_SIDED = "met with one of the two groups or with neither: no ratio"
NOTHING = "no target is met with both groups"
LEFT_OUT = "{count} of {all} targets are not met with both groups and are left out, as published"


def cooccurrence_bias(
    texts: pl.Series | Sequence[str | None],
    groups: Mapping[str, Sequence[str]] | None = None,
    targets: Sequence[str] | None = None,
    *,
    window: int | None = None,
    beta: float = 0.95,
    stop: Sequence[str] | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    permutations: int = 1000,
    seed: int = 123,
) -> pl.DataFrame:
    """Whether target words are met in the surroundings of one group's words more than in those of another, for all pairs of groups.

    The published ratio divides by how often a group is named although the surroundings already are a group's own: a model that says the
    same of both, but names one half as often, gets log10(2) for every word. It is given as published (`cooccurrence_bias`), and without
    that division (`cooccurrence_bias_balanced`), which is 0 then.

    Parameters
    ----------
    texts, groups, targets
        As for `stereotypical_associations`.
    window
        Words on either side that count as surroundings; None: the whole text.
    beta
        A word at distance d counts beta**d. The paper's two settings are window=10, beta=1 and window=None, beta=0.95 (langfair's).
    stop
        Words that are no surroundings; None: the default list.
    level, resamples, permutations, seed
        Of the intervals (texts are resampled) and tests (the two groups are exchanged within texts).

    Returns
    -------
    pl.DataFrame
        For each metric and pair of groups the mean over targets (`target` null), then each target: `estimate`, `low`, `high`, `level`,
        `p`, `q` (over the targets of a metric and pair), `chance` (of a mean: what exchanged groups give), `n` (texts in which the
        target is met with a group), `texts`, `missing`, `interval`, `definition`, `note`. A target's value is above 0 where it is met
        with group_a more.

    Raises
    ------
    InputError
        Fewer than two groups, an empty list, a word in two lists, a window below 1, a beta outside (0, 1], or another setting that
        makes no sense.

    Source: Bordia and Bowman (2019), "Identifying and Reducing Gender Bias in Word-Level Language Models", arXiv 1904.03035.
    """
    check_resampling(level, resamples, permutations)
    if window is not None and window < 1:
        raise InputError(f"window must be at least 1 word, or None for the whole text, not {window}")
    if not 0.0 < beta <= 1.0:
        raise InputError(f"beta must be above 0 and at most 1, not {beta}")
    lists = checked_lists(groups, targets)
    stopped = {word.lower() for word in (default_words()["stop"] if stop is None else stop)} - set(lists.targets)
    known, missing = known_texts(texts)
    contexts, hits = contexts_of(known, lists, stopped - {word for words in lists.groups.values() for word in words}, window, beta)
    common = {"level": level, "texts": len(known), "missing": missing}
    rows: list[dict[str, Any]] = []
    names, totals = list(lists.groups), np.stack([context.sum(axis=0) for context in contexts])
    samples = _resampled_totals(contexts, hits, len(known), resamples, seed)
    for a, b in combinations(range(len(names)), 2):
        of_pair = [contexts[a], contexts[b]]
        null = [exchanged_totals(of_pair, order) for order in exchanged(len(hits), 2, permutations, seed)] if len(hits) else []
        nulls = np.concatenate([np.empty((0, 2, totals.shape[1])), *null])
        together = (of_pair[0] + of_pair[1])[:, : len(lists.targets)].astype(bool).sum(axis=0)
        note = next((NO_GROUP.format(group=names[side]) for side in (a, b) if not totals[side, -1]), None)
        for metric in (PUBLISHED, BALANCED):
            values, of_samples, of_null = (_ratios(some, metric) for some in (totals[None, [a, b]], samples[:, [a, b]], nulls))
            both = {"metric": metric, "group_a": names[a], "group_b": names[b], "definition": DEFINITIONS[metric], **common}
            mean = _mean_row(values, of_samples, of_null, len(known), level, note)
            words = _word_rows(lists.targets, values[0], of_samples, of_null, together, level, note)
            rows += [both | row for row in [mean | {"n": len(hits)}, *words]]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _resampled_totals(contexts: list[csr_array], hits: NDArray[np.intp], texts: int, resamples: int, seed: int) -> Floats:
    """(R, G, T + 2) totals over resampled texts; none where no text names a group."""
    if not len(hits):
        return np.empty((0, len(contexts), contexts[0].shape[1]))
    draws = resampled(texts, resamples, seed)
    return np.concatenate([np.stack([weights[:, hits] @ context for context in contexts], axis=1) for weights in draws])


def _ratios(totals: Floats, metric: str) -> Floats:
    """(R, 2, T + 2) -> (R, T) log10 ratios; NaN where a word is not met with both groups."""
    met, surroundings, named = totals[:, :, :-2], totals[:, :, -2:-1], totals[:, :, -1:]
    share = ratio(met, surroundings * named) if metric == PUBLISHED else ratio(met, surroundings)
    of_both = ratio(share[:, 0], share[:, 1])
    of_both = np.where(of_both > 0.0, of_both, np.nan)
    found: Floats = np.log10(of_both)
    return found


def _means(values: Floats) -> Floats:
    """(R, T) -> (R,) mean of absolute values, without those that are NaN."""
    known = ~np.isnan(values)
    return ratio(np.where(known, np.abs(values), 0.0).sum(axis=1), known.sum(axis=1))


def _mean_row(values: Floats, samples: Floats, null: Floats, texts: int, level: float, note: str | None) -> dict[str, Any]:
    of_null = _means(null)
    value = float(_means(values)[0])
    found, how = maximum_of(value, _means(samples), of_null, texts, level, None)
    known = of_null[~np.isnan(of_null)]
    numbers = {"estimate": value, "low": found.low, "high": found.high, "p": found.p}
    left_out = int(np.isnan(values).sum())
    if note is None and left_out:
        note = NOTHING if left_out == values.shape[1] else LEFT_OUT.format(count=left_out, all=values.shape[1])
    chance = float(known.mean()) if known.size else np.nan
    return {"target": None, "interval": how, "note": note, "chance": number(chance), **{name: number(one) for name, one in numbers.items()}}


def _word_rows(
    targets: tuple[str, ...], values: Floats, samples: Floats, null: Floats, together: NDArray[np.int64], level: float, note: str | None
) -> list[dict[str, Any]]:
    # A word that an exchange leaves with one group alone has a boundless ratio then: as far from 0 as any.
    null = np.where(np.isnan(null), np.inf, null)
    p = np.array([two_sided(float(value), null[:, at]) for at, value in enumerate(values)])
    rows: list[dict[str, Any]] = []
    for at, (target, value, q) in enumerate(zip(targets, values, benjamini_hochberg(p), strict=True)):
        (low, high), how = interval_of(float(value), samples[:, at], int(together[at]), level, None)
        numbers = {"estimate": float(value), "low": low, "high": high, "p": float(p[at]), "q": float(q)}
        row = {"target": target, "interval": how, "n": int(together[at]), "note": note if note else ONE_SIDED if np.isnan(value) else None}
        rows.append(row | {name: number(one) for name, one in numbers.items()})
    return rows
