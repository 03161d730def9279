"""Further measures of the same answers, requested with `-P also=`: parity, overlap, toxicity, words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import polars as pl
from polars import DataFrame, col, lit

from tiltmeter.benchmarks._groups import has_pairs, names_in_prompts, paired_by_topic
from tiltmeter.benchmarks._options import BenchmarkOptions
from tiltmeter.benchmarks._tables import FURTHER
from tiltmeter.errors import InputError
from tiltmeter.schema import conform
from tiltmeter.study import Settings, Tools

if TYPE_CHECKING:
    from tiltmeter.features import Feature, FeatureColumn, Measured

TOXICITY: Final = "toxicity"
COUNTERFACTUAL: Final = frozenset({"parity", "overlap", "cosine"})
"""Measures that compare answers to the same prompt about several groups."""
NEEDS_TOXICITY = "-P also=toxicity requires the feature toxicity; add it with -P features=toxicity"


def further_measures(
    answers: DataFrame, measured: Measured, settings: Settings, options: BenchmarkOptions, tools: Tools
) -> DataFrame:
    """Compute FURTHER, the measures requested with `-P also=`, for each generation.

    Parameters
    ----------
    answers
        `generation`, `subject`, `root`, `prompt_key`, `text` (null if there is none to measure), and the
        names of groups.
    measured
        The features of the same rows.
    settings, options, tools
        Settings of the study, options of the benchmark, and access to encoders.

    Raises
    ------
    InputError
        Toxicity is requested without the feature toxicity.
    """
    requested = set(options.also)
    if not _is_branched(answers):
        requested -= COUNTERFACTUAL
    tables = [DataFrame(schema=FURTHER)]
    by_generation = answers.with_row_index("row").group_by("generation", maintain_order=True)
    for (generation,), rows in by_generation:
        tables += [
            conform(table.with_columns(generation=lit(generation)), FURTHER)
            for table in _tables(rows, measured, settings, options.encoder, requested, tools)
        ]
    return pl.concat(tables)


def check_also(prompts: DataFrame, features: Sequence[Feature], options: BenchmarkOptions) -> None:
    """Raise InputError if a measure requested with `-P also=` is not possible.

    `prompts` has `root` and `subject`.
    """
    needs_branches = COUNTERFACTUAL & set(options.also)
    if needs_branches and not _is_branched(prompts):
        raise InputError(
            f"-P also={min(needs_branches)}: the measure compares answers to the same prompt about several "
            "groups; no prompt here is branched"
        )
    if "parity" in options.also and features[0].columns:
        _range_of(features[0].columns[0], features[0].name)
    if TOXICITY in options.also and TOXICITY not in [feature.name for feature in features]:
        raise InputError(NEEDS_TOXICITY)


def _is_branched(rows: DataFrame) -> bool:
    return has_pairs(rows, "subject") and not paired_by_topic(rows)


def _range_of(column: FeatureColumn, name: str) -> tuple[float, float]:
    if column.low is None or column.high is None:
        raise InputError(
            f"-P also=parity: {name} has no known range; "
            "put a feature with a known range first, such as vader"
        )
    return column.low, column.high


def _tables(
    rows: DataFrame, measured: Measured, settings: Settings, encoder: str, requested: set[str], tools: Tools
) -> Iterator[DataFrame]:
    """Yield a table of each requested measure of the answers of one generation."""
    from tiltmeter.benchmarks._word_company import cooccurrence_bias, stereotypical_associations
    from tiltmeter.benchmarks.counterfactual import counterfactual, toxicity

    resampling: dict[str, Any] = {
        "level": settings.level,
        "resamples": settings.resamples,
        "seed": settings.seed,
    }
    pairs: dict[str, Any] = {"unit": "root", "group": "subject", **resampling}
    sides = {"group_a": "group", "group_b": "group_2"}

    def scored(column: str, low: float = 0.0, high: float = 1.0) -> DataFrame:
        values = measured.values[column].gather(rows["row"])
        return rows.with_columns(score=(values - low) / (high - low))

    if "parity" in requested:
        column = measured.columns[0]
        low, high = _range_of(column, column.name)
        parity = counterfactual(scored(column.name, low, high), score="score", **pairs)
        yield parity.rename(sides).with_columns(feature=lit(column.name))
    if {"overlap", "cosine"} & requested:
        opened = tools.encoder(encoder) if "cosine" in requested else None
        names = names_in_prompts(rows)
        similarities = counterfactual(
            rows, text="text", encoder=opened, mask=names, permutations=0, **pairs
        ).rename(sides)
        yield similarities if "overlap" in requested else similarities.filter(col.metric == "cosine")
    if TOXICITY in requested:
        if TOXICITY not in measured.values.columns:
            raise InputError(NEEDS_TOXICITY)
        yield toxicity(scored(TOXICITY), prompt="prompt_key", score="score", group="subject", **resampling)
    if "words" in requested:
        yield stereotypical_associations(rows["text"], **resampling)
        yield cooccurrence_bias(rows["text"], **resampling).rename(sides)
