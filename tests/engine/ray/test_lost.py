"""Workers, a node, and the actor that hands out their work are lost in the middle of a run."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

from engine.ray.conftest import STORE, actors
from support.misbehaving import MisbehavingServer, slow
from tiltmeter.engine import Journal, Limits, Request, request_key
from tiltmeter.engine.ray import RayOptions, open_ray
from tiltmeter.models import Message, Sampling, create_model


def test_a_lost_worker_and_a_lost_node_are_retries(cluster: Any, journal: Journal) -> None:
    extra = cluster.add_node(num_cpus=1, object_store_memory=STORE)
    with MisbehavingServer(lambda request, nth: slow(0.05)) as server:
        model = create_model("compatible/m", base_url=server.url)
        requests = [Request((Message("user", f"lost {number}"),)) for number in range(1500)]

        def harm() -> None:
            while len(server.paid) < 200:
                time.sleep(0.01)
            os.kill(actors()[0].pid, signal.SIGKILL)
            while len(server.paid) < 600:
                time.sleep(0.01)
            cluster.remove_node(extra, allow_graceful=False)

        thread = threading.Thread(target=harm, daemon=True)
        with open_ray("ray", RayOptions.parse({"workers": "3"})) as three:
            thread.start()
            tally = three.generate(model, iter(requests), Sampling(), journal=journal, limits=Limits(max_connections=12))
        thread.join()
        assert tally.complete
        keys = [request_key(model.fingerprint, Sampling(), *request) for request in requests]
        assert tally.answered == len(journal.held(keys)) == 1500
        # What was in flight at the two losses, and had not yet been reported, is asked again: half a second of 12 connections.
        assert 1500 <= server.paid.total() <= 1500 + 2 * 150


def test_when_the_foreman_is_lost_all_begins_again_but_what_was_told(cluster: Any, journal: Journal) -> None:
    with MisbehavingServer(lambda request, nth: slow(0.05)) as server:
        model = create_model("compatible/m", base_url=server.url)
        requests = [Request((Message("user", f"begun {number}"),)) for number in range(1200)]

        def harm() -> None:
            while len(server.paid) < 500:
                time.sleep(0.01)
            for one in actors("Foreman"):
                os.kill(one.pid, signal.SIGKILL)

        thread = threading.Thread(target=harm, daemon=True)
        with open_ray("ray", RayOptions.parse({"workers": "2", "batch": "300"})) as two:
            thread.start()
            tally = two.generate(model, iter(requests), Sampling(), journal=journal, limits=Limits(max_connections=12))
        thread.join()
        assert tally.complete
        assert tally.answered == journal.counts()["ok"] == 1200
        assert 1200 < server.paid.total() <= 1200 + 150  # all batches were open; what was in flight is half a second of 12 connections
