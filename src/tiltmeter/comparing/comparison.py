"""Comparison of two models or two runs, finding by finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from polars import DataFrame, col

from tiltmeter.blocks import Block, Callout, Chart, Column, IntervalRow, Intervals, Table, Text
from tiltmeter.comparing.difference_blocks import interval_of, metric_of, some_columns, subject_of_verdicts
from tiltmeter.comparing.differences import VERDICTS, judged_differences
from tiltmeter.errors import InputError
from tiltmeter.reports import Result
from tiltmeter.runs import Run
from tiltmeter.runs.sides import Side, SideView, choose, document_of, opened
from tiltmeter.sanitising import shortened
from tiltmeter.schema import SHOWN_BELOW, WITH_CONSTRAINED, metric_name
from tiltmeter.study import Part, Settings

SHOWN = 20
"""Maximum number of single concepts shown; JSON output and --all show all of them."""
OF_CHANGE = "q: of the difference. q of change: of the change of the distance from no bias, on which the verdict rests."


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

    Examples
    --------
    >>> import tiltmeter as tm
    >>> run = tm.run("genderbench/direct", model=["sim/fair", "sim/mild"], limit=20, display="none", out="two")
    >>> tm.compare(run).first["model"]
    'sim/fair'
    """

    first: Mapping[str, str]
    second: Mapping[str, str]
    differences: DataFrame
    notes: tuple[str, ...] = ()
    population: bool = False

    @property
    def verdicts(self) -> dict[str, int]:
        """Number of key metrics with each verdict."""
        counts = dict(self.differences.drop_nulls("verdict").group_by("verdict").len().iter_rows())
        return {verdict: counts.get(verdict, 0) for verdict in VERDICTS}

    @property
    def _counts(self) -> str:
        return ", ".join(f"{count} {verdict}" for verdict, count in self.verdicts.items())

    def chosen(self, *, every: bool = False) -> DataFrame:
        """Return the differences of key metrics and of concepts that differ significantly, or all differences if `every` is True."""
        significant = col.concept.is_not_null() & (col.q < SHOWN_BELOW).fill_null(value=False)
        return self.differences if every else self.differences.filter(col.key | significant)

    def frame(self) -> DataFrame:
        """Return the differences of key metrics and of concepts that differ significantly."""
        return self.chosen()

    def blocks(self, *, every: bool = False) -> list[Block]:
        """Return blocks for the two sides, the key metrics with their verdicts, and the concepts that differ significantly."""
        blocks: list[Block] = [
            Text(f"{place}: {side['model']} in {side['run']}")
            for place, side in (("first", self.first), ("second", self.second))
        ]
        blocks += [Callout(note) for note in self.notes]
        chosen = self.chosen(every=every)
        numbers = chosen.filter(col.concept.is_null())
        if numbers.height:
            verdicts = (
                numbers.select(pl.concat_str("verdict", "note", separator=": ", ignore_nulls=True))
                .to_series()
                .to_list()
            )
            tested = numbers["change_q"].count() > 0
            about = [*some_columns(numbers, "part"), metric_of(numbers)]
            values = [
                *some_columns(numbers, "first", "second", "difference"),
                interval_of(numbers),
                *some_columns(numbers, "q"),
            ]
            of_change = [Column.of(numbers, "change_q", "q of change", "probability")] if tested else []
            columns = [*about, *values, *of_change, Column("verdict", verdicts)]
            blocks.append(Table("Metrics", columns, lead=2, note=OF_CHANGE if tested else ""))
        concepts = chosen.filter(col.concept.is_not_null()).sort(
            "q", "p", maintain_order=True, nulls_last=True
        )
        if concepts.height:
            rows = concepts if every else concepts.head(SHOWN)
            title = f"Single concepts{'' if rows.height == concepts.height else f', {SHOWN} of {concepts.height:,}'}"
            columns = [
                *some_columns(rows, "part"),
                Column("metric", rows.select(metric_name()).to_series().to_list(), "name"),
                *some_columns(rows, "group", "concept", "difference"),
                interval_of(rows),
                *some_columns(rows, "q"),
            ]
            blocks.append(Table(title, columns, lead=4))
        if judged := sum(self.verdicts.values()):
            blocks.append(Text(f"Of {judged} key metric{'s' * (judged > 1)}: {self._counts}."))
            if sentences := subject_of_verdicts(self.differences):
                blocks.append(Text(" ".join(sentences)))
        return blocks

    def charts(self) -> list[Chart]:
        """Return a chart of the differences of key metrics with their intervals."""
        rows = self.chosen().filter(col.concept.is_null()).with_columns(name=metric_name())
        about = pl.concat_str(
            "part", "name", "group", "context", "wording", separator=", ", ignore_nulls=True
        )
        drawn = rows.select(about, "difference", "low", "high").rows()
        return (
            [
                Intervals(
                    "Second minus first",
                    [
                        IntervalRow("difference", name, value, low, high, null_value=0.0)
                        for name, value, low, high in drawn
                    ],
                    names=("number", "metric"),
                )
            ]
            if drawn
            else []
        )

    def __repr__(self) -> str:
        """Return both sides and the number of key metrics with each verdict."""
        return f"Comparison({_label(self.first)} -> {_label(self.second)}: {self._counts})"


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
    are excluded from the paired comparison, and the notes say so. See `judged_differences` for the q-values,
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
    >>> run = tm.run("genderbench/direct", model=["sim/fair", "sim/mild"], limit=20, display="none", out="two")
    >>> sum(tm.compare(run, model_a="sim/fair", model_b="sim/mild").verdicts.values()) > 0
    True
    """
    first, second = choose(a, b, model_a, model_b)
    shared = [part for part in first.parts if part in second.parts]
    if not shared:
        raise InputError(
            f"{first.run.place} ({', '.join(first.parts)}) and {second.run.place} ({', '.join(second.parts)}) have no part in common; "
            "compare two runs of the same study"
        )
    notes = _differences_of_settings(first, second)
    for side, other in ((first, second), (second, first)):
        if own := [part for part in side.parts if part not in other.parts]:
            notes.append(f"only {_label(side.named)} has the parts {', '.join(own)}")
    findings = [side.findings.filter(col.part.is_in(shared)) for side in (first, second)]
    contrasts, further_notes = _contrasts(first, second, shared, population=population, run_code=run_code)
    differences = judged_differences(findings[0], findings[1], contrasts, first.run.grades)
    return Comparison(first.named, second.named, differences, tuple(notes + further_notes), population)


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
    definitions = [
        ", ".join(side.findings["definition"].str.strip_suffix(WITH_CONSTRAINED).unique().sort())
        for side in (first, second)
    ]
    if definitions[0] != definitions[1]:
        raise InputError(
            f"{first.run.place} uses the definition {definitions[0]!r} and {second.run.place} uses {definitions[1]!r}, so their metrics "
            "are not comparable; repeat one run with the --definition of the other (cached responses are reused)"
        )
    words = {
        "level": "confidence levels",
        "system_message": "system messages",
        "sampling": "sampling",
        "judge": "judges",
        "params": "parameters",
    }
    documents = [document_of(side.run) for side in (first, second)]
    return [
        f"{name} differ: {_setting_text(documents[0].get(key))} and {_setting_text(documents[1].get(key))}"
        for key, name in words.items()
        if documents[0].get(key) != documents[1].get(key)
    ]


def _setting_text(value: object) -> str:
    if isinstance(value, Mapping):
        value = ", ".join(f"{key}={one}" for key, one in value.items() if one not in (None, [], {}))
    return shortened("none" if value in (None, "") else str(value), 80)


def _contrasts(
    first: Side, second: Side, shared: list[str], *, population: bool, run_code: bool
) -> tuple[dict[str, DataFrame], list[str]]:
    """Return the contrasts (columns CONTRASTS) of each part that supports them, and notes about the other parts."""
    try:
        parts, settings = opened(first.run, run_code=run_code)
    except InputError as error:
        return {}, [f"prompts could not be paired, because the study cannot be recreated: {error}"]
    found: dict[str, DataFrame] = {}
    notes: list[str] = []
    common = first.prompts.filter(col.prompt.str.strip_chars() != "").join(
        second.prompts, on=["part", "prompt_id", "prompt"], how="semi"
    )
    for name in shared:
        if name not in parts:
            notes.append(
                f"{name}: prompts could not be paired, because the study of {first.run.path.name} no longer has this part"
            )
            continue
        keys = common.filter(part=name)
        sizes = [side.prompts.filter(part=name).height for side in (first, second)]
        if keys.height < max(sizes):
            notes.append(
                f"{name}: {keys.height:,} prompts are identical on both sides (of {sizes[0]:,} and {sizes[1]:,}); "
                f"{_basis_of_differences(keys, parts[name])}"
            )
        if (
            contrast := _contrast(parts[name], first, second, keys, settings, population=population)
        ) is not None:
            found[name] = contrast
    return found, notes


def _basis_of_differences(keys: DataFrame, part: Part) -> str:
    if keys.height:
        return "differences are based on these"
    return (
        "all answers are compared without pairing"
        if part.contrasts_unpaired
        else "the findings are compared without pairing"
    )


def _contrast(
    part: Part, first: Side, second: Side, keys: DataFrame, settings: Settings, *, population: bool
) -> DataFrame | None:
    if keys.is_empty() and not part.contrasts_unpaired:
        return None
    views = []
    for side in (first, second):
        rows = side.measures(part.name)
        kept = rows.join(keys, on="prompt_id", how="semi", maintain_order="left") if keys.height else rows
        views.append(SideView(side, part.name, kept))
    contrast = part.population_contrast if population else part.contrast
    return contrast(views[0], views[1], settings)
