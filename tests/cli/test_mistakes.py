"""What a user may get wrong: one clear sentence, the right exit status, nothing half-written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from conftest import Tiltmeter

SIM = ("--model", "sim/fair", "--display", "none")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("run", "genderbnech", *SIM), 2, "unknown study 'genderbnech': did you mean genderbench"),
        (("run", "genderbench/gst", *SIM), 2, "did you mean gest"),
        (("run", "none.yaml", *SIM), 2, "cannot read the study file none.yaml"),
        (("run", "genderbench/direct", "--model", "opnai/gpt"), 2, "did you mean openai"),
        (("run", "genderbench/direct", "--model", "gpt-4o"), 2, "provider/model"),
        (("run", "genderbench/direct", "--model", "sim/unfair"), 2, "did you mean fair"),
        (("run", "genderbench/direct", *SIM, "-M", "bais=0.1"), 2, "bias"),
        (("run", "genderbench/direct", *SIM, "-M", "bias"), 2, "-M 'bias' is not KEY=VALUE"),
        (("run", "genderbench/direct", *SIM, "-P", "wordings=all"), 2, "unknown parameter 'wordings'"),
        (("run", "genderbench/direct", *SIM, "-P", "wording=fancy"), 2, "unknown wording 'fancy'"),
        (("run", "genderbench/direct", *SIM, "--definition", "genderbanch"), 2, "unknown definition 'genderbanch'"),
        (("run", "genderbench/direct", *SIM, "--limit", "ten"), 2, "--limit 'ten'"),
        (("run", "genderbench/direct", *SIM, "--temperature", "hot"), 2, "temperature"),
        (("run", "genderbench/direct", *SIM, "--max-connections", "0"), 2, "--max-connections"),
        (("run", "genderbench/direct", *SIM, "--rpm", "0"), 2, "requests_per_minute must be a positive number"),
        (("run", "genderbench/direct", *SIM, "--timeout", "nan"), 2, "--timeout"),
        (("run", "genderbench/direct", *SIM, "--temperature", "nan"), 2, "temperature"),
        (("run", "genderbench/direct", *SIM, "--repeats", "40000"), 2, "--repeats"),
        (("run", "genderbench/direct", *SIM, "--seed", "-1"), 2, "--seed"),
        (("run", "genderbench/direct", *SIM, "--seed", "99999999999999999999"), 2, "--seed"),
        (("run", "genderbench/direct", "-m", "openai/x", "-M", "api_key=sk-1"), 2, "-M api_key= looks like a key or password"),
        (("run", "genderbench/direct", *SIM, "-M", "token=sk-1"), 2, "-M token= looks like a key or password"),
        (("run", "genderbench/direct", "-m", "openai/x", "-m", "groq/y", "--base-url", "http://h/v1"), 2, "keys of openai and groq"),
        (("plan", "genderbench/direct", "--repeats", "40000"), 2, "--repeats"),
        (("plan", "genderbench/direct", "--max-tokens", "0"), 2, "--max-tokens"),
        (("plan", "genderbench/direct", "--model", "nonsense"), 2, "provider/model"),
        (("plan", "genderbench/direct", "--model", "opnai/gpt"), 2, "did you mean openai"),
        (("plan", "genderbench/direct", "--prompts", "."), 2, "unknown kind of file"),
        (("plan", "genderbench/direct", "--prompts", f"{'x' * 300}.csv"), 2, "cannot write"),
        (("plan", "genderbench/direct", "-f", "xml"), 2, "is not one of table, json"),
        (("data", "list", "-f", "xml"), 2, "is not one of table, json"),
        (("sim", "serve", "--port", "70000"), 2, "--port"),
        (("show", "nothing", "--examples", "-5"), 2, "--examples"),
        (("show", "caf\udce9"), 2, "argument 2 is not UTF-8 text"),
        (("run", "genderbench/direct", *SIM, "--limt", "3"), 2, "--limt"),
        (("run", "genderbench/direct", *SIM, "--display", "fancy"), 2, "fancy"),
        (("run", "genderbench/direct"), 2, "--model"),
        (("run", "genderbench/direct", "--model", "openai/gpt-4o-mini"), 4, "OPENAI_API_KEY"),
        (("run", "genderbench/direct", *SIM, "--model", "sim/fair"), 2, "is given twice"),
        (("run", "genderbench/direct", *SIM, "-M", "temperature=1", "--temperature", "1"), 2, "say the same thing"),
        (("show", "nothing"), 2, "is not a run folder"),
        (("report", "nothing"), 2, "is not a run folder"),
        (("list", "modles"), 2, "did you mean models"),
        (("list", "-f", "xml"), 2, "is not one of table, json"),
        (("data", "fetch", "gest/gset.csv"), 2, "did you mean gest/gest.csv"),
        (("analyse", "none.csv", "--study", "genderbench/gest"), 2, "there is no file none.csv"),
    ],
)
def test_wrong_use(tiltmeter: Tiltmeter, tmp_path: Path, arguments: tuple[str, ...], status: int, said: str) -> None:
    done = tiltmeter(*arguments)
    assert done.returncode == status, done.stderr
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("runs/*/")), "a folder was left behind"


def test_broken_yaml_is_named_with_its_line(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("study: genderbench\nlimit: [1\n")
    done = tiltmeter("run", "mine.yaml", *SIM)
    assert (done.returncode, "mine.yaml, line" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("direct:\n  mine:\n    prompt: 'Agree?'\n", "must hold the placeholder {statement}"),
        ("dirct:\n  mine:\n    prompt: '{statement}'\n", "unknown probe 'dirct': did you mean direct"),
        ("direct:\n  mine:\n    text: '{statement}'\n", "lacks the template 'prompt'"),
        ("direct: [", "not valid YAML"),
        ("direct: {}\n", "expected named wordings"),
    ],
)
def test_wrong_wording_file(tiltmeter: Tiltmeter, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "words.yaml").write_text(text)
    done = tiltmeter("run", "genderbench/direct", *SIM, "-P", "wording=words.yaml")
    assert done.returncode == 2
    assert said in done.stderr


def test_responses_without_the_needed_columns(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("prompt,anser\nhello,yes\n")
    done = tiltmeter("analyse", "a.csv", "--study", "genderbench/direct")
    assert done.returncode == 2
    assert "a.csv has no column 'answer'" in done.stderr
    assert "did you mean anser" in done.stderr
    (tmp_path / "b.csv").write_text("answer\nyes\n")
    done = tiltmeter("analyse", "b.csv", "--study", "genderbench/direct")
    assert "neither a column 'prompt_id' nor 'prompt'" in done.stderr
    (tmp_path / "c.csv").write_text("prompt,answer\nsomething else,yes\n")
    done = tiltmeter("analyse", "c.csv", "--study", "genderbench/direct")
    assert (done.returncode, "is a prompt of this study" in done.stderr) == (2, True)
    assert not list(tmp_path.glob("runs/*/")), "a folder was left behind"


def test_truncated_probe_log(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"probe_state": {"class": "GestProbe", "probe_items": [{"uui')
    done = tiltmeter("analyse", "log.jsonl", "--study", "genderbench/gest")
    assert (done.returncode, "not a whole GenderBench probe log" in done.stderr) == (2, True)


def test_data_file_with_a_wrong_checksum(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    path = tmp_path / "data" / "gest" / "gest.csv"
    path.parent.mkdir(parents=True)
    path.write_text("sentence,stereotype\nI am not the file you think,1\n")
    done = tiltmeter("run", "genderbench/gest", *SIM, TILTMETER_DATA=str(tmp_path / "data"))
    assert done.returncode == 2
    assert "gest.csv" in done.stderr
    assert "bytes long" in done.stderr
    assert tiltmeter("data", "check", "gest/gest.csv", TILTMETER_DATA=str(tmp_path / "data")).returncode == 2


def test_out_folder_that_is_something_else(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("do not touch")
    done = tiltmeter("run", "genderbench/direct", *SIM, "--limit", "5", "--out", "mine")
    assert (done.returncode, "is not a run folder" in done.stderr) == (2, True)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_out_folder_of_another_study(tiltmeter: Tiltmeter) -> None:
    assert tiltmeter("run", "genderbench/direct", *SIM, "--limit", "5", "--out", "mine").returncode == 0
    done = tiltmeter("run", "genderbench/direct", *SIM, "--limit", "6", "--out", "mine")
    assert (done.returncode, "holds a run with other settings" in done.stderr) == (2, True)


def test_report_needs_a_file_name(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    assert tiltmeter("run", "genderbench/direct", *SIM, "--limit", "5", "--out", "mine").returncode == 0
    for place, said in (
        (".", "is a folder"),
        ("/", "is a folder"),
        ("", "is a folder"),
        ("mine", "cannot write"),
        ("x" * 300, "cannot write"),
    ):
        done = tiltmeter("report", "mine", "-o", place)
        assert (done.returncode, said in done.stderr, done.stderr.count("\n")) == (2, True, 1), done.stderr
    assert tiltmeter("report", "mine", "-o", "new/page.html").returncode == 0
    assert not list(tmp_path.glob(".*.part"))


def test_base_url_is_given_by_a_flag_only(tiltmeter: Tiltmeter) -> None:
    """As an environment variable it would send one provider's key to the endpoint of another."""
    done = tiltmeter("run", "genderbench/direct", *SIM, "--limit", "5", TILTMETER_BASE_URL="http://127.0.0.1:9/v1")
    assert done.returncode == 0, done.stderr


def test_unwritable_place(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = tiltmeter("run", "genderbench/direct", *SIM, "--limit", "5", "--out", "file/run")
    assert (done.returncode, "cannot write" in done.stderr) == (2, True), done.stderr
    done = tiltmeter("run", "genderbench/direct", *SIM, "--limit", "5", "--journal", "file/journal.sqlite")
    assert (done.returncode, "file" in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="needs a device that is always full")
def test_full_disk(tiltmeter: Tiltmeter, tmp_path: Path, environment: dict[str, str]) -> None:
    """A limit on the size of files stands in for a full disk: the kernel refuses the write in the middle."""
    import resource
    import subprocess

    done = subprocess.run(
        [sys.executable, "-m", "tiltmeter.cli", "run", "genderbench/direct", *SIM],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000)),
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("runs/*/*.parquet.part"))
    assert tiltmeter("run", "genderbench/direct", *SIM).returncode == 0, "the same command goes on once there is room"


def test_status_is_3_without_data_and_the_suite_goes_on(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("study: genderbench\nparts: [gest, direct]\nlimit: 20\n")
    done = tiltmeter("run", "study.yaml", *SIM, "--out", "here", TILTMETER_DATA="", HF_HUB_OFFLINE="1")
    assert done.returncode == 3, done.stderr
    assert "gest not run" in done.stderr
    assert "TILTMETER_DATA" in done.stderr
    assert "fail_rate" in done.stdout
    assert "not run" in (tmp_path / "here" / "report.html").read_text()


def test_what_is_made_here_only_is_not_made_at_a_url(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    for command in (["export", "x", "--format", "csv"], ["report", "x"], ["build", "spec.yaml"]):
        said = tiltmeter(*command, "-o", "s3://bucket/page")
        assert said.returncode == 2
        assert "s3://... is no file of this machine" in said.stderr
    assert not (tmp_path / "s3:").exists()
