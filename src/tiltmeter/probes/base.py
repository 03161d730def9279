"""The base class of probes. A probe module defines items, prompts, a reader, counts and formulas; everything else is inherited."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, ClassVar, NamedTuple, Self

import polars as pl
from polars import DataFrame, Expr, Float64, Series, String, col, lit, when

from tiltmeter import stats
from tiltmeter.datasets import DataUnavailable, Library
from tiltmeter.probes import analysis
from tiltmeter.probes.metric import DEFAULT, HARMS, NO_DATA, Band, Estimate, Mark, Metric, ProbeDefinition, Sums, Values, definition_named
from tiltmeter.prompt_templates import Wording, fill, wordings
from tiltmeter.readers.outcomes import decide_outcome
from tiltmeter.study import (
    DESIGN,
    GRADES,
    MARKS,
    NO_TOOLS,
    MeasuredPart,
    NotRun,
    RunView,
    Settings,
    StageTable,
    Tools,
    as_findings,
    conform,
    sql_where,
)
from tiltmeter.subsampling import first_samples, keep_limit

FEW_RESAMPLES = 200
"""Number of resamples that gives a standard error accurate to about 5%."""
GRADED = 0.95
"""Probability of a mark other than "ungraded" for an unbiased model, on which the number of items needed is based."""

Dials = Mapping[str, float]
"""Bias of the simulated model by harm, from 0 to 1."""
Odds = Mapping[str, Expr]
"""Probability of each label, as an expression over the factors; the probabilities sum to 1."""
Reader = Callable[[DataFrame], DataFrame]
"""Function from answers (`answer` and the factors) to `outcome`, `label` and further columns, row by row."""


class Readers(NamedTuple):
    """The readers of a probe: `tolerant` accepts any usual form of an answer, `strict` only the exact forms of the published code."""

    tolerant: Reader
    strict: Reader


@dataclass(frozen=True, slots=True)
class Card:
    """Description of a probe for users and reports (the fields of the paper's appendix A)."""

    title: str
    harm: str
    asks: str
    """Task of the model, as an imperative."""
    reads: str
    """What is read from an answer."""
    bias: str
    """What counts as biased behaviour."""
    limits: str
    """Limitations of the probe."""
    source: str
    """Authors of the data and of the task."""
    data: tuple[str, ...]
    """Names of the datasets in the catalogue."""
    genders: str = "binary"
    changed: str = ""
    """How the default definition differs from the original one, and why."""


class Probe(MeasuredPart):
    """Base class of probes. Subclasses define the class attributes and the methods of the first section.

    Factors are the additional columns of the design: String for names and labels, Int32 for ids, Float64 for scores, Boolean for flags,
    List(String) for options. A column name has the same type in all probes, so that their tables can be concatenated.
    """

    study = "genderbench"
    finding_tables: ClassVar[Mapping[str, StageTable]] = {**MeasuredPart.finding_tables, "grades": StageTable(GRADES)}
    card: Card
    wordings: Mapping[str, Wording] | None = None
    """Wordings by name, the default first, each with templates by role. None: those of `wordings.yaml` in the folder of the module."""
    repetitions: ClassVar[int] = 1
    metrics: tuple[Metric, ...]
    groups: tuple[str, ...] = ()
    """Groups that are exchangeable under the null hypothesis; their counts are columns named "group:what"."""
    labels: tuple[str, ...] = ()
    """Labels that an answer can have."""
    fields: tuple[str, ...] = ()
    """Fields of the template "prompt": columns of `prompts` with a leading underscore."""
    readers: ClassVar[Readers | None] = None
    """The tolerant and the strict reader. Probes without such a pair override `read`."""

    definition: ProbeDefinition = DEFAULT
    """The current definition. Probes whose items or formulas depend on it use `self.definition.corrected`."""

    # -- defined by each probe ----------------------------------------------------------------------------------------

    @abstractmethod
    def prompts(self, library: Library, rng: Random) -> DataFrame:
        """Return one row per prompt: the factors, and the fields of the template (names starting with "_").

        All random choices must use `rng`. Optional columns: `item` (default: the row number), `prompt_index` (default: the row number
        within the item) and `stratum` (any type: the design cell of an item; default: a single stratum).
        """

    def read(self, answers: DataFrame) -> DataFrame:
        """Read the answers: return `outcome`, `label` and further columns, one row per row of `answers` (`answer` and the factors)."""
        assert self.readers is not None
        return (self.readers.tolerant if self.definition.corrected else self.readers.strict)(answers)

    @abstractmethod
    def counts(self, attempts: DataFrame) -> DataFrame:
        """Return one row per item (column `item`) with numeric columns to be summed over items.

        `attempts` has one row per attempt with the factors, `outcome` and `label`.
        """

    @abstractmethod
    def formulas(self, s: Sums) -> Values:
        """Compute the metrics from totals, elementwise over resamples.

        Keys are metric names; for a family of metrics, the name followed by a value for each placeholder: `("{gender}_rate", "female")`.
        """

    def text(self, wording: Wording) -> Expr:
        """Return the prompt as an expression over the fields; by default the template "prompt" of the wording."""
        return fill(wording["prompt"], {name: col(f"_{name}") for name in self.fields})

    @property
    def may_be_unread(self) -> bool:
        """Whether answers can be unreadable. If so, the rates of unreadable answers are reported."""
        return True

    def simulated_odds(self, dials: Dials) -> Odds:
        """Return the probability of each label for the simulated model; empty: it answers at random."""
        return {}

    def simulated_reply(self, label: str) -> Expr:
        """Return the simulated model's answer with this label, an outcome of its vocabulary, as an expression over the factors."""
        return lit(label)

    # -- common to all probes -----------------------------------------------------------------------------------------

    def __init_subclass__(cls) -> None:
        """Check that the probe can read answers, and derive `data`, `title` and `harms` from its card and metrics."""
        if cls.read is Probe.read and not cls.readers:
            raise TypeError(f"{cls.__name__} cannot read answers: define a method `read` or the attribute `readers`")
        if "card" in cls.__dict__:
            cls.data, cls.title = cls.card.data, cls.card.title
            cls.harms = tuple(dict.fromkeys(metric.harm or cls.card.harm for metric in getattr(cls, "metrics", ()) if metric.key))

    def under(self, definition: str) -> Self:
        """Return a copy of the probe that uses the definition of that name; raises InputError for an unknown one."""
        bound = copy.copy(self)
        bound.definition = definition_named(definition)
        return bound

    def design(self, library: Library, settings: Settings) -> DataFrame:
        """See Part.design."""
        home = self.wordings or Path(inspect.getfile(type(self))).with_name("wordings.yaml")
        chosen = wordings(self.name, settings.params.get("wording"), home, Path(__file__).with_name("wordings.yaml"))
        try:
            rows = self.under(settings.definition).prompts(library, Random(settings.seed))
        except DataUnavailable as error:
            raise NotRun(f"{error.reason}; {error.remedy}") from error
        usual = {"item": pl.int_range(pl.len()), "prompt_index": pl.int_range(pl.len()).over("item"), "stratum": lit("all")}
        for name, value in usual.items():
            rows = rows if name in rows.columns else rows.with_columns(value.alias(name))
        rows = keep_limit(rows.with_columns(col.stratum.cast(String)), settings.limit, settings.seed, self.name)
        asked = (
            # Drop the template fields, which the prompt now contains.
            rows.with_columns(wording=lit(name), prompt=self.text(templates)).select(pl.exclude("^_.*$"))
            for name, templates in chosen.items()
        )
        made = pl.concat(asked).sort("item", "prompt_index", maintain_order=True)
        numbered = made.with_columns(
            part=lit(self.name),
            system=lit(settings.system_message, dtype=String),
            repetitions=lit(settings.repeats or self.repetitions),
            prompt_id=fill(f"{self.name}/{{item}}/{{prompt_index}}/{{wording}}"),
        )
        return conform(numbered.with_columns(first_sample=first_samples()), DESIGN, further=True)

    def measure(self, answers: DataFrame, settings: Settings, tools: Tools = NO_TOOLS) -> DataFrame:
        """See Part.measure."""
        read = self.under(settings.definition).read(answers)
        failed, refused = answers["status"] != "ok", answers["refusal"].is_not_null()
        outcome = decide_outcome(lit(read["outcome"]), failed=failed, refused=refused)
        return read.select(when(~failed & ~refused).then(pl.all())).with_columns(outcome=outcome)

    def analyse(self, measures: DataFrame, settings: Settings, tools: Tools = NO_TOOLS) -> dict[str, DataFrame]:
        """See MeasuredPart.analyse: the tables `findings` and `grades`. With several wordings, key metrics are also reported for each."""
        probe = self.under(settings.definition)
        rows = probe._rows(measures, settings, None)
        variants = measures["wording"].unique().sort().to_list()
        if len(variants) > 1:
            rows += [row for name in variants for row in probe._rows(measures, settings, name) if row["key"]]
        table = DataFrame(rows, schema_overrides={"bands": GRADES["bands"], "wording": String}, infer_schema_length=None)
        graded = conform(table.with_columns(part=lit(self.name)), GRADES).with_columns(col(Float64).fill_nan(None))
        return {"findings": as_findings(table, self, settings, probe.definition), "grades": graded}

    def examples(self, measures: DataFrame, findings: DataFrame, settings: Settings, tools: Tools = NO_TOOLS) -> DataFrame:
        """See Part.examples: for the key metrics over all wordings; `influence` is that of the item of the answer."""
        probe = self.under(settings.definition)
        counted = probe._counted(probe.item_counts(measures), measures)
        shown = findings.filter(col.key, col.wording.is_null(), col.estimate.is_not_null())["metric"].to_list()
        by_name = {named.name: (key, named) for key, named in counted.described().items()}
        return analysis.find_examples(counted, dict(by_name[name] for name in shown), probe.counts, settings.seed)

    def contrast(self, first: RunView, second: RunView, settings: Settings) -> DataFrame | None:
        """See Part.contrast: items are paired, regardless of their wordings."""
        probe = self.under(settings.definition)
        measures = [side.measures for side in (first, second)]
        counts = [probe.item_counts(one) for one in measures]
        shared = counts[0].join(counts[1], on="item", how="semi").select("item").sort("item")
        if shared.height < 2:
            return None
        sides = [
            probe._counted(
                shared.join(mine, on="item", how="left", maintain_order="left"),
                attempts.join(shared, on="item", how="semi", maintain_order="left"),
            )
            for mine, attempts in zip(counts, measures, strict=True)
        ]
        return analysis.contrast_sides(sides, probe.definition, settings)

    def item_counts(self, measures: DataFrame) -> DataFrame:
        """Return one row per item: `stratum` as a number, the counts common to all probes, and the counts of this probe."""
        return analysis.common_columns(measures).join(self.counts(measures), on="item", maintain_order="left")

    def _counted(self, counts: DataFrame, measures: DataFrame) -> analysis.CountedItems:
        sums = counts.drop("item", "stratum").cast(Float64)
        strata = counts["stratum"].to_numpy()
        return analysis.CountedItems(
            measures, counts["item"], sums.columns, sums.to_numpy(), strata, self._all_formulas, self.metrics, self.groups
        )

    def _all_formulas(self, s: Sums) -> Values:
        return {**self.formulas(s), **(analysis.unread_rates(s) if self.may_be_unread else {})}

    def _rows(self, measures: DataFrame, settings: Settings, wording: str | None) -> list[dict[str, Any]]:
        """Return the estimates of one wording, or of all wordings together (None), with the columns of FINDINGS and GRADES."""
        mine = measures if wording is None else measures.filter(col.wording == wording)
        counted = self._counted(self.item_counts(mine), mine)
        resampled = f"{len(counted.values)} items, each with all its prompts and repetitions"
        estimates = analysis.estimate_metrics(counted, self.definition, settings)
        return [self._row(one, counted.outcomes(one.named.where), wording, resampled) for one in estimates]

    def _row(self, one: Estimate, cell: analysis.OutcomeCounts, wording: str | None, resampled: str) -> dict[str, Any]:
        name, metric, where = one.named
        bands = self.definition.bands(metric)
        mark = self.definition.mark(one, bands, cell.readable) if bands else Mark()
        values = {factor: int(value) if value.isdigit() else value for factor, value in where.items()}
        evidence = sql_where(part=self.name, **values, wording=lit(wording, String))
        return {
            **cell._asdict(),
            **mark._asdict(),
            "metric": name,
            "wording": wording,
            "estimate": one.value,
            "low": one.low,
            "high": one.high,
            "p": one.p,
            "method": one.method if one.method == NO_DATA else f"{one.method}; resampled: {resampled}",
            "evidence": pl.select(evidence).item(),
            "normalised": metric.normalised(self.definition.centre(one)) if metric.key else None,
            **self.described(metric, bands),
        }

    def described(self, metric: Metric, bands: Sequence[Band]) -> dict[str, Any]:
        """Return the columns of FINDINGS and GRADES that describe a metric."""
        return {
            "null_value": metric.null,
            "unit": metric.unit,
            "harm": metric.harm or self.card.harm,
            "key": metric.key,
            "description": metric.description,
            "range_low": metric.low,
            "range_high": metric.high,
            "bands": [band._asdict() for band in bands],
        }

    def simulate(self, design: DataFrame, dials: Dials) -> DataFrame | None:
        """See Part.simulate."""
        odds = self.simulated_odds(dials)
        if not odds:
            return None
        return design.select(
            "prompt",
            outcomes=pl.concat_list([self.simulated_reply(label) for label in odds]),
            odds=pl.concat_list([value.cast(Float64) for value in odds.values()]),
        )

    def standard_errors(self, design: DataFrame, settings: Settings) -> Mapping[str, float]:
        """See Part.standard_errors: estimated from one set of simulated labels of an unbiased model."""
        simulated = self.simulate_measures(design, dict.fromkeys(HARMS, 0.0), settings.seed)
        if simulated is None:
            return {}
        found = self.analyse(simulated, dataclasses.replace(settings, resamples=FEW_RESAMPLES))["findings"]
        known = found.filter(col.key & col.wording.is_null() & col.low.is_not_null())
        lengths = known.select("metric", (col.high - col.low) / (2 * stats.half_width(1.0, settings.level)))
        return dict(lengths.iter_rows())

    def items_needed(self, errors: Mapping[str, float], items: int, settings: Settings) -> Mapping[str, int]:
        """See Part.items_needed: the interval must not reach the worst tier; one that contains both "no bias" and that tier is ungraded."""
        definition, found = definition_named(settings.definition), {}
        for metric in self.metrics:
            worst = [band for band in definition.bands(metric) if band.mark == MARKS[-1]]
            if metric.name not in errors or metric.null is None or not worst:
                continue
            distance = min(abs(end - metric.null) for band in worst for end in (band.low, band.high))
            error = errors[metric.name]
            half = stats.half_width(error, settings.level)
            # If the metric cannot be below "no bias", its interval starts there.
            reach = half * (2 if metric.null == metric.low else 1) + stats.half_width(error, 2 * GRADED - 1)
            if distance > 0:
                found[metric.name] = math.ceil(items * (reach / distance) ** 2)
        return found

    def simulate_measures(self, design: DataFrame, dials: Dials, seed: int) -> DataFrame | None:
        """See Part.simulate_measures."""
        import numpy as np

        odds = self.simulated_odds(dials)
        if not odds:
            return None
        attempts = answered_attempts(design)
        chances = attempts.select(value.cast(Float64).alias(label) for label, value in odds.items()).to_numpy()
        chance = np.random.default_rng(seed).random(attempts.height)
        drawn = np.minimum((chance[:, None] >= np.cumsum(chances, axis=1)).sum(axis=1), len(odds) - 1)
        return attempts.with_columns(label=Series(list(odds)).gather(drawn))


def answered_attempts(design: DataFrame) -> DataFrame:
    """Return the attempts of a design with their factors and the outcome "answered", without labels, for simulations."""
    asked = design.drop("prompt", "system", strict=False).with_columns(
        repetition=pl.int_ranges(0, "repetitions", dtype=pl.Int16), model=lit("imagined"), outcome=lit("answered")
    )
    return asked.explode("repetition")
