"""`tiltmeter build` and `tiltmeter benchmark`, as a user calls them."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path

import polars as pl
import pytest

from conftest import ROOT, Tiltmeter
from support.commands import begin

EXAMPLE = ROOT / "examples" / "benchmark_spec"
ROWS = (
    "concept,prompt,baseline\n"
    "Chad,Chad is,Chad is big.\n"
    "Chad,Chad has,Chad has a lake.\n"
    "Mali,Mali is,Mali is big.\n"
)


def test_the_example_is_built_checked_shown_and_built_again(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "spec")
    done = tiltmeter("build spec/spec.yaml -o religions", exits=0)
    assert "about 4 concepts" in done.stdout
    assert [line.split()[0] for line in done.stderr.splitlines()] == [
        "keywords",
        "pages",
        "sentences",
        "prompts",
        "benchmark",
    ]
    first = (tmp_path / "religions" / "benchmark.parquet").read_bytes()
    again = tiltmeter("build spec/spec.yaml -o religions --offline", exits=0)
    assert again.stderr.count("unchanged") == 5
    assert (tmp_path / "religions" / "benchmark.parquet").read_bytes() == first
    assert sorted(path.name for path in (tmp_path / "religions").iterdir()) == [
        "benchmark.parquet",
        "benchmark.yaml",
        "stages",
    ]
    checked = tiltmeter("benchmark check religions -f json", exits=0)
    assert {row["level"] for row in json.loads(checked.stdout)} <= {"note", "warning"}
    screen = json.loads(tiltmeter("benchmark show religions --prompts 4 -f json").stdout)[0]
    assert [row["concept"] for row in screen["concepts"]] == ["Buddhism", "Hinduism", "Judaism", "Sikhism"]
    assert len({row["concept"] for row in screen["prompts"]}) == 4


def test_an_edited_stage_is_named_and_used(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "spec")
    assert tiltmeter("build spec/spec.yaml -o out").returncode == 0
    path = tmp_path / "out" / "stages" / "keywords.parquet"
    pl.read_parquet(path).filter(pl.col("keyword") != "Jews").write_parquet(path)
    tiltmeter("build spec/spec.yaml -o out", exits=0, says="keywords            11  edited by hand; kept")


def test_benchmark_check_names_faults_and_ends_with_2_if_the_benchmark_cannot_be_run(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    (tmp_path / "b.csv").write_text(ROWS + "Mali,Chad and Mali are,\n")
    done = tiltmeter("benchmark check b.csv", exits=0)
    assert "1 prompt naming another concept (Chad 1)" in done.stdout
    assert "1 prompt without a baseline" in done.stdout
    (tmp_path / "b.csv").write_text(ROWS + "Mali,,\n")
    done = tiltmeter("benchmark check b.csv")
    assert (done.returncode, "1 row without a prompt" in done.stdout) == (2, True)


def test_benchmark_sample_is_printed_or_written(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text(ROWS)
    printed = json.loads(tiltmeter("benchmark sample b.csv --size 2 -f json").stdout)
    assert sorted(row["concept"] for row in printed) == ["Chad", "Mali"]
    tiltmeter("benchmark sample b.csv --size 2 -o small.parquet", exits=0)
    assert pl.read_parquet(tmp_path / "small.parquet")["key"].to_list() == [row["key"] for row in printed]


def test_benchmark_schema_is_printed(tiltmeter: Tiltmeter) -> None:
    assert json.loads(tiltmeter("benchmark schema").stdout)["title"] == "Spec"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("build none.yaml -o out", "cannot read the spec none.yaml"),
        ("build odd.yaml -o out", "odd.yaml: unknown key 'concept': did you mean concepts?"),
        ("build spec.yaml -o b.csv", "b.csv is a file; give the name of a folder with --out"),
        ("build spec.yaml -o b.csv/out", "cannot write b.csv/out"),
        ("build spec.yaml -o out", "assemble.kind: question requires a judge; give one with --judge"),
        ("build spec.yaml -o out --judge nonsense", "provider/model"),
        ("build spec.yaml -o out -J temperature=0", "-J and --judge-base-url need a judge"),
        ("build spec.yaml", "--out"),
        ("benchmark check none.csv", "there is no file none.csv"),
        ("benchmark check spec.yaml", "unknown file extension '.yaml'"),
        ("benchmark check b.csv -f xml", "is not one of table, json"),
        ("benchmark show b.csv --concept Chat", "b.csv has no concept 'Chat': did you mean Chad?"),
        ("benchmark sample b.csv --size 0", "--size"),
        ("benchmark sample b.csv --size 1 -o x.txt", "unknown file extension '.txt'"),
    ],
)
def test_mistakes_in_the_arguments_of_build_and_benchmark_are_explained(
    tiltmeter: Tiltmeter, tmp_path: Path, arguments: str, message: str
) -> None:
    (tmp_path / "b.csv").write_text(ROWS)
    (tmp_path / "odd.yaml").write_text(
        "name: a\ndomain: b\nconcepts: {Chad: {local: [chad.md]}}\nconcept: {}\n"
    )
    (tmp_path / "chad.md").write_text("The people of Chad live in the centre of the continent.\n")
    (tmp_path / "spec.yaml").write_text(
        "name: a\ndomain: b\nconcepts: {Chad: {local: [chad.md]}}\nassemble: {kind: question}\n"
    )
    tiltmeter(arguments, exits=2, says=message)
    assert not list(tmp_path.glob("out/benchmark*"))
    assert not list(tmp_path.rglob(".benchmark*"))


@pytest.mark.verify
def test_a_build_that_is_killed_in_any_stage_can_be_continued(
    tiltmeter: Tiltmeter, tmp_path: Path, environment: dict[str, str]
) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "spec")
    command = ("build", "spec/spec.yaml", "-o", "out")
    for table in ("keywords", "pages", "sentences", "prompts"):
        with begin(command, tmp_path, environment, stdout=subprocess.DEVNULL) as process:
            deadline = time.monotonic() + 60
            while not (tmp_path / "out" / "stages" / f"{table}.parquet").exists():
                assert process.poll() is None, f"it ended before it could be killed behind {table}"
                assert time.monotonic() < deadline
                time.sleep(0.001)
            process.kill()
    done = tiltmeter(*command, exits=0)
    assert "edited" not in done.stderr
    assert "unchanged" in done.stderr
    assert tiltmeter("build spec/spec.yaml -o fresh").returncode == 0
    assert (tmp_path / "out" / "benchmark.parquet").read_bytes() == (
        tmp_path / "fresh" / "benchmark.parquet"
    ).read_bytes()
    assert not [path for path in (tmp_path / "out").rglob(".*") if path.is_file()]
