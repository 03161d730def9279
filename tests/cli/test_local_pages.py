"""`tiltmeter build` asks before it reads pages of this machine or its network."""

from __future__ import annotations

import os
import pty
from pathlib import Path

import pytest
import yaml

from conftest import Tiltmeter
from support.commands import begin
from support.mediawiki import Wiki, WikiServer

pytestmark = pytest.mark.verify

PAGE = (
    b"<p>Chad is a country of deserts and of one large lake.</p>"
    b"<p>Mali is a country of rivers and of wide plains.</p>"
)


def written_spec(folder: Path, url: str) -> None:
    concepts = {name: {"keywords": [name]} for name in ("Chad", "Mali")}
    spec = {"name": "lands", "domain": "countries", "concepts": concepts, "sources": {"urls": [url]}}
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec))


def test_without_a_terminal_local_pages_need_an_option(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    with WikiServer(Wiki(), files={"/lands": ("text/html", PAGE)}) as server:
        written_spec(tmp_path, f"{server.root}/lands")
        message = "sources.urls names 127.0.0.1, on this machine or its network; add --local"
        tiltmeter("build spec.yaml -o out --display none", exits=2, says=message)
        tiltmeter("build spec.yaml -o out --display none --no-local", exits=2, says=message)
        assert not server.asked
        tiltmeter("build spec.yaml -o out --display none --local", exits=0)
        assert server.asked == {"/lands": 1}


@pytest.mark.parametrize(("answer", "status", "requests"), [("n", 2, 0), ("", 2, 0), ("y", 0, 1)])
def test_on_a_terminal_the_command_asks_before_it_reads_local_pages(
    environment: dict[str, str], tmp_path: Path, answer: str, status: int, requests: int
) -> None:
    with WikiServer(Wiki(), files={"/lands": ("text/html", PAGE)}) as server:
        written_spec(tmp_path, f"{server.root}/lands")
        terminal, other_end = pty.openpty()
        os.write(terminal, f"{answer}\n".encode())
        command = ["build", "spec.yaml", "-o", "out", "--display", "none"]
        with begin(command, tmp_path, environment, stdin=other_end, stderr=other_end) as process:
            assert process.wait(120) == status
        os.close(other_end)
        printed = os.read(terminal, 65_536).decode()
        os.close(terminal)
        assert "(127.0.0.1). Read them? [y/N]" in printed
        assert server.asked.total() == requests
