"""YAML that came from outside."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiltmeter._text import not_utf8, storable
from tiltmeter.errors import InputError

if TYPE_CHECKING:
    import yaml
    from pydantic import ValidationError

__all__ = ["first_error", "read_yaml", "yaml_of"]

_MOST_VALUES = 1_000_000


def read_yaml(path: Path, what: str) -> Any:
    """The value of a YAML file of the user's; a key may stand only once in a mapping, as YAML would keep the last one silently.

    Parameters
    ----------
    what
        What the file is, for the message: "study file".

    Raises
    ------
    InputError
        It cannot be read; the message names the file and, where it is no YAML, line and column.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen: set[str] = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                    if key.value.strip() in seen:  # names are read without outer blanks
                        raise yaml.MarkedYAMLError(
                            None,
                            None,
                            f"the key {key.value.strip()!r} stands twice in one mapping",
                            key.start_mark,
                        )
                    seen.add(key.value.strip())
            return super().construct_mapping(node, deep)

    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the {what} {path}: {'it is a folder' if path.is_dir() else error.strerror}") from error
    if encoding := not_utf8(content):
        raise InputError(f"cannot read the {what} {path}: {encoding}")
    try:
        return yaml_of(content.decode("utf-8-sig"), Loader)
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise InputError(f"{path}{place}: not valid YAML ({problem or ' '.join(str(error).split())[:300]}); correct that line") from error


def first_error(error: ValidationError) -> Any:
    """The error of a document to name: the first, or where it is a missing key, the unknown key that is a misspelling of it."""
    found = error.errors(include_url=False, include_context=True)
    first = found[0]
    if first["type"] != "missing":
        return first
    *parent, key = map(str, first["loc"])
    beside = (one for one in found if one["type"] == "extra_forbidden" and [*map(str, one["loc"][:-1])] == parent)
    return next((one for one in beside if get_close_matches(str(one["loc"][-1]), [key], cutoff=0.6)), first)


def yaml_of(text: str, loader: type[yaml.SafeLoader] | None = None) -> Any:
    """The value of YAML text, as files can keep it (half a surrogate pair becomes U+FFFD); what is wrong with it is a YAMLError.

    A few lines of aliases can stand for more values than a machine can hold, or for a value that holds itself. Sharing makes them small
    until somebody looks at them, so they are counted before anything is made of them.

    Parameters
    ----------
    loader
        A safe loader; None: the usual one.

    Raises
    ------
    yaml.YAMLError
        It is no YAML, holds a number or date that is none, is nested too deeply, or stands for more than a million values.
    """
    import yaml

    opened = (loader or yaml.SafeLoader)(text)
    try:
        node = opened.get_single_node()
        if node is None:
            return None
        if (count := _values(node, {})) > _MOST_VALUES:
            much = f"more than {_MOST_VALUES:,} values" if count < float("inf") else "a value that holds itself"
            raise yaml.YAMLError(f"its aliases stand for {much}")
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
    """How many values a node stands for, each alias counted; infinite where it holds itself."""
    import yaml

    if id(node) not in known:
        known[id(node)] = float("inf")  # until all of it is counted
        inner = node.value if isinstance(node, yaml.CollectionNode) else ()
        held = (one for pair in inner for one in pair) if isinstance(node, yaml.MappingNode) else inner
        known[id(node)] = 1 + sum(_values(one, known) for one in held)
    return known[id(node)]
