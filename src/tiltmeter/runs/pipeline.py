"""The steps from a design to findings in one run folder: requests, responses, and the stages of every part."""

from __future__ import annotations

import dataclasses
import inspect
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from graphlib import TopologicalSorter
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from polars import DataFrame, Float64, Int64, LazyFrame, String, col, lit, when

from tiltmeter.datasets import Library
from tiltmeter.engine import Keys, Request
from tiltmeter.errors import InputError, TiltmeterError
from tiltmeter.files.paths import is_file, sha256
from tiltmeter.models import Message, Model, Sampling
from tiltmeter.models.base import ALLOWED
from tiltmeter.models.function import digest_of
from tiltmeter.plugins.functions import explained
from tiltmeter.readers.outcomes import OUTCOMES, outcome_counts
from tiltmeter.runs.asking import RunTools
from tiltmeter.runs.faults import FAILED, UNREAD, most_frequent, reasons, remedy_of, words_of
from tiltmeter.runs.folder import ERRORS, LABELS_FILE, STAGES, RunFolder, json_digest, without_foreign
from tiltmeter.runs.resolving import Resolved, replaced_tables
from tiltmeter.runs.stage_store import Owner, Pieces, StageStore, conformed, read_table
from tiltmeter.runs.validation import check_findings
from tiltmeter.sanitising import storable
from tiltmeter.schema import DESIGN, FINDINGS, MEASURES, RESPONSES, conform, q_values
from tiltmeter.study import NotRun, Part, Stage

if TYPE_CHECKING:
    from tiltmeter.engine import Journal

CHUNK = 4_096
"""Maximum number of prompts in memory."""


def make_design(resolved: Resolved, library: Library, folder: RunFolder) -> dict[str, dict[str, Any]]:
    """Write the table `design`.

    Return the status of each part: its numbers of prompts and attempts, or why it is not run.
    """
    became: dict[str, dict[str, Any]] = {}
    with folder.table("design", DESIGN) as add:
        for part in resolved.study.parts:
            one = became[part.name] = {"title": part.title, "harms": list(part.harms)}
            try:
                with explained(type(part), "make its prompts", NotRun):
                    design = part.design(library, resolved.settings.of_part(part.name))
            except NotRun as reason:
                one |= {"status": "not run", "reason": str(reason)}
            else:
                add(design)
                one |= {
                    "status": "run",
                    "prompts": design.height,
                    "attempts": int(design["repetitions"].sum()),
                }
    check_replaced(resolved)
    return became


def count_attempts(folder: RunFolder) -> int:
    """Return the number of answers that the design requires from each model."""
    return int(folder.scan("design").select(col.repetitions.cast(Int64).sum()).collect().item())


def learn(model: Model, parts: Sequence[Part], folder: RunFolder) -> None:
    """Plant the plans of the parts for their prompts in a simulated model.

    Do nothing for other models, which see only prompts.
    """
    teach, dials = getattr(model, "learn", None), getattr(model, "dials", None)
    if teach is None or dials is None:
        return
    for part in parts:
        with explained(type(part), "simulate responses"):
            key = part.simulate(folder.scan("design").filter(part=part.name).collect(), dials.mapping())
            if key is not None:
                teach(key)


def requests(folder: RunFolder, model: object, without: Collection[str] = ()) -> Iterator[Request]:
    """Yield a request for every attempt of the design in order, with a few thousand prompts in memory at a time.

    If the model has the attribute `constrains`, the requests contain the allowed answers.

    Parameters
    ----------
    without
        Parts whose requests are left out.
    """
    asked = _asked(folder, model).filter(~col.part.is_in(list(without)))
    for chunk in _chunks(asked.select(*_TEXTS, "repetitions", "first_sample")):
        for *texts, repetitions, first in chunk.iter_rows():
            messages = _messages(*texts)
            for sample in range(first, first + repetitions):
                yield Request(messages, sample)


def attempts_at(folder: RunFolder, model: object, places: DataFrame) -> DataFrame:
    """Return single attempts of the design, with all columns of the design and the column `repetition`.

    Parameters
    ----------
    places
        The columns `row` (number of the prompt in the design) and `repetition`.
    """
    rows = (
        _asked(folder, model).with_row_index("row").filter(col.row.is_in(places["row"].implode())).collect()
    )
    return rows.join(places.select("row", "repetition"), on="row", how="inner", maintain_order="left").drop(
        "row"
    )


def requests_of(attempts: DataFrame) -> list[Request]:
    """Return the requests of single attempts (see `attempts_at`)."""
    rows = attempts.select(*_TEXTS, "first_sample", "repetition").iter_rows()
    return [Request(_messages(*texts), first + repetition) for *texts, first, repetition in rows]


def responses_of(attempts: DataFrame, model: str, key_of: Keys, journal: Journal) -> DataFrame:
    """Return the responses to single attempts (see `attempts_at`) in the journal: one row each, with the columns of RESPONSES."""
    keys = [key_of(request.messages, request.sample) for request in requests_of(attempts)]
    stored = journal.fetch(keys).rename({"text": "answer", "key": "request_id"})
    return conform(attempts.hstack(stored).with_columns(model=lit(model)), RESPONSES)


def collect(folder: RunFolder, models: Sequence[tuple[Model, Sampling]], journal: Journal) -> None:
    """Write the table `responses` from the journal: one row per model and attempt, in the order of the design."""
    with folder.table("responses", RESPONSES) as add:
        for model, sampling in models:
            key_of = Keys(model.fingerprint, sampling)
            for chunk in _chunks(_asked(folder, model).select(*DESIGN, *_PATCHED, ALLOWED)):
                asked = chunk.with_columns(
                    repetition=pl.int_ranges(0, "repetitions", dtype=pl.Int16)
                ).explode("repetition")
                add(responses_of(asked, model.name, key_of, journal))


def free_answers(
    folder: RunFolder, model: Model, sampling: Sampling, journal: Journal, part: str
) -> DataFrame:
    """Return the free answers of a model in the journal to the prompts of a part with allowed answers.

    Returns
    -------
    DataFrame
        The columns of RESPONSES, and the factors of the part.
    """
    key_of = Keys(model.fingerprint, sampling)
    design = _asked(folder).filter(part=part).collect()
    asked = design.with_columns(repetition=pl.int_ranges(0, "repetitions", dtype=pl.Int16)).explode(
        "repetition"
    )
    responses = responses_of(asked, model.name, key_of, journal).filter(status="ok")
    factors = design.drop(*_TEXTS)
    return without_foreign(responses.join(factors, on="prompt_id", how="inner", maintain_order="left"))


PATIENCE = 2.0
"""Seconds after which a step without progress display is named."""
STEPS = {
    "design": "making the prompts",
    "collect": "collecting the responses",
    "extraction": "extracting phrases from the responses",
    "measures": "measuring the responses",
    "concepts": "grouping phrases into concepts",
    "tests": "testing the concepts",
    "findings": "computing the findings",
}


class Clock:
    """A timer that sums seconds by step over all models.

    Parameters
    ----------
    say
        Shows a sentence; it is called if a step takes longer than PATIENCE.
    """

    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self._say = say

    @contextmanager
    def timing(self, step: str) -> Iterator[None]:
        """Add the duration of the block to a step."""
        begun = time.monotonic()
        late = threading.Timer(PATIENCE, self._say, [STEPS[step]]) if self._say and step in STEPS else None
        if late:
            late.daemon = True
            late.start()
        try:
            yield
        finally:
            if late:
                late.cancel()
            self.seconds[step] = round(self.seconds.get(step, 0.0) + time.monotonic() - begun, 3)


class Pipeline:
    """Carries out the stages of the parts of a run, from responses to findings.

    A stage is repeated only if something it depends on has changed since the last time. If a part fails for a
    model, it is excluded from the later stages, and a problem is noted.

    Parameters
    ----------
    tools
        Tools for the stages; its `problems` lists failures afterwards.
    clock
        Records the duration of each stage.
    stopped
        Models and parts that were stopped after their first responses, which are not analysed.

    Attributes
    ----------
    analysed
        Names of the parts with findings.
    """

    def __init__(
        self,
        folder: RunFolder,
        resolved: Resolved,
        parts: Sequence[Part],
        tools: RunTools,
        clock: Clock,
        stopped: Collection[Owner] = (),
    ) -> None:
        self._folder, self._resolved, self._parts, self._tools, self._clock = (
            folder,
            resolved,
            parts,
            tools,
            clock,
        )
        places = {table: folder.table_path(table) for table in ("measures", "findings")}
        self._store = StageStore(folder.path / STAGES, places, of_run=True)
        self._stopped = frozenset(stopped)
        self._left: list[Owner] = []
        self._maker: dict[str, Stage] = {}
        self._user = {
            name: Path(path) for name, path in replaced_tables(resolved.study, resolved.settings).items()
        }
        if any("labels" in stage.tables for part in parts for stage in part.stages) and is_file(
            folder.path / LABELS_FILE
        ):
            self._user["labels"] = folder.path / LABELS_FILE
        self._settings = {
            name: value for name, value in resolved.as_document().items() if name not in ("sampling", "parts")
        }
        self.analysed: set[str] = set()

    def carry_out(self, kept: Sequence[str] = ()) -> None:
        """Create the tables of all stages.

        Parameters
        ----------
        kept
            Stages whose tables are kept, although their inputs may have changed.

        Raises
        ------
        InputError, ProviderError
            Every part failed for every model with such an error, so that it applies to the whole command; or
            the folder cannot be written.
        """
        asked = self._folder.scan("design").select("prompt_id", "part")
        answered = self._folder.scan("responses").filter(col.status != "missing").join(asked, on="prompt_id")
        there = set(answered.select("model", "part").unique().collect().rows()) - self._stopped
        self._left = [
            owner
            for model in self._folder.models("responses")
            for part in self._parts
            if (owner := (model, part.name)) in there
        ]
        for name in ordered(self._parts):
            stages = {part.name: stage for part in self._parts for stage in part.stages if stage.name == name}
            first = next(iter(stages.values()))
            joined = dataclasses.replace(
                first, tables={key: table for one in stages.values() for key, table in one.tables.items()}
            )
            self._maker |= dict.fromkeys(joined.tables, joined)
            if name == "labels" and name not in self._user:
                continue
            with (
                self._clock.timing(name),
                self._store.carrying_out(
                    joined, self._rests_on(joined, stages), self._tools.judge, keep=name in kept
                ) as pieces,
            ):
                if pieces is not None:
                    self._make(stages, pieces)
            if name == "findings":
                self.analysed = {part for _, part in self._left}
        for name, columns in (("measures", MEASURES), ("findings", FINDINGS)):
            if name not in self._store.tables:  # there are no parts to analyse
                with self._folder.table(name, columns):
                    pass
        self._store.remove_others()
        if self._tools.tracebacks:
            self._folder.write_text(ERRORS, storable("\n".join(self._tools.tracebacks)))
        else:
            (self._folder.path / ERRORS).unlink(missing_ok=True)  # those of an earlier run of this folder

    def _rests_on(self, stage: Stage, stages: Mapping[str, Stage]) -> dict[str, Any]:
        inputs = [name for name in stage.inputs if name not in _OF_FOLDER]
        answers = (
            [sha256(self._folder.table_path(name)) for name in ("design", "responses")]
            if "answers" in stage.inputs
            else []
        )
        user = {name: sha256(self._user[name]) for name in stage.tables if name in self._user}
        return {
            "settings": self._settings,
            "inputs": [*answers, self._store.checksum(inputs)],
            "user": user,
            "own": {name: one.rests_on for name, one in stages.items()},
            "code": _code(self._parts),
            "left": self._left,
        }

    def _make(self, stages: Mapping[str, Stage], pieces: Pieces) -> None:
        """Create the pieces of one stage: one for everything that is left, or one for each model and part."""
        problems = self._tools.problems
        before = len(problems)
        first = next(iter(stages.values()))
        mine = [owner for owner in self._left if owner[1] in stages]
        together = [mine] if mine and first.of_study else [[owner] for owner in mine]
        errors: list[TiltmeterError] = []
        failed: list[Owner] = []
        findings: dict[Owner, dict[str, DataFrame]] = {}
        for owners in together:
            stage, owner = stages[owners[0][1]], None if first.of_study else owners[0]
            whose = ", ".join(owner or dict.fromkeys(part for _, part in owners))
            made: dict[str, DataFrame] | None = None
            with self._tools.isolated(
                whose, stage.if_failed, errors, self._folder.named(self._folder.path / ERRORS)
            ):
                ran = self._ran(
                    stage, [self._input(owner, name, asks=stage.asks) for name in stage.inputs], owner
                )
                pieces.check(ran)
                made = ran
            if made is None:
                failed += owners
            elif owner is not None and "findings" in made:
                findings[owner] = made
                problems += self._unused(owner)
            else:
                pieces.add(made, owner)
        if not first.optional:
            if errors and len(errors) == len(together):
                raise errors[0]
            self._left = [owner for owner in self._left if owner not in failed]
        _add_findings(findings, pieces)
        pieces.record.problems = problems[before:]
        judge = self._tools.judge if first.asks else None
        pieces.record.whole = len(problems) == before and (judge is None or judge.is_done)

    def _unused(self, owner: Owner) -> list[str]:
        """Return a sentence if there are answers but none could be used.

        Failed requests are reported for the model as a whole.
        """
        measures = self._input(owner, "measures")
        counts = measures.select(outcome_counts()).row(0, named=True)
        if counts["answered"] or counts["failed"] == counts["attempts"]:
            return []
        ended = ", ".join(f"{counts[one]:,} {one}" for one in OUTCOMES if counts[one])
        begins = f"{', '.join(owner)}: none of {measures.height:,} responses could be used ({ended}), so its metrics have no value"
        answers = self._input(owner, "answers")
        kinds = reasons(answers, measures["outcome"])
        kind = most_frequent(kinds) if kinds.count() else UNREAD
        if kind in (UNREAD, FAILED):
            return [
                f"{begins}; look at the responses, and change the model's settings, the prompts or the features"
            ]
        remedy = remedy_of(kind, answers.filter(kinds == kind), None, self._resolved.study.params)
        return [f"{begins}: {words_of(answers, kinds, None)}; {remedy}"]

    def _ran(self, stage: Stage, inputs: Sequence[DataFrame], owner: Owner | None) -> dict[str, DataFrame]:
        """Run one stage and return its tables with the columns and types it declares."""
        given = {name: self._of_user(stage, name, owner) for name in stage.tables if name in self._user}
        settings = self._resolved.settings
        if not given:
            made = stage.run(*inputs, settings, self._tools)
        elif stage.from_user is not None:
            made = stage.from_user(given, *inputs, settings, self._tools)
        elif set(given) == set(stage.tables):
            made = given
        else:
            missing = next(name for name in stage.tables if name not in given)
            raise InputError(
                f"--replace {next(iter(given))}=: the stage {stage.name} also creates the table {missing}; replace both"
            )
        tables = conformed(stage, made)
        if "measures" in tables:
            tables["measures"] = beside_factors(inputs[stage.inputs.index("answers")], tables["measures"])
        if "findings" in tables:
            tables["findings"] = tables["findings"].with_columns(model=lit(owner[0] if owner else None))
            if fault := check_findings(tables["findings"]):
                raise InputError(f"its findings are not valid: {fault}")
        return tables

    def _of_user(self, stage: Stage, name: str, owner: Owner | None) -> DataFrame:
        """Return the rows of a user's table for this model and part, with those that do not specify a model or part."""
        table = stage.tables[name]
        wanted = dataclasses.replace(table, columns={"model": String, "part": String, **table.columns})
        rows = read_table(self._user[name], wanted, f"--replace {name}={self._user[name]}")
        if owner is not None:
            rows = rows.filter(
                col(key).is_null() | (col(key) == value)
                for key, value in zip(("model", "part"), owner, strict=True)
            )
        return rows.select(list(table.columns))

    def _input(self, owner: Owner | None, name: str, *, asks: bool = False) -> DataFrame:
        """Return an input of a stage (see `Stage`) for one part of one model, or for all.

        `answers` with prompts if `asks`.
        """
        if owner is None:
            return self._store.read(self._maker[name], name)
        if name == "answers":
            return self._answers(owner, prompts=asks and self._tools.judge is not None)
        if name == "prompts":
            return self._folder.scan("design").filter(part=owner[1]).select("prompt_id", "prompt").collect()
        return self._store.piece(self._maker[name], name, owner)

    def _answers(self, owner: Owner, *, prompts: bool) -> DataFrame:
        """Return the responses for one part of one model with the factors of their prompts, without columns of other parts."""
        answers = self._folder.scan("responses").filter(col.status != "missing", model=owner[0])
        return with_factors(self._folder, owner[1], answers, prompts=prompts)


_OF_FOLDER = ("answers", "prompts")
"""Inputs of stages that no stage creates."""


def with_factors(folder: RunFolder, part: str, answers: LazyFrame, *, prompts: bool = False) -> DataFrame:
    """Return those of some responses that belong to a part, with the factors of their prompts, without columns of other parts.

    Parameters
    ----------
    answers
        The columns of RESPONSES.
    prompts
        Whether to add the prompts.
    """
    texts = ("system", *_PATCHED, *(() if prompts else ("prompt",)))
    design = folder.scan("design").drop(texts, strict=False).filter(part=part)
    return without_foreign(answers.join(design, on="prompt_id", how="inner", maintain_order="left").collect())


def ordered(parts: Sequence[Part]) -> list[str]:
    """Return the names of the stages of all parts in topological order: each after the stages whose tables it uses."""
    makers = {table: stage.name for part in parts for stage in part.stages for table in stage.tables}
    graph: dict[str, list[str]] = {}
    for part in parts:
        for stage in part.stages:
            graph.setdefault(stage.name, []).extend(
                makers[name] for name in stage.inputs if name not in _OF_FOLDER
            )
    return list(TopologicalSorter(graph).static_order())


def check_replaced(resolved: Resolved) -> None:
    """Read every table that the user provides, so that errors in it are found before any paid request."""
    for name, path in replaced_tables(resolved.study, resolved.settings).items():
        table = next(
            stage.tables[name]
            for part in resolved.study.parts
            for stage in part.stages
            if name in stage.tables
        )
        read_table(Path(path), table, f"--replace {name}={path}")


def _code(parts: Sequence[Part]) -> str:
    """Return a checksum of the code that creates the tables: this package and the modules that define the parts."""
    outside = {part: _source_of(type(part)) for part in parts}
    own = [_state(path) for path in sorted(set(filter(None, outside.values())))]
    own += [digest_of(type(part)) for part, path in outside.items() if path is None]
    return json_digest([_code_of_package(), own])


@cache
def _code_of_package() -> str:
    """Return a checksum of the code of this package, as it was when the process first asked, and of the versions that it computes with."""
    home = Path(__file__).parents[1]
    states = [_state(path) for path in sorted(home.rglob("*.py"))]
    return json_digest([version("tiltmeter"), version("polars"), version("numpy"), states])


def _state(path: Path) -> Any:
    """Return what tells whether a file has changed: path, size and time of modification."""
    state = path.stat()
    return [str(path), state.st_size, state.st_mtime_ns]


def _source_of(kind: type) -> Path | None:
    """Return the file that defines a class, or None for a class defined in an interactive session."""
    try:
        path = inspect.getsourcefile(kind)
    except (TypeError, OSError):
        return None
    return Path(path) if path is not None and is_file(path) else None


def beside_factors(asked: DataFrame, made: DataFrame) -> DataFrame:
    """Return the measures joined with the factors of their prompts, without the texts."""
    if made.height != asked.height:
        raise InputError(
            f"measuring returned {made.height:,} rows for {asked.height:,} responses; it must return one row for each"
        )
    shown = [
        name
        for name in asked.columns
        if name in ("model", "prompt_id", "repetition") or name not in (*RESPONSES, "prompt")
    ]
    return asked.select(shown).hstack(made)


def _add_findings(found: Mapping[Owner, Mapping[str, DataFrame]], pieces: Pieces) -> None:
    """Add the tables of the stage "findings", with q-values over all parts of a model together."""
    for model in dict.fromkeys(model for model, _ in found):
        owners = [owner for owner in found if owner[0] == model]
        whole = with_q(pl.concat(found[owner]["findings"] for owner in owners))
        for owner in owners:
            rows = found[owner]["findings"].height
            pieces.add({**found[owner], "findings": whole.head(rows)}, owner)
            whole = whole.slice(rows)


def with_q(findings: DataFrame) -> DataFrame:
    """Return the findings of one model with q-values (Benjamini-Hochberg) in two families: its key tests, and its other tests.

    A test is an overall metric with a p-value. A part with very many tests forms its own families and
    provides its own q-values.
    """
    tested = when(col.context.is_null(), col.wording.is_null(), col.q.is_null()).then("p")
    return findings.with_columns(q=pl.coalesce("q", tested.map_batches(q_values, Float64).over("key")))


def _chunks(table: LazyFrame) -> Iterator[DataFrame]:
    for start in count(0, CHUNK):
        chunk = table.slice(start, CHUNK).collect()
        if chunk.is_empty():
            return
        yield chunk


_PATCHED = ("source_prompt", "source_span", "answer_opening")
"""Columns of a design for models whose hidden states are replaced (see `tiltmeter.models.Message`)."""
_TEXTS = ("system", "prompt", *_PATCHED, ALLOWED)


def _asked(folder: RunFolder, model: object = None) -> LazyFrame:
    """Return the design with all columns that a request consists of.

    Allowed answers are null if the model does not accept them.
    """
    design = folder.scan("design")
    known = set(design.collect_schema()) - (set() if getattr(model, "constrains", False) else {ALLOWED})
    return design.with_columns(
        lit(None, String).alias(name) for name in (*_PATCHED, ALLOWED) if name not in known
    )


def _messages(
    system: str | None,
    prompt: str,
    source: str | None,
    span: str | None,
    opening: str | None,
    allowed: str | None,
) -> tuple[Message, ...]:
    given = (
        ("system", system),
        ("source", source),
        ("span", span),
        ("user", prompt),
        ("assistant", opening),
        (ALLOWED, allowed),
    )
    return tuple(Message(role, text) for role, text in given if text is not None)


def refuse_unpatchable(folder: RunFolder, models: Sequence[Model]) -> None:
    """Raise InputError if the design requires hidden states to be replaced, which only models in this process support."""
    wrong = [model.name for model in models if not getattr(model, "patches", False)]
    if wrong and _asked(folder).select(col.source_prompt.is_not_null().any()).collect().item():
        raise InputError(
            f"the open-box setting replaces hidden states, which {wrong[0]} does not support; use a local model (hf/NAME or a folder)"
        )
