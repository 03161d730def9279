"""Losses in the middle of a run, on a cluster of simulated nodes: workers, a node, the calling process."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psutil
import pytest

from conftest import Tiltmeter
from engine.ray.conftest import prompts, workers
from support.misbehaving import MisbehavingServer, slow
from support.tiny_models import save_encoder
from tiltmeter.engine import Journal, Keys, Limits, open_engine
from tiltmeter.errors import ProviderError
from tiltmeter.models import Sampling, create_model
from tiltmeter.models._huggingface import BulkModel
from tiltmeter.models._text_models import SentenceEncoder

pytestmark = [
    pytest.mark.verify,
    pytest.mark.filterwarnings(
        "ignore:Importing from 'sentence_transformers.models' is deprecated:DeprecationWarning"
    ),  # saving one
]
STORE = 80 * 2**20
STORYTELLER = Path(__file__).parents[2] / "fixtures" / "storyteller"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head without cores and two nodes with one core each; this process has joined it."""
    import ray
    from ray.cluster_utils import Cluster

    quick = {
        "health_check_period_ms": 500,
        "health_check_failure_threshold": 4,
        "health_check_initial_delay_ms": 0,
    }
    head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False, "_system_config": quick}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        cluster.add_node(num_cpus=1, object_store_memory=STORE)
    try:
        ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()  # type: ignore[no-untyped-call]


def test_a_lost_worker_and_a_lost_node_are_retries(cluster: Any, journal: Journal) -> None:
    extra = cluster.add_node(num_cpus=1, object_store_memory=STORE)
    with MisbehavingServer(lambda request, nth: slow(0.05)) as server:
        model, requests = create_model("compatible/m", base_url=server.url), prompts(1500, "lost")

        def harm() -> None:
            while len(server.paid) < 200:
                time.sleep(0.01)
            os.kill(workers()[0].pid, signal.SIGKILL)
            while len(server.paid) < 600:
                time.sleep(0.01)
            cluster.remove_node(extra, allow_graceful=False)

        thread = threading.Thread(target=harm, daemon=True)
        with open_engine("ray", {"workers": "3"}) as three:
            thread.start()
            tally = three.generate(
                model, iter(requests), Sampling(), journal=journal, limits=Limits(max_connections=12)
            )
        thread.join()
        assert tally.complete
        keys = [Keys(model.fingerprint, Sampling())(*request) for request in requests]
        assert tally.answered == len(journal.held(keys)) == 1500
        # What was in flight at the two losses, and had not been reported, is asked again.
        assert 1500 <= server.paid.total() <= 1500 + 2 * 12


def test_a_pool_grows_with_the_work_and_vectors_come_from_two_nodes(cluster: Any, tmp_path: Path) -> None:
    texts = [f"text {number} is kind" for number in range(4000)]
    folder = save_encoder(tmp_path / "encoder")
    with open_engine("ray", {"workers": "1-2"}) as two:
        vectors = two.encoder(folder, store=None).encode(texts)
        assert len(workers()) == 2
    assert np.array_equal(vectors, SentenceEncoder(folder, store=None).encode(texts))


def test_a_module_that_workers_lack_is_named(
    cluster: Any, journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "absent_there.py").write_text("def answer(prompt):\n    return prompt\n")
    monkeypatch.syspath_prepend(tmp_path)
    model = create_model("python/absent_there:answer")
    message = "a required package or file is missing: No module named 'absent_there'"
    with open_engine("ray", {"workers": "1"}) as engine, pytest.raises(ProviderError, match=message):
        engine.generate(model, prompts(3, "gone"), Sampling(), journal=journal)


_DRIVER = """
import sys
from tiltmeter.engine import Limits, Request, open_engine, open_journal
from tiltmeter.models import Message, Sampling, create_model
with open_engine("ray", {"workers": "2"}) as engine, open_journal(sys.argv[2]) as journal:
    asked = [Request((Message("user", f"killed {number}"),)) for number in range(1500)]
    model = create_model("compatible/m", base_url=sys.argv[1])
    tally = engine.generate(model, asked, Sampling(), journal=journal, limits=Limits(max_connections=8))
    print(tally.held, tally.answered)
"""


def test_a_killed_run_on_a_cluster_resumes(cluster: Any, tmp_path: Path) -> None:
    with MisbehavingServer(lambda request, nth: slow(0.02)) as server:
        command = [sys.executable, "-c", _DRIVER, server.url, str(tmp_path / "journal.db")]
        variables = {**os.environ, "RAY_ADDRESS": cluster.address}
        first = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while len(server.paid) < 400:
            assert first.poll() is None
            time.sleep(0.01)
        first.send_signal(signal.SIGKILL)
        first.communicate()
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True, timeout=240)
        stored, answered = map(int, done.stdout.split())
        assert stored > 0
        assert stored + answered == 1500
        # What was asked in the last half second before the kill, and until the cluster noticed it, was paid
        # twice.
        assert 1500 <= server.paid.total() <= 1500 + 400


def test_vllm_is_looked_for_where_the_gpus_are(cluster: Any, journal: Journal) -> None:
    model = create_model(f"hf/{STORYTELLER}", options={"runner": "vllm"})
    assert isinstance(model, BulkModel)
    node = cluster.add_node(num_cpus=1, num_gpus=1, object_store_memory=STORE)
    try:
        with (
            open_engine("ray", {"workers": "1", "gpus": "1"}) as engine,
            pytest.raises(ProviderError, match="pip install vllm"),
        ):
            engine.generate(model, prompts(2, "vllm"), Sampling(), journal=journal)
    finally:
        cluster.remove_node(node)


def test_the_command_starts_a_cluster_of_its_own_and_ends_it(tmp_path: Path, tiltmeter: Tiltmeter) -> None:
    study = [
        "run",
        "associations/gender",
        "-m",
        "sim/biased",
        "--judge",
        "sim/fair",
        "--limit",
        "12",
        "-P",
        "encoder=none",
    ]
    for engine in (["local"], ["ray", "-E", "workers=2"]):
        out, folder = engine[0], str(tmp_path / f"runs-{engine[0]}")
        done = tiltmeter(
            *study, "--display", "plain", "--engine", *engine, "--out", out, TILTMETER_RUNS=folder
        )
        assert done.returncode == 0, done.stderr
        assert "raylet" not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
    local = pl.read_parquet(tmp_path / "local" / "findings.parquet")
    of_cluster = pl.read_parquet(tmp_path / "ray" / "findings.parquet")
    assert local.height
    assert of_cluster.equals(local)
    deadline = time.monotonic() + 60  # a worker checks once a second whether the cluster still exists
    while processes := [
        process
        for process in psutil.process_iter(["environ", "cmdline"])
        if (process.info["environ"] or {}).get("TILTMETER_RUNS") == folder
    ]:
        assert time.monotonic() < deadline, [process.info["cmdline"] for process in processes]
        time.sleep(0.1)
