"""Every command and every block of code of README and docs is run, against a local server.

Nothing is bought.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import polars as pl
import pytest
import yaml

import tiltmeter as tm
from conftest import ROOT
from support.blocks import Block, blocks, commands
from support.commands import call
from support.installed import install, points_of, python_path
from support.misbehaving import MisbehavingServer
from support.simulated import running
from support.translations import TRANSLATIONS, in_catalogue, write as write_translations
from tiltmeter._cli.study_commands import PROMPTS
from tiltmeter.exports import export
from tiltmeter.models.sim import Dials, SimulatedModel
from tiltmeter.probes._listing import PROBES
from tiltmeter.testing._simulated_server import learn_study

pytestmark = pytest.mark.verify

PLUGINS = (ROOT / "examples" / "outside_plugins", ROOT / "examples" / "new_part")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHELL = ("", "sh", "bash", "shell", "console")
PARSED = ("yaml", "json", "toml")
WRITTEN = {"yaml": "mine.yaml", "python": "answer.py"}
OWN = {"csv": "prompts.csv", "python": "my_probe.py", "yaml": "grid.yaml"}
"""The files of one's own, which other pages name, too."""
PROVIDERS = (
    "OPENAI",
    "OLLAMA",
    "VLLM",
    "LLAMACPP",
    "OPENROUTER",
    "TOGETHER",
    "DEEPINFRA",
    "GROQ",
    "GEMINI",
    "ANTHROPIC",
    "TILTMETER",
)
NAMES = "caste,first_name,last_name\nBrahmin,Ravi,Sharma\nDalit,Ravi,Paswan\n"
APPLICANTS = "prompt,race,gender,case\n" + "".join(
    f'"Invite {name} for job {case}? Yes or no.",{group},{case}\n'
    for case in range(10)
    for name, group in {
        "Ebony": "Black,women",
        "Jamal": "Black,men",
        "Emily": "white,women",
        "Greg": "white,men",
    }.items()
)
DECISIONS = "sex,race,hired\n" + "female,white,yes\nmale,Black,no\nfemale,Black,no\nmale,white,yes\n" * 12
STORYTELLER = f"hf/{ROOT / 'tests' / 'fixtures' / 'storyteller'}"
STAND_INS = {
    "hf/Qwen/Qwen3-0.6B": STORYTELLER,
    "hf/models/my-model": STORYTELLER,
    "hf/models/qwen.Q4_K_M.gguf": STORYTELLER,
    "any/mistral:mistral-small-latest": "sim/mild",
}
"""Weights and vendors that cannot be had here, and what is used instead."""


@pytest.fixture(scope="module")
def address(shared: Path, workplace: Path) -> Iterator[str]:
    model = SimulatedModel("sim/mild", Dials())
    with patch.dict(os.environ, {"TILTMETER_DATA": str(shared / "data")}):
        for study, params in (
            ("genderbench", {}),
            ("everyone", {}),
            ("associations", {"setting": "two,single,balanced,negative"}),
            ("benchmarks", {}),
            ("bbq/age", {}),
            ("bbq/religion", {}),
        ):
            assert learn_study(model, study, **params) == []
        files = {"prompts.csv": {}, "my_probe.py:Raise": {"wording": "all"}}
        for study, params in files.items():
            assert learn_study(model, f"{workplace}/{study}", **params) == []
        assert learn_study(model, "associations/age", grid=f"{workplace}/grid.yaml") == []
        by_race = {"group": "race;gender", "item": "case", "label": "invited"}
        assert learn_study(model, f"{workplace}/applicants.csv", **by_race) == []
        shutil.copy(PROMPTS, workplace / "applications.txt")
        assert learn_study(model, f"{workplace}/applications.txt", swap="race,gender") == []
    made_up = workplace / "translations"
    folders = f"{made_up}{os.pathsep}{shared / 'data'}"
    with in_catalogue(made_up, TRANSLATIONS), running(model) as url:
        with patch.dict(os.environ, {"TILTMETER_DATA": folders}):
            assert learn_study(model, "genderbench/gest", language="de") == []
        yield url


@pytest.fixture(scope="module")
def anthropic() -> Iterator[str]:
    with MisbehavingServer(lambda request, nth: "I agree.") as server:
        yield server.url


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Path:
    """A folder with the files and runs that the pages speak of."""
    home = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TILTMETER_DATA", str(shared / "data"))
        patched.setenv("TILTMETER_RUNS", str(home / "runs"))
        probes = tm.run("genderbench", model="sim/mild", limit=2, out=home / "runs" / "RUN")
        tm.run("genderbench", model="sim/fair", limit=2, out=home / "runs" / "OTHER")
        tm.run(
            "associations/gender",
            model="sim/biased",
            limit=20,
            params={"encoder": "none"},
            out=home / "runs" / "STORIES",
        )
        tm.run("benchmarks/g20", model="sim/biased", limit=3, out=home / "runs" / "COUNTRIES")
        shutil.copytree(home / "runs" / "OTHER", home / "runs" / "LAST_RELEASE")
        tm.run("genderbench/gest", model=["sim/mild", "sim/fair"], limit=2, out=home / "runs" / "PAIR")
    write_translations(home / "translations", pl.read_csv(shared / "data" / "gest" / "gest.csv"))
    answers = probes.responses.filter(
        pl.col("model") == "sim/mild", pl.col("prompt_id").str.starts_with("gest/")
    )
    answers = answers.with_columns(
        country=pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit("Chad")).otherwise(pl.lit("Mali"))
    )
    answers.select("prompt_id", "repetition", "answer", "country").write_csv(home / "answers.csv")
    free = answers.select("prompt_id", "repetition", "answer")
    free.write_csv(home / "free.csv")
    free.with_columns(answer=pl.lit("(a)")).write_csv(home / "constrained.csv")
    stories = pl.read_csv(shared / "data" / "stories" / "dv3_story_generations.csv", infer_schema=False)
    stories.select(story="text", group="race", gender="gender").gather_every(7).write_csv(
        home / "stories.csv"
    )
    stories.select(story="text", group="race").gather_every(7).write_excel(home / "stories.xlsx")
    for source in (
        "data/badf/Sample_eva.csv",
        "data/badf/sample_phrase_filter_res.csv",
        "data/badf/two1_QWEN3-32B_sim_race_all_summ_base.csv",
        "golden/badf/recovered_counts_4id.csv",
        "data/bbq/preds_Age.jsonl.gz",
        "data/bbq/preds_Religion.jsonl.gz",
    ):
        shutil.copy(shared / source, home)
    shutil.copy(
        shared / "data/badf/two1_QWEN3-32B_gender_simple3_sim_gender_simple3_all_summ.csv",
        home / "released.csv",
    )
    shutil.copy(shared / "golden/badf/recovered_counts_gender.csv", home / "counts.csv")
    shutil.copy(shared / "data/badf/Sample_eva.csv", home / "sample.csv")
    shutil.copytree(ROOT / "examples" / "benchmark_spec", home, dirs_exist_ok=True)
    for block in blocks(ROOT / "docs" / "own.md"):
        if block.kind in OWN:
            (home / OWN[block.kind]).write_text(block.text)
    (home / "names.csv").write_text(NAMES)
    (home / "applicants.csv").write_text(APPLICANTS)
    (home / "loans.txt").write_text("Lend {first_name} {last_name} 500 euros? Yes or no.\n" * 2)
    (home / "decisions.csv").write_text(DECISIONS)
    rows = ("Chad,Chad is,Chad is big.", "Chad,Chad has,Chad has a lake.", "Mali,Mali is,Mali is big.")
    (home / "mine.csv").write_text("\n".join(("concept,prompt,baseline", *rows, "")))
    for name, log in {"gestprobe_1.jsonl": "Gest", "gestcreativeprobe_1.jsonl": "GestCreative"}.items():
        with gzip.open(shared / "golden" / "genderbench" / "logs" / f"{log}.jsonl.gz") as file:
            (home / name).write_bytes(file.read())
    probes.report(home / "runs" / "RUN" / "report.html")
    export(probes, "huggingface", home / "FOLDER")
    export(probes, "csv", home / "responses.csv", table="responses")
    write_log(
        probes.design.filter(pl.col("part") == "gest").row(0, named=True),
        home / "logs" / "2026-01-01_gest.eval",
    )
    for plugin in PLUGINS:
        install(home / "site", plugin.name, points_of(plugin))
    return home


def write_log(prompt: dict[str, Any], path: Path) -> None:
    """A log of Inspect with one answer."""
    path.parent.mkdir()
    answer = {"choices": [{"message": {"role": "assistant", "content": "(a)"}, "stop_reason": "stop"}]}
    sample = {"id": prompt["prompt_id"], "epoch": 1, "input": prompt["prompt"], "output": answer}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("samples/1_epoch_1.json", json.dumps(sample))
        header = {"version": 2, "status": "success", "eval": {"task": "mine", "model": "openai/gpt-4o-mini"}}
        archive.writestr("header.json", json.dumps(header))


@pytest.fixture
def place(
    workplace: Path,
    address: str,
    anthropic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shared: Path,
) -> Path:
    home = tmp_path / "home"
    shutil.copytree(workplace, home)
    monkeypatch.chdir(home)
    for name in PROVIDERS:
        monkeypatch.setenv(f"{name}_API_KEY", "a-key")
        monkeypatch.setenv(f"{name}_BASE_URL", address)
    folders = f"{home / 'translations'}{os.pathsep}{shared / 'data'}"
    places = {"TILTMETER_DATA": folders, "TILTMETER_RUNS": str(home / "runs")}
    options = {
        "ANTHROPIC_BASE_URL": anthropic,
        "TILTMETER_LIMIT": "2",
        "TILTMETER_DISPLAY": "none",
        "ADDRESS": address,
    }
    for name, value in (places | options).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return home


_done: dict[tuple[str, ...], tuple[int, str]] = {}
"""Runs and plans that pages have in common, which depend on no file and whose folders no page names again:
carried out once."""


WHOLE_SUITE = ["tiltmeter", "run", "genderbench", "--model", "openai/gpt-4o-mini"]
"""The first command of the README, which runs all probes. Other such commands run the probes of `few.yaml`.
"""
WHOLE_ASSOCIATIONS = "setting=two,negative"
"""A parameter of the command in docs/associations.md that runs all identities. Other such commands run gender
only."""
FEW_OF_EVERYONE = "dreaddit,isear_age"
FEW_PROBES = "study: genderbench\nparts: [direct, gest]\n"


def obey(words: list[str]) -> tuple[int, str]:
    """Exit status of a command of ours and what it said, in this process."""
    alone = words[1] in ("run", "plan") and not any(
        Path(word.partition("=")[2] or word).exists() for word in words[2:]
    )
    if not alone or "--out" in words or "--prompts" in words:
        return _obey(words)
    if tuple(words) not in _done:
        _done[tuple(words)] = _obey(with_few_parts(words))
    return _done[tuple(words)]


def with_few_parts(words: list[str]) -> list[str]:
    """The same command with few probes or identities, unless it is one of the two that run all."""
    if words == WHOLE_SUITE or WHOLE_ASSOCIATIONS in words:
        return words
    Path("few.yaml").write_text(FEW_PROBES, encoding="utf-8")
    fewer = {"genderbench": "few.yaml", "associations": "associations/gender"}
    if "everyone" in words and "--only" not in words:
        words = [*words, "--only", FEW_OF_EVERYONE]
    if "genderbench" in words and any(word.startswith("attribute=") for word in words):
        return words
    return [*words[:2], fewer.get(words[2], words[2]), *words[3:]]


def _obey(words: list[str], **variables: str) -> tuple[int, str]:
    done = call(words[1:], Path.cwd(), {**os.environ, **variables})
    return done.returncode, done.stdout + done.stderr


def obey_apart(words: list[str], home: Path) -> tuple[int, str]:
    """Run the command in a process of its own, where the package with plugins is installed."""
    return _obey(words, PYTHONPATH=python_path(home / "site", *PLUGINS))


def needed(words: list[str]) -> list[str]:
    """Without what is in square brackets, which may be left out."""
    remaining, depth = [], 0
    for word in words:
        depth += word.startswith("[")
        if not depth:
            remaining.append(word)
        depth -= bool(depth) and word.endswith("]")
    return remaining


def filled(words: list[str]) -> list[str]:
    """The placeholders of a command, filled in."""
    address = os.environ["ADDRESS"]
    if "CONCEPT" in words:  # one that the model did attach to a group
        association = (
            tm.load("STORIES")
            .findings.filter(pl.col("concept").is_not_null(), pl.col("context").is_null())
            .row(0, named=True)
        )
        places = {"RUN": "STORIES", "CONCEPT": association["concept"], "female": association["group"]}
        words = [places.get(word, word) for word in words]
    elif "RUN" in words and words[1] == "gate" and any("association" in word for word in words):
        words = ["STORIES" if word == "RUN" else word for word in words]
    elif "RUN" in words and any("vader" in word for word in words):
        words = ["COUNTRIES" if word == "RUN" else word for word in words]
    elif {"summary", "locations", "top"}.intersection(words):
        words = ["STORIES" if word == "RUN" else word for word in words]
    if "PROMPT_ID" in words:
        words = [tm.load(words[2]).design["prompt_id"][0] if word == "PROMPT_ID" else word for word in words]
    values = {
        "URL": address,
        "http://127.0.0.1:8000/v1": address,
        "NAME": "any",
        "...": "sim/mild",
        **STAND_INS,
    }
    words = needed(words)
    done = [values.get(word, word) for word in words]
    if words[1] == "run" and "--limit" in done:
        number = done.index("--limit") + 1
        assert done[number].isdecimal()
        done[number] = "2"
    done = [re.sub(r"/NAME\b", "/any", word).replace("/shared/", "./") for word in done]
    return [
        name
        for word in done
        for name in (sorted(str(path) for path in Path().glob(word)) if "*" in word else [word])
    ]


def check_command(words: list[str], block: Block, exits: int) -> None:
    where = f"{block.page.name}:{block.line}: {' '.join(words)}"
    match words[0]:
        case "tiltmeter" if words[1] == "view":
            assert (ROOT / "tests" / "app" / "test_explorer.py").is_file(), (
                "it serves until it is stopped; that test opens it in a browser"
            )
        case "tiltmeter" if words[1] == "demo":  # tests/cli/test_output.py runs it
            assert words[2:] == [], where
        case "tiltmeter":
            status, message = (
                obey_apart(filled(words), Path()) if block.page.name == "plugins.md" else obey(filled(words))
            )
            # Whether a gate fails depends on the model; that it can decide does not. Answers of these tests
            # are to few prompts.
            partly = words[1] == "analyse" and "the files answer" in message
            assert status == exits or (words[1] == "gate" and status in (0, 1)) or (partly and status == 3), (
                f"{where}\n...{message[-1500:]}"
            )
        case "python" if words[1] == "-m":  # tests/perf runs these at tiny sizes
            place = ROOT.joinpath(*words[2].split("."))
            assert place.with_suffix(".py").is_file() or (place / "__main__.py").is_file(), where
        case "python":  # an example has a test of its own
            assert (ROOT / words[1]).is_file(), where
        case "pip":
            extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
            for word in words[2:]:
                if match := re.match(r"tiltmeter\[(.+)\]", word):
                    assert set(match[1].split(",")) <= set(extras), where
                elif word.startswith("./"):
                    assert (ROOT / word / "pyproject.toml").is_file(), where
        case "inspect":  # tests/inspecting runs it with a model that needs no network
            assert words[1] == "eval", where
            assert words[2].removeprefix("tiltmeter/") in PROBES.names(), where
        case "hf":
            assert Path(words[3]).is_dir(), where
        case "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), where
        case "export":
            assert re.fullmatch(r"[A-Z_]+=.*", words[1]), where
        case other:
            raise AssertionError(
                f"{where}: {other} is not run by this test; write the page another way or teach the test"
            )


def check_parsed(block: Block) -> None:
    readers: dict[str, Callable[[str], object]] = {
        "yaml": yaml.safe_load,
        "json": json.loads,
        "toml": tomllib.loads,
    }
    assert readers[block.kind](block.text)


def label_by_hand(sample: Path) -> None:
    """What the reader does between two commands: fill in the column `label`."""
    pl.read_csv(sample, infer_schema=False).with_columns(label=pl.lit("unclear")).write_csv(sample)


def test_make_demo_runs_the_command_demo() -> None:
    """`tests/cli/test_output.py` runs this command with the real model."""
    recipe = (ROOT / "Makefile").read_text().partition("\ndemo: $(VENV)/.installed\n")[2].partition("\n\n")[0]
    assert recipe == "\t$(BIN)/tiltmeter demo"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_a_page_runs(page: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, object] = {"__name__": "page"}
    # Files that the page asks the reader to write, under the names that the pages give them.
    for block in blocks(page):
        if block.kind in WRITTEN:
            (place / WRITTEN[block.kind]).write_text(block.text)
    for block in blocks(page):
        if block.kind in SHELL:
            lines = commands(block)
            for number, words in enumerate(lines):
                for option in (
                    {"-o", "--prompts"}.intersection(words) if words[1] in ("label", "plan") else ()
                ):
                    (place / words[words.index(option) + 1]).unlink(
                        missing_ok=True
                    )  # for the reader it is a new file
                if "--from" in words:
                    label_by_hand(place / words[words.index("--from") + 1])
                check_command(words, block, block.exits if number == len(lines) - 1 else 0)
        elif block.kind in ("python", "py"):
            monkeypatch.syspath_prepend(str(PLUGINS[0]))
            exec(compile("\n" * block.line + block.text, str(page), "exec"), names)
        elif block.kind in PARSED:
            check_parsed(block)
        else:
            assert block.kind in ("text", "latex", "html", "csv"), (
                f"{page.name}:{block.line}: a block of {block.kind}"
            )
