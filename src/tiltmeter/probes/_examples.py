"""The most influential answers for each metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import polars as pl
from polars import DataFrame, Float64, Series, String, col, lit

from tiltmeter import stats
from tiltmeter.probes._counted_items import CountedItems
from tiltmeter.probes._metrics import MetricKey, NamedMetric, Values
from tiltmeter.schema import EXAMPLES, conform

if TYPE_CHECKING:
    from tiltmeter._arrays import Floats

EXAMPLES_PER_METRIC: Final = 5
"""Examples per finding, each from a different item."""
MOST_AGAINST: Final = 2
"""Maximum number of examples that moved the metric in the opposite direction, unless there are too few
others."""
SMALLEST_AGAINST: Final = 0.5
"""Minimum influence of such examples, as a share of the largest influence in the main direction."""
CELLS_AT_ONCE: Final = 4_000_000
"""Totals held in memory at once: 32 MB."""
ROUNDING: Final = 9
"""Digits to which influences are compared, relative to the largest one, so that rounding errors count as
ties."""


def find_examples(
    counted: CountedItems,
    metrics: Mapping[MetricKey, NamedMetric],
    columns: Mapping[MetricKey, Mapping[str, str | None]],
    recount: Callable[[DataFrame], DataFrame],
    seed: int,
) -> DataFrame:
    """Find the answers with the largest influence on each metric, most influential first.

    For each metric, one answer from each of up to EXAMPLES_PER_METRIC items is returned.

    `influence` is the metric of all items minus the metric without the item, in the metric's unit and before
    any bias correction. Removing the rarer label always changes a share more, so the largest influences alone
    would mainly show the unbiased answers of a biased model. Therefore most items shown are those that moved
    the metric furthest away from "no bias", in its direction, and at most MOST_AGAINST moved it back. Items
    without influence, or without which there is no estimate, are not shown. Ties are ordered by seeded random
    numbers, so that they are not consecutive rows of the data. Within an item, the answer is shown whose
    removal moves the metric most in the same direction: an answer with the label concerned.

    Parameters
    ----------
    counted
        The attempts and the counts of their items.
    metrics
        The metrics by their keys in the formulas. For a metric without a "no bias" value, smaller is better.
    columns
        How examples name each metric (columns of NAMED).
    recount
        Function from attempts to one row per item, with the columns of `counted` that the metrics need.
    seed
        Seed of the order of ties.

    Returns
    -------
    DataFrame
        The columns of EXAMPLES.
    """
    import numpy as np

    observed = counted.observed()
    order = np.random.default_rng(seed).permutation(len(counted.values))
    items = DataFrame({"item": counted.items, "order": order}).with_row_index("place")
    without_item = _metrics_without_each_item(counted, list(metrics))
    selected = {}
    for key, named in metrics.items():
        upwards = named.metric.null is None or observed[key] >= named.metric.null
        influence = Series(observed[key] - without_item[key])
        selected[key] = _most_influential(items.with_columns(influence=influence), upwards=upwards)
    answers = _answers_of(counted, items, list(selected.values()))
    if answers.is_empty():
        return DataFrame(schema=EXAMPLES)
    items_of_answers = counted.values[answers["place"].to_numpy()]
    totals_of_others = counted.totals - items_of_answers
    item_without_answer = _counts_without(counted.measures, answers, counted.names, recount)
    without_answer = counted.compute(totals_of_others + item_without_answer)
    examples = []
    for key in metrics:
        influence = Series(observed[key] - without_answer[key])
        examples.append(_best_answers(answers, selected[key], influence, columns[key]))
    return conform(pl.concat(examples), EXAMPLES)


def _metrics_without_each_item(counted: CountedItems, metrics: Sequence[MetricKey]) -> Values:
    """Compute the metrics without each of the items, each an array of shape (items,)."""
    import numpy as np

    step = max(1, CELLS_AT_ONCE // max(1, counted.values.shape[1]))
    chunks = []
    for first in range(0, len(counted.values), step):
        chunk = counted.values[first : first + step]
        chunks.append(counted.compute(counted.totals - chunk))
    return {key: np.concatenate([chunk[key] for chunk in chunks]) for key in metrics}


def _most_influential(items: DataFrame, *, upwards: bool) -> DataFrame:
    """Select the items to be shown, with their `rank`, most influential first (see `find_examples`)."""
    size = col.influence.abs()
    influential = items.filter(size.is_finite(), size > stats.NEGLIGIBLE)
    influential = influential.with_columns(size=size, away=(col.influence > 0) == upwards)
    relative_size = (col.size / col.size.max()).round(ROUNDING)
    ranked = influential.sort(-relative_size, "order").with_row_index("rank")
    away = ranked.filter("away").head(EXAMPLES_PER_METRIC)
    back = ranked.filter(~col.away).head(EXAMPLES_PER_METRIC)
    if away.height:
        back = back.filter(col.size >= SMALLEST_AGAINST * away["size"][0])
    away = away.head(EXAMPLES_PER_METRIC - min(MOST_AGAINST, back.height))
    return pl.concat([away, back.head(EXAMPLES_PER_METRIC - away.height)])


def _answers_of(counted: CountedItems, items: DataFrame, selected: Sequence[DataFrame]) -> DataFrame:
    """Return the attempts at the items that are selected for any metric, numbered by `left_out`."""
    attempts = counted.measures.select("prompt_id", "repetition", "item", answered=col.outcome == "answered")
    no_items = DataFrame(schema={"item": counted.items.dtype})
    selected_items = pl.concat([no_items, *(of_metric.select("item") for of_metric in selected)])
    return (
        attempts.join(items, on="item", maintain_order="left")
        .join(selected_items, on="item", how="semi", maintain_order="left")
        .with_row_index("left_out")
    )


def _best_answers(
    answers: DataFrame, selected: DataFrame, influence: Series, columns: Mapping[str, str | None]
) -> DataFrame:
    """Return for each selected item the answer whose removal moves the metric most in the same direction.

    `columns` name the metric.
    """
    relative = (col.influence_of_answer / col.influence).round(ROUNDING).fill_nan(float("-inf"))
    return (
        answers.with_columns(lit(value, String).alias(name) for name, value in columns.items())
        .with_columns(influence_of_answer=influence)
        .join(selected.select("item", "rank", "influence"), on="item", maintain_order="left")
        .sort("rank", relative, "answered", "left_out", descending=[False, True, True, False])
        .unique("rank", keep="first", maintain_order=True)
    )


def _counts_without(
    attempts: DataFrame, answers: DataFrame, names: Sequence[str], recount: Callable[[DataFrame], DataFrame]
) -> Floats:
    """Count the item of each answer without that answer, shape (answers, columns).

    The counts are 0 if it was the only attempt.
    """
    left_out = answers.select("item", "left_out", _prompt="prompt_id", _repetition="repetition")
    is_another = (col.prompt_id != col("_prompt")) | (col.repetition != col("_repetition"))
    remaining = attempts.join(left_out, on="item", maintain_order="right").filter(is_another)
    counted = recount(remaining.with_columns(item="left_out").drop("left_out", "_prompt", "_repetition"))
    shaped = conform(counted, {"item": counted.schema["item"], **dict.fromkeys(names, Float64)})
    rows = answers.select(item="left_out").join(shaped, on="item", how="left", maintain_order="left")
    return rows.select(names).fill_null(0.0).to_numpy()
