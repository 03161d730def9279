"""The regular expressions of the package, and texts on which each may take long.

A text repeats what the expression repeats, and then has an end that does not match.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import tiltmeter

parser: Any = importlib.import_module("re._parser")  # neither has stubs
opcodes: Any = importlib.import_module("re._constants")

_METHODS = ("search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer")
_ONCE = {"match", "fullmatch", "search"}
_EVERYWHERE = (*" aA\n\"'.!1<([`\\-_é", "a ", "A ", "a.", "a-", " \n", "<a", '"a')
_MEMBERS = {
    "CATEGORY_SPACE": " ", "CATEGORY_DIGIT": "1", "CATEGORY_WORD": "a", "CATEGORY_NOT_SPACE": "a",
    "CATEGORY_NOT_WORD": "!", "CATEGORY_NOT_DIGIT": "a",
}  # fmt: skip
_ENDS = ("", "\x01!")


class Expression(NamedTuple):
    """A regular expression and its uses in the package."""

    pattern: re.Pattern[str]
    place: str
    methods: frozenset[str]


@cache
def expressions() -> list[Expression]:
    """Return the expressions that are attributes of modules and those written where they are used."""
    by_name: dict[tuple[str, int], Expression] = {}
    for module in pkgutil.walk_packages(tiltmeter.__path__, "tiltmeter."):
        if (
            module.name.startswith("tiltmeter._app")
            or module.name.endswith("_pytest")
            or "re.compile(" not in _text_of(module.name)
        ):
            continue
        try:
            loaded = importlib.import_module(module.name)
        except ImportError:  # an extra that is not installed
            continue
        for name, value in list(vars(loaded).items()):
            for pattern in _patterns(value):
                used = _used(name, _text_of(module.name) if name.startswith("_") else _source())
                by_name.setdefault(
                    (pattern.pattern, pattern.flags), Expression(pattern, f"{module.name}.{name}", used)
                )
    for pattern, place, method in _written():
        by_name.setdefault((pattern.pattern, pattern.flags), Expression(pattern, place, frozenset({method})))
    return list(by_name.values())


def _patterns(value: object, depth: int = 0) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 3 and isinstance(value, list | tuple | set | frozenset | dict):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from _patterns(entry, depth + 1)


@cache
def _source() -> str:
    return "\n".join(
        path.read_text(encoding="utf-8") for path in sorted(Path(tiltmeter.__file__).parent.rglob("*.py"))
    )


def _text_of(module: str) -> str:
    """Return the source of a module."""
    place = Path(tiltmeter.__file__).parent.joinpath(*module.split(".")[1:])
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return file.read_text(encoding="utf-8")


def _used(name: str, source: str) -> frozenset[str]:
    """Return the methods called on a constant of this name.

    Looked for everywhere in a text where it is handed on to be called elsewhere.
    """
    called = set(re.findall(rf"\b{re.escape(name)}\.({'|'.join(_METHODS)})\b", source))
    return frozenset(called or {"finditer"})


def _written() -> Iterator[tuple[re.Pattern[str], str, str]]:
    for path in sorted(Path(tiltmeter.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            owner, argument = node.func.value, node.args[0]
            if (
                isinstance(owner, ast.Name)
                and owner.id == "re"
                and node.func.attr in _METHODS
                and isinstance(argument, ast.Constant)
            ):
                flags = re.DOTALL if "re.DOTALL" in ast.unparse(node) else 0
                yield re.compile(str(argument.value), flags), f"{path.name}:{node.lineno}", node.func.attr


def texts(pattern: re.Pattern[str], length: int) -> Iterator[str]:
    """Yield texts of about `length` characters on which the expression may take long.

    For each repetition of the expression: what leads to it, its body many times, and an end.
    """
    pairs: dict[tuple[str, str], None] = dict.fromkeys(("", text) for text in _EVERYWHERE)
    tree = list(parser.parse(pattern.pattern, pattern.flags))
    _repetitions(tree, "", pairs)
    example = _example(tree, 0)
    pairs |= dict.fromkeys((("", example), ("", example[:-1])))
    for before, body in pairs:
        if body:
            for end in _ENDS:
                yield before + body * max(1, length // len(body)) + end


_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")


def _parts(code: str, value: Any) -> list[Any]:
    """Return the expressions in an item: one, or its alternatives."""
    match code:
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return [value[2]]
        case "SUBPATTERN":
            return [value[3]]
        case "ATOMIC_GROUP":
            return [value]
        case "BRANCH":
            return list(value[1])
        case "ASSERT" | "ASSERT_NOT":
            return [value[1]]
    return []


def _repetitions(items: Any, before: str, pairs: dict[tuple[str, str], None]) -> None:
    for code, value in items:
        if str(code) in _REPEATS and (value[1] == opcodes.MAXREPEAT or value[1] > 20):
            pairs |= dict.fromkeys((before[-80:], _example(value[2], turn)) for turn in range(4))
        for part in _parts(str(code), value):
            _repetitions(part, before, pairs)
        before += _example([(code, value)], 0)


def _example(items: Any, turn: int) -> str:
    """Return a text that the items match, if lookarounds are ignored."""
    entries = ""
    for code, value in items:
        match str(code):
            case "LITERAL":
                entries += chr(value)
            case "NOT_LITERAL":
                entries += "b" if value == ord("a") else "a"
            case "ANY" | "GROUPREF":
                entries += "a"
            case "IN":
                entries += _of_class(value)
            case name if not name.startswith("ASSERT") and (parts := _parts(name, value)):
                entries += _example(parts[turn % len(parts)], turn) * (
                    max(value[0], 1) if name in _REPEATS else 1
                )
    return entries


def _of_class(members: Any) -> str:
    if str(members[0][0]) == "NEGATE":
        return next(
            (
                character
                for character in "a !1-\"'A.\né"
                if not any(_belongs(character, member) for member in members[1:])
            ),
            "é",
        )
    code, value = members[0]
    if str(code) in ("LITERAL", "RANGE"):
        return chr(value if str(code) == "LITERAL" else value[0])
    return _MEMBERS.get(str(value), "a")


_CATEGORY_SIGNS = {"SPACE": "s", "DIGIT": "d", "WORD": "w"}


def _belongs(letter: str, member: Any) -> bool:
    code, value = member
    match str(code):
        case "LITERAL":
            return ord(letter) == int(value)
        case "RANGE":
            return int(value[0]) <= ord(letter) <= int(value[1])
        case _:
            sign = _CATEGORY_SIGNS[str(value).rpartition("_")[2]]
            category = "\\" + (sign.upper() if "NOT" in str(value) else sign)
            return re.match(category, letter) is not None


def seconds(expression: Expression, text: str) -> float:
    """Return the processor time of the slowest use of an expression."""
    slowest = 0.0
    pattern: re.Pattern[Any] = expression.pattern
    subject: str | bytes = text.encode() if isinstance(pattern.pattern, bytes) else text
    for method in expression.methods:
        began = time.process_time()
        if method in _ONCE:
            getattr(pattern, method)(subject)
        else:
            for _ in pattern.finditer(subject):
                pass
        slowest = max(slowest, time.process_time() - began)
    return slowest
