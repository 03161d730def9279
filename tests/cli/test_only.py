"""Some parts of a study (`--only`), and several studies in one command."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
import yaml

import tiltmeter as tm
from conftest import Tiltmeter
from tiltmeter.errors import InputError

QUIET = ("-m", "sim/fair", "--display", "none")


def about(run: Path) -> dict[str, object]:
    document: dict[str, object] = json.loads((run / "run.json").read_text())
    return document


def test_only_is_a_study_file_with_parts(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("study: genderbench\nparts: [gest, direct]\n")
    tiltmeter("run mine.yaml --limit 10 --out file", *QUIET, exits=0)
    tiltmeter("run genderbench --only gest,direct --limit 10 --out flag", *QUIET, exits=0)
    written = [yaml.safe_load((tmp_path / out / "study.yaml").read_text()) for out in ("file", "flag")]
    assert written[1]["parts"] == ["gest", "direct"]
    assert {**written[0], "inputs": None} == {**written[1], "inputs": None}
    assert about(tmp_path / "flag")["title"] == "Gender bias: 2 of 14 probes"
    tables = [pl.read_parquet(tmp_path / out / "findings.parquet") for out in ("file", "flag")]
    assert tables[0].equals(tables[1])
    tiltmeter("verify flag", exits=0)
    tiltmeter("run genderbench --only direct --only gest --limit 10 --out other", *QUIET, exits=0)
    assert list(about(tmp_path / "other")["parts"]) == ["direct", "gest"]  # type: ignore[call-overload]


def test_only_overrides_the_parts_of_a_file(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("study: genderbench\nparts: [gest, direct]\n")
    planned = json.loads(tiltmeter("plan mine.yaml --only bbq --limit 10 -f json", exits=0).stdout)
    assert [part["part"] for part in planned["parts"]] == ["bbq"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("genderbench --only gset", "--only: unknown part 'gset' of genderbench: did you mean gest?"),
        ("genderbench --only gest,gest", "--only: 'gest' is listed twice; list it once"),
        ("genderbench --only ,", "--only needs names of parts of the study, such as gest,direct"),
        ("genderbench/gest,direct", "for several parts of a study: genderbench --only gest,direct"),
        ("genderbench/gest genderbench/gest", "genderbench/gest is named twice; name it once"),
        ("genderbench genderbench/gest", "genderbench contains genderbench/gest; name one of them"),
        ("genderbench benchmarks --only gest", "--only chooses parts of one study"),
    ],
)
def test_mistakes_are_named(tiltmeter: Tiltmeter, tmp_path: Path, arguments: str, message: str) -> None:
    tiltmeter("run", *arguments.split(), *QUIET, exits=2, says=message)
    tiltmeter("plan", *arguments.split(), exits=2, says=message)
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("workplace")
def test_python_takes_names_of_parts() -> None:
    run = tm.run("genderbench", only=["direct"], model="sim/fair", limit=20, display="none", out="run")
    assert run.findings["part"].unique().to_list() == ["direct"]
    calls = tm.plan("genderbench", only="direct,gest", limit=20).parts["part"].to_list()
    assert calls == ["direct", "gest"]
    with pytest.raises(InputError, match="only= must be names of parts, not 3"):
        tm.plan("genderbench", only=3)  # type: ignore[arg-type]


@pytest.mark.usefixtures("workplace")
def test_some_parts_of_a_run_are_measured_again() -> None:
    run = tm.run("genderbench", only="gest,direct", model="sim/fair", limit=10, display="none", out="run")
    again = tm.analyse(run, only="direct", display="none", out="again")
    assert again.problems == []
    assert again.design["part"].unique().to_list() == ["direct"]
    assert again.responses.height == run.responses.join(again.design, on="prompt_id", how="semi").height
    with pytest.raises(InputError, match="--only: the run has no part 'bbq': known: gest, direct"):
        tm.analyse(run, only="bbq", display="none", out="other")


def test_parts_of_one_kind_are_one_run(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    done = tiltmeter("run genderbench/gest genderbench/direct --limit 10 --out run", *QUIET, exits=0)
    written = yaml.safe_load((tmp_path / "run" / "study.yaml").read_text())
    assert (written["study"], written["parts"]) == ("genderbench", ["gest", "direct"])
    assert "study 1 of" not in done.stderr


def test_other_kinds_have_runs_of_their_own_and_a_failure_stops_none(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    names = "genderbench/gest nosuch benchmark/g20 genderbench/direct"
    done = tiltmeter("run", *names.split(), "--limit", "4", "--out", "all", *QUIET, exits=2)
    assert "study 3 of 3: benchmarks/g20" in done.stderr
    assert "tiltmeter: nosuch: unknown study 'nosuch'" in done.stderr
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == ["benchmarks", "genderbench"]
    assert list(about(tmp_path / "all" / "genderbench")["parts"]) == [  # type: ignore[call-overload]
        "gest",
        "direct",
    ]


def test_plans_of_several_studies_have_totals(tiltmeter: Tiltmeter) -> None:
    names = ("genderbench/gest", "genderbench/direct", "benchmarks/g20", "--limit", "10")
    priced = (*names, "-m", "openai/gpt-4o-mini")
    document = json.loads(tiltmeter("plan", *priced, "-f", "json", exits=0).stdout)
    assert list(document["studies"]) == ["genderbench", "benchmarks/g20"]
    plans = document["studies"].values()
    assert document["total"]["calls"] == sum(plan["total"]["calls"] for plan in plans)
    costs = [plan["cost_usd"]["openai/gpt-4o-mini"] for plan in plans]
    assert document["total"]["to"] == pytest.approx(sum(cost["to"] for cost in costs))
    last = tiltmeter("plan", *priced, exits=0).stdout.splitlines()[-1]
    assert last.startswith(f"all 2 studies: {document['total']['calls']:,} calls, $")
    assert tiltmeter("plan", *names, exits=0).stdout.splitlines()[-1].endswith(" calls")


def test_a_limit_of_single_parts_warns_of_the_others(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("study: genderbench\nparts: [gest, direct, hiring_an]\n")
    warning = (
        "warning: --limit gest=5 limits gest only: the other 2 parts keep their size, and all parts together"
        " take {calls:,} calls per model; for gest alone, add --only gest\n"
    )
    arguments = ("mine.yaml", "--limit", "gest=5", "-m", "sim/fair")
    planned = json.loads(tiltmeter("plan", *arguments, "-f", "json", exits=0).stdout)
    expected = warning.format(calls=planned["total"]["calls"])
    assert planned["warnings"][0] == expected.removeprefix("warning: ").strip()
    done = tiltmeter("run", *arguments, "--display", "plain", exits=0)
    assert expected in done.stderr
    for other in ("5,gest=5", "quick,gest=5", "5", "gest=5,direct=5,hiring_an=5"):
        warnings = json.loads(tiltmeter("plan mine.yaml -f json --limit", other).stdout)["warnings"]
        assert not any("--only" in sentence for sentence in warnings), other
    assert "--only" not in tiltmeter("plan genderbench/gest --limit gest=5", exits=0).stdout
