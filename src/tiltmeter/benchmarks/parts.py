"""Parts of a benchmark study: prompts about groups in every configuration, or imported responses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import polars as pl
from polars import Boolean, DataFrame, Expr, Float64, Int64, Series, String, col, lit, when

from tiltmeter.benchmarks.baseline_texts import differ_in_names_only, group_names
from tiltmeter.benchmarks.definitions import (
    BASELINE,
    BASELINES,
    FACTORS,
    NO_ROLE,
    SLOT,
    VALUE,
    WITHOUT_NAMES,
    BenchmarkOptions,
    Configurations,
    configurations_of,
    options_of,
)
from tiltmeter.designs.subsampling import first_samples, keep_limit
from tiltmeter.errors import InputError
from tiltmeter.files.yaml import read_yaml
from tiltmeter.readers.outcomes import decide_outcome, free_texts
from tiltmeter.schema import DESIGN, EXAMPLES, FINDINGS, MEASURES, TO_LABEL, Schema, StageTable, conform
from tiltmeter.stats import ExpectedError
from tiltmeter.study import NO_TOOLS, Part, RunView, Settings, Stage, Tools, find_encoder

if TYPE_CHECKING:
    from tiltmeter.datasets import Library
    from tiltmeter.features import Feature, FeatureColumn, Measured

HARM = "representational_harms"
PLACES = 4
"""Decimals of a label."""
UNSCORED: Schema = {"feature": String, "failed": Int64, "reason": String, "truncated": Int64}
"""Number of answers without a value of a feature, with a reason, and number of answers truncated by it."""
TOXICITY = "toxicity"
COUNTERFACTUAL = {"parity", "overlap", "cosine"}
_NO_TOXICITY = "-P also=toxicity requires the feature toxicity; add it with -P features=toxicity"
FURTHER: Schema = {
    **dict.fromkeys(("generation", "metric"), String),
    "feature": String,  # feature whose values are compared; null if texts are compared
    "group": String,  # null if the number is not about a single group
    "group_2": String,  # group of comparison
    "target": String,  # target word; null for the mean over words and for other measures
    **dict.fromkeys(("estimate", "low", "high", "p", "q"), Float64),
    "chance": Float64,  # value expected by chance: with exchanged groups, or for answers about the same group
    **dict.fromkeys(("n", "missing"), Int64),
    **dict.fromkeys(("interval", "definition", "note"), String),
}


EVEN = 0.5
"""Selection rate assumed for planning, at which the standard error is largest."""
BETWEEN_RESPONSES = 0.5
"""Share of the variance between responses to the same prompt that is assumed for planning; more responses
reduce only this share."""
POWER = 0.8
"""Probability with which the smallest detectable range is shown."""
WIDE = 0.25
"""A size is too small if the smallest detectable range is larger than this share of the feature's range (for
VADER: 0.5)."""


class PlannedRange(NamedTuple):
    """The range of the group means of one condition, as planned."""

    metric: str
    error: float
    """Standard error of the difference of two groups, in units of the feature."""
    detectable: float
    """Smallest range that is shown with probability POWER, in units of the feature."""


class Answers(Part):
    """Base class of the parts: measures features of answers about groups and of their baselines."""

    study = "benchmarks"
    harms = (HARM,)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """See Part.stages."""
        any_columns = StageTable({}, further=True)
        measures = {
            "measures": StageTable(MEASURES, further=True),
            "unscored": StageTable(UNSCORED),
            "clusters": any_columns,
            "further": StageTable(FURTHER),
        }
        findings = {
            "findings": StageTable(FINDINGS),
            **dict.fromkeys(("statistics", "disparities", "groups"), any_columns),
        }
        examples = {"examples": StageTable(EXAMPLES)}
        return (
            Stage("measures", measures, ("answers",), self.measure, if_failed="not measured"),
            Stage("findings", findings, ("measures", "further"), self.analyse),
            Stage(
                "examples",
                examples,
                ("measures", "findings"),
                self.examples,
                optional=True,
                if_failed="no examples of answers",
            ),
        )

    def measure(self, answers: DataFrame, settings: Settings, tools: Tools) -> dict[str, DataFrame]:
        """Measure the features of all answers.

        Refusals, and answers that no feature could score, have missing values, not neutral ones. The label of
        an attempt is the value of the first feature.

        Returns
        -------
        Tables `measures` (with the columns `value:FEATURE`, `baseline:FEATURE` and `without names:FEATURE`
        for each feature; see `configurations`), `unscored`, `clusters`, `further`.
        """
        from tiltmeter.benchmarks.findings import replaces_names
        from tiltmeter.features import measure_features, open_features

        options = options_of(settings)
        without, texts = free_texts(answers)
        has_baselines = "baseline" in answers.columns and answers["baseline"].count() > 0
        opened = open_features(options.features, encoder=tools.encoder, classifier=tools.classifier)
        found = measure_features(opened, texts, answers["baseline"] if has_baselines else None)
        tables = {"unscored": _unscored(found)}
        for sentence in _without_value(found, texts.count()):
            tools.problem(sentence)
        grouped = with_groups(answers, options)
        if options.also:
            tables["further"] = further_measures(
                grouped.with_columns(text=texts), found, settings, options, tools
            )
        scored = found.values.select(pl.any_horizontal(pl.all().is_not_null())).to_series()
        outcome = pl.coalesce(without, decide_outcome(answered=scored))
        label = when(scored).then(found.values.to_series(0).round(PLACES).cast(String))
        decisions = [column.name for column in found.columns if column.decision]
        values = found.values.with_columns(col(decisions).cast(Boolean)).select(pl.all().name.prefix(VALUE))
        made = [pl.select(outcome=outcome, label=label), grouped.select("generation", "subject"), values]
        if options.clusters is not None:
            membership, tables["clusters"] = self.clusters(texts, answers, settings, tools)
            made.append(membership.select(pl.all().name.prefix(VALUE)))
        if found.baselines is not None:
            made.append(found.baselines.select(pl.all().name.prefix(BASELINE)))
            if replaces_names(settings.definition):
                calibrated = without_names(opened, texts, answers["baseline"], group_names(answers, options))
                made.append(calibrated.select(pl.all().name.prefix(WITHOUT_NAMES)))
        return {"measures": pl.concat(made, how="horizontal"), **tables}

    def clusters(
        self, texts: Series, answers: DataFrame, settings: Settings, tools: Tools
    ) -> tuple[DataFrame, DataFrame]:
        """Return the membership (1 or 0) of each answer in each cluster, named after its theme, and the table `clusters`.

        The names of the groups are masked first, so that answers are clustered by content and not by group.
        """
        from tiltmeter.features import cluster_texts, mask_words

        options = options_of(settings)
        assert options.clusters is not None
        encoder = tools.encoder(options.encoder)
        masked = mask_words(texts, names_of(answers))
        found = cluster_texts(masked, self.name, encoder=encoder, k=options.clusters, seed=settings.seed)
        named = found.themes.with_columns(name=pl.concat_str(lit("cluster_"), col.theme.list.join("_")))
        named = named.with_columns(
            name=when(col.name.is_unique()).then("name").otherwise(pl.format("{}_{}", "name", "cluster"))
        )
        is_in = (
            (found.cluster == number).cast(Float64).alias(name)
            for number, name in named.select("cluster", "name").iter_rows()
        )
        return DataFrame(is_in), named

    def analyse(
        self, measures: DataFrame, further: DataFrame, settings: Settings, tools: Tools
    ) -> dict[str, DataFrame]:
        """Return the table `findings` and, if there are at least two groups, `statistics`, `disparities` and `groups`."""
        from tiltmeter.benchmarks.findings import findings_of

        return findings_of(measures, further, self, settings)

    def examples(
        self, measures: DataFrame, findings: DataFrame, settings: Settings, tools: Tools = NO_TOOLS
    ) -> DataFrame:
        """Find EXAMPLES for the range of means of each generation and feature.

        There are none for the ratio of selection rates: its standard depends on all answers, so that each
        answer affects every group.
        """
        from tiltmeter.benchmarks.findings import examples_of

        return examples_of(measures, findings, settings)

    def to_label(self, view: RunView) -> DataFrame:
        """See Part.to_label: the value of each feature of each text."""
        features = [name for name in view.measures.columns if name.startswith(VALUE)]
        numbers_of_texts = view.measures.with_columns(col(features).cast(Float64))
        values = numbers_of_texts.unpivot(
            features, index=["prompt_id", "repetition", "outcome", "subject"], variable_name="about"
        )
        feature = col.about.str.strip_prefix(VALUE)
        question = pl.format("What is the value of {} for this text?", feature)
        numbers = dict.fromkeys(("allowed", "meaning"), lit(Series([[]], dtype=pl.List(String))).first())
        return conform(
            values.with_columns(about=feature, group="subject", read="value", question=question, **numbers),
            TO_LABEL,
        )

    def contrast(self, first: RunView, second: RunView, settings: Settings) -> DataFrame | None:
        """See Part.contrast: roots are paired."""
        from tiltmeter.benchmarks.disparity_contrast import contrast_of

        return contrast_of(first.measures, second.measures, settings)


class BenchmarkPart(Answers):
    """A benchmark with its roles and templates.

    Parameters
    ----------
    name, title
        Name and title of the part.
    benchmark
        The columns of BENCHMARK, branches included.
    configurations
        Roles and templates.
    """

    sizes: ClassVar = {"quick": 0.25}

    def __init__(self, name: str, title: str, benchmark: DataFrame, configurations: Configurations) -> None:
        self.name, self.title = name, title
        self._benchmark, self._configurations = benchmark, configurations

    def design(self, library: Library, settings: Settings) -> DataFrame:
        """See Part.design.

        The features are opened first, so that missing models fail before any paid request.
        """
        options = options_of(settings)
        opened = check_features(options, library, self._benchmark)
        for column in options.groups:
            if not self._benchmark[column].count():
                raise InputError(
                    f"-P group={column}: the column is empty in {self.name}; use -P group=concept"
                )
        made = make_design(self._benchmark, self._configurations, settings, self.name)
        prompts = with_groups(made, options)
        if prompts["subject"].n_unique() < 2:
            group = prompts["subject"][0]
            raise InputError(
                f"{self.name}: all prompts are about {group}; at least two groups are needed; choose another -P group="
            )
        check_also(prompts, opened, options)
        return made

    def standard_errors(
        self, design: DataFrame, settings: Settings, *, heterogeneity: float = 0.0
    ) -> Mapping[str, Sequence[ExpectedError]]:
        """See Part.standard_errors: of the key numbers of each condition.

        For the range of means, it is the standard error of the difference of two groups (see
        `planned_ranges`). For the selection rate, it is that of the group with the fewest prompts minus that
        of all others, if half of the answers reach the standard; repetitions of a prompt are not counted.
        """
        errors = {
            planned.metric: [ExpectedError(planned.error)]
            for planned in planned_ranges(design, settings, settings.level)
        }
        for generation, least, total, _ in _sizes(design, settings).iter_rows():
            if least < total:
                errors[f"selection rate, {generation}"] = [
                    ExpectedError(sqrt(EVEN * (1 - EVEN) * (1 / least + 1 / (total - least))))
                ]
        return errors

    def detectable_effects(
        self,
        errors: Mapping[str, Sequence[ExpectedError]],
        design: DataFrame,
        settings: Settings,
        level: float,
    ) -> Mapping[str, float]:
        """See Part.detectable_effects; for the ranges of means, see `planned_ranges`.

        Groups with too few values are not tested.
        """
        from tiltmeter.benchmarks.summaries import FEWEST_VALUES

        ranges = {planned.metric: planned.detectable for planned in planned_ranges(design, settings, level)}
        found = {**super().detectable_effects(errors, design, settings, level), **ranges}
        small = [
            generation
            for generation, least, *_ in _sizes(design, settings).iter_rows()
            if least < FEWEST_VALUES
        ]
        return {
            metric: effect
            for metric, effect in found.items()
            if not metric.endswith(tuple(f", {one}" for one in small))
        }

    def tests_of_a_family(self, design: DataFrame, settings: Settings) -> int:
        """See Part.tests_of_a_family: a statistic is tested for each column of each feature in each condition."""
        from tiltmeter.features import FEATURES

        described = [FEATURES.get(feature.partition("=")[0]) for feature in options_of(settings).features]
        columns = sum(1 if feature is None else len(feature.columns) for feature in described)
        return columns * _sizes(design, settings).height

    def size_warnings(self, design: DataFrame, settings: Settings, level: float) -> Sequence[str]:
        """See Part.size_warnings: a sentence if only ranges of more than WIDE of the feature's range can be shown."""
        column = _first_column(settings)
        ranges = planned_ranges(design, settings, level)
        if column is None or not ranges:
            return ()
        wide = WIDE * _width(column)
        smallest = max(planned.detectable for planned in ranges)
        if smallest <= wide:
            return ()
        items = design["item"].n_unique()
        needed = ceil(items * (smallest / wide) ** 2)
        available = self._benchmark["root"].n_unique()
        if needed <= available:
            advice = f"give --limit {needed} or more"
        elif items < available:
            advice = f"this benchmark has {available}; run it without --limit"
        else:
            advice = f"this benchmark has {available}"
        return (
            f"{self.name}: with {items} items, only ranges of the group means of {column.name} above {smallest:.2f} are likely to be"
            f" shown; a range of {wide:g} needs about {needed} items ({advice})",
        )

    def simulate(self, design: DataFrame, dials: Mapping[str, float]) -> DataFrame | None:
        """See Part.simulate."""
        from tiltmeter.benchmarks.simulation import planted_tones

        return planted_tones(design, dials)


class OwnAnswers(Answers):
    """Imported responses, or feature values measured elsewhere.

    Parameters
    ----------
    rows
        `text`, `identity`, `baseline`, `pair`, `prompt` (null where unknown) and `value:NAME` columns.
    """

    name = "texts"
    title = "Imported responses"

    def __init__(self, rows: DataFrame) -> None:
        self._given = [name for name in rows.columns if name.startswith(VALUE)]
        self._has_text = rows["text"].count() > 0
        self._rows = rows.select("identity", "baseline", "pair", "prompt", *self._given)

    def design(self, library: Library, settings: Settings) -> DataFrame:
        """See Part.design: one row per response; responses with the same `pair` are one item."""
        options = options_of(settings)
        opened = check_features(options, library, self._rows) if self._has_text else ()
        row = pl.int_range(pl.len())
        pairs = pl.coalesce(pl.format("pair {}", "pair"), pl.format("row {}", row))
        made = self._rows.with_columns(
            **dict.fromkeys(("prompt_index", "first_sample"), lit(0)),
            **dict.fromkeys(("wording", "template"), lit("own")),
            **dict.fromkeys(("concept", "stratum"), col.identity),
            prompt_id=pl.format(f"{self.name}/{{}}", row),
            part=lit(self.name),
            item=pairs.rank("dense") - 1,
            prompt=col.prompt.fill_null(""),
            repetitions=lit(1),
            prompt_key=row,
            root=pairs,
            role=lit(NO_ROLE),
            kind=lit("given"),
        )
        if self._has_text:
            check_also(with_groups(made, options), opened, options)
        return conform(made, {**DESIGN, **FACTORS, **{name: made.schema[name] for name in self._given}})

    def measure(self, answers: DataFrame, settings: Settings, tools: Tools) -> dict[str, DataFrame]:
        """See Answers.measure; without texts, the values measured elsewhere are used."""
        if self._has_text:
            return super().measure(answers, settings, tools)
        known = pl.any_horizontal(col(self._given).is_not_null())
        made = with_groups(answers, options_of(settings)).with_columns(
            outcome=when(known).then(lit("answered")).otherwise(lit("empty")),
            label=when(known).then(col(self._given[0]).cast(Float64).round(PLACES).cast(String)),
        )
        return {"measures": made.select("outcome", "label", "generation", "subject")}


def make_design(
    benchmark: DataFrame, configurations: Configurations, settings: Settings, name: str
) -> DataFrame:
    """Build the design of a benchmark, one row per prompt, with the columns of DESIGN and FACTORS.

    An item is a root with all its branches: it is resampled as a whole, and `--limit` counts items, in
    proportion to the concepts of the roots. `settings.repeats` is the number of answers to each prompt
    (default 1).

    Parameters
    ----------
    benchmark
        The columns of BENCHMARK.
    configurations
        Roles and templates.
    settings
        Settings of the study.
    name
        Name of the part.

    Raises
    ------
    InputError
        A template lacks `{prompt}`, has no text for a kind of prompt in the benchmark, or a role has the name
        of the baselines.
    """
    if BASELINES in configurations.roles:
        raise InputError(
            f"a role cannot have the name {BASELINES!r}, which is reserved for the baselines; rename it"
        )
    rows = benchmark.with_row_index("place").with_columns(
        item=col.place.first().over("root").rank("dense") - 1,
        # If the root was removed from the benchmark, its first branch determines the stratum.
        stratum=col.root.replace_strict(
            benchmark["key"], benchmark["concept"], default=col.concept.first().over("root")
        ),
    )
    rows = keep_limit(rows.sort("item", maintain_order=True), settings.limit, settings.seed, name)
    kinds = rows["kind"].unique().to_list()
    asked = pl.concat(
        rows.with_columns(
            role=lit(role),
            template=lit(template),
            system=lit(system, String),
            prompt=_filled(texts, kinds, template),
        )
        for role, system in configurations.roles.items()
        for template, texts in configurations.templates.items()
    ).sort("item", maintain_order=True)
    made = asked.with_columns(
        system=pl.coalesce("system", lit(settings.system_message, String)),
        part=lit(name),
        prompt_index=pl.int_range(pl.len()).over("item"),
        wording=col.template,
        prompt_key="key",
        repetitions=lit(settings.repeats or 1),
    )
    made = made.with_columns(
        prompt_id=pl.concat_str(lit(f"{name}/"), "item", lit("/"), "prompt_index"),
        first_sample=first_samples(),
    )
    return conform(made, {**DESIGN, **FACTORS})


def _filled(texts: Mapping[str, str], kinds: list[str], template: str) -> Expr:
    for kind in kinds:
        if kind not in texts:
            raise InputError(
                f"template {template!r} has no text for prompts of kind {kind!r}; it has: {', '.join(texts)}"
            )
        if SLOT not in texts[kind]:
            raise InputError(
                f"template {template!r}, {kind}: the text does not contain {SLOT}, the place of the prompt"
            )
    return col.kind.replace_strict(texts, return_dtype=String).str.replace(SLOT, col.prompt, literal=True)


def builtin_part(name: str, params: Mapping[str, str]) -> BenchmarkPart:
    """Return a built-in benchmark with its branches.

    Raises InputError if a role or wording of `params` cannot be used.
    """
    from tiltmeter.benchmarks.branching import branch
    from tiltmeter.benchmarks.builtin import builtin

    found = builtin(name)
    table = found.benchmark
    if found.replacements is not None:
        table = branch(table, found.replacements, counterfactual_baseline=True).benchmark
    templates = {
        template: dict.fromkeys(table["kind"].unique(), text) for template, text in found.templates.items()
    }
    return BenchmarkPart(name, found.title, table, configurations_of(found.roles, templates, params))


def own_part(path: str, params: Mapping[str, str]) -> BenchmarkPart:
    """Read a benchmark file, with the description that `tiltmeter build` wrote.

    Raises InputError if it cannot be used.
    """
    from tiltmeter.benchmarks.files import read_benchmark

    table = read_benchmark(path)
    if table["concept"].n_unique() < 2:
        raise InputError(
            f"-P benchmark={path}: all prompts are about {table['concept'][0]}; at least two groups are needed"
        )
    about = _about(Path(path))
    name = re.sub(r"[^a-z0-9]+", "_", str(about.get("name") or Path(path).stem).lower()).strip("_") or "own"
    configurations = configurations_of(about.get("roles"), about.get("templates"), params)
    return BenchmarkPart(name, about.get("title") or f"Benchmark {Path(path).name}", table, configurations)


def _about(path: Path) -> dict[str, Any]:
    """Read the description that `tiltmeter build` wrote next to a benchmark; empty if there is none."""
    folder = path.parent if path.name == "benchmark.parquet" else path
    if not (folder / "benchmark.yaml").is_file():
        return {}
    loaded = read_yaml(folder / "benchmark.yaml", "description")
    return loaded if isinstance(loaded, dict) else {}


def with_groups(answers: DataFrame, options: BenchmarkOptions) -> DataFrame:
    """Add the columns `generation` (the role, and the template if there are several) and `subject` (the group)."""
    by = ["role", "template"] if answers["template"].n_unique() > 1 else ["role"]
    return answers.with_columns(
        generation=pl.concat_str(by, separator=", "),
        subject=pl.concat_str([col(name).fill_null("none") for name in options.groups], separator=" / "),
    )


def check_features(options: BenchmarkOptions, library: Library, rows: DataFrame) -> Sequence[Feature]:
    """Open the features without loading weights, and check that they can be used.

    `rows` has the column `baseline`.

    Raises
    ------
    InputError, ProviderError, NotRun
        A feature or its model is not available, or it needs baselines that the benchmark does not have.
    """
    from tiltmeter.features import open_features
    from tiltmeter.models.text_models import SentenceEncoder, TextClassifier

    def encoder(name: str) -> SentenceEncoder:
        return SentenceEncoder(find_encoder(name, library), store=None)

    if options.clusters is not None or "cosine" in options.also:
        encoder(options.encoder)
    opened = open_features(
        options.features, encoder=encoder, classifier=lambda name: TextClassifier(name, store=None)
    )
    if not rows["baseline"].count() and (
        needing := [feature.name for feature in opened if feature.needs_baseline]
    ):
        raise InputError(
            f"-P features={needing[0]}: the feature requires baselines, which this benchmark does not have; remove it"
        )
    return opened


def _without_value(found: Measured, count: int) -> Iterator[str]:
    """Yield a sentence for each column of a feature that has no value for any of `count` texts."""
    for name in [column.name for column in found.values if count and not column.count()]:
        reasons = (why for feature, why in found.reasons.items() if f"{name}_".startswith(f"{feature}_"))
        reason = next(reasons, "it returned nothing")
        yield f"the feature {name} has no value for any of {count:,} answers ({reason}); correct it or remove it"


def _unscored(found: Measured) -> DataFrame:
    names = sorted({*found.problems, *found.truncated})
    rows = [
        (name, found.problems.get(name, 0), found.reasons.get(name), found.truncated.get(name, 0))
        for name in names
    ]
    return DataFrame(rows, schema=UNSCORED, orient="row")


# Further measures


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
    also = set(options.also) if _branched(answers) else set(options.also) - COUNTERFACTUAL
    tables = [DataFrame(schema=FURTHER)]
    for (generation,), rows in answers.with_row_index("row").group_by("generation", maintain_order=True):
        made = _tables(rows, measured, settings, options.encoder, also, tools)
        tables += [conform(table.with_columns(generation=lit(generation)), FURTHER) for table in made]
    return pl.concat(tables)


def check_also(prompts: DataFrame, features: Sequence[Feature], options: BenchmarkOptions) -> None:
    """Raise InputError if a measure requested with `-P also=` is not possible for these prompts (`root`, `subject`) and features."""
    if not _branched(prompts) and (needing := COUNTERFACTUAL & set(options.also)):
        raise InputError(
            f"-P also={min(needing)}: the measure compares answers to the same prompt about several groups; no prompt here is branched"
        )
    if "parity" in options.also:
        for column in features[0].columns[:1]:
            _range_of(column, features[0].name)
    if TOXICITY in options.also and TOXICITY not in [feature.name for feature in features]:
        raise InputError(_NO_TOXICITY)


def _branched(rows: DataFrame) -> bool:
    from tiltmeter.benchmarks.findings import paired_by_topic

    return not paired_by_topic(rows) and bool(
        rows.select((col.subject.n_unique().over("root") > 1).any()).item()
    )


def _range_of(column: FeatureColumn, name: str) -> tuple[float, float]:
    if column.low is None or column.high is None:
        raise InputError(
            f"-P also=parity: {name} has no known range; put a feature with a known range first, such as vader"
        )
    return column.low, column.high


def names_of(answers: DataFrame) -> list[str]:
    """Return the names of groups (concepts and keywords) in the prompts, sorted."""
    naming = [name for name in ("concept", "keyword") if name in answers.columns]
    return pl.concat([answers[name] for name in naming]).drop_nulls().unique().sort().to_list()


def planned_ranges(design: DataFrame, settings: Settings, level: float) -> list[PlannedRange]:
    """Plan the range of the group means of the first feature in each condition, tested at this level: the key number of the headline.

    The assumptions are cautious. The values are spread evenly over the feature's range, so that their
    standard deviation is the width of the range divided by the square root of 12. A share BETWEEN_RESPONSES
    of their variance lies between responses to the same prompt. Where the baselines differ between groups by
    more than names, they vary as much as the responses. Two groups differ by the range, and the others lie in
    the middle, which is the hardest case. The bias is the same in all conditions.

    Returns
    -------
    One entry per condition; none if the range of the feature is not known, as for functions of the user.

    References
    ----------
    Cohen (1988), "Statistical Power Analysis for the Behavioral Sciences", chapter 8: power of the test of
    several means, here with the noncentral chi-squared distribution.
    """
    from tiltmeter.benchmarks.findings import calibrates_keys

    column = _first_column(settings)
    if column is None:
        return []
    is_calibrated = (
        calibrates_keys(settings.definition) and column.calibrated and design["baseline"].count() > 0
    )
    options = options_of(settings)
    sources = 2 if is_calibrated and not differ_in_names_only(with_groups(design, options), options) else 1
    responses = settings.repeats or 1
    share = BETWEEN_RESPONSES / responses + 1 - BETWEEN_RESPONSES
    variance = sources * share * _width(column) ** 2 / 12
    kind = ", calibrated" if is_calibrated else ""
    return [
        PlannedRange(
            metric=f"range of means of {column.name}{kind}, {generation}",
            error=sqrt(2 * variance / least),
            detectable=sqrt(2 * variance / least * _noncentrality(groups - 1, level)),
        )
        for generation, least, _, groups in _sizes(design, settings).iter_rows()
        if groups > 1
    ]


def _first_column(settings: Settings) -> FeatureColumn | None:
    """Return the first column of the first feature, if its range is known."""
    from tiltmeter.features import FEATURES

    described = FEATURES.get(options_of(settings).features[0].partition("=")[0])
    if described is None or described.columns[0].low is None or described.columns[0].high is None:
        return None
    return described.columns[0]


def _width(column: FeatureColumn) -> float:
    """Return the width of the range of a column with a known range."""
    assert column.low is not None
    assert column.high is not None
    return column.high - column.low


def _sizes(design: DataFrame, settings: Settings) -> DataFrame:
    """Count prompts by condition: `generation`, `least` (of the group with the fewest), `total`, and the number of `groups`."""
    prompts = with_groups(design, options_of(settings))
    counts = prompts.group_by("generation", "subject", maintain_order=True).agg(col.prompt_id.n_unique())
    by_generation = counts.group_by("generation", maintain_order=True)
    return by_generation.agg(least=col.prompt_id.min(), total=col.prompt_id.sum(), groups=pl.len())


def _noncentrality(freedom: int, level: float) -> float:
    """Compute the noncentrality at which a chi-squared test at this level is significant with probability POWER."""
    from scipy import optimize, stats

    critical = stats.chi2.isf(1 - level, freedom)
    return float(optimize.brentq(lambda size: stats.ncx2.sf(critical, freedom, size) - POWER, 1e-6, 1e4))


def without_names(
    features: Sequence[Feature], texts: Series, baselines: Series, names: Sequence[str]
) -> DataFrame:
    """Compute calibrated features: those of each text minus those of its baseline, with one word in place of the groups' names.

    A measuring tool that reacts to a name reacts to each occurrence of it. The value of a baseline, which
    contains the name once, can therefore not correct a long answer; without the names, there is nothing to
    correct.

    Parameters
    ----------
    features
        Open features. Columns that are not calibrated, such as distances, are omitted.
    texts, baselines
        Strings, nulls allowed, of equal length.
    names
        Names of the groups, which are replaced as whole words, whatever their case.

    Returns
    -------
    One row per text and one column per calibrated column of the features; null if the text or the baseline
    has no value.
    """
    from tiltmeter.features import mask_words, measure_features

    if names:
        texts, baselines = mask_words(texts, names), mask_words(baselines, names)
    measured = measure_features(features, texts, baselines)
    of_baselines = measured.baselines
    assert of_baselines is not None
    differences = (
        measured.values[column.name] - of_baselines[column.name]
        for column in measured.columns
        if column.calibrated
    )
    return DataFrame(differences)


def _tables(
    rows: DataFrame, measured: Measured, settings: Settings, encoder: str, also: set[str], tools: Tools
) -> Iterator[DataFrame]:
    from tiltmeter.benchmarks.counterfactual import (
        cooccurrence_bias,
        counterfactual,
        stereotypical_associations,
        toxicity,
    )

    drawn: dict[str, Any] = {"level": settings.level, "resamples": settings.resamples, "seed": settings.seed}
    pairs: dict[str, Any] = {"unit": "root", "group": "subject", **drawn}
    sides = {"group_a": "group", "group_b": "group_2"}

    def scored(column: str, low: float = 0.0, high: float = 1.0) -> DataFrame:
        return rows.with_columns(score=(measured.values[column].gather(rows["row"]) - low) / (high - low))

    if "parity" in also:
        column = measured.columns[0]
        found = counterfactual(scored(column.name, *_range_of(column, column.name)), score="score", **pairs)
        yield found.rename(sides).with_columns(feature=lit(column.name))
    if {"overlap", "cosine"} & also:
        opened = tools.encoder(encoder) if "cosine" in also else None
        found = counterfactual(
            rows, text="text", encoder=opened, mask=names_of(rows), permutations=0, **pairs
        ).rename(sides)
        yield found if "overlap" in also else found.filter(col.metric == "cosine")
    if TOXICITY in also:
        if TOXICITY not in measured.values.columns:
            raise InputError(_NO_TOXICITY)
        yield toxicity(scored(TOXICITY), prompt="prompt_key", score="score", group="subject", **drawn)
    if "words" in also:
        yield stereotypical_associations(rows["text"], **drawn)
        yield cooccurrence_bias(rows["text"], **drawn).rename(sides)
