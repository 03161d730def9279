"""Write the table of tiers into docs/genderbench.md, or check that it agrees with the metrics (`--check`)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence

from generated import write_or_check

from tiltmeter.blocks import MARKS, Band
from tiltmeter.probes._definitions import DEFAULT, GENDERBENCH
from tiltmeter.probes._listing import load_probe
from tiltmeter.probes._suite import SUITE

Tiers = tuple[Band, ...]
Rows = Mapping[Tiers, Sequence[tuple[str, str]]]
"""The metrics, as probe and name, that share each set of tiers."""


def rows_of(definition: str) -> Rows:
    """Return the metrics with tiers; under a definition other than the default, those whose tiers differ."""
    rows: dict[Tiers, list[tuple[str, str]]] = {}
    for probe in map(load_probe, SUITE):
        for metric in probe.metrics:
            bands = DEFAULT.bands(metric)
            if definition != DEFAULT.name:
                published = GENDERBENCH.bands(metric)
                bands = published if published != bands else ()
            if bands:
                rows.setdefault(tuple(bands), []).append((probe.name, metric.name))
    return rows


def named(metrics: Iterable[tuple[str, str]]) -> str:
    """Return the metrics in words: "gest, jobs_lum `stereotype_rate`, direct `fail_rate`"."""
    probes: dict[str, list[str]] = {}
    for probe, metric in metrics:
        probes.setdefault(metric, []).append(probe)
    return ", ".join(f"{', '.join(names)} `{metric}`" for metric, names in probes.items())


def ranges(bands: Tiers, mark: str) -> str:
    """Return the ranges of a tier from the lowest to the highest: "up to ±.03", ".4 to .45, .55 to .6"."""
    of_mark = sorted((band for band in bands if band.mark == mark), key=lambda band: band.low)
    pairs = [(band.low, band.high) for band in of_mark]
    if all((-high, -low) in pairs for low, high in pairs):  # the same on both sides of 0
        low, high = pairs[-1]
        return f"up to ±{number(high)}" if low < 0 else f"±{number(low)} to ±{number(high)}"
    return ", ".join(f"{number(low)} to {number(high)}" for low, high in pairs)


def number(value: float) -> str:
    """Return a cut point as in the paper: ".05", "−1"."""
    return f"{value:g}".replace("0.", ".").replace("-", "−")


def table() -> str:
    """Return the table."""
    lines = [f"| metric | {' | '.join(MARKS)} |", f"|---|{'---|' * len(MARKS)}"]
    for definition, suffix in ((DEFAULT.name, ""), (GENDERBENCH.name, f" under `{GENDERBENCH.name}`")):
        for bands, metrics in rows_of(definition).items():
            cells = [ranges(bands, mark) for mark in MARKS]
            lines.append(f"| {named(metrics)}{suffix} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Check or write; return the exit status."""
    complaint = "has other tiers than the metrics: run scripts/tiers.py, and name the change in CHANGELOG.md"
    return write_or_check("genderbench.md", "tiers.py", f"\n{table()}", complaint)


if __name__ == "__main__":
    sys.exit(main())
