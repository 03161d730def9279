"""Parts of a benchmark study: prompts about groups in every configuration, or imported responses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import polars as pl
from polars import DataFrame, Expr, Float64, Series, String, col, lit, when

from tiltmeter._files.yaml import read_yaml
from tiltmeter.benchmarks._baseline_texts import without_names
from tiltmeter.benchmarks._definitions import definition_of
from tiltmeter.benchmarks._further import check_also, further_measures
from tiltmeter.benchmarks._groups import attribute_of, group_names, group_of, names_in_prompts, with_groups
from tiltmeter.benchmarks._options import BenchmarkOptions, Configurations, configurations_of, options_of
from tiltmeter.benchmarks._planning import (
    condition_sizes,
    error_of_selection_rate,
    planned_ranges,
    size_warning,
)
from tiltmeter.benchmarks._tables import (
    BASELINE,
    BASELINES,
    FACTORS,
    FURTHER,
    NO_ROLE,
    UNSCORED,
    VALUE,
    WITHOUT_NAMES,
)
from tiltmeter.comparisons import Groups, attempts_by_group
from tiltmeter.designs.subsampling import first_samples, keep_limit
from tiltmeter.errors import InputError
from tiltmeter.readers.outcomes import decide_outcome, free_texts
from tiltmeter.schema import DESIGN, EXAMPLES, FINDINGS, MEASURES, TO_LABEL, StageTable, conform
from tiltmeter.stats import ExpectedError
from tiltmeter.study import (
    NO_TOOLS,
    Part,
    RunView,
    Settings,
    Stage,
    Tools,
    find_encoder,
    open_unloaded_features,
)

if TYPE_CHECKING:
    from tiltmeter.datasets import Library
    from tiltmeter.features import Feature, Measured

HARM: Final = "representational_harms"
LABEL_DECIMALS: Final = 4
SLOT: Final = "{prompt}"
"""Place of the prompt in a template."""


class Answers(Part):
    """Base class of the parts: measures features of answers about groups and of their baselines."""

    study = "benchmarks"
    method = "benchmarks"
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
        of_examples = Stage(
            "examples",
            {"examples": StageTable(EXAMPLES)},
            ("measures", "findings"),
            self.examples,
            optional=True,
            if_failed="no examples of answers",
        )
        return (
            Stage("measures", measures, ("answers",), self.measure, if_failed="not measured"),
            Stage("findings", findings, ("measures", "further"), self.analyse),
            of_examples,
        )

    def measure(self, answers: DataFrame, settings: Settings, tools: Tools) -> dict[str, DataFrame]:
        """Measure the features of all answers.

        Refusals, and answers that no feature could score, have missing values, not neutral ones. The label of
        an attempt is the value of the first feature.

        Returns
        -------
        Tables `measures` (with the columns `value:FEATURE`, `baseline:FEATURE` and `without names:FEATURE`
        for each feature; see `benchmarks.tables`), `unscored`, `clusters`, `further`.
        """
        from tiltmeter.features import columns_without_value, measure_features, open_features

        options = options_of(settings)
        outcome_without_text, texts = free_texts(answers)
        has_baselines = "baseline" in answers.columns and answers["baseline"].count() > 0
        features = open_features(options.features, encoder=tools.encoder, classifier=tools.classifier)
        measured = measure_features(features, texts, answers["baseline"] if has_baselines else None)
        for sentence in columns_without_value(measured, texts.count()):
            tools.problem(sentence)
        tables = {"unscored": _unscored(measured)}
        answers = with_groups(answers, options)
        if options.also:
            with_texts = answers.with_columns(text=texts)
            tables["further"] = further_measures(with_texts, measured, settings, options, tools)
        measures = [
            _outcomes_and_labels(outcome_without_text, measured),
            answers.select("generation", "subject"),
            _values(measured),
        ]
        if options.clusters is not None:
            membership, tables["clusters"] = self.clusters(texts, answers, settings, tools)
            measures.append(membership.select(pl.all().name.prefix(VALUE)))
        if measured.baselines is not None:
            measures.append(measured.baselines.select(pl.all().name.prefix(BASELINE)))
            if definition_of(settings).names_replaced:
                names = group_names(answers, options)
                calibrated = without_names(features, texts, answers["baseline"], names)
                measures.append(calibrated.select(pl.all().name.prefix(WITHOUT_NAMES)))
        return {"measures": pl.concat(measures, how="horizontal"), **tables}

    def clusters(
        self, texts: Series, answers: DataFrame, settings: Settings, tools: Tools
    ) -> tuple[DataFrame, DataFrame]:
        """Return the membership (1 or 0) of each answer in each cluster, and the table `clusters`.

        Clusters are named after their themes. The names of the groups are masked first, so that answers are
        clustered by content and not by group.
        """
        from tiltmeter.features import cluster_texts, mask_words

        options = options_of(settings)
        assert options.clusters is not None
        encoder = tools.encoder(options.encoder)
        masked = mask_words(texts, names_in_prompts(answers))
        clustered = cluster_texts(masked, self.name, encoder=encoder, k=options.clusters, seed=settings.seed)
        theme_name = pl.concat_str(lit("cluster_"), col.theme.list.join("_"))
        named = clustered.themes.with_columns(name=theme_name)
        numbered_name = pl.format("{}_{}", "name", "cluster")
        themes = named.with_columns(name=when(col.name.is_unique()).then("name").otherwise(numbered_name))
        membership = [
            (clustered.cluster == number).cast(Float64).alias(name)
            for number, name in themes.select("cluster", "name").iter_rows()
        ]
        return DataFrame(membership), themes

    def analyse(
        self, measures: DataFrame, further: DataFrame, settings: Settings, tools: Tools
    ) -> dict[str, DataFrame]:
        """Return the table `findings`, and further tables if there are at least two groups.

        They are `statistics`, `disparities` and `groups`; see `findings_of`.
        """
        from tiltmeter.benchmarks._findings import findings_of

        return findings_of(measures, further, self, settings)

    def examples(
        self, measures: DataFrame, findings: DataFrame, settings: Settings, tools: Tools = NO_TOOLS
    ) -> DataFrame:
        """Find EXAMPLES for the range of means of each generation and feature.

        There are none for the ratio of selection rates: its standard depends on all answers, so that each
        answer affects every group.
        """
        from tiltmeter.benchmarks._examples import examples_of

        return examples_of(measures, findings, settings)

    def compared_groups(self, settings: Settings) -> Sequence[Groups]:
        """See Part.compared_groups."""
        options = options_of(settings)
        return [Groups(self.attribute(options), group_of(options))]

    def attribute(self, options: BenchmarkOptions) -> str:
        """Return the name of the attribute that the groups are values of."""
        return "group"

    def outcomes_by_group(self, view: RunView, settings: Settings) -> Iterator[tuple[Groups, DataFrame]]:
        """See Part.outcomes_by_group: over all roles and templates, matched by root."""
        for groups in self.compared_groups(settings):
            yield groups, attempts_by_group(view.measures, groups)

    def to_label(self, view: RunView) -> DataFrame:
        """See Part.to_label: the value of each feature of each text."""
        features = [name for name in view.measures.columns if name.startswith(VALUE)]
        numbers = view.measures.with_columns(col(features).cast(Float64))
        values = numbers.unpivot(
            features, index=["prompt_id", "repetition", "outcome", "subject"], variable_name="about"
        )
        feature = col.about.str.strip_prefix(VALUE)
        no_options = lit(Series([[]], dtype=pl.List(String))).first()
        labels = values.with_columns(
            about=feature,
            group="subject",
            read="value",
            question=pl.format("What is the value of {} for this text?", feature),
            allowed=no_options,
            meaning=no_options,
        )
        return conform(labels, TO_LABEL)

    def contrast(self, first: RunView, second: RunView, settings: Settings) -> DataFrame | None:
        """See Part.contrast: roots are paired."""
        from tiltmeter.benchmarks._disparity_contrast import contrast_of

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

    sizes: ClassVar[Mapping[str, int | float]] = {"quick": 0.25}

    def __init__(self, name: str, title: str, benchmark: DataFrame, configurations: Configurations) -> None:
        self.name, self.title = name, title
        self._benchmark, self._configurations = benchmark, configurations

    def attribute(self, options: BenchmarkOptions) -> str:
        """See Answers.attribute."""
        return attribute_of(self._benchmark, options)

    def design(self, library: Library, settings: Settings) -> DataFrame:
        """See Part.design.

        The features are opened first, so that missing models fail before any paid request.
        """
        options = options_of(settings)
        features = check_features(options, library, self._benchmark)
        for column in options.groups:
            if not self._benchmark[column].count():
                raise InputError(
                    f"-P group={column}: the column is empty in {self.name}; use -P group=concept"
                )
        design = make_design(self._benchmark, self._configurations, settings, self.name)
        prompts = with_groups(design, options)
        if prompts["subject"].n_unique() < 2:
            group = prompts["subject"][0]
            raise InputError(
                f"{self.name}: all prompts are about {group}; at least two groups are needed; "
                "choose another -P group="
            )
        check_also(prompts, features, options)
        return design

    def standard_errors(
        self, design: DataFrame, settings: Settings, *, heterogeneity: float = 0.0
    ) -> Mapping[str, Sequence[ExpectedError]]:
        """See Part.standard_errors: of the key numbers of each condition.

        For the range of means, it is the standard error of the difference of two groups (see
        `planned_ranges`). For the selection rate, it is that of the group with the fewest prompts minus that
        of all others (see `error_of_selection_rate`).
        """
        errors = {
            planned.metric: [ExpectedError(planned.error)]
            for planned in planned_ranges(design, settings, settings.level)
        }
        for size in condition_sizes(design, settings):
            if size.least < size.total:
                error = ExpectedError(error_of_selection_rate(size))
                errors[f"selection rate, {size.generation}"] = [error]
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
        from tiltmeter.benchmarks._summaries import FEWEST_VALUES

        ranges = {planned.metric: planned.detectable for planned in planned_ranges(design, settings, level)}
        effects = {**super().detectable_effects(errors, design, settings, level), **ranges}
        untested = tuple(
            f", {size.generation}" for size in condition_sizes(design, settings) if size.least < FEWEST_VALUES
        )
        return {metric: effect for metric, effect in effects.items() if not metric.endswith(untested)}

    def tests_of_a_family(self, design: DataFrame, settings: Settings) -> int:
        """See Part.tests_of_a_family.

        A statistic is tested for each column of each feature in each condition.
        """
        from tiltmeter.features import FEATURES

        columns = 0
        for name in options_of(settings).features:
            feature = FEATURES.get(name.partition("=")[0])
            columns += 1 if feature is None else len(feature.columns)
        return columns * len(condition_sizes(design, settings))

    def size_warnings(self, design: DataFrame, settings: Settings, level: float) -> Sequence[str]:
        """See Part.size_warnings: a sentence if only wide ranges of the group means can be shown."""
        available = self._benchmark["root"].n_unique()
        warning = size_warning(self.name, design, available, settings, level)
        return () if warning is None else (warning,)

    def simulate(self, design: DataFrame, dials: Mapping[str, float]) -> DataFrame | None:
        """See Part.simulate."""
        from tiltmeter.benchmarks._simulation import planted_tones

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
        self._values = [name for name in rows.columns if name.startswith(VALUE)]
        self._has_text = rows["text"].count() > 0
        self._rows = rows.select("identity", "baseline", "pair", "prompt", *self._values)

    def design(self, library: Library, settings: Settings) -> DataFrame:
        """See Part.design: one row per response; responses with the same `pair` are one item."""
        options = options_of(settings)
        features = check_features(options, library, self._rows) if self._has_text else ()
        row = pl.int_range(pl.len())
        root = pl.coalesce(pl.format("pair {}", "pair"), pl.format("row {}", row))
        design = self._rows.with_columns(
            prompt_id=pl.format(f"{self.name}/{{}}", row),
            item=root.rank("dense") - 1,
            prompt=col.prompt.fill_null(""),
            prompt_key=row,
            root=root,
            concept=col.identity,
            stratum=col.identity,
        )
        same_in_all_rows = {
            "part": self.name,
            "prompt_index": 0,
            "first_sample": 0,
            "repetitions": 1,
            "role": NO_ROLE,
            "wording": "own",
            "template": "own",
            "kind": "given",
        }
        design = design.with_columns(lit(value).alias(name) for name, value in same_in_all_rows.items())
        if self._has_text:
            check_also(with_groups(design, options), features, options)
        values = {name: design.schema[name] for name in self._values}
        return conform(design, {**DESIGN, **FACTORS, **values})

    def measure(self, answers: DataFrame, settings: Settings, tools: Tools) -> dict[str, DataFrame]:
        """See Answers.measure; without texts, the values measured elsewhere are used."""
        if self._has_text:
            return super().measure(answers, settings, tools)
        has_value = pl.any_horizontal(col(self._values).is_not_null())
        outcome = when(has_value).then(lit("answered")).otherwise(lit("empty"))
        value = col(self._values[0]).cast(Float64).round(LABEL_DECIMALS).cast(String)
        measures = with_groups(answers, options_of(settings))
        measures = measures.with_columns(outcome=outcome, label=when(has_value).then(value))
        return {"measures": measures.select("outcome", "label", "generation", "subject")}


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
    # If the root was removed from the benchmark, its first branch determines the stratum.
    of_first_branch = col.concept.first().over("root")
    rows = benchmark.with_row_index("place").with_columns(
        item=col.place.first().over("root").rank("dense") - 1,
        stratum=col.root.replace_strict(benchmark["key"], benchmark["concept"], default=of_first_branch),
    )
    rows = keep_limit(rows.sort("item", maintain_order=True), settings.limit, settings.seed, name)
    kinds = rows["kind"].unique().to_list()
    of_configurations = []
    for role, system_message in configurations.roles.items():
        if system_message is None:
            system_message = settings.system_message
        for template, texts in configurations.templates.items():
            prompt = _filled(texts, kinds, template)
            of_configurations.append(
                rows.with_columns(
                    role=lit(role), template=lit(template), system=lit(system_message, String), prompt=prompt
                )
            )
    prompts = pl.concat(of_configurations).sort("item", maintain_order=True)
    design = prompts.with_columns(
        part=lit(name),
        prompt_index=pl.int_range(pl.len()).over("item"),
        wording=col.template,
        prompt_key="key",
        repetitions=lit(settings.repeats or 1),
    )
    design = design.with_columns(
        prompt_id=pl.concat_str(lit(f"{name}/"), "item", lit("/"), "prompt_index"),
        first_sample=first_samples(),
    )
    return conform(design, {**DESIGN, **FACTORS})


def _filled(texts: Mapping[str, str], kinds: list[str], template: str) -> Expr:
    """Return the text of a template with each prompt; `texts` has the text for each kind of prompt."""
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
    from tiltmeter.benchmarks._branching import branch
    from tiltmeter.benchmarks._builtin import builtin

    study = builtin(name)
    table = study.benchmark
    if study.replacements is not None:
        table = branch(table, study.replacements, counterfactual_baseline=True).benchmark
    kinds = table["kind"].unique()
    templates = {template: dict.fromkeys(kinds, text) for template, text in study.templates.items()}
    return BenchmarkPart(name, study.title, table, configurations_of(study.roles, templates, params))


def own_part(path: str, params: Mapping[str, str]) -> BenchmarkPart:
    """Read a benchmark file, with the description that `tiltmeter build` wrote.

    Raises InputError if it cannot be used.
    """
    from tiltmeter.benchmarks._files import read_benchmark

    table = read_benchmark(path)
    if table["concept"].n_unique() < 2:
        raise InputError(
            f"-P benchmark={path}: all prompts are about {table['concept'][0]}; "
            "at least two groups are needed"
        )
    description = _description(Path(path))
    name = _plain_name(str(description.get("name") or Path(path).stem))
    configurations = configurations_of(description.get("roles"), description.get("templates"), params)
    title = description.get("title") or f"Benchmark {Path(path).name}"
    return BenchmarkPart(name, title, table, configurations)


def _plain_name(name: str) -> str:
    """Return a name in lower case, with underscores for everything but letters and digits."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "own"


def _description(path: Path) -> dict[str, Any]:
    """Read the description that `tiltmeter build` wrote next to a benchmark; empty if there is none."""
    folder = path.parent if path.name == "benchmark.parquet" else path
    if not (folder / "benchmark.yaml").is_file():
        return {}
    description = read_yaml(folder / "benchmark.yaml", "description")
    return description if isinstance(description, dict) else {}


def check_features(options: BenchmarkOptions, library: Library, rows: DataFrame) -> Sequence[Feature]:
    """Open the features without loading weights, and check that they can be used.

    `rows` has the column `baseline`.

    Raises
    ------
    InputError, ProviderError, NotRun
        A feature or its model is not available, or it needs baselines that the benchmark does not have.
    """
    from tiltmeter.models._text_models import SentenceEncoder

    if options.clusters is not None or "cosine" in options.also:
        SentenceEncoder(find_encoder(options.encoder, library), store=None)
    features = open_unloaded_features(options.features, library)
    if rows["baseline"].count():
        return features
    for feature in features:
        if feature.needs_baseline:
            raise InputError(
                f"-P features={feature.name}: the feature requires baselines, which this benchmark does not "
                "have; remove it"
            )
    return features


def _unscored(measured: Measured) -> DataFrame:
    """Return the table UNSCORED."""
    names = sorted({*measured.problems, *measured.truncated})
    failed = [measured.problems.get(name, 0) for name in names]
    reasons = [measured.reasons.get(name) for name in names]
    truncated = [measured.truncated.get(name, 0) for name in names]
    return DataFrame([names, failed, reasons, truncated], schema=UNSCORED, orient="col")


def _outcomes_and_labels(outcome_without_text: Series, measured: Measured) -> DataFrame:
    """Return `outcome` and `label` of each answer; the label is the value of the first feature."""
    is_scored = measured.values.select(pl.any_horizontal(pl.all().is_not_null())).to_series()
    value = measured.values.to_series(0).round(LABEL_DECIMALS).cast(String)
    return pl.select(
        outcome=pl.coalesce(outcome_without_text, decide_outcome(answered=is_scored)),
        label=when(is_scored).then(value),
    )


def _values(measured: Measured) -> DataFrame:
    """Return the columns `value:FEATURE`; those of decisions are Boolean."""
    decisions = [column.name for column in measured.columns if column.decision]
    values = measured.values.with_columns(col(decisions).cast(pl.Boolean))
    return values.select(pl.all().name.prefix(VALUE))
