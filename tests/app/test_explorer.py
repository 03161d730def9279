"""The explorer as people use it: the command in a real browser."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from playwright import sync_api

from support.commands import begin, user_environment
from support.misbehaving import MisbehavingServer

from .conftest import CLOSING, FORMULA, HOSTILE, IMAGE, LINK, SCRIPT

pytestmark = pytest.mark.verify

COUNT = re.compile(r"^([\d,]+) of ([\d,]+) findings")
ANSWERS = re.compile(r"^([\d,]+) of ([\d,]+) answers$")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def stop(process: subprocess.Popen[str]) -> str:
    """End a process that a test started; return its output."""
    process.terminate()
    try:
        return process.communicate(timeout=60)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


@pytest.fixture(scope="module")
def address(shared: Path, runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address at which `tiltmeter view` listens."""
    port = free_port()
    home = tmp_path_factory.mktemp("home")
    environment = user_environment(shared, runs) | {"HOME": str(home)}
    server = begin(["view", "--no-browser", "--port", str(port)], home, environment, stderr=subprocess.STDOUT)
    try:
        for _ in range(600):
            if server.poll() is not None:
                pytest.fail(f"the explorer ended at once: {stop(server)}")
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        output = stop(server)
    assert server.returncode == 0
    assert "Traceback" not in output


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if executable is None:
        message = "no Chromium found: install the package chromium"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield opened
        opened.close()


class Visit:
    """A page, with the dialogs, errors and requests to other addresses that must not occur on it."""

    def __init__(self, page: sync_api.Page, address: str) -> None:
        self.page, self.address = page, address
        self.dialogs: list[str] = []
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        page.on("dialog", self._dialog)
        page.on(
            "console", lambda message: self.errors.append(message.text) if message.type == "error" else None
        )
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on(
            "request", lambda request: None if self._here(request.url) else self.elsewhere.append(request.url)
        )

    def _here(self, url: str) -> bool:
        return url.startswith((self.address, self.address.replace("http:", "ws:"), "data:", "blob:"))

    def _dialog(self, dialog: sync_api.Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def settle(self) -> None:
        """Wait until the page has processed the last input: a click on an element that is redrawn is lost."""
        quiet = 0
        while quiet < 3:
            self.page.wait_for_timeout(150)
            state = self.page.get_by_test_id("stApp").get_attribute("data-test-script-state")
            quiet = quiet + 1 if state == "notRunning" else 0

    def choose(self, facet: str, value: str) -> None:
        """Choose a value of a filter; repeat it if the page was redrawn at that moment and lost the click."""
        field = self.page.get_by_test_id("stMultiSelect").filter(has_text=facet)
        for _ in range(10):
            self.settle()
            self.page.get_by_role("combobox", name=facet).click()
            with contextlib.suppress(sync_api.TimeoutError):  # the list closed when the page was redrawn
                self.page.get_by_role("option", name=value).click(timeout=5_000)
            self.page.keyboard.press("Escape")
            self.settle()
            if value in field.first.inner_text():
                return

    def open_run(self, name: str) -> None:
        self.page.goto(f"{self.address}/?run={name}")
        self.page.get_by_text("Findings", exact=True).wait_for()

    def choose_row(self, table: int, row: int) -> None:
        """Click the box before a row; the table is drawn on a canvas, so the position is computed."""
        self.settle()
        frame = self.page.get_by_test_id("stDataFrame").nth(table)
        frame.locator("canvas").first.wait_for()
        frame.scroll_into_view_if_needed()
        box = frame.bounding_box()
        assert box is not None
        self.page.mouse.click(box["x"] + 18, box["y"] + 52 + 35 * row)

    def cells(self, table: int, column: int) -> sync_api.Locator:
        """Return the cells of a column as a screen reader reads them."""
        return (
            self.page.get_by_test_id("stDataFrame").nth(table).locator(f"tbody td[aria-colindex='{column}']")
        )

    def code(self) -> list[str]:
        return self.page.get_by_test_id("stCode").all_inner_texts()


@pytest.fixture
def visit(browser: sync_api.Browser, address: str) -> Iterator[Visit]:
    """A visit without dialogs, errors and requests to other addresses."""
    context = browser.new_context(viewport={"width": 1400, "height": 2400})
    context.set_default_timeout(60_000)
    sync_api.expect.set_options(timeout=60_000)
    visited = Visit(context.new_page(), address)
    yield visited
    context.close()
    assert visited.dialogs == []
    assert visited.errors == []
    assert visited.elsewhere == []


def test_a_row_of_the_list_of_runs_opens_the_run(visit: Visit) -> None:
    visit.page.goto(visit.address)
    visit.page.get_by_text("Select a row to open a run").wait_for()
    visit.choose("Method", "probes")
    sync_api.expect(visit.page.get_by_test_id("stDataFrame").locator("tbody tr")).to_have_count(1)
    # A screen reader reads the time itself; the canvas shows it as "29 Nov 2026, 07:57".
    sync_api.expect(visit.cells(0, 1)).to_have_text(re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+00:00$"))
    sync_api.expect(visit.cells(0, 4)).to_contain_text("sim/mild (simulated model): ")
    visit.choose_row(0, 0)
    visit.page.get_by_text("probes (complete)").wait_for()
    assert visit.page.url.endswith("?run=probes")


def test_a_finding_opens_a_response_and_its_counterpart(visit: Visit) -> None:
    visit.open_run("countries")
    counted = visit.page.get_by_text(COUNT).inner_text()
    everything = COUNT.match(counted)
    visit.choose("Group", "Germany")
    # Words typed before the page is redrawn would be lost.
    sync_api.expect(visit.page.get_by_text(COUNT)).not_to_have_text(counted)
    visit.page.get_by_label("Search metrics").fill("minus_others_selection_rate diplomat")
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_function(
        "[...document.querySelectorAll('p')].some(p => /^6 of [\\d,]+ findings/.test(p.textContent))"
    )
    assert everything is not None
    assert int(everything[1].replace(",", "")) > 6
    sync_api.expect(visit.cells(0, 3)).to_have_text(["Germany"] * 6)
    visit.choose_row(0, 0)
    visit.page.get_by_text(re.compile(r"^\d+ responses, showing 1 to")).wait_for()
    visit.choose_row(1, 0)
    visit.page.get_by_text("Counterfactual pair").wait_for()
    sync_api.expect(visit.page.get_by_test_id("stCode")).to_have_count(9)
    texts = visit.code()
    response, counterpart = texts[:3], texts[-3:]
    role, prompt, _ = response  # the role is a system message
    role_of_counterpart, prompt_of_counterpart, answer_of_counterpart = counterpart
    assert texts[3:6] == response
    assert role_of_counterpart == role
    assert "Germany" in prompt
    assert "Germany" not in prompt_of_counterpart
    assert answer_of_counterpart
    against = visit.page.get_by_role("combobox", name="Compare with")
    sync_api.expect(against).to_have_value(re.compile("concept: Germany → "))


OLD_AND_NEW = """() => {
    window.seen = window.seenTogether = 0;
    setInterval(() => {
        const words = document.body.innerText;
        if (words.includes("Second model")) {
            window.seen += 1;
            window.seenTogether += words.includes("Report as a page") || words.includes("Search metrics");
        }
    }, 10);
}"""
"""A script that counts how often the new view is on the page, and how often with the old one."""


def test_two_models_are_compared_in_words(visit: Visit) -> None:
    visit.open_run("probes")
    visit.settle()
    visit.page.evaluate(OLD_AND_NEW)
    visit.page.get_by_text("Compare models").click()
    visit.page.get_by_text("Second minus first").first.wait_for()
    visit.settle()
    assert visit.page.evaluate("window.seen") > 0
    assert visit.page.evaluate("window.seenTogether") == 0, "the old view is gone before the new one is shown"
    # The results that were shown before are gone.
    sync_api.expect(visit.page.get_by_test_id("stExpander")).to_have_count(1)
    comparison = visit.page.get_by_test_id("stExpander").inner_text()
    assert "Who said it" in comparison
    assert "stereotype_rate" not in comparison
    assert re.search(r"\d+ better, \d+ worse", comparison)


def test_only_this_machine_is_served_and_only_under_its_own_name(address: str) -> None:
    port = int(address.rpartition(":")[2])
    socket_13 = {
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGlsdG1ldGVyIHRlc3RzIQ==",
    }

    def status(host: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            headers = {**socket_13, "Connection": "Upgrade", "Host": host, "Origin": f"http://{host}"}
            connection.request("GET", "/_stcore/stream", headers=headers)
            return int(connection.getresponse().status)
        finally:
            connection.close()

    assert status(f"127.0.0.1:{port}") == 101
    assert status(f"rebound.invalid:{port}") == 403
    with pytest.raises(ConnectionRefusedError):  # another address of this machine
        socket.create_connection(("127.0.0.2", port), timeout=5)


def test_hostile_texts_are_shown_as_text_in_the_explorer(visit: Visit) -> None:
    visit.page.goto(visit.address)
    visit.page.get_by_text("Select a row to open a run").wait_for()
    visit.open_run("hostile")
    visit.page.get_by_text(f"benchmarks/{CLOSING}: {SCRIPT}").wait_for()
    for facet, text in (("Group", IMAGE), ("Model", SCRIPT)):
        visit.choose(facet, text)
    assert visit.page.get_by_text(LINK).count() > 0  # what is missing from the run
    visit.choose_row(0, 0)
    visit.page.get_by_text(" · ".join([f"{CLOSING} 0", IMAGE, LINK, FORMULA])).wait_for()
    for row, text in enumerate(HOSTILE):
        visit.choose_row(1, row)
        sync_api.expect(visit.page.get_by_test_id("stCode").nth(1)).to_contain_text(text[:20_000])
    sync_api.expect(visit.page.get_by_text("The first 20,000 of 1,000,000 characters.").first).to_be_visible()
    assert visit.code()[0] == LINK
    elements = visit.page.evaluate(
        "[...document.querySelectorAll('img, b, script:not([src]), a[href^=javascript]')]"
        ".filter(element => element.closest('.stMain')"
        " && (element.tagName != 'B' || !element.closest('.stHtml'))).length"
    )
    assert elements == 0
    # Cells of such a file would not be neutralised.
    assert visit.page.get_by_role("button", name="Download as CSV").count() == 0


class HeldServer(MisbehavingServer):
    """Answer about as many requests as `granted` says; further ones wait."""

    granted = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        while self.requests >= self.granted:
            await self.sleep(0.05)
        return await super().answer(request)

    def __exit__(self, *ended: Any) -> None:
        self.granted = sys.maxsize
        super().__exit__(*ended)


def test_a_run_is_watched_as_it_grows_until_it_is_done(visit: Visit, shared: Path, runs: Path) -> None:
    with HeldServer(lambda request, nth: "She likes her work.") as server:
        model = f"-m compatible/m --base-url {server.url} --max-connections 4"
        command = f"run genderbench/jobs_lum {model} --limit 24 --display none --out growing"
        growing = begin(command.split(), runs, user_environment(shared, runs), stderr=subprocess.STDOUT)
        try:
            while not (runs / "growing" / "design.parquet").exists():
                assert growing.poll() is None
                time.sleep(0.1)
            visit.page.goto(f"{visit.address}/?run=growing")
            visit.page.get_by_text("growing (in progress)").wait_for()
            answers = visit.page.get_by_text(ANSWERS)
            texts = [answers.inner_text()]
            for granted in (20, 40, 60):
                server.granted = granted
                sync_api.expect(answers).not_to_have_text(texts[-1])
                texts.append(answers.inner_text())
            server.granted = sys.maxsize
            visit.page.get_by_text("growing (complete)").wait_for()
            visit.page.get_by_text(COUNT).wait_for()
            assert growing.wait(timeout=120) == 0
        finally:
            stop(growing)
    counts = [tuple(int(number) for number in re.findall(r"\d+", text)) for text in texts]
    assert counts == sorted(counts)
    assert counts[0][0] == 0
    assert {planned for _, planned in counts} == {120}
    assert counts[-1][0] <= 64  # four requests are under way at a time
