"""YAML that came from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tiltmeter._text import storable

if TYPE_CHECKING:
    import yaml

__all__ = ["yaml_of"]

_MOST_VALUES = 1_000_000


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
