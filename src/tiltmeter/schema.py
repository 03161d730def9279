"""Columns of the tables that all methods share, and what is done with such tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import polars as pl
from polars import Boolean, DataFrame, Expr, Float64, Int32, Int64, LazyFrame, Series, String, col, lit, when

from tiltmeter import stats
from tiltmeter.errors import InputError
from tiltmeter.readers.outcomes import OUTCOMES

Schema = Mapping[str, pl.DataType | type[pl.DataType]]
"""Column names and types."""


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


DESIGN: Schema = {
    "prompt_id": String,  # "gest/12/0/plain": part, item, prompt of the item, wording; unique in a study
    "part": String,
    "item": Int32,  # resampling unit; numbered as in the full design, regardless of --limit
    "prompt_index": pl.Int16,
    "wording": String,
    "system": String,  # null: no system message
    "prompt": String,
    "repetitions": pl.Int16,  # number of requested answers
    # Sample number of the first answer; above 0 if an earlier prompt of the part has the same text.
    "first_sample": Int32,
}
"""Columns of every design. The factors of its parts follow, one column per factor (null if a part does not
have it)."""

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
"""Columns of measures, one row per attempt. The factors of the prompt and further measures of the method
follow."""

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
    "published": String,  # name of the metric in the publication of the method; null if it has none
    "estimate": Float64,  # null if it could not be computed (see note)
    "low": Float64,
    "high": Float64,
    "level": Float64,
    "p": Float64,
    "q": Float64,
    "null_value": Float64,  # the value that means "no bias"; null if there is none
    "unit": String,  # one of UNITS
    # The population that the interval refers to: "these items", "items like these", "these names" or "names
    # like these".
    "estimand": String,
    "items": Int64,  # resampling units with at least one parsed answer
    "attempts": Int64,
    **dict.fromkeys(OUTCOMES, Int64),
    # One of MARKS, a range of them (see range_words), "undecided", "ungraded", or null if the metric has no
    # tiers.
    "mark": String,
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
    "missing_low": Float64,  # value if all missing responses were of one label, smallest and largest over the
    "missing_high": Float64,  # labels; null if no response is missing
    "value_read": Float64,  # before the correction for parsing errors; null without labels
    "low_read": Float64,
    "high_read": Float64,
    "bands": pl.List(pl.Struct({"mark": String, "low": Float64, "high": Float64})),  # tiers of the marks
    "normalised": Float64,  # 0 (no bias) to 1, comparable between metrics
    "tipping": Float64,  # smallest share of wrong labels that could explain the result; null if there is none
}
"""Columns of the table `grades`, which the stage "findings" also returns for parts with graded metrics."""

UNITS: Mapping[str, tuple[float | None, float | None]] = {
    "share": (0.0, 1.0),
    "difference": (-1.0, 1.0),  # of shares
    "ratio": (0.0, 1.0),
    "quotient": (0.0, None),  # of the means of two groups
    "count": (0.0, None),  # an integer
    "score": (None, None),
    "p": (0.0, 1.0),
}
"""Units of estimates, with the minimum and maximum value."""

WITH_CONSTRAINED = " with constrained answers"
"""End of the `definition` of findings from constrained answers, which may be compared with those from free
answers."""

THESE_ITEMS: Final = "these items"
ITEMS_LIKE_THESE: Final = "items like these"
"""Populations that an estimate can refer to."""

SHOWN_BELOW = 0.05
"""Bias is stated as a fact only if its q-value is below this."""

_ATTEMPT = ("model", "part", "prompt_id", "repetition")

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
"""Columns of labels: what a sample of the responses says, as read by people or a judge. One row per sampled
row and annotator."""

LABELS_TABLE: Final = StageTable(
    LABELS,
    required=(*_ATTEMPT, "stratum", "stratum_size", "annotator"),
    unique=(*_ATTEMPT, "about", "annotator"),
)

REFUSED: Final = "refused"
UNCLEAR: Final = "unclear"
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
    # The estimate with all answers minus the estimate without this one (or its item), in the metric's unit.
    "influence": Float64,
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
    # Interval of first plus second, from the same resamples; null: from the intervals of both sides.
    "sum_low": Float64,
    "sum_high": Float64,
    "freedom": Float64,  # degrees of freedom of the intervals of the sides and of their sum; null: infinite
}
"""Columns of differences between two models or two runs, one row per finding.

The columns from `estimand` on are optional. They serve the verdict on a metric whose bias can have either
sign (see `tiltmeter.comparing.BiasScale`).
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
        return cls(
            study=row["study"],
            part=row["part"],
            model=row["model"],
            metric=row["metric"],
            estimate=row["estimate"],
            low=row["low"],
            high=row["high"],
            mark=row["mark"],
            values=dict(row),
        )


Frame = TypeVar("Frame", DataFrame, LazyFrame)


def conform(table: Frame, columns: Schema, *, further: bool = False) -> Frame:
    """Return a table with the given columns, types and column order; missing columns are null.

    Parameters
    ----------
    further
        If True, other columns are kept after these.
    """
    names = table.collect_schema().names()
    selected = []
    for name, kind in columns.items():
        column = col(name) if name in names else lit(None)
        selected.append(column.cast(kind).alias(name))
    if further:
        selected += [col(name) for name in names if name not in columns]
    return table.select(selected)


def beside(rows: DataFrame, others: DataFrame, *on: str) -> DataFrame:
    """Left-join `others` to `rows` on the columns `on`, preserving the order of the rows.

    Nulls match nulls.
    """
    return rows.join(others, on=on, how="left", nulls_equal=True, maintain_order="left")


def metric_name() -> Expr:
    """Return an expression for the short name of a finding: "stereotype_rate", "range_mean_vader_calibrated".

    `show --metric` and gates accept these names.
    """
    metric = when(col.statistic.is_null()).then("metric")
    calibrated = when("calibrated").then(lit("calibrated"))
    return pl.concat_str(
        metric, "comparison", "statistic", "feature", calibrated, separator="_", ignore_nulls=True
    )


def shown_unit() -> Expr:
    """Return an expression for the unit in which a finding is shown, from `unit` and `range_low`.

    Differences that can exceed 1 are scores.
    """
    return when(col.range_low < -1).then(lit("score")).otherwise("unit").alias("unit")


def sql_where(**values: Expr | str | int) -> Expr:
    """Return an SQL condition that columns equal these values.

    Texts are quoted, and columns with null values are omitted.
    """
    conditions_on_texts = []
    conditions_on_numbers = []
    for column, value in values.items():
        if isinstance(value, int):
            conditions_on_numbers.append(lit(f"{column} = {value}"))
        else:
            text = lit(value) if isinstance(value, str) else value
            quoted = text.str.replace_all("'", "''", literal=True)
            conditions_on_texts.append(pl.format(f"{column} = '{{}}'", quoted))
    conditions = [*conditions_on_texts, *conditions_on_numbers]
    return pl.concat_str(conditions, separator=" AND ", ignore_nulls=True)


def q_values(p: Series) -> Series:
    """Compute the q-values of one family of p-values (Benjamini-Hochberg); null if there is no p-value."""
    return Series(p.name, stats.benjamini_hochberg(p.fill_null(float("nan")).to_numpy())).fill_nan(None)


def refuse_alike(groups: Series, place: str) -> None:
    """Raise InputError if groups differ only in upper and lower case; `place` names the file."""
    names = groups.unique().sort()
    alike = names.filter(names.str.to_lowercase().is_duplicated())
    if len(alike):
        raise InputError(
            f"{place}: groups differ only in upper and lower case ({', '.join(alike)}); write them in one way"
        )


def labels_meant(rows: DataFrame) -> Series:
    """Return the label that the answer `label` of an annotator stands for (see TO_LABEL) in each row.

    Null if it is not allowed.
    """
    numbered = rows.select("label", "allowed", "meaning").with_row_index("row")
    choices = numbered.explode("allowed", "meaning").filter(col.allowed == col.label)
    meanings = choices.unique("row", keep="first").select("row", "meaning")
    return numbered.select("row").join(meanings, on="row", how="left", maintain_order="left")["meaning"]
