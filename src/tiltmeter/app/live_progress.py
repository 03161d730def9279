"""Live view of a run in progress, refreshed every two seconds."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from tiltmeter.app.known_runs_page import KnownRun, asked_models, known, read_document
from tiltmeter.app.plain_text import lines
from tiltmeter.app.run_data import file_stamp
from tiltmeter.errors import InputError
from tiltmeter.files.paths import is_file
from tiltmeter.files.writing import LOCK
from tiltmeter.models import Sampling
from tiltmeter.runs import RunFolder
from tiltmeter.runs.attempts import count_attempts, requests
from tiltmeter.runs.folder import reading

if TYPE_CHECKING:
    from tiltmeter.engine import Journal

COUNTED = 200_000
"""Maximum number of attempts per model that are looked up in the journal. For longer runs, a systematic
sample is looked up."""
_WRITTEN = {
    "design": "creating the design",
    "responses": "collecting the responses",
    "measures": "parsing the responses",
    "findings": "computing the findings",
}
_PLANTED = " planted"
"""Suffix of the fingerprint of a simulated model with planted bias."""


class ModelProgress(NamedTuple):
    """Number of answers of one model that have been received and requested."""

    name: str
    answered: int
    asked: int


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


class _Counted:
    """Journal keys of one model that have no answer yet."""

    def __init__(self, name: str, asked: int, keys: list[set[bytes]]) -> None:
        self.name, self.asked = name, asked
        self._pending = keys  # one set for each possible fingerprint
        self._total = len(keys[0])

    def look(self, journal: Journal) -> ModelProgress:
        for keys in self._pending:
            keys -= journal.held(list(keys))
        answered = self._total - min(map(len, self._pending))
        share = answered / self._total if self._total else 0.0
        return ModelProgress(self.name, round(share * self.asked), self.asked)


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
        self._folder, self._where = RunFolder(path), journal
        self._journal: Journal | None = None
        self._design_stamp: tuple[int, int] | None = None
        self._counted: list[_Counted] = []
        self._exact = True
        self._models: tuple[ModelProgress, ...] = ()
        self._note: str | None = None
        self._news = time.monotonic()
        self._not_before = 0.0

    def look(self) -> Progress:
        """Return the current progress.

        Querying a large journal takes time, so queries take at most a fifth of the elapsed time. Between
        queries, the last result is returned.
        """
        if (begun := time.monotonic()) >= self._not_before:
            before = self._models
            try:
                self._models, self._note = self._count(), None
            except InputError as error:
                self._models, self._note = (), str(error)
            now = time.monotonic()
            self._not_before = now + 4 * (now - begun)
            if self._models != before:
                self._news = now
        return Progress(self._step(), self._models, self._exact, time.monotonic() - self._news, self._note)

    def close(self) -> None:
        """Close the journal."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _step(self) -> str:
        path = self._folder.path
        if not (path / LOCK).exists():
            return "interrupted; run the same command again to resume"
        for table, words in reversed(_WRITTEN.items()):
            if any(path.glob(f".{table}.*")):
                return words
        return "requesting responses" if is_file(self._folder.table_path("design")) else _WRITTEN["design"]

    def _count(self) -> tuple[ModelProgress, ...]:
        stamp = file_stamp(self._folder.table_path("design"))
        if stamp is None:
            return ()
        if self._journal is None:
            self._journal = _open(self._where)
        if self._design_stamp != stamp:
            self._counted = self._keys()
            self._design_stamp = stamp
        return tuple(counted.look(self._journal) for counted in self._counted)

    def _keys(self) -> list[_Counted]:
        from tiltmeter.engine import Keys

        counted = []
        with reading(self._folder.table_path("design")):
            asked = count_attempts(self._folder)
            step = -(-asked // COUNTED) or 1
            self._exact = step == 1
            for model in asked_models(read_document(self._folder.path)):
                chosen = list(
                    islice(
                        requests(self._folder, SimpleNamespace(constrains=model.get("constrains"))),
                        0,
                        None,
                        step,
                    )
                )
                makers = [Keys(fingerprint, _sampling(model)) for fingerprint in _fingerprints(model)]
                counted.append(
                    _Counted(
                        model["name"],
                        asked,
                        [{key(one.messages, one.sample) for one in chosen} for key in makers],
                    )
                )
        return counted


def _fingerprints(model: Mapping[str, Any]) -> tuple[str, ...]:
    known = str(model.get("fingerprint", ""))
    return (known, known + _PLANTED) if known.startswith("sim/") else (known,)


def _sampling(model: Mapping[str, Any]) -> Sampling:
    given = model.get("sampling")
    if not isinstance(given, dict) or not set(given) <= {
        field.name for field in dataclasses.fields(Sampling)
    }:
        raise InputError(
            f"answers of {model['name']} cannot be counted, because study.yaml has no valid sampling parameters for it"
        )
    return Sampling(**{**given, "stop": tuple(given.get("stop") or ())})


def _open(where: str) -> Journal:
    """Open an existing journal without creating or converting a file."""
    from tiltmeter.engine import open_journal
    from tiltmeter.engine.upkeep import opened_to_read

    try:
        with opened_to_read(where):
            pass
    except InputError as error:
        raise InputError(f"answers cannot be counted: {error}") from None
    return open_journal(where)


EVERY = 2.0
"""Refresh interval in seconds."""
QUIET = 30.0
"""Seconds without a new answer after which a message is shown."""


@st.fragment(run_every=EVERY)
def live(run: KnownRun, journal: str, also: Path | None) -> None:
    """Show the progress of a run and refresh it periodically.

    The whole page is reloaded when the state of the run changes.
    """
    now = next((one for one in known(also) if one.path == run.path), None)
    if now != run:
        _watcher(run.path, journal).close()
        st.rerun()
    st.subheader("In progress")
    show(_watcher(run.path, journal).look())


def show(progress: Progress) -> None:
    """Show a snapshot of a run in progress."""
    st.caption(f"Status: {progress.step}.")
    for model in progress.models:
        lines([model.name])
        share = model.answered / model.asked if model.asked else 1.0
        about = "" if progress.exact else "about "
        st.progress(min(share, 1.0), text=f"{about}{model.answered:,} of {model.asked:,} answers")
    if progress.note is not None:
        lines([progress.note])
    elif progress.models and progress.quiet > QUIET:
        st.caption(
            f"No new answer for {progress.quiet:,.0f} s. The run may be waiting to retry requests, or it may have been killed."
        )


def _watcher(path: Path, journal: str) -> Watcher:
    watcher: Watcher = st.session_state.setdefault(f"watcher of {path}", Watcher(path, journal))
    return watcher
