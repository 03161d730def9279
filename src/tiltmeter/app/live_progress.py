"""The live view of a run in progress: how far it is, looked at again every two seconds."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from tiltmeter.app.known_runs_page import KnownRun, asked_models, known, read_document
from tiltmeter.app.plain_text import lines
from tiltmeter.app.run_data import file_stamp
from tiltmeter.errors import InputError
from tiltmeter.models import Sampling
from tiltmeter.paths import is_file
from tiltmeter.runs import RunFolder
from tiltmeter.runs.folder import reading
from tiltmeter.runs.pipeline import count_attempts, requests
from tiltmeter.safe_writing import LOCK

if TYPE_CHECKING:
    from tiltmeter.engine import Journal

COUNTED = 200_000
"""Attempts of a model up to which every one is looked up in the journal; of more, evenly spaced ones stand for all."""
_WRITTEN = {
    "design": "the design is being made",
    "responses": "the answers are being collected",
    "measures": "the answers are being measured",
    "findings": "the findings are being computed",
}
_PLANTED = " planted"
"""A simulated model that has learnt how to lean on a design answers under a fingerprint of its own."""


class ModelProgress(NamedTuple):
    """How many of a model's answers are there."""

    name: str
    answered: int
    asked: int


class Progress(NamedTuple):
    """A run in progress at one moment."""

    step: str
    models: tuple[ModelProgress, ...]
    exact: bool
    """Whether every answer was counted, not a sample of them."""
    quiet: float
    """Seconds since this watcher last saw a new answer (or since it began)."""
    note: str | None
    """Why answers cannot be counted."""


class _Counted:
    """The journal keys of one model that had no answer yet when last looked."""

    def __init__(self, name: str, asked: int, keys: list[set[bytes]]) -> None:
        self.name, self.asked = name, asked
        self._pending = keys  # one set for each fingerprint its answers may stand under
        self._of = len(keys[0])

    def look(self, journal: Journal) -> ModelProgress:
        for keys in self._pending:
            keys -= journal.held(list(keys))
        answered = self._of - min(map(len, self._pending))
        share = answered / self._of if self._of else 0.0
        return ModelProgress(self.name, round(share * self.asked), self.asked)


class Watcher:
    """Looks at a run in progress again and again. What was once seen answered is not looked up again.

    Parameters
    ----------
    path
        The run folder; it holds a study.yaml.
    journal
        Where its answers are kept: the path of an SQLite file, or a database URL.
    """

    def __init__(self, path: Path, journal: str) -> None:
        self._folder, self._where = RunFolder(path), journal
        self._journal: Journal | None = None
        self._made_for: tuple[int, int] | None = None
        self._counted: list[_Counted] = []
        self._exact = True
        self._models: tuple[ModelProgress, ...] = ()
        self._note: str | None = None
        self._news = time.monotonic()
        self._not_before = 0.0

    def look(self) -> Progress:
        """How far it is now.

        A big journal takes a while to ask: it is asked so seldom that asking takes a fifth of the time at most, and what was found
        last is given in between.
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
        """Let go of the journal."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _step(self) -> str:
        path = self._folder.path
        if not (path / LOCK).exists():
            return "stopped before its end; run the same command again to go on"
        for table, words in reversed(_WRITTEN.items()):
            if any(path.glob(f".{table}.*")):
                return words
        return "the models are being asked" if is_file(self._folder.table_path("design")) else _WRITTEN["design"]

    def _count(self) -> tuple[ModelProgress, ...]:
        made = file_stamp(self._folder.table_path("design"))
        if made is None:
            return ()
        if self._journal is None:
            self._journal = _open(self._where)
        if self._made_for != made:
            self._counted = self._keys()
            self._made_for = made
        return tuple(counted.look(self._journal) for counted in self._counted)

    def _keys(self) -> list[_Counted]:
        from tiltmeter.engine import Keys

        with reading(self._folder.table_path("design")):
            asked = count_attempts(self._folder)
            each = -(-asked // COUNTED) or 1
            self._exact = each == 1
            chosen = list(islice(requests(self._folder), 0, None, each))
        counted = []
        for model in asked_models(read_document(self._folder.path)):
            makers = [Keys(fingerprint, _sampling(model)) for fingerprint in _fingerprints(model)]
            counted.append(_Counted(model["name"], asked, [{key(one.messages, one.sample) for one in chosen} for key in makers]))
        return counted


def _fingerprints(model: Mapping[str, Any]) -> tuple[str, ...]:
    known = str(model.get("fingerprint", ""))
    return (known, known + _PLANTED) if known.startswith("sim/") else (known,)


def _sampling(model: Mapping[str, Any]) -> Sampling:
    given = model.get("sampling")
    if not isinstance(given, dict) or not set(given) <= {field.name for field in dataclasses.fields(Sampling)}:
        raise InputError(f"study.yaml does not say with what {model['name']} is asked, so its answers cannot be counted")
    return Sampling(**{**given, "stop": tuple(given.get("stop") or ())})


def _open(where: str) -> Journal:
    """The journal; a reader neither makes one nor turns another file into one."""
    from tiltmeter.engine import open_journal
    from tiltmeter.engine.upkeep import opened_to_read

    try:
        with opened_to_read(where):
            pass
    except InputError as error:
        raise InputError(f"answers cannot be counted: {error}") from None
    return open_journal(where)


EVERY = 2.0
"""Seconds between two looks."""
QUIET = 30.0
"""Seconds without a new answer that are worth a word."""


@st.fragment(run_every=EVERY)
def live(run: KnownRun, journal: str, also: Path | None) -> None:
    """How far the run is; looks again by itself, and shows the whole page again once the run has become another."""
    now = next((one for one in known(also) if one.path == run.path), None)
    if now != run:
        _watcher(run.path, journal).close()
        st.rerun()
    st.subheader("In progress")
    show(_watcher(run.path, journal).look())


def show(progress: Progress) -> None:
    """What is known of a run in progress."""
    st.caption(f"Now: {progress.step}.")
    for model in progress.models:
        lines([model.name])
        share = model.answered / model.asked if model.asked else 1.0
        about = "" if progress.exact else "about "
        st.progress(min(share, 1.0), text=f"{about}{model.answered:,} of {model.asked:,} answers")
    if progress.note is not None:
        lines([progress.note])
    elif progress.models and progress.quiet > QUIET:
        st.caption(
            f"No new answer for {progress.quiet:,.0f} s: failures are asked again at the end, or the run was stopped without notice."
        )


def _watcher(path: Path, journal: str) -> Watcher:
    watcher: Watcher = st.session_state.setdefault(f"watcher of {path}", Watcher(path, journal))
    return watcher
