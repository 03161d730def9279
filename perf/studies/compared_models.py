"""Verdicts about pairs of simulated models: the same model twice, and two models with a planted difference.

Measures are drawn at the level of labels from the simulated model's planted odds, for all probes.
Differences, intervals and p-values come from the contrasts of the probes, which pair items. Estimates of the
single wordings do not enter the verdicts and are not computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, cast

import polars as pl

from perf.studies.study import CODE_OF_PROBES, Claim, planted, simulated_measures
from tiltmeter.comparing import judged_differences
from tiltmeter.datasets import Library
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.probes import Probe
from tiltmeter.probes._listing import PROBES
from tiltmeter.study import NotRun, RunView, Settings

QUESTION: Final = (
    "Is a planted difference of two models found, and does the same model twice differ in nothing?"
)
CODE: Final = ("comparing", *CODE_OF_PROBES)
SETTINGS: Final = Settings(limit=ItemLimit(120), resamples=200)
PAIRS: Final = 150
"""Simulated pairs of each case."""
BIASES: Final = {"fair twice": (0.0, 0.0), "biased twice": (0.2, 0.2), "fair and biased": (0.05, 0.35)}
CASES: Final = tuple(BIASES)
KEY_METRICS: Final = 19

Probes = Mapping[str, tuple[Probe, pl.DataFrame]]


class MeasuresOnly:
    """A view of a part without further tables."""

    def __init__(self, measures: pl.DataFrame) -> None:
        self.measures = measures

    def stage(self, table: str) -> pl.DataFrame:
        """Refuse any other table."""
        raise NotRun(f"there is no table {table}")


def view_of(measures: pl.DataFrame) -> RunView:
    """Return a view of these measures."""
    return cast("RunView", MeasuresOnly(measures))


def designed_probes(settings: Settings) -> Probes:
    """Return all probes, each with its design."""
    library = Library.default()
    probes = {name: PROBES.load(name) for name in PROBES.names()}
    return {name: (probe, probe.design(library, settings)) for name, probe in probes.items()}


def compared_pair(probes: Probes, biases: tuple[float, float], seed: int) -> pl.DataFrame:
    """Return the differences of the key metrics between two simulated models with these biases."""
    findings: tuple[list[pl.DataFrame], list[pl.DataFrame]] = ([], [])
    grades: list[pl.DataFrame] = []
    contrasts: dict[str, pl.DataFrame] = {}
    for name, (probe, design) in probes.items():
        views = []
        for side, bias in enumerate(biases):
            measures = simulated_measures(probe, design, bias, 2 * seed + side)
            views.append(view_of(measures))
            tables = probe.analyse(measures.with_columns(wording=pl.lit("any")), SETTINGS)
            findings[side].append(tables["findings"])
            if side == 0:
                grades.append(tables["grades"])
        contrast = probe.contrast(views[0], views[1], SETTINGS)
        if contrast is None:
            raise ValueError(f"the sides have no items of {name} in common")
        contrasts[name] = contrast
    differences = judged_differences(
        pl.concat(findings[0]), pl.concat(findings[1]), contrasts, pl.concat(grades)
    )
    return differences.filter("key")


def claims_of_equal_models(tables: list[pl.DataFrame]) -> list[Claim]:
    """Return how often a model differs from itself."""
    p_values = [p for table in tables for p in table["p"].drop_nulls()]
    with_verdict = sum(table["verdict"].is_in(["better", "worse"]).any() for table in tables)
    return [
        Claim("key metrics of a pair", min(table.height for table in tables), KEY_METRICS, KEY_METRICS),
        Claim("pairs with a verdict", with_verdict / len(tables), 0.0, 0.06),
        Claim("p-values below 5%", sum(p < 0.05 for p in p_values) / len(p_values), 0.01, 0.065),
    ]


def claims_of_planted_differences(
    tables: list[pl.DataFrame], probes: Probes, biases: tuple[float, float]
) -> list[Claim]:
    """Return how often planted differences are found and lie in their intervals."""
    rows = pl.concat(tables).to_dicts()
    verdicts = Counter(row["verdict"] for row in rows)
    first = true_values(probes, biases[0])
    second = true_values(probes, biases[1])
    covered = 0
    for row in rows:
        metric = (row["part"], row["metric"])
        covered += row["low"] <= second[metric] - first[metric] <= row["high"]
    return [
        Claim("wrong verdicts", verdicts["better"] + verdicts["unchanged"], 0, 0),
        Claim("found", verdicts["worse"] / len(rows), 0.75, 1.0),
        Claim("intervals with the planted difference", covered / len(rows), 0.92, 0.985),
    ]


def true_values(probes: Probes, bias: float) -> dict[tuple[str, str], float]:
    """Return the true values of the key metrics by part and metric."""
    values = {}
    for name, (probe, _) in probes.items():
        of_probe = probe.true_values(planted(bias))
        for metric in probe.metrics:
            if metric.key:
                values[name, probe.finding_name(metric)] = of_probe[metric.name]
    return values


def carry_out(case: str, studies: int = PAIRS) -> list[Claim]:
    """Return the claims about one kind of pairs."""
    probes = designed_probes(SETTINGS)
    biases = BIASES[case]
    tables = [compared_pair(probes, biases, seed) for seed in range(studies)]
    if biases[0] == biases[1]:
        return claims_of_equal_models(tables)
    return claims_of_planted_differences(tables, probes, biases)
