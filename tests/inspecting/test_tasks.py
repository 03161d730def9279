"""Probes as tasks of Inspect, run by Inspect itself: the same prompts, labels and numbers as without it.

Inspect runs in a separate process: its libraries leave streams open, for which a later test would fail.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import Tiltmeter
from support.analysing import analyse
from support.installed import install, python_path
from tiltmeter.runs import Run

LACKING = pytest.mark.skipif(find_spec("inspect_ai") is None, reason="Inspect is not installed")
pytestmark = [pytest.mark.verify, pytest.mark.usefixtures("workplace"), LACKING]

EVALUATE = '''
import hashlib, json, sys
from pathlib import Path

from inspect_ai import eval
from inspect_ai.log import write_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from tiltmeter.errors import InputError
from tiltmeter.inspecting import probe_task

ANSWERS = [
    "(a)", "(b), because", "Yes.", "no", "I'm sorry, but I can't help with that.", "", "He was tired.",
    "Nobody \u202e" * 40,
]

def answer(messages, *_):
    """Answer by a hash of the prompt; one in twelve prompts is stopped by a filter."""
    drawn = hashlib.sha256(messages[-1].text.encode()).digest()[0]
    output = ModelOutput.from_content("mockllm/model", ANSWERS[drawn % len(ANSWERS)])
    if drawn % 12 == 0:
        output.choices[0].stop_reason = "content_filter"
    # To count tokens, Inspect would use the network.
    output.usage = ModelUsage(input_tokens=11, output_tokens=2, total_tokens=13)
    return output

for case, (probe, settings) in json.loads(sys.argv[1]).items():
    try:
        task = probe_task(probe, **settings)
    except InputError as error:
        Path(f"{case}.txt").write_text(str(error))
        continue
    model = get_model("mockllm/model", custom_outputs=answer)
    (log,) = eval(task, model=model, log_dir=f"logs/{case}", display="none")
    write_eval_log(log, f"{case}.json")
    Path(log.location).rename(f"{case}.eval")
'''

TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "gest": ("gest", {"limit": 12}),
    "original": ("gest", {"limit": 12, "definition": "genderbench"}),
    "epochs": ("discrimination_tamkin", {"limit": 8}),
    "wordings": ("inventories", {"limit": 6, "wording": "all", "repeats": 2}),
    "seed": ("relationship_levy", {"limit": "0-9", "seed": 7}),
    "system": ("dreaddit", {"limit": 3, "system_message": "Be brief.", "repeats": 1}),
    "misspelt": ("guest", {}),
    "unworded": ("gest", {"wording": "nonesuch"}),
    "unlimited": ("gest", {"limit": "some"}),
}
ANALYSED: dict[str, dict[str, Any]] = {
    "gest": {},
    "original": {"definition": "genderbench"},
    "epochs": {},
    "wordings": {"params": {"wording": "all"}},
    "seed": {"seed": 7},
}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Path:
    """A folder with the log of every case of TASKS, as `CASE.eval` and `CASE.json`.

    A case that is refused has its error message in `CASE.txt`.
    """
    place = tmp_path_factory.mktemp("logs")
    environment = {"TILTMETER_DATA": str(shared / "data"), "HOME": str(place), "PATH": ""}
    command = [sys.executable, "-c", EVALUATE, json.dumps(TASKS)]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return place


def analysed(path: Path, probe: str, **settings: Any) -> Run:
    return analyse(path, study=f"genderbench/{probe}", settings=settings)


def log_of(logs: Path, case: str) -> dict[str, Any]:
    log: dict[str, Any] = json.loads((logs / f"{case}.json").read_text(encoding="utf-8"))
    assert log["status"] == "success", log.get("error")
    return log


@pytest.mark.parametrize("case", ANALYSED)
def test_metrics_of_a_task_are_the_findings_of_analyse(tmp_path: Path, logs: Path, case: str) -> None:
    probe, log = TASKS[case][0], log_of(logs, case)
    run = analysed(logs / f"{case}.eval", probe, **ANALYSED[case])
    from_json = analysed(logs / f"{case}.json", probe, **ANALYSED[case])
    assert run.responses.equals(from_json.responses), "both kinds of log contain the same"
    assert run.about["models"] == [{"name": "mockllm/model"}]
    findings = run.findings.filter(pl.col("key") & pl.col("wording").is_null())
    metrics = {name: metric["value"] for name, metric in log["results"]["scores"][0]["metrics"].items()}
    assert findings.height
    for row in findings.iter_rows(named=True):
        for name, column in (
            (row["metric"], "estimate"),
            (f"{row['metric']}_low", "low"),
            (f"{row['metric']}_high", "high"),
        ):
            assert metrics[name] == row[column] or (math.isnan(metrics[name]) and row[column] is None), name
        for outcome in ("answered", "refused", "unreadable", "empty", "failed"):
            assert metrics[outcome] == pytest.approx(row[outcome] / row["attempts"])
    read = run.measures.select("prompt_id", "repetition", "outcome", "label")
    scored = {
        (sample["id"], sample["epoch"] - 1): sample["scores"]["reading"]["value"] for sample in log["samples"]
    }
    assert scored == {
        (name, repetition): label or outcome for name, repetition, outcome, label in read.iter_rows()
    }
    unfiltered = [
        sample
        for sample in log["samples"]
        if sample["output"]["choices"][0]["stop_reason"] != "content_filter"
    ]
    rows = [
        {
            "prompt_id": sample["id"],
            "repetition": sample["epoch"] - 1,
            "answer": sample["output"]["completion"],
        }
        for sample in unfiltered
    ]
    pl.DataFrame(rows).write_csv(tmp_path / "answers.csv")
    by_table = analysed(tmp_path / "answers.csv", probe, **ANALYSED[case]).measures.select(read.columns)
    assert by_table.height
    assert read.join(by_table, on=["prompt_id", "repetition"], how="semi").equals(by_table), (
        "a table of answers gives the same measures as a log"
    )


def test_the_messages_of_a_task_are_those_of_a_run(logs: Path) -> None:
    log = log_of(logs, "system")
    design = dict(analysed(logs / "system.eval", "dreaddit").design.select("prompt_id", "prompt").iter_rows())
    roles = {sample["id"]: [message["role"] for message in sample["input"]] for sample in log["samples"]}
    assert set(map(tuple, roles.values())) == {("system", "user")}
    assert {sample["input"][0]["content"] for sample in log["samples"]} == {"Be brief."}
    assert {sample["input"][1]["content"] for sample in log["samples"]} == {design[name] for name in roles}
    assert log["plan"]["config"].items() >= {"temperature": 1.0, "top_p": 1.0, "max_tokens": 300}.items()


def test_a_filter_is_a_refusal_and_tokens_are_kept(logs: Path) -> None:
    run = analysed(logs / "gest.eval", "gest")
    filtered = [
        sample["id"]
        for sample in log_of(logs, "gest")["samples"]
        if sample["output"]["choices"][0]["stop_reason"] == "content_filter"
    ]
    assert filtered
    assert set(run.measures.filter(pl.col("prompt_id").is_in(filtered))["outcome"]) == {"refused"}
    assert set(run.responses["input_tokens"]) == {11}


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("misspelt", "unknown probe 'guest': did you mean gest"),
        ("unworded", "nonesuch"),
        ("unlimited", "--limit 'some'"),
    ],
)
def test_mistakes_in_the_arguments_of_a_task_are_named(logs: Path, case: str, message: str) -> None:
    assert message in (logs / f"{case}.txt").read_text(encoding="utf-8")


ECHO = """
from inspect_ai.model import ModelAPI, ModelOutput, modelapi

@modelapi(name="echo")
class Echo(ModelAPI):
    async def generate(self, input, tools, tool_choice, config):
        return ModelOutput.from_content(self.model_name, "(a)")
"""


def test_inspect_finds_the_tasks_by_the_entry_point(
    tiltmeter: Tiltmeter, tmp_path: Path, environment: dict[str, str]
) -> None:
    site = install(tmp_path / "site", "echo", {"inspect_ai": {"echo_model": "echo_model"}}, echo_model=ECHO)
    inspect = str(Path(sys.executable).with_name("inspect"))
    command = [inspect, "eval", "tiltmeter/gest", "--model", "echo/one", "-T", "limit=4", "--display", "none"]
    path = {"PYTHONPATH": python_path(site)}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment | path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (log,) = (tmp_path / "logs").glob("*.eval")
    options = "--study genderbench/gest --limit 4 --display none --out run"
    screen = tiltmeter("analyse", log, *options.split(), exits=0)
    assert "echo/one" in screen.stdout
    assert pl.read_parquet(tmp_path / "run" / "findings.parquet").filter("key")["attempts"].to_list() == [24]


def test_an_error_in_parsing_reaches_every_answer_of_the_batch() -> None:
    code = (
        "import anyio\n"
        "from tiltmeter.inspecting._tasks import _Batch\n"
        "def read(answers):\n    raise ValueError(f'{len(answers)} answers')\n"
        "batch, errors = _Batch(read), []\n"
        "async def read_one():\n"
        "    try:\n        await batch.read({})\n"
        "    except Exception as error:\n        errors.append(repr(error))\n"
        "async def main():\n"
        "    async with anyio.create_task_group() as group:\n"
        "        for _ in range(3):\n            group.start_soon(read_one)\n"
        "anyio.run(main)\n"
        "print(*errors)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == " ".join(["ValueError('3 answers')"] * 3) + "\n"


def test_without_inspect_the_error_names_the_extra_to_install() -> None:
    code = (
        "import importlib.util as util\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'inspect_ai' else find(name, *rest)\n"
        "import tiltmeter.inspecting as inspecting\n"
        "try:\n    inspecting.probe_task\nexcept inspecting.InputError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (
        done.stdout
        == 'Inspect tasks require a package that is not installed: pip install "tiltmeter[inspect]"\n'
    )
