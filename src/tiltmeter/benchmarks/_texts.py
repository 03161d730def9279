"""Answers, or values of features, that somebody else has: from a table straight to disparity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from tiltmeter.benchmarks._design import FACTORS
from tiltmeter.benchmarks._further import check_also
from tiltmeter.benchmarks._options import options_of
from tiltmeter.benchmarks._part import VALUE, Answers, check_features, whose
from tiltmeter.study import DESIGN, NO_TOOLS, Settings, Tools

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tiltmeter.datasets import Library
    from tiltmeter.measures.features import Feature

__all__ = ["OwnAnswers"]

ROLE = "none"


class OwnAnswers(Answers):
    """Answers nobody here asked for.

    Parameters
    ----------
    rows
        `text`, `identity`, `baseline`, `pair`, `prompt` (null where they are not known) and `value:NAME` columns.
    """

    name = "texts"
    title = "Answers of your own"

    def __init__(self, rows: pl.DataFrame) -> None:
        self._given = [name for name in rows.columns if name.startswith(VALUE)]
        self._has_text = rows["text"].null_count() < rows.height
        self._rows = rows.select("identity", "baseline", "pair", "prompt", *self._given)

    def design(self, library: Library, settings: Settings) -> pl.DataFrame:
        """One row per answer; answers that share a `pair` are one item."""
        options = options_of(settings)
        opened: Sequence[Feature] = ()
        if self._has_text:
            opened = check_features(options, library, has_baselines=self._rows["baseline"].null_count() < self._rows.height)
        row = pl.int_range(pl.len())
        pairs = pl.coalesce(pl.concat_str(pl.lit("pair "), "pair"), pl.concat_str(pl.lit("row "), row))
        made = self._rows.with_columns(
            prompt_id=pl.concat_str(pl.lit(f"{self.name}/"), row),
            part=pl.lit(self.name),
            item=pairs.rank("dense") - 1,
            prompt_index=pl.lit(0),
            wording=pl.lit("own"),
            system=pl.lit(None, pl.String),
            prompt=pl.col("prompt").fill_null(""),
            repetitions=pl.lit(1),
            first_sample=pl.lit(0),
            prompt_key=row.cast(pl.String),
            root=pairs,
            concept="identity",
            role=pl.lit(ROLE),
            template=pl.lit("own"),
            kind=pl.lit("given"),
            stratum="identity",
        )
        if self._has_text:
            check_also(pl.concat([made.select("root"), whose(made, options)], how="horizontal"), opened, options)
        columns = {**DESIGN, **FACTORS}
        core = (pl.col(n).cast(kind) if n in made.columns else pl.lit(None, kind).alias(n) for n, kind in columns.items())
        return made.select(*core, *self._given)

    def measure(self, answers: pl.DataFrame, settings: Settings, tools: Tools = NO_TOOLS) -> pl.DataFrame:
        """See Answers.measure; values measured elsewhere stand for those of a text that is not there."""
        if self._has_text:
            return super().measure(answers, settings, tools)
        first = pl.col(self._given[0])
        known = pl.any_horizontal(pl.col(name).is_not_null() for name in self._given)
        outcome = pl.when(known).then(pl.lit("answered")).otherwise(pl.lit("empty"))
        made = answers.select(outcome=outcome, label=pl.when(known).then(first.round(4).cast(pl.String)))
        return made.with_columns(whose(answers, options_of(settings)))
