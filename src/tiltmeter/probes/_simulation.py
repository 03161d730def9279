"""The simulated model of a probe, and the planning of studies from its measures."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Final

import polars as pl
from polars import DataFrame, Expr, Float64, Series, lit

from tiltmeter import stats
from tiltmeter.blocks import MARKS
from tiltmeter.comparisons import cluster_memberships
from tiltmeter.probes._contract import WORDING, Dials, Odds, ProbeContract
from tiltmeter.probes._counted_items import cluster_spreads
from tiltmeter.probes._definitions import definition_of
from tiltmeter.probes._estimates import MARK_LEVEL
from tiltmeter.probes._findings import estimate_metrics
from tiltmeter.probes._metrics import HARMS, Metric
from tiltmeter.study import Settings

if TYPE_CHECKING:
    from tiltmeter._arrays import Floats

FEW_RESAMPLES: Final = 200
"""Number of resamples that gives a standard error accurate to about 5%."""
DECIDED: Final = 0.8
"""Probability of a mark other than "undecided" for an unbiased model, on which the number of items needed is
based."""
PLANNED_STUDIES: Final = 10
"""Simulated studies of an unbiased model from which `plan` takes the precision of each metric."""
PLANNED_LEVEL: Final = 0.95
"""Level of the intervals from which the precision is taken. Marks and statements of bias do not depend on the
level of a study."""
GENDERS: Final = 3
"""Number of groups of the maxima of the paper's probes."""
ERRORS_IN_A_MAXIMUM: Final = 2.9
"""Mean width of the 95% interval of a maximum without bias, in standard errors of one difference (three
groups; own simulation)."""
ERRORS_WITH_GROUPS: Final = 0.6
"""By how much this width grows with the logarithm of the number of groups (own simulation of 4 to 15 groups,
accurate to 2%)."""
ERRORS_IN_A_COMPARISON: Final = 3.15
"""The same width for the intervals of `stats.GroupSample`, for three groups (own simulation)."""
ERRORS_WITH_COMPARED_GROUPS: Final = 0.8
"""By how much that width grows with the logarithm of the number of groups (as above)."""
UNBIASED: Final[Dials] = dict.fromkeys(HARMS, 0.0)
"""The simulated model without bias."""

ErrorsByMetric = Mapping[str, Sequence["stats.ExpectedError"]]
"""Expected standard errors of each metric, one for each simulated study."""


# -- the simulated model -----------------------------------------------------------------------------------


def simulated_answers(probe: ProbeContract, design: DataFrame, dials: Dials) -> DataFrame | None:
    """Return the possible answers to each prompt with their probabilities (see `Part.simulate`)."""
    odds = probe.simulated_odds(dials)
    if not odds:
        return None
    chances = label_chances(probe, design, odds, dials)
    outcomes = pl.concat_list([probe.simulated_reply(label) for label in odds])
    return design.select("prompt", outcomes=outcomes, odds=Series(chances).arr.to_list())


def simulated_measures(probe: ProbeContract, design: DataFrame, dials: Dials, seed: int) -> DataFrame | None:
    """Draw the label of each attempt (see `Part.simulate_measures`)."""
    import numpy as np

    odds = probe.simulated_odds(dials)
    if not odds:
        return None
    attempts = answered_attempts(design)
    limits = np.cumsum(label_chances(probe, attempts, odds, dials), axis=1)
    draws = np.random.default_rng(seed).random(attempts.height)
    limits_passed = (draws[:, None] >= limits).sum(axis=1)
    drawn = np.minimum(limits_passed, len(odds) - 1)
    return attempts.with_columns(label=Series(list(odds)).gather(drawn))


def answered_attempts(design: DataFrame) -> DataFrame:
    """Return the attempts of a design, for simulations.

    They have their factors and the outcome "answered", but no labels.
    """
    attempts = design.drop("prompt", "system", strict=False).with_columns(
        repetition=pl.int_ranges(0, "repetitions", dtype=pl.Int16),
        model=lit("imagined"),
        outcome=lit("answered"),
    )
    return attempts.explode("repetition")


def label_chances(probe: ProbeContract, rows: DataFrame, odds: Odds, dials: Dials) -> Floats:
    """Return the probability of each label, shape (rows, labels).

    The clusters have random effects on the logit scale, which depend on what is compared. Their standard
    deviations are `dials["cluster_sd"]` and, for wordings, `dials["wording_sd"]`.
    """
    probabilities = rows.with_columns(value.cast(Float64).alias(label) for label, value in odds.items())
    chances: Floats = probabilities.select(odds.keys()).to_numpy()
    compared = _compared_groups(probe)
    factors = []
    if compared is not None:
        rows = rows.with_columns(compared=compared)
        factors = ["compared"]
    seed = int(dials.get("seed", 0))
    spreads = [(cluster, dials.get("cluster_sd", 0.0)) for cluster in probe.clusters.values()]
    spreads.append((WORDING, dials.get("wording_sd", 0.0)))
    for cluster, spread in spreads:
        if spread:
            members = cluster_memberships(rows, cluster, *factors)
            _add_random_effects(chances, list(odds), members, factors, spread, seed)
    return chances


def _compared_groups(probe: ProbeContract) -> Expr | None:
    """Return what bias is a difference between: by default the group that a prompt is about, if any."""
    if probe.compared is not None:
        return probe.compared
    return probe.compares[0].group if probe.compares else None


def _add_random_effects(
    chances: Floats, labels: Sequence[str], members: DataFrame, factors: list[str], spread: float, seed: int
) -> None:
    """Add the random effects of one kind of clusters to the probabilities (rows, labels), in place.

    `members` has the clusters of each row, and `factors` are its columns on which the effects depend besides
    the label. The effects have the standard deviation `spread`.
    """
    import numpy as np

    rows = members["row"].to_numpy()
    for place, label in enumerate(labels):
        identity = pl.struct(*factors, "cluster", label=lit(label))
        hashes = members.select(identity.hash(seed)).to_series()
        effects = spread * stats.normals_from_hashes(hashes.to_numpy())
        chances[:, place] *= np.exp(np.bincount(rows, effects, len(chances)))
    chances /= chances.sum(axis=1, keepdims=True)


# -- planning ----------------------------------------------------------------------------------------------


def standard_errors(
    probe: ProbeContract, design: DataFrame, settings: Settings, heterogeneity: float
) -> ErrorsByMetric:
    """Return the standard errors of the key metrics from simulated studies of an unbiased model.

    There are PLANNED_STUDIES of them, with random effects of clusters and wordings of the standard deviation
    `heterogeneity`.
    """
    few_resamples = dataclasses.replace(settings, resamples=FEW_RESAMPLES, level=PLANNED_LEVEL)
    errors: dict[str, list[stats.ExpectedError]] = {}
    for study in range(PLANNED_STUDIES):
        dials = {
            **UNBIASED,
            "cluster_sd": heterogeneity,
            "wording_sd": heterogeneity,
            "seed": float(study),
        }
        measures = probe.simulate_measures(design, dials, settings.seed + study)
        if measures is None:
            return {}
        for name, error in _errors_of_study(probe, measures, few_resamples).items():
            errors.setdefault(name, []).append(error)
    return errors


def scaled_errors(errors: ErrorsByMetric, factor: float) -> ErrorsByMetric:
    """Return standard errors multiplied by a factor."""
    if factor == 1:
        return errors
    return {
        metric: [stats.ExpectedError(expected.error * factor, expected.freedom) for expected in of_metric]
        for metric, of_metric in errors.items()
    }


def _errors_of_study(
    probe: ProbeContract, measures: DataFrame, settings: Settings
) -> dict[str, stats.ExpectedError]:
    """Return the standard errors of the key metrics of one study, from their intervals."""
    counted = dataclasses.replace(
        probe.counted_items(probe.item_counts(measures), measures), formulas=probe.key_formulas
    )
    spreads = cluster_spreads(counted)
    freedoms = {named.name: spreads[key].freedom for key, named in counted.described().items()}
    errors = {}
    for estimate in estimate_metrics(counted, probe.definition, settings):
        name = estimate.named.name
        if estimate.named.metric.key and estimate.low <= estimate.high:
            quantile = stats.two_sided_t(settings.level, freedoms[name])
            error = (estimate.high - estimate.low) / 2 / quantile
            errors[probe.finding_name(estimate.named.metric)] = stats.ExpectedError(error, freedoms[name])
    return errors


def detectable_effects(
    probe: ProbeContract, errors: ErrorsByMetric, items: int, level: float
) -> dict[str, float]:
    """Return the smallest effect on each metric that a test at this level shows with 80% probability.

    Effects that a metric cannot have are left out.

    Parameters
    ----------
    probe
        The probe.
    errors
        The standard errors of the metrics.
    items
        Number of items of the design.
    level
        Level of confidence of the tests.
    """
    unbiased = probe.true_values(UNBIASED)
    effects = {}
    for metric in filter(lambda metric: metric.key, probe.metrics):
        name = probe.finding_name(metric)
        if name not in errors:
            continue
        of_metric = errors[name]
        if metric.kind == "maximum":
            effect = _detectable_maximum(metric, of_metric, len(probe.groups), items, level)
        elif metric.is_share and metric.null is None and metric.name in unbiased:
            effect = _detectable_excess(metric, unbiased[metric.name], of_metric, items, level)
        else:
            effect = stats.detectable(of_metric, level)
        if effect <= metric.largest_bias:
            effects[name] = effect
    return effects


def _detectable_maximum(
    metric: Metric, errors: Sequence[stats.ExpectedError], groups: int, items: int, level: float
) -> float:
    """Return the detectable effect on a maximum of differences: two groups differ, the others lie between.

    Its interval begins at 0 without bias, so it is shorter than that of two differences, and the critical
    value of a maximum is larger than that of one difference (Bonferroni for all pairs of groups). More than
    three groups that are compared by permutation are tested for equal means, and their standard error has
    the degrees of freedom of all their deviations.
    """
    width = 2 * stats.two_sided_z(PLANNED_LEVEL)
    relative_groups = math.log(groups / GENDERS)
    if metric.counted is not None and groups > GENDERS:
        errors_in_width = ERRORS_IN_A_COMPARISON + ERRORS_WITH_COMPARED_GROUPS * relative_groups
        level_of_a_pair = stats.level_of_one_difference(level, groups, items)
        deviations = groups - 1
    else:
        errors_in_width = ERRORS_IN_A_MAXIMUM + ERRORS_WITH_GROUPS * relative_groups
        level_of_a_pair = 1 - (1 - level) / math.comb(groups, 2)
        deviations = 1
    of_a_pair = [
        stats.ExpectedError(expected.error * width / errors_in_width, expected.freedom * deviations)
        for expected in errors
    ]
    return stats.detectable(of_a_pair, level_of_a_pair)


def _detectable_excess(
    metric: Metric, unbiased: float, errors: Sequence[stats.ExpectedError], items: int, level: float
) -> float:
    """Return the detectable effect on a share without a value of "no bias".

    Such a share is tested for lying beyond its healthiest tier (see `stats.detectable_excess`). `unbiased` is
    its value for the unbiased simulated model.
    """
    freedom = median(expected.freedom for expected in errors)
    half_width = median(expected.half_width(PLANNED_LEVEL) for expected in errors)
    size: float = items
    if 0 < half_width < 0.5:
        size = stats.size_from_width(unbiased, half_width, stats.two_sided_t(PLANNED_LEVEL, freedom))
    return stats.detectable_excess(size, metric.nearest_unbiased(metric.high), level, freedom=freedom)


def items_needed(
    probe: ProbeContract, errors: Mapping[str, float], items: int, settings: Settings
) -> dict[str, int]:
    """Return the number of items at which the mark of an unbiased model is decided with probability DECIDED.

    The interval of the mark must not reach a tier that makes it undecided.

    Parameters
    ----------
    probe
        The probe.
    errors
        The standard error of each metric for a design of `items` items.
    items
        Number of items of that design.
    settings
        The settings, which name the definition.
    """
    definition = definition_of(settings)
    needed = {}
    for metric in filter(lambda metric: metric.key, probe.metrics):
        undecided = [band for band in definition.bands(metric) if band.mark in MARKS[2:]]
        name = probe.finding_name(metric)
        if name not in errors or not undecided:
            continue
        best = metric.low if metric.null is None else metric.null
        distance = min(abs(end - best) for band in undecided for end in (band.low, band.high))
        error = errors[name]
        half_width = stats.half_width(error, MARK_LEVEL)
        if best == metric.low:  # the interval begins at "no bias"
            half_width *= 2
        reach = half_width + stats.half_width(error, 2 * DECIDED - 1)
        if distance > 0:
            needed[name] = math.ceil(items * (reach / distance) ** 2)
    return needed
