"""Compute the critical values of Dixon's ratios for 3 to 30 values by integration; print the table.

The ratio from the upper end is r = (x_n - x_{n-j}) / (x_n - x_{i+1}) of n ordered normal values: j = 1, 1, 2,
2 and i = 0, 1, 1, 2 for r10, r11, r21 and r22. With x = x_n, v = x_n - x_{i+1} its density is the double
integral

    n! / (i! (n-j-i-2)! (j-1)!)  Phi(x-v)^i  [Phi(x-rv) - Phi(x-v)]^(n-j-i-2)  [Phi(x) - Phi(x-rv)]^(j-1)
    phi(x-v) phi(x-rv) phi(x) v

over x and v > 0. A two-sided level 1 - a rejects at either end, each with probability a/2 (both at once is
too rare to count below a = 0.2). The published values of Rorabacher (1991), "Statistical treatment for
rejection of deviant values", are reached to their digits where they are correct; the tests check them. The
package reads the table:

    python scripts/dixon_critical_values.py > src/tiltmeter/stats/dixon_critical.csv
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

ALPHAS = (0.2, 0.1, 0.05, 0.04, 0.02, 0.01, 0.005, 0.002)
Array = NDArray[np.float64]


def ratio_of(n: int) -> tuple[int, int]:
    """Return j and i of the ratio that is used for n values."""
    if n <= 7:
        return 1, 0
    if n <= 10:
        return 1, 1
    return (2, 1) if n <= 13 else (2, 2)


def normal(x: Array) -> Array:
    """Return the normal density."""
    return np.exp(-x * x / 2.0) / math.sqrt(2.0 * math.pi)


def density(n: int, ratios: Array) -> Array:
    """Return the density of the ratio at each of `ratios`."""
    j, i = ratio_of(n)
    constant = math.factorial(n) / (math.factorial(i) * math.factorial(n - j - i - 2) * math.factorial(j - 1))
    nodes, weights = np.polynomial.legendre.leggauss(160)
    v, v_weights = 7.0 * (nodes + 1.0), 7.0 * weights
    # Equal steps are exact to rounding for an analytic function that vanishes at both ends.
    x = np.linspace(-7.0, 8.0, 301)
    top, low = x[:, None], x[:, None] - v
    densities = np.empty(ratios.size)
    for at, r in enumerate(ratios):
        middle = top - r * v
        between = np.maximum(ndtr(middle) - ndtr(low), 0.0)
        above = np.maximum(ndtr(top) - ndtr(middle), 0.0)
        integrand = (
            ndtr(low) ** i
            * between ** (n - j - i - 2)
            * above ** (j - 1)
            * normal(low)
            * normal(middle)
            * normal(top)
            * v
        )
        densities[at] = constant * float((integrand @ v_weights).sum()) * (x[1] - x[0])
    return densities


def critical_values(n: int) -> list[float]:
    """Return the two-sided critical values of n values at each of ALPHAS."""
    pieces = 40
    nodes, weights = np.polynomial.legendre.leggauss(8)
    edges = np.linspace(0.0, 1.0, pieces + 1)
    points = (edges[:-1, None] + edges[1:, None] + (edges[1:, None] - edges[:-1, None]) * nodes) / 2.0
    heights = density(n, points.ravel()).reshape(points.shape)
    total = np.concatenate([[0.0], np.cumsum((heights * weights).sum(axis=1) / (2.0 * pieces))])
    assert abs(total[-1] - 1.0) < 1e-6, (n, total[-1])
    return [solved(n, 1.0 - alpha / 2.0, edges, total) for alpha in ALPHAS]


def solved(n: int, target: float, edges: Array, total: Array) -> float:
    """Return where the distribution function reaches `target`, by bisection within one piece."""
    piece = int(np.searchsorted(total, target) - 1)
    nodes, weights = np.polynomial.legendre.leggauss(12)
    low, high = edges[piece], edges[piece + 1]
    for _ in range(24):
        middle = (low + high) / 2.0
        half = (middle - edges[piece]) / 2.0
        reached = total[piece] + half * float(weights @ density(n, edges[piece] + half * (nodes + 1.0)))
        low, high = (middle, high) if reached < target else (low, middle)
    return float(low)


def main() -> None:
    """Print the table."""
    print("n," + ",".join(f"{alpha:g}" for alpha in ALPHAS))
    for n in range(3, 31):
        print(f"{n}," + ",".join(f"{value:.5f}" for value in critical_values(n)), flush=True)


if __name__ == "__main__":
    main()
