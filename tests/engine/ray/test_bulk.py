"""`-M runner=vllm`: all that is ours runs here, with another processor of `ray.data.llm` where vLLM and its GPUs would be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.misbehaving import MisbehavingServer
from tiltmeter.engine import Journal, Limits, Prices, Request, generate, request_key
from tiltmeter.engine._generate import drive
from tiltmeter.engine.ray import RayEngine, RayOptions, open_ray
from tiltmeter.engine.ray._bulk import BulkRun, Speak, config_of
from tiltmeter.engine.ray._foreman import Stage
from tiltmeter.errors import InputError, ProviderError
from tiltmeter.models import Message, ModelError, Sampling, create_model
from tiltmeter.models.hf import BulkModel

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Ray's own modules raise several
]
STORYTELLER = Path(__file__).parents[2] / "fixtures" / "storyteller"
SAMPLING = Sampling(temperature=0.7, top_p=0.9, max_tokens=40, stop=("###",))


@pytest.fixture
def model() -> BulkModel:
    made = create_model(f"hf/{STORYTELLER}", options={"runner": "vllm"})
    assert isinstance(made, BulkModel)
    return made


def requests(count: int) -> list[Request]:
    return [Request((Message("user", f"Tell me a story, number {number}."),), number % 2) for number in range(count)]


def over_http(url: str) -> Speak:
    """Ray's own processor for endpoints, made to give rows as vLLM's does; prompts with a 7 are an error of the engine."""
    from ray.data.llm import HttpRequestProcessorConfig, build_processor

    def ask(row: dict[str, Any]) -> dict[str, Any]:
        said = f"{row['number']} {row['sampling_params']['max_tokens']} {len(row['tokenized_prompt'])}"
        return {"payload": {"model": "m", "messages": [{"role": "user", "content": said}]}}

    def read(row: dict[str, Any]) -> dict[str, Any]:
        failed = "ValueError: odd" if row["number"] % 10 == 7 else ""
        text = row["http_response"]["choices"][0]["message"]["content"]
        told = {"generated_text": text, "num_generated_tokens": 40 if row["number"] % 2 else 5, "time_taken_llm": 0.25}
        return {"number": row["number"], "__inference_error__": failed, **told}

    config = HttpRequestProcessorConfig(url=f"{url}/chat/completions", qps=1000, batch_size=16, concurrency=1)
    made: Speak = build_processor(config, preprocess=ask, postprocess=read)
    return made


def test_waves_are_answered_kept_and_gone_on_with(cluster: Any, journal: Journal, model: BulkModel) -> None:
    with MisbehavingServer(lambda request, nth: f"told {request['messages'][-1]['content']}") as server:
        speak = over_http(server.url)

        def ask(count: int) -> Any:
            return drive(lambda: BulkRun(model, requests(count), SAMPLING, journal, Limits(), None, Prices.load(), speak=speak, wave=25))

        first = ask(40)
        assert (first.answered, first.failed) == (37, {"internal": 3})  # the 8th and the 18th of each wave
        again = ask(60)  # those that failed are asked once more, those answered are not
        assert (again.held, again.answered, again.failures) == (37, 21, 2)
    keys = [request_key(model.fingerprint, SAMPLING, *request) for request in requests(60)]
    rows = journal.fetch(keys)
    assert rows["status"].to_list().count("ok") == 58
    answered = rows.filter(rows["status"] == "ok")
    assert answered["text"].str.contains(r"^told \d+ 40 \d+$").all()
    assert set(answered["finish_reason"]) == {"stop", "length"}
    assert set(answered["latency"]) == {0.25}
    assert (answered["input_tokens"] > 3).all()
    assert rows["error"].drop_nulls().unique().to_list() == ["internal: vLLM failed with ValueError"]


def test_a_wave_that_is_lost_is_asked_again_and_given_up_at_last(cluster: Any, journal: Journal, model: BulkModel) -> None:
    def never(rows: Any) -> Any:
        raise RuntimeError("the engine died")

    with pytest.raises(ProviderError, match=r"vLLM gave no answer 3 times in a row .*the engine died"):
        drive(lambda: BulkRun(model, requests(5), SAMPLING, journal, Limits(), None, Prices.load(), speak=never))
    with MisbehavingServer(lambda request, nth: "told") as server:
        good, calls = over_http(server.url), []

        def at_first_never(rows: Any) -> Any:
            calls.append(1)
            if len(calls) == 1:
                raise RuntimeError("the engine died")
            return good(rows)

        tally = drive(lambda: BulkRun(model, requests(5), SAMPLING, journal, Limits(), None, Prices.load(), speak=at_first_never))
    assert (tally.answered, len(calls)) == (5, 2)


def test_what_cannot_be_asked_is_a_failed_row_and_keeps_nothing_else_back(cluster: Any, journal: Journal, model: BulkModel) -> None:
    too_long = Request((Message("user", "story " * 5000),))
    with MisbehavingServer(lambda request, nth: "told") as server:
        speak = over_http(server.url)
        asked = [*requests(5), too_long]
        tally = drive(lambda: BulkRun(model, asked, SAMPLING, journal, Limits(), None, Prices.load(), speak=speak))
    assert (tally.answered, tally.failed) == (5, {"context_length": 1})


def test_vllm_is_given_the_tokens_and_parameters_a_local_model_has(model: BulkModel) -> None:
    from tiltmeter.models.hf._load import load
    from tiltmeter.models.hf._prompt import encode

    message = (Message("system", "Be brief."), Message("user", "Tell me a story."))
    prompt = model.prompt(message, SAMPLING, 3)
    local = create_model(f"hf/{STORYTELLER}")
    loaded = load(local._weights, "cpu", "float32", "it")  # type: ignore[attr-defined]
    assert prompt.ids == encode(loaded.tokenizer, message, "{}")[0]
    wanted = {"temperature": 0.7, "top_p": 0.9, "max_tokens": 40, "stop": ["###"]}
    assert {name: prompt.parameters[name] for name in wanted} == wanted
    assert 0 <= prompt.parameters["seed"] < 2**32
    assert prompt.parameters["seed"] != model.prompt(message, SAMPLING, 4).parameters["seed"]
    assert model.fingerprint != local.fingerprint
    with pytest.raises(ModelError, match="replaced"):
        model.prompt((Message("source", "x"), *message), SAMPLING, 0)


def test_ray_takes_the_configuration_of_the_engines(cluster: Any, model: BulkModel) -> None:
    from ray.data.llm import build_processor

    config = config_of(model, Stage((1, 3), 1.0, 2.0, "0"), None)
    assert (config.model_source, config.concurrency) == (str(STORYTELLER), (1, 3))
    assert config.engine_kwargs["tensor_parallel_size"] == 2
    assert config.engine_kwargs["trust_remote_code"] is False
    assert build_processor(config).list_stage_names() == ["vLLMEngineStage"]


def test_without_gpus_or_the_engine_it_says_what_is_needed(engine: RayEngine, journal: Journal, model: BulkModel) -> None:
    with pytest.raises(ProviderError, match=r"needs whole GPUs for each worker, and -E gpus= is 0 on a cluster that has 0"):
        engine.generate(model, requests(2), SAMPLING, journal=journal)
    with pytest.raises(ProviderError, match="-M runner=vllm needs --engine ray"):
        generate(model, requests(2), SAMPLING, journal=journal)
    with pytest.raises(InputError, match="runner=vlm: use one of transformers, vllm"):
        create_model(f"hf/{STORYTELLER}", options={"runner": "vlm"})


def test_vllm_is_looked_for_where_the_gpus_are(cluster: Any, journal: Journal, model: BulkModel) -> None:
    node = cluster.add_node(num_cpus=1, num_gpus=1, object_store_memory=80 * 2**20)
    try:
        with (
            open_ray("ray", RayOptions.parse({"workers": "1", "gpus": "1"})) as engine,
            pytest.raises(ProviderError, match="pip install vllm"),
        ):
            engine.generate(model, requests(2), SAMPLING, journal=journal)
    finally:
        cluster.remove_node(node)
