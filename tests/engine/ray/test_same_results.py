"""The engine on a cluster keeps the promises of the local one, for answers, vectors and scores."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiltmeter as tm
from engine.ray.conftest import prompts
from support.misbehaving import Behaviour, MisbehavingServer, hang, rate_limited, slow, wrong_key
from support.tiny_models import save_classifier, save_encoder
from tiltmeter.engine import Journal, Keys, Limits, generate, open_display, open_engine, open_journal
from tiltmeter.engine._ray_engine import RayEngine
from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models import Sampling, create_model
from tiltmeter.models._text_models import SentenceEncoder, TextClassifier

pytestmark = [
    pytest.mark.verify,
    pytest.mark.filterwarnings(
        "ignore:Importing from 'sentence_transformers.models' is deprecated:DeprecationWarning"
    ),  # saving one
]
TEXTS = [f"the {'nurse ' * (number % 40)}{number} is kind" for number in range(400)] + ["", "a " * 3000]
GREEDY = Sampling(temperature=0.0)


@pytest.fixture(scope="module")
def engine() -> Iterator[RayEngine]:
    with open_engine("ray", {"workers": "2"}) as opened:
        assert isinstance(opened, RayEngine)
        yield opened


def test_answers_are_those_of_the_local_engine_and_asked_once(
    engine: RayEngine, journal: Journal, tmp_path: Path
) -> None:
    model, requests = create_model("sim/mild"), prompts(1500, "same")
    keys = [Keys(model.fingerprint, GREEDY)(*request) for request in requests]
    spread = engine.generate(model, iter(requests * 2), GREEDY, journal=journal)
    with open_journal(tmp_path / "local.db") as local_journal:
        local = generate(model, iter(requests * 2), GREEDY, journal=local_journal)
        assert local_journal.fetch(keys).equals(journal.fetch(keys))
    for name in (
        "total",
        "answered",
        "failed",
        "errors",
        "input_tokens",
        "output_tokens",
        "unmetered",
        "cost",
    ):
        assert getattr(spread, name) == getattr(local, name)
    again = engine.generate(model, iter(requests), GREEDY, journal=journal)
    assert (again.held, again.answered, again.total) == (1500, 0, 1500)


def test_an_endpoint_is_asked_no_harder_than_the_limits_say(engine: RayEngine, journal: Journal) -> None:
    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        if nth == 1 and request["messages"][-1]["content"].endswith("77"):
            return hang(60.0)
        return (
            rate_limited(0.05)
            if nth == 1 and request["messages"][-1]["content"].endswith("8")
            else slow(0.02)
        )

    with MisbehavingServer(script) as server:
        model, limits = (
            create_model("compatible/m", base_url=server.url),
            Limits(max_connections=6, timeout=4.0),
        )
        tally = engine.generate(model, prompts(120, "limits"), GREEDY, journal=journal, limits=limits)
        assert (tally.answered, tally.errors) == (120, {"rate_limit": 12, "timeout": 1})
        assert 1 < server.max_concurrent <= 6
    with MisbehavingServer(lambda request, nth: hang(5.0)) as server:
        model, limits = create_model("compatible/m", base_url=server.url), Limits(timeout=0.5, retries=0)
        request = prompts(1, "late")[0]
        assert engine.generate(model, [request], GREEDY, journal=journal, limits=limits).failed == {
            "timeout": 1
        }
        failed = journal.fetch([Keys(model.fingerprint, GREEDY)(*request)])
        assert failed["error"].to_list() == ["timeout: no answer within 0.5 s"]
    with MisbehavingServer(lambda request, nth: slow(0.05)) as server:
        model = create_model("compatible/m", base_url=server.url)
        assert (
            engine.generate(
                model, prompts(5, "one"), GREEDY, journal=journal, limits=Limits(max_connections=1)
            ).answered
            == 5
        )
        assert server.max_concurrent == 1
        begun = time.monotonic()
        engine.generate(
            model, prompts(7, "rate"), GREEDY, journal=journal, limits=Limits(requests_per_minute=240)
        )
        assert time.monotonic() - begun > 6 / 4


def test_a_model_that_fails_ends_only_itself_with_the_sentence_of_the_local_engine(
    engine: RayEngine, journal: Journal
) -> None:
    with MisbehavingServer(lambda request, nth: wrong_key()) as server:
        model, message = create_model("compatible/m", base_url=server.url), []
        for generation in (generate, engine.generate):
            with pytest.raises(ProviderError, match="answered 401") as failure:
                generation(model, prompts(500, "key"), GREEDY, journal=journal)
            message.append(str(failure.value))
        assert message[0] == message[1]
        assert server.requests <= 2 * 64
    assert engine.generate(create_model("sim/fair"), prompts(3, "key"), GREEDY, journal=journal).answered == 3


def test_a_model_that_cannot_be_sent_to_workers_is_named(engine: RayEngine, journal: Journal) -> None:
    model = create_model("sim/mild")
    model.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=r"^sim/mild cannot be sent"):
        engine.generate(model, prompts(1, "no"), GREEDY, journal=journal)


def test_an_interrupted_run_keeps_its_answers_and_resumes(
    engine: RayEngine, journal: Journal, capfd: pytest.CaptureFixture[str]
) -> None:
    with MisbehavingServer(lambda request, nth: slow(0.05)) as server:
        model, requests = create_model("compatible/m", base_url=server.url), prompts(800, "stop")

        def interrupt() -> None:
            while len(server.paid) < 100:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt, daemon=True)
        thread.start()
        with open_display("plain", 800, "asking") as progress:
            tally = engine.generate(
                model,
                iter(requests),
                GREEDY,
                journal=journal,
                progress=progress,
                limits=Limits(max_connections=16),
            )
        thread.join()
        assert tally.interrupted
        assert 100 <= tally.answered == journal.counts()["ok"] == server.paid.total() < 800
        assert f"asking: {tally.answered:,}/800 done" in capfd.readouterr().err
        completions = engine.generate(model, iter(requests), GREEDY, journal=journal)
        assert (completions.held, completions.answered) == (tally.answered, 800 - tally.answered)
        assert set(server.paid.values()) == {1}


def test_vectors_and_scores_are_those_of_this_process_to_the_last_bit(
    engine: RayEngine, tmp_path: Path
) -> None:
    folder, store = save_encoder(tmp_path / "encoder"), tmp_path / "vectors.sqlite"
    local, remote = SentenceEncoder(folder, store=None), engine.encoder(folder, store=store)
    assert remote.name == local.name
    assert np.array_equal(remote.encode(TEXTS), local.encode(TEXTS))
    assert np.array_equal(remote.cut(TEXTS), local.cut(TEXTS))
    assert local.cut(TEXTS).any()
    assert np.array_equal(SentenceEncoder(folder, store=store).encode(TEXTS[:9]), local.encode(TEXTS)[:9])
    folder = save_classifier(tmp_path / "classifier", ["kind", "not"])
    labels, scores = (
        TextClassifier(folder, store=None),
        engine.classifier(folder, store=tmp_path / "scores.sqlite"),
    )
    assert (scores.name, scores.labels) == (labels.name, labels.labels)
    assert np.array_equal(scores.scores(TEXTS), labels.scores(TEXTS))


def test_files_that_a_worker_lacks_are_named(engine: RayEngine, tmp_path: Path) -> None:
    folder = save_encoder(tmp_path / "gone")
    encoder = engine.encoder(folder, store=None)
    (folder / "model.safetensors").rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"contains no weights.*\(on the worker "):
        encoder.encode(["one"])


def test_findings_of_a_run_are_those_of_the_local_engine(
    engine: RayEngine, tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.close()  # its workers have all the cores
    monkeypatch.setenv("TILTMETER_DATA", environment["TILTMETER_DATA"])
    by_name = {}
    for name in ("local", "ray"):
        monkeypatch.setenv("TILTMETER_RUNS", str(tmp_path / name))
        by_name[name] = tm.run(
            "genderbench", model=["sim/biased", "sim/fair"], limit=2, engine=name, out=tmp_path / name / "run"
        )
    assert by_name["ray"].about["engine"] == "ray"
    for table in ("findings", "responses"):
        local = getattr(by_name["local"], table)
        of_cluster = getattr(by_name["ray"], table)
        assert local.height > 100
        assert of_cluster.drop("latency", strict=False).equals(local.drop("latency", strict=False))
