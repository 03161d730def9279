"""Without reference data, probes that read no files are tested, and in CI its absence is a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.reference_data import WithoutFiles, reference_folder
from tiltmeter.probes._listing import PROBES
from tiltmeter.study import Settings
from tiltmeter.testing import check_probe
from workplace.training_request import PROBE


def test_only_probes_that_read_files_are_skipped(tmp_path: Path) -> None:
    library = WithoutFiles(cache=tmp_path)
    check_probe(PROBE, library)
    with pytest.raises(pytest.skip.Exception, match="reference data not found"):
        PROBES.load("gest").design(library, Settings())


def test_missing_reference_data_is_a_failure_in_ci(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILTMETER_SHARED", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    assert reference_folder() is None
    monkeypatch.setenv("CI", "1")
    with pytest.raises(pytest.fail.Exception, match="reference data not found"):
        reference_folder()
