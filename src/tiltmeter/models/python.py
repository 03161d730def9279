"""A function of the user's as a model: `python/MODULE:FUNCTION`, for whatever stands around a model (retrieval, tools, an agent)."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tiltmeter._functions import load_function
from tiltmeter._paths import sha256
from tiltmeter.errors import InputError
from tiltmeter.models._base import Completion, Message, ModelError, Sampling
from tiltmeter.models._thinking import split_thinking
from tiltmeter.registry import did_you_mean

__all__ = ["FunctionModel", "create"]

_GIVEN = ("sampling", "sample")
"""What a function may take beside the messages."""


def create(provider: str, model: str, *, base_url: str | None = None, options: Mapping[str, str] | None = None) -> FunctionModel:
    """The function MODULE:FUNCTION as a model.

    It is called with the messages, a list of {"role": ..., "content": ...}, and gives the answer's text (or a `Completion`); it may be
    `async`. Where it has parameters `sampling` or `sample`, it is given the `Sampling` and the number of the answer; every other
    parameter is an option `-M NAME=VALUE`, a text.

    Raises
    ------
    InputError
        There is no such function, it takes no messages, or an option is none of its parameters.
    """
    if base_url is not None:
        raise InputError("--base-url: a function runs inside tiltmeter and has no address; leave the flag out")
    function = load_function(model)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise InputError(f"{provider}/{model}: {error}; give a function of Python's own") from error
    if not parameters or parameters[0].kind not in (parameters[0].POSITIONAL_ONLY, parameters[0].POSITIONAL_OR_KEYWORD):
        raise InputError(f"{provider}/{model}: the function takes no messages; its first parameter must be the list of messages")
    named = [one.name for one in parameters[1:] if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    known = [name for name in named if name not in _GIVEN]
    for option in options or {}:
        if option not in known:
            hint = did_you_mean(option, known) if known else "it takes no options"
            raise InputError(f"-M {option}: {model} has no such parameter; {hint}")
    needed = [one.name for one in parameters[1:] if one.name in known and one.default is one.empty and one.name not in (options or {})]
    if needed:
        raise InputError(f"{provider}/{model} needs -M {needed[0]}=VALUE")
    return FunctionModel(f"{provider}/{model}", function, frozenset(named) & frozenset(_GIVEN), dict(options or {}))


class FunctionModel:
    """Answers by calling a function; functions that are not `async` run in threads."""

    def __init__(self, name: str, function: Callable[..., Any], given: frozenset[str], options: Mapping[str, str]) -> None:
        self._name, self._function, self._given, self._options = name, function, given, options

    @property
    def name(self) -> str:
        """`python/MODULE:FUNCTION`."""
        return self._name

    @property
    def fingerprint(self) -> str:
        """Name and options, and the file the function stands in: answers of an edited function are new answers."""
        file = inspect.getsourcefile(inspect.unwrap(self._function)) if inspect.isroutine(self._function) else None
        digest = f"@sha256:{sha256(Path(file))}" if file and Path(file).is_file() else ""
        return " ".join([f"{self._name}{digest}", *(f"{key}={value}" for key, value in sorted(self._options.items()))])

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
        spoken = [{"role": role, "content": content} for role, content in messages]
        given = {name: value for name, value in {"sampling": sampling, "sample": sample}.items() if name in self._given}
        begun = time.perf_counter()
        try:
            if inspect.iscoroutinefunction(self._function):
                answer = await self._function(spoken, **given, **self._options)
            else:
                answer = await asyncio.to_thread(self._function, spoken, **given, **self._options)
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
