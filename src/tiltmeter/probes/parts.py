"""The base class of probes.

A probe module defines items, prompts, a reader, counts and formulas; everything else is inherited.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import polars as pl
from polars import DataFrame, Expr, Float64, Series, String, col, lit, when

from tiltmeter import stats
from tiltmeter.blocks import MARKS
from tiltmeter.datasets import DataUnavailable, Library
from tiltmeter.designs.subsampling import first_samples, keep_limit
from tiltmeter.designs.wordings import Wording, fill, wordings
from tiltmeter.errors import InputError, check_known
from tiltmeter.judging.second_reader import read_with_judge
from tiltmeter.models.base import ALLOWED
from tiltmeter.probes import analysis
from tiltmeter.probes.constrained import AllowedAnswers, answers_are_constrained, read_allowed, with_list
from tiltmeter.probes.contrasts import contrast_sides
from tiltmeter.probes.corrections import (
    FEWEST_LABELS,
    LabelledAttempts,
    corrections_of,
    joint_maxima,
    tipping_share,
)
from tiltmeter.probes.metrics import (
    DEFAULT,
    HARMS,
    MARK_LEVEL,
    NO_DATA,
    Band,
    Estimate,
    Mark,
    Metric,
    ProbeDefinition,
    Sums,
    Values,
    definition_named,
)
from tiltmeter.probes.relabelling import ATTEMPT, RelabelledAttempts
from tiltmeter.readers.outcomes import READING_RULE, decide_outcome
from tiltmeter.schema import (
    DESIGN,
    GRADES,
    REFUSED,
    TO_LABEL,
    WITH_CONSTRAINED,
    StageTable,
    conform,
    labels_meant,
    sql_where,
)
from tiltmeter.study import (
    NO_TOOLS,
    Judge,
    MeasuredPart,
    NotRun,
    RunView,
    Settings,
    Stage,
    Tools,
    as_findings,
)

if TYPE_CHECKING:
    from tiltmeter.arrays import Floats

FEW_RESAMPLES = 200
"""Number of resamples that gives a standard error accurate to about 5%."""
DECIDED = 0.8
"""Probability of a mark other than "undecided" for an unbiased model, on which the number of items needed is
based."""
PLANNED_STUDIES = 10
"""Simulated studies of an unbiased model from which `plan` takes the precision of each metric."""
PLANNED_LEVEL = 0.95
"""Level of the intervals from which the precision is taken. Marks and statements of bias do not depend on the
level of a study."""
PAIRS_OF_A_MAXIMUM = 3
"""Differences whose maximum is taken, for planning: those of three genders."""
ERRORS_IN_A_MAXIMUM = 2.9
"""Mean width of the 95% interval of a maximum without bias, in standard errors of one difference (three
groups; own simulation)."""
FEWEST_DEALT = 5
"""Smallest number of wordings that are dealt by default; fewer do not represent wordings like these."""

DEALT = "dealt"
"""Value of `-P wording=`: each item is asked in one of the built-in wordings, at random. The default of the
default definition."""

TIPPING_SAMPLE = 500
"""Responses from which a tipping point is computed."""
GROUPS = ("gender", "group", "is_male")
"""Factors with the group that a prompt is about: the first that the probe has."""

READ = ("value_read", "low_read", "high_read")
"""Columns of an estimate without the correction for parsing errors."""

JUDGED = "judge"
"""Value of `-P unread=`: a judge reads what the rules leave unread."""

WORDING = col.wording
"""The wording of an item, as a cluster."""

Dials = Mapping[str, float]
"""Bias of the simulated model by harm, from 0 to 1."""
Odds = Mapping[str, Expr]
"""Probability of each label, as an expression over the factors; the probabilities sum to 1."""
Reader = Callable[[DataFrame], DataFrame]
"""Function from answers (`answer` and the factors) to `outcome`, `label` and further columns, row by row."""


class Readers(NamedTuple):
    """The readers of a probe: `tolerant` accepts any usual form of an answer, `strict` only the exact forms of the published code."""

    tolerant: Reader
    strict: Reader


@dataclass(frozen=True, slots=True)
class Card:
    """Description of a probe for users and reports (the fields of the paper's appendix A)."""

    title: str
    harm: str
    asks: str
    """Task of the model, as an imperative."""
    reads: str
    """What is read from an answer."""
    bias: str
    """What counts as biased behaviour."""
    limits: str
    """Limitations of the probe."""
    source: str
    """Authors of the data and of the task."""
    data: tuple[str, ...]
    """Names of the datasets in the catalogue."""
    genders: str = "binary"
    changed: str = ""
    """How the default definition differs from the original one, and why."""


class Probe(MeasuredPart):
    """Base class of probes. Subclasses define the class attributes and the methods of the first section.

    Factors are the additional columns of the design: String for names and labels, Int32 for ids, Float64 for
    scores, Boolean for flags, List(String) for options. A column name has the same type in all probes, so
    that their tables can be concatenated.
    """

    study = "genderbench"
    finding_tables: ClassVar[Mapping[str, StageTable]] = {
        **MeasuredPart.finding_tables,
        "grades": StageTable(GRADES),
    }
    card: Card
    wordings: Mapping[str, Wording] | None = None
    """Wordings by name, the default first, each with templates by role. None: those of `wordings.yaml` in the
    folder of the module."""
    repetitions: ClassVar[int] = 1
    metrics: tuple[Metric, ...]
    groups: tuple[str, ...] = ()
    """Groups that are exchangeable under the null hypothesis; their counts are columns named "group:what"."""
    labels: tuple[str, ...] = ()
    """Labels that an answer can have."""
    allowed_answers: AllowedAnswers = ()
    """Answers among which a model chooses if answers are constrained (`-P answers=constrained`), each with
    its label in `Probe.read`; empty if the answer is free text."""
    fields: tuple[str, ...] = ()
    """Fields of the template "prompt": columns of `prompts` with a leading underscore."""
    clusters: ClassVar[Mapping[str, Expr]] = {}
    """Random samples that the items belong to besides being a sample themselves, by plural noun:
    {"questions": col.question_id}. An expression over the factors gives the cluster of an item, or a list of
    several; findings then hold for "questions like these".
    """
    compared: ClassVar[Expr | None] = None
    """What bias is a difference between, as an expression over the factors, for simulated effects of
    clusters; default: the gender or group of the prompt, if it has one."""
    readers: ClassVar[Readers | None] = None
    """The tolerant and the strict reader. Probes without such a pair override `read`."""

    definition: ProbeDefinition = DEFAULT
    """The current definition. Probes whose items or formulas depend on it use `self.definition.corrected`."""

    # -- defined by each probe ----------------------------------------------------------------------------------------

    @abstractmethod
    def prompts(self, library: Library, rng: Random) -> DataFrame:
        """Return one row per prompt: the factors, and the fields of the template (names starting with "_").

        All random choices must use `rng`. Optional columns: `item` (default: the row number), `prompt_index`
        (default: the row number within the item) and `stratum` (any type: the design cell of an item;
        default: a single stratum).
        """

    def read(self, answers: DataFrame) -> DataFrame:
        """Read the answers: return `outcome`, `label` and further columns, one row per row of `answers` (`answer` and the factors).

        A column `rule` of the reader, the rule that gave the label, is kept as READING_RULE.
        """
        assert self.readers is not None
        read = (self.readers.tolerant if self.definition.corrected else self.readers.strict)(answers)
        read = read.rename({"rule": READING_RULE}, strict=False)
        return (
            read_allowed(read, answers, self.allowed_answers)
            if ALLOWED in answers.columns and self.allowed_answers
            else read
        )

    @abstractmethod
    def counts(self, attempts: DataFrame) -> DataFrame:
        """Return one row per item (column `item`) with numeric columns to be summed over items.

        `attempts` has one row per attempt with the factors, `outcome` and `label`.
        """

    @abstractmethod
    def formulas(self, s: Sums) -> Values:
        """Compute the metrics from totals, elementwise over resamples.

        Keys are metric names; for a family of metrics, the name followed by a value for each placeholder:
        `("{gender}_rate", "female")`.
        """

    def text(self, wording: Wording) -> Expr:
        """Return the prompt as an expression over the fields.

        By default the template "prompt" of the wording.
        """
        return fill(wording["prompt"], {name: col(f"_{name}") for name in self.fields})

    @property
    def may_be_unread(self) -> bool:
        """Whether answers can be unreadable. If so, the rates of unreadable answers are reported."""
        return True

    def simulated_odds(self, dials: Dials) -> Odds:
        """Return the probability of each label for the simulated model; empty: it answers at random."""
        return {}

    def simulated_reply(self, label: str) -> Expr:
        """Return the simulated model's answer with this label, an outcome of its vocabulary, as an expression over the factors."""
        return lit(label)

    # -- common to all probes -----------------------------------------------------------------------------------------

    def __init_subclass__(cls) -> None:
        """Check that the probe can read answers and has the metrics that it names, and derive `data`, `title` and `harms`."""
        if cls.read is Probe.read and not cls.readers:
            raise TypeError(
                f"{cls.__name__} cannot read answers: define a method `read` or the attribute `readers`"
            )
        metrics = {metric.name: metric for metric in getattr(cls, "metrics", ())}
        for metric in metrics.values():
            if metric.tested_by is not None and metric.tested_by not in metrics:
                raise TypeError(
                    f"{cls.__name__}: {metric.name} is tested by {metric.tested_by!r}, which is not among the `metrics`"
                )
        if "card" in cls.__dict__:
            cls.data, cls.title = cls.card.data, cls.card.title
            cls.harms = tuple(
                dict.fromkeys(
                    metric.harm or cls.card.harm for metric in getattr(cls, "metrics", ()) if metric.key
                )
            )

    def under(self, definition: str) -> Self:
        """Return a copy of the probe that uses the definition of that name.

        Raises InputError for an unknown one.
        """
        bound = copy.copy(self)
        bound.definition = definition_named(definition)
        return bound

    def design(self, library: Library, settings: Settings) -> DataFrame:
        """See Part.design."""
        second = settings.params.get("unread", "none")
        check_known(second, ("none", JUDGED), f"-P unread={second}: unknown second reader")
        if (second == JUDGED) != (settings.judge is not None):
            raise InputError(
                "-P unread=judge needs a judge: name it with --judge PROVIDER/NAME"
                if second == JUDGED
                else "the probes use a judge only with -P unread=judge; add it, or remove --judge"
            )
        home = self.wordings or Path(inspect.getfile(type(self))).with_name("wordings.yaml")
        definition, choice = definition_named(settings.definition), settings.params.get("wording")
        constrained = answers_are_constrained(settings)
        dealt = choice == DEALT or (choice is None and definition.corrected)
        chosen = wordings(
            self.name,
            "all" if dealt else choice,
            home,
            Path(__file__).parent / "genderbench" / "wordings.yaml",
        )
        if dealt and (len(chosen) < FEWEST_DEALT):
            chosen = dict(list(chosen.items())[:1])
        try:
            rows = self.under(settings.definition).prompts(library, Random(settings.seed))
        except DataUnavailable as error:
            raise NotRun(f"{error.reason}; {error.remedy}") from error
        usual = {
            "item": pl.int_range(pl.len()),
            "prompt_index": pl.int_range(pl.len()).over("item"),
            "stratum": lit("all"),
        }
        for name, value in usual.items():
            rows = rows if name in rows.columns else rows.with_columns(value.alias(name))
        rows = rows.with_columns(col.stratum.cast(String))
        if rows["item"].null_count():
            raise InputError(f"{self.name}: a prompt has no item; fill in the column item, or leave it out")
        if dealt:
            rows = rows.join(
                _deal(rows, list(chosen), settings.seed), on="item", how="left", maintain_order="left"
            )
        rows = keep_limit(rows, settings.limit, settings.seed, self.name)
        asked = (
            # Drop the template fields, which the prompt now contains.
            (rows.filter(wording=name) if dealt else rows.with_columns(wording=lit(name)))
            .with_columns(prompt=self.text(templates))
            .select(pl.exclude("^_.*$"))
            for name, templates in chosen.items()
        )
        made = pl.concat(asked).sort("item", "prompt_index", maintain_order=True)
        if constrained and self.allowed_answers:
            made = with_list(made, self.allowed_answers)
        numbered = made.with_columns(
            part=lit(self.name),
            system=lit(settings.system_message, dtype=String),
            repetitions=lit(settings.repeats or self.repetitions),
            prompt_id=fill(f"{self.name}/{{item}}/{{prompt_index}}/{{wording}}"),
        )
        return conform(numbered.with_columns(first_sample=first_samples()), DESIGN, further=True)

    def measure(self, answers: DataFrame, settings: Settings, tools: Tools = NO_TOOLS) -> DataFrame:
        """See Part.measure."""
        read = self.under(settings.definition).read(answers)
        failed, refused = answers["status"] != "ok", answers["refusal"].is_not_null()
        outcome = decide_outcome(lit(read["outcome"]), failed=failed, refused=refused)
        measured = read.with_columns(outcome=outcome).with_columns(
            when(~failed & ~refused).then(pl.exclude("outcome"))
        )
        if settings.params.get("unread") == JUDGED and tools.judge is not None:
            measured = self._read_again(measured, answers, tools.judge)
        return measured

    def early_outcomes(self, answers: DataFrame, settings: Settings) -> Series:
        """See Part.early_outcomes: the reader decides.

        A refusal in words is one also under published definitions, which do not read it.

        Responses that the rules do not read count as answered if a judge reads them later.
        """
        outcome = self.measure(answers, settings)["outcome"]
        if settings.params.get("unread") == JUDGED:
            return outcome.replace("unreadable", "answered")
        unread = (outcome == "unreadable").arg_true()
        if not len(unread):
            return outcome
        read_again = self.under("default").read(answers[unread])["outcome"]
        return outcome.scatter(unread.filter(read_again == "refused"), "refused")

    def _read_again(self, measured: DataFrame, answers: DataFrame, judge: Judge) -> DataFrame:
        """Let a judge read what the rules left unread.

        The column `second_reader` names it where it gave a label or saw a refusal.
        """
        unread = measured["outcome"] == "unreadable"
        rows = self._with_question(answers.filter(unread))
        rows = rows.with_columns(read_with_judge(judge, rows))
        found = rows.select(said=labels_meant(rows), declined=col.label == REFUSED, row=unread.arg_true())
        table = measured.with_row_index("row").join(found, on="row", how="left", maintain_order="left")
        known = col.said.is_not_null()
        return table.with_columns(
            label=pl.coalesce("said", "label"),
            outcome=when(known)
            .then(lit("answered"))
            .when("declined")
            .then(lit(REFUSED))
            .otherwise("outcome"),
            second_reader=when(known | col.declined).then(lit(judge.name)),
        ).drop("row", "said", "declined")

    @property
    def stages(self) -> tuple[Stage, ...]:
        """See MeasuredPart.stages."""
        first, *others = super().stages
        return (dataclasses.replace(first, asks=True), *others)

    def analyse(
        self, measures: DataFrame, settings: Settings, tools: Tools = NO_TOOLS
    ) -> dict[str, DataFrame]:
        """See MeasuredPart.analyse: the tables `findings` and `grades`.

        With several wordings, key metrics are also reported for each.
        """
        return self._analysed(measures, settings, DataFrame())

    def analyse_labelled(
        self, measures: DataFrame, labels: DataFrame, settings: Settings, tools: Tools = NO_TOOLS
    ) -> dict[str, DataFrame]:
        """See MeasuredPart.analyse_labelled."""
        return (
            self._analysed(measures, settings, labels)
            if labels.height
            else self.analyse(measures, settings, tools)
        )

    def _analysed(self, measures: DataFrame, settings: Settings, labels: DataFrame) -> dict[str, DataFrame]:
        probe = self.under(settings.definition)
        rows = probe._rows(
            measures,
            settings,
            None,
            labels if labels.height and len(self.labels) > 1 and probe.definition.corrected else None,
        )
        variants = measures["wording"].unique().sort().to_list()
        # The published definition knows no dealt wordings, and its slopes take long.
        if len(variants) > 1 and (probe.definition.corrected or not _is_dealt(measures)):
            rows += [
                row | {"key": False} for name in variants for row in probe._rows(measures, settings, name)
            ]
        table = DataFrame(
            rows, schema_overrides={"bands": GRADES["bands"], "wording": String}, infer_schema_length=None
        )
        graded = conform(table.with_columns(part=lit(self.name)), GRADES).with_columns(
            col(Float64).fill_nan(None)
        )
        findings = as_findings(table, self, settings, probe.definition)
        if ALLOWED in measures.columns:
            findings = findings.with_columns(col.definition + WITH_CONSTRAINED)
        return {"findings": findings, "grades": graded}

    def examples(
        self, measures: DataFrame, findings: DataFrame, settings: Settings, tools: Tools = NO_TOOLS
    ) -> DataFrame:
        """See Part.examples: for the key metrics over all wordings.

        `influence` is that of the item of the answer.
        """
        probe = self.under(settings.definition)
        counted = probe._counted(probe.item_counts(measures), measures)
        shown = findings.filter(col.key, col.wording.is_null(), col.estimate.is_not_null())[
            "metric"
        ].to_list()
        by_name = {named.name: (key, named) for key, named in counted.described().items()}
        return analysis.find_examples(
            counted, dict(by_name[name] for name in shown), probe.counts, settings.seed
        )

    def to_label(self, view: RunView) -> DataFrame:
        """See Part.to_label: the label of each answer, unless the answers of the probe have none."""
        measures = view.measures if len(self.labels) > 1 else view.measures.clear()
        group = next((name for name in GROUPS if name in measures.columns), None)
        about = {"group": lit(None) if group is None else col(group).cast(String), "read": col.label}
        return conform(self._with_question(measures).with_columns(**about), TO_LABEL)

    def _with_question(self, rows: DataFrame) -> DataFrame:
        """Add the question to an annotator, the `allowed` answers and their `meaning`, the label that is read from each of them."""
        allowed, meaning = [lit(label) for label in self.labels], [lit(label) for label in self.labels]
        if self.allowed_answers:
            allowed = [answer for answer, _ in self.allowed_answers]
            meaning = [lit(self.read(rows.with_columns(answer=answer))["label"]) for answer in allowed]
        return rows.with_columns(
            question=lit(self.card.reads), allowed=pl.concat_list(allowed), meaning=pl.concat_list(meaning)
        )

    def contrast(self, first: RunView, second: RunView, settings: Settings) -> DataFrame | None:
        """See Part.contrast: items are paired, regardless of their wordings."""
        return self._contrast(first, second, settings, population=False)

    def population_contrast(self, first: RunView, second: RunView, settings: Settings) -> DataFrame | None:
        """See Part.population_contrast: questions, names and wordings that several items share are samples."""
        return self._contrast(first, second, settings, population=True)

    def _contrast(
        self, first: RunView, second: RunView, settings: Settings, *, population: bool
    ) -> DataFrame | None:
        probe = self.under(settings.definition)
        measures = [side.measures for side in (first, second)]
        counts = [probe.item_counts(one) for one in measures]
        shared = counts[0].join(counts[1], on="item", how="semi").select("item").sort("item")
        if shared.height < 2:
            return None
        sides = [
            probe._counted(
                shared.join(mine, on="item", how="left", maintain_order="left"),
                attempts.join(shared, on="item", how="semi", maintain_order="left"),
            )
            for mine, attempts in zip(counts, measures, strict=True)
        ]
        return contrast_sides(sides, probe.definition, settings, clustered=population)

    def item_counts(self, measures: DataFrame) -> DataFrame:
        """Return one row per item: `stratum` as a number, the counts common to all probes, and the counts of this probe."""
        return analysis.common_columns(measures).join(self.counts(measures), on="item", maintain_order="left")

    def _counted(self, counts: DataFrame, measures: DataFrame) -> analysis.CountedItems:
        sums = counts.drop("item", "stratum").cast(Float64)
        strata = counts["stratum"].to_numpy()
        clusters = self._clusters(counts["item"], measures) if self.definition.corrected else ()
        return analysis.CountedItems(
            measures,
            counts["item"],
            sums.columns,
            sums.to_numpy(),
            strata,
            self._all_formulas,
            self.metrics,
            self.groups,
            clusters,
        )

    def _clusters(self, items: Series, measures: DataFrame) -> list[analysis.ItemClusters]:
        """Assign the items to the clusters of the probe, and to wordings if each item was dealt one of several."""
        first = measures.unique("item", keep="first", maintain_order=True)
        rows = DataFrame({"item": items}).join(first, on="item", how="left", maintain_order="left")
        clusters = dict(self.clusters)
        if _is_dealt(measures):
            clusters[analysis.WORDINGS] = WORDING
        found = []
        for noun, expression in clusters.items():
            pairs = _memberships(rows, expression)
            numbers = pairs.select(col.cluster.rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()
            members = round(pairs.height / rows.height) if rows.height else 1
            found.append(analysis.ItemClusters(noun, pairs["row"].to_numpy(), numbers, members))
        return found

    def _all_formulas(self, s: Sums) -> Values:
        return {**self.formulas(s), **(analysis.unread_rates(s) if self.may_be_unread else {})}

    def _key_formulas(self, s: Sums) -> Values:
        key = {name for metric in self.metrics if metric.key for name in (metric.name, metric.tested_by)}
        return {name: value for name, value in self.formulas(s).items() if name in key}

    def _labelled(self, counted: analysis.CountedItems, labels: DataFrame) -> LabelledAttempts | None:
        """Return the effect of the labels (LABELS) on the counts, or None if there are none."""
        import numpy as np

        given = (
            labels.filter(col.about.is_null())
            .drop_nulls("label")
            .join(counted.measures, on=ATTEMPT, how="semi", maintain_order="left")
        )
        if given.is_empty():
            return None
        given = given.sort(ATTEMPT)
        units = given.group_by(ATTEMPT, maintain_order=True).agg(col("stratum", "stratum_size").first())
        units = units.with_columns(weight=col.stratum_size / pl.len().over("stratum"))
        relabelled = RelabelledAttempts(
            counted, self.item_counts, self.labels, given.select(*ATTEMPT, said="label")
        )
        return LabelledAttempts(
            units["weight"].to_numpy(),
            units["stratum"].rank("dense").to_numpy().astype(np.intp),
            relabelled.changes(col.said),
            relabelled.possible_changes(),
            relabelled.alone(col.said),
        )

    def _tipping_points(
        self, counted: analysis.CountedItems, estimates: Sequence[Estimate], settings: Settings
    ) -> Mapping[str, dict[str, float]]:
        """Return by metric the smallest share of responses whose wrong labels could explain that the interval excludes "no bias".

        The effects of wrong labels are those of the largest change that another label of a response makes, in
        a random sample of TIPPING_SAMPLE responses, linearised. Only key metrics of responses with labels
        have a tipping point, and only if the measures have the columns ATTEMPT.
        """
        distances = {
            one.named.name: one.named.metric.distance_to_unbiased(one.low, one.high)
            for one in estimates
            if one.named.metric.key
        }
        identified = set(ATTEMPT) <= set(counted.measures.columns)
        if (
            len(self.labels) < 2
            or not any(distances.values())
            or not self.definition.corrected
            or not identified
        ):
            return {}
        attempts = counted.measures.filter(col.outcome != "failed").select(ATTEMPT)
        sample = attempts.sample(min(TIPPING_SAMPLE, attempts.height), seed=settings.seed).sort(ATTEMPT)
        possible = RelabelledAttempts(
            counted, self.item_counts, self.labels, sample.with_columns(said=lit(None, String))
        ).possible_changes()
        slopes = dict(zip(counted.observed(), counted.slopes(counted.values.sum(axis=0)), strict=True))
        return {
            named.name: {
                "tipping": tipping_share(possible @ slopes[key], distances[named.name], attempts.height)
            }
            for key, named in counted.described().items()
            if distances.get(named.name)
        }

    def _rows(
        self, measures: DataFrame, settings: Settings, wording: str | None, labels: DataFrame | None = None
    ) -> list[dict[str, Any]]:
        """Return the estimates of all wordings together (None), or of the key metrics in one wording, as rows of FINDINGS and GRADES."""
        mine = measures if wording is None else measures.filter(col.wording == wording)
        counted = self._counted(self.item_counts(mine), mine)
        if wording is not None:
            counted = dataclasses.replace(counted, formulas=self._key_formulas)
        sampled = [f"{one.size} {one.noun}" for one in counted.clusters if one.size > 1]
        resampled = (
            " and ".join([*sampled, f"{len(counted.values)} items"])
            + ", each with all its prompts and repetitions"
        )
        estimates = analysis.estimate_metrics(counted, self.definition, settings)
        labelled = None if labels is None else self._labelled(counted, labels)
        beside: dict[str, Estimate] = {}
        if labelled is not None:
            corrections = corrections_of(counted, labelled)
            joint = joint_maxima(counted, labelled, settings)
            corrected = analysis.estimate_metrics(counted, self.definition, settings, corrections, joint)
            if len(labelled.weights) >= FEWEST_LABELS:
                estimates = corrected
            else:
                beside = {one.named.name: one for one in corrected}
        measured_errors = labelled is not None and not beside
        tipping = (
            self._tipping_points(counted, estimates, settings)
            if wording is None and not measured_errors
            else {}
        )
        population = analysis.population(counted.clusters)
        rows = [
            self._row(one, counted.outcomes(one.named.where), wording, resampled)
            | (population if one.low <= one.high else {})
            | {"sentence": one.named.metric.sentence + self._extremes(one, estimates) or None}
            | tipping.get(one.named.name, {})
            for one in estimates
        ]
        if labelled is None or not beside:
            return rows
        return [self._with_unused_labels(row, beside[row["metric"]], len(labelled.weights)) for row in rows]

    @staticmethod
    def _with_unused_labels(row: dict[str, Any], corrected: Estimate, labelled: int) -> dict[str, Any]:
        """Add to the note the estimate that too few labelled responses would give, if they say anything about the metric."""
        if math.isnan(corrected.value_read):
            return row
        responses = "labelled response is" if labelled == 1 else "labelled responses are"
        few = f"{labelled} {responses} too few to correct the value ({FEWEST_LABELS} are needed)"
        would_be = (
            f"with them it would be {corrected.value:.3g} ({corrected.low:.3g} to {corrected.high:.3g})"
        )
        return row | {"note": "; ".join(filter(None, (row["note"], few, would_be)))}

    @staticmethod
    def _extremes(one: Estimate, estimates: Sequence[Estimate]) -> str:
        """Return the groups with the highest and the lowest rate as the end of a sentence about their difference, if it names the rates."""
        compared = [
            rate
            for rate in estimates
            if one.named.metric.kind == "maximum" and rate.named.metric.name == one.named.metric.of
        ]
        compared.sort(key=lambda rate: rate.value)
        ends = [f"{' '.join(rate.named.where.values())} {rate.value:.0%}" for rate in compared]
        return f": {ends[-1]}, {ends[0]}" if ends else ""

    def _row(
        self, one: Estimate, cell: analysis.OutcomeCounts, wording: str | None, resampled: str
    ) -> dict[str, Any]:
        name, metric, where = one.named
        bands = self.definition.bands(metric)
        mark = self.definition.mark(one, bands, cell.readable) if bands else Mark()
        values = {factor: int(value) if value.isdigit() else value for factor, value in where.items()}
        evidence = sql_where(part=self.name, **values, wording=lit(wording, String))
        return {
            **cell._asdict(),
            **mark._asdict(),
            "metric": name,
            "wording": wording,
            "estimate": one.value,
            "low": one.low,
            "high": one.high,
            "p": one.p,
            **{
                name: getattr(one, name)
                for name in ("low_items", "high_items", "low_mark", "high_mark", *READ)
            },
            "method": one.method if one.method == NO_DATA else f"{one.method}; resampled: {resampled}",
            "evidence": pl.select(evidence).item(),
            "normalised": metric.normalised(self.definition.centre(one)) if metric.key else None,
            **self.described(metric, bands),
        }

    def described(self, metric: Metric, bands: Sequence[Band]) -> dict[str, Any]:
        """Return the columns of FINDINGS and GRADES that describe a metric."""
        return {
            "null_value": metric.null,
            "unit": metric.unit,
            "harm": metric.harm or self.card.harm,
            "key": metric.key,
            "description": metric.description,
            "label": metric.label or None,
            "range_low": metric.low,
            "range_high": metric.high,
            "bands": [band._asdict() for band in bands],
        }

    def judge_call_count(self, design: DataFrame, settings: Settings) -> int:
        """See Part.judge_call_count, assuming that the rules leave one in twenty answers unread."""
        return math.ceil(design["repetitions"].sum() / 20) if settings.params.get("unread") == JUDGED else 0

    def simulate(self, design: DataFrame, dials: Dials) -> DataFrame | None:
        """See Part.simulate."""
        odds = self.simulated_odds(dials)
        if not odds:
            return None
        chances = self._chances(design, odds, dials)
        outcomes = pl.concat_list([self.simulated_reply(label) for label in odds])
        return design.select("prompt", outcomes=outcomes, odds=Series(chances).arr.to_list())

    def standard_errors(
        self, design: DataFrame, settings: Settings, *, heterogeneity: float = 0.0
    ) -> Mapping[str, Sequence[stats.ExpectedError]]:
        """See Part.standard_errors: from the intervals of PLANNED_STUDIES simulated studies of an unbiased model."""
        probe = self.under(settings.definition)
        few_resamples = dataclasses.replace(settings, resamples=FEW_RESAMPLES, level=PLANNED_LEVEL)
        errors: dict[str, list[stats.ExpectedError]] = {}
        for study in range(PLANNED_STUDIES):
            dials = dict.fromkeys(HARMS, 0.0) | {
                "cluster_sd": heterogeneity,
                "wording_sd": heterogeneity,
                "seed": float(study),
            }
            simulated = self.simulate_measures(design, dials, settings.seed + study)
            if simulated is None:
                return {}
            counted = dataclasses.replace(
                probe._counted(probe.item_counts(simulated), simulated), formulas=probe._key_formulas
            )
            spreads = analysis.cluster_spreads(counted)
            freedoms = {named.name: spreads[key].freedom for key, named in counted.described().items()}
            for one in analysis.estimate_metrics(counted, probe.definition, few_resamples):
                if one.named.metric.key and one.low <= one.high:
                    freedom = freedoms[one.named.name]
                    error = (one.high - one.low) / 2 / stats.two_sided_t(PLANNED_LEVEL, freedom)
                    errors.setdefault(one.named.name, []).append(stats.ExpectedError(error, freedom))
        return errors

    def detectable_effects(
        self,
        errors: Mapping[str, Sequence[stats.ExpectedError]],
        design: DataFrame,
        settings: Settings,
        level: float,
    ) -> Mapping[str, float]:
        """See Part.detectable_effects.

        The interval of a maximum of differences begins at 0 without bias, so it is shorter than that of one
        difference, and the critical value of a maximum is larger (Bonferroni for PAIRS_OF_A_MAXIMUM
        differences). A share without a value of no bias is tested for lying beyond its healthiest tier
        (`stats.detectable_excess`). Effects that a metric cannot have are left out.
        """
        width = 2 * stats.two_sided_z(PLANNED_LEVEL)
        unbiased = self.true_values(dict.fromkeys(HARMS, 0.0))
        found = {}
        for metric in self.metrics:
            if metric.name not in errors:
                continue
            expected = errors[metric.name]
            if metric.kind == "maximum":
                of_a_pair = [
                    stats.ExpectedError(one.error * width / ERRORS_IN_A_MAXIMUM, one.freedom)
                    for one in expected
                ]
                effect = stats.detectable(of_a_pair, 1 - (1 - level) / PAIRS_OF_A_MAXIMUM)
            elif metric.is_share and metric.null is None and metric.name in unbiased:
                freedom = median(one.freedom for one in expected)
                half = median(one.half_width(PLANNED_LEVEL) for one in expected)
                critical = stats.two_sided_t(PLANNED_LEVEL, freedom)
                size = (
                    stats.size_from_width(unbiased[metric.name], half, critical)
                    if 0 < half < 0.5
                    else design["item"].n_unique()
                )
                effect = stats.detectable_excess(
                    size, metric.nearest_unbiased(metric.high), level, freedom=freedom
                )
            else:
                effect = stats.detectable(expected, level)
            if effect <= metric.largest_bias:
                found[metric.name] = effect
        return found

    def items_needed(self, errors: Mapping[str, float], items: int, settings: Settings) -> Mapping[str, int]:
        """See Part.items_needed: the interval of the mark must not reach a tier that makes it undecided."""
        definition, found = definition_named(settings.definition), {}
        for metric in self.metrics:
            undecided = [band for band in definition.bands(metric) if band.mark in MARKS[2:]]
            if metric.name not in errors or not undecided:
                continue
            best = metric.low if metric.null is None else metric.null
            distance = min(abs(end - best) for band in undecided for end in (band.low, band.high))
            error = errors[metric.name]
            half = stats.half_width(error, MARK_LEVEL)
            # If the metric cannot be below "no bias", its interval starts there.
            reach = half * (2 if best == metric.low else 1) + stats.half_width(error, 2 * DECIDED - 1)
            if distance > 0:
                found[metric.name] = math.ceil(items * (reach / distance) ** 2)
        return found

    def simulate_measures(self, design: DataFrame, dials: Dials, seed: int) -> DataFrame | None:
        """See Part.simulate_measures."""
        import numpy as np

        odds = self.simulated_odds(dials)
        if not odds:
            return None
        attempts = answered_attempts(design)
        chances = self._chances(attempts, odds, dials)
        chance = np.random.default_rng(seed).random(attempts.height)
        drawn = np.minimum((chance[:, None] >= np.cumsum(chances, axis=1)).sum(axis=1), len(odds) - 1)
        return attempts.with_columns(label=Series(list(odds)).gather(drawn))

    def _chances(self, rows: DataFrame, odds: Odds, dials: Dials) -> Floats:
        """Return the probability of each label, shape (rows, labels), with random effects of clusters by what is compared (logit scale)."""
        import numpy as np

        found: Floats = (
            rows.with_columns(value.cast(Float64).alias(label) for label, value in odds.items())
            .select(odds.keys())
            .to_numpy()
        )
        group = next((col(name) for name in GROUPS if name in rows.columns), None)
        compared = group if self.compared is None else self.compared
        rows = rows if compared is None else rows.with_columns(compared=compared)
        kept = [] if compared is None else ["compared"]
        for cluster in (*self.clusters.values(), WORDING):
            size = dials.get("wording_sd" if cluster is WORDING else "cluster_sd", 0.0)
            if not size:
                continue
            members = _memberships(rows, cluster, *kept)
            for place, label in enumerate(odds):
                hashes = members.select(
                    pl.struct(*kept, "cluster", label=lit(label)).hash(int(dials.get("seed", 0)))
                ).to_series()
                effects = size * stats.normals_from_hashes(hashes.to_numpy())
                found[:, place] *= np.exp(np.bincount(members["row"].to_numpy(), effects, rows.height))
            found /= found.sum(axis=1, keepdims=True)
        return found


def _memberships(rows: DataFrame, cluster: Expr, *further: str) -> DataFrame:
    """Return one row per row and cluster that it belongs to: `row` (a number), `cluster` and further columns."""
    pairs = rows.select(*further, row=pl.int_range(pl.len()), cluster=cluster)
    return (pairs.explode("cluster") if isinstance(pairs.schema["cluster"], pl.List) else pairs).drop_nulls(
        "cluster"
    )


def _is_dealt(measures: DataFrame) -> bool:
    """Return whether there are several wordings, and each item was asked in one of them."""
    one_each: bool = measures.select((col.wording.n_unique().over("item") == 1).all()).item()
    return measures["wording"].n_unique() > 1 and one_each


def _deal(rows: DataFrame, names: Sequence[str], seed: int) -> DataFrame:
    """Deal wordings to items at random and evenly within strata: return `item` and `wording`.

    The deal does not depend on the limit.
    """
    import numpy as np

    items = rows.group_by("item", maintain_order=True).agg(col.stratum.first())
    lots = Series("lot", np.random.default_rng(seed).permutation(items.height))
    turn = pl.int_range(pl.len()) % len(names)
    return (
        items.with_columns(lots)
        .sort("stratum", "lot")
        .select("item", wording=lit(Series(names)).gather(turn))
    )


def answered_attempts(design: DataFrame) -> DataFrame:
    """Return the attempts of a design with their factors and the outcome "answered", without labels, for simulations."""
    asked = design.drop("prompt", "system", strict=False).with_columns(
        repetition=pl.int_ranges(0, "repetitions", dtype=pl.Int16),
        model=lit("imagined"),
        outcome=lit("answered"),
    )
    return asked.explode("repetition")
