"""What tells a changed function from the same one, so that the journal does not answer for another function."""

from __future__ import annotations

import dis
import functools
import hashlib
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

__all__ = ["digest_of"]

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
    return hashlib.sha256(_Description(value).text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class _Description:
    """A value in words that are equal for equal values.

    Parameters
    ----------
    module
        Whose functions and objects count by what they hold; None: that of the value.
    """

    def __init__(self, value: object, module: str | None = None) -> None:
        inner = value.func if isinstance(value, functools.partial) else value
        self._module = module or getattr(inner, "__module__", None)
        self._seen: dict[int, tuple[int, object]] = {}  # objects are kept, so that no other gets their id
        self.text = self._of(value)

    def _of(self, value: Any) -> str:
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            return f"{type(value).__name__} {value!r}"
        if id(value) in self._seen:
            return f"again {self._seen[id(value)][0]}"
        self._seen[id(value)] = len(self._seen), value
        match value:
            case list() | tuple():
                return f"{type(value).__name__} [{', '.join(map(self._of, value))}]"
            case set() | frozenset():
                return f"set [{', '.join(sorted(_Description(one, self._module).text for one in value))}]"
            case dict():
                return f"dict [{', '.join(f'{self._of(key)}: {self._of(one)}' for key, one in value.items())}]"
            case CodeType():
                names = (value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
                return f"code {value.co_code.hex()} {value.co_flags} {names} {self._of(value.co_consts)}"
            case functools.partial():
                return f"partial {self._of(value.func)} {self._of(value.args)} {self._of(value.keywords)}"
            case MethodType():
                return f"method {self._of(value.__func__)} {self._of(value.__self__)}"
            case FunctionType() if value.__module__ == self._module:
                return f"function {', '.join(map(self._of, (value.__code__, value.__defaults__, value.__kwdefaults__, _named(value))))}"
            case staticmethod() | classmethod():
                return self._of(value.__func__)
            case property():
                return f"property {self._of(value.fget)}"
        kind = value if isinstance(value, type) else type(value)
        name = f"{getattr(value, '__module__', kind.__module__)}.{getattr(value, '__qualname__', kind.__qualname__)}"
        return f"{name} {self._of(_parts(value, kind))}" if kind.__module__ == self._module else name


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _changed(code: CodeType) -> tuple[set[str], bool]:
    """Names and attributes that the code assigns, and whether it changes lists or dictionaries in place."""
    made = [one for part in _codes(code) for one in dis.get_instructions(part)]
    assigned = {str(one.argval) for one in made if one.opname in ("STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR")}
    in_place = any(one.opname in ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE") for one in made)
    return assigned, in_place or any(name in _CHANGING for part in _codes(code) for name in part.co_names)


def _kept(values: dict[str, Any], changed: tuple[set[str], bool]) -> dict[str, Any]:
    assigned, in_place = changed
    return {
        name: type(value) if in_place and isinstance(value, list | set | dict) else value
        for name, value in sorted(values.items())
        if name not in assigned
    }


def _named(function: FunctionType) -> dict[str, Any]:
    """Values of the closure and of the module that a function names and does not change."""
    code = function.__code__
    found = {name: function.__globals__[name] for part in _codes(code) for name in part.co_names if name in function.__globals__}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # it has no value yet
            continue
    return _kept(found, _changed(code))


def _parts(value: Any, kind: type) -> dict[str, Any]:
    """Methods and values of a class, and of an object its attributes that its methods do not change."""
    own = {name: one for name, one in vars(kind).items() if not (name.startswith("__") and not callable(one))}
    bases = {f"base {number}": base for number, base in enumerate(kind.__bases__)}
    if value is kind:
        return own | bases
    assigned, in_place = set[str](), False
    for base in kind.__mro__:
        for name, method in vars(base).items():
            if isinstance(method, FunctionType) and name not in _CONSTRUCTORS:
                changed = _changed(method.__code__)
                assigned, in_place = assigned | changed[0], in_place or changed[1]
    return own | bases | {"held": _kept(dict(getattr(value, "__dict__", {})), (assigned, in_place))}
