"""How far the numbers of one run hang on how its questions were worded."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

import polars as pl

from tiltmeter import stats
from tiltmeter.comparing._sides import Side, models_of, opened
from tiltmeter.runs import Run, load
from tiltmeter.study import NAMED, Part, Settings

__all__ = ["WORDINGS", "wording_sensitivity"]

WORDINGS: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "model": pl.String,
    "part": pl.String,
    **dict.fromkeys(NAMED, pl.String),
    "wordings": pl.Int64,
    "spread": pl.Float64,  # greatest minus least value over the wordings
    "least": pl.String,  # the wording with the least value
    "greatest": pl.String,
    "p": pl.Float64,  # no difference between any two of them
    "q": pl.Float64,  # over all numbers of the model
    "how": pl.String,
}
"""One row per key metric that was asked in several wordings."""

HOW = "smallest p of all pairs of wordings, times their number; each pair over the same items"


def wording_sensitivity(run: Run | str | Path, model: str | None = None) -> pl.DataFrame:
    """How much each key metric differs between the wordings of a run (WORDINGS); no rows where there is one wording only.

    Each pair of wordings is contrasted over the items both were asked of, as two models would be. The spread is lifted by noise where
    wordings do not differ; p tells whether they do (Bonferroni over pairs).

    Parameters
    ----------
    model
        One model of the run; all by default.

    Raises
    ------
    InputError
        The run cannot be opened, or its study cannot be made again here.
    """
    opened_run = run if isinstance(run, Run) else load(run)
    found: list[pl.DataFrame] = []
    asked = opened_run.folder.scan("design").select("part", "wording").unique().collect()
    several = asked.group_by("part").len().filter(pl.col("len") > 1)["part"].sort().to_list()
    if several:
        parts, settings = opened(opened_run)
        for name in [model] if model is not None else models_of(opened_run):
            side = Side(opened_run, name)
            mine = [_of_part(parts[part], side, settings) for part in several if part in parts and part in side.parts]
            made = pl.concat([pl.DataFrame(schema=dict(WORDINGS)), *mine])
            p = made["p"].fill_null(float("nan")).to_numpy()
            found.append(made.with_columns(q=pl.Series(stats.benjamini_hochberg(p)).fill_nan(None)))
    return pl.concat([pl.DataFrame(schema=dict(WORDINGS)), *found])


def _of_part(part: Part, side: Side, settings: Settings) -> pl.DataFrame:
    measures = side.measures(part.name)
    key = side.findings.filter(pl.col("key"))["metric"].unique()
    wordings = measures["wording"].unique().sort().to_list()
    kept = side.kept(part.name)
    pairs = []
    for one, other in combinations(wordings, 2):
        rows = [measures.filter(pl.col("wording") == wording) for wording in (one, other)]
        made = part.contrast(rows[0], rows[1], settings, (kept, kept))
        if made is not None:
            pairs.append(made.filter(pl.col("metric").is_in(key.implode())).with_columns(one=pl.lit(one), other=pl.lit(other)))
    if not pairs:
        return pl.DataFrame(schema=dict(WORDINGS))
    whole = pl.concat(pairs)
    tested = whole.group_by(NAMED, maintain_order=True).agg(p=(pl.col("p").min() * pl.col("p").count()).clip(upper_bound=1.0))
    # The first wording is where the others are measured from.
    first = whole.filter(pl.col("one") == wordings[0])
    origin = first.unique(NAMED, maintain_order=True).with_columns(other=pl.lit(wordings[0]), difference=pl.lit(0.0))
    placed = (
        pl.concat([origin, first])
        .group_by(NAMED, maintain_order=True)
        .agg(
            wordings=pl.len().cast(pl.Int64),
            spread=pl.col("difference").max() - pl.col("difference").min(),
            least=pl.col("other").get(pl.col("difference").arg_min()),
            greatest=pl.col("other").get(pl.col("difference").arg_max()),
        )
    )
    made = placed.join(tested, on=NAMED, how="left", nulls_equal=True, maintain_order="left").with_columns(
        model=pl.lit(side.model), part=pl.lit(part.name), q=pl.lit(None), how=pl.lit(HOW)
    )
    return made.select(pl.col(name).cast(kind) for name, kind in WORDINGS.items())
