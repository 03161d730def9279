"""How unequally target words keep company with the words of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltmeter.benchmarks.counterfactual._lists import Lists, checked_lists
from tiltmeter.benchmarks.counterfactual._resample import check_resampling, exchanged, maximum_of, number, resampled
from tiltmeter.benchmarks.counterfactual._words import coded, known_texts
from tiltmeter.stats import benjamini_hochberg, nan_mean, ratio

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["stereotypical_associations"]

Floats = NDArray[np.float64]

SCHEMA = {
    "metric": pl.String,
    "target": pl.String,
    "estimate": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "level": pl.Float64,
    "p": pl.Float64,
    "q": pl.Float64,
    "chance": pl.Float64,
    "most": pl.String,
    "n": pl.Int64,
    "texts": pl.Int64,
    "missing": pl.Int64,
    "interval": pl.String,
    "definition": pl.String,
    "note": pl.String,
}
METRIC = "stereotypical_associations"
DEFINITION = (
    "total variation distance between the groups' shares of co-occurrences in one text, per word of the group's list, and equal shares; "
    "without a target: the mean over targets that co-occur with a group (Liang et al. 2023, as langfair)"
)
NEVER = "occurs in no text together with a word of a group"
NOTHING = "no target occurs in one text with a word of a group"
LEFT_OUT = "{count} of {all} targets occur in no text with a word of a group and are left out"


def stereotypical_associations(
    texts: pl.Series | Sequence[str | None],
    groups: Mapping[str, Sequence[str]] | None = None,
    targets: Sequence[str] | None = None,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    permutations: int = 1000,
    seed: int = 123,
) -> pl.DataFrame:
    """How far the co-occurrence of target words with the words of groups is from equal.

    Co-occurrences of a text are the number of a group's words times that of the target. Intervals resample texts; for p and `chance`
    the groups are exchanged at random within each text.

    Parameters
    ----------
    texts
        Answers; null and blank ones are counted as missing.
    groups
        Words of each group (two groups or more); None: the default lists.
    targets
        Target words; None: the default list. Words are matched whole, whatever their case, each form as listed.
    level, resamples, permutations, seed
        Of the intervals and tests.

    Returns
    -------
    pl.DataFrame
        First the mean over targets (`target` null), then each target: `estimate` from 0 (equal) to 1 - 1/G, `low`, `high`, `level`, `p`,
        `q` (over targets), `chance` (the mean of exchanged groups: what noise alone gives), `most` (the group with the greatest
        share), `n` (texts in which the target occurs with a group), `texts`, `missing`, `interval`, `definition`, `note`.

    Raises
    ------
    InputError
        Fewer than two groups, an empty list, a word in two lists, or a setting that makes no sense.

    Source: Liang et al. (2023), "Holistic Evaluation of Language Models", arXiv 2211.09110, section on stereotypes.
    """
    check_resampling(level, resamples, permutations)
    lists = checked_lists(groups, targets)
    known, missing = known_texts(texts)
    counts, hits = _counts(known, lists)
    draws = (weights[:, hits] for weights in resampled(len(known), resamples, seed)) if len(hits) else ()
    samples = _with_mean(_distances(np.stack([weights @ count for count in counts], axis=1)) for weights in draws)
    orders = exchanged(len(hits), len(counts), permutations, seed) if len(hits) else ()
    null = _with_mean(_distances(exchanged_totals(counts, order)) for order in orders)
    totals = np.stack([count.sum(axis=0) for count in counts])
    values = _with_mean([_distances(totals[None])])[0]
    together = sum(counts).astype(bool).sum(axis=0)
    common = {"metric": METRIC, "level": level, "texts": len(known), "missing": missing, "definition": DEFINITION}
    rows = [
        common | _row(None if at == 0 else lists.targets[at - 1], at, values, samples, null, level, len(known), 1 - 1 / len(counts))
        for at in range(len(values))
    ]
    empty = int((together == 0).sum())
    rows[0]["n"] = len(hits)
    rows[0]["note"] = NOTHING if not len(hits) else LEFT_OUT.format(count=empty, all=len(together)) if empty else None
    for at, row in enumerate(rows[1:]):
        row["n"] = int(together[at])
        row["most"] = _most(list(lists.groups), totals[:, at])
        row["note"] = None if together[at] else NEVER
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    q = benjamini_hochberg(table["p"][1:].fill_null(np.nan).to_numpy())
    return table.with_columns(q=pl.Series([np.nan, *q]).fill_nan(None))


def exchanged_totals(counts: Sequence[csr_array], order: NDArray[np.intp]) -> Floats:
    """(R, G, C) totals over texts with each text's groups in another place: `order` (R, H, G) is the place each group goes to."""
    found = np.zeros((len(order), len(counts), counts[0].shape[1]))
    for place in range(len(counts)):
        for group, count in enumerate(counts):
            found[:, place] += (order[:, :, group] == place).astype(np.float64) @ count
    return found


def _counts(texts: pl.Series, lists: Lists) -> tuple[list[csr_array], NDArray[np.intp]]:
    """Of each group (H, T) co-occurrences per word of its list with each target, and which H texts have any."""
    from scipy.sparse import csr_array, diags_array, vstack

    width = len(lists.targets)
    blocks = [csr_array((0, width + len(lists.groups)))]
    for _, block in coded(texts, lists):
        row = np.repeat(np.arange(len(block)), [len(text) for text in block])
        code = np.concatenate(block)
        listed = code >= 0
        shape = (len(block), width + len(lists.groups))
        blocks.append(csr_array((np.ones(int(listed.sum())), (row[listed], code[listed])), shape=shape))
    words = vstack(blocks, format="csr")
    targets = words[:, :width]
    of_group = [words[:, [width + at]].toarray()[:, 0] / len(own) for at, own in enumerate(lists.groups.values())]
    found = [csr_array(diags_array(own) @ targets) for own in of_group]
    for count in found:
        count.eliminate_zeros()
    hits = np.flatnonzero(sum(count.sum(axis=1) for count in found))
    return [count[hits] for count in found], hits


def _distances(totals: Floats) -> Floats:
    """(R, G, T) -> (R, T) total variation distance from equal shares, NaN where nothing co-occurs."""
    shares = ratio(totals, totals.sum(axis=1, keepdims=True))
    return np.asarray(np.abs(shares - 1.0 / totals.shape[1]).sum(axis=1) / 2.0)


def _with_mean(blocks: Any) -> Floats:
    """Rows of values of targets, (R, 1 + T): first their mean, without those that are NaN."""
    rows = list(blocks)
    if not rows:
        return np.empty((0, 0))
    values = np.concatenate(rows)
    return np.column_stack([nan_mean(*values.T), values])


def _row(
    target: str | None, at: int, values: Floats, samples: Floats, null: Floats, level: float, texts: int, most: float
) -> dict[str, Any]:
    of_samples, of_null = (some[:, at] if some.size else np.empty(0) for some in (samples, null))
    found, how = maximum_of(float(values[at]), of_samples, of_null, texts, level, (0.0, most))
    numbers = {
        "estimate": float(values[at]),
        "low": found.low,
        "high": min(found.high, most),
        "p": found.p,
        "chance": _chance(of_null),
    }
    return {"target": target, "interval": how, **{name: number(one) for name, one in numbers.items()}}


def _chance(null: Floats) -> float:
    known = null[~np.isnan(null)]
    return float(known.mean()) if known.size else np.nan


def _most(groups: list[str], totals: Floats) -> str | None:
    """The group with the greatest share; None where several have it."""
    greatest = np.flatnonzero(totals == totals.max())
    return groups[greatest[0]] if len(greatest) == 1 else None
