"""The checks of the build that are ours must be able to fail.

And what the source imports is declared: a fresh environment has it.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class Advisories(BaseHTTPRequestHandler):
    """Answers as osv.dev does: one package has a known vulnerability, the others have none."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_leaky = request["package"]["name"] == "leaky"
        advisory = {
            "id": "PYSEC-1-1",
            "affected": [{"package": {"name": "leaky", "ecosystem": "PyPI"}, "ranges": []}],
        }
        document = json.dumps({"vulns": [advisory]} if is_leaky else {}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(document)

    def log_message(self, format: str, *value: object) -> None:
        return


@pytest.fixture
def advisories() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Advisories) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/query"
        server.shutdown()


def audit(tmp_path: Path, packages: str, url: str, *flags: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "pinned.txt").write_text(packages)
    command = [sys.executable, str(ROOT / ".ci" / "audit.py"), *flags, "pinned.txt"]
    environment = {name: value for name, value in os.environ.items() if name != "AUDIT"}
    return subprocess.run(
        command,
        cwd=tmp_path,
        env=environment | {"AUDIT_OSV_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_known_vulnerability_fails_the_build(tmp_path: Path, advisories: str) -> None:
    outcome = audit(tmp_path, "leaky==1.0\nsound==2.0\n", advisories)
    assert (outcome.returncode, outcome.stdout.splitlines()[0]) == (1, "leaky 1.0: PYSEC-1-1")
    assert audit(tmp_path, "sound==2.0\n", advisories).returncode == 0


def test_packages_that_were_not_looked_up_fail_the_audit_unless_they_may_be_skipped(tmp_path: Path) -> None:
    nobody = "http://127.0.0.1:9/v1/query"
    outcome = audit(tmp_path, "sound==2.0\n", nobody)
    assert outcome.returncode == 1
    assert re.match(r"NOT AUDITED: \S+ packages were not looked up", outcome.stdout)
    skipped = audit(tmp_path, "sound==2.0\n", nobody, "--may-skip")
    assert skipped.returncode == 0
    assert re.match(r"SKIPPED: \S+ packages were not looked up", skipped.stdout)


@pytest.mark.verify
def test_an_outdated_list_of_licences_fails_the_build(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / ".ci" / "licences.py")]
    assert (
        subprocess.run([*command, str(ROOT / "docs" / "licences.md"), "--check"], check=False).returncode == 0
    )
    page = tmp_path / "licences.md"
    page.write_text(
        (ROOT / "docs" / "licences.md").read_text().replace("| certifi | MPL-2.0 |", "| certifi | MIT |")
    )
    outcome = subprocess.run([*command, str(page), "--check"], capture_output=True, text=True, check=False)
    assert (outcome.returncode, "out of date" in outcome.stdout) == (1, True)


MAKE = """#!/bin/sh
cat
echo "made $1, CI=$CI"
test "$1" != audit || printf "$SKIPPED"
test "$1" != "$FAILS"
"""
PYTHON = """#!/bin/sh
test "$*" != "-m perf.studies --stale" || printf "$STALE"
"""


@pytest.mark.parametrize(
    ("fails", "stale", "skipped", "expected"),
    [
        ("", "", "SKIPPED: 7 packages were not looked up\n", "none is stale"),
        (
            "docs",
            "study one: has changed\nstudy two: failed\n",
            "",
            "WARNING: study one: has changed; study two: failed",
        ),
    ],
)
def test_the_checks_say_how_long_each_part_took_which_one_failed_and_what_is_stale(
    tmp_path: Path, fails: str, stale: str, skipped: str, expected: str
) -> None:
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, text in (("make", MAKE), ("python", PYTHON), ("chromium", "#!/bin/sh\n")):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    variables = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "FAILS": fails,
        "STALE": stale,
        "SKIPPED": skipped,
        "PYTHON": "true",
        "CI": "",
    }
    environment = os.environ | variables
    command = ["bash", str(tmp_path / ".ci" / "run")]
    # The standard input stays open: a part that read it would wait forever.
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
    table = dict(re.findall(r"^([\w, ]+?)  +(.*)$", printed, re.MULTILINE))
    assert process.returncode == bool(fails)
    assert ("made verify, CI=1" in printed) == (not fails)
    assert table["studies of truth"] == expected
    assert table.get("advisories", "") == (f"WARNING: {skipped.strip()}" if skipped else "")
    assert re.fullmatch(r"\d+ s FAILED \(exit status 1\)" if fails else r"\d+ s", table["docs"])
    assert re.fullmatch(r"not run" if fails else r"\d+ s", table["make verify"])
    assert {
        "fixed loop, before",
        "lint",
        "types",
        "layers",
        "licences",
        "audit",
        "make test",
        "fixed loop, after",
        "total",
    } < table.keys()


def test_the_fixed_loop_prints_its_time() -> None:
    printed = subprocess.check_output([sys.executable, ROOT / ".ci" / "fixed_loop.py"], text=True)
    assert re.fullmatch(r"\d+\.\d s \(\d+\.\d s of processor time\)\n", printed)


WITH = {
    "multidict": "aiohttp",
    "yarl": "aiohttp",
    "markupsafe": "jinja2",
    "pydantic_core": "pydantic",
    "threadpoolctl": "scikit-learn",
}
WITH |= {"nltk": "rouge-score", "huggingface_hub": "transformers", "anyio": "inspect-ai"}
"""Modules that come with a declared package, which hands out their objects."""
GIVEN = ("pandas", "pytest", "vllm")
"""The plugin of pytest runs within it; pandas and vLLM are used only by those who have installed them."""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported() -> dict[str, Path]:
    """Outside modules, each with a file that imports it."""
    by_name: dict[str, Path] = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            by_name |= {name.partition(".")[0]: path for name in names}
    return {
        name: path
        for name, path in by_name.items()
        if name not in sys.stdlib_module_names and name != "tiltmeter"
    }


def test_every_import_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    declared = {
        normal(re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0])
        for group in lists
        for requirement in group
    }
    packages = packages_distributions()
    modules = imported()
    assert {"polars", "numpy", "aiohttp"} <= set(modules)
    for module, path in modules.items():
        owners = {normal(package) for package in packages.get(module, [module])} | {
            normal(WITH.get(module, module))
        }
        assert module in GIVEN or owners & declared, (
            f"{path} imports {module}, which pyproject.toml does not declare"
        )
    assert all(normal(package) in declared for package in WITH.values())
