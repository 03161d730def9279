"""The engine on a cluster keeps the promises of the local one, for answers, vectors and scores."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.misbehaving import Behaviour, MisbehavingServer, rate_limited, slow, wrong_key
from support.tiny_models import save_classifier, save_encoder
from tiltmeter.engine import Journal, Limits, Request, generate, open_display, request_key
from tiltmeter.engine.ray import RayEngine
from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models import Message, Sampling, create_model
from tiltmeter.models.classifiers import open_classifier
from tiltmeter.models.encoders import open_encoder

pytestmark = [
    pytest.mark.filterwarnings("ignore:Importing from 'sentence_transformers.models' is deprecated:DeprecationWarning"),  # saving one
]
TEXTS = [f"the {'nurse ' * (number % 40)}{number} is kind" for number in range(700)] + ["", "a " * 3000]
GREEDY = Sampling(temperature=0.0)


def prompts(count: int, name: str) -> list[Request]:
    return [Request((Message("user", f"{name} {number}"),)) for number in range(count)]


def held(journal: Journal, model: Any, requests: list[Request]) -> int:
    return len(journal.held([request_key(model.fingerprint, GREEDY, *request) for request in requests]))


def test_answers_are_those_of_the_local_engine(engine: RayEngine, journal: Journal, tmp_path: Any) -> None:
    from tiltmeter.engine import open_journal

    model, requests = create_model("sim/mild"), prompts(3000, "same")
    keys = [request_key(model.fingerprint, GREEDY, *request) for request in requests]
    spread = engine.generate(model, iter(requests), GREEDY, journal=journal)
    with open_journal(tmp_path / "local.db") as other:
        local = generate(model, iter(requests), GREEDY, journal=other)
        assert other.fetch(keys).equals(journal.fetch(keys))
    for name in ("total", "held", "repeated", "answered", "failed", "errors", "input_tokens", "output_tokens", "unmetered", "cost"):
        assert getattr(spread, name) == getattr(local, name)
    again = engine.generate(model, iter(requests * 2), GREEDY, journal=journal)
    assert (again.held, again.answered, again.total) == (6000, 0, 6000)


def test_a_request_that_comes_again_before_it_was_asked_is_asked_once(engine: RayEngine, journal: Journal) -> None:
    with MisbehavingServer(lambda request, nth: slow(0.01)) as server:
        model, requests = create_model("compatible/m", base_url=server.url), prompts(600, "twice")
        tally = engine.generate(model, iter(requests * 2), GREEDY, journal=journal)
    assert len(server.paid) == server.paid.total() == tally.answered == 600
    assert (tally.held + tally.repeated, tally.done) == (600, tally.total)


def test_no_batch_is_more_than_a_part_of_what_is_left(engine: RayEngine, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    from tiltmeter.engine.ray import _team

    sizes: list[int] = []
    submit = _team.Team.submit

    def noted(self: _team.Team, payload: Any, report: Any) -> Any:
        sizes.append(len(payload[1]))
        return submit(self, payload, report)

    monkeypatch.setattr(_team.Team, "submit", noted)
    assert engine.generate(create_model("sim/mild"), iter(prompts(3000, "even")), GREEDY, journal=journal).answered == 3000
    assert sum(sizes) == 3000
    left = 3000 - np.cumsum([0, *sizes])
    assert max(sizes) > 64  # they grow first
    assert all(size <= max(64, rest // 4) for size, rest in zip(sizes, left, strict=False))
    assert max(sizes[-8:]) <= 32


def test_an_endpoint_is_asked_no_harder_than_the_limits_say(engine: RayEngine, journal: Journal) -> None:
    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        return rate_limited(0.05) if nth == 1 and request["messages"][-1]["content"].endswith("7") else slow(0.02)

    with MisbehavingServer(script) as server:
        model, requests = create_model("compatible/m", base_url=server.url), prompts(120, "limits")
        tally = engine.generate(model, requests, GREEDY, journal=journal, limits=Limits(max_connections=6))
    assert (tally.answered, tally.errors) == (120, {"rate_limit": 12})
    assert set(server.paid.values()) == {1}
    assert 1 < server.max_concurrent <= 6
    with MisbehavingServer(lambda request, nth: slow(0.05)) as server:
        model = create_model("compatible/m", base_url=server.url)
        assert engine.generate(model, prompts(5, "one"), GREEDY, journal=journal, limits=Limits(max_connections=1)).answered == 5
    assert server.max_concurrent == 1


def test_a_wrong_key_ends_it_with_one_sentence(engine: RayEngine, journal: Journal) -> None:
    with MisbehavingServer(lambda request, nth: wrong_key()) as server:
        model = create_model("compatible/m", base_url=server.url)
        with pytest.raises(ProviderError, match="answered 401"):
            engine.generate(model, prompts(500, "key"), GREEDY, journal=journal)
        assert server.requests <= 2 * 64


def test_what_cannot_travel_is_said(engine: RayEngine, journal: Journal) -> None:
    model = create_model("sim/mild")
    model.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=r"^sim/mild cannot be sent"):
        engine.generate(model, prompts(1, "no"), GREEDY, journal=journal)


def test_an_interrupted_run_keeps_what_was_under_way_and_goes_on_later(
    engine: RayEngine, journal: Journal, capfd: pytest.CaptureFixture[str]
) -> None:
    with MisbehavingServer(lambda request, nth: slow(0.05)) as server:
        model, requests = create_model("compatible/m", base_url=server.url), prompts(2000, "stop")

        def mine() -> list[int]:
            """How often each was paid; without what comes late of the test before."""
            return [count for prompt, count in list(server.paid.items()) if prompt.startswith("stop ")]

        def interrupt() -> None:
            while len(mine()) < 100:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt, daemon=True)
        thread.start()
        with open_display("plain", 2000, "asking") as progress:
            tally = engine.generate(model, iter(requests), GREEDY, journal=journal, progress=progress, limits=Limits(max_connections=16))
        thread.join()
        assert tally.interrupted
        assert 100 <= tally.answered < 2000
        assert tally.answered == held(journal, model, requests) == sum(mine())
        assert f"asking: {tally.answered:,}/2,000 done" in capfd.readouterr().err
        rest = engine.generate(model, iter(requests), GREEDY, journal=journal)
        assert (rest.held, rest.answered) == (tally.answered, 2000 - tally.answered)
        assert set(mine()) == {1}


def test_vectors_are_those_of_this_process_to_the_last_bit(engine: RayEngine, tmp_path: Path) -> None:
    folder, store = save_encoder(tmp_path / "encoder"), tmp_path / "vectors.sqlite"
    here, there = open_encoder(folder, store=None), engine.encoder(folder, store=store)
    assert there.name == here.name
    assert np.array_equal(there.encode(TEXTS), here.encode(TEXTS))
    assert np.array_equal(there.cut(TEXTS), here.cut(TEXTS))
    assert here.cut(TEXTS).any()
    assert np.array_equal(open_encoder(folder, store=store).encode(TEXTS[:9]), here.encode(TEXTS)[:9])


def test_scores_are_those_of_this_process_to_the_last_bit(engine: RayEngine, tmp_path: Path) -> None:
    folder = save_classifier(tmp_path / "classifier", ["kind", "not"])
    here, there = open_classifier(folder, store=None), engine.classifier(folder, store=tmp_path / "scores.sqlite")
    assert (there.name, there.labels) == (here.name, here.labels)
    assert np.array_equal(there.scores(TEXTS), here.scores(TEXTS))


def test_files_that_a_worker_lacks_are_named(engine: RayEngine, tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "gone")
    encoder = engine.encoder(folder, store=None)
    (folder / "model.safetensors").rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"holds no weights.*\(on the worker "):
        encoder.encode(["one"])
