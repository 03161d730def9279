"""Further measures of the same answers: counterfactual pairs, toxicity of many answers to a prompt, words in company of groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from tiltmeter.benchmarks._options import Options
from tiltmeter.errors import InputError
from tiltmeter.study import FINDINGS, Settings, Tools

if TYPE_CHECKING:
    from tiltmeter.measures.features import Column, Feature, Measured

__all__ = ["TABLE", "check_also", "further", "further_findings"]

TABLE = "further"
"""The stage table, as the functions of `tiltmeter.benchmarks.counterfactual` give them, one below the other."""
TOXICITY = "toxicity"
COUNTERFACTUAL = {"parity", "overlap", "cosine"}
_NO_RANGE = "-P also=parity: {} has no known range; name a feature first that has one, such as vader"
_NO_TOXICITY = "-P also=toxicity needs that feature: give -P features=toxicity (with others, if you like)"
SHAPE: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "generation": pl.String,
    "metric": pl.String,
    "subject": pl.String,  # a group, or the two that are compared
    "target": pl.String,  # a word; null for the mean over words, and where there are none
    "estimate": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "p": pl.Float64,
    "q": pl.Float64,
    "chance": pl.Float64,
    "n": pl.Int64,
    "missing": pl.Int64,
    "interval": pl.String,
    "definition": pl.String,
    "note": pl.String,
}


def further(answers: pl.DataFrame, measured: Measured, settings: Settings, options: Options, tools: Tools) -> pl.DataFrame:
    """SHAPE of what `-P also=` asks for, for each generation.

    Parameters
    ----------
    answers
        `generation`, `subject`, `root`, `prompt_key`, `text` (null where there is none to measure), and the names of groups.
    measured
        The features of the same rows.

    Raises
    ------
    InputError
        Toxicity without that feature.
    """
    also = set(options.also) if _branched(answers) else set(options.also) - COUNTERFACTUAL
    tables = [
        _shaped(table, str(generation))
        for (generation,), rows in answers.with_row_index("row").group_by("generation", maintain_order=True)
        for table in _tables(rows, measured, settings, options, also, tools)
    ]
    return pl.concat(tables) if tables else pl.DataFrame(schema=SHAPE)


def check_also(prompts: pl.DataFrame, features: Sequence[Feature], options: Options) -> None:
    """Raises InputError where something `-P also=` asks for cannot be had of these prompts (`root`, `subject`) and features."""
    if not _branched(prompts) and (needing := COUNTERFACTUAL & set(options.also)):
        raise InputError(
            f"-P also={min(needing)}: it compares answers to the same prompt about several groups, and no prompt here is branched"
        )
    if "parity" in options.also and not all(_has_range(column) for column in features[0].columns[:1]):
        raise InputError(_NO_RANGE.format(features[0].name))
    if TOXICITY in options.also and TOXICITY not in [feature.name for feature in features]:
        raise InputError(_NO_TOXICITY)


def _branched(rows: pl.DataFrame) -> bool:
    shared = rows.group_by("root").agg(pl.col("subject").n_unique())["subject"].max()
    return isinstance(shared, int) and shared > 1


def _has_range(column: Column) -> bool:
    return column.low is not None and column.high is not None


def _tables(
    rows: pl.DataFrame, measured: Measured, settings: Settings, options: Options, also: set[str], tools: Tools
) -> Iterator[pl.DataFrame]:
    from tiltmeter.benchmarks.counterfactual import cooccurrence_bias, counterfactual, stereotypical_associations, toxicity

    drawn: dict[str, Any] = {"level": settings.level, "resamples": settings.resamples, "seed": settings.seed}
    pairs: dict[str, Any] = {"unit": "root", "group": "subject", **drawn}
    if "parity" in also:
        column = measured.columns[0]
        if column.low is None or column.high is None:
            raise InputError(_NO_RANGE.format(column.name))
        score = (measured.values[column.name].gather(rows["row"]) - column.low) / (column.high - column.low)
        found = counterfactual(rows.with_columns(score=score), score="score", **pairs)
        yield found.with_columns(metric=pl.concat_str("metric", pl.lit(f"_{column.name}")))
    if {"overlap", "cosine"} & also:
        encoder = tools.encoder(options.encoder) if "cosine" in also else None
        found = counterfactual(rows, text="text", encoder=encoder, mask=_names(rows), permutations=0, **pairs)
        yield found if "overlap" in also else found.filter(pl.col("metric") == "cosine")
    if "toxicity" in also:
        if TOXICITY not in measured.values.columns:
            raise InputError(_NO_TOXICITY)
        scored = rows.with_columns(score=measured.values[TOXICITY].gather(rows["row"]))
        yield toxicity(scored, prompt="prompt_key", score="score", group="subject", **drawn)
    if "words" in also:
        yield stereotypical_associations(rows["text"], **drawn)
        yield cooccurrence_bias(rows["text"], **drawn)


def _names(rows: pl.DataFrame) -> list[str]:
    naming = [name for name in ("concept", "keyword") if name in rows.columns]
    return pl.concat([rows[name] for name in naming]).drop_nulls().unique().sort().to_list()


def _shaped(table: pl.DataFrame, generation: str) -> pl.DataFrame:
    if "group_a" in table.columns:
        table = table.with_columns(subject=pl.concat_str("group_a", pl.lit(" / "), "group_b"))
    elif "group" in table.columns:
        table = table.with_columns(subject="group")
    table = table.with_columns(generation=pl.lit(generation))
    return table.select((pl.col(n) if n in table.columns else pl.lit(None)).cast(kind).alias(n) for n, kind in SHAPE.items())


def further_findings(table: pl.DataFrame, shared: Mapping[str, Any], *, several: bool, evidence: str) -> pl.DataFrame:
    """FINDINGS of what `further` gave; single words stay in the table."""
    found = table.filter(pl.col("target").is_null()).rename({"definition": "description"})
    found = found.with_columns(
        **{name: pl.lit(value) for name, value in shared.items()},
        context=pl.when(pl.lit(several)).then("generation"),
        answered="n",
        null="chance",
        key=pl.lit(False),
        evidence=pl.lit(evidence),
        resampled=pl.lit("prompts with all their branches"),
    )
    return found.select((pl.col(n) if n in found.columns else pl.lit(None)).cast(kind).alias(n) for n, kind in FINDINGS.items())
