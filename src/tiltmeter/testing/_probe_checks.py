"""Conformance checks for probes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl
from polars import DataFrame, Series, String, col, lit

from tiltmeter.designs.limits import ItemLimit
from tiltmeter.probes import HARMS, Probe
from tiltmeter.probes._definitions import definition_of
from tiltmeter.readers.outcomes import OUTCOMES
from tiltmeter.runs._conditions import ConditionError, parsed_condition
from tiltmeter.runs._definitions import definition_named, definitions_of
from tiltmeter.runs._folder import without_foreign
from tiltmeter.schema import RESPONSES
from tiltmeter.study import Settings
from tiltmeter.testing._requirements import GARBAGE, Requirement, raising_nothing, requirement_of

if TYPE_CHECKING:
    from tiltmeter.datasets import Library

CARD = ("title", "harm", "asks", "reads", "bias", "limits", "source")
"""Fields of a card that must not be empty."""
RESAMPLES = 50
"""Number of resamples of the findings that are checked."""
BIASES = (0.0, 0.25, 1.0)
"""Biases of the simulated models."""


def check_probe(probe: Any, library: Library | None = None, *, limit: int = 60) -> None:
    """Check that a probe meets all requirements that `Probe` does not enforce itself.

    Parameters
    ----------
    probe
        The object of the entry point: an instance of a subclass of `Probe`.
    library
        Library with the probe's data; by default, the library of `tiltmeter run`.
    limit
        Number of items used to test parsing and formulas. (The design is also tested in full.)

    Raises
    ------
    AssertionError
        A requirement is not met; the message says which one.
    """
    from tiltmeter.datasets import Library

    require = requirement_of(getattr(probe, "name", "probe"))
    library = library or Library.default()
    require(
        isinstance(probe, Probe),
        f"a probe must be an instance of a subclass of tiltmeter.probes.Probe, not {type(probe).__name__}",
    )
    require(
        re.fullmatch(r"[a-z][a-z0-9_]*", probe.name),
        "the name must consist of lower-case letters, digits and _",
    )
    _check_card(probe, require, library)
    for name in definitions_of(probe.method):
        definition = definition_named(name, probe.method)
        if probe.has_default_only and not definition.is_default:
            continue
        settings = Settings(definition=definition, limit=ItemLimit(limit), resamples=RESAMPLES)
        full = probe.design(library, Settings(definition=definition))
        design = probe.design(library, settings)
        _check_design(require, full, design)
        _check_reading(probe, require, design, settings)
        _check_findings(probe, require, design, settings)
        if definition.is_default:
            _check_simulation(probe, require, full, design)


def _check_card(probe: Probe, require: Requirement, library: Library) -> None:
    for field in CARD:
        require(str(getattr(probe.card, field)).strip(), f"the field {field!r} of the card must not be empty")
    require(probe.card.harm in HARMS, f"the harm {probe.card.harm!r} must be one of {', '.join(HARMS)}")
    for name in probe.card.data:
        library.entry(name)  # raises a descriptive error itself
    require(
        any(metric.key for metric in probe.metrics), "at least one metric must be a key metric (key=True)"
    )
    for metric in probe.metrics:
        require(
            metric.description.endswith("."),
            f"the description of {metric.name} must be a sentence that ends with a full stop",
        )


def _check_design(require: Requirement, full: DataFrame, design: DataFrame) -> None:
    """Check the full design, and the design limited by --limit."""
    reserved = [column for column in design.columns if column in RESPONSES and column != "prompt_id"]
    require(not reserved, f"factors must not have the names of columns of RESPONSES, such as {reserved[:1]}")
    require(
        full["prompt_id"].is_unique().all(),
        "prompt ids must be unique; use each prompt_index only once per item",
    )
    items = full["item"].unique().sort()
    require(items.to_list() == list(range(items.len())), "items must be numbered from 0 without gaps")
    empty = [column for column in design.columns if column != "system" and design[column].null_count()]
    require(not empty, f"the design must not contain nulls, as in the column {empty[:1]}")
    has_placeholder = full["prompt"].str.contains(r"\{\w+\}")
    is_blank = full["prompt"].str.strip_chars() == ""
    require(
        not (has_placeholder | is_blank).any(),
        "prompts must be non-empty texts without unfilled placeholders",
    )
    # first_sample depends on which of several identical prompts are in the design; nothing else may change.
    of_design = full.filter(col.prompt_id.is_in(design["prompt_id"].implode()))
    require(
        of_design.drop("first_sample").equals(design.drop("first_sample")),
        "the same seed must give the same prompts and factors, also with --limit;"
        " use only `rng` for randomness",
    )


def _attempts(design: DataFrame, texts: Sequence[str | None]) -> DataFrame:
    """Create one attempt per text, cycling through the prompts of a design."""
    rows = design.drop("prompt", "system")[[i % design.height for i in range(len(texts))]]
    columns = {name: lit(None, kind) for name, kind in RESPONSES.items() if name not in rows.columns}
    columns |= {"model": lit("checked"), "status": lit("ok"), "repetition": lit(0, pl.Int16)}
    return rows.with_columns(**columns).with_columns(answer=Series(texts, dtype=String))


def _check_reading(probe: Probe, require: Requirement, design: DataFrame, settings: Settings) -> None:
    """Check the parsing of adversarial and of usual answers."""
    texts = [None, *GARBAGE, *probe.labels, "(a)", "(b)", "(c)", "Yes.", "No, I would not."]
    attempts = _attempts(design, texts)
    with raising_nothing(require, "although parsing must accept any answer"):
        measures = probe.measure(attempts, settings)
    require(
        measures.height == attempts.height,
        f"parsing must return one row per answer, not {measures.height} for {attempts.height}",
    )
    require(
        {"outcome", "label"} <= set(measures.columns), "parsing must return the columns outcome and label"
    )
    unknown = set(measures["outcome"].to_list()) - set(OUTCOMES)
    require(
        not unknown,
        f"every outcome must be one of {', '.join(OUTCOMES)}, not {sorted(map(str, unknown))[:1]}",
    )
    unlisted = set(measures["label"].drop_nulls()) - set(probe.labels)
    require(not probe.labels or not unlisted, f"the label {sorted(unlisted)[:1]} must be listed in `labels`")
    unanswered = measures.filter(col.label.is_not_null() & (col.outcome != "answered"))
    require(unanswered.is_empty(), "only attempts with the outcome answered may have a label")
    outcomes_of_blank = measures["outcome"].head(3).to_list()
    require(
        not probe.under(definition_of(settings)).may_be_unread or "answered" not in outcomes_of_blank,
        "an empty or blank text must not have the outcome answered",
    )
    require(measures.equals(probe.measure(attempts, settings)), "parsing must be deterministic")
    reordered = probe.measure(attempts.reverse(), settings).reverse()
    third = probe.measure(attempts.gather_every(3), settings).cast(measures.schema)
    is_independent = reordered.equals(measures) and third.equals(measures.gather_every(3))
    require(is_independent, "the parsing of an answer must not depend on the other answers")


def _check_findings(probe: Probe, require: Requirement, design: DataFrame, settings: Settings) -> None:
    """Check the findings of simulated answers, and of a model that never answers."""
    simulated = probe.simulate_measures(design, dict.fromkeys(HARMS, 0.25), 1)
    if simulated is not None:
        _check_numbers(probe, require, simulated, settings)
    if not settings.definition.is_default:
        return
    attempts = _attempts(design, [""] * design.height)
    columns = [attempts.drop("answer", "refusal", "status"), probe.measure(attempts, settings)]
    measures = without_foreign(pl.concat(columns, how="horizontal"))
    marks = set(probe.analyse(measures, settings)["findings"]["mark"].drop_nulls())
    wrong_marks = sorted(marks - {"ungraded"})
    require(not wrong_marks, f"a model that never answers must be ungraded, not {wrong_marks[:1]}")


def _check_numbers(probe: Probe, require: Requirement, measures: DataFrame, settings: Settings) -> None:
    """Check which metrics are computed, the attempts on which each rests, and its range."""
    tables = probe.analyse(measures, settings)
    findings, grades = tables["findings"], tables["grades"]
    definition = definition_of(settings)
    keys = {metric.name for metric in probe.under(definition).metrics if metric.key}
    computed = set(findings.filter("key")["published"])
    require(keys == computed, f"every key metric must be computed, including {sorted(keys ^ computed)[:1]}")
    for row in findings.with_columns(grades["range_low", "range_high"]).iter_rows(named=True):
        metric = row["metric"]
        try:
            condition = parsed_condition(row["evidence"], {"measures": measures.lazy()}, "measures")
            attempts = measures.filter(condition).height
        except ConditionError as error:
            require(False, f"the evidence of {metric} must be a condition on its attempts: {error}")
        require(
            attempts == row["attempts"],
            f"the evidence of {metric} must select its {row['attempts']} attempts, not {attempts}",
        )
        estimate = row["estimate"]
        if estimate is not None:
            is_inside = row["range_low"] <= estimate <= row["range_high"]
            require(is_inside, f"{metric} must be within the range of its Metric, but is {estimate}")


def _check_simulation(probe: Probe, require: Requirement, full: DataFrame, design: DataFrame) -> None:
    """Check the simulated answers and the values that the metrics have for them."""
    for bias in BIASES:
        dials: Mapping[str, float] = dict.fromkeys(HARMS, bias)
        plans = probe.simulate(design, dials)
        if plans is None:
            return
        odds = plans["odds"].explode()
        sums = plans["odds"].list.sum()
        require(
            odds.is_between(-1e-9, 1 + 1e-9).all(),
            f"the probabilities of `simulated_odds` must be between 0 and 1, also with bias {bias}",
        )
        require(
            sums.is_between(1 - 1e-9, 1 + 1e-9).all(),
            f"the probabilities of `simulated_odds` must sum to 1, also with bias {bias}",
        )
        truth = probe.true_values(dials)
        keys = {metric.name: metric for metric in probe.metrics if metric.key}
        require(set(truth) == set(keys), "`true_values` must return the value of every key metric")
        for metric, value in truth.items():
            is_inside = keys[metric].low <= value <= keys[metric].high
            require(is_inside, f"the true value of {metric} must be within its range, also with bias {bias}")
    _check_truth(probe, require, full)


def _check_truth(probe: Probe, require: Requirement, full: DataFrame) -> None:
    """Check that the formulas recover planted values in one simulation of the full design.

    The tolerance is twice the interval.
    """
    dials = dict.fromkeys(HARMS, 0.25)
    measures = probe.simulate_measures(full, dials, 1)
    assert measures is not None
    findings = probe.analyse(measures, Settings(resamples=200))["findings"]
    truth = probe.true_values(dials)
    for row in findings.filter(col.key & col.wording.is_null()).iter_rows(named=True):
        value = truth[row["published"]]
        margin = max(row["high"] - row["low"], 0.005) / 2
        is_near = row["low"] - margin <= value <= row["high"] + margin
        require(
            is_near,
            f"{row['metric']} is {row['estimate']} for answers simulated with `simulated_odds`,"
            f" but `true_values` returns {value}",
        )
