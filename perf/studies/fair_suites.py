"""Sentences on the first screen about fair and biased models, for the suite of all probes.

The product provides the designs, the analysis and the sentences. Responses come from the generator of
`perf/probe_claims.py`, which shares no code with it: random effects of names, questions, scenarios, wordings
and items change how strongly bias acts, in fair models as well.

A planted bias is as large as `plan` says can be detected, or twice as large, for questions, names, wordings
and items that do not differ, and for those that differ as much as `plan --heterogeneity` assumes (without a
limit, because the effects of the generator act on all metrics of a probe, those assumed by `plan` only on how
each group is treated). One metric is biased, in half of the studies in the opposite direction where it has
one, and all others are fair, which is the hardest case for the family of key tests. A planted bias counts as
stated if the first screen states a bias and the q of this metric is below 5%. Metrics that cannot be so far
from no bias are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Final, Protocol

import numpy as np
import polars as pl

from perf.probe_claims import EFFECTS, GENERATORS, Studied
from perf.studies.study import CODE_OF_PROBES, Claim
from tiltmeter.blocks import Headline, Text
from tiltmeter.probes import Probe
from tiltmeter.probes._definitions import DEFAULT
from tiltmeter.probes._findings import metric_rows
from tiltmeter.probes._listing import PROBES
from tiltmeter.probes._metrics import NamedMetric
from tiltmeter.probes._presentation import present
from tiltmeter.runs._shared_tables import with_q
from tiltmeter.schema import GRADES, SHOWN_BELOW, conform
from tiltmeter.study import Settings, as_findings

QUESTION: Final = (
    "How often does the first screen state a bias of a fair model, and is a planted bias stated?"
)
CODE: Final = (*CODE_OF_PROBES, "runs._shared_tables", "blocks", "_quantities")
GENERATOR: Final = ("perf.probe_claims",)
RESAMPLES: Final = 1_000
BLOCKS: Final = {"quick": 10, "standard": 10}
"""Cases of fair suites of each size. A case is a block of suites that one process carries out."""
SUITES: Final = {"quick": 50, "standard": 20}
"""Suites of a block."""
MOST_ACCUSED: Final = {"quick": 33 / 500, "standard": 16 / 200}
PLANTED_STUDIES: Final = 60
MULTIPLES: Final = {1: 0.0, 2: 0.9}
"""The planted biases, as multiples of the detectable one, and the share of studies that must state each.

`plan` says that the detectable bias is stated in about 80% of studies.
"""
MEAN_AT_ONE: Final = (0.65, 0.95)
"""Range of the mean over all metrics for a planted bias as large as `plan` says."""
FAIR_SEED: Final = 0
"""The fair suite whose other probes accompany a planted bias."""
PILOTS: Final = 12
"""Simulated studies for each value of the bias when the one with the planted effect is looked for."""
KEY_TESTS: Final = 19
STATED: Final = "{} times the detectable bias, stated"
STATED_AT_ONE: Final = STATED.format(1)
ACCUSED: Final = "fair models accused"
FAIR: Final = {"bbq": -2.0, "direct": -1.0}
"""Bias of the generator at which a rate lies within its healthiest tier (up to 5%).

0 for the other probes, which compare groups.
"""
NUISANCES: Final = {
    0.0: {"clusters": 0.0, "wordings": 0.0, "items": 0.0},
    0.4: {"clusters": 0.4, "wordings": 0.4, "items": 0.4},
}
"""Standard deviations of the effects on a planted bias, by the heterogeneity that `plan` assumes."""
CASES: Final = (
    *(f"fair {size} {block}" for size in BLOCKS for block in range(BLOCKS[size])),
    *(
        f"planted {size} {probe} {heterogeneity:g}"
        for size, probe, heterogeneity in product(BLOCKS, GENERATORS, NUISANCES)
    ),
)


Tables = tuple[pl.DataFrame, pl.DataFrame]
"""Findings and grades."""


class Analysed(Protocol):
    """What has a probe whose findings are computed."""

    probe: Probe


class View:
    """The findings of one simulated suite, as the report reads them."""

    def __init__(self, findings: pl.DataFrame, grades: pl.DataFrame, titles: Mapping[str, str]) -> None:
        self.findings, self.titles = findings, titles
        names = ("model", "part", "metric", "group", "group_2", "wording")
        self.examples = pl.DataFrame(schema=dict.fromkeys(names, pl.String))
        self._grades = grades

    def table(self, name: str) -> pl.DataFrame:
        """Return the grades, the only further table that the report of probes reads."""
        if name != "grades":
            raise ValueError(f"there is no table {name}")
        return self._grades


def tables_of(studied: Analysed, measures: pl.DataFrame, seed: int) -> Tables:
    """Return the findings and grades of one probe, over all wordings together."""
    probe = studied.probe.under(DEFAULT)
    settings = Settings(seed=seed, resamples=RESAMPLES)
    rows = metric_rows(probe, measures, settings)
    table = pl.DataFrame(
        rows, schema_overrides={"bands": GRADES["bands"], "wording": pl.String}, infer_schema_length=None
    )
    table = table.with_columns(model=pl.lit("own"))
    findings = as_findings(table, probe, settings, probe.definition)
    grades = conform(table.with_columns(part=pl.lit(probe.name)), GRADES).with_columns(
        pl.col(pl.Float64).fill_nan(None)
    )
    return findings.with_columns(model=pl.lit("own"), part=pl.lit(probe.name)), grades


def accusations(
    findings: pl.DataFrame, grades: pl.DataFrame, titles: Mapping[str, str] | None = None
) -> list[str]:
    """Return the sentences of the first screen that state a bias; `titles` are those of the parts."""
    known = titles or {name: PROBES.load(name).title for name in findings["part"].unique()}
    blocks = present(View(findings, grades, known))
    headlines = [block for block in blocks if isinstance(block, Headline)]
    sentences = [sentence for block in headlines for sentence in (block.text, block.detail)]
    sentences += [block.text for block in blocks if isinstance(block, Text)]
    stated = (
        r": (negligible |opposite )?bias in \d",
        r"critical or worse in \d",
        r"[Mm]ost severe",
        r"men with women, [1-9]\d* favour",
        r"of them, [1-9]\d* women",
    )
    return [sentence for sentence in sentences if any(re.search(pattern, sentence) for pattern in stated)]


def fair_measures(studied: Studied, rng: np.random.Generator) -> pl.DataFrame:
    """Return the labels of a fair model."""
    return studied.measures(rng, FAIR.get(studied.probe.name, 0.0), studied.first_metric, EFFECTS)


def fair_suite(probes: Sequence[Studied], seed: int) -> list[Tables]:
    """Return the findings and grades of each probe for a fair model."""
    return [
        tables_of(studied, fair_measures(studied, np.random.default_rng([31, seed, place])), seed)
        for place, studied in enumerate(probes)
    ]


def combined(tables: Sequence[Tables]) -> Tables:
    """Return the findings of a suite, with q-values, and its grades."""
    return with_q(pl.concat(findings for findings, _ in tables)), pl.concat(grades for _, grades in tables)


def accused_share(size: str, block: int, suites: int) -> float:
    """Return the share of suites of a fair model whose first screen states a bias."""
    probes = [Studied(name, size, RESAMPLES) for name in GENERATORS]
    seeds = range(block * SUITES[size], block * SUITES[size] + suites)
    return sum(bool(accusations(*combined(fair_suite(probes, seed)))) for seed in seeds) / suites


def stated_shares(size: str, name: str, heterogeneity: float, studies: int) -> dict[tuple[str, int], float]:
    """Return how often a planted bias is stated, by key metric and multiple; other probes are fair."""
    studied = Studied(name, size, RESAMPLES)
    probe, settings = studied.probe, studied.settings
    design = studied.design
    errors = probe.standard_errors(design, settings, heterogeneity=heterogeneity)
    effects = probe.detectable_effects(errors, design, settings, 1 - SHOWN_BELOW / KEY_TESTS)
    companions = fair_suite(
        [Studied(name_of_other, size, RESAMPLES) for name_of_other in GENERATORS if name_of_other != name],
        FAIR_SEED,
    )
    if accusations(*combined(companions)):
        raise ValueError(f"the fair suite {FAIR_SEED} states a bias; choose another FAIR_SEED")
    shares = {}
    for named in studied.keys.values():
        for multiple in MULTIPLES:
            if named.name not in effects:
                continue
            pushes = pushes_for(studied, named, multiple * effects[named.name], NUISANCES[heterogeneity])
            if pushes:
                stated = [
                    is_stated(studied, named, pushes[number % len(pushes)], heterogeneity, number, companions)
                    for number in range(studies)
                ]
                shares[named.name, multiple] = sum(stated) / studies
    return shares


def is_stated(
    studied: Studied,
    named: NamedMetric,
    push: float,
    heterogeneity: float,
    number: int,
    companions: Sequence[Tables],
) -> bool:
    """Return whether the first screen of a suite states the bias planted in one metric of one probe."""
    measures = studied.measures(
        np.random.default_rng([37, number]), push, named.name, NUISANCES[heterogeneity]
    )
    findings, grades = combined([*companions, tables_of(studied, measures, number)])
    row = findings.row(
        by_predicate=(pl.col("part") == studied.probe.name) & (pl.col("published") == named.name), named=True
    )
    return row["q"] is not None and row["q"] < SHOWN_BELOW and bool(accusations(findings, grades))


def pushes_for(studied: Studied, named: NamedMetric, effect: float, sds: dict[str, float]) -> list[float]:
    """Return the biases of the generator that move the metric by this effect, up and, if possible, down."""
    metric = named.metric
    above = push_for(studied, named.name, metric.nearest_unbiased(metric.high) + effect, sds, 1)
    below = None
    if metric.low < metric.nearest_unbiased(metric.low):
        below = push_for(studied, named.name, metric.nearest_unbiased(metric.low) - effect, sds, -1)
    return [push for push in (above, below) if push is not None]


def push_for(studied: Studied, metric: str, target: float, sds: dict[str, float], sign: int) -> float | None:
    """Return the bias of this sign that gives the metric the target value; None if there is none.

    The same random numbers are used for each bias, so that the value of the metric grows with the bias.
    """
    grid = sign * np.concatenate([np.linspace(0, 3, 13), np.linspace(3.5, 12, 18)])
    values = []
    for bias in grid:
        counted = [
            studied.count(np.random.default_rng([41, pilot]), bias, metric, sds) for pilot in range(PILOTS)
        ]
        totals = sum(counts.values.sum(axis=0) for counts in counted)
        values.append(sign * float(studied.counted.compute(np.atleast_2d(totals))[metric][0]))
    if max(values) < sign * target:
        return None
    first = int(np.argmax(np.array(values) >= sign * target))
    if first == 0:
        return float(grid[0])
    return float(np.interp(sign * target, values[first - 1 : first + 1], grid[first - 1 : first + 1]))


def carry_out(case: str, studies: int | None = None) -> list[Claim]:
    """Return the claims about one block of fair suites, or about the planted biases of one probe."""
    kind, size, subject, *heterogeneity = case.split()
    if kind == "fair":
        return [Claim(ACCUSED, accused_share(size, int(subject), studies or SUITES[size]), 0, 1)]
    shares = stated_shares(size, subject, float(heterogeneity[0]), studies or PLANTED_STUDIES)
    promised = MULTIPLES if float(heterogeneity[0]) == 0 else dict.fromkeys(MULTIPLES, 0.0)
    return [
        Claim(f"{metric}: {STATED.format(multiple)}", share, promised[multiple], 1)
        for (metric, multiple), share in shares.items()
    ]


def overall(by_case: Mapping[str, Sequence[Claim]]) -> list[Claim]:
    """Return, for each size, the share of accused fair suites and the mean share at the detectable bias."""
    claims = []
    for size in BLOCKS:
        shares = [
            claim.observed
            for case, of_case in by_case.items()
            if case.startswith(f"fair {size} ")
            for claim in of_case
        ]
        claims.append(Claim(f"{size}: {ACCUSED}", sum(shares) / len(shares), 0, MOST_ACCUSED[size]))
        planted = [
            of_case
            for case, of_case in by_case.items()
            if case.startswith(f"planted {size} ") and case.endswith(" 0")
        ]
        at_one = [claim.observed for of_case in planted for claim in of_case if STATED_AT_ONE in claim.name]
        if at_one:
            claims.append(Claim(f"{size}: mean of {STATED_AT_ONE}", sum(at_one) / len(at_one), *MEAN_AT_ONE))
    return claims
