"""Progress of a run: answers of each model and the current step."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from tiltmeter._app import live_progress
from tiltmeter._app.live_progress import ModelProgress, Watcher

pytestmark = pytest.mark.verify


@pytest.fixture
def begun(probes_only: Path, tmp_path: Path) -> Path:
    """The folder of a run of two models while requests are sent; its journal contains every answer."""
    path = tmp_path / "begun"
    path.mkdir()
    for name in ("study.yaml", "design.parquet"):
        shutil.copy(probes_only / "probes" / name, path)
    (path / ".lock").touch()
    with (
        sqlite3.connect(probes_only / "journal.sqlite") as source,
        sqlite3.connect(tmp_path / "journal.sqlite") as target,
    ):
        source.backup(target)
    source.close()
    target.close()
    return path


@pytest.fixture
def requested(begun: Path) -> int:
    """The number of answers that are requested from each model."""
    return int(pl.read_parquet(begun / "design.parquet")["repetitions"].sum())


@pytest.fixture
def watcher(begun: Path, tmp_path: Path) -> Iterator[Watcher]:
    with closing(Watcher(begun, str(tmp_path / "journal.sqlite"))) as opened:
        yield opened


def test_answers_are_counted_for_each_model(watcher: Watcher, requested: int) -> None:
    progress = watcher.look()
    assert progress.models == (
        ModelProgress("sim/mild", requested, requested),
        ModelProgress("sim/fair", requested, requested),
    )
    assert (progress.exact, progress.note, progress.step) == (True, None, "requesting responses")


def test_answers_are_counted_when_they_arrive(
    watcher: Watcher, requested: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, complete = tmp_path / "journal.sqlite", tmp_path / "whole.sqlite"
    shutil.copy(journal, complete)
    with sqlite3.connect(journal) as connection:
        connection.execute("DELETE FROM completions WHERE model LIKE '%bias.stereotypical_reasoning=0 %'")
    connection.close()
    assert watcher.look().models == (
        ModelProgress("sim/mild", requested, requested),
        ModelProgress("sim/fair", 0, requested),
    )
    with sqlite3.connect(journal) as connection:
        connection.execute("ATTACH ? AS complete", [str(complete)])
        connection.execute("UPDATE complete.completions SET status = 'failed' WHERE rowid % 2")
        connection.execute("INSERT OR IGNORE INTO completions SELECT * FROM complete.completions")
    connection.close()
    monkeypatch.setattr(watcher, "_not_before", 0.0)
    mild, fair = watcher.look().models
    assert mild.answered == requested  # an answer that was counted remains counted
    assert 0 < fair.answered < requested  # failures are no answers


def test_progress_of_very_many_attempts_is_estimated_from_evenly_spaced_ones(
    watcher: Watcher, requested: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_progress, "COUNTED", 50)
    progress = watcher.look()
    assert requested > 50
    assert progress.models == (
        ModelProgress("sim/mild", requested, requested),
        ModelProgress("sim/fair", requested, requested),
    )
    assert not progress.exact


def test_a_missing_journal_is_named_and_not_created(begun: Path, tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.sqlite"
    for where in (str(missing), f"sqlite:///{missing}"):
        progress = Watcher(begun, where).look()
        assert progress.models == ()
        assert "nowhere.sqlite" in (progress.note or "")
        assert "--journal" in (progress.note or "")
    assert not missing.exists()


@pytest.mark.parametrize(
    ("aside", "step"),
    [
        (".responses.abcdefgh", "collecting"),
        (".measures.abcdefgh", "parsing"),
        (".findings.abcdefgh", "computing"),
        (None, "requesting"),
    ],
)
def test_the_step_follows_from_the_table_that_is_being_written(
    begun: Path, watcher: Watcher, aside: str | None, step: str
) -> None:
    if aside is not None:
        (begun / aside).mkdir()
    assert step in watcher.look().step
    (begun / ".lock").unlink()
    assert "interrupted" in watcher.look().step
