"""A pool deals out calls, grows, shrinks and replaces workers, which are objects of this process here."""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.ray.conftest import prompts
from tiltmeter.engine import Journal, Limits, Request, _ray_engine as pool, generate
from tiltmeter.engine._ray_engine import PoolSession, RayEngine, RayOptions, RayWorker, WorkerPool
from tiltmeter.errors import ProviderError
from tiltmeter.models import Message, ModelError, Sampling, create_model
from tiltmeter.models._huggingface import BulkModel

ray = pytest.importorskip("ray")
STORYTELLER = Path(__file__).parents[2] / "fixtures" / "storyteller"


class Echo:
    """Work that takes a moment, or with the payload `slow` a minute; `fatal` payloads end the worker."""

    whose = "echo"

    async def start(self) -> None: ...

    async def do(self, payload: Any) -> Any:
        await asyncio.sleep(60 if payload == "slow" else 0.01)
        return payload

    async def close(self) -> None: ...


class Actor:
    """A handle with the methods of a worker; `lost` makes all of them fail."""

    def __init__(self) -> None:
        self.worker = RayWorker()
        self.lost = False
        self.seen = 0
        self.now = 0
        self.most = 0

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any) -> Any:
            if name == "do":
                self.seen += 1
                self.now += 1
                self.most = max(self.most, self.now)
                self.lost |= arguments[0] == "fatal"
            try:
                answer = None if self.lost else await getattr(self.worker, name)(*arguments)
            finally:
                self.now -= name == "do"
            if self.lost:
                raise ray.exceptions.ActorDiedError
            return answer

        return SimpleNamespace(remote=lambda *arguments: asyncio.ensure_future(call(*arguments)))


class FakePool(WorkerPool):
    hired: list[Actor]

    def hire(self) -> Any:
        self.hired = [*getattr(self, "hired", []), Actor()]
        self.actors.append(self.hired[-1])
        return self.hired[-1]

    def dismiss(self, actor: Any) -> None:
        self.actors.remove(actor)

    def cancel(self, call: Any) -> None:
        call.cancel()


def pool_of(least: int, most: int) -> FakePool:
    return FakePool(RayOptions((least, most)))


def carry_out(entries: FakePool, slots: int, work: Callable[[PoolSession], Any]) -> Any:
    async def main() -> Any:
        async with PoolSession(entries, Echo(), slots) as session:  # type: ignore[arg-type]
            return await work(session)

    return asyncio.run(main())


async def call_many(session: PoolSession) -> list[Any]:
    return list(await asyncio.gather(*(session.call(number) for number in range(60))))


def test_calls_are_dealt_evenly_and_each_has_its_own_result() -> None:
    pool = pool_of(3, 3)
    assert carry_out(pool, 8, call_many) == list(range(60))
    assert max(actor.most for actor in pool.hired) <= 8
    assert min(actor.seen for actor in pool.hired) >= 13


def test_a_pool_grows_with_the_work_and_shrinks_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "IDLE", 0.05)
    sizes = []

    async def much_then_little(session: PoolSession) -> None:
        await call_many(session)
        sizes.append(len(session._pool.actors))
        await asyncio.sleep(0.3)
        sizes.append(len(session._pool.actors))

    grown_pool = pool_of(1, 3)
    carry_out(grown_pool, 4, much_then_little)
    assert (sizes, len(grown_pool.hired)) == ([3, 1], 3)


def test_a_lost_worker_is_replaced_and_its_calls_asked_again() -> None:
    async def lose_one(session: PoolSession) -> list[int]:
        calls = asyncio.create_task(call_many(session))
        await asyncio.sleep(0.03)
        session._pool.actors[0].lost = True
        return await calls

    pool = pool_of(2, 2)
    assert (carry_out(pool, 8, lose_one), len(pool.hired)) == (list(range(60)), 3)


def test_a_call_that_loses_every_worker_ends_the_session_with_one_sentence() -> None:
    with pytest.raises(
        ProviderError,
        match=r"echo: workers of the cluster were lost \d times in a row \(ActorDiedError.*are kept",
    ):
        carry_out(pool_of(2, 2), 8, lambda session: session.call("fatal"))


def test_a_call_that_is_given_up_ends_in_its_worker_and_leaves_room() -> None:
    async def give_up(session: PoolSession) -> Any:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(session.call("slow"), 0.05)
        return await session.call("quick")

    pool = pool_of(1, 1)
    assert (carry_out(pool, 1, give_up), pool.hired[0].now) == ("quick", 0)


def test_a_cluster_without_room_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "START", 0.05)

    class NoRoom(FakePool):
        def hire(self) -> Any:
            actor = SimpleNamespace(begin=SimpleNamespace(remote=lambda *_: asyncio.sleep(60)))
            self.actors.append(actor)
            return actor

    with pytest.raises(ProviderError, match="no room for a worker with 2 CPUs and 1 GPUs"):
        carry_out(NoRoom(RayOptions((1, 1), 2.0, 1.0)), 1, call_many)


def in_vllm() -> BulkModel:
    bulk = create_model(f"hf/{STORYTELLER}", options={"runner": "vllm"})
    assert isinstance(bulk, BulkModel)
    bulk.gpus = 2
    return bulk


def test_vllm_is_given_the_tokens_and_parameters_and_its_answers_are_kept(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: list[dict[str, Any]] = []

    class Engine:
        errored = False

        @classmethod
        def from_engine_args(cls, arguments: dict[str, Any]) -> Engine:
            settings.append(arguments)
            return cls()

        async def generate(self, prompt: dict[str, Any], parameters: dict[str, Any], request_id: str) -> Any:
            if int(request_id) % 10 == 7:
                raise ValueError("odd")
            for tokens in ([1, 2], list(range(40 if int(request_id) % 2 else 5))):
                yield SimpleNamespace(
                    outputs=[
                        SimpleNamespace(text=f"answer to {len(prompt['prompt_token_ids'])}", token_ids=tokens)
                    ]
                )

        def shutdown(self) -> None:
            settings.append({})

    fake = SimpleNamespace(AsyncEngineArgs=dict, AsyncLLMEngine=Engine, SamplingParams=dict)
    monkeypatch.setitem(sys.modules, "vllm", fake)
    requests = [*prompts(20, "story"), Request((Message("user", "story " * 5000),))]
    tally = generate(in_vllm(), requests, Sampling(temperature=0.7, max_tokens=40), journal=journal)
    assert (tally.answered, tally.failed) == (18, {"internal": 2, "context_length": 1})
    assert settings == [
        {
            "model": str(STORYTELLER),
            "tensor_parallel_size": 2,
            "dtype": "auto",
            "trust_remote_code": False,
            "load_format": "safetensors",
        },
        {},
    ]


def test_a_vllm_that_failed_for_good_ends_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ended(BaseException): ...

    def leave(status: int) -> None:
        raise Ended

    async def generate_nothing(*_: Any, **__: Any) -> Any:
        raise RuntimeError("dead")
        yield

    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(SamplingParams=dict))
    model = in_vllm()
    model._engine = SimpleNamespace(errored=True, generate=generate_nothing)
    with pytest.raises(Ended):
        asyncio.run(model.complete((Message("user", "hi"),), Sampling(), 0))


def test_vllm_without_whole_gpus_or_a_cluster_says_what_it_needs(journal: Journal) -> None:
    bulk = create_model(f"hf/{STORYTELLER}", options={"runner": "vllm"})
    with pytest.raises(ProviderError, match="needs whole GPUs for each worker: give -E gpus=1"):
        RayEngine("ray", RayOptions((1, 1), 1.0, 0.5)).generate(
            bulk, prompts(2, "no"), Sampling(), journal=journal
        )
    with pytest.raises(ProviderError, match="-M runner=vllm needs --engine ray"):
        generate(bulk, prompts(2, "no"), Sampling(), journal=journal)


def test_errors_of_models_travel_whole() -> None:
    error = ModelError("overloaded", "later", retry_after=2.0, status=503)
    arrived = pickle.loads(pickle.dumps(error))
    assert (str(arrived), vars(arrived)) == ("overloaded: later", vars(error))


def test_limits_are_for_all_workers_together(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Any] = []
    monkeypatch.setattr("tiltmeter.engine._local_engine.run_to_end", runs.append)
    engine = RayEngine("ray", RayOptions((2, 8)))
    for model in ("sim/mild", f"hf/{STORYTELLER}"):
        engine.generate(
            create_model(model), [], Sampling(), journal=journal, limits=Limits(max_connections=60)
        )
    assert [(run._model._slots, run._limits.max_connections) for run in runs] == [(8, 60), (60, 480)]
