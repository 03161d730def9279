"""Execution of a study in five steps, from the design to a finished run folder."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from polars import DataFrame, col

from tiltmeter.datasets import Library
from tiltmeter.engine import Tally
from tiltmeter.errors import InputError
from tiltmeter.models import Model, Sampling
from tiltmeter.runs import _attempts as attempts
from tiltmeter.runs._asking import Asker, Asking, RunJudge, RunTools
from tiltmeter.runs._clock import Clock
from tiltmeter.runs._faults import FAULTS
from tiltmeter.runs._first_responses import Requested
from tiltmeter.runs._folder import RunFolder, json_digest
from tiltmeter.runs._generating import DISPLAYS_WITHOUT_NOTES, Generated, generate
from tiltmeter.runs._missing import judge_problems, missing_responses
from tiltmeter.runs._opened_run import Run
from tiltmeter.runs._opening import folder_to_fill
from tiltmeter.runs._pipeline import Pipeline
from tiltmeter.runs._places import runs_place
from tiltmeter.runs._planning import highest_costs, limit_warnings, remarks, size_sentence
from tiltmeter.runs._problems import close_parts, count_responses, measured_title, unread
from tiltmeter.runs._refusals import count_free_refusals
from tiltmeter.runs._rehearsal import Comparisons, rehearse
from tiltmeter.runs._resolving import Resolved
from tiltmeter.runs._served import served_to
from tiltmeter.schema import DESIGN
from tiltmeter.study import Part, Settings

ASKED_COST: Final = 5.0
"""US dollars above which a person is asked before a run begins, if there is no limit."""
_OF_DATA: Final = ("name", "title", "origin", "version", "licence", "restricted", "citation", "sha256")
"""Keys of each dataset in run.json."""
_OF_TALLY: Final = (
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
"""Counts and costs of requests in run.json."""


def default_folder(document: Mapping[str, Any], names: Sequence[str]) -> str | Path:
    """Return `runs/STUDY--NAMES--DIGEST`.

    The same command always uses the same folder, so that repeating it resumes the run.

    Parameters
    ----------
    document
        The content of its study.yaml: everything that determines the results.
    names
        Names of the models, or of the files with responses.
    """
    title = f"{document['study']}--{'+'.join(names)}"
    slug = re.sub(r"[^A-Za-z0-9.+-]+", "-", title).strip("-")[:80]
    name = f"{slug}--{json_digest(document)[:8]}"
    root = runs_place()
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
        self.folder = folder
        self.resolved = resolved
        self._asker = asker
        self._judge = None if judge is None else RunJudge(*judge, asker)
        self._library = Library.default()
        self._models: list[Model] = [] if judge is None else [judge[0]]
        self.became: dict[str, dict[str, Any]] = {}
        self.problems: list[str] = []
        is_watched = asker.display == "notebook" or (
            asker.display not in DISPLAYS_WITHOUT_NOTES and sys.stderr.isatty()
        )
        self.clock = Clock(partial(print, file=sys.stderr) if is_watched else None)

    def note_models(self, models: Sequence[Model]) -> None:
        """Note the models under test: run.json names the files of the catalogue that they are read from."""
        self._models += models

    @property
    def parts(self) -> list[Part]:
        """The parts that can be run."""
        return [part for part in self.resolved.study.parts if self.became[part.name]["status"] == "run"]

    def make_design(self, resolved: Resolved, *, is_asked: bool = False) -> None:
        """Write the design of a study, and add a problem for each part that cannot be run.

        If its prompts will be asked, the analysis is first carried out on made-up responses.
        """
        comparisons = Comparisons(resolved.settings, self._library)

        def check(part: Part, design: DataFrame, settings: Settings) -> None:
            comparisons.add(part, design, settings)
            if is_asked:
                rehearse(part, design, settings)

        with self.clock.timing("design"):
            self.became = attempts.make_design(resolved, self._library, self.folder, check)
            comparisons.check(resolved.study.name)
        for name, status in self.became.items():
            if status["status"] != "run":
                self.problems.append(f"{name} not run: {status['reason']}")

    def take_design(self, source: Run) -> None:
        """Write the design of a finished run, and add a problem for each part without prompts.

        It has only the parts of this study, which may be some of those of the run.
        """
        names = [part.name for part in self.resolved.study.parts]
        design, parts = source.design.filter(col.part.is_in(names)), source.about["parts"]
        with self.clock.timing("design"), self.folder.table("design", DESIGN) as add:
            add(design)
        for part in self.resolved.study.parts:
            prompts = design.filter(part=part.name)
            status: dict[str, Any] = {"title": part.title, "harms": list(part.harms)}
            self.became[part.name] = status
            if prompts.is_empty():
                reason = parts.get(part.name, {}).get("reason", "the run has no prompts of it")
                status.update(status="not run", reason=reason)
                self.problems.append(f"{part.name} not run: {reason}")
            else:
                repetitions = int(prompts["repetitions"].sum())
                status.update(status="run", prompts=prompts.height, attempts=repetitions)

    def note_faults(self, requested: Mapping[str, Requested]) -> None:
        """Add the faults of first responses to the status of each part (FAULTS), by model.

        Each says whether the part was stopped for it.
        """
        for model, of_model in requested.items():
            for fault in of_model.stopped:
                faults = self.became[fault.part].setdefault(FAULTS, {})
                faults[model] = {**fault.as_document(), "stopped": True}
            for fault in of_model.accepted:
                faults = self.became[fault.part].setdefault(FAULTS, {})
                faults[model] = {**fault.as_document(), "stopped": False}

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
            for name, status in self.became.items()
            for model, fault in status.get(FAULTS, {}).items()
            if fault["stopped"]
        ]
        pipeline = Pipeline(self.folder, self.resolved, parts, tools, self.clock, stopped)
        pipeline.carry_out(kept)
        for part in parts:
            status = self.became[part.name]
            if part.name not in pipeline.analysed and status["status"] == "run":
                status.update(status="not run", reason=_why_not_analysed(status))
        self.problems += tools.problems
        if judge is not None:
            if judge.interrupted:
                self.problems += unread(self.folder)
            for tally in judge.tallies:
                self.problems += [
                    f"judge {judge.name}: {problem}"
                    for problem in judge_problems(tally, self._asker.cost_words)
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
        names = dict.fromkeys(getattr(model, "catalogued", None) for model in self._models)
        files_of_models = [self._library.entry(name) for name in names if name is not None]
        datasets = [*self._library.used, *files_of_models]
        document = {
            "tiltmeter": version("tiltmeter"),
            "python": platform.python_version(),
            "packages": {name: version(name) for name in ("polars", "numpy", "scipy")},
            "command": command,
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
            "title": measured_title(self.resolved.study, self.became),
            **self.resolved.as_document(),
            "data": [{name: getattr(entry, name) for name in _OF_DATA} for entry in datasets],
            "tables": self.folder.sizes(),
            "parts": self.became,
            "complete": not self.problems,
            "problems": self.problems,
            "engine": self._asker.engine.name,
            "models": [{**model, **served_to(self.folder, model["name"])} for model in models],
            "judged_by": self._judge_document(),
            "seconds": self.clock.seconds,
            **further,
        }
        self.folder.write_json(document)
        return Run(self.folder)

    @property
    def cost_words(self) -> str:
        """The cost so far and its limit; see `Asker.cost_words`."""
        return self._asker.cost_words

    def is_interrupted(self, generated: Generated) -> bool:
        """Return whether a signal ended the requests to a model or to the judge."""
        tallies = [requested.tally for requested in generated.requested.values()]
        if self._judge is not None:
            tallies += self._judge.tallies
        return any(tally.interrupted for tally in tallies)

    def _judge_document(self) -> dict[str, Any] | None:
        """Return what run.json says about the judge; None if there is none."""
        judge = self._judge
        if judge is None:
            return None
        return {
            **identity(judge.model, judge.sampling),
            "stages": [paid_for(tally) for tally in judge.tallies],
            "served": judge.served,
        }


def _why_not_analysed(status: Mapping[str, Any]) -> str:
    """Return why a part that was run has no findings."""
    for fault in status.get(FAULTS, {}).values():
        if fault["stopped"]:
            return f"stopped early: {fault['sentence']}"
    return "it could not be measured or analysed: see the problems of this run"


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
    """Run a study: design, generate, measure and analyse.

    An interrupted run can be resumed at any moment.

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
    asking.check_prices(names if judge is None else [*names, judge[0].name])
    document = _study_document(resolved, models, judge)
    folder = folder_to_fill(out or default_folder(document, names))
    with asking.open() as asker, folder.filling(document):
        run, journal = RunInProgress(folder, resolved, asker, judge), asker.journal
        run.note_models([model for model, _ in models])
        run.make_design(resolved, is_asked=True)
        if asking.display not in DISPLAYS_WITHOUT_NOTES:
            _print_notes(run)
        parts = run.parts
        attempts.refuse_unpatchable(folder, [model for model, _ in models])
        if asker.can_ask and asker.max_cost is None:
            _confirm_cost(run, models, asker, fixed_length=fixed_length)
        with run.clock.timing("generate"):
            generated = generate(models, parts, resolved, folder, asker, fixed_length=fixed_length)
        models = _with_final_sampling(models, generated)
        with run.clock.timing("collect"):
            attempts.collect(folder, models, journal)
        count_responses(folder, run.became, names)
        run.problems = [*_missing(run, names, generated), *run.problems]
        close_parts(run.became, "no response to any of its prompts")
        run.note_faults(generated.requested)
        run.analyse(parts)
        count_free_refusals(folder, run.became, models, parts, resolved.settings, journal)
        entries = [_model_entry(model, sampling, generated) for model, sampling in models]
        further: dict[str, Any] = {}
        if run.is_interrupted(generated):
            further["interrupted"] = True
        if asking.max_cost is not None:
            further["cost_limit"] = {"dollars": asking.max_cost, "spent": asker.spent}
        return run.finish(entries, command, **further)


def _study_document(
    resolved: Resolved, models: Sequence[tuple[Model, Sampling]], judge: tuple[Model, Sampling] | None
) -> dict[str, Any]:
    """Return the content of study.yaml."""
    entries = [identity(model, sampling) for model, sampling in models]
    if "answers" in resolved.settings.params:
        for (model, _), entry in zip(models, entries, strict=True):
            entry["constrains"] = getattr(model, "constrains", False)
    document = resolved.as_document() | {"models": entries}
    if judge is not None:
        document["judged_by"] = identity(*judge)
    return document


def _print_notes(run: RunInProgress) -> None:
    """Print sentences about the size of the study, and about parts whose answers cannot be constrained."""
    for remark in remarks(run.parts):
        print(remark, file=sys.stderr)
    for warning in limit_warnings(run.resolved, attempts.count_attempts(run.folder)):
        print(f"warning: {warning}", file=sys.stderr)
    if sentence := size_sentence(run.resolved, run.folder.read("design")):
        print(sentence, file=sys.stderr)
    free = [part.name for part in run.parts if not getattr(part, "allowed_answers", ())]
    if free and run.resolved.settings.params.get("answers") == "constrained":
        print(
            f"answers=constrained does not apply to {', '.join(free)}, whose answers are free text",
            file=sys.stderr,
        )


def _confirm_cost(
    run: RunInProgress, models: Sequence[tuple[Model, Sampling]], asker: Asker, *, fixed_length: bool
) -> None:
    """Ask whether to go on if the responses that are not in the journal may cost more than ASKED_COST.

    Raises
    ------
    InputError
        The answer was no.
    """
    names = [model.name for model, _ in models]
    design = run.folder.read("design")
    highest = highest_costs(run.resolved, design, names, asker.prices, fixed_length=fixed_length)
    if sum(highest.values()) <= ASKED_COST:
        return
    for model, sampling in models:
        if model.name in highest:
            highest[model.name] *= attempts.share_missing(run.folder, model, sampling, asker.journal)
    total = sum(highest.values())
    if total <= ASKED_COST:
        return
    sentence = (
        f"the responses of this run may cost up to ${total:,.2f}, with answers of the largest length"
        " (tiltmeter plan gives the range; --max-cost DOLLARS sets a limit)"
    )
    if not asker.accepts(sentence):
        raise InputError(f"nothing was requested, because {sentence}")


def _with_final_sampling(
    models: Sequence[tuple[Model, Sampling]], generated: Generated
) -> list[tuple[Model, Sampling]]:
    """Return the models with the sampling of their responses, whose limit of tokens may have been raised."""
    final = {name: of_model.sampling for name, of_model in generated.requested.items()}
    return [(model, final.get(model.name, sampling)) for model, sampling in models]


def _missing(run: RunInProgress, models: Sequence[str], generated: Generated) -> list[str]:
    """Return sentences about the missing responses of all models."""
    problems: list[str] = []
    for name in models:
        requested, error = generated.requested.get(name), generated.silent.get(name)
        problems += missing_responses(
            run.folder, run.resolved.study, run.became, name, requested, error, run.cost_words
        )
    return problems


def _model_entry(model: Model, sampling: Sampling, generated: Generated) -> dict[str, Any]:
    """Return what run.json says about a model under test."""
    entry = identity(model, sampling) | {"constrains": bool(getattr(model, "constrains", False))}
    if model.name in generated.requested:
        entry["tally"] = paid_for(generated.requested[model.name].tally)
    return entry


def identity(model: Model, sampling: Sampling) -> dict[str, Any]:
    """Return the identity of a model and its sampling, as stored in study.yaml."""
    return {
        "name": model.name,
        "fingerprint": model.fingerprint,
        "sampling": asdict(sampling) | {"stop": list(sampling.stop)},
    }


def paid_for(tally: Tally) -> dict[str, Any]:
    """Return the counts and costs of requests, as stored in run.json."""
    return {name: getattr(tally, name) for name in _OF_TALLY}


def check_models(models: Sequence[Model]) -> None:
    """Raise InputError if two models share a name, because the tables could not distinguish them."""
    fingerprints: dict[str, str] = {}
    for model in models:
        if fingerprints.get(model.name, model.fingerprint) != model.fingerprint:
            raise InputError(
                f"two models are called {model.name}; give them different names,"
                " so that the tables can distinguish them"
            )
        if model.name in fingerprints:
            raise InputError(
                f"--model {model.name} is given twice; give it once, or use --repeats for more answers"
            )
        fingerprints[model.name] = model.fingerprint
