"""Live view of a run in progress, refreshed every two seconds."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from tiltmeter._app.known_runs_page import KnownRun, list_runs, models_in, read_document
from tiltmeter._app.plain_text import lines
from tiltmeter._app.run_data import file_stamp
from tiltmeter._files.paths import is_file
from tiltmeter._files.writing import LOCK
from tiltmeter.errors import InputError
from tiltmeter.models import Sampling
from tiltmeter.runs import RunFolder
from tiltmeter.runs._attempts import count_attempts, requests
from tiltmeter.runs._folder import reading

if TYPE_CHECKING:
    from tiltmeter.engine import Journal

COUNTED = 200_000
"""Maximum number of attempts per model that are looked up in the journal.

For longer runs, a systematic sample is looked up.
"""
_STEPS = {
    "design": "creating the design",
    "responses": "collecting the responses",
    "measures": "parsing the responses",
    "findings": "computing the findings",
}
"""Names of the steps of a run, by the table that they write."""
_PLANTED = " planted"
"""Suffix of the fingerprint of a simulated model with planted bias."""


class ModelProgress(NamedTuple):
    """Number of answers of one model that have been received and requested."""

    name: str
    answered: int
    requested: int


class Progress(NamedTuple):
    """Snapshot of a run in progress."""

    step: str
    models: tuple[ModelProgress, ...]
    exact: bool
    """True if all answers were counted, False if the count was estimated from a sample."""
    quiet: float
    """Seconds since the last new answer, or since the watcher was created."""
    note: str | None
    """Reason why answers cannot be counted, or None."""


class _ModelCounter:
    """Journal keys of one model that have no answer yet.

    Parameters
    ----------
    attempts
        Number of attempts of the model.
    keys
        The keys that are looked up: one set for each possible fingerprint.
    """

    def __init__(self, name: str, attempts: int, keys: list[set[bytes]]) -> None:
        self._name = name
        self._attempts = attempts
        self._pending = keys
        self._total = len(keys[0])

    def look(self, journal: Journal) -> ModelProgress:
        for keys in self._pending:
            keys -= journal.held(list(keys))
        answered = self._total - min(map(len, self._pending))
        share = answered / self._total if self._total else 0.0
        return ModelProgress(self._name, round(share * self._attempts), self._attempts)


class Watcher:
    """Monitor of a run in progress. Answers that were found are not looked up again.

    Parameters
    ----------
    path
        The run folder, which contains a study.yaml.
    journal
        Response cache: the path of an SQLite file, or a database URL.
    """

    def __init__(self, path: Path, journal: str) -> None:
        self._folder = RunFolder(path)
        self._address = journal
        self._journal: Journal | None = None
        self._design_stamp: tuple[int, int] | None = None
        self._counters: list[_ModelCounter] = []
        self._exact = True
        self._models: tuple[ModelProgress, ...] = ()
        self._note: str | None = None
        self._time_of_change = time.monotonic()
        self._not_before = 0.0

    def look(self) -> Progress:
        """Return the current progress.

        Querying a large journal takes time, so queries take at most a fifth of the elapsed time. Between
        queries, the last result is returned.
        """
        begin = time.monotonic()
        if begin >= self._not_before:
            models_before = self._models
            try:
                self._models = self._count()
                self._note = None
            except InputError as error:
                self._models = ()
                self._note = str(error)
            end = time.monotonic()
            self._not_before = end + 4 * (end - begin)
            if self._models != models_before:
                self._time_of_change = end
        quiet = time.monotonic() - self._time_of_change
        return Progress(self._step(), self._models, self._exact, quiet, self._note)

    def close(self) -> None:
        """Close the journal."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _step(self) -> str:
        path = self._folder.path
        if not (path / LOCK).exists():
            return "interrupted; run the same command again to resume"
        for table, step in reversed(_STEPS.items()):
            if any(path.glob(f".{table}.*")):
                return step
        has_design = is_file(self._folder.table_path("design"))
        return "requesting responses" if has_design else _STEPS["design"]

    def _count(self) -> tuple[ModelProgress, ...]:
        stamp = file_stamp(self._folder.table_path("design"))
        if stamp is None:
            return ()
        if self._journal is None:
            self._journal = _open_existing(self._address)
        if self._design_stamp != stamp:
            self._counters = self._count_from_design()
            self._design_stamp = stamp
        return tuple(counter.look(self._journal) for counter in self._counters)

    def _count_from_design(self) -> list[_ModelCounter]:
        """Return a counter for each model, with the keys of all its requests or of a systematic sample."""
        from tiltmeter.engine import Keys

        counters = []
        with reading(self._folder.table_path("design")):
            attempts = count_attempts(self._folder)
            step = math.ceil(attempts / COUNTED) or 1
            self._exact = step == 1
            for model in models_in(read_document(self._folder.path)):
                options = SimpleNamespace(constrains=model.get("constrains"))
                sample = list(islice(requests(self._folder, options), 0, None, step))
                sampling = _sampling(model)
                key_sets = []
                for fingerprint in _fingerprints(model):
                    key_of = Keys(fingerprint, sampling)
                    key_sets.append({key_of(request.messages, request.sample) for request in sample})
                counters.append(_ModelCounter(model["name"], attempts, key_sets))
        return counters


def _fingerprints(model: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the fingerprints under which the answers of a model may be stored."""
    fingerprint = str(model.get("fingerprint", ""))
    if fingerprint.startswith("sim/"):
        return fingerprint, fingerprint + _PLANTED
    return (fingerprint,)


def _sampling(model: Mapping[str, Any]) -> Sampling:
    """Return the sampling parameters of a model in study.yaml; raises InputError if they are not valid."""
    parameters = model.get("sampling")
    valid_names = {field.name for field in dataclasses.fields(Sampling)}
    if not isinstance(parameters, dict) or not valid_names.issuperset(parameters):
        raise InputError(
            f"answers of {model['name']} cannot be counted, because study.yaml has no valid sampling"
            " parameters for it"
        )
    return Sampling(**{**parameters, "stop": tuple(parameters.get("stop") or ())})


def _open_existing(address: str) -> Journal:
    """Open an existing journal without creating or converting a file."""
    from tiltmeter.engine import open_journal
    from tiltmeter.engine.upkeep import opened_to_read

    try:
        with opened_to_read(address):
            pass
    except InputError as error:
        raise InputError(f"answers cannot be counted: {error}") from None
    return open_journal(address)


EVERY = 2.0
"""Refresh interval in seconds."""
QUIET = 30.0
"""Seconds without a new answer after which a message is shown."""


@st.fragment(run_every=EVERY)
def live(run: KnownRun, journal: str, elsewhere: Path | None) -> None:
    """Show the progress of a run and refresh it periodically.

    The whole page is reloaded when the state of the run changes.

    Parameters
    ----------
    elsewhere
        A run outside the runs folder that is listed too.
    """
    if run not in list_runs(elsewhere):
        _watcher(run.path, journal).close()
        st.rerun()
    st.subheader("In progress")
    show(_watcher(run.path, journal).look())


def show(progress: Progress) -> None:
    """Show a snapshot of a run in progress."""
    st.caption(f"Status: {progress.step}.")
    for model in progress.models:
        lines([model.name])
        share = model.answered / model.requested if model.requested else 1.0
        about = "" if progress.exact else "about "
        st.progress(min(share, 1.0), text=f"{about}{model.answered:,} of {model.requested:,} answers")
    if progress.note is not None:
        lines([progress.note])
    elif progress.models and progress.quiet > QUIET:
        st.caption(
            f"No new answer for {progress.quiet:,.0f} s."
            " The run may be waiting to retry requests, or it may have been killed."
        )


def _watcher(path: Path, journal: str) -> Watcher:
    watcher: Watcher = st.session_state.setdefault(f"watcher of {path}", Watcher(path, journal))
    return watcher
