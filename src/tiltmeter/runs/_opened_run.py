"""A run as an object: its tables, its findings, and the responses behind each number."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl
from polars import DataFrame, Int8, LazyFrame, col, lit

from tiltmeter import reports
from tiltmeter.blocks import RANGES, UNDECIDED, Block, Headline
from tiltmeter.errors import InputError
from tiltmeter.reports import Report
from tiltmeter.runs._evidence import resting_on
from tiltmeter.runs._explaining import Explanation, explained_attempt
from tiltmeter.runs._folder import TABLES, reading
from tiltmeter.runs._opening import open_folder, runs_in
from tiltmeter.runs._places import runs_place
from tiltmeter.runs._presenting import blocks_of, method_tables, report_of
from tiltmeter.runs._reading_quality import reading_quality
from tiltmeter.runs._run_tables import RunTables, stage_table
from tiltmeter.runs._selecting import one_finding
from tiltmeter.schema import NAMED, Finding, metric_name

if TYPE_CHECKING:
    import pandas

_REQUIRED: Final = ("model", "part", "metric", "estimate", "low", "high")
"""Columns of `Run.key_findings` that it always has."""
_KEY_COLUMNS: Final = (
    *_REQUIRED,
    "mark",
    "mark_best",
    "mark_worst",
    "q",
    "null_value",
    "harm",
    "items",
    "attempts",
    "answered",
    "context",
    "concept",
    "group",
    "group_2",
)
"""Columns of `Run.key_findings`."""
_SEVERITY: Final = {mark: severity for severity, mark in enumerate((UNDECIDED, *RANGES))}
"""Order of the marks in `Run.key_findings`, from mild to severe."""


class Run(RunTables):
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

    @property
    def key_findings(self) -> DataFrame:
        """The numbers that a report shows first.

        They are ordered by mark (worst first), then by distance from no bias (largest first). `metric` is the
        short name that `finding` and `evidence` accept. Columns that are empty in every row are omitted.
        """
        findings = self.findings.filter(col.key | col.concept.is_not_null(), col.wording.is_null())
        severity = col.mark.replace_strict(_SEVERITY, default=-1, return_dtype=Int8)
        distance = (col.estimate - col.null_value.fill_null(0)).abs()
        ordered = findings.sort(severity, distance, descending=True, nulls_last=True, maintain_order=True)
        table = ordered.with_columns(metric=metric_name()).select(*_KEY_COLUMNS)
        return table.select(
            column for column in table if column.name in _REQUIRED or column.null_count() < table.height
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
                f"to_pandas needs {error.name}; install pandas and pyarrow,"
                " or use the Polars table `findings`"
            ) from error

    def table(self, name: str) -> DataFrame:
        """Return a table of the run.

        Its name is "design", "responses", "measures", "findings", or that of a table of the method
        ("mentions", "concepts", ...). Associations also have the tables of the BADF paper, which are computed
        from the others: "summary" (figures of each group), "locations" (counts by location) and "top" (the
        strongest of each group).

        Raises
        ------
        InputError
            The run has no table with this name.
        """
        if name in TABLES:
            return self.folder.read(name)
        if name in self.folder.stages():
            return stage_table(self, name)
        computed = method_tables(self)
        if name in computed:
            return computed[name].rows()
        with reading(self.path):
            return self.folder.any_table(name, others=list(computed)).collect()

    @property
    def reading_quality(self) -> DataFrame:
        """How well the responses were read, according to the labels of the run; no rows if it has none.

        The columns are those of `tiltmeter.runs._reading_quality.QUALITY`.
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
        >>> run = tm.run("genderbench/direct", model="sim/fair", limit=20, display="none", out="direct")
        >>> run.headline.partition(":")[0]
        'sim/fair (simulated model)'
        """
        sentences = ["Incomplete run."] if self.problems else []
        headlines = [block for block in self.blocks() if isinstance(block, Headline)]
        sentences += [f"{headline.text}. {headline.detail}".strip() for headline in headlines]
        return " ".join(sentences)

    def report_of(self) -> Report:
        """Return the run in the form that renderers accept: the content of run.json, and the blocks."""
        return report_of([self])

    def _report(self) -> Report:
        return self.report_of()

    def report(self, path: str | Path | None = None) -> Path:
        """Write the HTML report of this run and return its local path.

        Parameters
        ----------
        path
            The file; default: `report.html` in the run folder.

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

        At most `limit` rows; if the run knows which responses moved the number most, these come first.

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
            measures = resting_on(self.folder, finding.values["evidence"], self.folder.scan("measures"))
            measures = measures.filter(model=finding.model)
            if limit is not None:
                measures = _most_influential_first(measures, stages.get("examples"), finding).head(limit)
            if finding.values["concept"] is not None and "shown" in stages:
                sentences = _sentences(stages["shown"], finding)
                measures = measures.join(sentences, on="attempt", how="left", maintain_order="left")
            texts = ("answer", "thinking", "request_id")
            attempts = self.folder.beside(measures.collect(), "responses", *texts)
        return self.folder.beside(attempts, "design", "prompt")

    def explain(
        self, prompt_id: str, *, model: str | None = None, repetition: int | None = None
    ) -> Explanation:
        """Return the way of one attempt through all stages.

        It consists of prompt, response, outcome, label, the later stages, and the findings that count the
        attempt.

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


def _most_influential_first(measures: LazyFrame, examples: LazyFrame | None, finding: Finding) -> LazyFrame:
    """Return measures with the responses first that moved a finding most (columns EXAMPLES)."""
    if examples is None:
        return measures
    is_of_finding = [col(name).eq_missing(lit(finding.values[name])) for name in NAMED]
    of_finding = examples.filter(*is_of_finding, model=finding.model, part=finding.part)
    ranked = of_finding.select("prompt_id", "repetition", rank=pl.int_range(pl.len()))
    with_rank = measures.join(ranked, on=["prompt_id", "repetition"], how="left", maintain_order="left")
    return with_rank.sort("rank", nulls_last=True, maintain_order=True).drop("rank")


def _sentences(mentions: LazyFrame, finding: Finding) -> LazyFrame:
    """Return the sentences that mention the concept of a finding, by attempt."""
    of_finding = mentions.filter(
        model=finding.model, concept=finding.values["concept"], identity=finding.values["group"]
    )
    return of_finding.group_by("attempt", maintain_order=True).agg(
        sentences=col.sentence.drop_nulls().unique(maintain_order=True)
    )


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
    runs = [
        {
            "name": name,
            "study": about["study"],
            "models": [model["name"] for model in about["models"]],
            "complete": about["complete"],
            "written": about["written"],
        }
        for name, about in runs_in(runs_place())
    ]
    return sorted(runs, key=lambda run: str(run["written"]))
