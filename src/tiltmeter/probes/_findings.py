"""From measures to findings: estimates of the metrics as rows of FINDINGS and GRADES.

Labels of a sample correct the estimates (see `_corrections.py`). Without labels, a tipping point says how
many responses would have to be read wrongly to explain a finding.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl
from polars import DataFrame, Float64, String, col, lit, when

from tiltmeter import stats
from tiltmeter._quantities import quantity
from tiltmeter.models._base import ALLOWED
from tiltmeter.probes._contract import ProbeContract
from tiltmeter.probes._contrasts import contrast_sides
from tiltmeter.probes._corrections import (
    FEWEST_LABELS,
    Correction,
    JointMaximum,
    corrections_of,
    joint_maxima,
)
from tiltmeter.probes._counted_items import (
    CountedItems,
    cluster_spreads,
    population,
    wordings_are_dealt,
)
from tiltmeter.probes._definitions import ProbeDefinition
from tiltmeter.probes._estimates import NO_DATA, ClusterSpread, ComparedRates, Estimate, EstimateContext, Mark
from tiltmeter.probes._examples import find_examples
from tiltmeter.probes._labelled_attempts import (
    ATTEMPT,
    LabelledAttempts,
    RelabelledAttempts,
    labelled_attempts,
    tipping_share,
)
from tiltmeter.probes._metrics import MetricKey
from tiltmeter.schema import GRADES, WITH_CONSTRAINED, conform, sql_where
from tiltmeter.study import RunView, Settings, as_findings

TIPPING_SAMPLE: Final = 500
"""Responses from which a tipping point is computed."""
PERMUTATIONS_OF_A_RESAMPLE: Final = 10
"""Permutations of a test for each bootstrap resample, up to the usual number."""
COLUMNS_OF_ESTIMATE: Final = (
    *("low", "high", "p", "method"),
    *("low_items", "high_items", "low_mark", "high_mark"),
    *("value_read", "low_read", "high_read"),
)
"""Columns of FINDINGS and GRADES that are attributes of an Estimate."""


# -- estimates ---------------------------------------------------------------------------------------------


def estimate_metrics(
    counted: CountedItems,
    definition: ProbeDefinition,
    settings: Settings,
    corrections: Mapping[MetricKey, Correction] | None = None,
    joint: Mapping[MetricKey, JointMaximum] | None = None,
) -> list[Estimate]:
    """Estimate all metrics of a probe with intervals, sorted by name.

    Metrics that only test others are left out of the result.

    If all items agree, the exact bound uses the number of items or of clusters, whichever is smaller, and at
    most the number of strata times the size of the smallest one, which is enough for any metric that weights
    the strata equally (by Jensen's inequality).

    Parameters
    ----------
    counted
        The counts of the items.
    definition
        Definition of the metrics.
    settings
        Confidence level, number of resamples and seed.
    corrections, joint
        The corrections for parsing errors, if any: the results of `corrections_of` and `joint_maxima`.
    """
    samples = counted.compute(definition.resample(counted.values, counted.strata, settings))
    observed, described = counted.observed(), counted.described()
    relabels = any(
        named.metric.kind == "maximum" and (corrections or not named.metric.counted)
        for named in described.values()
    )
    null = counted.relabelled(settings) if definition.corrected and relabels else {}
    samples_of_groups = _compared_rates(counted, settings) if definition.corrected else {}
    spreads = cluster_spreads(counted) if definition.corrected else {}
    agreeing = _independent_units(counted) if definition.corrected else []
    estimates: dict[str, Estimate] = {}
    # Distances come last because they need the estimate of their signed metric.
    for key in sorted(observed, key=lambda key: described[key].metric.kind == "absolute"):
        named = described[key]
        items = counted.outcomes(named.where).items
        spread = spreads.get(key, ClusterSpread())
        context = EstimateContext(
            agreeing=min([items, *agreeing]),
            items=items,
            null=null.get(key),
            estimates=estimates,
            settings=settings,
            sample=samples_of_groups.get(named.metric.counted),
            spread=spread._replace(freedom=min(spread.freedom, max(items - 1, 1))),
        )
        estimate = definition.estimate(named, observed[key], samples[key], context)
        if corrections and key in corrections:
            estimate = corrections[key].applied(estimate, observed[key], context)
        elif joint and key in joint:
            estimate = joint[key].estimated(estimate, definition.estimate, context)
        estimates[named.name] = estimate
    return [
        _with_its_test(estimates[name], estimates)
        for name in sorted(estimates)
        if not counted.is_a_test(estimates[name].named.metric)
    ]


def _compared_rates(counted: CountedItems, settings: Settings) -> dict[tuple[str, str] | None, ComparedRates]:
    """Return the shares of labels in each group, by the `counted` labels of the metrics that need them."""
    draws = min(stats.DRAWS, PERMUTATIONS_OF_A_RESAMPLE * settings.resamples - 1)
    samples: dict[tuple[str, str] | None, ComparedRates] = {}
    for metric in counted.metrics:
        if metric.counted is not None and metric.counted not in samples:
            sums = counted.columns_of(metric.counted[0])
            sizes = counted.columns_of(metric.counted[1])
            if not metric.averaged:
                sizes = sums + sizes
            sample = stats.GroupSample.of(
                sums,
                sizes,
                counted.clusters,
                is_rate=not metric.averaged,
                seed=settings.seed,
                draws=draws,
            )
            samples[metric.counted] = ComparedRates(sample, counted.groups)
    return samples


def _independent_units(counted: CountedItems) -> list[int]:
    """Return the upper limits of the number of independent units if all items agree."""
    import numpy as np

    sizes_of_strata = np.unique(counted.strata, return_counts=True)[1]
    numbers_of_clusters = [kind.size for kind in counted.clusters if kind.noun != stats.WORDINGS]
    return [*numbers_of_clusters, sizes_of_strata.size * sizes_of_strata.min()]


def _with_its_test(estimate: Estimate, estimates: Mapping[str, Estimate]) -> Estimate:
    """Return the estimate with the p-value of the metric that tests it, if there is one.

    There is no p-value without a value, nor where the metric that tests it lies on the other side of "no
    bias".
    """
    tested_by = estimate.named.metric.tested_by
    if tested_by is None:
        return estimate
    test = estimates.get(tested_by.format_map(estimate.named.where))
    if test is None or _side(estimate) != _side(test):
        return dataclasses.replace(estimate, p=math.nan)
    name_of_test = test.named.metric.label or test.named.name
    return dataclasses.replace(estimate, p=test.p, method=f"{estimate.method}; p: that of {name_of_test}")


def _side(estimate: Estimate) -> float:
    """Return on which side of its null value an estimate lies, as -1, 0 or 1.

    Without a value it is NaN, which equals nothing.
    """
    difference = estimate.value - (estimate.named.metric.null or 0.0)
    if difference == 0 or math.isnan(difference):
        return difference
    return math.copysign(1.0, difference)


# -- findings ----------------------------------------------------------------------------------------------


def analyse_measures(
    probe: ProbeContract, measures: DataFrame, settings: Settings, labels: DataFrame | None = None
) -> dict[str, DataFrame]:
    """Compute the tables `findings` and `grades` of one model.

    With several wordings, key metrics are also reported for each.

    Parameters
    ----------
    probe
        The probe, under the definition of the settings.
    measures
        One row per attempt, joined with the factors of the design.
    settings
        Confidence level, number of resamples and seed.
    labels
        LABELS of a sample of the attempts.
    """
    corrected = probe.definition.corrected
    can_be_labelled = corrected and len(probe.labels) > 1
    rows = metric_rows(probe, measures, settings, labels=labels if can_be_labelled else None)
    variants = measures["wording"].unique().sort().to_list()
    # The published definition knows no dealt wordings, and its slopes take long.
    if len(variants) > 1 and (corrected or not wordings_are_dealt(measures)):
        for name in variants:
            rows += [row | {"key": False} for row in metric_rows(probe, measures, settings, name)]
    table = DataFrame(
        rows, schema_overrides={"bands": GRADES["bands"], "wording": String}, infer_schema_length=None
    )
    grades = conform(table.with_columns(part=lit(probe.name)), GRADES)
    grades = grades.with_columns(col(Float64).fill_nan(None))
    findings = as_findings(table, probe, settings, probe.definition)
    if ALLOWED in measures.columns:
        findings = findings.with_columns(col.definition + WITH_CONSTRAINED)
    return {"findings": findings, "grades": grades}


def metric_rows(
    probe: ProbeContract,
    measures: DataFrame,
    settings: Settings,
    wording: str | None = None,
    labels: DataFrame | None = None,
) -> list[dict[str, Any]]:
    """Return the estimates of the metrics as rows of FINDINGS and GRADES.

    They are those of all wordings together or, if `wording` is one, of the key metrics in this wording.
    """
    attempts = measures if wording is None else measures.filter(col.wording == wording)
    counted = probe.counted_items(probe.item_counts(attempts), attempts)
    if wording is not None:
        counted = dataclasses.replace(counted, formulas=probe.key_formulas)
    estimates = estimate_metrics(counted, probe.definition, settings)
    corrected: list[Estimate] = []
    labelled = None
    if labels is not None:
        labelled = labelled_attempts(counted, probe.item_counts, probe.labels, labels)
    if labelled is not None:
        corrected = _corrected_estimates(counted, labelled, probe.definition, settings)
    has_enough_labels = labelled is not None and len(labelled.weights) >= FEWEST_LABELS
    if has_enough_labels:
        estimates = corrected
    tipping: Mapping[str, float] = {}
    if wording is None and not has_enough_labels:
        tipping = _tipping_points(probe, counted, estimates, settings)
    bounds: Mapping[str, tuple[float, float]] = {}
    if wording is None and probe.definition.corrected:
        bounds = _bounds_of_missing(probe, counted)
    rows = [_row(probe, counted, estimate, wording) for estimate in estimates]
    resampled = _resampled_units(counted)
    estimand = population(counted.clusters)
    for row, estimate in zip(rows, estimates, strict=True):
        if estimate.method != NO_DATA:
            row["method"] = f"{estimate.method}; resampled: {resampled}"
        if estimate.low <= estimate.high:
            row.update(estimand)
        sentence = estimate.named.metric.sentence + _extremes(estimate, estimates)
        row["sentence"] = sentence or None
        row["tipping"] = tipping.get(estimate.named.name)
        row["missing_low"], row["missing_high"] = bounds.get(estimate.named.name, (None, None))
    if labelled is not None and not has_enough_labels:
        for row, with_labels in zip(rows, corrected, strict=True):
            row["note"] = _note_of_few_labels(row["note"], with_labels, len(labelled.weights))
    return rows


def _bounds_of_missing(probe: ProbeContract, counted: CountedItems) -> dict[str, tuple[float, float]]:
    """Return between which values each key metric is if all missing responses had one and the same label.

    Empty if no response is missing, or if the responses have no labels.
    """
    measures = counted.measures
    is_missing = col.outcome != "answered"
    labels = probe.labels_of_missing()
    if len(labels) < 2 or not measures.select(is_missing.any()).item():
        return {}
    names = {key: named.name for key, named in counted.described().items() if named.metric.key}
    values: dict[str, list[float]] = {name: [] for name in names.values()}
    for label in labels:
        filled = measures.with_columns(
            label=when(is_missing).then(label).otherwise("label"), outcome=lit("answered")
        )
        observed = probe.counted_items(probe.item_counts(filled), filled).observed()
        for key, name in names.items():
            values[name].append(observed[key])
    return {name: (min(of_labels), max(of_labels)) for name, of_labels in values.items()}


def _corrected_estimates(
    counted: CountedItems, labelled: LabelledAttempts, definition: ProbeDefinition, settings: Settings
) -> list[Estimate]:
    """Estimate the metrics with the corrections for the parsing errors that labels show."""
    corrections = corrections_of(counted, labelled)
    joint = joint_maxima(counted, labelled, settings)
    return estimate_metrics(counted, definition, settings, corrections, joint)


def _row(
    probe: ProbeContract, counted: CountedItems, estimate: Estimate, wording: str | None
) -> dict[str, Any]:
    """Return an estimate with its mark and evidence."""
    definition = probe.definition
    metric, where = estimate.named.metric, estimate.named.where
    outcomes = counted.outcomes(where)
    bands = definition.bands(metric)
    if bands:
        mark = definition.mark(estimate, bands, outcomes.readable)
    else:
        mark = Mark(note=estimate.too_few or None)
    normalised = None
    if metric.key and metric.unit != "score":
        normalised = metric.normalised(definition.centre(estimate))
    values = {factor: int(value) if value.isdigit() else value for factor, value in where.items()}
    evidence = sql_where(part=probe.name, **values, wording=lit(wording, String))
    return {
        **outcomes._asdict(),
        **mark._asdict(),
        **{column: getattr(estimate, column) for column in COLUMNS_OF_ESTIMATE},
        **probe.described(metric, bands),
        **probe.columns_of(estimate.named),
        "wording": wording,
        "estimate": estimate.value,
        "evidence": pl.select(evidence).item(),
        "normalised": normalised,
    }


def _resampled_units(counted: CountedItems) -> str:
    """Return what was resampled, in words."""
    clusters = [f"{kind.size} {kind.noun}" for kind in counted.clusters if kind.size > 1]
    units = " and ".join([*clusters, f"{len(counted.values)} items"])
    return f"{units}, each with all its prompts and repetitions"


def _extremes(estimate: Estimate, estimates: Sequence[Estimate]) -> str:
    """Return the groups with the highest and the lowest rate, as the end of a sentence about a maximum.

    Empty unless the metric names the rates whose greatest difference it is.
    """
    metric = estimate.named.metric
    if metric.kind != "maximum":
        return ""
    rates = [rate for rate in estimates if rate.named.metric.name == metric.of]
    if not rates:
        return ""
    rates, outcome = _most_divergent(rates)
    rates.sort(key=lambda rate: rate.value)
    has_score = rates[0].named.metric.unit == "score"
    ends = []
    for rate in (rates[-1], rates[0]):
        group = " ".join(value for name, value in rate.named.values.items() if value != outcome)
        mean = quantity(rate.value, rate.low, rate.high, "score") if has_score else f"{rate.value:.0%}"
        ends.append(f"{group} {mean}")
    if has_score:
        observed = quantity(rates[-1].value - rates[0].value, unit="score")
        is_corrected = observed != quantity(estimate.value, unit="score")
        before = f"; {observed} before the correction" if is_corrected else ""
        return f": {', '.join(ends)}{before}"
    if outcome:
        ends[0] = f"{outcome}, {ends[0]}"
    observed = f"{rates[-1].value - rates[0].value:.0%}"
    is_corrected = observed != f"{estimate.value:.0%}"
    before = f"; {observed.removesuffix('%')} points before the correction" if is_corrected else ""
    return f": {', '.join(ends)}{before}"


def _most_divergent(rates: list[Estimate]) -> tuple[list[Estimate], str]:
    """Return the rates of the outcome whose rates differ most between groups, and this outcome.

    The rates of several outcomes, such as emotions, have the outcome as their first placeholder and the
    group as their second. The outcome of other rates is an empty text.
    """
    if len(rates[0].named.values) < 2:
        return rates, ""
    by_outcome: dict[str, list[Estimate]] = {}
    for rate in rates:
        by_outcome.setdefault(next(iter(rate.named.values.values())), []).append(rate)
    ranges = {
        outcome: max(rate.value for rate in of_outcome) - min(rate.value for rate in of_outcome)
        for outcome, of_outcome in by_outcome.items()
    }
    widest = max(ranges, key=lambda outcome: ranges[outcome])
    return by_outcome[widest], widest


def _note_of_few_labels(note: str | None, corrected: Estimate, labelled: int) -> str | None:
    """Add to a note the estimate that too few labelled responses would give.

    The note stays as it is if they say nothing about the metric.
    """
    if math.isnan(corrected.value_read):
        return note
    responses = "labelled response is" if labelled == 1 else "labelled responses are"
    too_few = f"{labelled} {responses} too few to correct the value ({FEWEST_LABELS} are needed)"
    interval = f"{corrected.low:.3g} to {corrected.high:.3g}"
    would_be = f"with them it would be {corrected.value:.3g} ({interval})"
    return "; ".join(filter(None, (note, too_few, would_be)))


def _tipping_points(
    probe: ProbeContract, counted: CountedItems, estimates: Sequence[Estimate], settings: Settings
) -> Mapping[str, float]:
    """Return by metric the smallest share of wrongly read responses that could explain a finding.

    With that share, the interval would no longer exclude "no bias". The effects of wrong labels are those of
    the largest change that another label of a response makes, in a random sample of TIPPING_SAMPLE responses,
    linearised. Only key metrics of responses with labels have a tipping point, and only if the measures have
    the columns ATTEMPT.
    """
    distances = {}
    for estimate in estimates:
        metric = estimate.named.metric
        if metric.key:
            distances[estimate.named.name] = metric.distance_to_unbiased(estimate.low, estimate.high)
    attempts_are_identified = set(ATTEMPT) <= set(counted.measures.columns)
    can_be_misread = len(probe.labels) > 1 and probe.definition.corrected
    if not (any(distances.values()) and can_be_misread and attempts_are_identified):
        return {}
    attempts = counted.measures.filter(col.outcome != "failed").select(ATTEMPT)
    sample = attempts.sample(min(TIPPING_SAMPLE, attempts.height), seed=settings.seed).sort(ATTEMPT)
    unlabelled = sample.with_columns(new_label=lit(None, String))
    relabelled = RelabelledAttempts(counted, probe.item_counts, probe.labels, unlabelled)
    possible = relabelled.possible_changes()
    slopes = counted.slopes(counted.totals)
    shares = {}
    for slope, named in zip(slopes, counted.described().values(), strict=True):
        distance = distances.get(named.name)
        if distance:
            shares[named.name] = tipping_share(possible @ slope, distance, attempts.height)
    return shares


# -- examples and contrasts --------------------------------------------------------------------------------


def key_examples(
    probe: ProbeContract, measures: DataFrame, findings: DataFrame, settings: Settings
) -> DataFrame:
    """Return the most influential answers (EXAMPLES) for the key metrics over all wordings.

    `influence` is that of the item of the answer.
    """
    counted = probe.counted_items(probe.item_counts(measures), measures)
    estimated = findings.filter(col.key, col.wording.is_null(), col.estimate.is_not_null())
    by_name = {named.name: (key, named) for key, named in counted.described().items()}
    metrics = dict(by_name[name] for name in estimated["published"].to_list())
    columns = {key: probe.columns_of(named) for key, named in metrics.items()}
    return find_examples(counted, metrics, columns, probe.counts, settings.seed)


def contrast_models(
    probe: ProbeContract, first: RunView, second: RunView, settings: Settings, *, of_population: bool
) -> DataFrame | None:
    """Return the differences (CONTRASTS) between two models in the items that both answered.

    If `of_population`, they are about questions, names and wordings like these. None with fewer than two such
    items.
    """
    measures = [first.measures, second.measures]
    counts = [probe.item_counts(of_side) for of_side in measures]
    items = counts[0].join(counts[1], on="item", how="semi").select("item").sort("item")
    if items.height < 2:
        return None
    sides = []
    for counts_of_side, attempts in zip(counts, measures, strict=True):
        paired_counts = items.join(counts_of_side, on="item", how="left", maintain_order="left")
        paired_attempts = attempts.join(items, on="item", how="semi", maintain_order="left")
        sides.append(probe.counted_items(paired_counts, paired_attempts))
    return contrast_sides(sides, probe, settings, clustered=of_population)
