"""Functions and objects of the user's, named MODULE:NAME or FILE.py:NAME."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from tiltmeter.errors import InputError
from tiltmeter.registry import did_you_mean

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_IN_FILE = re.compile(r"(.+\.py):([A-Za-z_]\w*)")


def is_function(text: str) -> bool:
    """Whether a text is written MODULE:FUNCTION."""
    return _FUNCTION.fullmatch(text) is not None


def file_of(text: str) -> Path | None:
    """The file of a text written FILE.py:NAME; None where it is not."""
    found = _IN_FILE.fullmatch(text)
    return None if found is None else Path(found[1])


def load_from_file(place: str) -> Any:
    """The object at FILE.py:NAME.

    Raises
    ------
    InputError
        There is no such file, it cannot be run, or it defines no such name.
    """
    file, _, name = place.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise InputError(f"{place}: there is no file {file}")
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[path.stem] = module  # what its classes and functions are found by
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        said = " ".join(str(error).split())
        raise InputError(f"{file} cannot be imported ({type(error).__name__}: {said}); correct it") from error
    if not hasattr(module, name):
        known = [one for one in vars(module) if not one.startswith("_")]
        raise InputError(f"{file} defines no {name}: {did_you_mean(name, known)}")
    return getattr(module, name)


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
