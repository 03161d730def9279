"""Runs of the tests themselves: seeds of property tests, workers that die, and runs that do not end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.verify

ROOT = Path(__file__).parents[2]
DRAWS = """
from hypothesis import given, strategies as st
@given(st.integers(0, 10**9))
def test_draws(number): print("drew", number)
"""
DIES = """
import os, pytest
@pytest.mark.parametrize("number", range(5))
def test_dies(number): os._exit(3) if number == 1 else None
"""
MANY = """
import pytest
@pytest.mark.parametrize("number", range(60))
def test_many(number): pass
"""
ENDLESS = """
import sys, threading, pytest
from support import run_limit
def pytest_collection_modifyitems(config):
    run_limit.limit_run(config, grace=0.5)
    threading.Event().wait()
"""


def run_tests(folder: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a folder with the configuration and the plugins of our own tests."""
    settings = (
        "-c",
        str(ROOT / "pyproject.toml"),
        "--rootdir",
        str(folder),
        "-p",
        "conftest",
        "-p",
        "no:cacheprovider",
    )
    python_path = os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    own = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("PYTEST_", "TILTMETER_HYPOTHESIS"))
    }
    command = [sys.executable, "-m", "pytest", *settings, *options, str(folder)]
    environment = own | {"PYTHONPATH": python_path} | variables
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def drawn(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stdout + done.stderr
    return re.findall(r"drew \d+", done.stdout)


def test_property_tests_draw_the_same_unless_chance_is_requested_and_then_name_their_seed(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_draws.py").write_text(DRAWS)
    fixed = [drawn(run_tests(tmp_path, "-s")) for _ in range(2)]
    assert fixed[0] == fixed[1]
    random = run_tests(tmp_path, "-s", TILTMETER_HYPOTHESIS="random")
    options = re.findall(r"--hypothesis-\w+=\w+", random.stdout)
    assert [option.partition("=")[0] for option in options] == ["--hypothesis-profile", "--hypothesis-seed"]
    assert drawn(random) != fixed[0]
    assert drawn(run_tests(tmp_path, "-s", *options)) == drawn(random)
    refused = run_tests(tmp_path, TILTMETER_HYPOTHESIS="rnadom")
    assert refused.returncode == 4
    assert "TILTMETER_HYPOTHESIS=rnadom is not a profile of the tests; use fixed or random" in refused.stderr


def test_a_run_whose_worker_dies_ends_and_fails(tmp_path: Path) -> None:
    (tmp_path / "test_dies.py").write_text(DIES)
    done = run_tests(tmp_path, "-n", "2")
    assert done.returncode == 1
    assert re.search(r"worker 'gw\d' crashed while running '.*test_dies\[1\]'", done.stdout)


def test_a_run_in_which_nothing_happens_any_more_is_interrupted(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(ENDLESS)
    (tmp_path / "test_draws.py").write_text(DRAWS)
    done = run_tests(tmp_path, "--session-timeout=1")
    assert done.returncode == 2
    assert "The run is interrupted: it takes longer than 1 s" in done.stdout


def test_each_test_is_in_one_share(tmp_path: Path) -> None:
    (tmp_path / "test_many.py").write_text(MANY)
    shares = []
    for number in (1, 2, 3):
        done = run_tests(tmp_path, f"--share={number}/3", "-n", "2", "-v")
        assert done.returncode == 0, done.stdout
        shares.append(set(re.findall(r"PASSED (\S+)", done.stdout)))
    assert all(len(share) > 5 for share in shares)
    assert sum(map(len, shares)) == len(set.union(*shares)) == 60
    whole = run_tests(tmp_path, "-v")
    assert whole.stdout.count(" PASSED") == 60


@pytest.mark.parametrize("share", ["0/3", "4/3", "third"])
def test_a_share_that_does_not_exist_is_refused(tmp_path: Path, share: str) -> None:
    done = run_tests(tmp_path, f"--share={share}")
    assert done.returncode == 4
    assert f"'{share}' is not a share: give for example 1/3" in done.stderr
