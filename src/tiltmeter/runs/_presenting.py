"""Presentation of one or more runs: the blocks of a report, and the tables that methods compute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl
from polars import DataFrame, Expr, col, lit, when

from tiltmeter.blocks import Block, Callout, Details, Text
from tiltmeter.comparisons import with_matched_sets, with_missing_responses
from tiltmeter.errors import InputError
from tiltmeter.reports import Report
from tiltmeter.runs._checksums import unmatched_sentence
from tiltmeter.runs._listings import STUDIES
from tiltmeter.runs._plain_findings import present_findings
from tiltmeter.runs._problems import unconstrained
from tiltmeter.runs._reading_quality import reading_blocks
from tiltmeter.runs._refusals import changed_refusals
from tiltmeter.runs._run_tables import RunTables, stage_table
from tiltmeter.runs._served import served_sentences
from tiltmeter.runs._two_definitions import TABLE, definition_blocks
from tiltmeter.schema import NAMED, beside, metric_name, shown_unit

if TYPE_CHECKING:
    from tiltmeter.study import MethodTable


@dataclass(frozen=True)
class RunsView:
    """The findings of one kind of study in one or more runs; see `tiltmeter.study.ReportView`.

    Parameters
    ----------
    beside
        Further tables, such as published findings, to show with those of the runs.
    only
        The `model` or `part` to show.
    """

    runs: Sequence[RunTables]
    study: str
    beside: Mapping[str, DataFrame] = field(default_factory=dict)
    only: Mapping[str, str | None] = field(default_factory=dict)

    @cached_property
    def findings(self) -> DataFrame:
        """See ReportView."""
        tables = [self._selected(number, run.findings) for number, run in enumerate(self.runs, 1)]
        findings = pl.concat(tables).filter(study=self.study)
        if "findings" not in self.beside:
            return findings
        published = _named_as_in(findings, self.beside["findings"])
        return pl.concat([findings, published])

    @cached_property
    def examples(self) -> DataFrame:
        """See ReportView."""
        keys = ["model", "part", *NAMED, "prompt_id", "repetition"]
        tables = []
        for number, run in enumerate(self.runs, 1):
            pairs = run.counterfactual_pairs().select(*keys, "^other_.*$")
            tables.append(self._selected(number, beside(run.examples, pairs, *keys)))
        return pl.concat(tables, how="diagonal")

    @cached_property
    def titles(self) -> Mapping[str, str]:
        """See ReportView."""
        titles = {name: title for run in self.runs for name, title in titles_of(run).items()}
        part = self.only.get("part")
        return titles if part is None else {part: titles[part]}

    def table(self, name: str) -> DataFrame:
        """See ReportView."""
        tables = [
            self._selected(number, stage_table(run, name))
            for number, run in enumerate(self.runs, 1)
            if name in run.folder.stages()
        ]
        if name in self.beside:
            tables.append(_named_as_in(self.findings, self.beside[name]))
        return pl.concat(tables, how="diagonal_relaxed") if tables else DataFrame()

    @cached_property
    def _in_several_runs(self) -> list[str]:
        """Names of the models that occur in several runs."""
        counts = Counter(model["name"] for run in self.runs for model in run.about["models"])
        return [name for name, count in counts.items() if count > 1]

    def _selected(self, number: int, table: DataFrame) -> DataFrame:
        """Return the rows of the selected model and part, with models of several runs named after the run.

        Parameters
        ----------
        number
            Number of the run of the table, from 1.
        """
        for column, value in self.only.items():
            if value is not None and column in table.columns:
                table = table.filter(col(column) == value)
        if not self._in_several_runs or "model" not in table.columns:
            return table
        with_run = pl.format("{} (run {})", "model", lit(number))
        is_ambiguous = col.model.is_in(self._in_several_runs)
        return table.with_columns(model=when(is_ambiguous).then(with_run).otherwise("model"))


def _named_as_in(findings: DataFrame, published: DataFrame) -> DataFrame:
    """Return the rows of a table whose metrics are among the findings, with the names of these.

    Parameters
    ----------
    findings
        Findings of runs.
    published
        A table with columns NAMED and published names of metrics.
    """
    names = findings.filter(col.wording.is_null()).select("part", *NAMED, name="published").unique()
    rows = published.select(pl.exclude(NAMED), name="metric")
    return rows.join(names, on=["part", "name"], maintain_order="left").select(published.columns)


def blocks_of(
    runs: Sequence[RunTables],
    beside: Mapping[str, DataFrame] | None = None,
    *,
    only: Mapping[str, str | None] | None = None,
) -> list[Block]:
    """Return the blocks that present one or more runs, study by study.

    Parameters
    ----------
    beside
        Tables to show with those of the runs: `findings` published elsewhere, and the tables that belong to
        them.
    only
        The `model` or `part` to show.
    """
    only = only or {}
    chosen = [col(name) == value for name, value in only.items() if value is not None]
    reading_of_runs = [
        block for run in runs for block in reading_blocks(run.folder, run.findings.filter(*chosen))
    ]
    details = [block for block in reading_of_runs if isinstance(block, Details)]
    presented: list[Block] = []
    for study in dict.fromkeys(study for run in runs for study in run.findings["study"]):
        presented += _presented(RunsView(runs, study, beside or {}, only))
    compared = [block for run in runs for block in both_definitions(run, *chosen)]
    return [
        *_notes(runs, chosen, only.get("model")),
        *(block for block in reading_of_runs if block not in details),
        *presented,
        *compared,
        *details,
    ]


def _notes(runs: Sequence[RunTables], chosen: Sequence[Expr], chosen_model: str | None) -> list[Block]:
    """Return the sentences that a reader must know before the numbers."""
    sentences = [sentence for run in runs for sentence in unconstrained(run.folder, *chosen)]
    for run in runs:
        sentences += [change.sentence for change in changed_refusals(run.folder, run.about, *chosen)]
    for run in runs:
        for model, sentence in served_sentences(run.about):
            if chosen_model in (None, model):
                sentences.append(sentence)
    return [Callout(f"{sentence}.") for sentence in sentences]


def both_definitions(run: RunTables, *chosen: Expr) -> list[Block]:
    """Return the numbers of a run beside those of the run whose responses it scored again.

    Empty unless it scored them under another definition.
    """
    if TABLE not in run.folder.stages():
        return []
    sentence = run.about.get("scored", {}).get("prompts")
    return definition_blocks(stage_table(run, TABLE), titles_of(run), sentence, *chosen)


def method_tables(run: RunTables, only: Mapping[str, str | None] | None = None) -> dict[str, MethodTable]:
    """Return the tables that the methods of a run compute from its stages, by name.

    See `tiltmeter.study.MethodTable`.

    Parameters
    ----------
    only
        The `model` or `part` to include.
    """
    tables: dict[str, MethodTable] = {}
    for study in run.findings["study"].unique(maintain_order=True):
        tables_of = getattr(_suite(study), "tables_of", None)
        if callable(tables_of):
            tables |= tables_of(RunsView([run], study, only=only or {}))
    return tables


def titles_of(run: RunTables) -> dict[str, str]:
    """Return the titles of the parts of a run by name."""
    return {name: str(part.get("title") or name) for name, part in run.about["parts"].items()}


def labels_of(run: RunTables) -> dict[tuple[str, str], str]:
    """Return the metrics of a run that have names in words, by part and metric."""
    labelled = run.grades.drop_nulls("label")
    return {(part, metric): label for part, metric, label in labelled["part", "metric", "label"].iter_rows()}


def units_of(findings: DataFrame, grades: DataFrame) -> dict[tuple[str, str], str]:
    """Return the units in which findings are shown, by part and short name of the metric."""
    names = ["model", "part", *NAMED]
    graded = beside(findings, grades.select(*names, "range_low"), *names)
    shown = graded.select("part", metric_name(), shown_unit().alias("unit"))
    return {(part, name): unit for part, name, unit in shown.iter_rows()}


def report_of(runs: Sequence[RunTables], beside: Mapping[str, DataFrame] | None = None) -> Report:
    """Return one or more runs in the form that renderers accept: each run.json, and the blocks.

    The blocks are those of `blocks_of`, after a sentence for each run with a table that does not match its
    run.json.
    """
    unmatched = [sentence for run in runs if (sentence := unmatched_sentence(run.folder)) is not None]
    warnings = [Callout(f"{sentence}.") for sentence in unmatched]
    return Report([run.about for run in runs], [*warnings, *blocks_of(runs, beside)])


def _suite(study: str) -> Any:
    """Return the registered study, or None if the package that created the run is not installed here."""
    try:
        return STUDIES.load(study)
    except InputError:
        return None


def _presented(view: RunsView) -> list[Block]:
    """Return the blocks of the method, and the note on its publication."""
    suite = _suite(view.study)
    present = getattr(suite, "present", None)
    blocks = list(present(view) if callable(present) else present_findings(view))
    blocks = with_missing_responses(blocks, view.findings, view.titles)
    blocks = with_matched_sets(blocks, view.findings, view.titles)
    source = getattr(suite, "source", None)
    if source:
        blocks.append(Details("Where the method was published", [Text(source)]))
    return blocks
