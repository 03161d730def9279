"""The findings that a run adds to those of each part: outcomes of its attempts compared between groups.

Missing responses are always compared. The length of responses and features of their texts are compared if the
user asks for them, and the labels of a part in further ways.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property

import polars as pl
from polars import DataFrame, col, lit

from tiltmeter.comparisons import (
    COMPARED,
    LENGTH,
    WORD,
    ComparisonOptions,
    Outcome,
    Row,
    compare_missing,
    compare_outcome,
)
from tiltmeter.schema import FINDINGS, sql_where
from tiltmeter.study import Part, Settings, Tools, as_findings

ANSWER_LENGTH = "answer_length"
"""Metric of the number of words of a response."""
KEYS = ("prompt_id", "repetition")


class PartView:
    """The tables of one part of one model while they are made (implements `tiltmeter.study.RunView`).

    Parameters
    ----------
    read
        Function that returns a table by its name.
    further
        Further outcomes of the attempts: KEYS and columns with the prefix COMPARED.
    """

    def __init__(self, read: Callable[[str], DataFrame], further: DataFrame | None = None) -> None:
        self._read = read
        self._further = further

    @cached_property
    def measures(self) -> DataFrame:
        """See RunView."""
        measures = self._read("measures")
        if self._further is None:
            return measures
        return measures.join(self._further, on=KEYS, how="left", maintain_order="left")

    def stage(self, table: str) -> DataFrame:
        """See RunView."""
        return self._read(table)


def with_outcomes_by_group(
    findings: DataFrame,
    part: Part,
    read: Callable[[str], DataFrame],
    model: str,
    settings: Settings,
    tools: Tools,
) -> DataFrame:
    """Return the findings of a part with those that compare outcomes of its attempts between groups.

    Each declaration of groups is compared by itself (see `Part.compared_groups`).

    Parameters
    ----------
    findings
        FINDINGS of one model.
    part
        The part.
    read
        Function that returns a table of the part and model by its name.
    model
        Name of the model.
    settings
        Settings of the part.
    tools
        Encoders and classifiers of features.
    """
    options = ComparisonOptions.of(settings.params)
    labels = part.compared_labels(settings)
    measured = part.further_outcomes(settings)
    texts, further = _outcomes_of_texts(read, options, tools)
    if labels or measured:
        of_measures = read("measures").select(*KEYS, *_as_columns([*labels, *measured]))
        further = of_measures if further is None else further.join(of_measures, on=KEYS, how="left")
    rows: list[Row] = []
    for declared, attempts in part.outcomes_by_group(PartView(read, further), settings):
        groups = dataclasses.replace(declared, reference=options.reference)
        chosen = options.comparisons, settings.level, settings.seed
        rows += compare_missing(attempts, groups, *chosen)
        for outcome in (*labels, *measured, *texts):
            compared = outcome._replace(value=col(f"{COMPARED}{outcome.metric}"))
            if f"{COMPARED}{outcome.metric}" in attempts.columns:
                has_estimates = outcome in labels
                rows += compare_outcome(compared, attempts, groups, *chosen, has_estimates=has_estimates)
    if not rows:
        return findings
    return pl.concat([findings, _as_findings_of(rows, part, settings, findings, model)])


def _as_columns(outcomes: Sequence[Outcome]) -> list[pl.Expr]:
    """Return the values of outcomes as columns that are compared."""
    return [outcome.value.cast(pl.Float64).alias(f"{COMPARED}{outcome.metric}") for outcome in outcomes]


def _as_findings_of(
    rows: Sequence[Row], part: Part, settings: Settings, findings: DataFrame, model: str
) -> DataFrame:
    """Return comparisons as FINDINGS, with the definition of the other findings of the part."""
    names = dict.fromkeys(name for row in rows for name in row)
    kinds = {name: FINDINGS[name] for name in names if name in FINDINGS}
    table = DataFrame(rows, schema_overrides=kinds, infer_schema_length=None)
    compared = as_findings(table, part, settings, settings.definition).with_columns(model=lit(model))
    of_part = pl.concat_str(sql_where(part=part.name), "evidence", separator=" AND ")
    compared = compared.with_columns(evidence=of_part)
    if findings.height:
        compared = compared.with_columns(definition=lit(findings["definition"][0]))
    return compared


def _outcomes_of_texts(
    read: Callable[[str], DataFrame], options: ComparisonOptions, tools: Tools
) -> tuple[list[Outcome], DataFrame | None]:
    """Return the outcomes that the user asks for, and their values for each attempt that was answered."""
    if not options.outcomes:
        return [], None
    from tiltmeter.features import columns_without_value, measure_features, open_features

    answers = read("answers").select(*KEYS, "answer")
    outcomes = read("measures").select(*KEYS, "outcome")
    answered = outcomes.filter(outcome="answered").join(answers, on=KEYS, how="left", maintain_order="left")
    values = answered.select(KEYS)
    described = []
    condition = "outcome = 'answered'"
    if LENGTH in options.outcomes:
        words = answered["answer"].str.count_matches(WORD).cast(pl.Float64)
        values = values.with_columns(words.alias(f"{COMPARED}{ANSWER_LENGTH}"))
        described.append(Outcome(ANSWER_LENGTH, lit(None), is_rate=False, evidence=condition))
    names = [name for name in options.outcomes if name != LENGTH]
    features = open_features(names, encoder=tools.encoder, classifier=tools.classifier)
    measured = measure_features(features, answered["answer"])
    for sentence in columns_without_value(measured, answered.height):
        tools.problem(sentence)
    for column in measured.columns:
        values = values.with_columns(measured.values[column.name].alias(f"{COMPARED}{column.name}"))
        described.append(
            Outcome(column.name, lit(None), is_rate=column.decision, evidence=condition, feature=column.name)
        )
    return described, values
