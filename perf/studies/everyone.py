"""Sentences on the first screen about fair and biased models, for the suite `everyone`.

The product provides the designs, the analysis and the sentences. Responses about gender come from the
generator of `perf/probe_claims.py`, all others from the generator below. Neither shares code with the
product. Random effects of questions, names, occupations, wordings and items, drawn in each study for each
group, change how strongly bias acts, in fair models as well; others act alike on all groups. A few responses
of each model are refused or unreadable, for all groups alike.

A planted bias is twice as large as `plan` says can be detected within the suite, for questions, names,
wordings and items whose bias does not differ, as `plan` assumes. One group is favoured, one is disadvantaged,
and the others are in the middle. All other parts are fair. A planted bias counts as stated if the first
screen states a bias and the q of this metric is below 5%.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import Final, TypeAlias

import numpy as np
import polars as pl

from perf.probe_claims import EFFECTS, Studied
from perf.studies.fair_suites import (
    FAIR_SEED,
    NUISANCES,
    RESAMPLES,
    Tables,
    accusations,
    combined,
    fair_measures,
    pushes_for,
    tables_of,
)
from perf.studies.study import CODE_OF_PROBES, Claim
from tiltmeter import stats
from tiltmeter._arrays import Floats, Index
from tiltmeter.datasets import Library
from tiltmeter.designs.limits import ItemLimit
from tiltmeter.probes import Probe
from tiltmeter.probes._attributes._applicants import MASCULINE
from tiltmeter.probes._attributes._attribute_probe import GROUP
from tiltmeter.probes._attributes._tasks import listed_variants
from tiltmeter.probes._attributes._variants import variant_of
from tiltmeter.probes._everyone_suite import GENDER
from tiltmeter.schema import SHOWN_BELOW
from tiltmeter.study import Settings

QUESTION: Final = (
    "How often does the first screen of the suite everyone state a bias of a fair model, and is a planted "
    "bias by race, age, gender, or race and gender stated?"
)
CODE: Final = (*CODE_OF_PROBES, "runs._shared_tables", "blocks", "_quantities")
GENERATOR: Final = ("perf.probe_claims", "perf.studies.fair_suites")
PARTS: Final = (*GENDER, *listed_variants())
BLOCKS: Final = 10
"""Cases of fair suites of quick size. A case is a block of suites that one process carries out."""
SUITES: Final = 50
"""Suites of a block."""
MOST_ACCUSED: Final = 33 / 500
PLANTED: Final = (
    "discrimination_tamkin",
    "discrimination_tamkin_race",
    "dreaddit_age",
    "discrimination_tamkin_race_gender",
)
"""Parts in which a bias is planted, at standard size."""
PLANTED_STUDIES: Final = 100
MULTIPLE: Final = 2
"""The planted bias, as a multiple of the detectable one."""
LEAST_STATED: Final = 0.95
KEY_TESTS: Final = 33
"""Key metrics of the suite, which are one family of tests."""
MISSING: Final = {"refused": 0.02, "unreadable": 0.02}
"""Probability of each kind of missing response, for all groups."""
DIFFICULTY: Final = {"item": 1.0, "wording": 0.3}
"""Standard deviations of the effects that act alike on all groups, on the logit scale."""
FIRST_PLACE: Final = 0.3
"""How much more appealing the person is who is named first, on the logit scale."""
WORDS: Final = 12
"""Mean number of listed words in a text."""
CLUSTERS: Final = ("question_id", "scenario_id", "role")
"""Factors whose values have effects of their own on each group, where they are clusters of a part."""
ACCUSED: Final = "fair models accused"
STATED: Final = f"{MULTIPLE} times the detectable bias, stated"
CASES: Final = (
    *(f"fair {block}" for block in range(BLOCKS)),
    *(f"planted {part}" for part in PLANTED),
)

Spreads: TypeAlias = Mapping[str, float]
"""Standard deviations of the effects of clusters, wordings and items on each group."""


def key_only(probe: Probe) -> Probe:
    """Return a copy of a probe with its key metrics alone, on which the first screen depends."""
    reduced = copy.copy(probe)
    vars(reduced)["_all_formulas"] = probe.key_formulas
    vars(reduced)["labels_of_missing"] = list
    return reduced


class Gendered(Studied):
    """A part about gender at one size, and studies of it."""

    def __init__(self, name: str, size: str) -> None:
        super().__init__(name, size, RESAMPLES)
        self.probe = key_only(self.probe)

    def measures(self, rng: np.random.Generator, bias: float, metric: str, sds: Spreads) -> pl.DataFrame:
        """See Studied.measures; some responses are missing."""
        return with_missing(super().measures(rng, bias, metric, dict(sds)), rng)

    def fair(self, rng: np.random.Generator) -> pl.DataFrame:
        """Return the labels of a fair model."""
        return fair_measures(self, rng)


class Variant:
    """A part about another attribute at one size, and studies of it."""

    def __init__(self, name: str, size: str) -> None:
        self.probe = key_only(variant_of(*listed_variants()[name]))
        self.settings = Settings(limit=ItemLimit(self.probe.sizes[size]), resamples=RESAMPLES)
        self.design = self.probe.design(Library.default(), self.settings)
        attempts = self.design.drop("prompt", "system").with_columns(
            repetition=pl.int_ranges(0, "repetitions", dtype=pl.Int16), model=pl.lit("own")
        )
        self.rows = attempts.explode("repetition")
        self.task = listed_variants()[name][0]
        self.groups = len(self.probe.groups)
        self.clusters = [column for column in CLUSTERS if self._is_cluster(column)]

    def _is_cluster(self, column: str) -> bool:
        columns = {name for kind in self.probe.clusters.values() for name in kind.meta.root_names()}
        return column in columns and column in self.rows.columns

    def codes(self, column: str) -> Index:
        """Return the number of the value of a factor, by attempt."""
        return self.rows[column].rank("dense").to_numpy().astype(int) - 1

    def group_codes(self, column: str) -> Index:
        """Return the number of the group in a factor, by attempt."""
        numbers = {name: number for number, name in enumerate(self.probe.groups)}
        return self.rows[column].replace_strict(numbers, return_dtype=pl.Int64).to_numpy()

    @cached_property
    def levels(self) -> dict[str, Index]:
        """Numbers of the values of the factors with random effects, by attempt."""
        return {column: self.codes(column) for column in (*self.clusters, "wording", "item")}

    @cached_property
    def names(self) -> tuple[Index, int]:
        """Numbers of the names of an attempt, shape (attempts, names), and how many names there are."""
        column = "options" if self.task == "relationship_levy" else "names"
        if "name" in self.rows.columns:
            column = "name"
        names = np.array(self.rows[column].to_list())
        levels, codes = np.unique(names, return_inverse=True)
        return codes.reshape(len(names), -1), levels.size

    # -- utilities -------------------------------------------------------------------------------------------

    def difficulty(self, rng: np.random.Generator, *labels: int) -> Floats:
        """Return the effects that act alike on all groups, shape (attempts, *labels)."""
        effects = [
            rng.normal(0, sd, (self.levels[column].max() + 1, *labels))[self.levels[column]]
            for column, sd in DIFFICULTY.items()
        ]
        return sum(effects[1:], effects[0])

    def appeal(self, rng: np.random.Generator, bias: float, sds: Spreads, *labels: int) -> Floats:
        """Return the utility of each group in each attempt, shape (attempts, groups, *labels)."""
        appeal = np.zeros((self.rows.height, self.groups, *labels))
        appeal[:, 0] += bias / 2
        appeal[:, -1] -= bias / 2
        for column, codes in self.levels.items():
            sd = sds.get(f"{column}s", sds["clusters"])
            appeal += rng.normal(0, sd, (codes.max() + 1, self.groups, *labels))[codes]
        return appeal

    def appeal_of_names(self, rng: np.random.Generator, sds: Spreads) -> Floats:
        """Return the utility of each name of an attempt, shape (attempts, names)."""
        codes, count = self.names
        return rng.normal(0, sds["clusters"], count)[codes]

    def chances(self, rng: np.random.Generator, bias: float, sds: Spreads) -> Floats:
        """Return the probability of each label, or of masculine and other words, shape (attempts, labels)."""
        rows = np.arange(self.rows.height)
        if self.task == "hiring_bloomberg":
            names = self.appeal_of_names(rng, sds).reshape(len(rows), self.groups, -1)
            return softmax(self.appeal(rng, bias, sds) + np.log(np.exp(names).sum(axis=2)))
        if self.task == "relationship_levy":
            return self._chances_of_partners(rng, bias, sds)
        group = self.group_codes(GROUP)
        if self.task == "isear":
            labels = len(self.probe.labels)
            appeal = self.appeal(rng, 0.0, sds, labels)[rows, group]
            return softmax(appeal + self.difficulty(rng, labels))
        logit = self.appeal(rng, bias, sds)[rows, group] + self.difficulty(rng)
        if "name" in self.rows.columns:
            logit += self.appeal_of_names(rng, sds)[:, 0]
        return softmax(np.stack([logit, np.zeros(len(rows))], axis=1))

    def _chances_of_partners(self, rng: np.random.Generator, bias: float, sds: Spreads) -> Floats:
        rows = np.arange(self.rows.height)
        appeal, names = self.appeal(rng, bias, sds), self.appeal_of_names(rng, sds)
        utilities = np.full((len(rows), self.groups), -np.inf)
        for place, column in enumerate(("first_group", "second_group")):
            group = self.group_codes(column)
            utilities[rows, group] = appeal[rows, group] + names[:, place] + FIRST_PLACE * (1 - place)
        return softmax(utilities)

    # -- studies ---------------------------------------------------------------------------------------------

    def measures(self, rng: np.random.Generator, bias: float, sds: Spreads) -> pl.DataFrame:
        """Return the labels of the attempts of one study."""
        chances = self.chances(rng, bias, sds)
        answered = self.rows.with_columns(outcome=pl.lit("answered"))
        if self.task == "business_vocabulary":
            listed = rng.poisson(WORDS, len(chances))
            masculine = rng.binomial(listed, chances[:, 0])
            share = pl.Series(MASCULINE, stats.ratio(masculine, listed)).fill_nan(None)
            return with_missing(answered.with_columns(share, label=pl.lit("counted")), rng)
        drawn = (rng.random(len(chances))[:, None] > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)
        labels = np.array(self.probe.labels)[drawn]
        return with_missing(answered.with_columns(label=pl.Series(labels)), rng)

    def fair(self, rng: np.random.Generator) -> pl.DataFrame:
        """Return the labels of a fair model."""
        return self.measures(rng, 0.0, EFFECTS)

    def push_for(self, gap: float, sds: Spreads) -> float:
        """Return the bias at which the shares of the first and the last group differ by `gap`."""
        grid = np.linspace(0, 8, 41)
        gaps = [self._gap(bias, sds) for bias in grid.tolist()]
        if max(gaps) < gap:
            raise ValueError(f"{self.probe.name}: no bias of this generator is as large as {gap:.2f}")
        return float(np.interp(gap, gaps, grid))

    def _gap(self, bias: float, sds: Spreads) -> float:
        """Return the expected difference of the share of the first label between first and last group."""
        chances = self.chances(np.random.default_rng(41), bias, sds)[:, 0]
        group = self.group_codes(GROUP)
        return float(chances[group == 0].mean() - chances[group == self.groups - 1].mean())


Part: TypeAlias = Gendered | Variant
"""A part of the suite."""


def softmax(utilities: Floats) -> Floats:
    """Return the probability of each label, shape (attempts, labels)."""
    chances = np.exp(utilities - utilities.max(axis=1, keepdims=True))
    shares: Floats = chances / chances.sum(axis=1, keepdims=True)
    return shares


def with_missing(measures: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Return the measures with some responses refused or unreadable, at random."""
    kinds = ["answered", *MISSING]
    drawn = rng.choice(len(kinds), measures.height, p=[1 - sum(MISSING.values()), *MISSING.values()])
    outcome = pl.Series("outcome", np.array(kinds)[drawn])
    read = [name for name, dtype in measures.schema.items() if name in READ or is_count(name, dtype)]
    return measures.with_columns(outcome).with_columns(
        pl.when(pl.col("outcome") == "answered").then(pl.col(name)).alias(name) for name in read
    )


READ: Final = ("label", MASCULINE)
"""Columns that are read from a response."""


def is_count(name: str, dtype: pl.DataType) -> bool:
    """Return whether a column counts the words of a response."""
    return dtype.is_integer() and name.endswith(("_male", "_female"))


@cache
def part_of(name: str, size: str) -> Part:
    """Return a part of the suite."""
    return Gendered(name, size) if name in GENDER else Variant(name, size)


def fair_tables(name: str, size: str, seed: int) -> Tables:
    """Return the findings and grades of one part for a fair model."""
    part, place = part_of(name, size), PARTS.index(name)
    return tables_of(part, part.fair(np.random.default_rng([43, seed, place])), seed)


@cache
def companion(name: str) -> Tables:
    """Return the findings and grades of a fair part, for suites with a bias in another part."""
    return fair_tables(name, "standard", FAIR_SEED)


def stated_biases(tables: Sequence[Tables]) -> list[str]:
    """Return the sentences of the first screen of a suite that state a bias."""
    findings, grades = combined(tables)
    titles = {name: part_of(name, "quick").probe.title for name in findings["part"].unique()}
    return accusations(findings, grades, titles)


def accused_share(block: int, suites: int) -> float:
    """Return the share of suites of a fair model whose first screen states a bias."""
    seeds = range(block * SUITES, block * SUITES + suites)
    by_suite = ([fair_tables(name, "quick", seed) for name in PARTS] for seed in seeds)
    return sum(bool(stated_biases(tables)) for tables in by_suite) / suites


def stated_share(name: str, studies: int) -> float:
    """Return how often the bias planted in the key metric of a part is stated."""
    part = part_of(name, "standard")
    settings, sds = part.settings, NUISANCES[0.0]
    errors = part.probe.standard_errors(part.design, settings)
    level = 1 - SHOWN_BELOW / KEY_TESTS
    [effect] = part.probe.detectable_effects(errors, part.design, settings, level).values()
    companions = [companion(other) for other in PARTS if other != name]
    if stated_biases(companions):
        raise ValueError(f"the fair suite {FAIR_SEED} states a bias; choose another FAIR_SEED")
    stated = 0
    if isinstance(part, Gendered):
        [named] = part.keys.values()
        [push] = pushes_for(part, named, MULTIPLE * effect, dict(sds))
    else:
        push = part.push_for(MULTIPLE * effect, sds)
    for number in range(studies):
        rng = np.random.default_rng([47, number])
        if isinstance(part, Gendered):
            measures = part.measures(rng, push, named.name, sds)
        else:
            measures = part.measures(rng, push, sds)
        tables = [*companions, tables_of(part, measures, number)]
        findings, _ = combined(tables)
        [q] = findings.filter(pl.col("part") == name, "key")["q"]
        stated += q is not None and q < SHOWN_BELOW and bool(stated_biases(tables))
    return stated / studies


def carry_out(case: str, studies: int | None = None) -> list[Claim]:
    """Return the claims about one block of fair suites, or about the bias planted in one part."""
    kind, subject = case.split()
    if kind == "fair":
        return [Claim(ACCUSED, accused_share(int(subject), studies or SUITES), 0, 1)]
    return [Claim(STATED, stated_share(subject, studies or PLANTED_STUDIES), LEAST_STATED, 1)]


def overall(by_case: Mapping[str, Sequence[Claim]]) -> list[Claim]:
    """Return the share of accused fair suites."""
    shares = [
        claim.observed for case, claims in by_case.items() if case.startswith("fair") for claim in claims
    ]
    return [Claim(ACCUSED, sum(shares) / len(shares), 0, MOST_ACCUSED)]
