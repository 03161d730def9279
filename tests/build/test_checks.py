"""The checks of the build that are ours: they must be able to fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class Advisories(BaseHTTPRequestHandler):
    """Answers as osv.dev does: one package has a known vulnerability, the others have none."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        bad = asked["package"]["name"] == "leaky"
        advisory = {"id": "PYSEC-1-1", "affected": [{"package": {"name": "leaky", "ecosystem": "PyPI"}, "ranges": []}]}
        said = json.dumps({"vulns": [advisory]} if bad else {}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, format: str, *given: object) -> None:
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
    kept = {name: value for name, value in os.environ.items() if name != "AUDIT"}
    return subprocess.run(command, cwd=tmp_path, env=kept | {"AUDIT_OSV_URL": url}, capture_output=True, text=True, check=False)


def test_a_known_vulnerability_fails_the_build(tmp_path: Path, advisories: str) -> None:
    found = audit(tmp_path, "leaky==1.0\nsound==2.0\n", advisories)
    assert (found.returncode, found.stdout.splitlines()[0]) == (1, "leaky 1.0: PYSEC-1-1")
    assert audit(tmp_path, "sound==2.0\n", advisories, "--required").returncode == 0


def test_what_was_not_looked_up_is_said_and_fails_where_it_is_required(tmp_path: Path) -> None:
    nobody = "http://127.0.0.1:9/v1/query"
    found = audit(tmp_path, "sound==2.0\n", nobody)
    assert (found.returncode, "NOT AUDITED" in found.stdout) == (0, True)
    assert audit(tmp_path, "sound==2.0\n", nobody, "--required").returncode == 1


def test_an_outdated_list_of_licences_fails_the_build(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / ".ci" / "licences.py")]
    assert subprocess.run([*command, str(ROOT / "docs" / "licences.md"), "--check"], check=False).returncode == 0
    page = tmp_path / "licences.md"
    page.write_text((ROOT / "docs" / "licences.md").read_text().replace("| certifi | MPL-2.0 |", "| certifi | MIT |"))
    found = subprocess.run([*command, str(page), "--check"], capture_output=True, text=True, check=False)
    assert (found.returncode, "out of date" in found.stdout) == (1, True)
