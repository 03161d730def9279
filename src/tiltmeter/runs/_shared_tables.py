"""What a run does with the tables that all methods share, unlike with other tables of stages.

`measures` and `findings` name their model and part themselves, are files of the run folder, and exist in
every run. Measures are joined with the factors of their prompts; findings get their model, are checked, and
get q-values over all parts of a model. `labels` is the user's table of labels, if there is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl
from polars import DataFrame, Float64, col, lit, when

from tiltmeter.comparisons import is_missing_test
from tiltmeter.errors import InputError
from tiltmeter.runs._validation import check_findings
from tiltmeter.schema import FINDINGS, MEASURES, RESPONSES, Schema, q_values

Owner = tuple[str, str]
"""Model and part."""
MEASURED: Final = "measures"
ANALYSED: Final = "findings"
LABELLED: Final = "labels"
"""The table, and the stage that creates it, which passes on what the user provides."""
SHARED: Final[Mapping[str, Schema]] = {MEASURED: MEASURES, ANALYSED: FINDINGS}
"""Columns of the shared tables that every run has."""


def complete_tables(
    tables: Mapping[str, DataFrame], answers: DataFrame | None, model: str | None
) -> dict[str, DataFrame]:
    """Return the tables of a stage with what a run adds to shared ones.

    Parameters
    ----------
    answers
        The input "answers" of the stage, if it has one.
    model
        The model under test; None if the stage runs for all models together.

    Raises
    ------
    InputError
        The measures do not fit the answers, or the findings are not valid.
    """
    completed = dict(tables)
    if MEASURED in completed:
        if answers is None:
            raise InputError("a stage that creates measures must have the input 'answers'")
        completed[MEASURED] = beside_factors(answers, completed[MEASURED])
    if ANALYSED in completed:
        findings = completed[ANALYSED].with_columns(model=lit(model))
        if fault := check_findings(findings):
            raise InputError(f"its findings are not valid: {fault}")
        completed[ANALYSED] = findings
    return completed


def beside_factors(answers: DataFrame, measures: DataFrame) -> DataFrame:
    """Return measures joined with the factors of the prompts of the answers, without the texts."""
    if measures.height != answers.height:
        raise InputError(
            f"measuring returned {measures.height:,} rows for {answers.height:,} responses;"
            " it must return one row for each"
        )
    keys = ("model", "prompt_id", "repetition")
    texts = {*RESPONSES, "prompt"}.difference(keys)
    factors = [name for name in answers.columns if name not in texts]
    return answers.select(factors).hstack(measures)


def with_q_over_parts(
    tables_of: Mapping[Owner, Mapping[str, DataFrame]],
) -> dict[Owner, dict[str, DataFrame]]:
    """Return the tables of the stage "findings" with q-values over all parts of a model together."""
    completed = {}
    for model in dict.fromkeys(model for model, _ in tables_of):
        owners = [owner for owner in tables_of if owner[0] == model]
        findings = with_q(pl.concat(tables_of[owner][ANALYSED] for owner in owners))
        start = 0
        for owner in owners:
            height = tables_of[owner][ANALYSED].height
            completed[owner] = {**tables_of[owner], ANALYSED: findings.slice(start, height)}
            start += height
    return completed


def with_q(findings: DataFrame) -> DataFrame:
    """Return the findings of one model with q-values (Benjamini-Hochberg).

    Its key tests and the tests of its missing responses are one family, and its other tests another. A test
    is an overall metric with a p-value. A part with very many tests forms its own families and provides its
    own q-values. The tests of missing responses are then a second family about the same model, so that their
    q-values are doubled (Bonferroni).
    """
    tested = when(col.context.is_null(), col.wording.is_null(), col.q.is_null()).then("p")
    is_of_key_family = col.key | is_missing_test()
    q = tested.map_batches(q_values, Float64).over(is_of_key_family)
    families = when(is_missing_test() & col.q.is_not_null().any()).then(2.0).otherwise(1.0)
    return findings.with_columns(q=pl.coalesce("q", (q * families).clip(upper_bound=1.0)))
