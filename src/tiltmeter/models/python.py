"""A function of the user's as a model: `python/MODULE:FUNCTION`, for whatever stands around a model (retrieval, tools, an agent)."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tiltmeter._functions import is_function, load_function
from tiltmeter._paths import sha256
from tiltmeter.errors import InputError
from tiltmeter.models._base import Completion, Message, ModelError, Sampling
from tiltmeter.models._digest import digest_of
from tiltmeter.models._thinking import split_thinking
from tiltmeter.registry import did_you_mean

__all__ = ["FunctionModel", "create", "model_of"]

_GIVEN = ("sampling", "sample")
"""What a function may take beside the messages."""
_TEXTS = ("str", "str | None", "None | str", "Optional[str]", "typing.Optional[str]")
_TEXT_NAMES = ("prompt", "text")


def create(provider: str, model: str, *, base_url: str | None = None, options: Mapping[str, str] | None = None) -> FunctionModel:
    """The function MODULE:FUNCTION as a model; see `model_of` for what it is called with.

    Every parameter other than the first, `sampling` and `sample` is an option `-M NAME=VALUE`, a text.

    Raises
    ------
    InputError
        There is no such function, it cannot be called with a conversation, or an option is none of its parameters.
    """
    if base_url is not None:
        raise InputError("--base-url: a function runs inside tiltmeter and has no address; leave the flag out")
    if not is_function(model):
        raise InputError(f"the model '{provider}/{model}' should be written {provider}/MODULE:FUNCTION, such as {provider}/answer:reply")
    return _made(f"{provider}/{model}", model, load_function(model), dict(options or {}), None)


def model_of(function: Callable[..., Any], options: Mapping[str, Any] | None = None) -> FunctionModel:
    """A function, or another object that can be called, as a model.

    It is called with the conversation and returns the response's text (or a `Completion`); it may be `async`. A first parameter annotated
    `str`, or one without an annotation that is called `prompt` or `text`, receives a text: the prompt; where there are several messages
    (a system message, earlier turns), all of them, joined by blank lines. Any other first parameter receives the list of messages, each
    {"role": ..., "content": ...}. Parameters `sampling` and `sample` receive the `Sampling` and the number of the response.

    It is the same model, whose responses the journal holds, as long as `digest_of` and the options are the same.

    Parameters
    ----------
    options
        Values for its further parameters.

    Raises
    ------
    InputError
        It cannot be called with a conversation, or an option is none of its parameters.
    """
    inner = function.func if isinstance(function, functools.partial) else function
    named = inner if hasattr(inner, "__qualname__") else type(inner)
    place = f"{named.__module__}:{named.__qualname__}"
    return _made(f"python/{place}", place, function, dict(options or {}), digest_of(function))


def _made(name: str, place: str, function: Callable[..., Any], options: dict[str, Any], digest: str | None) -> FunctionModel:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: {error}; give a function of Python's own") from error
    if not parameters or parameters[0].kind not in (parameters[0].POSITIONAL_ONLY, parameters[0].POSITIONAL_OR_KEYWORD):
        raise InputError(f"{name}: the function takes no messages; its first parameter must be the list of messages, or the prompt")
    named = [one.name for one in parameters[1:] if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    known = [name for name in named if name not in _GIVEN]
    for option in options:
        if option not in known:
            hint = did_you_mean(option, known) if known else "it takes no options"
            raise InputError(f"-M {option}: {place} has no such parameter; {hint}")
    needed = [one.name for one in parameters[1:] if one.name in known and one.default is one.empty and one.name not in options]
    if needed:
        raise InputError(f"{name} needs -M {needed[0]}=VALUE")
    return FunctionModel(
        name, function, frozenset(named) & frozenset(_GIVEN), options, takes_text=_takes_text(parameters[0]), digest=digest
    )


def _takes_text(parameter: inspect.Parameter) -> bool:
    if parameter.annotation in (parameter.empty, Any, "Any"):
        return parameter.name in _TEXT_NAMES
    annotated = parameter.annotation.__name__ if isinstance(parameter.annotation, type) else str(parameter.annotation)
    return annotated in _TEXTS


class FunctionModel:
    """Answers by calling a function; functions that are not `async` run in threads."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        given: frozenset[str],
        options: Mapping[str, Any],
        *,
        takes_text: bool = False,
        digest: str | None = None,
    ) -> None:
        self._name, self._function, self._given, self._options = name, function, given, options
        self._takes_text, self._digest = takes_text, digest

    @property
    def name(self) -> str:
        """`python/MODULE:FUNCTION`."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """Name and options, and what identifies the function's code: of MODULE:FUNCTION its file, otherwise see `model_of`."""
        digest = f"#{self._digest}" if self._digest else ""
        if not digest:
            file = inspect.getsourcefile(inspect.unwrap(self._function)) if inspect.isroutine(self._function) else None
            digest = f"@sha256:{sha256(Path(file))}" if file and Path(file).is_file() else ""
        taken = ["text"] if self._takes_text else []
        options = (f"{key}={value if isinstance(value, str) else digest_of(value)}" for key, value in sorted(self._options.items()))
        return " ".join([f"{self._name}{digest}", *taken, *options])

    @property
    def endpoint(self) -> str:
        """The model's own name: nothing is shared with other models."""
        return self._name

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """See Model.complete. What the function raises fails this one request; of a lost connection it is asked again."""
        spoken: Any = [{"role": role, "content": content} for role, content in messages]
        if self._takes_text:
            spoken = "\n\n".join(content for _, content in messages)
        given = {name: value for name, value in {"sampling": sampling, "sample": sample}.items() if name in self._given}
        begun = time.perf_counter()
        try:
            if inspect.iscoroutinefunction(self._function):
                answer = await self._function(spoken, **given, **self._options)
            else:
                answer = await asyncio.to_thread(self._function, spoken, **given, **self._options)
                if inspect.isawaitable(answer):  # of an object whose __call__ is `async`, or a partial of an `async` function
                    answer = await answer
        except ModelError:
            raise
        except (ConnectionError, TimeoutError) as error:
            raise ModelError("connection", f"{self._name}: {_said(error)}") from error
        except Exception as error:
            raise ModelError("function", f"{self._name}: {_said(error)}", scope="permanent") from error
        if isinstance(answer, Completion):
            return answer
        if answer is not None and not isinstance(answer, str):
            raise ModelError("function", f"{self._name} gave {type(answer).__name__}, not a text", scope="fatal")
        text, thinking = (None, None) if answer is None else split_thinking(answer)
        return Completion(text=text, thinking=thinking, latency=time.perf_counter() - begun)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
