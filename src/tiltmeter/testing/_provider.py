"""What every provider owes the engine, tried against the place it speaks to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tiltmeter.errors import InputError, TiltmeterError
from tiltmeter.models import Completion, Message, Model, ModelError, Sampling
from tiltmeter.testing._promise import promise

__all__ = ["check_provider"]

AT_ONCE = 20
TALK = (Message("system", "Be brief."), Message("user", "Is it raining? Answer yes or no."))


def check_provider(
    create: Callable[..., object],
    spec: str,
    *,
    base_url: str | None = None,
    options: Mapping[str, str] | None = None,
    secret: str | None = None,
) -> None:
    """Check everything a provider promises; it is asked some forty times.

    Parameters
    ----------
    create
        What the entry point names: `create(provider, model, *, base_url, options)` gives a model.
    spec
        `provider/model` of a model that can be asked here: a server of the test's own, or one that runs in this process.
    options
        `-M key=value` it needs.
    secret
        The key it is given, to see that it is shown nowhere.

    Raises
    ------
    AssertionError
        A promise is broken; the sentence says which.
    """
    provider, _, name = spec.partition("/")

    def make(**more: str) -> Any:
        return create(provider, name, base_url=base_url, options={**(options or {}), **more})

    model = make()
    promise(isinstance(model, Model), f"{spec}: `create` gives a tiltmeter.models.Model, which {type(model).__name__} is not")
    promise(model.name == spec, f"{spec}: the model's name is what the user wrote, not {model.name!r}")
    promise(bool(model.endpoint), f"{spec}: the endpoint says what shares one limit, the model's own name at the least")
    again = make()
    promise(model.fingerprint == again.fingerprint, f"{spec}: the same model has the same fingerprint, or nothing kept is found again")
    other = _another(create, spec, base_url, options)
    promise(getattr(other, "fingerprint", None) != model.fingerprint, f"{spec}: another model has another fingerprint")
    shown = f"{model!r} {model.name} {model.fingerprint} {model.endpoint}"
    promise(secret is None or secret not in shown, f"{spec}: the key stands in the name, fingerprint, endpoint or repr of the model")
    try:
        make(no_such_option_of_this_provider="1")
    except InputError:
        pass
    else:
        promise(False, f"{spec}: an option it does not know is refused with InputError, so that a slip is seen")
    with ThreadPoolExecutor(1) as apart:  # also where the caller runs a loop of its own
        for _ in range(2):  # a model may be entered again, in another loop
            apart.submit(asyncio.run, _ask(model, spec, secret)).result()


def _another(create: Callable[..., object], spec: str, base_url: str | None, options: Mapping[str, str] | None) -> object | None:
    """A model of a made-up name; None where names are files or functions, of which there is none of that name."""
    provider, _, name = spec.partition("/")
    try:
        return create(provider, f"{name}-other", base_url=base_url, options=dict(options or {}))
    except TiltmeterError:
        return None


async def _ask(model: Any, spec: str, secret: str | None) -> None:
    async with model:
        for sampling in (Sampling(), Sampling(temperature=0.5, top_p=0.9, max_tokens=20, seed=1, stop=("END",))):
            _check_answer(spec, await _one(model, spec, sampling, 0, secret))
        answers = await asyncio.gather(*(_one(model, spec, Sampling(), sample, secret) for sample in range(AT_ONCE)))
    for answer in answers:
        _check_answer(spec, answer)


async def _one(model: Any, spec: str, sampling: Sampling, sample: int, secret: str | None) -> Any:
    try:
        return await model.complete(TALK, sampling, sample)
    except ModelError as error:
        hidden = secret is None or secret not in f"{error!r} {error}"
        promise(hidden, f"{spec}: the key stands in an error")
        raise AssertionError(f"{spec}: gives an answer to a plain question; it failed: {error}") from error
    except Exception as error:
        raise AssertionError(f"{spec}: what goes wrong is raised as ModelError, not {type(error).__name__}: {error}") from error


def _check_answer(spec: str, answer: Any) -> None:
    promise(isinstance(answer, Completion), f"{spec}: `complete` gives a Completion, not {type(answer).__name__}")
    promise(answer.text is None or isinstance(answer.text, str), f"{spec}: the text of an answer is text or None")
    promise(bool(answer.text or answer.refusal or answer.finish_reason), f"{spec}: an answer has a text, or says why it has none")
    promise(answer.latency >= 0, f"{spec}: the latency is in seconds, and not negative")
    for count in (answer.input_tokens, answer.output_tokens):
        promise(
            count is None or (isinstance(count, int) and count >= 0), f"{spec}: tokens are counted in whole numbers, None where unknown"
        )
