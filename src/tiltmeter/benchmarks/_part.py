"""A part of a study of benchmarks: prompts about groups, asked in every configuration; or answers somebody else has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from tiltmeter.benchmarks._design import Configurations, make_design
from tiltmeter.benchmarks._findings import HARM
from tiltmeter.benchmarks._further import TABLE, check_also, further
from tiltmeter.benchmarks._options import Options, options_of
from tiltmeter.errors import InputError
from tiltmeter.measures import refused_text
from tiltmeter.study import NO_TOOLS, Part, Settings, Tools

if TYPE_CHECKING:
    from tiltmeter.datasets import Library
    from tiltmeter.measures.features import Feature, Measured

__all__ = ["BASELINE", "VALUE", "Answers", "BenchmarkPart"]

VALUE, BASELINE = "value:", "baseline:"
"""What the columns of `measures` begin with that hold a feature of the answer, and of its baseline."""
PLACES = 4
"""Decimals of a label."""
EVEN = 0.5
"""The selection rate expected before anything is known; it is also the one that can be told least precisely."""


class Answers(Part):
    """Answers about groups: features of each, and of the baseline beside it."""

    harms = (HARM,)

    def measure(self, answers: pl.DataFrame, settings: Settings, tools: Tools = NO_TOOLS) -> pl.DataFrame:
        """See Part.measure: `value:FEATURE` and `baseline:FEATURE` of every feature's columns; keeps the table `unscored`.

        An answer that declines, or whose text no feature could score, has no values: missing, never neutral. The label of an attempt
        is its first feature's value.
        """
        declined = refused_text(answers["answer"]) | answers["refusal"].is_not_null()
        blank = answers["answer"].is_null() | (answers["answer"].str.strip_chars() == "")
        read = (answers["status"] == "ok") & ~declined & ~blank
        texts = answers.select(pl.when(read).then("answer")).to_series()
        has_baselines = "baseline" in answers.columns and answers["baseline"].null_count() < answers.height
        found = self.features(texts, answers["baseline"] if has_baselines else None, options_of(settings), tools)
        tools.keep("unscored", _unscored(found))
        for sentence in _without_value(found, texts):
            tools.problem(sentence)
        groups = whose(answers, options_of(settings))
        if options_of(settings).also:
            told = pl.concat([answers.select(pl.exclude("subject", "generation")), groups], how="horizontal").with_columns(text=texts)
            tools.keep(TABLE, further(told, found, settings, options_of(settings), tools))
        scored = found.values.select(pl.any_horizontal(pl.all().is_not_null())).to_series()
        outcome = (
            pl.when(answers["status"] != "ok").then(pl.lit("failed"))
            .when(declined).then(pl.lit("refused"))
            .when(blank).then(pl.lit("empty"))
            .when(scored).then(pl.lit("answered"))
            .otherwise(pl.lit("unreadable"))
        )  # fmt: skip
        values = pl.concat([found.values, self.clusters(texts, answers, settings, tools)], how="horizontal").rename(
            lambda name: f"{VALUE}{name}"
        )
        made = [values] if found.baselines is None else [values, found.baselines.rename(lambda name: f"{BASELINE}{name}")]
        first = values.to_series(0).round(PLACES).cast(pl.String)
        labels = pl.select(outcome=outcome).with_columns(label=pl.when(pl.col("outcome") == "answered").then(first))
        labels = labels.with_columns(groups)
        return pl.concat([labels, *made], how="horizontal")

    def features(self, texts: pl.Series, baselines: pl.Series | None, options: Options, tools: Tools) -> Measured:
        """The features of the texts and of their baselines."""
        from tiltmeter.measures.features import measure_features, open_features

        opened = open_features(options.features, encoder=tools.encoder, classifier=tools.classifier)
        return measure_features(opened, texts, baselines)

    def clusters(self, texts: pl.Series, answers: pl.DataFrame, settings: Settings, tools: Tools) -> pl.DataFrame:
        """Membership (1 or 0) of each answer in each cluster, named after its theme; keeps the table `clusters`.

        The groups' own names are taken out first, so that answers lie together for what they say, not for whom they are about.
        """
        from tiltmeter.measures.features import cluster_features
        from tiltmeter.measures.pairs import mask_words

        options = options_of(settings)
        if options.clusters is None:
            return pl.DataFrame()
        naming = [name for name in ("concept", "keyword") if name in answers.columns]
        names = pl.concat([answers[name] for name in naming]).drop_nulls().unique().sort().to_list()
        found = cluster_features(
            mask_words(texts, names),
            pl.repeat(self.name, len(texts), eager=True),
            encoder=tools.encoder(options.encoder),
            k=options.clusters,
            seed=settings.seed,
        )
        named = found.clusters.with_columns(name=pl.concat_str(pl.lit("cluster_"), pl.col("theme").list.join("_")))
        named = named.with_columns(name=pl.when(pl.col("name").is_unique()).then("name").otherwise(pl.format("{}_{}", "name", "cluster")))
        tools.keep("clusters", named)
        is_in = ((pl.col("cluster") == number).cast(pl.Float64).alias(name) for number, name in named.select("cluster", "name").iter_rows())
        return found.rows.select(is_in)

    def analyse(self, measures: pl.DataFrame, settings: Settings, tools: Tools = NO_TOOLS) -> pl.DataFrame:
        """See Part.analyse; keeps the tables `statistics`, `disparities` and `groups`."""
        from tiltmeter.benchmarks._findings import findings_of

        return findings_of(measures, self, settings, options_of(settings), tools)

    def examples(self, measures: pl.DataFrame, findings: pl.DataFrame, settings: Settings) -> pl.DataFrame:
        """See Part.examples: of the range of means of each generation and feature.

        The ratio of selection rates has none: its standard is taken over all answers, so that each of them moves every group.
        """
        from tiltmeter.benchmarks._examples import examples_of

        return examples_of(measures, findings, original=settings.definition == "saged", seed=settings.seed)

    def contrast(
        self, first: pl.DataFrame, second: pl.DataFrame, settings: Settings, tools: tuple[Tools, Tools] = (NO_TOOLS, NO_TOOLS)
    ) -> pl.DataFrame | None:
        """See Part.contrast: roots are paired."""
        from tiltmeter.benchmarks._contrast import contrast_of

        return contrast_of(first, second, settings)


class BenchmarkPart(Answers):
    """A benchmark in its configurations.

    Parameters
    ----------
    benchmark
        The columns of BENCHMARK, branches included.
    """

    def __init__(self, name: str, title: str, benchmark: pl.DataFrame, configurations: Configurations) -> None:
        self.name, self.title = name, title
        self._benchmark, self._configurations = benchmark, configurations

    def design(self, library: Library, settings: Settings) -> pl.DataFrame:
        """See Part.design. The features are opened first, so that what cannot be had shows before anything is paid for."""
        options = options_of(settings)
        opened = check_features(options, library, has_baselines=self._benchmark["baseline"].null_count() < self._benchmark.height)
        for column in options.groups:
            if self._benchmark[column].null_count() == self._benchmark.height:
                raise InputError(f"-P group={column}: {self.name} has nothing in that column; group by concept")
        made = make_design(self._benchmark, self._configurations, settings, self.name)
        groups = (
            made.select(pl.concat_str([pl.col(name).fill_null("none") for name in options.groups], separator=" / ")).to_series().unique()
        )
        if groups.len() < 2:
            raise InputError(f"{self.name}: all prompts are about {groups[0]}; at least two groups are needed, so choose another -P group=")
        check_also(pl.concat([made.select("root"), whose(made, options)], how="horizontal"), opened, options)
        return made

    def precision(self, design: pl.DataFrame, settings: Settings) -> Mapping[str, float]:
        """See Part.precision: of how far the selection rate of the group with the fewest prompts lies from that of all others.

        Of any feature, where half of the answers reach the standard; a prompt counts once, however often it is asked.
        """
        from math import sqrt

        groups = pl.concat([whose(design, options_of(settings)), design.select("prompt_id")], how="horizontal")
        counts = groups.group_by("generation", "subject", maintain_order=True).agg(pl.col("prompt_id").n_unique())
        found = {}
        for generation, here in counts.group_by("generation", maintain_order=True):
            sizes: list[int] = here["prompt_id"].to_list()
            if len(sizes) > 1:
                variance = EVEN * (1 - EVEN)
                found[f"selection rate, {generation[0]}"] = sqrt(variance / min(sizes) + variance / (sum(sizes) - min(sizes)))
        return found

    def simulate(self, design: pl.DataFrame, dials: Mapping[str, float]) -> pl.DataFrame | None:
        """See Part.simulate."""
        from tiltmeter.benchmarks._planted import simulate

        return simulate(design, dials)


def whose(answers: pl.DataFrame, options: Options) -> pl.DataFrame:
    """`generation`: the role, and the template where there are several. `subject`: the group."""
    by = ["role", "template"] if answers["template"].n_unique() > 1 else ["role"]
    return answers.select(
        generation=pl.concat_str(by, separator=", "),
        subject=pl.concat_str([pl.col(name).fill_null("none") for name in options.groups], separator=" / "),
    )


def check_features(options: Options, library: Library, *, has_baselines: bool) -> Sequence[Feature]:
    """The features; raises InputError, ProviderError or NotRun where one cannot be had, as far as that shows without loading weights."""
    from tiltmeter.datasets import DataUnavailable
    from tiltmeter.datasets.encoders import ENCODERS, encoder_folder
    from tiltmeter.measures.features import open_features
    from tiltmeter.models.classifiers import open_classifier
    from tiltmeter.models.encoders import SentenceEncoder, open_encoder
    from tiltmeter.study import NotRun

    def encoder(name: str) -> SentenceEncoder:
        try:
            return open_encoder(encoder_folder(library) if name in ENCODERS else name, store=None)
        except DataUnavailable as error:
            raise NotRun(f"the encoder {name} cannot be had: {error.reason}; {error.remedy}") from error

    if options.clusters is not None or "cosine" in options.also:
        encoder(options.encoder)
    opened = open_features(options.features, encoder=encoder, classifier=lambda name: open_classifier(name, store=None))
    for feature in opened:
        if feature.needs_baseline and not has_baselines:
            raise InputError(
                f"-P features={feature.name}: it compares an answer with its baseline, and this benchmark has none; leave it out"
            )
    return opened


def _without_value(found: Measured, texts: pl.Series) -> list[str]:
    """A sentence for each column of a feature that has no value of any text."""
    count = texts.count()
    empty = [name for name in found.values.columns if found.values[name].count() == 0] if count else []
    reasons = [next((why for feature, why in found.reasons.items() if f"{name}_".startswith(f"{feature}_")), None) for name in empty]
    return [
        f"the feature {name} gave no number for any of {count:,} answers ({reason or 'it returned nothing'}); correct it, or leave it out"
        for name, reason in zip(empty, reasons, strict=True)
    ]


def _unscored(found: Measured) -> pl.DataFrame:
    names = sorted({*found.problems, *found.truncated})
    return pl.DataFrame(
        {
            "feature": names,
            "failed": [found.problems.get(name, 0) for name in names],
            "reason": [found.reasons.get(name) for name in names],
            "truncated": [found.truncated.get(name, 0) for name in names],
        },
        schema={"feature": pl.String, "failed": pl.Int64, "reason": pl.String, "truncated": pl.Int64},
    )
