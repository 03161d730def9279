"""Execution of a study in five steps, from the design to a finished run folder."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace as with_fields
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from polars import Series, String

from tiltmeter.datasets import Library
from tiltmeter.engine import Keys, Tally
from tiltmeter.errors import InputError, ProviderError, UnanswerableError
from tiltmeter.models import Model, Sampling
from tiltmeter.runs import pipeline as steps
from tiltmeter.runs.asked_models import has_room_to_think
from tiltmeter.runs.asking import Asker, Asking, RunJudge, RunTools
from tiltmeter.runs.faults import FAULTS, problems_of
from tiltmeter.runs.first_responses import Requested, request_all
from tiltmeter.runs.folder import RunFolder, json_digest
from tiltmeter.runs.long_prompts import CONTEXT, PromptsTooLong, too_long, too_long_words
from tiltmeter.runs.opened_run import Run
from tiltmeter.runs.opening import folder_to_fill
from tiltmeter.runs.places import runs_place
from tiltmeter.runs.planning import size_sentence
from tiltmeter.runs.problems import close_parts, count_responses, measured_title, unread, what_is_missing
from tiltmeter.runs.refusals import count_free_refusals
from tiltmeter.runs.resolving import Resolved
from tiltmeter.runs.served import served_to
from tiltmeter.schema import DESIGN
from tiltmeter.study import Part, Study

PATIENCE = 30.0
"""Seconds without an answer after which other models are asked before a model whose endpoint only reports
overload."""
EXAMINED = 1_000
"""Number of requests that are searched for error messages at a time."""


def default_folder(document: Mapping[str, Any], names: Sequence[str]) -> str | Path:
    """Return `runs/STUDY--NAMES--DIGEST`: the same command always uses the same folder, so that repeating it resumes the run.

    Parameters
    ----------
    document
        The content of its study.yaml: everything that determines the results.
    names
        Names of the models, or of the files with responses.
    """
    slug = re.sub(r"[^A-Za-z0-9.+-]+", "-", f"{document['study']}--{'+'.join(names)}").strip("-")[:80]
    root, name = runs_place(), f"{slug}--{json_digest(document)[:8]}"
    return f"{root}/{name}" if isinstance(root, str) else root / name


class RunInProgress:
    """A run whose folder is being written.

    Attributes
    ----------
    became
        Status of each part, by name.
    problems
        What is missing, one sentence each.
    clock
        The duration of each step.
    """

    def __init__(
        self, folder: RunFolder, resolved: Resolved, asker: Asker, judge: tuple[Model, Sampling] | None
    ) -> None:
        self.folder, self.resolved, self._asker = folder, resolved, asker
        self._judge = None if judge is None else RunJudge(*judge, asker)
        self._library = Library.default()
        self._models: list[Model] = [] if judge is None else [judge[0]]
        self.became: dict[str, dict[str, Any]] = {}
        self.problems: list[str] = []
        watched = asker.display == "notebook" or (
            asker.display not in DISPLAYS_WITHOUT_NOTES and sys.stderr.isatty()
        )
        self.clock = steps.Clock(partial(print, file=sys.stderr) if watched else None)

    def note_models(self, models: Sequence[Model]) -> None:
        """Note the models under test: run.json names the files of the catalogue that they are read from."""
        self._models += models

    @property
    def parts(self) -> list[Part]:
        """The parts that can be run."""
        return [part for part in self.resolved.study.parts if self.became[part.name]["status"] == "run"]

    def make_design(self, resolved: Resolved) -> None:
        """Write the design of a study, and add a problem for each part that cannot be run."""
        with self.clock.timing("design"):
            self.became = steps.make_design(resolved, self._library, self.folder)
        self.problems += [
            f"{name} not run: {one['reason']}" for name, one in self.became.items() if one["status"] != "run"
        ]

    def take_design(self, source: Run) -> None:
        """Write the design of a finished run, and add a problem for each part of the study that is not in it."""
        design, parts = source.design, source.about["parts"]
        with self.clock.timing("design"), self.folder.table("design", DESIGN) as add:
            add(design)
        for part in self.resolved.study.parts:
            mine = design.filter(part=part.name)
            entry = self.became[part.name] = {"title": part.title, "harms": list(part.harms)}
            if mine.is_empty():
                reason = parts.get(part.name, {}).get("reason", "the run has no prompts of it")
                entry.update(status="not run", reason=reason)
                self.problems.append(f"{part.name} not run: {reason}")
            else:
                entry.update(status="run", prompts=mine.height, attempts=int(mine["repetitions"].sum()))

    def note_faults(self, requested: Mapping[str, Requested]) -> None:
        """Add the faults of first responses to the status of each part (FAULTS), by model, and whether the part was stopped for it."""
        for name, of_model in requested.items():
            for faults, stopped in ((of_model.stopped, True), (of_model.accepted, False)):
                for fault in faults:
                    self.became[fault.part].setdefault(FAULTS, {})[name] = fault.as_document() | {
                        "stopped": stopped
                    }

    def analyse(self, parts: Sequence[Part], kept: Sequence[str] = ()) -> None:
        """Carry out the stages from responses to findings.

        Failures and missing answers of the judge become problems of the run.

        The tables of the stages `kept` are not created again. A part that could not be analysed for any model
        is marked as not run.
        """
        judge = self._judge
        tools = RunTools(self._library, judge, self._asker.engine)
        stopped = [
            (model, name)
            for name, one in self.became.items()
            for model, fault in one.get(FAULTS, {}).items()
            if fault["stopped"]
        ]
        work = steps.Pipeline(self.folder, self.resolved, parts, tools, self.clock, stopped)
        work.carry_out(kept)
        for one in parts:
            status = self.became[one.name]
            if one.name not in work.analysed and status["status"] == "run":
                reasons = [fault["sentence"] for fault in status.get(FAULTS, {}).values() if fault["stopped"]]
                why = (
                    f"stopped early: {reasons[0]}"
                    if reasons
                    else "it could not be measured or analysed: see the problems of this run"
                )
                status.update(status="not run", reason=why)
        self.problems += tools.problems
        if judge is not None:
            if judge.interrupted:
                self.problems += unread(self.folder)
            self.problems += [
                f"judge {judge.name}: {one}" for tally in judge.tallies for one in _judge_problems(tally)
            ]

    def finish(self, models: Sequence[Mapping[str, Any]], command: str | None, **further: Any) -> Run:
        """Write run.json: versions, settings, datasets with licences, tables with checksums, problems.

        Parameters
        ----------
        models
            The name and further properties of each model.
        command
            The command line, so that a reader can repeat it.
        **further
            Further keys of the document.
        """
        judge = self._judge
        names = dict.fromkeys(getattr(model, "catalogued", None) for model in self._models)
        files_of_models = [self._library.entry(name) for name in names if name is not None]
        judged = judge and identity(judge.model, judge.sampling) | {
            "stages": [paid_for(tally) for tally in judge.tallies],
            "served": judge.served,
        }
        document = {
            "tiltmeter": version("tiltmeter"),
            "python": platform.python_version(),
            "packages": {name: version(name) for name in ("polars", "numpy", "scipy")},
            "command": command,
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
            "title": measured_title(self.resolved.study, self.became),
            **self.resolved.as_document(),
            "data": [
                {name: getattr(entry, name) for name in _OF_DATA}
                for entry in [*self._library.used, *files_of_models]
            ],
            "tables": self.folder.sizes(),
            "parts": self.became,
            "complete": not self.problems,
            "problems": self.problems,
            "engine": self._asker.engine.name,
            "models": [{**model, **served_to(self.folder, model["name"])} for model in models],
            "judged_by": judged,
            "seconds": self.clock.seconds,
            **further,
        }
        self.folder.write_json(document)
        return Run(self.folder)


DISPLAYS_WITHOUT_NOTES = ("json", "none")
"""Kinds of display without sentences about the size of the study and slow steps."""
_OF_DATA = ("name", "title", "origin", "version", "licence", "restricted", "citation", "sha256")
"""Keys of each dataset in run.json."""


def run_study(
    resolved: Resolved,
    models: Sequence[tuple[Model, Sampling]],
    *,
    asking: Asking,
    judge: tuple[Model, Sampling] | None = None,
    out: str | Path | None = None,
    command: str | None = None,
    fixed_length: bool = False,
) -> Run:
    """Run a study: design, generate, measure and analyse. An interrupted run can be resumed at any moment.

    Parameters
    ----------
    models
        Models under test, each with its sampling.
    judge
        The model that judges answers, for methods that use one.
    out
        The run folder, a path or a URL; default: `default_folder`.
    command
        The command line, stored in run.json.
    fixed_length
        Whether the user chose the limit of tokens of a response, so that it is not raised for models that
        think.

    Raises
    ------
    InputError
        The input is not usable (raised before anything is written), or the folder or the journal cannot be
        written.
    ProviderError
        No model answered; nothing is written.
    """
    names = [model.name for model, _ in models]
    document = resolved.as_document() | {"models": [identity(model, sampling) for model, sampling in models]}
    for (model, _), named in zip(
        models, document["models"] if "answers" in resolved.settings.params else (), strict=False
    ):
        named["constrains"] = getattr(model, "constrains", False)
    if judge is not None:
        document |= {"judged_by": identity(*judge)}
    folder = folder_to_fill(out or default_folder(document, names))
    with asking.open() as asker, folder.filling(document):
        run, journal = RunInProgress(folder, resolved, asker, judge), asker.journal
        run.note_models([model for model, _ in models])
        run.make_design(resolved)
        if asking.display not in DISPLAYS_WITHOUT_NOTES:
            if sentence := size_sentence(resolved, folder.read("design")):
                print(sentence, file=sys.stderr)
            free = [part.name for part in run.parts if not getattr(part, "allowed_answers", ())]
            if free and resolved.settings.params.get("answers") == "constrained":
                print(
                    f"answers=constrained does not apply to {', '.join(free)}, whose answers are free text",
                    file=sys.stderr,
                )
        parts = run.parts
        steps.refuse_unpatchable(folder, [model for model, _ in models])
        with run.clock.timing("generate"):
            requested, silent = _generate_all(
                models, parts, resolved, folder, asker, fixed_length=fixed_length
            )
        models = [
            (model, requested[model.name].sampling if model.name in requested else sampling)
            for model, sampling in models
        ]
        tallies = {name: one.tally for name, one in requested.items()}
        with run.clock.timing("collect"):
            steps.collect(folder, models, journal)
        count_responses(folder, run.became, names)
        missing = [
            _missing(folder, resolved.study, run.became, name, requested.get(name), silent.get(name))
            for name in names
        ]
        run.problems = [*(one for of_model in missing for one in of_model), *run.problems]
        close_parts(run.became, "no response to any of its prompts")
        run.note_faults(requested)
        run.analyse(parts)
        count_free_refusals(folder, run.became, models, parts, resolved.settings, journal)
        paid = [
            identity(model, sampling)
            | {"constrains": bool(getattr(model, "constrains", False))}
            | ({"tally": paid_for(tallies[model.name])} if model.name in tallies else {})
            for model, sampling in models
        ]
        return run.finish(paid, command)


def _generate_all(
    models: Sequence[tuple[Model, Sampling]],
    parts: Sequence[Part],
    resolved: Resolved,
    folder: RunFolder,
    asker: Asker,
    *,
    fixed_length: bool,
) -> tuple[dict[str, Requested], dict[str, ProviderError]]:
    """Send the requests to each model in turn.

    Return what became of them, and the errors of models without any answer, by model name.

    A model whose endpoint only reports overload does not hold up the others: it is continued after them.

    Raises
    ------
    ProviderError
        No model answered.
    """
    requested: dict[str, Requested] = {}
    silent: dict[str, ProviderError] = {}
    note = _no_note if asker.display in DISPLAYS_WITHOUT_NOTES else partial(print, file=sys.stderr)
    waiting = [(model, sampling, PATIENCE if len(models) > 1 else None) for model, sampling in models]
    while waiting:
        model, sampling, patience = waiting.pop(0)
        steps.learn(model, parts, folder)
        is_of_method = has_room_to_think(resolved) and sampling.max_tokens == resolved.sampling.max_tokens
        may_raise = is_of_method and not fixed_length
        try:
            of_model = request_all(
                folder,
                resolved,
                parts,
                asker,
                model,
                sampling,
                may_raise=may_raise,
                note=note,
                patience=patience,
            )
            if model.name in requested:
                of_model = with_fields(of_model, tally=of_model.tally.after(requested[model.name].tally))
            tally = of_model.tally
            if tally.postponed:
                waiting.append((model, sampling, None))
            elif tally.failures and not (tally.answered or tally.held or tally.interrupted):
                raise _no_answer(model, of_model.sampling, folder, asker, tally)
        except ProviderError as error:
            silent[model.name] = error
            requested.pop(model.name, None)  # the counts of a postponed call, without any answer
            continue
        requested[model.name] = of_model
        if tally.interrupted:
            break
    if len(silent) == 1 and not requested:
        raise next(iter(silent.values()))
    if silent and not requested:
        raise ProviderError(
            "no model answered: " + "; ".join(f"{name}: {error}" for name, error in silent.items())
        )
    return requested, silent


def _no_note(sentence: str) -> None:
    """Show nothing."""


def _no_answer(
    model: Model, sampling: Sampling, folder: RunFolder, asker: Asker, tally: Tally
) -> ProviderError:
    """Return why a model did not answer at all, in the wording that `engine` uses for longer runs."""
    errors = _first_errors(model, sampling, folder, asker)
    kind, _, detail = (errors[-1] if errors.len() else next(iter(tally.failed))).partition(": ")
    if set(tally.failed) == {CONTEXT}:
        return PromptsTooLong(
            f"{model.endpoint} answered none of {tally.failures:,} requests: {too_long_words(errors, 'all prompts')}"
        )
    if kind == "connection":
        return ProviderError(
            f"no server answers at {model.endpoint}: start it, or check the address ({detail})"
        )
    reason = UnanswerableError if tally.only_permanent else ProviderError
    return reason(
        f"{model.endpoint} answered none of {tally.failures:,} requests, the last with {kind}: {detail}"
    )


def _first_errors(model: Model, sampling: Sampling, folder: RunFolder, asker: Asker) -> Series:
    """Return the error messages of the first EXAMINED requests that include any.

    The first requests are spread over the design.
    """
    key_of = Keys(model.fingerprint, sampling)
    requests = steps.requests(folder, model)
    while keys := [key_of(one.messages, one.sample) for one in islice(requests, EXAMINED)]:
        errors = asker.journal.fetch(keys)["error"].drop_nulls()
        if errors.len():
            return errors
    return Series(dtype=String)


def _missing(
    folder: RunFolder,
    study: Study,
    became: Mapping[str, dict[str, Any]],
    name: str,
    requested: Requested | None,
    error: ProviderError | None,
) -> list[str]:
    """Return sentences about the missing responses of one model."""
    again = "run the same command again to "
    if error is not None:
        advice = f"; {again}retry"
        if isinstance(error, PromptsTooLong):
            advice = ""
        elif isinstance(error, UnanswerableError):
            advice = f"; correct this, then {again}retry"
        return [f"{name}: nothing measured: {error}{advice}"]
    if requested is None:
        return [
            f"{what_is_missing(study, became, name, 'not started, because the run was interrupted')}; {again}resume"
        ]
    tally, stopped_parts = requested.tally_of_others, [fault.part for fault in requested.stopped]
    by_fault = problems_of(name, requested.stopped)
    failed = _failed(tally, "{wanted}")
    unanswerable = too_long(folder, study, name, without=stopped_parts)
    if tally.interrupted or tally.stopped:
        stopped = "interrupted" if tally.interrupted else "stopped early"
        because = f": {tally.stopped}".replace("{", "{{").replace("}", "}}") if tally.stopped else ""
        happened = f"{stopped} after {{found}} of {{wanted}} {{unit}}{because}" + (
            f"; {failed}" if failed else ""
        )
        first = "correct this, then " if tally.stopped and tally.only_permanent else ""
        return [
            f"{what_is_missing(study, became, name, happened)}; {first}{again}resume",
            *by_fault,
            *unanswerable,
        ]
    if not failed:
        return by_fault
    return [what_is_missing(study, became, name, failed) + _advice(tally), *by_fault, *unanswerable]


def identity(model: Model, sampling: Sampling) -> dict[str, Any]:
    """Return the identity of a model and its sampling, as stored in study.yaml."""
    return {
        "name": model.name,
        "fingerprint": model.fingerprint,
        "sampling": asdict(sampling) | {"stop": list(sampling.stop)},
    }


def paid_for(tally: Tally) -> dict[str, Any]:
    """Return the counts and costs of requests, as stored in run.json."""
    counts = (
        "total",
        "held",
        "repeated",
        "answered",
        "failed",
        "errors",
        "input_tokens",
        "output_tokens",
        "unmetered",
        "cost",
    )
    return {name: getattr(tally, name) for name in counts}


def _advice(tally: Tally) -> str:
    """Return what to do about failed answers, as the end of a sentence: only failures that may pass are to be repeated."""
    others = (
        tally.permanent.total() - tally.permanent[CONTEXT]
    )  # prompts that are too long have a sentence of their own
    advice = ""
    if others and tally.permanent_example:
        advice = (
            f"; {others:,} of them will fail again unless the cause is corrected ({tally.permanent_example})"
        )
    if tally.only_permanent:
        return advice
    return f"{advice}; run the same command again to retry {'the others' if tally.permanent else 'them'}"


def _failed(tally: Tally, of: str) -> str:
    """Return a phrase with the number of failed answers by kind; empty if none failed."""
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(tally.failed.items()))
    return f"{tally.failures:,} of {of} answers failed ({kinds})" if kinds else ""


def _judge_problems(tally: Tally) -> Iterator[str]:
    if tally.interrupted:
        yield "interrupted; run the same command again to resume"
    if tally.stopped:
        yield f"stopped early: {tally.stopped}"
    if failed := _failed(tally, f"{tally.total:,}"):
        yield f"{failed}{_advice(tally)}"


def check_models(models: Sequence[Model]) -> None:
    """Raise InputError if two models share a name, because the tables could not distinguish them."""
    seen: dict[str, str] = {}
    for model in models:
        if seen.get(model.name, model.fingerprint) != model.fingerprint:
            raise InputError(
                f"two models are called {model.name}; give them different names, so that the tables can distinguish them"
            )
        if model.name in seen:
            raise InputError(
                f"--model {model.name} is given twice; give it once, or use --repeats for more answers"
            )
        seen[model.name] = model.fingerprint
