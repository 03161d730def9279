"""The base class of probes.

A probe module defines what `_contract.py` lists: items, prompts, a reader, counts and formulas. Everything
else is inherited from `Probe`: the design and the reading of responses are here, findings are computed in
`_findings.py`, and the simulated model and the planning of studies are in `_simulation.py`.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final

import polars as pl
from polars import DataFrame, Expr, Series, String, col, lit, when

from tiltmeter import stats
from tiltmeter._judging.second_reader import read_with_judge
from tiltmeter.comparisons import Groups, attempts_by_group
from tiltmeter.datasets import DataUnavailable, Library
from tiltmeter.designs.subsampling import first_samples, keep_limit
from tiltmeter.designs.wordings import Wording, fill, wordings
from tiltmeter.errors import InputError, check_known
from tiltmeter.probes import _simulation as simulation
from tiltmeter.probes._constrained import answers_are_constrained, with_list
from tiltmeter.probes._contract import ASKED_FIELD, SYSTEM_FIELD, WORDING, Dials, ProbeContract
from tiltmeter.probes._counted_items import wordings_are_dealt
from tiltmeter.probes._definitions import DEFAULT, definition_of
from tiltmeter.probes._findings import analyse_measures, contrast_models, key_examples
from tiltmeter.readers.outcomes import decide_outcome
from tiltmeter.schema import DESIGN, REFUSED, TO_LABEL, conform, labels_meant
from tiltmeter.study import NO_TOOLS, Judge, NotRun, RunView, Settings, Stage, Tools

FEWEST_DEALT: Final = 5
"""Smallest number of wordings that are dealt by default; fewer do not represent wordings like these."""
DEALT: Final = "dealt"
"""Value of `-P wording=`: each item is asked in one of the built-in wordings, at random. The default of the
default definition."""
JUDGED: Final = "judge"
"""Value of `-P unread=`: a judge reads what the rules leave unread."""


class Probe(ProbeContract):
    """Base class of probes. Subclasses define the attributes and methods of `ProbeContract`."""

    data: Sequence[str] = ()
    title: str
    harms: Sequence[str] = ()

    def __init_subclass__(cls) -> None:
        """Check the readers and metrics of the probe, and derive `data`, `title` and `harms`.

        A probe must be able to read answers, and have the metrics that its other metrics name.
        """
        if cls.read is Probe.read and not cls.readers:
            raise TypeError(
                f"{cls.__name__} cannot read answers: define a method `read` or the attribute `readers`"
            )
        metrics = getattr(cls, "metrics", ())
        names = {metric.name for metric in metrics}
        for metric in metrics:
            if metric.tested_by is not None and metric.tested_by not in names:
                raise TypeError(
                    f"{cls.__name__}: {metric.name} is tested by {metric.tested_by!r}, which is not among "
                    "the `metrics`"
                )
        if "card" in cls.__dict__:
            cls.data, cls.title = cls.card.data, cls.card.title
            harms = [metric.harm or cls.card.harm for metric in metrics if metric.key]
            cls.harms = tuple(dict.fromkeys(harms))

    # -- variants ------------------------------------------------------------------------------------------

    def variant(self, params: Mapping[str, str]) -> Probe:
        """Return the probe that the parameters of a study choose; by default, the probe itself.

        Parameters
        ----------
        params
            Parameters of the study; `language` is that of the prompts.

        Raises
        ------
        InputError
            The probe has no such variant.
        """
        language = params.get("language", "en")
        if language != "en":
            raise InputError(f"-P language={language}: {self.name} has prompts in English only; leave it out")
        return self

    # -- groups --------------------------------------------------------------------------------------------

    def compared_groups(self, settings: Settings) -> Sequence[Groups]:
        """See Part.compared_groups: the items of each attribute belong to the clusters of the probe."""
        clusters = self.clusters if definition_of(settings).corrected else {}
        return [dataclasses.replace(groups, clusters=clusters) for groups in self.compares]

    def outcomes_by_group(self, view: RunView, settings: Settings) -> Iterator[tuple[Groups, DataFrame]]:
        """See Part.outcomes_by_group: wordings that were dealt to the items are clusters, too."""
        measures = view.measures
        is_dealt = definition_of(settings).corrected and wordings_are_dealt(measures)
        wordings_of_items = {stats.WORDINGS: WORDING} if is_dealt else {}
        for groups in self.compared_groups(settings):
            clustered = dataclasses.replace(groups, clusters={**groups.clusters, **wordings_of_items})
            yield clustered, attempts_by_group(measures, clustered)

    # -- design --------------------------------------------------------------------------------------------

    def design(self, library: Library, settings: Settings) -> DataFrame:
        """See Part.design."""
        if not self.uses_judge:
            _check_second_reader(settings)
        constrained = answers_are_constrained(settings)
        wordings_used, dealt = self._wordings_used(settings)
        rows = self._items(library, settings)
        if dealt:
            deal = _deal(rows, list(wordings_used), settings.seed)
            rows = rows.join(deal, on="item", how="left", maintain_order="left")
        asked = col(ASKED_FIELD) if ASKED_FIELD in rows.columns else None
        rows = keep_limit(rows, settings.limit, settings.seed, self.name, asked)
        prompts = []
        for name, templates in wordings_used.items():
            of_wording = rows.filter(wording=name) if dealt else rows.with_columns(wording=lit(name))
            system = lit(settings.system_message, dtype=String)
            if SYSTEM_FIELD in rows.columns:
                system = col(SYSTEM_FIELD)
            with_prompt = of_wording.with_columns(prompt=self.text(templates), system=system)
            # Drop the template fields, which the prompt now contains.
            prompts.append(with_prompt.select(pl.exclude("^_.*$")))
        design = pl.concat(prompts).sort("item", "prompt_index", maintain_order=True)
        if constrained and self.allowed_answers:
            design = with_list(design, self.allowed_answers)
        design = design.with_columns(
            part=lit(self.name),
            repetitions=lit(settings.repeats or self.repetitions),
            prompt_id=fill(f"{self.name}/{{item}}/{{prompt_index}}/{{wording}}"),
        )
        return conform(design.with_columns(first_sample=first_samples()), DESIGN, further=True)

    @property
    def wordings_name(self) -> str:
        """Name of the probe whose wordings are used; by default, its own."""
        return self.name

    def _wordings_used(self, settings: Settings) -> tuple[dict[str, Wording], bool]:
        """Return the wordings in which items are asked, and whether each item is asked in one of them."""
        choice = settings.params.get("wording")
        dealt = choice == DEALT or (choice is None and definition_of(settings).corrected)
        built_in = self.wordings or Path(inspect.getfile(type(self))).with_name("wordings.yaml")
        of_suite = Path(__file__).parent / "_genderbench" / "wordings.yaml"
        used = wordings(self.wordings_name, "all" if dealt else choice, built_in, of_suite)
        if dealt and len(used) < FEWEST_DEALT:
            first = next(iter(used))
            used = {first: used[first]}
        return used, dealt

    def _items(self, library: Library, settings: Settings) -> DataFrame:
        """Return the prompts of the probe, with the optional columns filled in."""
        try:
            rows = self.under(definition_of(settings)).prompts(library, Random(settings.seed))
        except DataUnavailable as error:
            raise NotRun(f"{error.reason}; {error.remedy}") from error
        defaults = {
            "item": pl.int_range(pl.len()),
            "prompt_index": pl.int_range(pl.len()).over("item"),
            "stratum": lit("all"),
        }
        for name, value in defaults.items():
            if name not in rows.columns:
                rows = rows.with_columns(value.alias(name))
        if rows["item"].null_count():
            raise InputError(f"{self.name}: a prompt has no item; fill in the column item, or leave it out")
        return rows.with_columns(col.stratum.cast(String))

    # -- reading of responses ------------------------------------------------------------------------------

    def measure(self, answers: DataFrame, settings: Settings, tools: Tools = NO_TOOLS) -> DataFrame:
        """See Part.measure."""
        read = self.under(definition_of(settings)).read_with(answers, tools)
        failed, refused = answers["status"] != "ok", answers["refusal"].is_not_null()
        outcome = decide_outcome(lit(read["outcome"]), failed=failed, refused=refused)
        usable = ~failed & ~refused
        measured = read.with_columns(outcome=outcome).with_columns(when(usable).then(pl.exclude("outcome")))
        if settings.params.get("unread") == JUDGED and tools.judge is not None:
            return self._read_again(measured, answers, tools.judge)
        return measured

    @property
    def uses_judge(self) -> bool:
        """Whether a judge reads every answer."""
        return False

    def read_with(self, answers: DataFrame, tools: Tools) -> DataFrame:
        """Read the answers, with a judge or a model if the probe needs one; by default, `read` them."""
        return self.read(answers)

    def early_outcomes(self, answers: DataFrame, settings: Settings) -> Series:
        """See Part.early_outcomes: the reader decides.

        A refusal in words is one also under published definitions, which do not read it.

        Responses that the rules do not read count as answered if a judge reads them later.
        """
        outcome = self.measure(answers, settings)["outcome"]
        if settings.params.get("unread") == JUDGED:
            return outcome.replace("unreadable", "answered")
        unread = (outcome == "unreadable").arg_true()
        if not len(unread):
            return outcome
        read_again = self.under(DEFAULT).read(answers[unread])["outcome"]
        return outcome.scatter(unread.filter(read_again == "refused"), "refused")

    def _read_again(self, measured: DataFrame, answers: DataFrame, judge: Judge) -> DataFrame:
        """Let a judge read what the rules left unread.

        The column `second_reader` names it where it gave a label or saw a refusal.
        """
        unread = measured["outcome"] == "unreadable"
        questions = self._with_question(answers.filter(unread))
        replies = questions.with_columns(read_with_judge(judge, questions))
        judged = replies.select(
            judged_label=labels_meant(replies), declined=col.label == REFUSED, row=unread.arg_true()
        )
        table = measured.with_row_index("row").join(judged, on="row", how="left", maintain_order="left")
        has_label = col.judged_label.is_not_null()
        outcome = when(has_label).then(lit("answered")).when("declined").then(lit(REFUSED))
        return table.with_columns(
            label=pl.coalesce("judged_label", "label"),
            outcome=outcome.otherwise("outcome"),
            second_reader=when(has_label | col.declined).then(lit(judge.name)),
        ).drop("row", "judged_label", "declined")

    def to_label(self, view: RunView) -> DataFrame:
        """See Part.to_label: the label of each answer, unless the answers of the probe have none."""
        measures = view.measures if len(self.labels) > 1 else view.measures.clear()
        group = self.compares[0].group if self.compares else lit(None, String)
        to_label = self._with_question(measures).with_columns(group=group, read=col.label)
        return conform(to_label, TO_LABEL)

    def _with_question(self, rows: DataFrame) -> DataFrame:
        """Add the question to an annotator, the `allowed` answers, and the label that each means."""
        allowed: list[Expr] = [lit(label) for label in self.labels]
        meaning = allowed
        if self.allowed_answers:
            allowed = [answer for answer, _ in self.allowed_answers]
            meaning = [lit(self.read(rows.with_columns(answer=answer))["label"]) for answer in allowed]
        return rows.with_columns(
            question=lit(self.card.reads),
            allowed=pl.concat_list(allowed) if allowed else lit(Series([[]], dtype=pl.List(String))).first(),
            meaning=pl.concat_list(meaning) if meaning else lit(Series([[]], dtype=pl.List(String))).first(),
        )

    @property
    def stages(self) -> tuple[Stage, ...]:
        """See MeasuredPart.stages."""
        measures, *later_stages = super().stages
        return (dataclasses.replace(measures, asks=True), *later_stages)

    def judge_call_count(self, design: DataFrame, settings: Settings) -> int:
        """See Part.judge_call_count, assuming that the rules leave one in twenty answers unread.

        Some probes let the judge read every answer.
        """
        if self.uses_judge:
            return int(design["repetitions"].sum())
        if settings.params.get("unread") != JUDGED:
            return 0
        return math.ceil(design["repetitions"].sum() / 20)

    # -- findings ------------------------------------------------------------------------------------------

    def analyse(
        self, measures: DataFrame, settings: Settings, tools: Tools = NO_TOOLS
    ) -> dict[str, DataFrame]:
        """See MeasuredPart.analyse: the tables `findings` and `grades`.

        With several wordings, key metrics are also reported for each.
        """
        return analyse_measures(self.under(definition_of(settings)), measures, settings)

    def analyse_labelled(
        self, measures: DataFrame, labels: DataFrame, settings: Settings, tools: Tools = NO_TOOLS
    ) -> dict[str, DataFrame]:
        """See MeasuredPart.analyse_labelled."""
        if labels.is_empty():
            return self.analyse(measures, settings, tools)
        return analyse_measures(self.under(definition_of(settings)), measures, settings, labels)

    def examples(
        self, measures: DataFrame, findings: DataFrame, settings: Settings, tools: Tools = NO_TOOLS
    ) -> DataFrame:
        """See Part.examples: for the key metrics over all wordings.

        `influence` is that of the item of the answer.
        """
        return key_examples(self.under(definition_of(settings)), measures, findings, settings)

    def contrast(self, first: RunView, second: RunView, settings: Settings) -> DataFrame | None:
        """See Part.contrast: items are paired, regardless of their wordings."""
        probe = self.under(definition_of(settings))
        return contrast_models(probe, first, second, settings, of_population=False)

    def population_contrast(self, first: RunView, second: RunView, settings: Settings) -> DataFrame | None:
        """See Part.population_contrast: questions, names and wordings of several items are samples."""
        probe = self.under(definition_of(settings))
        return contrast_models(probe, first, second, settings, of_population=True)

    # -- simulated model and planning ----------------------------------------------------------------------

    def simulate(self, design: DataFrame, dials: Dials) -> DataFrame | None:
        """See Part.simulate."""
        return simulation.simulated_answers(self, design, dials)

    def simulate_measures(self, design: DataFrame, dials: Dials, seed: int) -> DataFrame | None:
        """See Part.simulate_measures."""
        return simulation.simulated_measures(self, design, dials, seed)

    def standard_errors(
        self, design: DataFrame, settings: Settings, *, heterogeneity: float = 0.0
    ) -> simulation.ErrorsByMetric:
        """See Part.standard_errors: from the intervals of simulated studies of an unbiased model."""
        probe = self.under(definition_of(settings))
        return simulation.standard_errors(probe, design, settings, heterogeneity)

    def detectable_effects(
        self,
        errors: simulation.ErrorsByMetric,
        design: DataFrame,
        settings: Settings,
        level: float,
    ) -> Mapping[str, float]:
        """See Part.detectable_effects."""
        return simulation.detectable_effects(self, errors, design["item"].n_unique(), level)

    def metric_in_words(self, metric: str) -> str:
        """See Part.metric_in_words: the label of the metric, if it has one."""
        labels = {self.finding_name(named): named.label for named in self.metrics if named.key}
        return labels.get(metric) or super().metric_in_words(metric)

    def items_needed(self, errors: Mapping[str, float], items: int, settings: Settings) -> Mapping[str, int]:
        """See Part.items_needed: the interval of the mark must not reach a tier that makes it undecided."""
        return simulation.items_needed(self, errors, items, settings)


def _check_second_reader(settings: Settings) -> None:
    """Check that there is a judge if and only if it is the second reader."""
    second_reader = settings.params.get("unread", "none")
    check_known(second_reader, ("none", JUDGED), f"-P unread={second_reader}: unknown second reader")
    if second_reader == JUDGED and settings.judge is None:
        raise InputError("-P unread=judge needs a judge: name it with --judge PROVIDER/NAME")
    if second_reader != JUDGED and settings.judge is not None:
        raise InputError("the probes use a judge only with -P unread=judge; add it, or remove --judge")


def _deal(rows: DataFrame, names: Sequence[str], seed: int) -> DataFrame:
    """Deal wordings to items at random and evenly within strata: return `item` and `wording`.

    The deal does not depend on the limit.
    """
    import numpy as np

    items = rows.group_by("item", maintain_order=True).agg(col.stratum.first())
    lots = Series("lot", np.random.default_rng(seed).permutation(items.height))
    turn = pl.int_range(pl.len()) % len(names)
    dealt = lit(Series(names)).gather(turn)
    return items.with_columns(lots).sort("stratum", "lot").select("item", wording=dealt)
