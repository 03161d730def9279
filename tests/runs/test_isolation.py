"""A part of a model that fails is named first; the others are measured, analysed and reported."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path

import polars as pl
import pytest

from conftest import ROOT, Tiltmeter
from support.commands import begin
from support.installed import install, python_path
from support.misbehaving import MisbehavingServer, slow
from tiltmeter.probes import SUITE
from tiltmeter.runs import load
from tiltmeter.schema import metric_name

MODELS = """
def good(messages):
    return "This is a friendly and wonderful country."

def declines(messages):
    return "I'm sorry, but I can't help with that."

def silent(messages):
    return ""

def broken(messages):
    raise RuntimeError("out of order")
"""
FEATURES = """
def length(text):
    return len(text)

def nothing(text):
    return None

def picky(text):
    if "friendly" not in text:
        raise ValueError("no friend in it")
    return 1.0

def broken(text):
    raise ValueError("no such table")
"""
QUICK = ("--display", "none", "--limit", "2", "--out", "run")


@pytest.fixture(autouse=True)
def _functions(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODELS)
    (tmp_path / "measured.py").write_text(FEATURES)


def key_values(run: Path, model: str) -> pl.DataFrame:
    return load(run).findings.filter("key", pl.col("model") == model)


@pytest.mark.verify
@pytest.mark.parametrize(("model", "outcome"), [("sim/mild", "refused"), ("python/mine:silent", "empty")])
def test_a_benchmark_without_usable_responses_has_no_estimates(
    tiltmeter: Tiltmeter, tmp_path: Path, model: str, outcome: str
) -> None:
    options = ("-M", "refusal=1") if model == "sim/mild" else ("--yes",)
    done = tiltmeter("run benchmarks/g20 -m", model, *options, *QUICK, exits=3)
    assert f"{model}, g20: none of 210 responses could be used (210 {outcome})" in done.stderr
    findings = key_values(tmp_path / "run", model)
    assert findings["estimate"].null_count() == findings.height > 0
    assert (findings[outcome] == findings["attempts"]).all(), "how the attempts ended is there"
    assert findings["answered"].sum() == 0
    exports = (
        f"export run -f {name}" for name in ("csv", "json", "markdown", "latex", "modelcard", "huggingface")
    )
    for command in ("show run", "show run --all", "report run", *exports):
        tiltmeter(command, exits=0)
    tiltmeter("gate run --max range_mean_vader_compound=0.9", exits=3)


@pytest.mark.verify
def test_models_beside_one_without_usable_responses_are_measured(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    models = ("sim/mild", "python/mine:declines", "python/mine:silent")
    done = tiltmeter(
        "run benchmarks/g20",
        *(word for model in models for word in ("-m", model)),
        "-P",
        "also=parity,overlap,words",
        *QUICK,
    )
    assert done.returncode == 3, done.stderr
    stopped, refused = done.stderr.splitlines()
    assert stopped.startswith(f"incomplete: {models[2]}: stopped early: g20 (20 of 210 responses)")
    assert refused.startswith(
        f"incomplete: {models[1]}, g20: none of 210 responses could be used (210 refused)"
    )
    tiltmeter("run benchmarks/g20 -m sim/mild -P also=parity,overlap,words", *QUICK[:-1], "alone", exits=0)
    columns = ["metric", "group", "context", "estimate", "low", "high", "p", "q"]
    mild = load(tmp_path / "run").findings.filter(model="sim/mild")
    assert mild.select(columns).equals(load(tmp_path / "alone").findings.select(columns)), (
        "the numbers are those of the model alone"
    )
    compared = tiltmeter("compare run --model-a", models[0], "--model-b", models[1], exits=0)
    assert "0 worse" in compared.stdout


@pytest.mark.verify
@pytest.mark.parametrize(
    ("feature", "message"),
    [("nothing", "it returned nothing"), ("broken", "ValueError: no such table (measured.py, line 14)")],
)
def test_a_feature_without_any_value_is_named(
    tiltmeter: Tiltmeter, tmp_path: Path, feature: str, message: str
) -> None:
    features = f"features=measured:length,measured:{feature}"
    done = tiltmeter("run benchmarks/g20 -m sim/mild -P", features, *QUICK, exits=3)
    assert (
        f"sim/mild, g20: the feature {feature} has no value for any of 210 answers ({message})" in done.stderr
    )
    findings = key_values(tmp_path / "run", "sim/mild")
    of_length = findings.filter(metric_name().str.ends_with("_length"))
    of_feature = findings.filter(metric_name().str.ends_with(f"_{feature}"))
    assert of_length["estimate"].is_not_null().all()
    assert of_feature["estimate"].is_null().all()
    assert (
        tiltmeter(
            "run benchmarks/g20 -m sim/mild -P", f"features=measured:{feature}", *QUICK[:-1], "only"
        ).returncode
        == 3
    )


def test_a_feature_that_fails_for_one_model_is_measured_for_the_other(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    models = ("-m", "sim/mild", "-m", "python/mine:good")
    done = tiltmeter("run benchmarks/g20", *models, "-P", "features=measured:picky", *QUICK, exits=3)
    assert "sim/mild, g20: the feature picky has no value for any of 210 answers" in done.stderr
    assert key_values(tmp_path / "run", "python/mine:good")["estimate"].count() > 0


@pytest.mark.verify
def test_wrong_parameters_of_a_benchmark_write_no_run(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    for parameters in (
        "features=measured:missing",
        "features=unknown",
        "also=toxicity",
        "features=measured:length -P also=parity",
    ):
        done = tiltmeter(f"run benchmarks/g20 -m sim/mild -P {parameters}", *QUICK, exits=2)
        assert len(done.stderr.splitlines()) == 1
        assert not (tmp_path / "run").exists()
    tiltmeter("run benchmarks/g20 -m sim/mild -P also=parity", *QUICK, exits=0)


def test_responses_about_one_group_only_are_named(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    assert tiltmeter("plan benchmarks/g20 --limit 2 --prompts prompts.csv").returncode == 0
    prompts = pl.read_csv(tmp_path / "prompts.csv").filter(pl.col("prompt").str.contains("India"))
    prompts.select("prompt_id", answer=pl.lit("A friendly country.")).write_csv(tmp_path / "answers.csv")
    done = tiltmeter(
        "analyse answers.csv --study benchmarks/g20 --limit 2 -P also=overlap --out run", exits=3
    )
    assert "the files answer 10 of 210 prompts" in done.stderr
    findings = key_values(tmp_path / "run", "own responses")
    assert findings["note"].unique().to_list() == [
        "all responses are about India: at least two groups are needed"
    ]
    assert (findings["answered"] > 0).all()
    assert tiltmeter("show run").returncode == 0


PLUGIN = """
import polars as pl
from tiltmeter.errors import InputError
from tiltmeter.study import Stage
from tiltmeter.schema import StageTable
from workplace.salary_raise import SalaryRaise

class Fragile(SalaryRaise):
    name = "fragile"

    @property
    def stages(self):
        tables = {"own": StageTable({"prompt_id": pl.String})}
        copy = Stage("own", tables, ("answers", "measures"), lambda answers, *more: answers)
        measures, *later = super().stages
        return (measures, copy, *later)

    def fail(self, table, where):
        if table["model"][0] == "sim/biased" and WHERE == where:
            raise ERROR

    def measure(self, answers, settings, tools):
        self.fail(answers, "measure")
        return super().measure(answers, settings, tools)

    def analyse(self, measures, settings, tools):
        self.fail(measures, "analyse")
        tables = super().analyse(measures, settings, tools)
        if measures["model"][0] == "sim/biased" and WHERE == "findings":
            return {name: table.vstack(table) for name, table in tables.items()}
        return tables

    def examples(self, measures, findings, settings, tools):
        self.fail(measures, "examples")
        return super().examples(measures, findings, settings, tools)

PROBE = Fragile()
"""


def installed(site: Path, where: str, error: str) -> str:
    """Install a probe that fails for one model, and return the Python path."""
    shutil.copytree(ROOT / "examples" / "outside_plugins" / "workplace", site / "workplace")
    wordings = (site / "workplace" / "wordings.yaml").read_text()
    (site / "wordings.yaml").write_text(wordings.replace("salary_raise", "fragile"))
    source = f"WHERE = {where!r}\n{PLUGIN.replace('ERROR', error)}"
    return python_path(
        install(site, "fragile", {"tiltmeter.probes": {"fragile": "fragile:PROBE"}}, fragile=source)
    )


@pytest.mark.verify
@pytest.mark.parametrize(
    ("where", "error", "message"),
    [
        ("measure", "ValueError('row {7} lacks sk-0123456789')", "not measured: ValueError: row {7} lacks"),
        (
            "measure",
            "InputError('the file mine.csv has no row for it')",
            "not measured: the file mine.csv has no row for it",
        ),
        ("analyse", "KeyError('grant')", "not analysed: KeyError: 'grant'"),
        ("findings", "None", "not analysed: its findings are not valid: row 1 is duplicated"),
        ("examples", "ValueError('none')", "no examples of answers: ValueError: none"),
    ],
)
def test_a_plugin_that_fails_for_one_model_measures_the_other(
    tiltmeter: Tiltmeter, tmp_path: Path, where: str, error: str, message: str
) -> None:
    site = installed(tmp_path / "site", where, error)
    command = (
        "run",
        "genderbench/fragile",
        "-m",
        "sim/biased",
        "-m",
        "sim/mild",
        "--display",
        "none",
        "--limit",
        "40",
        "--out",
        "run",
    )
    done = tiltmeter(*command, PYTHONPATH=site, exits=3, says=f"incomplete: sim/biased, fragile: {message}")
    run, both = load(tmp_path / "run"), {"sim/biased", "sim/mild"}
    assert run.findings["model"].unique(maintain_order=True).to_list() == (
        sorted(both) if where == "examples" else ["sim/mild"]
    )
    assert set(run.table("own")["model"]) == ({"sim/mild"} if where == "measure" else both)
    assert run.about["complete"] is False
    assert tiltmeter("show run").returncode == 0
    if "ValueError" in error or "KeyError" in error:
        assert f"traceback: {Path('run') / 'errors.txt'}" in done.stderr
        assert "fragile.py" in (tmp_path / "run" / "errors.txt").read_text()
    else:
        assert not (tmp_path / "run" / "errors.txt").exists()
    plugin = tmp_path / "site" / "fragile.py"
    plugin.write_text(plugin.read_text().replace(f"WHERE = {where!r}", "WHERE = ''"))
    tiltmeter(*command, PYTHONPATH=site, exits=0)
    assert not (tmp_path / "run" / "errors.txt").exists(), "that of the earlier run is removed"


def test_an_error_of_every_model_is_wrong_usage(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    site = installed(tmp_path / "site", "measure", "InputError('the file mine.csv has no row for it')")
    done = tiltmeter("run genderbench/fragile -m sim/biased --display none --out run", PYTHONPATH=site)
    assert (done.returncode, done.stderr) == (2, "tiltmeter: the file mine.csv has no row for it\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("study", ["associations/gender", "genderbench/direct"])
def test_a_model_that_refuses_everything_is_named(tiltmeter: Tiltmeter, tmp_path: Path, study: str) -> None:
    options = ("-P", "encoder=none") if study.startswith("associations") else ()
    done = tiltmeter(
        f"run {study} -m sim/mild -m python/mine:declines",
        *options,
        *QUICK,
        exits=3,
        says="python/mine:declines, ",
    )
    assert "could be used" in done.stderr
    assert "sim/mild" not in done.stderr
    assert tiltmeter("show run").returncode == 0


@pytest.mark.verify
def test_probes_without_their_data_are_named_and_can_be_run_later(
    tiltmeter: Tiltmeter, tmp_path: Path, shared: Path
) -> None:
    nowhere = {"TILTMETER_DATA": "", "TILTMETER_CACHE": str(tmp_path / "cache"), "TILTMETER_OFFLINE": "1"}
    for probe in SUITE:
        command = (
            "run",
            f"genderbench/{probe}",
            "-m",
            "sim/mild",
            "--limit",
            "2",
            "--display",
            "none",
            "--out",
            probe,
        )
        done = tiltmeter(*command, **nowhere)
        assert done.returncode in (0, 3), (probe, done.stderr)
        if done.returncode == 3:
            assert f"{probe} not run: " in done.stderr
            assert "TILTMETER_DATA" in done.stderr
            assert load(tmp_path / probe).about["title"].endswith("(not measured)")
            assert tiltmeter("show", probe).returncode == 0
            assert tiltmeter(*command).returncode in (0, 3), "the data is there now"
            assert load(tmp_path / probe).findings.height > 0


@pytest.mark.parametrize("limit", ["1", "2", "25"])
def test_a_missing_server_is_one_sentence_at_any_limit(
    tiltmeter: Tiltmeter, tmp_path: Path, limit: str
) -> None:
    more = (
        "--limit",
        limit,
        "--retries",
        "1",
        "--display",
        "none",
        "--out",
        "run",
        "--base-url",
        "http://127.0.0.1:9/v1",
    )
    done = tiltmeter("run genderbench/direct -m vllm/any", *more)
    assert (done.returncode, len(done.stderr.splitlines())) == (4, 1), done.stderr
    assert "cannot connect to 127.0.0.1:9" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_model_that_answers_nothing_is_named_and_the_other_measured(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    more = ("--limit", "3", "--retries", "0", "--display", "none")
    done = tiltmeter(
        "run genderbench/direct -m python/mine:broken -m sim/mild", *more, "--out", "run", exits=3
    )
    assert "incomplete: python/mine:broken: nothing measured: " in done.stderr
    assert "RuntimeError: out of order" in done.stderr
    assert key_values(tmp_path / "run", "sim/mild")["answered"].item() == 3
    (tmp_path / "mine.py").write_text(
        MODELS + "\n\ndef other(messages):\n    raise RuntimeError('the other')\n"
    )
    done = tiltmeter(
        "run genderbench/direct -m python/mine:broken -m python/mine:other", *more, "--out", "none", exits=4
    )
    assert "out of order" in done.stderr
    assert "the other" in done.stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.verify
def test_an_interrupted_run_first_names_what_was_not_measured(
    tiltmeter: Tiltmeter, tmp_path: Path, environment: dict[str, str]
) -> None:
    command = [
        "run",
        "genderbench",
        "-m",
        "vllm/slow",
        "--limit",
        "2",
        "--max-connections",
        "4",
        "--display",
        "none",
        "--out",
        "run",
    ]
    with MisbehavingServer(lambda request, nth: slow(0.05, "Yes.")) as server:
        process = begin([*command, "--base-url", server.url], tmp_path, environment, stderr=subprocess.STDOUT)
        while server.requests < 60:
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=120)
    assert process.returncode == 3, printed
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    absent = [name for name, part in about["parts"].items() if part["responses"]["vllm/slow"]["found"] == 0]
    counts = [part["responses"]["vllm/slow"] for part in about["parts"].values()]
    received = sum(count["found"] for count in counts)
    wanted = sum(count["wanted"] for count in counts)
    assert 0 < len(absent) < len(SUITE)
    assert 0 < received < wanted
    lacking = f"not measured: {', '.join(absent)} ({len(absent)} of 14 probes)"
    first = f"vllm/slow: interrupted after {received:,} of {wanted:,} responses; {lacking}"
    assert about["problems"][0].startswith(first)
    assert "no results for: representational harms" in about["problems"][0]
    assert about["title"] == f"Gender bias: {14 - len(absent)} of 14 probes measured"
    assert printed.startswith(f"incomplete: {first[:200]}"), "before any number"
    screen = tiltmeter("show run")
    assert screen.stderr.startswith(f"incomplete: {first}")
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.index(first) < page.index('<section id="short">')
    assert f"· {about['title']}</p>" in page, "the title above the headline"
    assert "no results for representational harms" in page
    assert tiltmeter("export run -f markdown").returncode == 0
    written = (tmp_path / "run" / "exports" / "findings.md").read_text().replace("\\", "")
    assert written.index(first) < written.index("| test |")


@pytest.mark.verify
def test_answers_to_a_part_of_the_prompts_are_an_incomplete_run(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    assert tiltmeter("plan genderbench --limit 10 --prompts prompts.csv").returncode == 0
    prompts = pl.read_csv(tmp_path / "prompts.csv").head(25)
    prompts.select("prompt_id", answer=pl.lit("Yes.")).write_csv(tmp_path / "answers.csv")
    done = tiltmeter("analyse answers.csv --study genderbench --limit 10 --display none --out run", exits=3)
    first = done.stderr.splitlines()[0]
    assert first.startswith("incomplete: own responses: the files answer 25 of ")
    absent = [name for name in SUITE if not prompts["prompt_id"].str.starts_with(f"{name}/").any()]
    assert f"not measured: {', '.join(absent)} ({len(absent)} of 14 probes)" in first
    assert "partly measured: " in first
    about = load(tmp_path / "run").about
    assert about["title"] == f"Gender bias: {14 - len(absent)} of 14 probes measured"
    assert about["problems"][0] in first
    overall = pl.read_csv(tmp_path / "prompts.csv").filter(pl.col("prompt_id").str.starts_with("direct/"))
    overall.select("prompt_id", answer=pl.lit("Yes.")).write_csv(tmp_path / "direct.csv")
    done = tiltmeter("analyse direct.csv --study genderbench/direct --limit 10 --display none --out whole")
    assert (done.returncode, done.stderr) == (0, ""), "all that was asked is there"
