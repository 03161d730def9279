"""Fixtures for all tests."""

from __future__ import annotations

import gc
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support import property_tests, run_limit
from support.commands import call, forget_modules_of, user_environment
from support.reference_data import reference_folder, skip_without_reference_data
from support.shares import Share
from support.wording import Wording

ROOT = Path(__file__).parent.parent

# One thread for each test process and each command that it starts: the workers together already use every
# core, and OpenMP threads that spin while they wait make matrix products many times slower. It is set before
# a library reads it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell that starts the tests in the background lets them ignore Ctrl-C, and every command they start as
# well.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options with which `make record` writes the expected texts and `.ci/run` runs a share."""
    help_text = "write the expected texts of the tests marked wording from what they see (make record)"
    parser.addoption("--record", action="store_true", help=help_text)
    help_text = "run only the K-th of N shares of the tests, such as 1/3; names decide the share of a test"
    parser.addoption("--share", metavar="K/N", type=Share.read, help=help_text)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Load the profile of property tests and choose its seed before the plugin of Hypothesis reads them."""
    if config.option.record and getattr(config.option, "numprocesses", None):
        raise pytest.UsageError("--record writes the texts of all tests in one process; omit -n")
    property_tests.load_profile()
    property_tests.choose_seed(config)
    if not hasattr(config, "workerinput"):
        run_limit.limit_run(config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Prepare what all workers use."""
    property_tests.prepare_characters()


def pytest_report_header(config: pytest.Config) -> str:
    """Say how the examples of property tests can be repeated."""
    return property_tests.described_seed(config)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference data; in CI its absence is a failure, elsewhere the test is skipped."""
    folder = reference_folder()
    if folder is None:
        skip_without_reference_data()
    return folder


@pytest.fixture(scope="session")
def wording(request: pytest.FixtureRequest) -> Iterator[Wording]:
    """The expected texts; with --record they are written at the end, unless a test failed."""
    options = request.config.option
    texts = Wording(record=options.record)
    yield texts
    if options.record and not request.session.testsfailed:
        is_whole = (
            options.markexpr == "wording"
            and not options.keyword
            and request.config.args_source.name == "TESTPATHS"
            and reference_folder() is not None  # without it, tests are skipped
        )
        texts.write(whole=is_whole)


Tiltmeter = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def environment(tmp_path: Path, shared: Path) -> dict[str, str]:
    return user_environment(shared, tmp_path / "runs")


@pytest.fixture
def workplace(tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in, with runs below it, for calls in this process.

    Modules imported from it are forgotten at the end.
    """
    monkeypatch.setenv("TILTMETER_DATA", str(shared / "data"))
    monkeypatch.setenv("TILTMETER_RUNS", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    forget_modules_of(tmp_path)


@pytest.fixture
def tiltmeter(tmp_path: Path, environment: dict[str, str]) -> Tiltmeter:
    """Run the command in a new folder; return its exit status and its output.

    The first argument may contain several, separated by blanks. `exits` is the expected status, `says` a text
    that stderr must contain.
    """

    def run_command(
        *arguments: str | Path, exits: int | None = None, says: str = "", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        words = [*shlex.split(str(arguments[0])), *map(str, arguments[1:])] if arguments else []
        done = call(words, tmp_path, environment | variables)
        if exits is not None:
            assert done.returncode == exits, done.stderr or done.stdout
            assert " ".join(says.split()) in " ".join(done.stderr.split())
            assert "Traceback" not in done.stderr
        return done

    return run_command


@pytest.fixture(scope="module")
def carried_out() -> dict[tuple[str, ...], tuple[Path, subprocess.CompletedProcess[str]]]:
    """Commands of a module that were carried out, each with its folder and its output."""
    return {}


@pytest.fixture
def tiltmeter_once(
    tiltmeter: Tiltmeter,
    carried_out: dict[tuple[str, ...], tuple[Path, subprocess.CompletedProcess[str]]],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Tiltmeter:
    """Run the first command of a test once for all tests of a module that begin with it; it must succeed.

    Each test gets a copy of the files that the command wrote (run and journal).
    """

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        if arguments not in carried_out:
            done = tiltmeter(*arguments, exits=0)
            carried_out[arguments] = tmp_path_factory.mktemp("carried_out") / "files", done
            shutil.copytree(tmp_path, carried_out[arguments][0])
            return done
        files, done = carried_out[arguments]
        shutil.copytree(files, tmp_path, dirs_exist_ok=True)
        return done

    return call


TOGETHER = "tests/engine/ray/"
"""Tests that share a cluster, which takes long to start, and the cores of the machine."""
APART = ("tests/probes/test_truth.py", "tests/benchmarks/test_whole.py", "tests/associations/test_truth.py")
"""Files of many long tests without an expensive fixture in common."""
FIRST = (
    TOGETHER,
    "tests/docs/test_blocks.py",
    "tests/engine/test_soak.py",
    *APART,
    "tests/comparing/",
    "tests/reports/",
    "tests/associations/",
)
"""Tests that take longest. They begin first, so that no worker runs them alone at the end."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the chosen share, and begin with those that take longest."""
    share = config.option.share
    if share is not None:
        left_out = [item for item in items if not share.contains(item.nodeid)]
        items[:] = [item for item in items if share.contains(item.nodeid)]
        config.hook.pytest_deselected(items=left_out)
    items.sort(
        key=lambda item: next(
            (place for place, start in enumerate(FIRST) if item.nodeid.startswith(start)), len(FIRST)
        )
    )


def pytest_collection_finish() -> None:
    """Let the garbage collector run less often and ignore imported objects: it took 4% of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5000, 20, 20)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out tests by file, so that fixtures of a module are built once, and long tests one by one."""
    from xdist.scheduler import LoadScopeScheduling

    class ByPlace(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(TOGETHER):
                return TOGETHER
            return nodeid if nodeid.startswith(APART) else nodeid.partition("::")[0]

    config.option.loadscopereorder = False  # the order is that of `pytest_collection_modifyitems`
    return ByPlace(config, log)
