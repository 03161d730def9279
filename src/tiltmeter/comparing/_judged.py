"""Findings of two sides beside each other, with differences, q-values and verdicts."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from tiltmeter import stats
from tiltmeter.comparing._worse import VERDICTS, verdict_of
from tiltmeter.study import CONTRASTS, NAMED

__all__ = ["DIFFERENCES", "VERDICTS", "judged_differences"]

DIFFERENCES: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "part": pl.String,
    **dict.fromkeys(NAMED, pl.String),
    "first": pl.Float64,  # the first side's estimate, as its run gives it; null where it has none
    "second": pl.Float64,
    "difference": pl.Float64,  # second minus first, over the prompts both have
    "low": pl.Float64,
    "high": pl.Float64,
    "level": pl.Float64,
    "p": pl.Float64,
    "q": pl.Float64,  # over all key metrics; over all other numbers; over all single concepts of a part and metric
    "verdict": pl.String,  # of VERDICTS; null where a number is not a key metric
    "note": pl.String,
    "first_mark": pl.String,
    "second_mark": pl.String,
    "key": pl.Boolean,
    "harm": pl.String,
    "n": pl.Int64,
    "paired": pl.Boolean,
    "how": pl.String,
    "description": pl.String,
}
"""One row per number that both sides have."""

ALONE = "the intervals of both sides, taken as independent"
NO_INTERVAL = "none: a side has no interval"
_OWN = ("estimate", "low", "high", "mark", "read")
_SHARED = ("level", "key", "harm", "null", "range_low", "range_high", "bands", "description", "items")
_KEYS = ("part", *NAMED)


def judged_differences(first: pl.DataFrame, second: pl.DataFrame, contrasts: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """DIFFERENCES of two sides.

    Parameters
    ----------
    first, second
        FINDINGS of one model each.
    contrasts
        CONTRASTS by part. A number of a part that its contrasts do not hold is compared by the intervals of both sides, taken as
        independent; so are all numbers of a part without contrasts. A finding about a single concept is in a run because it was found,
        which is no fair sample of what there is to compare: single concepts are compared by contrasts only.

    Returns
    -------
    Three kinds of families have q-values of their own (Benjamini-Hochberg): the key metrics, which were named beforehand and of which
    verdicts are given; all other numbers; the single concepts of each part and metric.
    """
    beside = _beside(first, second)
    told = [rows.with_columns(part=pl.lit(part)) for part, rows in contrasts.items()]
    paired = pl.concat([pl.DataFrame(schema={**CONTRASTS, "part": pl.String}), *(one.select(*CONTRASTS, "part") for one in told)])
    met = beside.join(paired, on=_KEYS, how="left", nulls_equal=True, maintain_order="left")
    whole = pl.concat([_by_intervals(met), _of_contrasts_alone(paired, beside, first)], how="diagonal")
    judged = _with_verdicts(_with_q(whole))
    return judged.select(pl.col(name).cast(kind) for name, kind in DIFFERENCES.items())


def _beside(first: pl.DataFrame, second: pl.DataFrame) -> pl.DataFrame:
    """The numbers both sides have, single concepts excepted."""
    read = pl.when(pl.col("n") > 0).then(pl.col("answered") / pl.col("n")).alias("read")
    sides = []
    for findings, name in ((first, "first"), (second, "second")):
        made = findings.filter(pl.col("concept").is_null()).with_columns(read, part=pl.col("study").str.split("/").list.last())
        made = made.unique(_KEYS, keep="first", maintain_order=True)
        own = {"estimate": name, **{one: f"{name}_{one}" for one in _OWN[1:]}}
        sides.append(made.select(*_KEYS, *_OWN, *(_SHARED if name == "first" else ["items"])).rename(own))
    return sides[0].join(sides[1], on=_KEYS, nulls_equal=True, maintain_order="left", suffix="_second")


def _by_intervals(met: pl.DataFrame) -> pl.DataFrame:
    """Rows no contrast was made of: both sides' intervals decide."""
    sides = {
        end: met.select(f"first{end}", f"second{end}").cast(pl.Float64).fill_null(float("nan")).to_numpy() for end in ("", "_low", "_high")
    }
    level: float = met["level"][0] if met.height else 0.95
    found = stats.independent_difference(sides[""], sides["_low"], sides["_high"], level)
    lacking = pl.col("how").is_null()
    own = {"difference": sides[""][:, 1] - sides[""][:, 0], **found._asdict()}
    filled = [pl.when(lacking).then(pl.Series(values).fill_nan(None)).otherwise(name).alias(name) for name, values in own.items()]
    n = pl.when(lacking).then(pl.min_horizontal("items", "items_second")).otherwise("n").alias("n")
    known = pl.Series(found.low).is_not_nan()
    how = pl.when(lacking).then(pl.when(known).then(pl.lit(ALONE)).otherwise(pl.lit(NO_INTERVAL))).otherwise("how").alias("how")
    return met.with_columns(*filled, n, how, pl.col("paired").fill_null(False))


def _of_contrasts_alone(paired: pl.DataFrame, beside: pl.DataFrame, first: pl.DataFrame) -> pl.DataFrame:
    """Contrasts of what is no finding on both sides, such as a concept's rate."""
    level, harm = first["level"].first(), first.select("harm", part=pl.col("study").str.split("/").list.last()).unique("part")
    own = paired.join(beside, on=_KEYS, how="anti", nulls_equal=True, maintain_order="left")
    return own.with_columns(level=pl.lit(level, pl.Float64), key=pl.lit(False)).join(harm, on="part", how="left", maintain_order="left")


def _with_q(whole: pl.DataFrame) -> pl.DataFrame:
    single = pl.col("concept").is_not_null()
    family = (
        pl.when(single)
        .then(pl.concat_str(pl.lit("concepts"), "part", "metric", separator="/"))
        .when(pl.col("key").fill_null(False))
        .then(pl.lit("key"))
    )
    names = whole.select(family.otherwise(pl.lit("other")).alias("family"))["family"]
    p = whole["p"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    q = p.copy()
    for name in names.unique():
        mine = (names == name).to_numpy()
        q[mine] = stats.benjamini_hochberg(p[mine])
    return whole.with_columns(q=pl.Series(q).fill_nan(None))


def _with_verdicts(whole: pl.DataFrame) -> pl.DataFrame:
    key, others = whole.filter(pl.col("key").fill_null(False)), whole.filter(~pl.col("key").fill_null(False))
    said = [verdict_of(row, 1.0 - row["level"]) for row in key.iter_rows(named=True)]
    verdicts = pl.DataFrame(said, schema={"verdict": pl.String, "note": pl.String}, orient="row")
    return pl.concat([pl.concat([key, verdicts], how="horizontal"), others], how="diagonal")
