"""What a probe defines: its card, its metrics, and how prompts become labels, counts and numbers.

`_parts.py` has the base class `Probe`, which adds what is the same in all probes.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Final, Self, TypeAlias

from polars import DataFrame, Expr, Float64, Series, col, lit

from tiltmeter import stats
from tiltmeter.blocks import Band
from tiltmeter.comparisons import Groups as Groups, item_clusters
from tiltmeter.datasets import Library
from tiltmeter.designs.wordings import Wording, fill
from tiltmeter.models._base import ALLOWED
from tiltmeter.probes._answer_readers import Readers
from tiltmeter.probes._constrained import AllowedAnswers, read_allowed
from tiltmeter.probes._counted_items import (
    UNREAD_RATES,
    CountedItems,
    common_columns,
    unread_rates,
    wordings_are_dealt,
)
from tiltmeter.probes._definitions import DEFAULT, ProbeDefinition
from tiltmeter.probes._metrics import Metric, NamedMetric, Sums, Values
from tiltmeter.readers.outcomes import READING_RULE
from tiltmeter.schema import GRADES, StageTable
from tiltmeter.study import MeasuredPart

Dials = Mapping[str, float]
"""Bias of the simulated model by harm, from 0 to 1."""
Odds: TypeAlias = Mapping[str, Expr]
"""Probability of each label, as an expression over the factors; the probabilities sum to 1."""

SYSTEM_FIELD: Final = "_system"
"""Field of a prompt with its own system message."""
ASKED_FIELD: Final = "_asked"
"""Field of a prompt that says whether its item can be asked. Items that cannot keep their place in the order
of --limit, so that the variants of a probe ask the same items as far as they have them."""
WORDING: Final = col.wording
"""The wording of an item, as a cluster."""


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
    changed: str = ""
    """How the default definition differs from the original one, and why."""


class ProbeContract(MeasuredPart):
    """The attributes and methods that a probe defines.

    Factors are the additional columns of the design: String for names and labels, Int32 for ids, Float64 for
    scores, Boolean for flags, List(String) for options. A column name has the same type in all probes, so
    that their tables can be concatenated.
    """

    study = "genderbench"
    method = "probes"
    finding_tables: ClassVar[Mapping[str, StageTable]] = {
        **MeasuredPart.finding_tables,
        "grades": StageTable(GRADES),
    }
    card: Card
    wordings: Mapping[str, Wording] | None = None
    """Wordings by name, the default first, each with templates by role. None: those of `wordings.yaml` in the
    folder of the module."""
    repetitions: ClassVar[int] = 1
    metrics: tuple[Metric, ...]
    compares: tuple[Groups, ...] = ()
    """The attributes that the prompts vary, with their groups. The first is that of the metrics; the counts
    of a metric of the kind "maximum" are columns named "group:what"."""
    labels: tuple[str, ...] = ()
    """Labels that an answer can have."""
    allowed_answers: AllowedAnswers = ()
    """Answers among which a model chooses if answers are constrained (`-P answers=constrained`), each with
    its label in `Probe.read`; empty if the answer is free text."""
    fields: tuple[str, ...] = ()
    """Fields of the template "prompt": columns of `prompts` with a leading underscore."""
    clusters: ClassVar[Mapping[str, Expr]] = {}
    """Random samples that the items belong to besides being a sample themselves, by plural noun:
    {"questions": col.question_id}. An expression over the factors gives the cluster of an item, or a list of
    several; findings then hold for "questions like these".
    """
    compared: ClassVar[Expr | None] = None
    """What bias is a difference between, as an expression over the factors, for simulated effects of
    clusters; default: the group of the prompt in the first of `compares`."""
    readers: ClassVar[Readers | None] = None
    """The tolerant and the strict reader. Probes without such a pair override `read`."""

    has_default_only: ClassVar[bool] = False
    """Whether the published definition, which is about gender, does not apply to the probe."""
    definition: ProbeDefinition = DEFAULT
    """The current definition. Probes whose items or formulas depend on it use `self.definition.corrected`."""

    # -- defined by each probe -----------------------------------------------------------------------------

    @abstractmethod
    def prompts(self, library: Library, rng: Random) -> DataFrame:
        """Return one row per prompt: the factors, and the fields of the template (names starting with "_").

        All random choices must use `rng`. Optional columns: `item` (default: the row number), `prompt_index`
        (default: the row number within the item) and `stratum` (any type: the design cell of an item;
        default: a single stratum).
        """

    def read(self, answers: DataFrame) -> DataFrame:
        """Read the answers: return `outcome`, `label` and further columns, one row per answer.

        A column `rule` of the reader, the rule that gave the label, is kept as READING_RULE.

        Parameters
        ----------
        answers
            `answer` and the factors.
        """
        assert self.readers is not None
        reader = self.readers.tolerant if self.definition.corrected else self.readers.strict
        read = reader(answers).rename({"rule": READING_RULE}, strict=False)
        if ALLOWED in answers.columns and self.allowed_answers:
            return read_allowed(read, answers, self.allowed_answers)
        return read

    @abstractmethod
    def counts(self, attempts: DataFrame) -> DataFrame:
        """Return one row per item (column `item`) with numeric columns to be summed over items.

        `attempts` has one row per attempt with the factors, `outcome` and `label`.
        """

    @abstractmethod
    def formulas(self, s: Sums) -> Values:
        """Compute the metrics from totals, elementwise over resamples.

        Keys are metric names; for a family of metrics, the name followed by a value for each placeholder:
        `("{gender}_rate", "female")`.
        """

    def labels_of_missing(self) -> Sequence[Expr]:
        """Return the labels that a missing response could have had, as expressions over the factors."""
        return [lit(label) for label in self.labels]

    def text(self, wording: Wording) -> Expr:
        """Return the prompt as an expression over the fields.

        By default the template "prompt" of the wording.
        """
        return fill(wording["prompt"], {name: col(f"_{name}") for name in self.fields})

    @property
    def may_be_unread(self) -> bool:
        """Whether answers can be unreadable. If so, the rates of unreadable answers are reported."""
        return True

    def simulated_odds(self, dials: Dials) -> Odds:
        """Return the probability of each label for the simulated model; empty: it answers at random."""
        return {}

    def simulated_reply(self, label: str) -> Expr:
        """Return the simulated model's answer with this label, as an expression over the factors.

        The answer is an outcome of the simulated model's vocabulary.
        """
        return lit(label)

    # -- computed from these definitions ---------------------------------------------------------------------

    def columns_of(self, named: NamedMetric) -> dict[str, str | None]:
        """Return how findings name a metric: `metric`, `attribute`, `group`, `group_2` and `published`.

        Under a published definition, `metric` is the published name.
        """
        is_unread = named.metric in UNREAD_RATES
        attribute = "" if is_unread else self.attribute
        columns = named.columns(self.compares[0] if self.compares else None, attribute)
        if not self.definition.corrected:
            columns["metric"] = named.name
        return {**columns, "published": named.name}

    def finding_name(self, metric: Metric) -> str:
        """Return the name of a metric without placeholders in findings."""
        return str(self.columns_of(NamedMetric(metric.name, metric, {}))["metric"])

    @property
    def attribute(self) -> str:
        """The attribute that the metrics are about; empty if there is none."""
        return self.compares[0].attribute if self.compares else ""

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that the metrics compare."""
        return self.compares[0].names if self.compares else ()

    def under(self, definition: ProbeDefinition) -> Self:
        """Return a copy of the probe that uses a definition."""
        bound = copy.copy(self)
        bound.definition = definition
        return bound

    def item_counts(self, measures: DataFrame) -> DataFrame:
        """Return one row per item: the counts common to all probes, and the counts of this probe."""
        return common_columns(measures).join(self.counts(measures), on="item", maintain_order="left")

    def counted_items(self, counts: DataFrame, measures: DataFrame) -> CountedItems:
        """Return the counts of items (see `item_counts`) with the metrics computed from them."""
        sums = counts.drop("item", "stratum").cast(Float64)
        clusters = self._item_clusters(counts["item"], measures) if self.definition.corrected else ()
        return CountedItems(
            measures=measures,
            items=counts["item"],
            names=sums.columns,
            values=sums.to_numpy(),
            strata=counts["stratum"].to_numpy(),
            formulas=self._all_formulas,
            metrics=self.metrics,
            groups=self.groups,
            clusters=clusters,
        )

    def _item_clusters(self, items: Series, measures: DataFrame) -> list[stats.ItemClusters]:
        """Assign the items to the clusters of the probe, and to wordings if each was dealt one of several."""
        first_attempts = measures.unique("item", keep="first", maintain_order=True)
        rows = DataFrame({"item": items}).join(first_attempts, on="item", how="left", maintain_order="left")
        expressions = dict(self.clusters)
        if wordings_are_dealt(measures):
            expressions[stats.WORDINGS] = WORDING
        return item_clusters(rows, expressions)

    def _all_formulas(self, s: Sums) -> Values:
        values = self.formulas(s)
        if self.may_be_unread:
            return values | unread_rates(s)
        return values

    def key_formulas(self, s: Sums) -> Values:
        """Compute the key metrics, and the metrics that test them."""
        names: set[str | None] = set()
        for metric in self.metrics:
            if metric.key:
                names |= {metric.name, metric.tested_by}
        return {key: value for key, value in self.formulas(s).items() if key in names}

    def described(self, metric: Metric, bands: Sequence[Band]) -> dict[str, Any]:
        """Return the columns of FINDINGS and GRADES that describe a metric."""
        return {
            "null_value": metric.null,
            "unit": metric.unit,
            "harm": metric.harm or self.card.harm,
            "key": metric.key,
            "description": metric.description,
            "label": metric.label or None,
            "range_low": None if metric.averaged and math.isinf(metric.low) else metric.low,
            "range_high": None if metric.averaged and math.isinf(metric.high) else metric.high,
            "bands": [band._asdict() for band in bands],
        }
