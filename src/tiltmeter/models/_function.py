"""User functions as models: `python/MODULE:FUNCTION`.

They are meant for systems around a model: retrieval, tools, an agent. The second half of the module detects
changes of a function (`digest_of`), so that cached answers of a changed function are not reused.
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

from tiltmeter._files.paths import is_file, sha256
from tiltmeter._plugins.functions import is_function, load_function
from tiltmeter.errors import InputError
from tiltmeter.models._base import Completion, Message, ModelError, NamedModel, Sampling
from tiltmeter.models._options import check_local, check_options
from tiltmeter.models._thinking import split_thinking

_REQUEST_PARAMETERS = ("sampling", "sample")
"""Optional parameters of a function that receive parts of the request, in addition to the messages."""
_TEXTS = ("str", "str | None", "None | str", "Optional[str]", "typing.Optional[str]")


def create(provider: str, model: str, *, base_url: str | None, options: Mapping[str, str]) -> FunctionModel:
    """Create a model from the function MODULE:FUNCTION; `model_of` describes its arguments.

    Every parameter other than the first, `sampling` and `sample` is an option `-M NAME=VALUE`, whose value is
    a string.

    Raises
    ------
    InputError
        There is no such function, it cannot be called with a conversation, or an option is not one of its
        parameters.
    """
    check_local(f"{provider}/{model}", base_url)
    if not is_function(model):
        raise InputError(
            f"the model '{provider}/{model}' should be written {provider}/MODULE:FUNCTION, "
            f"such as {provider}/answer:reply"
        )
    return FunctionModel(f"{provider}/{model}", load_function(model), options)


def model_of(function: Callable[..., Any], options: Mapping[str, Any] | None = None) -> FunctionModel:
    """Return a function, or another callable object, as a model.

    The function is called with the conversation and returns the text of the response (or a `Completion`); it
    may be `async`. If its first parameter is annotated `str`, or has no annotation and is called `prompt` or
    `text`, it receives the prompt as a string; several messages (a system message, earlier turns) are joined
    by blank lines. Any other first parameter receives the list of messages, each {"role": ..., "content":
    ...}. Parameters `sampling` and `sample` receive the `Sampling` and the number of the response.

    Cached responses in the journal are used as long as `digest_of` and the options are the same.

    Parameters
    ----------
    options
        Values of its further parameters.

    Raises
    ------
    InputError
        The function cannot be called with a conversation, or an option is not one of its parameters.
    """
    inner = function.func if isinstance(function, functools.partial) else function
    definition = inner if hasattr(inner, "__qualname__") else type(inner)
    name = f"python/{definition.__module__}:{definition.__qualname__}"
    return FunctionModel(name, function, options or {}, digest_of(function))


class FunctionModel(NamedModel):
    """A model that calls a function; functions that are not `async` run in threads.

    Parameters
    ----------
    name
        `python/MODULE:FUNCTION`.
    options
        Values of its further parameters.
    digest
        Digest of the code of the function, see `model_of`; None: the digest of its file, computed in each
        process.

    Raises
    ------
    InputError
        The function cannot be called with a conversation, or an option is not one of its parameters.
    """

    def __init__(
        self, name: str, function: Callable[..., Any], options: Mapping[str, Any], digest: str | None = None
    ) -> None:
        try:
            first, *following = inspect.signature(function).parameters.values()
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{name} does not accept messages; its first parameter must be the list of messages, "
                "or the prompt"
            ) from error
        defaults = {
            parameter.name: parameter.default
            for parameter in following
            if parameter.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        }
        allowed = [parameter for parameter in defaults if parameter not in _REQUEST_PARAMETERS]
        check_options(name, options, allowed)
        for parameter in allowed:
            if defaults[parameter] is Parameter.empty and parameter not in options:
                raise InputError(f"{name} needs -M {parameter}=VALUE")
        self._function = function
        self._options = dict(options)
        self._digest = digest
        self._request_parameters = [name for name in _REQUEST_PARAMETERS if name in defaults]
        self._takes_text = _takes_text(first)
        super().__init__(name, self._identity(name))

    def _identity(self, name: str) -> str:
        """Return the name with the digest of the code, the form of the prompt and the options."""
        code = ""
        if self._digest:
            code = f"#{self._digest}"
        elif inspect.isroutine(self._function):
            file = inspect.getsourcefile(inspect.unwrap(self._function))
            if file and is_file(file):
                code = f"@sha256:{sha256(file)}"
        parts = [f"{name}{code}"]
        if self._takes_text:
            parts.append("text")
        for option, value in sorted(self._options.items()):
            parts.append(f"{option}={value if isinstance(value, str) else digest_of(value)}")
        return " ".join(parts)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self._function, self._options, self._digest)

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """See `Model.complete`.

        Exceptions of the function fail only this request; lost connections are retried.
        """
        conversation: Any = [message._asdict() for message in messages]
        if self._takes_text:
            conversation = "\n\n".join(message.content for message in messages)
        request = {"sampling": sampling, "sample": sample}
        arguments = {name: request[name] for name in self._request_parameters} | self._options
        call = functools.partial(self._function, conversation, **arguments)
        begun = time.perf_counter()
        try:
            answer = call() if inspect.iscoroutinefunction(self._function) else await asyncio.to_thread(call)
            # An `async` function may also be in a partial, or the `__call__` of an object.
            if inspect.isawaitable(answer):
                answer = await answer
        except ModelError:
            raise
        except (Exception, SystemExit) as error:  # the function may call sys.exit
            detail = f"{self.name}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
            if isinstance(error, ConnectionError | TimeoutError):
                raise ModelError("connection", detail) from error
            raise ModelError("function", detail, scope="permanent") from error
        if isinstance(answer, Completion):
            return answer
        latency = time.perf_counter() - begun
        if answer is None:
            return Completion(text=None, latency=latency)
        if not isinstance(answer, str):
            raise ModelError(
                "function", f"{self.name} returned {type(answer).__name__}, not a string", scope="fatal"
            )
        text, thinking = split_thinking(answer)
        return Completion(text=text, thinking=thinking, latency=latency)


def _takes_text(parameter: Parameter) -> bool:
    """Return whether a first parameter receives the prompt as a text, instead of the list of messages."""
    annotation = parameter.annotation
    if annotation in (Parameter.empty, Any, "Any"):
        return parameter.name in ("prompt", "text")
    return (annotation.__name__ if isinstance(annotation, type) else str(annotation)) in _TEXTS


# The digest of a function
# ------------------------------------------------------------------------------------------------------------

_CONSTRUCTORS = ("__init__", "__post_init__", "__new__")
_CHANGING = frozenset(
    (
        "append",
        "extend",
        "insert",
        "remove",
        "pop",
        "popitem",
        "clear",
        "add",
        "discard",
        "update",
        "setdefault",
        "sort",
        "reverse",
    )
)
"""Methods that modify a list, set or dictionary."""
_ASSIGNMENTS = ("STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR")
"""Instructions that assign a variable of the module or of a closure, or an attribute."""
_ITEM_ASSIGNMENTS = ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE")
"""Instructions that modify a list or dictionary."""


def digest_of(value: object) -> str:
    """Return a hex digest that changes when a function, a callable object, or a plain value changes.

    The digest is the same in other processes with the same Python version. It covers the bytecode of a
    function, its default values, its closure, and the functions, objects and plain values of its module that
    it references. For an object of a class in that module, it covers the methods of the class and the
    attributes of the object. Values that the code itself modifies, such as a counter or a list it fills, are
    excluded. Objects from other modules (libraries, clients, tables) are identified only by their name or
    type.
    """
    inner = value.func if isinstance(value, functools.partial) else value
    description = _described(value, getattr(inner, "__module__", None), {})
    return hashlib.sha256(description.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _described(value: Any, module: str | None, numbered: dict[int, tuple[int, object]]) -> str:
    """Return a canonical description of a value.

    Functions and objects of the module are described by their content.

    Parameters
    ----------
    numbered
        Number of each object that has been described, by its id, and the object itself, so that its id is not
        used again.
    """
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return f"{type(value).__name__} {value!r}"
    if id(value) in numbered:
        return f"again {numbered[id(value)][0]}"
    numbered[id(value)] = len(numbered), value

    def joined(*parts: Any) -> str:
        return ", ".join(_described(part, module, numbered) for part in parts)

    match value:
        case list() | tuple():
            return f"{type(value).__name__} [{joined(*value)}]"
        case set() | frozenset():
            return f"set [{', '.join(sorted(_described(member, module, {}) for member in value))}]"
        case dict():
            items = [f"{joined(key)}: {joined(content)}" for key, content in value.items()]
            return f"dict [{', '.join(items)}]"
        case CodeType():
            names = (value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
            return f"code {value.co_code.hex()} {value.co_flags} {names} {joined(value.co_consts)}"
        case functools.partial():
            return f"partial {joined(value.func)} {joined(value.args)} {joined(value.keywords)}"
        case MethodType():
            return f"method {joined(value.__func__)} {joined(value.__self__)}"
        case FunctionType() if value.__module__ == module:
            parts = (value.__code__, value.__defaults__, value.__kwdefaults__, _referenced(value))
            return f"function {joined(*parts)}"
        case staticmethod() | classmethod():
            return joined(value.__func__)
        case property():
            return f"property {joined(value.fget)}"
    kind = value if isinstance(value, type) else type(value)
    value_module = getattr(value, "__module__", kind.__module__)
    name = f"{value_module}.{getattr(value, '__qualname__', kind.__qualname__)}"
    return f"{name} {joined(_parts(value, kind))}" if kind.__module__ == module else name


def _referenced(function: FunctionType) -> dict[str, Any]:
    """Return the values of the closure and the module that a function references and does not modify."""
    code = function.__code__
    values = {
        name: function.__globals__[name]
        for part in _nested_codes(code)
        for name in part.co_names
        if name in function.__globals__
    }
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # the cell is still empty
            values[name] = cell.cell_contents
    return _unchanged(values, [code])


def _parts(value: Any, kind: type) -> dict[str, Any]:
    """Return the methods and values of a class and, for an object, its attributes that no method modifies."""
    members = {
        name: member for name, member in vars(kind).items() if callable(member) or not name.startswith("__")
    }
    members |= {f"base {number}": base for number, base in enumerate(kind.__bases__)}
    if value is kind:
        return members
    methods = [
        member.__code__
        for base in kind.__mro__
        for name, member in vars(base).items()
        if isinstance(member, FunctionType) and name not in _CONSTRUCTORS
    ]
    attributes = dict(getattr(value, "__dict__", {}))
    return members | {"held": _unchanged(attributes, methods)}


def _unchanged(values: dict[str, Any], codes: Sequence[CodeType]) -> dict[str, Any]:
    """Return the values that no code assigns.

    Lists, sets and dictionaries that it may modify in place are replaced by their type.
    """
    parts = [part for code in codes for part in _nested_codes(code)]
    instructions = [instruction for part in parts for instruction in dis.get_instructions(part)]
    assigned = {str(step.argval) for step in instructions if step.opname in _ASSIGNMENTS}
    modifies_items = any(step.opname in _ITEM_ASSIGNMENTS for step in instructions)
    calls_modifier = any(not _CHANGING.isdisjoint(part.co_names) for part in parts)
    unchanged: dict[str, Any] = {}
    for name, value in sorted(values.items()):
        if name in assigned:
            continue
        is_modified = (modifies_items or calls_modifier) and isinstance(value, list | set | dict)
        unchanged[name] = type(value) if is_modified else value
    return unchanged


def _nested_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those of the functions defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested_codes(constant)
