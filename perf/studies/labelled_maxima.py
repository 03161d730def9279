"""Differences between genders, largest and signed ones, corrected by labels of 200 responses.

The product provides the designs, the random sample of responses to label, and the analysis. Responses come
from the generator below, which shares no code with it: each response has a utility with a normal effect of
its item. The reader errs at the same rate for all genders, or it misses the "yes" of women alone, so rarely
that the labels show only a few errors. The true difference is the one that was planted, by integration over
the effects of items.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from scipy.optimize import brentq
from scipy.special import expit

from perf.studies.study import CODE_OF_PROBES, Claim
from tiltmeter._arrays import Booleans, Index
from tiltmeter.datasets import Library
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.labelling._samples import draw_rows
from tiltmeter.probes import Probe
from tiltmeter.probes._listing import PROBES
from tiltmeter.schema import LABELS, conform
from tiltmeter.study import Settings

QUESTION: Final = (
    "Do labels of 200 responses create a difference between genders that is not there, and do intervals "
    "contain a true one?"
)
CODE: Final = (*CODE_OF_PROBES, "labelling")
STUDIES: Final = 500
LABELLED: Final = 200
RESAMPLES: Final = 300
BASE: Final = 0.5
"""Utility of "yes" without bias."""
SD_OF_ITEMS: Final = 1.0
CONCENTRATION: Final = 0.6
"""Of the Dirichlet distribution of the emotions of an item."""
MOST_EXCLUDED: Final = 33 / 500
LEAST_COVERED: Final = 0.93


@dataclass(frozen=True, slots=True)
class Case:
    """A probe with a metric, the share of wrongly read labels, and the true difference of men and women.

    `missed` is the gender whose "yes" is read as "no" with the rate `errors`; None: any label of all genders
    is read wrongly.
    """

    probe: str
    metric: str
    errors: float
    difference: float = 0.0
    missed: str | None = None


BY_NAME: Final[Mapping[str, Case]] = {
    "decisions, none, 10% errors": Case("discrimination_tamkin", "max_diff", 0.1),
    "decisions, none, 20% errors": Case("discrimination_tamkin", "max_diff", 0.2),
    "stress, none, 10% errors": Case("dreaddit", "max_diff_stress_rate", 0.1),
    "emotions, none, 20% errors": Case("isear", "max_diff", 0.2),
    "decisions, .05, 10% errors": Case("discrimination_tamkin", "max_diff", 0.1, 0.05),
    "decisions, .1, 10% errors": Case("discrimination_tamkin", "max_diff", 0.1, 0.1),
    "decisions, .3, 10% errors": Case("discrimination_tamkin", "max_diff", 0.1, 0.3),
    "decisions, .1, 1% errors": Case("discrimination_tamkin", "max_diff", 0.01, 0.1),
    "stress, none, 20% of women missed": Case("dreaddit", "max_diff_stress_rate", 0.2, missed="female"),
    "letters, none, 12% of women missed": Case("hiring_an", "diff_acceptance_rate", 0.12, missed="female"),
}
CASES: Final = tuple(BY_NAME)


class Generator:
    """Responses to the prompts of a probe at its standard size."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.probe: Probe = PROBES.load(case.probe)
        settings = Settings(limit=ItemLimit(self.probe.sizes["standard"]), params={"wording": "plain"})
        design = self.probe.design(Library.default(), settings).drop("prompt", "system")
        self.attempts = design.with_columns(
            repetition=pl.int_ranges(0, "repetitions", dtype=pl.Int16),
            model=pl.lit("own"),
            outcome=pl.lit("answered"),
        ).explode("repetition")
        self.labels = np.array(self.probe.labels)
        self.item = self.attempts["item"].rank("dense").to_numpy().astype(int) - 1
        push = utility_for_difference(case.difference) if case.difference else 0.0
        genders = self.attempts["gender"].to_numpy()
        self.push = np.where(genders == "male", push, np.where(genders == "female", -push, 0.0))

    def responses(self, seed: int) -> pl.DataFrame:
        """Return the attempts of one study with their true label (`said`) and the read one (`label`)."""
        rng = np.random.default_rng([20, seed])
        labels = self._decisions(rng) if len(self.labels) == 2 else self._emotions(rng)
        misread = (rng.random(len(labels)) < self.case.errors) & self._may_be_wrong(labels)
        shifts = rng.integers(1, len(self.labels), len(labels))
        read = np.where(misread, (labels + shifts) % len(self.labels), labels)
        responses: pl.DataFrame = self.attempts.with_columns(
            label=pl.Series(self.labels[read]), said=pl.Series(self.labels[labels])
        )
        return responses

    def _may_be_wrong(self, labels: Index) -> Booleans:
        if self.case.missed is None:
            return np.ones(len(labels), dtype=bool)
        may_be_wrong: Booleans = (self.attempts["gender"].to_numpy() == self.case.missed) & (
            self.labels[labels] == "yes"
        )
        return may_be_wrong

    def _decisions(self, rng: np.random.Generator) -> Index:
        effects = rng.normal(0, SD_OF_ITEMS, self.item.max() + 1)
        yes = rng.random(len(self.item)) < expit(BASE + self.push + effects[self.item])
        place_of_yes = int(np.flatnonzero(self.labels == "yes")[0])
        return np.where(yes, place_of_yes, 1 - place_of_yes)

    def _emotions(self, rng: np.random.Generator) -> Index:
        odds = rng.dirichlet(np.full(len(self.labels), CONCENTRATION), self.item.max() + 1)[self.item]
        emotions: Index = (rng.random(len(self.item))[:, None] > odds.cumsum(axis=1)[:, :-1]).sum(axis=1)
        return emotions

    def finding(self, seed: int) -> dict[str, float]:
        """Return the finding of one study, with 200 labelled responses."""
        responses = self.responses(seed)
        rows = responses.with_columns(read="label", group=pl.col("gender").cast(pl.String))
        sample = draw_rows(rows, LABELLED, seed).with_columns(label="said", annotator=pl.lit("a person"))
        settings = Settings(seed=seed, resamples=RESAMPLES)
        findings = self.probe.analyse_labelled(responses.drop("said"), conform(sample, LABELS), settings)[
            "findings"
        ]
        return findings.row(by_predicate=pl.col("published") == self.case.metric, named=True)


def utility_for_difference(difference: float) -> float:
    """Return the change of the utilities of men (up) and women (down) for a difference of their rates."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(64)
    utilities = BASE + SD_OF_ITEMS * nodes

    def excess(push: float) -> float:
        rates = expit(utilities + push) - expit(utilities - push)
        return float(rates @ weights / weights.sum() - difference)

    return float(brentq(excess, 0.0, 10.0))


def carry_out(case: str, studies: int = STUDIES) -> list[Claim]:
    """Return how often the interval excludes 0 without a difference, or contains the true difference."""
    planted = BY_NAME[case]
    generator = Generator(planted)
    findings = [generator.finding(seed) for seed in range(studies)]
    if not planted.difference:
        excluded = sum(finding["low"] > 0 or finding["high"] < 0 for finding in findings) / studies
        significant = sum(finding["p"] < 0.05 for finding in findings) / studies
        return [
            Claim("intervals without 0", excluded, 0, MOST_EXCLUDED),
            Claim("p-values below 5%", significant, 0, MOST_EXCLUDED),
        ]
    covered = sum(finding["low"] <= planted.difference <= finding["high"] for finding in findings) / studies
    return [Claim("intervals with the difference", covered, LEAST_COVERED, 1)]
