"""Verdicts about two models whose bias is equally large, or larger by a known amount.

The answers come from a generator of this study. The designs of the probes are used, and nothing else of the
package: labels are drawn from a probit model with effects of questions, wordings and items (Student's t with
four degrees of freedom), which are drawn for each side, as for a model that was trained again.

Cases about "these questions" fix the bias of each side on the questions of the study: the intercept is solved
for, given the effects. Cases about "questions like these" fix the distribution of the effects, so that the
bias on the questions of the study varies.
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
from tiltmeter._arrays import Floats, Integers
from tiltmeter.comparing import judged_differences
from tiltmeter.datasets import Library
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.probes import Probe
from tiltmeter.probes._listing import PROBES
from tiltmeter.study import Settings

QUESTION: Final = (
    "Is a model called better or worse if its bias has the same size, and worse if its bias is larger?"
)
CODE: Final = ("comparing", *CODE_OF_PROBES)
STUDIES: Final = 500
"""Simulated pairs of each case."""
SEED: Final = 20261128
MOST_WRONG: Final = 33 / 500
"""Largest share of verdicts "better" and "worse" about models with the same size of bias.

5% and three standard errors of 500 pairs.
"""
CONFLICTS: Final = Settings(limit=ItemLimit(500), resamples=300)
"""The standard size of the probe relationship_levy."""
DECISIONS: Final = Settings(limit=ItemLimit(300), resamples=300)
"""The standard size of the probe discrimination_tamkin."""
DEVIATIONS: Final = {"question": 0.4, "wording": 0.2, "item": 0.4}
"""Standard deviations of the effects, on the scale of the probit model."""
ORDER: Final = 0.5
"""Preference for the person named first, on the same scale."""


class Pair(NamedTuple):
    """Two models that are compared."""

    first: float
    """Bias of the first model."""
    second: float
    population: bool
    """Whether the bias is that on questions like these, and not that on the questions of the study."""
    judged_like_these: bool
    """Whether the verdict is about questions like these."""
    probe: str = "relationship_levy"


RETRAINED: Final = "these questions: same bias on questions like these"
"""A model that was trained again.

Its bias on these questions has changed, so that verdicts about them correctly differ.
"""
PAIRS: Final = {
    "these questions: same bias": Pair(0.2, 0.2, population=False, judged_like_these=False),
    "these questions: opposite bias": Pair(0.3, -0.3, population=False, judged_like_these=False),
    "these questions: no bias and bias": Pair(0.0, 0.19, population=False, judged_like_these=False),
    "these questions: same maximum": Pair(
        0.2, 0.2, population=False, judged_like_these=False, probe="discrimination_tamkin"
    ),
    "questions like these: same bias": Pair(0.2, 0.2, population=True, judged_like_these=True),
    "questions like these: opposite bias": Pair(0.3, -0.3, population=True, judged_like_these=True),
    "questions like these: same maximum": Pair(
        0.2, 0.2, population=True, judged_like_these=True, probe="discrimination_tamkin"
    ),
    RETRAINED: Pair(0.2, 0.2, population=True, judged_like_these=False),
}
CASES: Final = tuple(PAIRS)
KEY: Final = {"relationship_levy": "diff_success_rate", "discrimination_tamkin": "max_diff"}
SIZES: Final = {"relationship_levy": CONFLICTS, "discrimination_tamkin": DECISIONS}


def standard_t(rng: np.random.Generator, size: int) -> Floats:
    """Return draws of Student's t with four degrees of freedom, scaled to a standard deviation of 1."""
    draws: Floats = rng.standard_t(4, size=size) / np.sqrt(2)
    return draws


def numbered(values: pl.Series) -> Integers:
    """Return the number of each value among the distinct values, from 0."""
    return values.rank("dense").cast(pl.Int64).to_numpy() - 1


def effects(rng: np.random.Generator, rows: pl.DataFrame, question: str) -> Floats:
    """Return the sum of the effects of question, wording and item of each prompt, shape (prompts,)."""
    total = np.zeros(rows.height)
    for column, deviation in zip((question, "wording", "item"), DEVIATIONS.values(), strict=True):
        codes = numbered(rows[column])
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


def conflict_labels(
    rng: np.random.Generator, rows: pl.DataFrame, bias: float, *, population: bool
) -> pl.Series:
    """Return the labels of relationship_levy: the gender that the model sides with.

    The bias is the share of men minus the share of women. The effects are symmetric, so that opposite
    intercepts have opposite biases in the population.
    """
    order = np.where(rows["male_first"].to_numpy(), ORDER, -ORDER)
    shift = order + effects(rng, rows, "scenario_id")
    spread = np.sqrt(1 + sum(deviation**2 for deviation in DEVIATIONS.values()))
    if population:
        intercept = solved(lambda value: float((2 * ndtr((value + order) / spread) - 1).mean()), bias)
    else:
        intercept = solved(lambda value: float((2 * ndtr(value + shift) - 1).mean()), bias)
    male = rng.random(rows.height) < ndtr(intercept + shift)
    return pl.Series(np.where(male, "male", "female"))


def decision_labels(
    rng: np.random.Generator, rows: pl.DataFrame, bias: float, *, population: bool
) -> pl.Series:
    """Return the labels of discrimination_tamkin: the decision.

    The bias is the largest difference between genders in the share of "yes". Women get more, all others get
    the same.
    """
    women = (rows["gender"] == "female").to_numpy()
    gender = numbered(rows["gender"])
    question = numbered(rows["question_id"])
    of_question = DEVIATIONS["question"] * standard_t(rng, 3 * (question.max() + 1)).reshape(3, -1)
    shift = effects(rng, rows, "question_id") + of_question[gender, question]
    if population:
        spread = np.sqrt(
            1 + sum(deviation**2 for deviation in DEVIATIONS.values()) + DEVIATIONS["question"] ** 2
        )
        intercepts = np.where(women, solved(lambda value: float(ndtr(value / spread)), 0.5 + bias), 0.0)
    else:
        intercepts = np.zeros(rows.height)
        for number in range(3):
            of_gender = gender == number
            share = 0.5 + bias if women[of_gender].all() else 0.5
            intercepts[of_gender] = solved_share(shift[of_gender], share)
    yes = rng.random(rows.height) < ndtr(intercepts + shift)
    return pl.Series(np.where(yes, "yes", "no"))


def solved_share(shift: Floats, share: float) -> float:
    """Return the intercept at which the mean probability of "yes" is `share`, given the effects `shift`."""
    return solved(lambda value: float(ndtr(value + shift).mean()), share)


LABELS: Final = {"relationship_levy": conflict_labels, "discrimination_tamkin": decision_labels}


def compared(probe: Probe, rows: pl.DataFrame, pair: Pair, seed: int) -> dict[str, object]:
    """Return the difference of the key metric between the two models of a pair, as a row of DIFFERENCES."""
    settings = SIZES[pair.probe]
    rng = np.random.default_rng([SEED, seed])
    measures = []
    for bias in (pair.first, pair.second):
        labels = LABELS[pair.probe](rng, rows, bias, population=pair.population)
        measures.append(rows.with_columns(label=labels))
    analysed = [probe.analyse(table.with_columns(wording=pl.lit("any")), settings) for table in measures]
    contrast_of = probe.population_contrast if pair.judged_like_these else probe.contrast
    contrast = contrast_of(view_of(measures[0]), view_of(measures[1]), settings)
    if contrast is None:
        raise ValueError(f"the sides have no items of {probe.name} in common")
    findings = [tables["findings"].filter("key") for tables in analysed]
    differences = judged_differences(findings[0], findings[1], {probe.name: contrast}, analysed[0]["grades"])
    return differences.filter(metric=KEY[probe.name]).row(0, named=True)


def carry_out(case: str, studies: int = STUDIES) -> list[Claim]:
    """Return the claims about one kind of pairs."""
    pair = PAIRS[case]
    probe = PROBES.load(pair.probe)
    design = probe.design(Library.default(), SIZES[pair.probe])
    rows = design.drop("prompt", "system").with_columns(
        repetition=pl.lit(0, pl.Int16), model=pl.lit("own"), outcome=pl.lit("answered")
    )
    differences = pl.DataFrame(
        [compared(probe, rows, pair, seed) for seed in range(studies)], infer_schema_length=None
    )
    verdicts = Counter(differences["verdict"])
    significant = float((differences["p"] < 0.05).mean())  # type: ignore[arg-type]
    changed = (verdicts["better"] + verdicts["worse"]) / studies
    if case == RETRAINED:
        return [Claim("better or worse", changed, 2 * MOST_WRONG, 0.5)]
    if abs(pair.first) == abs(pair.second):
        return [Claim("better or worse", changed, 0.0, MOST_WRONG)]
    return [
        Claim("p below 5%", significant, 0.97, 1.0),
        Claim("worse", verdicts["worse"] / studies, 0.85, 1.0),
        Claim("better or unchanged", (verdicts["better"] + verdicts["unchanged"]) / studies, 0.0, 0.0),
    ]
