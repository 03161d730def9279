"""Coverage of intervals for populations of questions and wordings, whose effects are drawn in each study."""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np
import polars as pl

from perf.studies.study import CODE_OF_PROBES, Claim
from tiltmeter.datasets import Library
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.probes._listing import PROBES
from tiltmeter.study import Settings

QUESTION: Final = (
    "Do 95% intervals contain the true value of a population of questions and wordings that have effects "
    "of their own?"
)
CODE: Final = CODE_OF_PROBES
QUESTIONS: Final = "discrimination_tamkin"
METRIC: Final = "success_rate_difference"
SETTINGS: Final = Settings(limit=ItemLimit(300), resamples=300)
STUDIES: Final = 200
"""Simulated studies of each case. The standard error of a coverage of 95% is 1.5 points."""
LEAST: Final = {"question_id 0.0": 0.92, "question_id 0.8": 0.90, "wording 0.4": 0.90}
"""Least coverage for each column of clusters with the standard deviation of their effects."""
CASES: Final = tuple(LEAST)


def answered(design: pl.DataFrame, effects: dict[str, float], seed: int) -> pl.DataFrame:
    """Return measures of a model that says yes to women more often by an effect of each cluster.

    `effects` are columns of the design with the standard deviation of their effects.
    """
    rng = np.random.default_rng(seed)
    rows = design.drop("prompt", "system").with_columns(
        repetition=pl.lit(0, pl.Int16), model=pl.lit("own"), outcome=pl.lit("answered")
    )
    shift = np.zeros(rows.height)
    for column, sd in effects.items():
        codes = rows[column].rank("dense").to_numpy().astype(int) - 1
        shift += rng.normal(0, sd, codes.max() + 1)[codes]
    sign = np.where((rows["gender"] == "female").to_numpy(), 0.5, -0.5)
    yes = rng.random(rows.height) < 1 / (1 + np.exp(-shift * sign))
    return rows.with_columns(label=pl.Series(np.where(yes, "yes", "no")))


def coverage_of_the_population(case: str, settings: Settings, studies: int) -> dict[str, float]:
    """Return how often the intervals for the population and for the items contain 0, the true difference."""
    column, sd = case.split()
    probe = PROBES.load(QUESTIONS)
    design = probe.design(Library.default(), settings)
    is_overall = pl.col("wording").is_null() & (pl.col("metric") == METRIC)
    covered = {"population": 0, "items": 0}
    for seed in range(studies):
        measures = answered(design, {column: float(sd)}, seed)
        tables = probe.analyse(measures, dataclasses.replace(settings, seed=seed))
        finding = tables["findings"].filter(is_overall).row(0, named=True)
        grade = tables["grades"].filter(is_overall).row(0, named=True)
        covered["population"] += finding["low"] <= 0 <= finding["high"]
        covered["items"] += grade["low_items"] <= 0 <= grade["high_items"]
    return {name: count / studies for name, count in covered.items()}


def carry_out(case: str, studies: int = STUDIES) -> list[Claim]:
    """Return the coverage of a case.

    Where clusters have effects, intervals for the items of a study must contain the truth less often.
    """
    coverage = coverage_of_the_population(case, SETTINGS, studies)
    claims = [Claim("population: coverage", coverage["population"], LEAST[case], 1.0)]
    if not case.endswith(" 0.0"):
        claims.append(Claim("items: coverage", coverage["items"], 0.0, coverage["population"] - 1 / studies))
    return claims
