"""Carry a study through its five steps into a run folder."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from tiltmeter.datasets import Library
from tiltmeter.engine import Keys, Tally
from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models import Model, Sampling
from tiltmeter.runs import pipeline as steps
from tiltmeter.runs.asking import Asker, Asking, RunJudge, RunTools
from tiltmeter.runs.folder import RunFolder
from tiltmeter.runs.opened_run import Run
from tiltmeter.runs.opening import folder_to_fill
from tiltmeter.runs.places import runs_place
from tiltmeter.runs.problems import close_parts, count_responses, measured_title, unread, what_is_missing
from tiltmeter.runs.resolving import Resolved
from tiltmeter.study import Part, Study

EXAMINED = 1_000
"""Requests among which an error is looked for."""


def default_folder(document: Mapping[str, Any], names: Sequence[str]) -> str | Path:
    """`runs/STUDY--NAMES--DIGEST`: the same command always names the same folder, so that running it again goes on.

    Parameters
    ----------
    document
        The content of its study.yaml: everything that decides which numbers come out.
    names
        Of the models, or of the files with responses.
    """
    content = json.dumps(document, sort_keys=True, default=str)
    slug = re.sub(r"[^A-Za-z0-9.+-]+", "-", f"{document['study']}--{'+'.join(names)}").strip("-")[:80]
    root, name = runs_place(), f"{slug}--{hashlib.sha256(content.encode()).hexdigest()[:8]}"
    return f"{root}/{name}" if isinstance(root, str) else root / name


class RunInProgress:
    """A run while its folder is filled.

    Attributes
    ----------
    became
        What became of each part, by name.
    problems
        What is missing, in sentences.
    clock
        The time each step took.
    """

    def __init__(self, folder: RunFolder, resolved: Resolved, asker: Asker, judge: tuple[Model, Sampling] | None) -> None:
        self.folder, self.resolved, self._asker = folder, resolved, asker
        self._judge = None if judge is None else RunJudge(*judge, asker)
        self._library = Library.default()
        self.became: dict[str, dict[str, Any]] = {}
        self.problems: list[str] = []
        self.clock = steps.Clock()

    @property
    def parts(self) -> list[Part]:
        """The parts that can be run."""
        return [part for part in self.resolved.study.parts if self.became[part.name]["status"] == "run"]

    def make_design(self, resolved: Resolved) -> None:
        """Write the design of a study; a problem for each part that cannot be run."""
        with self.clock.timing("design"):
            self.became = steps.make_design(resolved, self._library, self.folder)
        self.problems += [f"{name} not run: {one['reason']}" for name, one in self.became.items() if one["status"] != "run"]

    def analyse(self, parts: Sequence[Part]) -> None:
        """From responses to findings; what failed, and what a judge did not answer, is a problem of the run.

        A part that could be analysed of no model is marked as not run.
        """
        judge = self._judge
        tools = RunTools(self._library, judge, self._asker.engine)
        work = steps.Pipeline(self.folder, self.resolved, parts, tools, self.clock)
        work.carry_out()
        for one in parts:
            if one.name not in work.analysed and self.became[one.name]["status"] == "run":
                self.became[one.name].update(status="not run", reason="it could not be measured or analysed: see the problems of this run")
        self.problems += tools.problems
        if judge is not None:
            if judge.interrupted:
                self.problems += unread(self.folder)
            self.problems += [f"judge {judge.name}: {one}" for tally in judge.tallies for one in _judge_problems(tally)]

    def finish(self, models: Sequence[Mapping[str, Any]], command: str | None, **further: Any) -> Run:
        """Write run.json: versions, settings, data with licences, tables with checksums, what is missing.

        Parameters
        ----------
        models
            Of each model its name, and what else is known of it.
        command
            The command line, so that a reader can repeat it.
        **further
            What else there is to say.
        """
        judge = self._judge
        judged = judge and identity(judge.model, judge.sampling) | {"stages": [paid_for(tally) for tally in judge.tallies]}
        document = {
            "tiltmeter": version("tiltmeter"),
            "python": platform.python_version(),
            "packages": {name: version(name) for name in ("polars", "numpy", "scipy")},
            "command": command,
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
            "title": measured_title(self.resolved.study, self.became),
            **self.resolved.as_document(),
            "data": [{name: getattr(entry, name) for name in _OF_DATA} for entry in self._library.used],
            "tables": self.folder.sizes(),
            "parts": self.became,
            "complete": not self.problems,
            "problems": self.problems,
            "engine": self._asker.engine.name,
            "models": models,
            "judged_by": judged,
            "seconds": self.clock.seconds,
            **further,
        }
        self.folder.write_json(document)
        return Run(self.folder)


_OF_DATA = ("name", "title", "origin", "version", "licence", "restricted", "citation", "sha256")
"""What run.json says of each data set that was used."""


def run_study(
    resolved: Resolved,
    models: Sequence[tuple[Model, Sampling]],
    *,
    asking: Asking,
    judge: tuple[Model, Sampling] | None = None,
    out: str | Path | None = None,
    command: str | None = None,
) -> Run:
    """Design, generate, measure, analyse; resumable at any moment.

    Parameters
    ----------
    models
        Models under test, each with the sampling it is asked with.
    judge
        The model that is asked about answers, for methods that use one.
    out
        The run folder, a path or a URL; default: `default_folder`.
    command
        The command line, kept in run.json.

    Raises
    ------
    InputError
        Unusable input, before anything is written; or the folder or journal cannot be written.
    ProviderError
        No model gave any answer; nothing is left behind.
    """
    names = [model.name for model, _ in models]
    document = resolved.as_document() | {"models": [identity(model, sampling) for model, sampling in models]}
    if judge is not None:
        document |= {"judged_by": identity(*judge)}
    folder = folder_to_fill(out or default_folder(document, names))
    with asking.open() as asker, folder.filling(document):
        run, journal = RunInProgress(folder, resolved, asker, judge), asker.journal
        run.make_design(resolved)
        parts = run.parts
        steps.refuse_unpatchable(folder, [model for model, _ in models])
        with run.clock.timing("generate"):
            tallies, silent = _generate_all(models, parts, folder, asker)
        with run.clock.timing("collect"):
            steps.collect(folder, models, journal)
        count_responses(folder, run.became, names)
        missing = [_missing(resolved.study, run.became, name, tallies.get(name), silent.get(name)) for name in names]
        run.problems = [*(one for of_model in missing for one in of_model), *run.problems]
        close_parts(run.became, "no response to any of its prompts")
        run.analyse(parts)
        paid = [
            identity(model, sampling) | ({"tally": paid_for(tallies[model.name])} if model.name in tallies else {})
            for model, sampling in models
        ]
        return run.finish(paid, command)


def _generate_all(
    models: Sequence[tuple[Model, Sampling]], parts: Sequence[Part], folder: RunFolder, asker: Asker
) -> tuple[dict[str, Tally], dict[str, ProviderError]]:
    """Ask each model in turn; gives what asking took, and the errors of models that answered nothing, by the model's name.

    Raises
    ------
    ProviderError
        No model answered anything.
    """
    attempts = steps.count_attempts(folder)
    tallies: dict[str, Tally] = {}
    silent: dict[str, ProviderError] = {}
    for model, sampling in models:
        steps.learn(model, parts, folder)
        try:
            tally = asker.ask(model, steps.requests(folder), sampling, attempts, model.name)
            if tally.failures and not (tally.answered or tally.held or tally.interrupted):
                raise ProviderError(_no_answer(model, sampling, folder, asker, tally))
        except ProviderError as error:
            silent[model.name] = error
            continue
        tallies[model.name] = tally
        if tally.interrupted:
            break
    if len(silent) == 1 and not tallies:
        raise next(iter(silent.values()))
    if silent and not tallies:
        raise ProviderError("no model answered: " + "; ".join(f"{name}: {error}" for name, error in silent.items()))
    return tallies, silent


def _no_answer(model: Model, sampling: Sampling, folder: RunFolder, asker: Asker, tally: Tally) -> str:
    """Why a model answered nothing, in the words used for a longer run (see `engine`)."""
    key_of = Keys(model.fingerprint, sampling)
    errors = asker.journal.fetch([key_of(one.messages, one.sample) for one in islice(steps.requests(folder), EXAMINED)])[
        "error"
    ].drop_nulls()
    kind, _, detail = (errors[-1] if errors.len() else next(iter(tally.failed))).partition(": ")
    if kind == "connection":
        return f"no server answers at {model.endpoint}: start it, or check the address ({detail})"
    return f"{model.endpoint} answered none of {tally.failures:,} requests, the last with {kind}: {detail}"


def _missing(study: Study, became: Mapping[str, dict[str, Any]], name: str, tally: Tally | None, error: ProviderError | None) -> list[str]:
    """What of one model's responses is not there, in sentences."""
    again = "run the same command again to "
    if error is not None:
        return [f"{name}: nothing measured: {error}; {again}ask it once more"]
    if tally is None:
        return [f"{what_is_missing(study, became, name, 'not asked, because the run was interrupted before')}; {again}go on"]
    failed = _failed(tally, "{wanted}")
    if tally.interrupted or tally.stopped:
        stopped = "interrupted" if tally.interrupted else "stopped early"
        because = f": {tally.stopped}".replace("{", "{{").replace("}", "}}") if tally.stopped else ""
        happened = f"{stopped} after {{found}} of {{wanted}} {{unit}}{because}" + (f"; {failed}" if failed else "")
        return [f"{what_is_missing(study, became, name, happened)}; {again}go on"]
    return [f"{what_is_missing(study, became, name, failed)}; {again}ask for them once more"] if failed else []


def identity(model: Model, sampling: Sampling) -> dict[str, Any]:
    """Who was asked, and with what: part of study.yaml."""
    return {"name": model.name, "fingerprint": model.fingerprint, "sampling": asdict(sampling) | {"stop": list(sampling.stop)}}


def paid_for(tally: Tally) -> dict[str, Any]:
    """What asking took, for run.json."""
    counts = ("total", "held", "repeated", "answered", "failed", "errors", "input_tokens", "output_tokens", "unmetered", "cost")
    return {name: getattr(tally, name) for name in counts}


def _failed(tally: Tally, of: str) -> str:
    """How many answers failed, and of what; nothing where none did."""
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(tally.failed.items()))
    return f"{tally.failures:,} of {of} answers failed ({kinds})" if kinds else ""


def _judge_problems(tally: Tally) -> Iterator[str]:
    if tally.interrupted:
        yield "interrupted; run the same command again to go on"
    if tally.stopped:
        yield f"stopped early: {tally.stopped}"
    if failed := _failed(tally, f"{tally.total:,}"):
        yield f"{failed}; run the same command again to ask for them once more"


def check_models(models: Sequence[Model]) -> None:
    """Two models of one name could not be distinguished in the tables; raises InputError."""
    seen: dict[str, str] = {}
    for model in models:
        if seen.get(model.name, model.fingerprint) != model.fingerprint:
            raise InputError(f"two models are called {model.name}; give them different names, so that the tables tell them apart")
        if model.name in seen:
            raise InputError(f"--model {model.name} is given twice; give it once, or use --repeats for more answers")
        seen[model.name] = model.fingerprint
