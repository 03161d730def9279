"""The answers that moved a range of means most: those that pull the greatest group up and the least group down."""

from __future__ import annotations

import polars as pl

from tiltmeter.study import EXAMPLES

__all__ = ["SHOWN", "examples_of"]

SHOWN = 5
"""Answers of a finding, from both groups in turn."""
METRIC, VALUE = "range_mean_", "value:"
"""What the names of these metrics and of the columns with a feature's values begin with."""
ROUNDING = 9
"""Digits to which influences are compared, the greatest being 1: sums that differ in their last bits are ties."""
NOTHING = 1e-12
"""An influence that is rounding."""


def examples_of(measures: pl.DataFrame, findings: pl.DataFrame, *, original: bool, seed: int) -> pl.DataFrame:
    """EXAMPLES of the ranges of means that are key findings: of each up to SHOWN answers, the most influential first.

    `influence` is the range with all answers minus the range without this one: what is left of its prompt's answers is averaged anew, and
    a prompt left with none is missing. Only answers that widen the range are shown, of both groups in turn where both have some. Among
    answers that widen it alike (the group next in line may set the limit), those that move their own group most come first, then seeded
    lots decide. An answer without which there is no range has no influence.

    Parameters
    ----------
    measures
        One row per attempt: `generation`, `subject` (group), `prompt_key`, `prompt_id`, `repetition` and the features' `value:` columns.
    findings
        FINDINGS of these measures; `context` is the generation, null where there is but one.
    original
        Whether a range over one group is 0, as the package `sagedbias` has it, or none.
    """
    shown = findings.filter(
        pl.col("key"), pl.col("metric").str.starts_with(METRIC), pl.col("subject").is_null(), pl.col("estimate").is_not_null()
    )
    tables = [pl.DataFrame(schema=EXAMPLES)]
    for metric, context in shown.select("metric", "context").iter_rows():
        mine = measures if context is None else measures.filter(pl.col("generation") == context)
        value = pl.col(f"{VALUE}{metric.removeprefix(METRIC)}").cast(pl.Float64)
        rows = mine.select("prompt_id", "repetition", "prompt_key", "subject", value=value).filter(pl.col("value").is_finite())
        made = _widening(rows, original=original, seed=seed).with_columns(metric=pl.lit(metric), context=pl.lit(context), subject=None)
        tables.append(made.select((pl.col(n) if n in made.columns else pl.lit(None)).cast(kind).alias(n) for n, kind in EXAMPLES.items()))
    return pl.concat(tables)


def _widening(answers: pl.DataFrame, *, original: bool, seed: int) -> pl.DataFrame:
    """`prompt_id`, `repetition` and `influence` of the answers shown. `answers` has `subject`, `prompt_key` and `value`."""
    import numpy as np

    found = _influences(answers, original=original).filter(pl.col("influence") > NOTHING)
    ranked = found.with_columns(
        *((pl.col(name) / pl.col(name).max()).round(ROUNDING).alias(f"of_{name}") for name in ("influence", "pull")),
        lot=pl.Series(np.random.default_rng(seed).permutation(found.height)),
    ).sort("of_influence", "of_pull", "lot", descending=[True, True, False])
    in_turn = ranked.with_columns(turn=pl.int_range(pl.len()).over("subject")).sort("turn", maintain_order=True)
    return in_turn.head(SHOWN).sort("of_influence", "of_pull", "lot", descending=[True, True, False])


def _influences(answers: pl.DataFrame, *, original: bool) -> pl.DataFrame:
    """The answers about the greatest and the least group with `influence`, where there is a range without one, and `pull`.

    That is how far the mean of the answer's own group moves without it; 0 where there is none then.
    """
    import numpy as np

    from tiltmeter.stats.disparity import COMPARISONS, Spread

    prompts = answers.group_by("subject", "prompt_key", maintain_order=True).agg(mean=pl.col("value").mean(), answers=pl.len())
    groups = (
        prompts.group_by("subject", maintain_order=True)
        .agg(total=pl.col("mean").sum(), prompts=pl.len())
        .sort("subject")
        .with_row_index("group")
    )
    means = (groups["total"] / groups["prompts"]).to_numpy()
    ends = sorted({int(np.argmax(means)), int(np.argmin(means))})
    rest = (pl.col("mean") * pl.col("answers") - pl.col("value")) / (pl.col("answers") - 1)
    alone = pl.col("answers") == 1
    mine = (
        answers.join(groups.filter(pl.col("group").is_in(ends)), on="subject", maintain_order="left")
        .join(prompts, on=["subject", "prompt_key"], maintain_order="left")
        .with_columns(total=pl.col("total") - pl.col("mean") + pl.when(alone).then(0.0).otherwise(rest), prompts=pl.col("prompts") - alone)
    )
    places = mine["group"].to_numpy()
    own = np.where(mine["prompts"] > 0, mine["total"] / mine["prompts"], np.nan)
    without = np.tile(means, (mine.height, 1))
    without[np.arange(mine.height), places] = own
    ranges = [COMPARISONS["range"].compute(Spread(values, original)) for values in (means[None], without)]
    pull = np.nan_to_num(np.abs(means[places] - own), nan=0.0)
    return mine.with_columns(influence=pl.Series(ranges[0] - ranges[1]), pull=pl.Series(pull)).filter(pl.col("influence").is_finite())
