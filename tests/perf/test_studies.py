"""Records of studies of truth: stale studies, the contents of a fingerprint, and recorded figures."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from perf.studies import __main__ as command, modules, records
from perf.studies.progress import Progress
from perf.studies.study import Claim

SOURCE = '''
"""A module."""
from __future__ import annotations


def halved(value: float, *, digits: int = 2) -> str:
    """Return a half."""
    # A comment.
    match value:
        case 0:
            return f"{0:>{digits}}"
    return f"{value / 2:.{digits}f}" "!"
'''
SAME = """
from __future__ import annotations
def halved(
    value: float,
    *, digits: int = 2,
) -> str:
    match value:
        case 0: return f'{0:>{digits}}'
    return (f"{value / 2:.{digits}f}!")
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small package, which all studies examine."""
    package = tmp_path / "package"
    (package / "rates").mkdir(parents=True)
    (package / "rates" / "intervals.py").write_text(SOURCE)
    (package / "rates" / "levels.yaml").write_text("level: 0.95\n")
    (package / "planted.py").write_text("BIAS = 0.1\n")
    (package / "planted.yaml").write_text("women: [warm]\n")
    (package / "other.py").write_text("OTHER = 1\n")
    study = SimpleNamespace(QUESTION="Is it so?", CODE=("rates", "planted"), CASES=("one",))
    monkeypatch.setattr(records, "PACKAGE", package)
    monkeypatch.setattr(records, "RECORD", tmp_path / "recorded.yaml")
    monkeypatch.setattr(records, "study_named", lambda name: study)
    monkeypatch.setattr(command, "study_named", lambda name: study)
    return package


def test_a_fingerprint_changes_with_the_code_and_the_data_of_a_study_and_with_nothing_else(
    package: Path,
) -> None:
    before = records.fingerprint("few_items")
    (package / "rates" / "intervals.py").write_text(SAME)
    (package / "other.py").write_text("OTHER = 2\n")
    (package / "rates" / "readme.md").write_text("Notes.")
    assert records.fingerprint("few_items") == before
    changes = {
        "rates/intervals.py": SAME.replace("value / 2", "value / 3"),
        "rates/levels.yaml": "level: 0.9\n",
        "planted.py": "BIAS = 0.2\n",
        "planted.yaml": "men: [warm]\n",
    }
    for name, text in changes.items():
        original = (package / name).read_text()
        (package / name).write_text(text)
        assert records.fingerprint("few_items") != before, name
        (package / name).write_text(original)
    (package / "planted.py").unlink()
    (package / "planted.yaml").unlink()
    with pytest.raises(ValueError, match=r"a study examines tiltmeter\.planted, which does not exist"):
        records.fingerprint("few_items")


def test_a_fingerprint_covers_the_module_of_the_study_and_what_studies_have_in_common(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    digest = records._digest

    def noted(path: Path) -> str:
        read.append(path.name)
        return digest(path)

    monkeypatch.setattr(records, "_digest", noted)
    records.fingerprint("few_items")
    assert {"few_items.py", "study.py"} <= set(read)


def test_a_fingerprint_does_not_depend_on_the_version_of_python() -> None:
    """The text of this syntax tree is the same in Python 3.11, 3.12 and 3.13; those of `ast.dump` differ."""
    written = records._syntax('def f(a, *b: int):\n    "Text."\n    return f"{a:>{b}}"\n')
    arguments = (
        "args=arguments(args=[arg(arg='a')], vararg=arg(arg='b', annotation=Name(id='int', ctx=Load())))"
    )
    value = "FormattedValue(value=Name(id='a', ctx=Load()), conversion=-1, format_spec="
    width = (
        "JoinedStr(values=[Constant(value='>'),"
        " FormattedValue(value=Name(id='b', ctx=Load()), conversion=-1)])"
    )
    body = f"body=[Return(value=JoinedStr(values=[{value}{width})]))]"
    assert written == f"Module(body=[FunctionDef(name='f', {arguments}, {body})])"


def test_studies_that_must_be_carried_out_again_are_named(
    package: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = {"date": "2026-01-02", "holds": True, "fingerprint": records.fingerprint("few_items")}
    complete = {name: record | {"fingerprint": records.fingerprint(name)} for name in modules.MODULES}
    records.write(complete)
    assert records.complaints() == []
    del complete["probe_coverage"]
    complete["few_items"] = complete["few_items"] | {"fingerprint": "0"}
    complete["populations"] = complete["populations"] | {"holds": False}
    records.write(complete)
    sentences = [
        "probe_coverage: was never carried out",
        "few_items: its code has changed since 2026-01-02",
        "populations: a claim did not hold on 2026-01-02",
    ]
    assert records.complaints() == sentences
    monkeypatch.setattr(sys, "argv", ["python -m perf.studies", "--stale"])
    assert command.main() == 0, "staleness is a warning"
    assert [
        line.removeprefix("study ").partition(";")[0] for line in capsys.readouterr().out.splitlines()
    ] == sentences
    (package / "planted.py").write_text("BIAS = 0.3\n")
    assert len(records.complaints()) == len(modules.MODULES)


class Pool:
    """Carry out a task at once; the code of the study changes in the meantime."""

    def __init__(self, package: Path, claims: list[Claim]) -> None:
        self.package, self.claims = package, claims

    def submit(self, function: object, *arguments: object) -> Future[tuple[list[Claim], float]]:
        (self.package / "planted.py").write_text("BIAS = 0.3\n")
        done: Future[tuple[list[Claim], float]] = Future()
        done.set_result((self.claims, 12.3))
        return done


@pytest.mark.parametrize(("observed", "holds"), [(0.95, True), (0.5, False)])
def test_the_fingerprint_is_that_of_the_code_before_the_study(
    package: Path, observed: float, holds: bool
) -> None:
    before = records.fingerprint("few_items")
    pool: Any = Pool(package, [Claim("coverage", observed, 0.9, 1.0)])
    outcome = command.outcome("few_items", pool, Progress(None))
    assert outcome["fingerprint"] == before != records.fingerprint("few_items")
    assert (outcome["holds"], outcome["cpu_seconds"], outcome["figures"]) == (
        holds,
        12,
        {"one": {"coverage": [observed, 0.9, 1.0]}},
    )


def test_finished_cases_are_not_carried_out_again(package: Path, tmp_path: Path) -> None:
    progress = Progress(tmp_path / "progress.jsonl")
    pool: Any = Pool(package, [Claim("coverage", 0.95, 0.9, 1.0)])
    fingerprint = records.fingerprint("few_items")
    first = command.outcome("few_items", pool, progress)
    (package / "planted.py").write_text("BIAS = 0.1\n")
    assert records.fingerprint("few_items") == fingerprint
    refusing: Any = SimpleNamespace(submit=None)
    assert command.outcome("few_items", refusing, progress) == first
    (package / "planted.py").write_text("BIAS = 0.2\n")
    with pytest.raises(TypeError, match="not callable"):
        command.outcome("few_items", refusing, progress)


def test_claims_about_all_cases_are_recorded(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = SimpleNamespace(
        QUESTION="Is it so?",
        CODE=("rates",),
        CASES=("one", "two"),
        overall=lambda by_case: [
            Claim("mean", sum(claims[0].observed for claims in by_case.values()) / len(by_case), 0.9, 1.0)
        ],
    )
    monkeypatch.setattr(records, "study_named", lambda name: study)
    monkeypatch.setattr(command, "study_named", lambda name: study)
    pool: Any = Pool(package, [Claim("coverage", 0.8, 0.0, 1.0)])
    outcome = command.outcome("few_items", pool, Progress(None))
    assert outcome["figures"]["all cases"] == {"mean": [0.8, 0.9, 1.0]}
    assert not outcome["holds"]


def test_seconds_are_those_of_the_processor_and_of_child_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def carry_out(case: str) -> list[Claim]:
        if case == "waits":
            time.sleep(0.3)
        else:
            program = "import time\nwhile time.process_time() < 0.3: pass"
            subprocess.run([sys.executable, "-c", program], check=True)
        return []

    monkeypatch.setattr(modules, "study_named", lambda name: SimpleNamespace(carry_out=carry_out))
    assert modules.claims_of_case("any", "waits")[1] < 0.2
    assert modules.claims_of_case("any", "works in a child")[1] >= 0.2


@pytest.mark.verify
def test_the_claims_of_each_recorded_study_held() -> None:
    """A study whose code has changed, or that was never carried out, is a warning of `make lint`."""
    recorded = records.recorded()
    assert list(recorded) == [name for name in modules.MODULES if name in recorded]
    for name, record in recorded.items():
        study = modules.study_named(name)
        assert record["holds"]
        assert list(records._files(study.CODE))
        if record["fingerprint"] == records.fingerprint(name):
            assert [case for case in record["figures"] if case != records.TOGETHER] == list(study.CASES)
            assert record["question"] == study.QUESTION
