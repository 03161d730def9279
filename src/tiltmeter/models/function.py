"""A function of the user's as a model: `python/MODULE:FUNCTION`, for whatever surrounds a model (retrieval, tools, an agent).

The second half is what tells a changed function from the same one (`digest_of`), so that the journal does not answer for another function.
"""

from __future__ import annotations

import asyncio
import dis
import functools
import hashlib
import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from inspect import Parameter
from types import CodeType, FunctionType, MethodType
from typing import Any

from tiltmeter.errors import InputError
from tiltmeter.models.base import Completion, Message, ModelError, NamedModel, Sampling, check_local, check_options
from tiltmeter.paths import is_file, sha256
from tiltmeter.thinking import split_thinking
from tiltmeter.user_functions import is_function, load_function

_GIVEN = ("sampling", "sample")
"""What a function may take besides the messages."""
_TEXTS = ("str", "str | None", "None | str", "Optional[str]", "typing.Optional[str]")


def create(provider: str, model: str, *, base_url: str | None, options: Mapping[str, str]) -> FunctionModel:
    """Create a model of the function MODULE:FUNCTION; see `model_of` for what it is called with.

    Every parameter other than the first, `sampling` and `sample` is an option `-M NAME=VALUE`, a text.

    Raises
    ------
    InputError
        There is no such function, it cannot be called with a conversation, or an option is none of its parameters.
    """
    check_local(f"{provider}/{model}", base_url)
    if not is_function(model):
        raise InputError(f"the model '{provider}/{model}' should be written {provider}/MODULE:FUNCTION, such as {provider}/answer:reply")
    return FunctionModel(f"{provider}/{model}", load_function(model), options)


def model_of(function: Callable[..., Any], options: Mapping[str, Any] | None = None) -> FunctionModel:
    """Return a function, or another object that can be called, as a model.

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
    return FunctionModel(f"python/{named.__module__}:{named.__qualname__}", function, options or {}, digest_of(function))


class FunctionModel(NamedModel):
    """Answers by calling a function; functions that are not `async` run in threads.

    Parameters
    ----------
    name
        `python/MODULE:FUNCTION`.
    options
        Values of its further parameters.
    digest
        What identifies the function's code, see `model_of`; None: its file, looked at in each process.

    Raises
    ------
    InputError
        It cannot be called with a conversation, or an option is none of its parameters.
    """

    def __init__(self, name: str, function: Callable[..., Any], options: Mapping[str, Any], digest: str | None = None) -> None:
        try:
            first, *others = inspect.signature(function).parameters.values()
        except (TypeError, ValueError) as error:
            raise InputError(f"{name} takes no messages; its first parameter must be the list of messages, or the prompt") from error
        defaults = {one.name: one.default for one in others if one.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)}
        known = [parameter for parameter in defaults if parameter not in _GIVEN]
        check_options(name, options, known)
        for parameter in known:
            if defaults[parameter] is Parameter.empty and parameter not in options:
                raise InputError(f"{name} needs -M {parameter}=VALUE")
        self._function, self._options, self._digest = function, dict(options), digest
        self._given = [parameter for parameter in _GIVEN if parameter in defaults]
        annotation = first.annotation
        if annotation in (Parameter.empty, Any, "Any"):
            self._takes_text = first.name in ("prompt", "text")
        else:
            self._takes_text = (annotation.__name__ if isinstance(annotation, type) else str(annotation)) in _TEXTS

        code = f"#{digest}" if digest else ""
        if not code and inspect.isroutine(function):
            file = inspect.getsourcefile(inspect.unwrap(function))
            code = f"@sha256:{sha256(file)}" if file and is_file(file) else ""
        text = ["text"] if self._takes_text else []
        shown = (f"{key}={value if isinstance(value, str) else digest_of(value)}" for key, value in sorted(options.items()))
        super().__init__(name, " ".join([f"{name}{code}", *text, *shown]))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self._function, self._options, self._digest)

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """See `Model.complete`. What the function raises fails this one request; of a lost connection it is asked again."""
        conversation: Any = [message._asdict() for message in messages]
        if self._takes_text:
            conversation = "\n\n".join(message.content for message in messages)
        values = {"sampling": sampling, "sample": sample}
        call = functools.partial(self._function, conversation, **{name: values[name] for name in self._given}, **self._options)
        begun = time.perf_counter()
        try:
            answer = call() if inspect.iscoroutinefunction(self._function) else await asyncio.to_thread(call)
            if inspect.isawaitable(answer):  # of an `async` function, also in a partial or as `__call__` of an object
                answer = await answer
        except ModelError:
            raise
        except Exception as error:
            detail = f"{self.name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
            if isinstance(error, ConnectionError | TimeoutError):
                raise ModelError("connection", detail) from error
            raise ModelError("function", detail, scope="permanent") from error
        if isinstance(answer, Completion):
            return answer
        if answer is not None and not isinstance(answer, str):
            raise ModelError("function", f"{self.name} gave {type(answer).__name__}, not a text", scope="fatal")
        text, thinking = (None, None) if answer is None else split_thinking(answer)
        return Completion(text=text, thinking=thinking, latency=time.perf_counter() - begun)


_CONSTRUCTORS = ("__init__", "__post_init__", "__new__")
_CHANGING = frozenset(
    ("append", "extend", "insert", "remove", "pop", "popitem", "clear", "add", "discard", "update", "setdefault", "sort", "reverse")
)
"""Methods that change a list, set or dictionary."""


def digest_of(value: object) -> str:
    """Hex digits that change when a function, an object that can be called, or a plain value changes.

    They are the same in another process of the same Python version. A function counts by its bytecode, its default values, its closure,
    and the functions, objects and plain values of its module that it names. An object of a class of that module counts by the methods of
    its class and its attributes. Not counted is what the code itself changes, such as a counter or a list it fills. Whatever comes from
    other modules (libraries, clients, tables) counts by its name or type only.
    """
    inner = value.func if isinstance(value, functools.partial) else value
    return hashlib.sha256(_described(value, getattr(inner, "__module__", None), {}).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _described(value: Any, module: str | None, seen: dict[int, tuple[int, object]]) -> str:
    """A value in words that are equal for equal values; functions and objects of the module count by what they hold.

    `seen` holds, by id, the number of each object described so far, and the object, so that no other gets its id.
    """
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return f"{type(value).__name__} {value!r}"
    if id(value) in seen:
        return f"again {seen[id(value)][0]}"
    seen[id(value)] = len(seen), value

    def joined(*parts: Any) -> str:
        return ", ".join(_described(part, module, seen) for part in parts)

    match value:
        case list() | tuple():
            return f"{type(value).__name__} [{joined(*value)}]"
        case set() | frozenset():
            return f"set [{', '.join(sorted(_described(one, module, {}) for one in value))}]"
        case dict():
            return f"dict [{', '.join(f'{joined(key)}: {joined(one)}' for key, one in value.items())}]"
        case CodeType():
            names = (value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
            return f"code {value.co_code.hex()} {value.co_flags} {names} {joined(value.co_consts)}"
        case functools.partial():
            return f"partial {joined(value.func)} {joined(value.args)} {joined(value.keywords)}"
        case MethodType():
            return f"method {joined(value.__func__)} {joined(value.__self__)}"
        case FunctionType() if value.__module__ == module:
            return f"function {joined(value.__code__, value.__defaults__, value.__kwdefaults__, _named(value))}"
        case staticmethod() | classmethod():
            return joined(value.__func__)
        case property():
            return f"property {joined(value.fget)}"
    kind = value if isinstance(value, type) else type(value)
    name = f"{getattr(value, '__module__', kind.__module__)}.{getattr(value, '__qualname__', kind.__qualname__)}"
    return f"{name} {joined(_parts(value, kind))}" if kind.__module__ == module else name


def _named(function: FunctionType) -> dict[str, Any]:
    """Values of the closure and of the module that a function names and does not change."""
    code = function.__code__
    found = {name: function.__globals__[name] for part in _nested_codes(code) for name in part.co_names if name in function.__globals__}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # it has no value yet
            found[name] = cell.cell_contents
    return _unchanged(found, [code])


def _parts(value: Any, kind: type) -> dict[str, Any]:
    """Methods and values of a class, and of an object its attributes that its methods do not change."""
    own = {name: one for name, one in vars(kind).items() if not (name.startswith("__") and not callable(one))}
    own |= {f"base {number}": base for number, base in enumerate(kind.__bases__)}
    if value is kind:
        return own
    methods = [(name, one) for base in kind.__mro__ for name, one in vars(base).items() if isinstance(one, FunctionType)]
    attributes = dict(getattr(value, "__dict__", {}))
    return own | {"held": _unchanged(attributes, [one.__code__ for name, one in methods if name not in _CONSTRUCTORS])}


def _unchanged(values: dict[str, Any], codes: Sequence[CodeType]) -> dict[str, Any]:
    """Those of the named values that no code assigns; of lists, sets and dictionaries that it may change in place, the type."""
    parts = [part for code in codes for part in _nested_codes(code)]
    instructions = [one for part in parts for one in dis.get_instructions(part)]
    assigned = {str(one.argval) for one in instructions if one.opname in ("STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR")}
    in_place = any(one.opname in ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE") for one in instructions)
    in_place = in_place or any(name in _CHANGING for part in parts for name in part.co_names)
    return {
        name: type(value) if in_place and isinstance(value, list | set | dict) else value
        for name, value in sorted(values.items())
        if name not in assigned
    }


def _nested_codes(code: CodeType) -> Iterator[CodeType]:
    """The code and that of the functions defined in it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _nested_codes(one)
