"""Full and read-only disks, clocks that jump, systems without locks or with few open files."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from support import lockless, misbehaving
from support.misbehaving import MisbehavingServer
from support.mounts import within
from support.programs import TESTS, run_code
from tiltmeter.engine import open_journal

pytestmark = pytest.mark.verify

ASK = """
    import sqlite3, sys
    from support.adder import Adder
    from tiltmeter.engine import Limits, Request, generate, open_journal
    from tiltmeter.errors import InputError
    from tiltmeter.models import Message, Sampling
    count = int(sys.argv[2])
    requests = (Request((Message("user", f"{number}+1" + " " * 2000),)) for number in range(count))
    try:
        with open_journal(sys.argv[1]) as journal:
            limits = Limits(max_connections=16)
            tally = generate(Adder(delay=0.01), requests, Sampling(), journal=journal, limits=limits)
            counts = journal.counts()
        state = sqlite3.connect(sys.argv[1]).execute("PRAGMA integrity_check").fetchone()[0]
        print(tally.answered, tally.held, counts["ok"], state)
    except InputError as error:
        print("InputError:", error)
"""


@pytest.fixture
def ask(tmp_path: Path) -> Path:
    """A program: JOURNAL COUNT."""
    path = tmp_path / "ask.py"
    path.write_text(f"import sys\nsys.path.insert(0, {str(TESTS)!r})\n" + textwrap.dedent(ASK))
    return path


def test_a_full_disk_is_one_sentence_and_the_run_goes_on_when_there_is_room(
    tmp_path: Path, ask: Path
) -> None:
    script = """
        $PYTHON "$1" j.db 200
        head -c 300000 /dev/zero > filler
        $PYTHON "$1" j.db 4000
        rm filler; mount -o remount,size=50m "$PWD"
        $PYTHON "$1" j.db 4000
        $PYTHON "$1" j.db 4000
    """
    before, first, second, again = within(tmp_path / "disk", "size=1500k", script, ask)
    assert (before, again) == ("200 0 200 ok", "0 4000 4000 ok")
    assert first.startswith(
        "InputError: journal j.db: the disk (or a quota) is full: free some space and run again"
    )
    answered, stored, committed, sound = second.split()
    assert int(answered) + int(stored) == int(committed) == 4000
    assert int(stored) >= 200  # what was committed before the disk was full
    assert sound == "ok"


def test_no_room_for_a_further_file_is_one_sentence(tmp_path: Path, ask: Path) -> None:
    (message,) = within(tmp_path / "disk", "size=1m,nr_inodes=2", '$PYTHON "$1" j.db 100', ask)
    assert message.startswith("InputError: journal j.db: ")


def test_a_read_only_disk_is_one_sentence_and_a_journal_on_it_stays_as_it_is(
    tmp_path: Path, ask: Path
) -> None:
    script = """
        $PYTHON "$1" j.db 100; sha256sum < j.db
        mount -o remount,ro "$PWD"
        $PYTHON "$1" j.db 100; sha256sum < j.db; $PYTHON "$1" new.db 100
        mount -o remount,rw "$PWD"
        $PYTHON "$1" j.db 100; ls
    """
    lines = within(tmp_path / "disk", "size=5m", script, ask)
    assert (lines[0], lines[1]) == ("100 0 100 ok", lines[3])
    for sentence, name in ((lines[2], "j.db"), (lines[4], "new.db")):
        assert sentence.startswith(f"InputError: journal {name}: ")
        assert "writable" in sentence or "read-only" in sentence
    assert lines[5:] == ["0 100 100 ok", "j.db"]


def test_a_clock_that_jumps_back_and_forward_changes_nothing(tmp_path: Path, ask: Path) -> None:
    jump = """
        import itertools, time
        turn, real = itertools.count(), time.time
        time.time = lambda: real() + (-1) ** next(turn) * 400 * 86_400
    """
    jumping = tmp_path / "jumping.py"
    jumping.write_text(textwrap.dedent(jump) + ask.read_text())
    # Two at once, so that each looks whether the other lives; and one after them.
    both = [
        subprocess.Popen(
            [sys.executable, jumping, tmp_path / "j.db", "2000"], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    sentences = [tuple(map(int, process.communicate(timeout=60)[0].split()[:2])) for process in both]
    assert sum(answered for answered, _ in sentences) == 2000
    assert [sum(counts) for counts in sentences] == [2000, 2000]
    last = subprocess.run(
        [sys.executable, jumping, tmp_path / "j.db", "2000"], capture_output=True, text=True, timeout=60
    )
    assert last.stdout == "0 2000 2000 ok\n"


@pytest.mark.skipif(not lockless.works_here(), reason="needs the system calls of Linux on x86-64")
def test_a_file_system_without_locks_is_refused_with_a_sentence(tmp_path: Path) -> None:
    cli, place = [sys.executable, "-m", "tiltmeter"], ["--journal", str(tmp_path / "j.db")]
    run = [sys.executable, lockless.__file__, *cli, "run", "genderbench/direct", "-m", "sim/fair", *place]
    without = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert without.returncode == 2
    assert "No locks available; choose another place" in without.stderr
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    open_journal(place[1]).close()  # where there are locks, the same journal can be opened
    stats = subprocess.run([*cli, "journal", "stats", *place], capture_output=True, text=True, check=True)
    assert "its file system does not support locks" not in stats.stdout


FEW_FILES = """
    import resource, sys
    from tiltmeter.engine import Limits, Request, generate, open_journal
    from tiltmeter.models import Message, Sampling, create_model
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, int(sys.argv[3])))
    requests = [Request((Message("user", f"prompt {number}"),)) for number in range(600)]
    with open_journal(sys.argv[2]) as journal:
        model, limits = create_model("vllm/m", base_url=sys.argv[1]), Limits(max_connections=128)
        tally = generate(model, requests, Sampling(), journal=journal, limits=limits)
    print(tally.answered, sum(tally.errors.values()))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
@pytest.mark.parametrize("most", [64, 1024])
def test_few_open_files_mean_fewer_connections_and_no_failure(tmp_path: Path, most: int) -> None:
    with MisbehavingServer(lambda request, nth: misbehaving.slow(0.05)) as server:
        done = run_code(FEW_FILES, server.url, tmp_path / "j.db", most, check=False, timeout=60)
        assert done.stdout == "600 0\n", done.stderr
        if most == 64:
            assert server.max_concurrent < 64 - 8
            assert re.fullmatch("this process may have only 64 open files.*", done.stderr.strip())
        else:
            assert server.max_concurrent > 64
            assert done.stderr.strip() == ""
