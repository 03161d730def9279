"""Reading of YAML files: trusted files of the package, and untrusted files of users."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from tiltmeter.errors import InputError, did_you_mean
from tiltmeter.sanitising import not_utf8, storable

if TYPE_CHECKING:
    import yaml
    from pydantic import BaseModel, ValidationError

_MAX_VALUES = 1_000_000
_OPENS = {"[": 1, "{": 1, "]": -1, "}": -1}
_MAX_DEPTH = 500
"""Maximum nesting depth of brackets. The running time of PyYAML is quadratic in the depth."""


@cache
def packaged_yaml(path: Path) -> Any:
    """Read a YAML file of the package once, with the faster C loader if it is available."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(path.read_bytes(), Loader=loader)  # noqa: S506 (both are safe)


def content_of(path: Path, what: str) -> bytes:
    """Read a user's file; `what` names its kind in messages. Raises InputError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot read the {what} {path}: {'it is a folder' if path.is_dir() else error.strerror}"
        ) from error


def read_yaml(path: Path, what: str) -> Any:
    """Read a user's YAML file.

    Duplicate keys in a mapping are an error, because YAML would silently keep the last one.

    Parameters
    ----------
    what
        Kind of file for messages, such as "study file".

    Raises
    ------
    InputError
        The file cannot be read; the message names the file and, for invalid YAML, the line and column.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen: set[str] = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                    if key.value.strip() in seen:  # names are stripped when read
                        raise yaml.MarkedYAMLError(
                            None,
                            None,
                            f"the key {key.value.strip()!r} occurs twice in one mapping",
                            key.start_mark,
                        )
                    seen.add(key.value.strip())
            return super().construct_mapping(node, deep)

    content = content_of(path, what)
    if encoding := not_utf8(content):
        raise InputError(f"cannot read the {what} {path}: {encoding}")
    try:
        return yaml_of(content.decode("utf-8-sig"), Loader)
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise InputError(
            f"{path}{place}: not valid YAML ({problem or ' '.join(str(error).split())[:300]});"
            " correct that line"
        ) from error


def first_error(error: ValidationError) -> Any:
    """Return the error to report: the first one, or for a missing key the unknown key that is a misspelling of it."""
    found = error.errors(include_url=False, include_context=True)
    first = found[0]
    if first["type"] != "missing":
        return first
    *parent, key = map(str, first["loc"])
    unknown = (
        one for one in found if one["type"] == "extra_forbidden" and [*map(str, one["loc"][:-1])] == parent
    )
    return next((one for one in unknown if get_close_matches(str(one["loc"][-1]), [key], cutoff=0.6)), first)


_EXPECTED = {
    "missing": "is missing",
    "too_short": "is empty",
    "string_too_short": "is an empty text",
    "string_type": "must be a text (put numbers, dates and words such as yes and no in quotes)",
    "string_pattern_mismatch": "must be one line of text",
    "int_type": "must be a whole number such as 10",
    "int_parsing": "must be a whole number such as 10",
    "float_parsing": "must be a number such as 0.5",
    "bool_type": "must be true or false",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "list_type": "must be a list such as [one, another]",
}


def error_sentence(error: ValidationError, model: type[BaseModel]) -> str:
    """Describe the first error of a document in one sentence: the key, the expected value and the actual value.

    Parameters
    ----------
    model
        Model that the document was validated against. Union members in it should raise a
        `PydanticCustomError`, because Pydantic otherwise includes each member in the location of an error.
    """
    first = first_error(error)
    kind, where = first["type"], [str(key) for key in first["loc"] if key != "[key]"]
    above = f"{'.'.join(where[:-1])}: " if where[:-1] else ""
    is_key = kind == "invalid_key" or len(where) < len(first["loc"])
    if kind == "value_error":  # raised by a validator of Tiltmeter
        message = str(first["ctx"]["error"])
        return f"{above}a key {message}" if is_key else ": ".join(filter(None, [".".join(where), message]))
    if is_key:
        needs = "must be a text of one line (put numbers, dates and words such as yes and no in quotes)"
        return f"{above}a key {needs}, found {first['input']!r}"
    if kind == "extra_forbidden":
        lacking = error.errors()[0]
        missing = f"{'.'.join(map(str, lacking['loc']))} is missing: " if lacking["type"] == "missing" else ""
        return f"{missing}{above}unknown key {where[-1]!r}: {did_you_mean(where[-1], _keys_below(model, where[:-1]))}"
    actual = (
        "" if kind in ("missing", "too_short", "string_too_short") else f", found {shortened(first['input'])}"
    )
    return f"{'.'.join(where)} {_EXPECTED.get(kind) or first['msg'].replace('Input should', 'must')}{actual}".strip()


def shortened(value: object) -> str:
    """Return the repr of a value, truncated for messages."""
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


def _keys_below(model: type[BaseModel], where: Sequence[str]) -> list[str]:
    """Return the keys that the model accepts below a location."""
    for key in where:
        if key in model.model_fields:  # otherwise it is a key of a mapping, or a list index
            model = next(_models_in(model.model_fields[key].annotation), model)
    return list(model.model_fields)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if hasattr(annotation, "model_fields"):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)


def yaml_of(text: str, loader: type[yaml.SafeLoader] | None = None) -> Any:
    """Parse YAML text. Lone surrogates become U+FFFD, because files cannot store them.

    A few lines of aliases can expand to more values than fit into memory, or to a value that contains itself,
    so the values are counted before any are constructed.

    Parameters
    ----------
    loader
        A safe loader. By default `yaml.SafeLoader`.

    Raises
    ------
    yaml.YAMLError
        The text is not valid YAML, has an invalid number or date, is nested too deeply, or expands to more
        than a million values.
    """
    import yaml

    if max(accumulate(_OPENS.get(letter, 0) for letter in text), default=0) > _MAX_DEPTH:
        raise yaml.YAMLError("a value cannot be read (it is nested too deeply)")
    opened = (loader or yaml.SafeLoader)(text)
    try:
        node = opened.get_single_node()
        if node is None:
            return None
        if (count := _values(node, {})) > _MAX_VALUES:
            content = (
                f"more than {_MAX_VALUES:,} values"
                if count < float("inf")
                else "a value that contains itself"
            )
            raise yaml.YAMLError(f"its aliases expand to {content}")
        value = opened.construct_document(node)
        return _storable(value) if "\\u" in text or "\\U" in text else value
    except RecursionError:
        raise yaml.YAMLError("a value cannot be read (it is nested too deeply)") from None
    except (ValueError, OverflowError, TypeError) as error:
        raise yaml.YAMLError(f"a value cannot be read ({str(error).splitlines()[0][:300]})") from None
    finally:
        opened.dispose()


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {_storable(key): _storable(one) for key, one in value.items()}
    return [_storable(one) for one in value] if isinstance(value, list) else value


def _values(node: Any, known: dict[int, float]) -> float:
    """Count the values of a node, including every alias; infinite if it contains itself."""
    import yaml

    if id(node) not in known:
        known[id(node)] = float("inf")  # until the count is complete
        inner = node.value if isinstance(node, yaml.CollectionNode) else ()
        children = (one for pair in inner for one in pair) if isinstance(node, yaml.MappingNode) else inner
        known[id(node)] = 1 + sum(_values(one, known) for one in children)
    return known[id(node)]
