"""Further measures of the same answers: counterfactual pairs, toxicity of many answers to a prompt, words in company of groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from tiltmeter.benchmarks.configurations import BenchmarkOptions
from tiltmeter.errors import InputError
from tiltmeter.study import Schema, Settings, Tools, conform

if TYPE_CHECKING:
    from tiltmeter.features import Feature, FeatureColumn, Measured

TOXICITY = "toxicity"
COUNTERFACTUAL = {"parity", "overlap", "cosine"}
_NO_TOXICITY = "-P also=toxicity needs that feature: give -P features=toxicity (with others, if you like)"
FURTHER: Schema = {
    **dict.fromkeys(("generation", "metric"), pl.String),
    "feature": pl.String,  # the one whose values are compared; null where texts are
    "group": pl.String,  # null where the number is about no single group
    "group_2": pl.String,  # the group it is compared with
    "target": pl.String,  # a word; null for the mean over words, and where there are none
    **dict.fromkeys(("estimate", "low", "high", "p", "q"), pl.Float64),
    "chance": pl.Float64,  # what exchanged groups, or answers about one and the same group, give
    **dict.fromkeys(("n", "missing"), pl.Int64),
    **dict.fromkeys(("interval", "definition", "note"), pl.String),
}


def further(answers: pl.DataFrame, measured: Measured, settings: Settings, options: BenchmarkOptions, tools: Tools) -> pl.DataFrame:
    """FURTHER of what `-P also=` asks for, for each generation.

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
    tables = [pl.DataFrame(schema=FURTHER)]
    for (generation,), rows in answers.with_row_index("row").group_by("generation", maintain_order=True):
        made = _tables(rows, measured, settings, options.encoder, also, tools)
        tables += [conform(table.with_columns(generation=pl.lit(generation)), FURTHER) for table in made]
    return pl.concat(tables)


def check_also(prompts: pl.DataFrame, features: Sequence[Feature], options: BenchmarkOptions) -> None:
    """Raises InputError where something `-P also=` asks for cannot be had of these prompts (`root`, `subject`) and features."""
    if not _branched(prompts) and (needing := COUNTERFACTUAL & set(options.also)):
        raise InputError(
            f"-P also={min(needing)}: it compares answers to the same prompt about several groups, and no prompt here is branched"
        )
    if "parity" in options.also:
        for column in features[0].columns[:1]:
            _range_of(column, features[0].name)
    if TOXICITY in options.also and TOXICITY not in [feature.name for feature in features]:
        raise InputError(_NO_TOXICITY)


def _branched(rows: pl.DataFrame) -> bool:
    return bool(rows.select((pl.col("subject").n_unique().over("root") > 1).any()).item())


def _range_of(column: FeatureColumn, name: str) -> tuple[float, float]:
    if column.low is None or column.high is None:
        raise InputError(f"-P also=parity: {name} has no known range; name a feature first that has one, such as vader")
    return column.low, column.high


def names_of(answers: pl.DataFrame) -> list[str]:
    """Names of groups that the prompts hold."""
    naming = [name for name in ("concept", "keyword") if name in answers.columns]
    return pl.concat([answers[name] for name in naming]).drop_nulls().unique().sort().to_list()


def _tables(
    rows: pl.DataFrame, measured: Measured, settings: Settings, encoder: str, also: set[str], tools: Tools
) -> Iterator[pl.DataFrame]:
    from tiltmeter.benchmarks.counterfactual import cooccurrence_bias, counterfactual, stereotypical_associations, toxicity

    drawn: dict[str, Any] = {"level": settings.level, "resamples": settings.resamples, "seed": settings.seed}
    pairs: dict[str, Any] = {"unit": "root", "group": "subject", **drawn}
    sides = {"group_a": "group", "group_b": "group_2"}

    def scored(column: str, low: float = 0.0, high: float = 1.0) -> pl.DataFrame:
        return rows.with_columns(score=(measured.values[column].gather(rows["row"]) - low) / (high - low))

    if "parity" in also:
        column = measured.columns[0]
        found = counterfactual(scored(column.name, *_range_of(column, column.name)), score="score", **pairs)
        yield found.rename(sides).with_columns(feature=pl.lit(column.name))
    if {"overlap", "cosine"} & also:
        opened = tools.encoder(encoder) if "cosine" in also else None
        found = counterfactual(rows, text="text", encoder=opened, mask=names_of(rows), permutations=0, **pairs).rename(sides)
        yield found if "overlap" in also else found.filter(pl.col("metric") == "cosine")
    if TOXICITY in also:
        if TOXICITY not in measured.values.columns:
            raise InputError(_NO_TOXICITY)
        yield toxicity(scored(TOXICITY), prompt="prompt_key", score="score", group="subject", **drawn)
    if "words" in also:
        yield stereotypical_associations(rows["text"], **drawn)
        yield cooccurrence_bias(rows["text"], **drawn).rename(sides)
