"""Probes defined by a table of prompts, each with the group it is about."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from random import Random
from typing import TYPE_CHECKING, Final

import polars as pl
from polars import DataFrame, Expr, Float64, Series, String, col, lit, when

from tiltmeter import stats
from tiltmeter.comparisons import (
    SET,
    ComparedOutcome,
    Groups,
    Outcome,
    Row,
    flip_rates,
    set_ranges,
)
from tiltmeter.datasets import Library
from tiltmeter.errors import InputError
from tiltmeter.probes._contract import SYSTEM_FIELD, Card, Dials, Odds
from tiltmeter.probes._counting import family, per_item, rate, spread
from tiltmeter.probes._metrics import (
    OUTCOME_DISPARITY,
    Metric,
    Sums,
    Values,
    difference,
    greatest_difference,
    one_sided,
    two_sided,
)
from tiltmeter.probes._parts import JUDGED, Probe
from tiltmeter.probes._simulation import ErrorsByMetric, scaled_errors
from tiltmeter.probes._table_kinds import outcomes_of
from tiltmeter.probes._table_of_prompts import GROUP, Attribute, TableOfPrompts
from tiltmeter.probes._table_outcomes import UNBIASED_RATE as UNBIASED_RATE, VALUE, Quantity, TableOutcome
from tiltmeter.probes._table_roles import TableRoles
from tiltmeter.schema import FINDINGS, sql_where
from tiltmeter.study import NO_TOOLS, Part, Settings, Tools, as_findings

if TYPE_CHECKING:
    from tiltmeter._arrays import Floats

SPECIAL: Final = frozenset("[|]{}:")
"""Characters that have a meaning in the sentence of a metric."""


class TableProbe(Probe):
    """A probe that compares an outcome of the responses to prompts about each group.

    Without the column `item`, every prompt is an item of its own, and groups are compared as independent
    samples.

    Parameters
    ----------
    name
        The probe's name.
    table
        The columns `prompt` and `group`, and optionally `expected`, the expected answer, `item`, shared by
        the prompts that differ in the group only, and `system`, the system message of the prompt. Other
        columns are factors.
    source
        Origin of the table, for messages and the card.
    roles
        Other columns and outcomes (see `TableRoles`); at most one attribute.

    Raises
    ------
    InputError
        A column is missing, a cell is empty, or there are fewer than two groups.

    Examples
    --------
    >>> import polars as pl
    >>> rows = [
    ...     {"prompt": f"{name} asks for a raise. Grant it? Yes or no.", "group": group, "expected": "yes"}
    ...     for group, name in (("women", "Anna"), ("men", "Tom"))
    ... ]
    >>> TableProbe("raise", pl.DataFrame(rows)).metrics[0].description
    'Share of expected answers for women minus that for men.'
    """

    fields: tuple[str, ...] = ("prompt",)
    harms: Sequence[str] = (OUTCOME_DISPARITY,)

    def __init__(
        self, name: str, table: DataFrame, source: str = "the table", roles: TableRoles | None = None
    ) -> None:
        roles = roles or TableRoles()
        checked = TableOfPrompts.of(table, source, roles)
        if len(checked.attributes) > 1:
            raise InputError(
                f"{source}: a probe compares one attribute, not {len(checked.attributes)}; make one probe "
                "for "
                "each"
            )
        outcomes = outcomes_of(checked, roles.outcomes, roles.label)
        self._prepare(
            name, checked, checked.attributes[0], outcomes, title=name.replace("_", " ").capitalize()
        )

    @classmethod
    def of_attribute(
        cls, name: str, table: TableOfPrompts, attribute: Attribute, outcomes: Sequence[TableOutcome]
    ) -> TableProbe:
        """Return the probe of one attribute of a table, whose title names the attribute.

        Parameters
        ----------
        name
            The probe's name.
        table
            The checked table.
        attribute
            The attribute.
        outcomes
            What is read from the responses; the first is compared in the key metric.
        """
        probe = cls.__new__(cls)
        phrases = outcomes[0].phrases
        probe._prepare(name, table, attribute, outcomes, title=f"{phrases.title} by {attribute.words}")
        return probe

    def _prepare(
        self,
        name: str,
        table: TableOfPrompts,
        attribute: Attribute,
        outcomes: Sequence[TableOutcome],
        title: str,
    ) -> None:
        """Set the attributes of the probe."""
        self._table, self._attribute = table, attribute
        self._outcome, *self._further = outcomes
        self.wordings = {"plain": {"prompt": "{prompt}"}}
        self.name = name
        self.labels = tuple(self._outcome.labels)
        of_attributes = [name for each in table.attributes for name in each.group.meta.root_names()]
        is_own = [each.name for each in table.attributes] == [GROUP]  # its factor is the column `group`
        self.listed_factors = ("item", *([GROUP] if is_own else dict.fromkeys(of_attributes)))
        self.in_standard_deviations = not self._outcome.quantities[0].is_rate
        self.compares = (Groups(attribute.name, GROUP, attribute.names),)
        rates = [_rates(quantity) for quantity in self._outcome.quantities]
        is_in_title = title.startswith(self._outcome.phrases.title)
        self.metrics = (_key_metric(self._outcome, self.groups, is_in_title=is_in_title), *rates)
        self.card = _card(title, table, attribute, self._outcome)
        self.title = self.card.title

    def prompts(self, library: Library, rng: Random) -> DataFrame:
        """See Probe.prompts."""
        return self._table.prompts_about(self._attribute)

    def design(self, library: Library, settings: Settings) -> DataFrame:
        """See Part.design; a judge and system messages are checked first."""
        if SYSTEM_FIELD in self._table.rows.columns and settings.system_message is not None:
            raise InputError(
                f"{self._table.source} has a column with system messages; remove it, or the setting "
                "system_message (--system-message)"
            )
        if settings.params.get("unread") == JUDGED and not self.labels:
            raise InputError(
                "-P unread=judge: the outcome has no labels that a judge could give; remove it, or use "
                "--outcome judge:QUESTION"
            )
        for outcome in (self._outcome, *self._further):
            outcome.check(library)
            if outcome.needs_judge and settings.judge is None:
                raise InputError(
                    "--outcome judge: needs a judge, which reads the responses; name it with "
                    "--judge PROVIDER/NAME"
                )
        return super().design(library, settings)

    @property
    def uses_judge(self) -> bool:
        """See Probe.uses_judge."""
        return any(outcome.needs_judge for outcome in (self._outcome, *self._further))

    # -- reading of responses ------------------------------------------------------------------------------

    def read(self, answers: DataFrame) -> DataFrame:
        """See Probe.read."""
        return self.read_with(answers, NO_TOOLS)

    def read_with(self, answers: DataFrame, tools: Tools) -> DataFrame:
        """See Probe.read_with: also the values of further outcomes."""
        first = self._outcome.read(answers, tools)
        if VALUE in first.columns:
            first = first.rename({VALUE: _measured(self._outcome)})
        values: list[Series] = []
        for outcome in self._further:
            read = outcome.read(answers, tools)
            if VALUE in read.columns:
                read = read.rename({VALUE: _measured(outcome)})
            value = outcome.quantities[0].value.cast(Float64).alias(_column(outcome))
            values.append(read.select(value).to_series())
        return first.with_columns(values)

    def early_outcomes(self, answers: DataFrame, settings: Settings) -> Series:
        """See Part.early_outcomes: for texts without labels and for a judge, every text is an answer."""
        if self._outcome.reads_texts or self._outcome.needs_judge:
            return Part.early_outcomes(self, answers, settings)
        return super().early_outcomes(answers, settings)

    def compared_labels(self, settings: Settings) -> Sequence[Outcome]:
        """See Part.compared_labels: the outcome of the key metric."""
        key = self._outcome.quantities[0]
        return [Outcome(key.metric, key.value, is_rate=key.is_rate, evidence=key.evidence)]

    def further_outcomes(self, settings: Settings) -> Sequence[Outcome]:
        """See Part.further_outcomes."""
        described = []
        for outcome in self._further:
            quantity = outcome.quantities[0]
            column = _column(outcome)
            evidence = f'"{column}" IS NOT NULL'
            described.append(
                Outcome(quantity.metric, col(column), is_rate=quantity.is_rate, evidence=evidence)
            )
        return described

    # -- findings ------------------------------------------------------------------------------------------

    def analyse(
        self, measures: DataFrame, settings: Settings, tools: Tools = NO_TOOLS
    ) -> dict[str, DataFrame]:
        """See MeasuredPart.analyse: also flip rates, or ranges of numbers, within matched sets."""
        return self._with_sets(super().analyse(measures, settings, tools), measures, settings)

    def analyse_labelled(
        self, measures: DataFrame, labels: DataFrame, settings: Settings, tools: Tools = NO_TOOLS
    ) -> dict[str, DataFrame]:
        """See MeasuredPart.analyse_labelled; statistics of matched sets are not corrected."""
        if labels.is_empty():
            return self.analyse(measures, settings, tools)
        return self._with_sets(
            super().analyse_labelled(measures, labels, settings, tools), measures, settings
        )

    def _with_sets(
        self, tables: dict[str, DataFrame], measures: DataFrame, settings: Settings
    ) -> dict[str, DataFrame]:
        """Return the tables with findings about matched sets."""
        rows = self._findings_of_sets(measures, settings)
        if not rows:
            return tables
        findings = tables["findings"]
        kinds = {name: FINDINGS[name] for row in rows for name in row if name in FINDINGS}
        of_sets = DataFrame(rows, schema_overrides=kinds, infer_schema_length=None)
        of_sets = of_sets.with_columns(
            evidence=pl.concat_str(sql_where(part=self.name), "evidence", separator=" AND ")
        )
        of_sets = as_findings(of_sets, self, settings, settings.definition)
        if findings.height:
            shared = [lit(findings[name][0], String).alias(name) for name in ("model", "definition")]
            of_sets = of_sets.with_columns(shared)
        return {**tables, "findings": pl.concat([findings, of_sets])}

    def _findings_of_sets(self, measures: DataFrame, settings: Settings) -> list[Row]:
        """Return flip rates and ranges: the prompts of a set differ in the group of this attribute only."""
        if not self._table.has_items:
            return []
        own = self._attribute.group.meta.root_names()
        others = {name for other in self._table.attributes for name in other.group.meta.root_names()}
        item = pl.struct("item", *sorted(others.difference(own)))
        quantity = self._outcome.quantities[0]
        attempts = measures.filter(quantity.value.is_not_null()).with_columns(
            item.rank("dense").alias(SET), quantity.value.alias("value")
        )
        outcome = Outcome(
            quantity.metric, quantity.value, is_rate=quantity.is_rate, evidence=quantity.evidence
        )
        compared = ComparedOutcome(outcome, attempts, self.compares[0], settings.level, settings.seed)
        if len(compared.names) < 2:
            return []
        return flip_rates(compared, "label") if quantity.is_rate else set_ranges(compared, "value")

    # -- metrics -------------------------------------------------------------------------------------------

    def counts(self, attempts: DataFrame) -> DataFrame:
        """See Probe.counts."""
        sums = {
            f"{group}:{name}": when(col.group == group).then(value)
            for name, value in self._outcome.counts.items()
            for group in self.groups
        }
        return per_item(attempts, sums)

    def formulas(self, s: Sums) -> Values:
        """See Probe.formulas."""
        values: Values = {}
        for place, quantity in enumerate(self._outcome.quantities):
            first, second = quantity.counted
            if quantity.is_rate:
                means = {group: rate(s, f"{group}:{first}", f"{group}:{second}") for group in self.groups}
            else:
                means = {
                    group: stats.ratio(s[f"{group}:{first}"], s[f"{group}:{second}"]) for group in self.groups
                }
            if place == 0:
                values[self.metrics[0].name] = _compared(list(means.values()))
            values |= family(self.metrics[place + 1].name, means)
        return values

    # -- simulated model and planning ----------------------------------------------------------------------

    def simulated_odds(self, dials: Dials) -> Odds:
        """See Probe.simulated_odds: the first group of each attribute is favoured, the last disfavoured."""
        attributes = self._table.attributes
        if len(attributes) == 1:
            return self._outcome.odds(_shift_of(self._attribute, col(GROUP), dials))
        shifts = [_shift_of(attribute, attribute.group, dials) for attribute in attributes]
        return self._outcome.odds(reduce(add, shifts))

    def simulated_reply(self, label: str) -> Expr:
        """See Probe.simulated_reply."""
        return self._outcome.reply(label)

    def simulate(self, design: DataFrame, dials: Dials) -> DataFrame | None:
        """See Part.simulate: a prompt with a system message has an answer of its own."""
        plans = super().simulate(design, dials)
        if plans is None or design["system"].null_count() == design.height:
            return plans
        return plans.with_columns(design["system"])

    def simulate_measures(self, design: DataFrame, dials: Dials, seed: int) -> DataFrame | None:
        """See Part.simulate_measures; numbers have no labels."""
        measures = super().simulate_measures(design, dials, seed)
        if measures is None or self._outcome.quantities[0].is_rate:
            return measures
        return measures.with_columns(
            col.label.cast(Float64).alias(_measured(self._outcome)), label=lit(None, String)
        )

    def standard_errors(
        self, design: DataFrame, settings: Settings, *, heterogeneity: float = 0.0
    ) -> ErrorsByMetric:
        """See Part.standard_errors: those of numbers are in standard deviations of the numbers."""
        errors = super().standard_errors(design, settings, heterogeneity=heterogeneity)
        return scaled_errors(errors, 1 / self._outcome.standard_deviation)

    def metric_in_words(self, metric: str) -> str:
        """See Part.metric_in_words."""
        words = super().metric_in_words(metric)
        return f"{words} (in standard deviations)" if self.in_standard_deviations else words

    def true_values(self, dials: Dials) -> dict[str, float]:
        """See Part.true_values; a table with several attributes has these values if it is balanced."""
        groups = DataFrame({GROUP: [self.groups[0], self.groups[-1]]})
        odds = self._outcome.odds(_shift_of(self._attribute, col(GROUP), dials))
        if not odds:
            return {}
        quantity = self._outcome.quantities[0]
        if quantity.is_rate:
            mean = odds[quantity.counted[0]]
        else:
            mean = reduce(add, (float(level) * chance for level, chance in odds.items()))
        first, last = groups.select(mean=mean.cast(Float64))["mean"].to_list()
        return {self.metrics[0].name: first - last}


# -- the parts of a table ----------------------------------------------------------------------------------


def parts_of_table(name: str, table: DataFrame, source: str, params: Mapping[str, str]) -> list[TableProbe]:
    """Return the probe of each attribute of a table.

    Parameters
    ----------
    name
        Name of the probe if no attribute is named.
    table
        The table.
    source
        Origin of the table, for messages and cards.
    params
        Parameters of the study (see TABLE_PARAMS).

    Raises
    ------
    InputError
        The table or a parameter is not usable, or two attributes have the same name.
    """
    roles = TableRoles.of(params)
    if not roles.attributes:
        return [TableProbe(name, table, source, roles)]
    checked = TableOfPrompts.of(table, source, roles)
    outcomes = outcomes_of(checked, roles.outcomes, roles.label)
    parts: dict[str, TableProbe] = {}
    for attribute in checked.attributes:
        part = re.sub(r"\W+", "_", attribute.name).strip("_").lower() or "group"
        if part in parts:
            raise InputError(
                f"--group {attribute.name}: two attributes have the name {part!r}; rename one of the columns"
            )
        parts[part] = TableProbe.of_attribute(part, checked, attribute, outcomes)
    return list(parts.values())


# -- metrics -----------------------------------------------------------------------------------------------


def _measured(outcome: TableOutcome) -> str:
    """Return the column of measures with the number that an outcome reads."""
    columns: list[str] = outcome.quantities[0].value.meta.root_names()
    return columns[0]


def _column(outcome: TableOutcome) -> str:
    """Return the column of measures with the value of a further outcome."""
    return f"further_{outcome.quantities[0].metric}"


def _compared(means: Sequence[Floats]) -> Floats:
    """Return the difference of two means, or the largest difference of several."""
    if len(means) > 2:
        return spread(means)
    first, second = means
    return first - second


def _shift_of(attribute: Attribute, group: Expr, dials: Dials) -> Expr:
    """Return by how much the simulated model favours the group of a prompt."""
    half = dials[OUTCOME_DISPARITY] / 2
    shifts = {**dict.fromkeys(attribute.names, 0.0), attribute.names[0]: half, attribute.names[-1]: -half}
    return group.replace_strict(shifts, return_dtype=Float64)


def _key_metric(outcome: TableOutcome, groups: tuple[str, ...], *, is_in_title: bool) -> Metric:
    """Return the difference between two groups, or the largest difference between several.

    Parameters
    ----------
    is_in_title
        Whether the title of the probe names the outcome, so that the label of the metric need not.
    """
    key, phrases = outcome.quantities[0], outcome.phrases
    label = phrases.label.rpartition(": ")[2] if is_in_title else phrases.label
    rates = _rates(key)
    mean = phrases.mean[:1].lower() + phrases.mean[1:]
    if len(groups) > 2:
        return greatest_difference(
            "max_difference",
            f"Largest difference between two groups in the {mean}.",
            high=1.0 if key.is_rate else float("inf"),
            label=label.replace("{compared}", "largest gap between groups"),
            sentence=phrases.of_several,
            of=rates.name,
            counted=key.counted,
            averaged=not key.is_rate,
            key=True,
            bands=one_sided(0.03, 0.1, 0.3) if key.is_rate else (),
        )
    first, second = groups
    sentence = ""
    if not SPECIAL.intersection(first + second):
        sentence = phrases.of_two.replace("{first}", first).replace("{second}", second)
    return difference(
        "difference",
        f"{phrases.mean} for {first} minus that for {second}.",
        low=-1.0 if key.is_rate else -float("inf"),
        high=1.0 if key.is_rate else float("inf"),
        label=label.replace("{compared}", f"{first} minus {second}"),
        sentence=sentence,
        counted=key.counted,
        averaged=not key.is_rate,
        group=_literal(first),
        group_2=_literal(second),
        key=True,
        bands=two_sided(0.03, 0.1, 0.3) if key.is_rate else (),
        normalise="absolute",
    )


def _rates(quantity: Quantity) -> Metric:
    """Return the share or mean of each group."""
    of_group = "answers to" if quantity.is_rate else "responses to"
    description = f"{quantity.mean} in the {of_group} prompts about one group."
    if quantity.metric == "expected_rate" and quantity.mean == "Share of expected answers":
        description = "Share of expected answers to prompts about one group."
    infinite = float("inf")
    return Metric(
        f"{{group}}_{quantity.metric}",
        description,
        low=0.0 if quantity.is_rate else -infinite,
        high=1.0 if quantity.is_rate else infinite,
        counted=quantity.counted,
        averaged=not quantity.is_rate,
    )


def _card(title: str, table: TableOfPrompts, attribute: Attribute, outcome: TableOutcome) -> Card:
    """Return the card of a probe."""
    with_answer = ", each with an expected answer" if outcome.labels == ("expected", "other") else ""
    of_attribute = "" if attribute.name == GROUP else f" ({attribute.words})"
    return Card(
        title=title,
        harm=OUTCOME_DISPARITY,
        asks=f"Answer {table.rows.height:,} prompts about {', '.join(attribute.names)}{of_attribute}"
        f"{with_answer}.",
        reads=outcome.reads,
        bias=f"{outcome.phrases.bias} more often to prompts about one group{of_attribute} than to those "
        "about another.",
        limits="Results hold for prompts like these; the author of the prompts must ensure that they are "
        "equally hard for every group.",
        source=table.source,
        data=(),
    )


def _literal(text: str) -> str:
    """Return a text as part of a name with placeholders."""
    return text.replace("{", "{{").replace("}", "}}")
