"""Two models on the same items of a probe: every metric of the second minus that of the first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from tiltmeter import stats
from tiltmeter.probes import _analysis as analysis
from tiltmeter.probes._cells import Cells
from tiltmeter.study import CONTRASTS, Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tiltmeter.probes._probe import Probe

    Array = NDArray[np.float64]

__all__ = ["contrast_of"]

ALIKE = 0.1
"""Sides whose numbers of attempts differ by more than this share are not exchanged: the one would lend the other its precision."""
HOW = "bootstrap of items, the same ones on both sides, t interval"
LIFTED = "intervals of both sides, each corrected for the noise of a maximum"
EXCHANGED = "; p also by exchanging the sides of items"


class _Side(NamedTuple):
    """One side's items, in the order both have."""

    names: list[str]
    values: Array
    attempts: float
    cells: Cells


def contrast_of(probe: Probe, first: pl.DataFrame, second: pl.DataFrame, settings: Settings, *, original: bool) -> pl.DataFrame | None:
    """CONTRASTS of all metrics, over the items both sides have; None where that is fewer than two.

    One bootstrap of items serves both sides: the same resample is applied to either, so that what makes items hard or easy cancels.
    Under no difference at all the sides of an item are exchangeable, and no metric, however it is computed, differs more often than the
    level allows.
    """
    import numpy as np

    counts = [probe.item_counts(measures, original) for measures in (first, second)]
    shared = counts[0].join(counts[1], on="item", how="semi").select("item", "stratum").sort("item")
    if shared.height < 2:
        return None
    sides = [_side(one, measures, shared) for one, measures in zip(counts, (first, second), strict=True)]
    formulas = _formulas(probe, original)
    drawn = [
        stats.resampled_totals(side.values, resamples=settings.resamples, seed=settings.seed, strata=shared["stratum"].to_numpy())
        for side in sides
    ]
    samples = _both(formulas, sides, drawn)
    raw = _both(formulas, sides, [side.values.sum(axis=0, keepdims=True) for side in sides])
    metrics = {name: analysis.metric_named(name, probe.metrics) for name in sorted(raw[0].keys() & raw[1].keys())}
    exchanged = None
    if abs(sides[0].attempts - sides[1].attempts) <= ALIKE * max(side.attempts for side in sides):
        moved = stats.exchanged_totals(sides[0].values, sides[1].values, draws=settings.resamples, seed=settings.seed + 2)
        exchanged = _gaps(_both(formulas, sides, moved), metrics)
    units = [min(side.cells.of(metric.match(name) or {}).items for side in sides) for name, metric in metrics.items()]
    difference = _gaps(raw, metrics)[:, 0]
    reach = [metric.high - metric.low for metric in metrics.values()]
    found = stats.paired_difference(difference, _gaps(samples, metrics), exchanged, units=units, reach=reach, level=settings.level)
    how = np.full(len(metrics), HOW, dtype=object)
    maxima = [_maxima(probe, side, one, drawn, settings, original) for side, one, drawn in zip(sides, raw, samples, strict=True)]
    lifted = np.array([name in maxima[0] and name in maxima[1] for name in metrics])
    if lifted.any():
        ends = [np.array([one[name] for name, is_one in zip(metrics, lifted, strict=True) if is_one])[:, :3] for one in maxima]
        estimates, lows, highs = np.moveaxis(np.stack(ends, axis=-1), 1, 0)
        better = stats.independent_difference(estimates, lows, highs, settings.level)
        if exchanged is not None:
            corrected = estimates[:, 1] - estimates[:, 0]
            better = stats.exchange_difference(corrected, better, difference[lifted], exchanged[lifted], settings.level)
        difference[lifted], how[lifted] = estimates[:, 1] - estimates[:, 0], LIFTED
        bound = np.array(reach)[lifted]
        for whole, one in zip(found, (np.maximum(better.low, -bound), np.minimum(better.high, bound), better.p), strict=True):
            whole[lifted] = one
    return _as_contrasts({"metric": list(metrics), "difference": difference, **found._asdict(), "n": units, "how": how.tolist()}, exchanged)


def _as_contrasts(columns: Mapping[str, Any], exchanged: Array | None) -> pl.DataFrame:
    made = pl.DataFrame(columns).with_columns(
        pl.col("how") + (EXCHANGED if exchanged is not None else ""),
        paired=pl.lit(True),
        **dict.fromkeys(("subject", "concept", "context"), pl.lit(None)),
    )
    return made.select(pl.col(name).cast(kind) for name, kind in CONTRASTS.items()).with_columns(pl.col(pl.Float64).fill_nan(None))


def _formulas(probe: Probe, original: bool) -> analysis.Formulas:
    def own(s: analysis.Sums) -> Mapping[str, Array]:
        return probe.formulas(s, original)

    return own if original and probe.original_reads_all else analysis.with_unread_rates(own)


def _both(formulas: analysis.Formulas, sides: Sequence[_Side], totals: Sequence[Array]) -> list[Mapping[str, Array]]:
    return [formulas(analysis.Sums(side.names, one)) for side, one in zip(sides, totals, strict=True)]


def _gaps(sides: Sequence[Mapping[str, Array]], metrics: Iterable[str]) -> Array:
    """(metrics, resamples) second minus first."""
    import numpy as np

    return np.stack([sides[1][name] - sides[0][name] for name in metrics])


def _side(counts: pl.DataFrame, measures: pl.DataFrame, shared: pl.DataFrame) -> _Side:
    mine = shared.select("item").join(counts, on="item", how="left", maintain_order="left")
    names = [name for name in mine.columns if name not in ("item", "stratum")]
    attempts = measures.join(shared, on="item", how="semi", maintain_order="left")
    return _Side(names, mine.select(pl.col(names).cast(pl.Float64)).to_numpy(), float(mine["_attempts"].sum()), Cells(attempts))


def _maxima(
    probe: Probe, side: _Side, raw: Mapping[str, Array], samples: Mapping[str, Array], settings: Settings, original: bool
) -> dict[str, stats.MaximumEstimate]:
    """The maxima as `analyse` gives them: without what noise lifts them by, with intervals that know of it."""
    kinds = {name: analysis.metric_named(name, probe.metrics).kind for name in raw}
    maxima = [name for name, kind in kinds.items() if kind == "maximum" and not original and not stats.is_constant(samples[name])]
    if not maxima:
        return {}
    totals = analysis.relabelled(side.values, side.names, probe.groups, settings)
    null = probe.formulas(analysis.Sums(side.names, totals), original)
    return {name: stats.maximum_interval(float(raw[name][0]), samples[name], null[name], settings.level) for name in maxima}
