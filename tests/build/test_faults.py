"""`scripts/faults.py` counts a fault as found only if a test fails that passed before."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from scripts import faults
from scripts.faults import Fault

pytestmark = pytest.mark.verify

MODULE = """
def double(value):
    return value * 2
"""
TESTS = """
import halves

LIMIT = halves.double(1)
if LIMIT > 4:
    raise SystemError

def test_double(): assert halves.double(2) == 4
def test_type(): assert isinstance(halves.double(2), (int, float))
def test_broken(): assert halves.double(2) == 5
"""
DOUBLED = Fault("halves.py", 3, 11, "value * 2", "(value / 2)")
BREAKS_THE_IMPORT = Fault("halves.py", 3, 11, "value * 2", "(value * 9)")


@pytest.fixture
def checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Check one fault in a small repository; gives the exit status and what was printed."""
    root = tmp_path / "repository"
    (root / "src").mkdir(parents=True)
    (root / "src" / "halves.py").write_text(MODULE)
    (root / "test_halves.py").write_text(TESTS)
    (root / "pytest.ini").write_text("[pytest]\n")
    for words in (
        ["init", "--quiet"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "first"],
    ):
        subprocess.run(["git", *words], cwd=root, check=True)
    monkeypatch.setattr(faults, "ROOT", root)
    monkeypatch.setattr(faults, "SOURCE", root / "src")
    monkeypatch.setattr(faults, "_read", lambda coverage: None)

    def check(fault: Fault, *tests: str) -> tuple[int, str]:
        named: Any = frozenset(f"test_halves.py::{test}" for test in tests)
        monkeypatch.setattr(faults, "tests_of", lambda fault, data: named)
        (tmp_path / "faults.json").write_text(json.dumps([asdict(fault)]))
        status = faults.check(tmp_path / "faults.json", tmp_path / ".coverage", 1, "HEAD")
        assert (root / "src" / "halves.py").read_text() == MODULE
        listed = subprocess.run(
            ["git", "worktree", "list"], cwd=root, capture_output=True, text=True, check=True
        )
        assert len(listed.stdout.splitlines()) == 1
        return status, capsys.readouterr().out

    return check


def test_a_fault_is_found_by_a_test_that_fails_only_with_it(checked: Callable[..., tuple[int, str]]) -> None:
    status, printed = checked(DOUBLED, "test_double", "test_type")
    assert status == 0
    assert "test_halves.py::test_double |" in printed
    assert "1 of 1 faults found; 0 not counted" in printed


def test_a_fault_that_no_test_notices_is_missed(checked: Callable[..., tuple[int, str]]) -> None:
    status, printed = checked(DOUBLED, "test_type")
    assert status == 1
    assert "**none**: all tests passed" in printed


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (
            "test_broken",
            "not counted: without the fault, test_halves.py::test_broken failed (pytest ended with status 1)",
        ),
        (
            "test_that_is_not_there",
            "not counted: without the fault, no test failed (pytest ended with status 4)",
        ),
    ],
)
def test_a_fault_does_not_count_if_its_tests_do_not_pass_without_it(
    checked: Callable[..., tuple[int, str]], test: str, message: str
) -> None:
    status, printed = checked(DOUBLED, test)
    assert status == 1
    assert message in printed
    assert "0 of 0 faults found; 1 not counted" in printed


def test_an_error_while_tests_are_collected_finds_nothing(checked: Callable[..., tuple[int, str]]) -> None:
    status, printed = checked(BREAKS_THE_IMPORT, "test_double")
    assert status == 1
    assert "**none**: no test failed (pytest ended with status " in printed
