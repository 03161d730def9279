"""Verdicts about two models whose bias is equally large, or larger by a known amount, with answers from a generator of its own.

The designs of the probes are used, and nothing else of the package: labels are drawn from a probit model with effects of questions,
wordings and items (Student's t with four degrees of freedom), which are drawn anew for each side, as for a model that was trained again.

Cases about "these questions" fix the bias of each side on the questions of the study: the intercept is solved for, given the effects. Cases
about "questions like these" fix the distribution of the effects, so that the bias on the questions of the study varies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from scipy.special import ndtr

from perf.studies.compared_models import view_of
from perf.studies.study import CODE_OF_PROBES, Claim
from tiltmeter import registry
from tiltmeter.arrays import Floats
from tiltmeter.comparing import judged_differences
from tiltmeter.datasets import Library
from tiltmeter.probes import Probe
from tiltmeter.study import Settings

QUESTION: Final = "Is a model called better or worse if its bias has the same size, and worse if its bias is larger?"
CODE: Final = ("comparing", *CODE_OF_PROBES)
STUDIES: Final = 500
"""Simulated pairs of each case."""
SEED: Final = 20261128
MOST_WRONG: Final = 33 / 500
"""Largest share of verdicts "better" and "worse" about models with the same size of bias: 5% and three standard errors of 500 pairs."""
CONFLICTS: Final = Settings(limit=500, resamples=300)
"""The standard size of the probe relationship_levy."""
DECISIONS: Final = Settings(limit=300, resamples=300)
"""The standard size of the probe discrimination_tamkin."""
DEVIATIONS: Final = {"question": 0.4, "wording": 0.2, "item": 0.4}
"""Standard deviations of the effects, on the scale of the probit model."""
ORDER: Final = 0.5
"""Preference for the person named first, on the same scale."""


class Pair(NamedTuple):
    """Two models: the bias of each, and what it refers to."""

    first: float
    second: float
    population: bool
    probe: str = "relationship_levy"


PAIRS: Final = {
    "these questions: same bias": Pair(0.2, 0.2, population=False),
    "these questions: opposite bias": Pair(0.3, -0.3, population=False),
    "these questions: no bias and bias": Pair(0.0, 0.19, population=False),
    "these questions: same maximum": Pair(0.2, 0.2, population=False, probe="discrimination_tamkin"),
    "questions like these: same bias": Pair(0.2, 0.2, population=True),
    "questions like these: opposite bias": Pair(0.3, -0.3, population=True),
    "questions like these: same maximum": Pair(0.2, 0.2, population=True, probe="discrimination_tamkin"),
}
CASES: Final = tuple(PAIRS)
KEY: Final = {"relationship_levy": "diff_success_rate", "discrimination_tamkin": "max_diff"}
QUESTIONS: Final = {"relationship_levy": "scenario_id", "discrimination_tamkin": "question_id"}
SIZES: Final = {"relationship_levy": CONFLICTS, "discrimination_tamkin": DECISIONS}


def standard_t(rng: np.random.Generator, size: int) -> Floats:
    """Return draws of Student's t with four degrees of freedom, scaled to a standard deviation of 1."""
    return rng.standard_t(4, size=size) / np.sqrt(2)


def effects(rng: np.random.Generator, rows: pl.DataFrame, question: str) -> Floats:
    """Return the sum of the effects of the question, the wording and the item of each prompt, shape (prompts,)."""
    total = np.zeros(rows.height)
    for column, deviation in zip((question, "wording", "item"), DEVIATIONS.values(), strict=True):
        codes = rows[column].rank("dense").to_numpy().astype(int) - 1
        total += deviation * standard_t(rng, codes.max() + 1)[codes]
    return total


def solved(bias_of: Callable[[float], float], bias: float) -> float:
    """Return the intercept at which the increasing function `bias_of` has the value `bias`, by bisection."""
    low, high = -8.0, 8.0
    for _ in range(50):
        middle = (low + high) / 2
        if bias_of(middle) < bias:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def conflict_labels(rng: np.random.Generator, rows: pl.DataFrame, bias: float, *, population: bool) -> list[str]:
    """Return the labels of relationship_levy: the gender that the model sides with.

    The bias is the share of men minus the share of women. The effects are symmetric, so that opposite intercepts have opposite biases in the
    population.
    """
    order = np.where(rows["male_first"].to_numpy(), ORDER, -ORDER)
    shift = order + effects(rng, rows, QUESTIONS["relationship_levy"])
    spread = np.sqrt(1 + sum(deviation**2 for deviation in DEVIATIONS.values()))
    if population:
        intercept = solved(lambda value: float((2 * ndtr((value + order) / spread) - 1).mean()), bias)
    else:
        intercept = solved(lambda value: float((2 * ndtr(value + shift) - 1).mean()), bias)
    male = rng.random(rows.height) < ndtr(intercept + shift)
    return np.where(male, "male", "female").tolist()


def decision_labels(rng: np.random.Generator, rows: pl.DataFrame, bias: float, *, population: bool) -> list[str]:
    """Return the labels of discrimination_tamkin: the decision.

    The bias is the largest difference between genders in the share of "yes". Women get more, all others get the same.
    """
    female = (rows["gender"] == "female").to_numpy()
    groups = np.unique(rows["gender"].to_numpy(), return_inverse=True)[1]
    common = effects(rng, rows, QUESTIONS["discrimination_tamkin"])
    own = standard_t(rng, 3 * 200).reshape(3, 200)
    questions = rows[QUESTIONS["discrimination_tamkin"]].rank("dense").to_numpy().astype(int) - 1
    spread = np.sqrt(1 + sum(deviation**2 for deviation in DEVIATIONS.values()) + DEVIATIONS["question"] ** 2)
    shift = common + DEVIATIONS["question"] * own[groups, questions]
    if population:
        advantage = solved(lambda value: float(ndtr(value / spread) - 0.5), bias)
        return np.where(rng.random(rows.height) < ndtr(advantage * female + shift), "yes", "no").tolist()
    # Each gender gets the intercept at which its share on these questions is 50%, or 50% plus the bias for women.
    intercepts = np.zeros(rows.height)
    for group in np.unique(groups):
        mine = groups == group
        share = 0.5 + bias * float(female[mine].all())
        intercepts[mine] = solved(lambda value, mine=mine: float(ndtr(value + shift[mine]).mean()), share)
    return np.where(rng.random(rows.height) < ndtr(intercepts + shift), "yes", "no").tolist()


LABELS: Final = {"relationship_levy": conflict_labels, "discrimination_tamkin": decision_labels}


def compared(probe: Probe, rows: pl.DataFrame, pair: Pair, seed: int) -> dict[str, object]:
    """Return the difference of the key metric between the two models of a pair, as a row of DIFFERENCES."""
    settings = SIZES[pair.probe]
    rng = np.random.default_rng([SEED, seed])
    measures = []
    for bias in (pair.first, pair.second):
        labels = LABELS[pair.probe](rng, rows, bias, population=pair.population)
        measures.append(rows.with_columns(label=pl.Series(labels)))
    analysed = [probe.analyse(one.with_columns(wording=pl.lit("any")), settings) for one in measures]
    contrast_of = probe.population_contrast if pair.population else probe.contrast
    contrast = contrast_of(view_of(measures[0]), view_of(measures[1]), settings)
    if contrast is None:
        raise ValueError(f"the sides have no items of {probe.name} in common")
    findings = [one["findings"].filter("key") for one in analysed]
    differences = judged_differences(findings[0], findings[1], {probe.name: contrast}, analysed[0]["grades"])
    return differences.filter(metric=KEY[probe.name]).row(0, named=True)


def carry_out(case: str, studies: int = STUDIES) -> list[Claim]:
    """Return the claims about one kind of pairs."""
    pair = PAIRS[case]
    probe = registry.load("probes", pair.probe)
    design = probe.design(Library.default(), SIZES[pair.probe])
    rows = design.drop("prompt", "system").with_columns(repetition=pl.lit(0, pl.Int16), model=pl.lit("own"), outcome=pl.lit("answered"))
    differences = pl.DataFrame([compared(probe, rows, pair, seed) for seed in range(studies)], infer_schema_length=None)
    verdicts = Counter(differences["verdict"])
    significant = float((differences["p"] < 0.05).mean())  # type: ignore[arg-type]
    if abs(pair.first) == abs(pair.second):
        return [Claim("better or worse", (verdicts["better"] + verdicts["worse"]) / studies, 0.0, MOST_WRONG)]
    return [
        Claim("p below 5%", significant, 0.97, 1.0),
        Claim("worse", verdicts["worse"] / studies, 0.85, 1.0),
        Claim("better or unchanged", (verdicts["better"] + verdicts["unchanged"]) / studies, 0.0, 0.0),
    ]
