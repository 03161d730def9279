"""Functions of the user's, named MODULE:FUNCTION."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from tiltmeter.errors import InputError

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def is_function(text: str) -> bool:
    """Whether a text is written MODULE:FUNCTION."""
    return _FUNCTION.fullmatch(text) is not None


def load_function(place: str) -> Callable[..., Any]:
    """The function at MODULE:FUNCTION; modules of the folder one works in are found, too.

    Raises
    ------
    InputError
        The module cannot be imported, or has no such function.
    """
    module, _, attribute = place.partition(":")
    try:
        with _working_folder():
            found: Any = getattr(import_module(module), attribute, None)
    except Exception as error:
        said = " ".join(str(error).split())
        raise InputError(f"{place}: the module {module} cannot be imported ({type(error).__name__}: {said})") from error
    if not callable(found):
        raise InputError(f"{place}: the module {module} has no function {attribute}")
    function: Callable[..., Any] = found
    return function


@contextmanager
def _working_folder() -> Iterator[None]:
    """Let modules of the folder one works in be imported, as `python -m` does; an installed command does not look there.

    Afterwards `sys.path` is as it was, apart from what the imported module itself changed.
    """
    if "" in sys.path:
        yield
        return
    sys.path.append("")
    try:
        yield
    finally:
        if "" in sys.path:
            del sys.path[-1 - sys.path[::-1].index("")]
