"""Reading of YAML files: trusted files of the package, and untrusted files of users."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from tiltmeter._sanitising import not_utf8, storable
from tiltmeter.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import yaml
    from pydantic import BaseModel, ValidationError

_MAX_VALUES: Final = 1_000_000
"""Maximum number of values of a document, including those of aliases."""
_DEPTHS: Final = {"[": 1, "{": 1, "]": -1, "}": -1}
"""What a bracket adds to the nesting depth."""
_MAX_DEPTH: Final = 500
"""Maximum nesting depth of brackets. The running time of PyYAML is quadratic in the depth."""

_MERGE_TAG: Final = "tag:yaml.org,2002:merge"
_LONGEST_PROBLEM: Final = 300
_LONGEST_VALUE: Final = 60
"""Maximum number of characters of a value in a message."""


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
        reason = "it is a folder" if path.is_dir() else error.strerror
        raise InputError(f"cannot read the {what} {path}: {reason}") from error


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
            names: set[str] = set()
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE_TAG:
                    continue
                name = key.value.strip()  # names are stripped when read
                if name in names:
                    problem = f"the key {name!r} occurs twice in one mapping"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                names.add(name)
            return super().construct_mapping(node, deep)

    content = content_of(path, what)
    if encoding := not_utf8(content):
        raise InputError(f"cannot read the {what} {path}: {encoding}")
    try:
        return yaml_of(content.decode("utf-8-sig"), Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or " ".join(str(error).split())[:_LONGEST_PROBLEM]
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise InputError(f"{path}{place}: not valid YAML ({problem}); correct that line") from error


def first_error(error: ValidationError) -> Any:
    """Return the error to report.

    It is the first one; for a missing key, it is the unknown key that is a misspelling of it, if there is
    one.
    """
    details = error.errors(include_url=False, include_context=True)
    first = details[0]
    if first["type"] != "missing":
        return first
    *parent, missing_key = map(str, first["loc"])
    unknown_keys = [detail for detail in details if detail["type"] == "extra_forbidden"]
    for detail in unknown_keys:
        *above, key = map(str, detail["loc"])
        if above == parent and get_close_matches(key, [missing_key], cutoff=0.6):
            return detail
    return first


_EXPECTED: Final = {
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
    """Describe the first error of a document in one sentence: the key, the expected and the actual value.

    Parameters
    ----------
    model
        Model that the document was validated against. Union members in it should raise a
        `PydanticCustomError`, because Pydantic otherwise includes each member in the location of an error.
    """
    first = first_error(error)
    kind = first["type"]
    keys = [str(key) for key in first["loc"] if key != "[key]"]
    place = ".".join(keys)
    above = f"{'.'.join(keys[:-1])}: " if keys[:-1] else ""
    is_key = kind == "invalid_key" or len(keys) < len(first["loc"])
    if kind == "value_error":  # raised by a validator of Tiltmeter
        message = str(first["ctx"]["error"])
        if is_key:
            return f"{above}a key {message}"
        return f"{place}: {message}" if place else message
    if is_key:
        needs = "must be a text of one line (put numbers, dates and words such as yes and no in quotes)"
        return f"{above}a key {needs}, found {first['input']!r}"
    if kind == "extra_forbidden":
        hint = did_you_mean(keys[-1], _keys_below(model, keys[:-1]))
        return f"{_missing_key(error)}{above}unknown key {keys[-1]!r}: {hint}"
    expected = _EXPECTED.get(kind) or first["msg"].replace("Input should", "must")
    is_absent = kind in ("missing", "too_short", "string_too_short")
    actual = "" if is_absent else f", found {shortened(first['input'])}"
    return f"{place} {expected}{actual}".strip()


def _missing_key(error: ValidationError) -> str:
    """Return the beginning of the sentence about an unknown key that is a misspelling of a missing one."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))} is missing: " if first["type"] == "missing" else ""


def shortened(value: object) -> str:
    """Return the repr of a value, truncated for messages."""
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


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

    if max(accumulate(_DEPTHS.get(letter, 0) for letter in text), default=0) > _MAX_DEPTH:
        raise yaml.YAMLError("a value cannot be read (it is nested too deeply)")
    opened = (loader or yaml.SafeLoader)(text)
    try:
        node = opened.get_single_node()
        if node is None:
            return None
        count = _count_values(node, {})
        if count == float("inf"):
            raise yaml.YAMLError("its aliases expand to a value that contains itself")
        if count > _MAX_VALUES:
            raise yaml.YAMLError(f"its aliases expand to more than {_MAX_VALUES:,} values")
        value = opened.construct_document(node)
        return _storable(value) if "\\u" in text or "\\U" in text else value
    except RecursionError:
        raise yaml.YAMLError("a value cannot be read (it is nested too deeply)") from None
    except (ValueError, OverflowError, TypeError) as error:
        reason = str(error).splitlines()[0][:_LONGEST_PROBLEM]
        raise yaml.YAMLError(f"a value cannot be read ({reason})") from None
    finally:
        opened.dispose()


def _storable(value: Any) -> Any:
    """Return a value in which lone surrogates of all texts are replaced."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {_storable(key): _storable(content) for key, content in value.items()}
    if isinstance(value, list):
        return [_storable(entry) for entry in value]
    return value


def _count_values(node: Any, counts: dict[int, float]) -> float:
    """Count the values of a node, including every alias; infinite if it contains itself.

    Parameters
    ----------
    counts
        Counts of nodes, by their id; they are added to it.
    """
    import yaml

    if id(node) in counts:
        return counts[id(node)]
    counts[id(node)] = float("inf")  # until the count is complete
    children = []
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            children += [key, value]
    elif isinstance(node, yaml.CollectionNode):
        children = node.value
    counts[id(node)] = 1 + sum(_count_values(child, counts) for child in children)
    return counts[id(node)]
