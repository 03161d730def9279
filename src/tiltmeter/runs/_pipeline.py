"""The stages of every part of a run, from responses to findings."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from polars import DataFrame, String, col

from tiltmeter._files.paths import is_file, sha256
from tiltmeter._sanitising import storable
from tiltmeter.errors import InputError, TiltmeterError
from tiltmeter.runs._asking import RunTools
from tiltmeter.runs._attempts import with_factors
from tiltmeter.runs._checksums import code_checksum
from tiltmeter.runs._clock import Clock
from tiltmeter.runs._faults import unused_sentence
from tiltmeter.runs._folder import ERRORS, LABELS_FILE, STAGES, RunFolder
from tiltmeter.runs._outcomes_by_group import with_outcomes_by_group
from tiltmeter.runs._resolving import Resolved, replaced_tables
from tiltmeter.runs._shared_tables import (
    ANALYSED,
    LABELLED,
    MEASURED,
    SHARED,
    Owner,
    complete_tables,
    with_q_over_parts,
)
from tiltmeter.runs._stage_store import Pieces, StageStore, conformed, read_table
from tiltmeter.study import Part, Stage

_OF_FOLDER = ("answers", "prompts")
"""Inputs of stages that no stage creates."""


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
        self._folder = folder
        self._resolved = resolved
        self._parts = parts
        self._tools = tools
        self._clock = clock
        self._stopped = frozenset(stopped)
        places = {table: folder.table_path(table) for table in SHARED}
        self._store = StageStore(folder.path / STAGES, places, of_run=True)
        self._user_files = _user_files(resolved, parts, folder)
        self._owners: list[Owner] = []
        """Models and parts that have not failed so far."""
        self._stage_of: dict[str, Stage] = {}
        """The stage that creates each table, with the tables of all parts."""
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
        self._owners = self._with_responses()
        for name in ordered(self._parts):
            stages = {part.name: stage for part in self._parts for stage in part.stages if stage.name == name}
            joined = _joined(stages)
            self._stage_of |= dict.fromkeys(joined.tables, joined)
            if name == LABELLED and name not in self._user_files:
                continue
            inputs = self._rests_on(joined, stages)
            stored = self._store.carrying_out(joined, inputs, self._tools.judge, keep=name in kept)
            with self._clock.timing(name), stored as pieces:
                if pieces is not None:
                    self._create(stages, pieces)
            if name == ANALYSED:
                self.analysed = {part for _, part in self._owners}
        self._finish_folder()

    def _with_responses(self) -> list[Owner]:
        """Return the models and parts with responses that were not stopped, in order."""
        design = self._folder.scan("design").select("prompt_id", "part")
        responses = self._folder.scan("responses").filter(col.status != "missing")
        pairs = responses.join(design, on="prompt_id").select("model", "part").unique().collect()
        answered = set(pairs.rows()) - self._stopped
        owners = [(model, part.name) for model in self._folder.models("responses") for part in self._parts]
        return [owner for owner in owners if owner in answered]

    def _finish_folder(self) -> None:
        """Create shared tables that no part has created, and remove what another state of the run left."""
        for name, columns in SHARED.items():
            if name not in self._store.tables:  # there are no parts to analyse
                with self._folder.table(name, columns):
                    pass
        self._store.remove_others()
        if self._tools.tracebacks:
            self._folder.write_text(ERRORS, storable("\n".join(self._tools.tracebacks)))
        else:
            (self._folder.path / ERRORS).unlink(missing_ok=True)  # those of an earlier run of this folder

    def _rests_on(self, stage: Stage, stages: Mapping[str, Stage]) -> dict[str, Any]:
        """Return everything that the tables of a stage depend on, as JSON values."""
        document = self._resolved.as_document()
        settings = {name: value for name, value in document.items() if name not in ("sampling", "parts")}
        inputs = []
        if "answers" in stage.inputs:
            inputs += [sha256(self._folder.table_path(name)) for name in ("design", "responses")]
        inputs.append(self._store.checksum([name for name in stage.inputs if name not in _OF_FOLDER]))
        user = {name: sha256(self._user_files[name]) for name in stage.tables if name in self._user_files}
        return {
            "settings": settings,
            "inputs": inputs,
            "user": user,
            "own": {part: of_part.rests_on for part, of_part in stages.items()},
            "code": code_checksum(self._parts),
            "left": self._owners,
        }

    def _create(self, stages: Mapping[str, Stage], pieces: Pieces) -> None:
        """Create the pieces of one stage: one for all models and parts, or one for each.

        Parameters
        ----------
        stages
            The stage of each part, by the name of the part.
        """
        problems = self._tools.problems
        problems_before = len(problems)
        first = next(iter(stages.values()))
        owners = [owner for owner in self._owners if owner[1] in stages]
        groups = [[owner] for owner in owners]
        if first.of_study and owners:
            groups = [owners]
        errors: list[TiltmeterError] = []
        failed: list[Owner] = []
        findings: dict[Owner, dict[str, DataFrame]] = {}
        for group in groups:
            owner = None if first.of_study else group[0]
            tables = self._tables(stages[group[0][1]], group, owner, pieces, errors)
            if tables is None:
                failed += group
            elif owner is not None and ANALYSED in tables:
                findings[owner] = tables
                problems += self._unused(owner)
            else:
                pieces.add(tables, owner)
        if not first.optional:
            if errors and len(errors) == len(groups):
                raise errors[0]
            self._owners = [owner for owner in self._owners if owner not in failed]
        for owner, tables in with_q_over_parts(findings).items():
            pieces.add(tables, owner)
        pieces.record.problems = problems[problems_before:]
        judge = self._tools.judge if first.asks else None
        pieces.record.whole = len(problems) == problems_before and (judge is None or judge.is_done)

    def _tables(
        self,
        stage: Stage,
        group: Sequence[Owner],
        owner: Owner | None,
        pieces: Pieces,
        errors: list[TiltmeterError],
    ) -> dict[str, DataFrame] | None:
        """Run a stage for one part of one model, or for all; return its tables, or None if it fails.

        Parameters
        ----------
        group
            The models and parts that the stage runs for.
        owner
            The only model and part, or None if the stage runs for all together.
        errors
            List to which expected errors are appended.
        """
        if owner is None:
            label = ", ".join(dict.fromkeys(part for _, part in group))
        else:
            label = ", ".join(owner)
        place = self._folder.named(self._folder.path / ERRORS)
        with self._tools.isolated(label, stage.if_failed, errors, place):
            inputs = [self._input(owner, name, asks=stage.asks) for name in stage.inputs]
            created = self._run(stage, inputs, owner)
            if ANALYSED in created and owner is not None and self._compares_outcomes:
                created[ANALYSED] = self._with_outcomes_by_group(created[ANALYSED], owner)
            pieces.check(created)
            return created
        return None

    @property
    def _compares_outcomes(self) -> bool:
        """Whether missing responses, and outcomes that the user asks for, are compared between groups.

        Not under a published definition, whose numbers it would change, nor in findings of the user.
        """
        return self._resolved.settings.definition.is_default and ANALYSED not in self._user_files

    def _with_outcomes_by_group(self, findings: DataFrame, owner: Owner) -> DataFrame:
        """Add the comparisons of outcomes between groups to the findings of a model and part."""
        model, name = owner
        part = next(part for part in self._parts if part.name == name)
        settings = self._resolved.settings.of_part(name)
        read = partial(self._input, owner)
        return with_outcomes_by_group(findings, part, read, model, settings, self._tools)

    def _unused(self, owner: Owner) -> list[str]:
        """Return a sentence if there are answers but none could be used.

        Failed requests are reported for the model as a whole.
        """
        sentence = unused_sentence(
            self._input(owner, MEASURED), self._input(owner, "answers"), self._resolved.study.params
        )
        return [] if sentence is None else [f"{', '.join(owner)}: {sentence}"]

    def _run(self, stage: Stage, inputs: Sequence[DataFrame], owner: Owner | None) -> dict[str, DataFrame]:
        """Run one stage and return its tables with the columns and types it declares."""
        replaced = {
            name: self._rows_of_user(stage, name, owner) for name in stage.tables if name in self._user_files
        }
        settings = self._resolved.settings
        created: DataFrame | Mapping[str, DataFrame]
        if not replaced:
            created = stage.run(*inputs, settings, self._tools)
        elif stage.from_user is not None:
            created = stage.from_user(replaced, *inputs, settings, self._tools)
        elif set(replaced) == set(stage.tables):
            created = replaced
        else:
            missing = next(name for name in stage.tables if name not in replaced)
            raise InputError(
                f"--replace {next(iter(replaced))}=: the stage {stage.name} also creates the table {missing};"
                " replace both"
            )
        answers = inputs[stage.inputs.index("answers")] if "answers" in stage.inputs else None
        model = None if owner is None else owner[0]
        return complete_tables(conformed(stage, created), answers, model)

    def _rows_of_user(self, stage: Stage, name: str, owner: Owner | None) -> DataFrame:
        """Return the rows of a user's table for this model and part.

        Rows without a model or part are for all.
        """
        table = stage.tables[name]
        path = self._user_files[name]
        with_owner = dataclasses.replace(table, columns={"model": String, "part": String, **table.columns})
        rows = read_table(path, with_owner, f"--replace {name}={path}")
        if owner is not None:
            model, part = owner
            is_model = col.model.is_null() | (col.model == model)
            is_part = col.part.is_null() | (col.part == part)
            rows = rows.filter(is_model, is_part)
        return rows.select(list(table.columns))

    def _input(self, owner: Owner | None, name: str, *, asks: bool = False) -> DataFrame:
        """Return an input of a stage (see `Stage`) for one part of one model, or for all.

        `answers` with prompts if `asks`.
        """
        if owner is None:
            return self._store.read(self._stage_of[name], name)
        model, part = owner
        if name == "answers":
            answers = self._folder.scan("responses").filter(col.status != "missing", model=model)
            return with_factors(self._folder, part, answers, prompts=asks and self._tools.judge is not None)
        if name == "prompts":
            return self._folder.scan("design").filter(part=part).select("prompt_id", "prompt").collect()
        return self._store.piece(self._stage_of[name], name, owner)


def _user_files(resolved: Resolved, parts: Sequence[Part], folder: RunFolder) -> dict[str, Path]:
    """Return the files that replace tables of stages, by table, with the labels in the run folder."""
    replaced = replaced_tables(resolved.study, resolved.settings)
    files = {name: Path(path) for name, path in replaced.items()}
    can_have_labels = any(LABELLED in stage.tables for part in parts for stage in part.stages)
    if can_have_labels and is_file(folder.path / LABELS_FILE):
        files[LABELLED] = folder.path / LABELS_FILE
    return files


def _joined(stages: Mapping[str, Stage]) -> Stage:
    """Return the stages of one name in several parts as one stage with the tables of all."""
    first = next(iter(stages.values()))
    tables = {name: table for stage in stages.values() for name, table in stage.tables.items()}
    return dataclasses.replace(first, tables=tables)


def ordered(parts: Sequence[Part]) -> list[str]:
    """Return the names of the stages of all parts, each after the stages whose tables it uses."""
    stages = [stage for part in parts for stage in part.stages]
    creators = {table: stage.name for stage in stages for table in stage.tables}
    graph: dict[str, list[str]] = {}
    for stage in stages:
        predecessors = [creators[name] for name in stage.inputs if name not in _OF_FOLDER]
        graph.setdefault(stage.name, []).extend(predecessors)
    return list(TopologicalSorter(graph).static_order())
