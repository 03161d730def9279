"""Runs of simulated models, made once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tiltmeter as tm
from tiltmeter.runs import Run

MakeRun = Callable[..., Run]


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Iterator[Path]:
    """A folder whose runs are kept apart from those of other tests."""
    home = tmp_path_factory.mktemp("comparing")
    (home / "three.yaml").write_text(
        "study: genderbench\nparts: [direct, gest, inventories]\nparams: {wording: plain}\n", encoding="utf-8"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILTMETER_DATA", str(shared / "data"))
        patch.setenv("TILTMETER_RUNS", str(home / "runs"))
        yield home


@pytest.fixture(scope="session")
def three(place: Path) -> MakeRun:
    """A function that runs three probes, by default with the fair model."""

    def make_run(model: str | list[str] = "sim/fair", limit: int = 149, **more: object) -> Run:
        return tm.run(str(place / "three.yaml"), model=model, limit=limit, **more)  # type: ignore[arg-type]

    return make_run


@pytest.fixture(scope="session")
def dealt(place: Path) -> Run:
    """A run of a fair and a biased model with the default wordings: each item is asked in one of ten."""
    (place / "dealt.yaml").write_text(
        "study: genderbench\nparts: [direct, gest, inventories]\n", encoding="utf-8"
    )
    return tm.run(str(place / "dealt.yaml"), model=["sim/fair", "sim/biased"], limit=149)


@pytest.fixture(scope="session")
def both(three: MakeRun) -> Run:
    """A run of a fair and a biased model."""
    return three(["sim/fair", "sim/biased"])
