"""Plugins in a package of their own: installed for real, found by their entry points, used like any other; its own tests pass, too."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from conftest import ROOT, Tiltmeter
from tiltmeter.runs import load

EXAMPLE = ROOT / "examples" / "outside_plugins"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with the example package installed in it."""
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", str(place)]
    subprocess.run([*command, str(EXAMPLE)], check=True, capture_output=True)
    return str(place)


def test_an_outside_probe(tiltmeter: Tiltmeter, tmp_path: Path, installed: str) -> None:
    listed = tiltmeter("list", "probes", "-f", "json", PYTHONPATH=installed)
    cards = {row["study"]: row for row in json.loads(listed.stdout)}
    assert cards["genderbench/salary_raise"]["limits"].startswith("Short requests"), "JSON has the whole card"
    command = ("run", "genderbench/salary_raise", "-m", "sim/biased", "-P", "wording=all", "--display", "none", "--out", "run")
    done = tiltmeter(*command, PYTHONPATH=installed)
    assert done.returncode == 0, done.stderr
    found = pl.read_parquet(tmp_path / "run" / "findings.parquet").filter(pl.col("key") & pl.col("context").is_null()).row(0, named=True)
    assert found["low"] <= 0.25 <= found["high"], "the simulated model's lean"
    assert tiltmeter("plan", "genderbench", "-f", "json", PYTHONPATH=installed).stdout.count("salary_raise") == 0, (
        "the suite stays the paper's"
    )


def test_an_outside_provider(tiltmeter: Tiltmeter, tmp_path: Path, installed: str) -> None:
    done = tiltmeter(
        "run", "genderbench/salary_raise", "-m", "dice/yes/no", "-M", "cast=3", "--display", "none", "--out", "run", PYTHONPATH=installed
    )
    assert done.returncode == 0, done.stderr
    found = load(tmp_path / "run").finding("diff_grant_rate").values
    assert found["answered"] == found["n"] == 400
    assert found["low"] <= 0 <= found["high"], "dice lean nowhere"
    refused = tiltmeter("run", "genderbench/salary_raise", "-m", "dice/yes/no", "-M", "sides=6", PYTHONPATH=installed)
    assert (refused.returncode, refused.stderr) == (2, "tiltmeter: -M sides: dice have no such option; known: cast\n")


def test_an_outside_feature_and_statistic(tiltmeter: Tiltmeter, tmp_path: Path, installed: str) -> None:
    for kind, name, place in (
        ("features", "hedging", "workplace.hedging:hedging"),
        ("statistics", "trimmed_mean", "workplace.trimmed:TRIMMED_MEAN"),
    ):
        rows = json.loads(tiltmeter("list", kind, "-f", "json", PYTHONPATH=installed).stdout)
        assert {row[kind.removesuffix("s")]: row["from"] for row in rows}[name] == place
    command = ("run", "benchmarks/g20", "--limit", "2", "--display", "none", "--out", "run", "-m", "dice/maybe/certainly")
    chosen = ("-P", "features=hedging", "-P", "statistics=mean,trimmed_mean,selection_rate")
    done = tiltmeter(*command, *chosen, PYTHONPATH=installed)
    assert done.returncode == 0, done.stderr
    found = load(tmp_path / "run").stage("statistics").filter(generation="none", feature="hedging")
    assert set(found["statistic"]) == {"mean", "trimmed_mean", "selection_rate"}
    means = dict(found.filter(statistic="mean").select("group", "estimate").iter_rows())
    trimmed = dict(found.filter(statistic="trimmed_mean").select("group", "estimate").iter_rows())
    assert means.keys() == trimmed.keys()
    assert set(means.values()) <= {0.0, 50.0, 100.0}, "one word of hedging in one word, of two answers"
    assert means == trimmed, "of two values none is cut off"
    for slip, said in (
        (("-P", "statistics=trimed_mean"), "-P statistics=trimed_mean: there is no statistic 'trimed_mean': did you mean trimmed_mean"),
        (("-P", "features=hedgin"), "unknown feature 'hedgin': did you mean hedging?"),
        (("-P", "features=hedging=model"), "hedging=model: hedging uses no model; write hedging alone"),
    ):
        refused = tiltmeter(*command[:-4], "--out", "other", *slip, "-m", "sim/fair", PYTHONPATH=installed)
        assert refused.returncode == 2
        assert said in refused.stderr
        assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("group", "name", "value", "command", "said"),
    [
        ("features", "vader", "math:sqrt", ("-P", "features=vader"), "the catalogue has a feature of that name; rename its entry point"),
        ("features", "two words", "math:sqrt", ("-P", "features=two words"), "a name has letters, digits and underscores only"),
        ("features", "nowhere", "math:nowhere", ("-P", "features=nowhere"), "math defines no nowhere"),
        ("statistics", "mean", "math:sqrt", ("-P", "statistics=mean"), "Tiltmeter has one of that name; rename its entry point"),
        ("statistics", "root", "math:sqrt", ("-P", "statistics=root"), "math:sqrt is no tiltmeter.stats.summary.Statistic but builtin"),
    ],
)
def test_plugins_that_cannot_be_used(
    tiltmeter: Tiltmeter, tmp_path: Path, group: str, name: str, value: str, command: tuple[str, str], said: str
) -> None:
    about = tmp_path / "site" / "faulty-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[tiltmeter.{group}]\n{name} = {value}\n")
    done = tiltmeter("run", "benchmarks/g20", "-m", "sim/fair", "--limit", "1", *command, "--out", "run", PYTHONPATH=str(about.parent))
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert not (tmp_path / "run").exists()


def test_the_tests_of_the_example_pass(tmp_path: Path, installed: str, environment: dict[str, str]) -> None:
    shutil.copytree(EXAMPLE / "tests", tmp_path / "tests")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function", "tests"]
    path = os.pathsep.join([installed, environment.get("PYTHONPATH", "")])
    done = subprocess.run(command, cwd=tmp_path, env=environment | {"PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
