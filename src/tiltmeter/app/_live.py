"""The live view of a run in progress."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from tiltmeter.app._known import KnownRun, known
from tiltmeter.app._plain import lines
from tiltmeter.app._progress import Progress, Watcher

__all__ = ["EVERY", "live"]

EVERY = 2.0
"""Seconds between two looks."""
QUIET = 30.0
"""Seconds without a new answer that are worth a word."""


@st.fragment(run_every=EVERY)
def live(run: KnownRun, journal: str, also: Path | None) -> None:
    """How far the run is; looks again by itself, and shows the whole page anew once the run has become another."""
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
    name = f"watcher of {path}"
    if name not in st.session_state:
        st.session_state[name] = Watcher(path, journal)
    watcher: Watcher = st.session_state[name]
    return watcher
