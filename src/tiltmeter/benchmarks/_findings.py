"""From measured answers to findings: statistics of each group, and disparity over the groups, for every generation and feature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from tiltmeter.benchmarks._design import BASELINES
from tiltmeter.benchmarks._further import TABLE, further_findings
from tiltmeter.benchmarks._options import Options
from tiltmeter.study import FINDINGS, OUTCOMES, Settings, Tools

if TYPE_CHECKING:
    from tiltmeter.benchmarks.diagnosis import Diagnosis
    from tiltmeter.study import Part

__all__ = ["HARM", "SHOWN", "Column", "Wide", "findings_of", "wide_of"]

HARM = "representational_harms"
VALUE, BASELINE = "value:", "baseline:"
CALIBRATED = "_calibrated"
SHOWN = ("range", "ratio", "sd", "max_abs_z", "dixon_q")
"""Comparisons that are findings; all of them are in the table `disparities`."""
KEY = (("range", "mean"), ("ratio", "selection_rate"))
"""(comparison, statistic) shown first."""
NULLS = {"range": 0.0, "sd": 0.0, "ratio": 1.0}
PERMUTATIONS = 1000

_COMPARED = {
    "range": "Largest minus smallest {statistic} of {feature} over the groups",
    "ratio": "Smallest over largest {statistic} of {feature} over the groups (impact ratio; below 0.8 fails the four-fifths rule)",
    "sd": "Standard deviation over the groups of the {statistic} of {feature}",
    "max_abs_z": "Largest distance of a group's {statistic} of {feature} from the groups' mean, in standard deviations",
    "dixon_q": "Dixon's Q of the outermost group's {statistic} of {feature}",
}


class Column(NamedTuple):
    """A column of the wide table: a feature of a generation."""

    name: str
    generation: str
    feature: str
    baseline: str | None
    """Its baseline's column."""


class Wide(NamedTuple):
    """One row per prompt, a column per generation and feature."""

    table: pl.DataFrame
    columns: list[Column]
    unit: str | None


def findings_of(measures: pl.DataFrame, part: Part, settings: Settings, options: Options, tools: Tools) -> pl.DataFrame:
    """FINDINGS of one model and part; keeps the tables `statistics`, `disparities` and `groups`."""
    from tiltmeter.benchmarks.diagnosis import DEFAULT_STATISTICS, diagnose, overall_means

    measures = measures.rename({"subject": "group"})
    shared = {
        "study": f"benchmarks/{part.name}",
        "level": settings.level,
        "definition": settings.definition,
        "harm": HARM,
    }
    wide = wide_of(measures)
    if measures["group"].n_unique() < 2:
        return _nothing_to_compare(measures, wide, part, shared)
    statistics = options.statistics or DEFAULT_STATISTICS
    columns = [column.name for column in wide.columns]
    baselines = {column.name: column.baseline for column in wide.columns if column.baseline}
    found = diagnose(
        wide.table,
        groups=["group"],
        columns=columns,
        baselines=baselines,
        unit=wide.unit,
        statistics=statistics,
        definition=options.definition,
        level=settings.level,
        resamples=settings.resamples,
        permutations=PERMUTATIONS,
        seed=settings.seed,
    )
    named = pl.DataFrame([column._asdict() for column in wide.columns]).select("generation", "feature", column="name")
    tables = [table.join(named, on="column", how="left", maintain_order="left").drop("column") for table in found]
    for name, table in zip(("statistics", "disparities", "groups"), tables, strict=True):
        tools.keep(name, table)
    several = measures["generation"].n_unique() > 1 or any(column.generation == BASELINES for column in wide.columns)
    means = overall_means(
        wide.table, columns, group="group", unit=wide.unit, level=settings.level, resamples=settings.resamples, seed=settings.seed
    )
    findings = _as_findings(found, means, measures, wide, part, shared, several=several)
    if not options.also:
        return findings
    return pl.concat([findings, further_findings(tools.kept(TABLE), shared, several=several, evidence=f"part = {_literal(part.name)}")])


def _nothing_to_compare(measures: pl.DataFrame, wide: Wide, part: Part, shared: dict[str, Any]) -> pl.DataFrame:
    """FINDINGS where there are responses about one group only: no number, why, and how the attempts ended."""
    group = measures["group"][0]
    columns = pl.DataFrame([column._asdict() for column in wide.columns if column.generation != BASELINES]).select("generation", "feature")
    compared = columns.join(pl.DataFrame(KEY, schema=["comparison", "statistic"], orient="row"), how="cross").with_columns(
        metric=pl.concat_str("comparison", "statistic", "feature", separator="_"), key=_key(), description=_described()
    )
    of_group = columns.with_columns(
        metric=pl.concat_str(pl.lit("mean_"), "feature"),
        subject=pl.lit(group),
        key=pl.lit(False),
        description=pl.format("mean of {} of the answers about the group", "feature"),
    )
    made = pl.concat([compared, of_group], how="diagonal").join(_counts(measures, []).drop("group"), on="generation", how="left")
    return _shaped(
        made.with_columns(
            **{name: pl.lit(value) for name, value in shared.items()},
            context=pl.when(pl.lit(measures["generation"].n_unique() > 1)).then("generation"),
            note=pl.lit(f"all responses are about {group}: at least two groups are needed"),
            evidence=pl.lit(f"part = {_literal(part.name)}") + _of_generation(),
        )
    )


def wide_of(measures: pl.DataFrame) -> Wide:
    """Mean over the answers to a prompt of each feature of each generation, of the baselines once, and calibrated."""
    from tiltmeter.benchmarks.diagnosis import calibrate

    features = [name.removeprefix(VALUE) for name in measures.columns if name.startswith(VALUE)]
    of_prompts = ["prompt_key", "group", "root"]
    table = measures.group_by(of_prompts, maintain_order=True).agg(
        pl.col(f"{BASELINE}{one}").drop_nulls().first().alias(f"{BASELINES}:{one}")
        for one in features
        if f"{BASELINE}{one}" in measures.columns
    )
    based = [name for name in table.columns if name not in of_prompts and table[name].null_count() < table.height]
    table = table.select(*of_prompts, *based)
    columns = [Column(name, BASELINES, name.removeprefix(f"{BASELINES}:"), None) for name in based]
    pairs: dict[str, str] = {}
    for generation in measures["generation"].unique(maintain_order=True):
        mine = (
            measures.filter(pl.col("generation") == generation)
            .group_by("prompt_key")
            .agg(pl.col(f"{VALUE}{one}").mean() for one in features)
        )
        mine = mine.rename({f"{VALUE}{one}": f"{generation}:{one}" for one in features})
        table = table.join(mine, on="prompt_key", how="left", maintain_order="left")
        for one in features:
            baseline = f"{BASELINES}:{one}"
            columns.append(Column(f"{generation}:{one}", generation, one, baseline if baseline in based else None))
            if baseline in based and not _is_distance(one):
                pairs[f"{generation}:{one}"] = baseline
    table = calibrate(table, pairs)
    columns += [
        Column(f"{column.name}{CALIBRATED}", column.generation, f"{column.feature}{CALIBRATED}", None)
        for column in columns
        if column.name in pairs
    ]
    shared = table.group_by("root").agg(pl.col("group").n_unique())["group"].max()
    return Wide(table, columns, "root" if isinstance(shared, int) and shared > 1 else None)


def _is_distance(feature: str) -> bool:
    """A distance from the baseline is calibrated already."""
    from tiltmeter.measures.features import FEATURES

    return any(column.name == feature and not column.calibrated for one in FEATURES.values() for column in one.columns)


def _as_findings(
    found: Diagnosis, means: pl.DataFrame, measures: pl.DataFrame, wide: Wide, part: Part, shared: dict[str, Any], *, several: bool
) -> pl.DataFrame:
    named = pl.DataFrame([column._asdict() for column in wide.columns]).select("generation", "feature", column="name")
    counts = pl.concat([_counts(measures, []), _counts(measures, ["group"])], how="diagonal")
    resampled = "prompts with all their branches" if wide.unit else "prompts within each group"
    context = pl.when(pl.lit(several)).then("generation")
    inside = pl.lit(f"part = {_literal(part.name)}") + _of_generation()
    of_all = counts.filter(pl.col("group").is_null()).drop("group")
    overall = (
        means.join(named, on="column", maintain_order="left")
        .join(of_all, on="generation", how="left", maintain_order="left")
        .with_columns(
            metric=pl.concat_str(pl.lit("mean_"), "feature"),
            context=context,
            key=pl.lit(False),
            description=pl.format("Mean of {} over all prompts, whichever group they are about", "feature"),
            evidence=inside,
        )
    )
    disparities = (
        found.disparities.filter(pl.col("comparison").is_in(SHOWN))
        .join(named, on="column", maintain_order="left")
        .join(of_all, on="generation", how="left", maintain_order="left")
        .with_columns(
            metric=pl.concat_str("comparison", "statistic", "feature", separator="_"),
            context=context,
            null=pl.col("comparison").replace_strict(NULLS, default=None, return_dtype=pl.Float64),
            range_low=pl.lit(0.0),
            range_high=pl.when(pl.col("comparison") == "ratio").then(1.0),
            key=_key(),
            description=_described(),
            note=_note(),
            evidence=inside,
        )
    )
    statistics = (
        found.statistics.drop("n")
        .join(named, on="column", maintain_order="left")
        .join(
            found.groups.drop_nulls("z").select("statistic", "column", "group", "z", "impact_ratio"),
            on=["statistic", "column", "group"],
            how="left",
            maintain_order="left",
        )
        .join(counts.drop_nulls("group"), on=["generation", "group"], how="left", maintain_order="left")
        .with_columns(
            metric=pl.concat_str("statistic", "feature", separator="_"),
            subject="group",
            context=context,
            key=pl.lit(False),
            description=pl.format("{} of {} of the answers about the group", pl.col("statistic").str.replace_all("_", " "), "feature"),
            note=pl.format("z {}", pl.col("z").round(2)),
            evidence=inside + _equal("subject", "group"),
        )
    )
    made = [
        table.with_columns(**{name: pl.lit(value) for name, value in shared.items()}, resampled=pl.lit(resampled))
        for table in (disparities, overall, statistics)
    ]
    made = [table.with_columns(interval=pl.lit("bootstrap percentile")) for table in made]
    return pl.concat([_shaped(table) for table in made])


def _counts(measures: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """How the attempts ended, of each generation (and group); those of the baselines are the prompts'."""
    outcomes = [(pl.col("outcome") == one).sum().cast(pl.Int64).alias(one) for one in OUTCOMES]
    every = measures.group_by("generation", *by).agg(
        pl.len().cast(pl.Int64).alias("n"), pl.col("item").n_unique().cast(pl.Int64).alias("items"), *outcomes
    )
    prompts = (
        measures.unique("prompt_key")
        .group_by(by or [pl.lit("all").alias("all")])
        .agg(n=pl.len().cast(pl.Int64), items=pl.col("item").n_unique().cast(pl.Int64))
    )
    zero = {one: pl.lit(0, pl.Int64) for one in OUTCOMES}
    baselines = prompts.with_columns(**zero).with_columns(generation=pl.lit(BASELINES), answered="n")
    both = pl.concat([every, baselines.select(every.columns)])
    return both if by else both.with_columns(group=pl.lit(None, pl.String))


def _of_generation() -> pl.Expr:
    """Which answers a number rests on; the baselines have none of their own, so all prompts stand behind them."""
    return pl.when(pl.col("generation") == BASELINES).then(pl.lit("")).otherwise(_equal("generation", "generation"))


def _equal(column: str, name: str) -> pl.Expr:
    quoted = pl.col(name).str.replace_all("'", "''", literal=True)
    return pl.concat_str(pl.lit(f" AND {column} = '"), quoted, pl.lit("'"))


def _key() -> pl.Expr:
    chosen = pl.any_horizontal((pl.col("comparison") == comparison) & (pl.col("statistic") == statistic) for comparison, statistic in KEY)
    return chosen & (pl.col("generation") != BASELINES) & ~pl.col("feature").str.ends_with(CALIBRATED)


def _described() -> pl.Expr:
    written = pl.col("comparison").replace_strict(_COMPARED, return_dtype=pl.String)
    named = written.str.replace("{statistic}", pl.col("statistic").str.replace_all("_", " "), literal=True)
    return named.str.replace("{feature}", pl.col("feature"), literal=True)


def _note() -> pl.Expr:
    pieces = [pl.col("note"), pl.format("about {}", "group"), pl.col("reading")]
    return pl.concat_str(pieces, separator="; ", ignore_nulls=True)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _shaped(table: pl.DataFrame) -> pl.DataFrame:
    return table.select((pl.col(name) if name in table.columns else pl.lit(None)).cast(kind).alias(name) for name, kind in FINDINGS.items())
