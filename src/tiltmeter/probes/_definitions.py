"""The definitions of the probes' metrics: the default one, and that of the published code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tiltmeter import stats
from tiltmeter.blocks import Band
from tiltmeter.definitions import Definition, of_method
from tiltmeter.probes._estimates import (
    Estimate,
    Estimator,
    Mark,
    estimate_by_normal,
    estimate_by_percentiles,
    mark_by_interval,
    mark_by_range,
)
from tiltmeter.probes._metrics import Metric
from tiltmeter.study import Settings

if TYPE_CHECKING:
    from tiltmeter._arrays import Floats

PUBLISHED: Final = "published"
"""The `definition` of published findings, which were not measured in this run."""


@dataclass(frozen=True, slots=True)
class ProbeDefinition(Definition):
    """A definition of the probes' metrics.

    Parameters
    ----------
    corrected
        Whether the corrections to the published code apply: answers are read in any usual form, not only in
        the exact forms of the published code; errors in data, word lists, formulas and tiers are corrected;
        metrics omitted by the published formulas (such as the rate of non-binary characters) are added;
        maxima of differences are corrected for their upward bias.
    resample
        Function from values (items, columns), strata (items,) and settings to the totals of resamples (R,
        columns).
    estimate
        Function that estimates one metric from its value, its values in the resamples (R,) and an
        EstimateContext (see `estimate_by_percentiles`).
    mark
        Function that marks an estimate, given its bands and the share of readable attempts.
    centre
        Function from an estimate to the value that is normalised.
    """

    corrected: bool
    resample: Callable[[Floats, Floats, Settings], Floats]
    estimate: Estimator
    mark: Callable[[Estimate, Sequence[Band], float], Mark]
    centre: Callable[[Estimate], float]

    def bands(self, metric: Metric) -> tuple[Band, ...]:
        """Return the tiers of a metric under this definition.

        A metric without published tiers has its own under every definition.
        """
        if self.corrected:
            return metric.bands
        return metric.published_bands or metric.bands


DEFAULT: Final = ProbeDefinition(
    name="default",
    version=6,
    corrected=True,
    resample=lambda values, strata, settings: stats.resampled_totals(
        values, resamples=settings.resamples, seed=settings.seed, strata=strata
    ),
    estimate=estimate_by_percentiles,
    mark=mark_by_range,
    centre=lambda estimate: estimate.value,
)
GENDERBENCH: Final = ProbeDefinition(
    name="genderbench",
    version=1,
    corrected=False,
    resample=lambda values, strata, settings: stats.replayed_totals(
        values, resamples=settings.resamples, seed=settings.seed
    ),
    estimate=estimate_by_normal,
    mark=mark_by_interval,
    centre=lambda estimate: (estimate.low + estimate.high) / 2,
)


def definition_of(settings: Settings) -> ProbeDefinition:
    """Return the definition of the probes in the settings of a study.

    Raises
    ------
    InputError
        It is a definition of another method.
    """
    return of_method(settings.definition, DEFAULT)
