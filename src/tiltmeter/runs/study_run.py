"""Carry a study through its five steps into a run folder."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tiltmeter.errors import EXIT_INCOMPLETE, EXIT_OK, InputError, ProviderError
from tiltmeter.models import Model, Sampling
from tiltmeter.runs import pipeline as steps
from tiltmeter.runs.folder import RunFolder
from tiltmeter.runs.judge import RunJudge, RunTools
from tiltmeter.runs.opened_run import Run
from tiltmeter.runs.places import runs_place
from tiltmeter.runs.problems import Failures, close_parts, count_responses, measured_title, unread, what_is_missing
from tiltmeter.runs.resolving import Resolved
from tiltmeter.study import Part, Study

if TYPE_CHECKING:
    from tiltmeter.datasets import Library
    from tiltmeter.engine import Engine, Journal, Limits, Prices, Tally

Returned = TypeVar("Returned")

EXAMINED = 1_000
"""Requests among which an error is looked for."""


@dataclass(slots=True)
class RunResult:
    """What `run_study` leaves: the run, what is missing from it, and the exit status it deserves."""

    run: Run
    problems: list[str] = field(default_factory=list)
    exit_code: int = EXIT_OK


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


def run_study(
    resolved: Resolved,
    models: Sequence[tuple[Model, Sampling]],
    *,
    library: Library,
    journal_url: str,
    limits: Limits,
    prices: Prices,
    judge: tuple[Model, Sampling] | None = None,
    display: str | None = "none",
    out: str | Path | None = None,
    command: str | None = None,
    engine: Engine | None = None,
) -> RunResult:
    """Design, generate, measure, analyse; resumable at any moment.

    Parameters
    ----------
    models
        Models under test, each with the sampling it is asked with.
    judge
        The model that is asked about answers, for methods that use one.
    journal_url
        Where paid-for answers are kept (a path or a database URL).
    out
        The run folder, a path or a URL; default: `default_folder`.
    command
        The command line, kept in run.json so that a reader can repeat it.
    engine
        What carries the work out; default: this process.

    Raises
    ------
    InputError
        Unusable input, before anything is written; or the folder or journal cannot be written.
    ProviderError
        No model gave any answer; nothing is left behind.
    """
    from tiltmeter.engine import Engine, open_journal

    engine = engine or Engine()
    document = resolved.as_document() | {"models": [identity(model, sampling) for model, sampling in models]}
    if judge is not None:
        document |= {"judged_by": identity(*judge)}
    folder = RunFolder.at(out or default_folder(document, [model.name for model, _ in models]))
    clock = Clock()
    with folder.filling(document), open_journal(journal_url) as journal:
        became = clock.time("design", steps.make_design, resolved, library, folder)
        result = RunResult(Run(folder))
        parts = [part for part in resolved.study.parts if became[part.name]["status"] == "run"]
        _refuse_unpatchable(folder, [model for model, _ in models])
        tallies, silent = _generate_all(models, parts, folder, journal, limits, prices, display, engine, clock)
        clock.time("collect", steps.collect, folder, models, journal)
        names = [model.name for model, _ in models]
        count_responses(folder, became, names)
        result.problems += [one for name in names for one in _missing(resolved.study, became, name, tallies.get(name), silent.get(name))]
        result.problems += problems_of(became)
        close_parts(became, "no response to any of its prompts")
        asked = None
        if judge is not None:
            asked = RunJudge(*judge, journal=journal, limits=limits, prices=prices, display=display, engine=engine)
        read_answers(folder, resolved, parts, library, asked, result, clock, became, engine)
        result.exit_code = EXIT_INCOMPLETE if result.problems else EXIT_OK
        paid = [identity(model, sampling) | paid_for(tallies.get(model.name)) for model, sampling in models]
        about = describe(resolved, library, folder, command, became, result.problems)
        folder.write_json(about | {"engine": engine.name, "models": paid, "judged_by": judged_by(asked), "seconds": clock.seconds})
    return result


def read_answers(
    folder: RunFolder,
    resolved: Resolved,
    parts: Sequence[Part],
    library: Library,
    judge: RunJudge | None,
    result: RunResult,
    clock: Clock,
    became: Mapping[str, dict[str, Any]],
    engine: Engine | None = None,
) -> None:
    """From responses to findings; what failed, and what a judge did not answer, is a problem of the run.

    A part that could be analysed of no model is marked as not run in `became`.
    """
    failures, tools = Failures(folder), RunTools(library, judge, engine)
    work = steps.Pipeline(folder, resolved, parts, tools, failures)
    work.carry_out()
    clock.seconds |= work.seconds
    failures.write()
    for one in parts:
        if one.name not in work.analysed and became[one.name]["status"] == "run":
            became[one.name].update(status="not run", reason="it could not be measured or analysed: see the problems of this run")
    result.problems += [*tools.problems, *failures.problems]
    if judge is not None:
        if judge.interrupted:
            result.problems += unread(folder)
        for tally in judge.tallies:
            result.problems += _judge_problems(f"judge {judge.name}", tally)


def _refuse_unpatchable(folder: RunFolder, models: Sequence[Model]) -> None:
    if steps.needs_patching(folder) and (wrong := [model.name for model in models if not getattr(model, "patches", False)]):
        raise InputError(
            f"the open-box setting replaces hidden states, which {wrong[0]} does not allow; use a local model (hf/NAME or a folder)"
        )


def problems_of(became: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """One sentence for each part that was not run."""
    return [f"{name} not run: {one['reason']}" for name, one in became.items() if one["status"] != "run"]


def _generate_all(
    models: Sequence[tuple[Model, Sampling]],
    parts: Sequence[Part],
    folder: RunFolder,
    journal: Journal,
    limits: Limits,
    prices: Prices,
    display: str | None,
    engine: Engine,
    clock: Clock,
) -> tuple[dict[str, Tally], dict[str, ProviderError]]:
    """Ask each model in turn; gives what asking took, and the errors of models that answered nothing, by the model's name.

    Raises
    ------
    ProviderError
        No model answered anything.
    """
    from tiltmeter.engine import open_display

    attempts = steps.count_attempts(folder)
    tallies: dict[str, Tally] = {}
    silent: dict[str, ProviderError] = {}
    for model, sampling in models:
        steps.learn(model, parts, folder)
        try:
            with clock.timing("generate"), open_display(display, attempts, model.name) as progress:
                asked = steps.requests(folder)
                tally = engine.generate(model, asked, sampling, journal=journal, limits=limits, progress=progress, prices=prices)
                if tally.failures and not (tally.answered or tally.held or tally.interrupted):
                    raise ProviderError(_no_answer(model, sampling, folder, journal, tally))
        except ProviderError as error:
            silent[model.name] = error
            continue
        tallies[model.name] = tally
        if tally.interrupted:
            break
    if silent and not tallies:
        raise (
            next(iter(silent.values()))
            if len(silent) == 1
            else ProviderError("no model answered: " + "; ".join(f"{name}: {error}" for name, error in silent.items()))
        )
    return tallies, silent


def _no_answer(model: Model, sampling: Sampling, folder: RunFolder, journal: Journal, tally: Tally) -> str:
    """Why a model answered nothing, in the words used for a longer run (see `engine`)."""
    from tiltmeter.engine import Keys

    key_of = Keys(model.fingerprint, sampling)
    errors = journal.fetch([key_of(one.messages, one.sample) for one in islice(steps.requests(folder), EXAMINED)])["error"].drop_nulls()
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
    failed = ""
    if tally.failed:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(tally.failed.items()))
        failed = f"{tally.failures:,} of {{wanted}} answers failed ({kinds})"
    if tally.interrupted or tally.stopped:
        stopped = "interrupted" if tally.interrupted else "stopped early"
        because = f": {tally.stopped}".replace("{", "{{").replace("}", "}}") if tally.stopped else ""
        happened = f"{stopped} after {{found}} of {{wanted}} {{unit}}{because}" + (f"; {failed}" if failed else "")
        return [f"{what_is_missing(study, became, name, happened)}; {again}go on"]
    return [f"{what_is_missing(study, became, name, failed)}; {again}ask for them once more"] if failed else []


def describe(
    resolved: Resolved,
    library: Library,
    folder: RunFolder,
    command: str | None,
    became: Mapping[str, dict[str, Any]],
    problems: Sequence[str],
) -> dict[str, Any]:
    """The part of run.json every kind of run shares: versions, settings, data with licences, tables with checksums, what is missing."""
    return {
        "tiltmeter": version("tiltmeter"),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in ("polars", "numpy", "scipy")},
        "command": command,
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "title": measured_title(resolved.study, became),
        **resolved.as_document(),
        "data": [_data(entry) for entry in library.used],
        "tables": folder.sizes(),
        "parts": dict(became),
        "complete": not problems,
        "problems": list(problems),
    }


def _data(entry: Any) -> dict[str, Any]:
    names = ("name", "title", "origin", "version", "licence", "restricted", "citation", "sha256")
    return {name: getattr(entry, name) for name in names}


def identity(model: Model, sampling: Sampling) -> dict[str, Any]:
    """Who was asked, and with what: part of study.yaml."""
    import dataclasses

    return {"name": model.name, "fingerprint": model.fingerprint, "sampling": dataclasses.asdict(sampling) | {"stop": list(sampling.stop)}}


def judged_by(judge: RunJudge | None) -> dict[str, Any] | None:
    """The judge of a run and what its stages took, for run.json."""
    if judge is None:
        return None
    return identity(judge.model, judge.sampling) | {"stages": [paid_for(tally)["tally"] for tally in judge.tallies]}


def paid_for(tally: Tally | None) -> dict[str, Any]:
    """What asking took, for run.json."""
    if tally is None:
        return {}
    counts = ("total", "held", "repeated", "answered", "failed", "errors", "input_tokens", "output_tokens", "unmetered", "cost")
    return {"tally": {name: getattr(tally, name) for name in counts}}


def _judge_problems(name: str, tally: Tally) -> list[str]:
    found = []
    if tally.interrupted:
        found.append(f"{name}: interrupted; run the same command again to go on")
    if tally.stopped:
        found.append(f"{name}: stopped early: {tally.stopped}")
    if tally.failures:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(tally.failed.items()))
        found.append(
            f"{name}: {tally.failures:,} of {tally.total:,} answers failed ({kinds}); run the same command again to ask for them once more"
        )
    return found


class Clock:
    """Seconds by step, summed over models."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timing(self, step: str) -> Iterator[None]:
        """Add the time the block takes to a step."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.seconds[step] = round(self.seconds.get(step, 0.0) + time.monotonic() - begun, 3)

    def time(self, step: str, work: Callable[..., Returned], *arguments: Any) -> Returned:
        """Call a function as one step; returns what it returns."""
        with self.timing(step):
            return work(*arguments)


def check_models(models: Sequence[Model]) -> None:
    """Two models of one name could not be told apart in the tables; raises InputError."""
    seen: dict[str, str] = {}
    for model in models:
        if seen.get(model.name, model.fingerprint) != model.fingerprint:
            raise InputError(f"two models are called {model.name}; give them different names, so that the tables tell them apart")
        if model.name in seen:
            raise InputError(f"--model {model.name} is given twice; give it once, or use --repeats for more answers")
        seen[model.name] = model.fingerprint
