"""The structure shared by all studies: parts create a design, parse answers, and compute findings.

Each step takes Polars tables and returns Polars tables. A method (probes, associations, benchmarks) provides
`Part` objects, `run` executes their stages, and reports, exports and gates depend only on `FINDINGS`.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import polars as pl
from polars import DataFrame, Float64, Series, col, lit, when

from tiltmeter import stats
from tiltmeter.comparisons import Groups, Outcome, attempts_by_group
from tiltmeter.definitions import GENERAL, Definition
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.models import Classifier, Encoder, Message, Sampling
from tiltmeter.readers.outcomes import free_texts
from tiltmeter.schema import (
    EXAMPLES,
    FINDINGS,
    ITEMS_LIKE_THESE,
    LABELS,
    LABELS_TABLE,
    MEASURES,
    THESE_ITEMS,
    TO_LABEL,
    StageTable,
    conform,
)

if TYPE_CHECKING:
    from tiltmeter.blocks import Table
    from tiltmeter.datasets import Library
    from tiltmeter.features import Feature


class NotRun(Exception):
    """A part cannot be run, for example because its data is unavailable.

    The message gives the reason and the remedy.
    """


def find_encoder(name: str, library: Library) -> str:
    """Return the folder of the default sentence encoder, or the name of any other.

    Raise NotRun if the default one is unavailable.
    """
    from tiltmeter.datasets import ENCODERS, DataUnavailable, encoder_folder

    try:
        return str(encoder_folder(library)) if name in ENCODERS else name
    except DataUnavailable as error:
        raise NotRun(f"the encoder {name} is not available: {error.reason}; {error.remedy}") from error


def open_unloaded_features(names: Sequence[str], library: Library) -> Sequence[Feature]:
    """Open features without loading the weights of their models, to see whether they can be used.

    Raises
    ------
    InputError, ProviderError, NotRun
        A feature or its model is not available.
    """
    from tiltmeter.features import open_features
    from tiltmeter.models._text_models import SentenceEncoder, TextClassifier

    def encoder(name: str) -> SentenceEncoder:
        return SentenceEncoder(find_encoder(name, library), store=None)

    def classifier(name: str) -> TextClassifier:
        return TextClassifier(name, store=None)

    return open_features(names, encoder=encoder, classifier=classifier)


@dataclass(frozen=True, slots=True)
class Settings:
    """The resolved settings of a study.

    All defaults are filled in, so two runs with equal settings are the same study.

    `limit` selects items of each part (None: all items); `limits` has the limits of single parts that
    override it. `judge` is the name of the model that annotates answers, or None. `params` are the parameters
    of the method (`-P key=value`).
    """

    definition: Definition = GENERAL
    seed: int = 123
    limit: ItemLimit | None = None
    repeats: int | None = None
    resamples: int = 1000
    level: float = 0.95
    system_message: str | None = None
    judge: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, ItemLimit] = field(default_factory=dict)
    replace: Mapping[str, str] = field(default_factory=dict)
    """User files that replace tables of stages: paths by table name."""

    def of_part(self, name: str) -> Settings:
        """Return the settings of one part, with its own `limit` if it has one."""
        return dataclasses.replace(self, limit=self.limits[name]) if name in self.limits else self

    def file_for(self, table: str) -> str | None:
        """Return the file that replaces a table of a stage, or None."""
        return self.replace.get(table, self.params.get(table))


class Judge(Protocol):
    """A model that annotates texts.

    Its requests use the same engine and journal as those of the model under test.
    """

    @property
    def name(self) -> str:
        """Name, as "provider/model"."""
        ...

    def ask(
        self,
        conversations: Sequence[tuple[Message, ...]],
        *,
        schema: Mapping[str, Any] | None = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> DataFrame:
        """Send each conversation once; conversations that are in the journal are not sent again.

        Parameters
        ----------
        conversations
            The messages of each conversation.
        schema
            JSON schema of the answers. It is enforced if the endpoint supports it (response_format) and
            otherwise only a hint, so answers must be validated.
        sampling
            Fields of `Sampling` that override those of the judge, such as {"temperature": 0.0}.

        Returns
        -------
        DataFrame
            One row per conversation, in order: `key` (hex), `status` ("ok", "failed" or "missing"; the latter
            if the run was interrupted before the request), `answer` (null unless ok), `error` ("kind:
            detail", null unless failed).
        """
        ...


class Tools(Protocol):
    """The judge, encoders and classifiers that a stage may use. They are available only within a run."""

    @property
    def judge(self) -> Judge | None:
        """The judge, or None if the user named none."""
        return None

    def encoder(self, name: str) -> Encoder:
        """Return a sentence encoder by name (a known name, a folder, or a model of the Hugging Face Hub).

        Raises
        ------
        NotRun
            The encoder is unavailable; the message gives the reason and the remedy.
        """
        raise NotRun(f"the encoder {name} is only available within a run")

    def classifier(self, name: str) -> Classifier:
        """Return a text classifier by name (a folder, or a model of the Hugging Face Hub).

        Raises
        ------
        NotRun
            The classifier is unavailable; the message gives the reason and the remedy.
        """
        raise NotRun(f"the classifier {name} is only available within a run")

    def problem(self, sentence: str, *, final: bool = False) -> None:
        """Report that part of the results is missing, which makes the run incomplete.

        Parameters
        ----------
        final
            If True, another attempt would not help, so the stage is not repeated.
        """
        return


class NoTools(Tools):
    """Tools outside a run: no judge, encoder or classifier."""


NO_TOOLS: Tools = NoTools()


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a method, from input tables to output tables.

    A run executes stages in the order of their inputs and stores the tables.

    Parameters
    ----------
    name
        Name, unique within a study. The output of a stage "measures" is joined with the factors of the
        design.
    tables
        Output tables by name. Most stages have one table with the name of the stage.
    inputs
        Names of tables of earlier stages; "answers" are the responses with the factors of their prompts,
        "prompts" the texts of these.
    run
        Function that is called with one table per input, then `settings` and `tools`; returns the table, or a
        mapping of tables by name.
    of_study
        If True, the stage runs once for all parts of its kind and all models, and its tables have the columns
        `model` and `part`. If False, it runs for each part of each model.
    optional
        Whether the part continues if the stage fails.
    asks
        Whether the stage calls the judge.
    if_failed
        Message that says what is missing if the stage fails.
    from_user
        Function that creates the tables if the user provides some of them; it is called with a mapping of the
        user's tables, followed by the arguments of `run`. By default the user must provide all tables of a
        stage or none.
    rests_on
        Further dependencies of the tables, besides settings and inputs; must be serialisable as JSON.
    """

    name: str
    tables: Mapping[str, StageTable]
    inputs: tuple[str, ...]
    run: Callable[..., DataFrame | Mapping[str, DataFrame]]
    of_study: bool = False
    optional: bool = False
    asks: bool = False
    if_failed: str = "not analysed"
    from_user: Callable[..., DataFrame | Mapping[str, DataFrame]] | None = None
    rests_on: Mapping[str, Any] = field(default_factory=dict)


def as_findings(table: DataFrame, part: Part, settings: Settings, definition: Definition) -> DataFrame:
    """Convert a table with some columns of FINDINGS to the findings of one model.

    `study`, `part`, `level` and `definition` are filled in, NaN becomes null, and missing columns are null.
    By default the `estimand` of an estimate with an interval is "items like these", otherwise "these items".
    """
    shared = {"study": part.study, "part": part.name, "level": settings.level, "definition": definition.label}
    filled = table.with_columns(lit(value).alias(name) for name, value in shared.items())
    findings = conform(filled, FINDINGS).with_columns(col(Float64).fill_nan(None))
    population = when(col.low.is_not_null()).then(lit(ITEMS_LIKE_THESE)).otherwise(lit(THESE_ITEMS))
    findings = with_attribute(findings, part, settings)
    return findings.with_columns(
        estimand=pl.coalesce("estimand", population), key=col.key.fill_null(value=False)
    )


def with_attribute(table: DataFrame, part: Part, settings: Settings) -> DataFrame:
    """Return a table with the columns NAMED in which every row with a group has an attribute.

    By default it is the first attribute that the part compares (see `Part.compared_groups`).
    """
    declared = part.compared_groups(settings)
    if not declared:
        return table
    has_group = col.group.is_not_null()
    attribute = pl.coalesce("attribute", when(has_group).then(lit(declared[0].attribute)))
    return table.with_columns(attribute=attribute)


SINGLE_TESTS = 1
"""Value of `Part.tests_of_a_family` if a plan speaks of single tests.

The number of tests is known only after the run.
"""


class RunView(Protocol):
    """Access to the stored tables of one part and model of a run."""

    @property
    def measures(self) -> DataFrame:
        """Measures, one row per attempt, with the factors of the part."""
        ...

    def stage(self, table: str) -> DataFrame:
        """Return a table of a stage; raises NotRun if the run has no table of that name."""
        ...


class ReportView(Protocol):
    """Access to the findings of one kind of study in one or more runs.

    A model that occurs in several runs is named after the run.
    """

    @property
    def findings(self) -> DataFrame:
        """Findings of all parts and models (columns FINDINGS)."""
        ...

    @property
    def examples(self) -> DataFrame:
        """Examples (columns EXAMPLES) with `model`, `part`, `prompt`, `answer`, `outcome` and `label`.

        One example for each key number has a counterfactual pair: `other_prompt`, `other_answer`,
        `other_outcome` and `other_label`.
        """
        ...

    @property
    def titles(self) -> Mapping[str, str]:
        """Titles of the parts by name."""
        ...

    def table(self, name: str) -> DataFrame:
        """Return a table of a method-specific stage, with `model` and `part`.

        An empty table if no run has it.
        """
        ...


@dataclass(frozen=True, slots=True)
class MethodTable:
    """A table that a method makes from the tables of a run.

    It is for `Run.table`, `tiltmeter show --table` and exports. The registered study provides them with
    `tables_of(view)`, which returns them by name, as it provides `present(view)`.

    Parameters
    ----------
    rows
        Function that returns the table, with the columns `model` and `part`. It is called only when the table
        is needed.
    present
        Function that returns the block of a report with the given rows.
    """

    rows: Callable[[], DataFrame]
    present: Callable[[DataFrame], Table]


class Part(ABC):
    """One separately measured part of a study: a probe, a grid of stories or a benchmark.

    Stages must depend only on their arguments and on the answers of their tools, and must not keep references
    to tables.

    Examples
    --------
    See `examples/new_part` in the repository for a complete part.

    >>> from tiltmeter import Part
    >>> from tiltmeter.probes import PROBES
    >>> isinstance(PROBES.load("gest"), Part)
    True
    """

    name: str
    """Lower-case identifier, unique within the study; the value of the column `part` of the design."""
    study: str
    """Name of the kind of study: "genderbench", "associations" or "benchmarks"."""
    method: ClassVar[str] = ""
    """Method whose definitions apply to the part: "probes", "associations" or "benchmarks"; empty if the part
    has only one definition."""
    title: str
    """Title in reports."""
    data: Sequence[str] = ()
    """Catalogue names of the external data that the part reads."""
    harms: Sequence[str] = ()
    """Harms that the key findings measure."""
    listed_factors: Sequence[str] = ()
    """Factors that a list of the prompts has beside them, such as their groups."""
    labels: Sequence[str] = ()
    """Labels that a response can have; empty if a text is read in another way."""
    sizes: ClassVar[Mapping[str, int | float]] = {}
    """Limits for the sizes "quick" and "standard"; a size without an entry, and "full", means all items."""
    remark: str = ""
    """Sentence about the prompts that a plan and the beginning of a run say; empty if there is none."""
    contrasts_unpaired: bool = False
    """Whether `contrast` can also compare runs that have no prompts in common."""

    @abstractmethod
    def design(self, library: Library, settings: Settings) -> DataFrame:
        """Return one row per prompt: the columns of DESIGN plus the factors.

        Raises NotRun if data is unavailable.
        """

    @property
    @abstractmethod
    def stages(self) -> tuple[Stage, ...]:
        """The stages that process the responses, which must include "measures" and, later, "findings"."""

    def early_outcomes(self, answers: DataFrame, settings: Settings) -> Series:
        """Return the outcome (one of OUTCOMES) of each of the first responses, without any tools.

        A run uses it to notice after a few responses that none can be used. By default every text that is not
        a refusal is "answered".

        Parameters
        ----------
        answers
            As for the stage "measures": the columns of the design (without `prompt` and `system`) and those
            of RESPONSES.
        settings
            Settings of the part.
        """
        return free_texts(answers)["outcome_without_text"].fill_null("answered")

    def compared_groups(self, settings: Settings) -> Sequence[Groups]:
        """Return the attributes that the part varies, with their groups.

        Missing responses are compared between the groups of each. By default there are none.
        """
        return ()

    def compared_labels(self, settings: Settings) -> Sequence[Outcome]:
        """Return the labels of the part as outcomes, with values that are expressions over the measures.

        The part has its own findings for their means and overall differences. A run adds the differences of
        several groups from each other, and the comparisons that the user asks for. By default there are none.
        """
        return ()

    def further_outcomes(self, settings: Settings) -> Sequence[Outcome]:
        """Return further outcomes that the part measures, with values that are expressions over the measures.

        Unlike for `compared_labels`, the part has no findings of its own about them: a run adds their means
        by group and all comparisons. By default there are none.
        """
        return ()

    def outcomes_by_group(self, view: RunView, settings: Settings) -> Iterator[tuple[Groups, DataFrame]]:
        """Yield each declaration of groups with the attempts that are about one of them.

        The attempts have the columns `item`, `group` and `outcome`, and those of clusters (see
        `tiltmeter.comparisons.attempts_by_group`). By default they are the measures.
        """
        for groups in self.compared_groups(settings):
            yield groups, attempts_by_group(view.measures, groups)

    def to_label(self, view: RunView) -> DataFrame:
        """Return what can be labelled in the responses of one model (columns TO_LABEL).

        By default nothing.
        """
        return DataFrame(schema=dict(TO_LABEL))

    def contrast(self, first: RunView, second: RunView, settings: Settings) -> DataFrame | None:
        """Compute differences (columns CONTRASTS) between two views of one model each.

        These are the findings of the second view minus those of the first. Prompts in both views are paired,
        so that differences between prompts cancel. Returns None if the part has no better method than
        comparing the intervals of the findings.
        """
        return None

    def population_contrast(self, first: RunView, second: RunView, settings: Settings) -> DataFrame | None:
        """Compute the same differences, with intervals and tests about questions and names like these.

        By default the result of `contrast`, which is right if no other units than those that it resamples are
        a sample.
        """
        return self.contrast(first, second, settings)

    def judge_call_count(self, design: DataFrame, settings: Settings) -> int:
        """Return the expected number of judge calls for a design, without retries.

        0 if the part uses no judge.
        """
        return 0

    def question_length(self, settings: Settings) -> float:
        """Return the average length of a question to the judge in characters, without the quoted answers."""
        return 0.0

    def standard_errors(
        self, design: DataFrame, settings: Settings, *, heterogeneity: float = 0.0
    ) -> Mapping[str, Sequence[stats.ExpectedError]]:
        """Return the expected standard errors of each key metric for an unbiased model.

        There is one, or one for each of several simulated studies. `heterogeneity` is the standard deviation
        (logit) of the random effects of questions, names and wordings.
        """
        return {}

    def detectable_effects(
        self,
        errors: Mapping[str, Sequence[stats.ExpectedError]],
        design: DataFrame,
        settings: Settings,
        level: float,
    ) -> Mapping[str, float]:
        """Return the smallest true effect on each key metric that a test is likely to show.

        A test at this level of confidence shows it with 80% probability. `errors` are the standard errors
        from `standard_errors`. Metrics on which no possible effect is so large are left out.
        """
        return {metric: stats.detectable(of_metric, level) for metric, of_metric in errors.items()}

    in_standard_deviations: bool = False
    """Whether standard errors and detectable effects of a plan are in standard deviations, because the scale
    of the numbers is not known before the responses."""

    def metric_in_words(self, metric: str) -> str:
        """Return a metric in words, for figures."""
        return metric.replace("_", " ")

    def tests_of_a_family(self, design: DataFrame, settings: Settings) -> int | None:
        """Return the number of tests among which this part computes q itself.

        None if the run computes q, among the key tests of all parts.
        """
        return None

    def size_warnings(self, design: DataFrame, settings: Settings, level: float) -> Sequence[str]:
        """Return a sentence for each reason why this design is too small for tests at this level.

        It is too small if these could not show effects of interest.
        """
        return ()

    def items_needed(self, errors: Mapping[str, float], items: int, settings: Settings) -> Mapping[str, int]:
        """Return the number of items per graded metric at which a mark is likely to be decided.

        The mark of an unbiased model is then decided with 80% probability. `errors` are the standard errors
        from `standard_errors`, which hold for `items` items.
        """
        return {}

    def simulate(self, design: DataFrame, dials: Mapping[str, float]) -> DataFrame | None:
        """Return the answers of a simulated model with these bias settings; None for neutral default answers.

        The table has one row per prompt: `prompt`, `outcomes` (list of str), `odds` (list of float,
        probabilities that sum to 1), and optionally the wording of the outcomes; see
        `tiltmeter.models.sim.SimulatedModel.learn`.
        """
        return None

    def planted_effects(self, design: DataFrame, dials: Mapping[str, float]) -> DataFrame | None:
        """Return the associations of the simulated model.

        The columns are `concept`, `group` (with the strongest association) and `effect`.
        """
        return None

    def true_values(self, dials: Mapping[str, float]) -> Mapping[str, float]:
        """Return the true value of each key metric for a simulated model with these bias settings."""
        return {}


class MeasuredPart(Part):
    """A part that measures each response separately and computes its findings from these measures only."""

    finding_tables: ClassVar[Mapping[str, StageTable]] = {"findings": StageTable(FINDINGS)}
    """Tables of the stage "findings" by name, as returned by `analyse`."""

    @abstractmethod
    def measure(self, answers: DataFrame, settings: Settings, tools: Tools = NO_TOOLS) -> DataFrame:
        """Parse the answers; return one row per attempt, in order.

        The columns are `outcome` (one of OUTCOMES), `label` (null unless answered) and further columns of the
        method. `answers` has the columns of the design (without `prompt` and `system`) and those of
        RESPONSES.
        """

    @abstractmethod
    def analyse(
        self, measures: DataFrame, settings: Settings, tools: Tools = NO_TOOLS
    ) -> DataFrame | Mapping[str, DataFrame]:
        """Compute the findings (columns FINDINGS) of one model from its measures.

        The measures are joined with the factors of the design. A part with further tables (see
        `finding_tables`) returns all tables by name.
        """

    def examples(
        self, measures: DataFrame, findings: DataFrame, settings: Settings, tools: Tools = NO_TOOLS
    ) -> DataFrame | Mapping[str, DataFrame]:
        """Return the most influential answers (columns EXAMPLES) for each key finding of one model.

        An empty mapping means that there are none. `measures` are the input of `analyse`, and `findings` is
        its result.
        """
        return {}

    def analyse_labelled(
        self, measures: DataFrame, labels: DataFrame, settings: Settings, tools: Tools = NO_TOOLS
    ) -> DataFrame | Mapping[str, DataFrame]:
        """Compute the findings, corrected for parsing errors by `labels` (LABELS, which may be empty).

        By default, not corrected.
        """
        return self.analyse(measures, settings, tools)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages "measures", "labels", "findings" and "examples".

        The table of labels is empty, unless the run folder has labels.
        """
        measures = Stage(
            name="measures",
            tables={"measures": StageTable(MEASURES, further=True)},
            inputs=("answers",),
            run=self.measure,
            if_failed="not measured",
        )
        labels = Stage(
            name="labels",
            tables={"labels": LABELS_TABLE},
            inputs=("measures",),
            run=lambda *_: DataFrame(schema=dict(LABELS)),
        )
        findings = Stage(
            name="findings",
            tables=self.finding_tables,
            inputs=("measures", "labels"),
            run=self.analyse_labelled,
        )
        examples = Stage(
            name="examples",
            tables={"examples": StageTable(EXAMPLES)},
            inputs=("measures", "findings"),
            run=self.examples,
            optional=True,
            if_failed="no examples of answers",
        )
        return (measures, labels, findings, examples)

    def simulate_measures(self, design: DataFrame, dials: Mapping[str, float], seed: int) -> DataFrame | None:
        """Draw measures of the simulated model directly, without generating and parsing answers.

        The result has the columns of `measure`, joined with the factors of the design. Used to plan studies
        and to validate intervals against known true values. None if the part does not support it.
        """
        return None


@dataclass(frozen=True, slots=True)
class Study:
    """A named list of parts, with the sampling parameters that the method prescribes.

    Options of the user override these.

    Examples
    --------
    >>> import polars as pl, tiltmeter as tm
    >>> from tiltmeter.probes import TableProbe
    >>> groups = ["women", "men"]
    >>> prompts = [f"Can {group} drive? Yes or no." for group in groups]
    >>> rows = pl.DataFrame({"prompt": prompts, "group": groups, "expected": ["yes", "yes"]})
    >>> study = tm.Study("driving", "Who can drive?", [TableProbe("driving", rows)])
    >>> run = tm.run(study, model=lambda prompt: "Yes.", display="none", out="driving")
    >>> run.finding("difference").estimate
    0.0
    """

    name: str
    title: str
    parts: Sequence[Part]
    sampling: Sampling = field(default_factory=Sampling)
    judging: Sampling | None = None
    """Sampling parameters of the judge; None if the method uses no judge."""
    description: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    """Parameters that a user may set with `-P key=value`, each with a one-sentence description."""
    noun: str = "parts"
    """Plural noun for the parts, such as "probes"."""

    def title_of(self, chosen: int, verb: str = "") -> str:
        """Return the title of a study of only `chosen` of its parts.

        `verb` says what was done with them, such as "measured".
        """
        every = len(self.parts)
        if chosen == every:
            return self.title
        if every == 1:
            return f"{self.title} (not measured)"
        share = f"{chosen} of {every} {self.noun} {verb}".rstrip()
        number = f" in {every} {self.noun}"
        if number in self.title:
            return self.title.replace(number, f": {share}")
        return f"{self.title} ({share})"
