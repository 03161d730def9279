"""Code that study.yaml of a run folder names is run only on request: the folder may come from someone else."""

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
rows = [{"prompt": f"Can {name} drive {item}?", "group": name, "expected": "yes"} for name in ("women", "men") for item in ("well", "far")]
PROBE = TableProbe("driving", pl.DataFrame(rows))


def length(text):
    return len(text)
"""
RAISES = "names code, which would be run .*--run-code"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Path:
    """A folder with two runs, `mine` and `theirs`, and the Python file own.py."""
    place = tmp_path_factory.mktemp("code")
    (place / "own.py").write_text(CODE)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TILTMETER_DATA", str(shared / "data"))
        environment.chdir(place)
        for name, model in (("mine", "sim/fair"), ("theirs", "sim/mild")):
            tm.run(
                "genderbench/gest", model=model, limit=4, params={"wording": "all"}, out=name, display="none"
            )
    return place


@pytest.fixture
def theirs(runs: Path, workplace: Path) -> Path:
    shutil.copytree(runs, workplace, dirs_exist_ok=True)
    return workplace / "theirs"


def name_code(run: Path, **keys: object) -> None:
    """Change study.yaml of a run folder, as its sender can."""
    path = run / "study.yaml"
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    path.write_text(yaml.safe_dump(document | keys), encoding="utf-8")


NEEDS_CODE: dict[str, Callable[[], object]] = {
    "label": lambda: tm.label("theirs", 5),
    "add labels": lambda: tm.label("theirs", labels="sample.csv", annotator="anna"),
    "analyse": lambda: tm.analyse("theirs", out="again", display="none"),
    "wordings": lambda: wording_sensitivity("theirs"),
    "verify": lambda: tm.verify("theirs"),
}
"""What cannot be done without the code of the study."""
NEEDS_NO_CODE: dict[str, Callable[[], object]] = {
    "compare": lambda: tm.compare("theirs", "mine"),
    "gate": lambda: tm.gate("theirs", fail_on="cautionary"),
    "baseline": lambda: tm.gate("mine", baseline="theirs"),
    "headline": lambda: tm.load("theirs").headline,
    "report": lambda: tm.load("theirs").report(),
    "export": lambda: tm.export("theirs", "csv", Path("findings.csv")),
}


@pytest.mark.verify
@pytest.mark.parametrize("doing", NEEDS_CODE)
def test_what_needs_the_code_asks_for_permission(theirs: Path, doing: str) -> None:
    if doing == "add labels":
        tm.label("theirs", 5).drop("allowed").with_columns(label=pl.lit("refused")).write_csv("sample.csv")
    name_code(theirs, study="own.py:PROBE")
    with pytest.raises(InputError, match=RAISES):
        NEEDS_CODE[doing]()
    assert not Path("ran").exists()


@pytest.mark.verify
@pytest.mark.parametrize("doing", NEEDS_NO_CODE)
def test_what_does_without_the_code_does_not_run_it(theirs: Path, doing: str) -> None:
    name_code(theirs, study="own.py:PROBE")
    NEEDS_NO_CODE[doing]()
    assert not Path("ran").exists()


def test_a_comparison_says_that_prompts_were_not_paired(theirs: Path) -> None:
    name_code(theirs, study="own.py:PROBE")
    (note,) = [note for note in tm.compare("theirs", "mine").notes if "could not be paired" in note]
    assert "own.py:PROBE" in note
    assert "--run-code" in note


@pytest.mark.parametrize(
    "named",
    [
        {"study": "theirs/=.py:PROBE"},
        {"study": "a,b/own.py:PROBE"},
        {"params": {"features": "own:length"}},
        {"params": {"features": "vader, own = own.py:length"}},
        {"params": {"features": "own=own:length"}},
        {"study": "benchmarks/texts", "params": {"features": "vader,own=own:length"}},
    ],
    ids=str,
)
def test_every_way_to_name_code_is_recognised(theirs: Path, named: dict[str, object]) -> None:
    name_code(theirs, **named)
    for doing in ("label", "verify", "analyse"):
        with pytest.raises(InputError, match=RAISES):
            NEEDS_CODE[doing]()


@pytest.mark.verify
def test_with_permission_runs_of_the_user_s_own_probe_are_used_as_before(theirs: Path) -> None:
    one, other = (
        tm.run("own.py:PROBE", model=model, out=name, display="none")
        for name, model in (("one", "sim/fair"), ("other", "sim/mild"))
    )
    assert not [note for note in tm.compare(one, other, run_code=True).notes if "could not be paired" in note]
    sample = tm.label(one, 4, run_code=True)
    filled = sample.with_columns(label=pl.lit("expected"))
    assert tm.label(one, labels=filled, annotator="anna", run_code=True).height
    assert tm.gate(other, baseline=one, fail_on=None, run_code=True).checks
    assert not tm.analyse(one, out="again", display="none", run_code=True).problems
    assert tm.verify(one, run_code=True).equal
