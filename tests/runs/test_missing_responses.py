"""Sentences about missing responses, and about responses that could not be read, with a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import polars as pl
import pytest

import tiltmeter as tm
from conftest import Tiltmeter
from support.misbehaving import Behaviour, MisbehavingServer, prompt_of, server_error, status
from tiltmeter.errors import ProviderError
from tiltmeter.runs._long_prompts import too_long_words

pytestmark = [pytest.mark.usefixtures("workplace"), pytest.mark.filterwarnings("ignore::tiltmeter.Caveat")]

CONTEXT = "This model's maximum context length is 512 tokens"
OPENAI = f"{CONTEXT}. However, your messages resulted in 2,345 tokens. Please reduce the length."
VLLM = (
    f"{CONTEXT}. However, you requested 2345 tokens (2045 in the messages, 300 in the completion). "
    "Please reduce the length of the messages or completion."
)
NEW_VLLM = (
    f"'max_tokens' or 'max_completion_tokens' is too large: 300. {CONTEXT} and your request has 2345"
    " input tokens (300 > 512 - 2345). None"
)
LLAMA = "request (2345 tokens) exceeds the available context size (512 tokens), try increasing it"
SGLANG = "The input (2345 tokens) is longer than the model's context length (512 tokens)."
TGI = (
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 512. "
    "Given: 2345 `inputs` tokens and 300 `max_new_tokens`"
)
ANTHROPIC = "prompt is too long: 2345 tokens > 512 maximum"
LOCAL = "the prompt has 2,345 tokens, and hf/m accepts 512 including the answer"


def refusing_long(message: str, code: int = 400) -> Callable[[dict[str, Any], int], Behaviour | str]:
    """A server whose context holds 200 words."""

    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        return (
            status(code, None, {"error": {"message": message, "code": code}})
            if len(prompt_of(request).split()) > 200
            else "yes"
        )

    return script


@pytest.fixture
def study(workplace: Path) -> str:
    """Two probes: one with long prompts, one with short ones."""
    (workplace / "two.yaml").write_text("study: genderbench\nparts: [direct, hiring_bloomberg]\nlimit: 4\n")
    return "two.yaml"


@pytest.fixture
def served() -> Iterator[Callable[..., str]]:
    """Start servers with a script; they stop after the test."""
    running: list[MisbehavingServer] = []

    def start(script: Callable[[dict[str, Any], int], Behaviour | str]) -> str:
        running.append(MisbehavingServer(script).__enter__())
        return running[-1].url

    yield start
    for server in running:
        server.__exit__(None, None, None)


def test_prompts_longer_than_the_context_name_cause_and_remedy(
    study: str, served: Callable[..., str]
) -> None:
    run = tm.run(study, model="compatible/m", base_url=served(refusing_long(VLLM)), display="none", out="run")
    (problem, cause) = run.problems
    assert "8 of 12 answers failed (context_length 8)" in problem
    assert "run the same command again" not in f"{problem} {cause}"
    assert cause.startswith(
        "compatible/m: prompts of hiring_bloomberg (8 of 8 requests) are longer than "
        "the server's context of 512 tokens"
    )
    assert "(the longest request has 2,345)" in cause
    assert "use a model or a server with a longer context of at least 2,345 tokens" in cause
    assert "or leave hiring_bloomberg out (list the other probes as `parts` in a study file)" in cause
    assert run.about["parts"]["hiring_bloomberg"]["status"] == "not run"


def test_failures_other_than_long_prompts_can_be_retried(study: str, served: Callable[..., str]) -> None:
    long = refusing_long(OPENAI)
    failing: set[str] = set()

    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        prompt = prompt_of(request)
        if not failing and len(prompt.split()) <= 200:
            failing.add(prompt)
        return server_error(500) if prompt in failing else long(request, nth)

    url, once = served(script), tm.Limits(retries=0, max_connections=1)
    run = tm.run(study, model="compatible/m", base_url=url, display="none", out="run", limits=once)
    assert "9 of 12 answers failed (context_length 8, server 1)" in run.problems[0]
    assert "run the same command again to retry the others" in run.problems[0]
    assert "are longer than the server's context of 512 tokens" in run.problems[1]


def test_a_part_without_any_response_is_named_and_no_nan_is_shown(
    study: str, served: Callable[..., str], tiltmeter: Tiltmeter
) -> None:
    url = served(refusing_long(LLAMA))
    words = ("run", study, "-m", "compatible/m", "--base-url", url, "--out", "run", "--display", "none")
    tiltmeter(*words, exits=3, says="prompts of hiring_bloomberg")
    for columns in ("80", "120"):
        done = tiltmeter("show run", exits=0, COLUMNS=columns)
        text = " ".join(done.stdout.split())
        assert (
            "no response came for hiring_bloomberg: "
            "all 8 requests failed (context_length), so it has no result"
        ) in text
        assert "nan" not in done.stdout.lower().replace("nancy", "")
        assert max(map(len, done.stdout.splitlines())) <= int(columns) + 1
    page = Path("run/report.html").read_text()
    assert "no response came for hiring_bloomberg" in page
    assert "nan%" not in page


def test_a_study_of_long_prompts_only_is_an_error_with_the_cause(served: Callable[..., str]) -> None:
    url = served(refusing_long(SGLANG))
    with pytest.raises(
        ProviderError, match="all prompts are longer than the server's context of 512 tokens"
    ) as caught:
        tm.run("genderbench/hiring_bloomberg", model="compatible/m", base_url=url, display="none", limit=4)
    assert "use a model or a server with a longer context of at least 2,345 tokens" in str(caught.value)


@pytest.mark.parametrize("message", [OPENAI, VLLM, NEW_VLLM, LLAMA, SGLANG, TGI, ANTHROPIC])
def test_messages_about_long_prompts_of_every_server_are_understood(
    message: str, served: Callable[..., str]
) -> None:
    url = served(refusing_long(message, 422 if message == TGI else 400))
    with pytest.raises(ProviderError, match=r"context of 512 tokens \(the longest request has 2,345\)"):
        tm.run("genderbench/hiring_bloomberg", model="compatible/m", base_url=url, display="none", limit=2)


FITTING = [
    f"{CONTEXT}. However, you requested 557 tokens (45 in the messages, 512 in the completion). "
    "Please reduce the length of the messages or completion.",
    f"{CONTEXT}, however you requested 557 tokens (45 in your prompt; 512 for the completion).",
    f"'max_tokens' or 'max_completion_tokens' is too large: 512. {CONTEXT} and your request has 45"
    " input tokens (512 > 512 - 45). None",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 512. "
    "Given: 45 `inputs` tokens and 512 `max_new_tokens`",
    "input length and `max_tokens` exceed context limit: 45 + 512 > 512, "
    "decrease input length or `max_tokens` and try again",
]


@pytest.mark.parametrize("message", FITTING)
def test_prompts_that_fit_without_the_answer_are_not_said_to_be_too_long(
    message: str, served: Callable[..., str]
) -> None:
    url = served(refusing_long(message))
    with pytest.raises(ProviderError, match="the longest prompt has 45") as caught:
        tm.run("genderbench/hiring_bloomberg", model="compatible/m", base_url=url, display="none", limit=2)
    words = str(caught.value)
    assert (
        "all prompts, together with the answers of up to 512 tokens that were asked for, "
        "are longer than the server's context"
    ) in words
    assert (
        "set --max-tokens to at most 467, "
        "or use a model or a server with a longer context of at least 557 tokens"
    ) in words


def test_prompts_that_fit_only_without_the_answer_are_counted() -> None:
    words = too_long_words(pl.Series([VLLM, FITTING[0], FITTING[0]]), "prompts of gest")
    assert words.startswith(
        "prompts of gest are longer than the server's context of 512 tokens, "
        "2 of 3 only together with the answer"
    )


def test_no_retry_is_advised_for_a_model_whose_context_is_too_short(served: Callable[..., str]) -> None:
    def script(request: dict[str, Any], nth: int) -> Behaviour | str:
        return (
            status(400, None, {"error": {"message": VLLM, "code": 400}})
            if request["model"] == "short"
            else "yes"
        )

    models = ["compatible/short", "compatible/good"]
    run = tm.run(
        "genderbench/direct", model=models, base_url=served(script), limit=10, display="none", out="run"
    )
    (problem,) = run.problems
    assert "the same command cannot succeed" in problem
    assert "run the same command again" not in problem


def test_messages_of_local_models_and_without_numbers_are_understood() -> None:
    assert "context of 512 tokens (the longest request has 2,345)" in too_long_words(
        pl.Series([LOCAL]), "all prompts"
    )
    words = too_long_words(pl.Series(["context_length: input is too long"]), "all prompts")
    assert words.startswith(
        "all prompts are longer than the server's context (input is too long), "
        "so the same command cannot succeed: "
    )
    assert words.endswith(": use a model or a server with a longer context")


def advice(run: tm.Run) -> str:
    (sentence,) = [
        getattr(block, "text", "")
        for block in run.blocks()
        if "could not be read" in getattr(block, "text", "")
    ]
    return sentence


@pytest.mark.parametrize(
    ("study", "share", "first"),
    [
        (
            "genderbench/direct",
            0.7,
            "For direct, first run the study again with constrained answers "
            "(-P answers=constrained); label a",
        ),
        ("genderbench/direct", 0.2, "Label a sample to include them"),
        ("genderbench/inventories", 0.7, "Label a sample to include them"),
    ],
)
def test_constrained_answers_are_advised_for_mostly_unread_probes(
    study: str, share: float, first: str, served: Callable[..., str]
) -> None:
    def script(request: dict[str, Any], nth: int) -> str:
        read = "She is a kind woman." if "inventories" in study else "yes"
        return "Well, well." if crc32(prompt_of(request).encode()) % 100 < 100 * share else read

    run = tm.run(study, model="compatible/m", base_url=served(script), limit=200, display="none", out="run")
    assert first in advice(run)


def test_constrained_answers_are_not_advised_for_a_model_that_accepts_no_lists() -> None:
    def model(prompt: str) -> str:
        return "Well, well." if len(prompt) % 10 < 8 else "yes"

    run = tm.run("genderbench/direct", model=model, limit=100, display="none", out="run")
    assert "-P answers" not in advice(run)
    assert "tiltmeter label RUN" in advice(run)


def test_refused_stories_are_not_counted_as_unreadable() -> None:
    def model(prompt: str) -> str:
        is_refused = crc32(prompt.encode()) % 10 < 3
        return (
            "I'm sorry, but I can't help with that."
            if is_refused
            else "The character was cheerful and patient."
        )

    settings: dict[str, Any] = {"judge": "sim/fair", "params": {"encoder": "none"}, "limit": 5}
    run = tm.run("associations/gender", model=model, **settings, display="none", out="run")
    outcomes = dict(run.measures.group_by("outcome").len().iter_rows())
    assert outcomes["refused"] > 20
    assert outcomes["answered"] + outcomes["refused"] == run.measures.height
    assert run.finding("missing").values["estimate"] > 0.2
    assert not [block for block in run.blocks() if "could not be read" in getattr(block, "text", "")]
