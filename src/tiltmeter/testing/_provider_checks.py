"""Conformance checks for model providers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from tiltmeter.errors import InputError, TiltmeterError
from tiltmeter.models import Completion, Message, Model, ModelError, Sampling
from tiltmeter.models._base import ALLOWED
from tiltmeter.testing._requirements import Requirement, requirement_of

AT_ONCE = 20
"""Number of simultaneous requests."""
TALK: tuple[Message, ...] = (
    Message("system", "Be brief."),
    Message("user", "Is it raining? Answer yes or no."),
)
LIST = ("no", "yes", "refuse")
"""Allowed answers to TALK, for models that accept lists."""
WITH_LIST: tuple[Message, ...] = (*TALK, Message(ALLOWED, json.dumps(LIST)))


def check_provider(
    create: Callable[..., object],
    spec: str,
    *,
    base_url: str | None = None,
    options: Mapping[str, str] | None = None,
    secret: str | None = None,
) -> None:
    """Check that a provider meets all requirements; the model receives about forty requests.

    Parameters
    ----------
    create
        The object of the entry point: a function `create(provider, model, *, base_url, options)` that returns
        a model.
    spec
        Name `provider/model` of a model that is available during the test, on a test server or in this
        process.
    base_url
        Base URL of the test server.
    options
        Model options (`-M key=value`) that the provider needs.
    secret
        API key of the provider, to check that it is never exposed.

    Raises
    ------
    AssertionError
        A requirement is not met; the message says which one.
    """
    provider, _, name = spec.partition("/")

    def make(model_name: str = name, **extra_options: str) -> Any:
        all_options = {**(options or {}), **extra_options}
        return create(provider, model_name, base_url=base_url, options=all_options)

    require = requirement_of(spec)
    model = make()
    _check_identity(model, require, spec, secret)
    require(
        model.fingerprint == make().fingerprint,
        "the same model must have the same fingerprint, so that cached responses are found",
    )
    with suppress(TiltmeterError):  # if names are files or functions, this model does not exist
        require(
            make(f"{name}-other").fingerprint != model.fingerprint,
            "different models must have different fingerprints",
        )
    try:
        make(no_such_option_of_this_provider="1")
    except InputError:
        pass
    else:
        require(False, "unknown options must raise InputError, so that typing errors are reported")
    with ThreadPoolExecutor(1) as executor:  # works even if the caller runs an event loop
        for _ in range(2):  # a model may be entered again in another event loop
            executor.submit(asyncio.run, _check_answers(model, require, secret)).result()


def _check_identity(model: Any, require: Requirement, spec: str, secret: str | None) -> None:
    """Check the type and the name of a model, and that they do not expose its API key."""
    require(
        isinstance(model, Model), f"`create` must return a tiltmeter.models.Model, not {type(model).__name__}"
    )
    require(
        model.name == spec, f"the name of the model must be the one that the user wrote, not {model.name!r}"
    )
    require(
        model.endpoint, "the endpoint must not be empty; it identifies the models that share a rate limit"
    )
    public = f"{model!r} {model.name} {model.fingerprint} {model.endpoint}"
    require(
        secret is None or secret not in public,
        "the API key must not appear in the name, fingerprint, endpoint or repr of the model",
    )


async def _check_answers(model: Any, require: Requirement, secret: str | None) -> None:
    """Check the answers to single, simultaneous and constrained requests."""
    all_parameters = Sampling(temperature=0.5, top_p=0.9, max_tokens=20, seed=1, stop=("END",))
    async with model:
        await _check_answer(model, require, Sampling(), 0, secret)
        await _check_answer(model, require, all_parameters, 0, secret)
        await asyncio.gather(
            *(_check_answer(model, require, Sampling(), sample, secret) for sample in range(AT_ONCE))
        )
        if not getattr(model, "constrains", False):
            return
        answers = [
            await _check_answer(model, require, Sampling(), sample, secret, WITH_LIST) for sample in range(2)
        ]
        for answer in answers:
            require(
                _is_free(answer.text) or _is_on_list(answer.text),
                'the text of a constrained answer must be {"answer": ...} with one of the allowed answers,'
                f" not {answer.text!r}",
            )


def _is_free(text: str | None) -> bool:
    """Return whether an answer was not constrained: any text but a JSON object or a JSON list.

    An endpoint may reject the list.
    """
    try:
        return not isinstance(json.loads(text or ""), dict | list)
    except ValueError:
        return True


def _is_on_list(text: str | None) -> bool:
    """Return whether an answer is an object with one of LIST."""
    answer = json.loads(text or "")
    return isinstance(answer, dict) and answer.get("answer") in LIST


async def _check_answer(
    model: Any,
    require: Requirement,
    sampling: Sampling,
    sample: int,
    secret: str | None,
    talk: Sequence[Message] = TALK,
) -> Completion:
    """Check one answer, and return it."""
    answer: Any = None
    try:
        answer = await model.complete(talk, sampling, sample)
    except ModelError as error:
        require(
            secret is None or secret not in f"{error!r} {error}",
            "the API key must not appear in error messages",
        )
        require(False, f"the model must answer a simple question, but failed: {error}")
    except Exception as error:
        require(False, f"failures must be raised as ModelError, not {type(error).__name__}: {error}")
    require(
        isinstance(answer, Completion), f"`complete` must return a Completion, not {type(answer).__name__}"
    )
    require(
        answer.text is None or isinstance(answer.text, str), "the text of an answer must be a string or None"
    )
    require(
        answer.text or answer.refusal or answer.finish_reason,
        "an answer without text must have a refusal or a finish reason",
    )
    require(answer.latency >= 0, "the latency must be in seconds and not negative")
    for count in (answer.input_tokens, answer.output_tokens):
        require(
            count is None or (isinstance(count, int) and count >= 0),
            "token counts must be non-negative integers, or None if unknown",
        )
    return answer  # type: ignore[no-any-return]
