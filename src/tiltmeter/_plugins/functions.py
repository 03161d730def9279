"""User-defined functions and objects, named MODULE:NAME or FILE.py:NAME."""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final, cast

from tiltmeter._plugins.registry import ENDS_THE_PROGRAM
from tiltmeter.errors import InputError, TiltmeterError, did_you_mean

_FUNCTION: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_IN_FILE: Final = re.compile(r"(.+\.py):([A-Za-z_]\w*)")


def is_function(text: str) -> bool:
    """Return True if a text has the form MODULE:FUNCTION."""
    return _FUNCTION.fullmatch(text) is not None


def file_of(text: str) -> Path | None:
    """Return the file of a text of the form FILE.py:NAME, otherwise None."""
    match = _IN_FILE.fullmatch(text)
    return None if match is None else Path(match[1])


def load_from_file(place: str) -> Any:
    """Import and return the object at FILE.py:NAME.

    Raises
    ------
    InputError
        The file does not exist, cannot be imported, or does not define the name.
    """
    file, _, name = place.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise InputError(f"{place}: there is no file {file}")
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[path.stem] = module  # so that its classes and functions are found by module name
    try:
        spec.loader.exec_module(module)
    except SystemExit as error:
        raise InputError(f"{file} {ENDS_THE_PROGRAM}") from error
    except Exception as error:
        message = " ".join(str(error).split())
        raise InputError(
            f"{file} cannot be imported ({type(error).__name__}: {message}); correct it"
        ) from error
    if not hasattr(module, name):
        public = [attribute for attribute in vars(module) if not attribute.startswith("_")]
        raise InputError(f"{file} does not define {name}: {did_you_mean(name, public)}")
    return getattr(module, name)


@contextmanager
def explained(kind: type, doing: str, *passed: type[Exception]) -> Iterator[None]:
    """Report an exception of a user's class as an InputError that names the class and the line of its file.

    Parameters
    ----------
    kind
        The class. Exceptions of Tiltmeter's own classes are not changed.
    doing
        What the class could not do.
    *passed
        Exceptions that are not changed.
    """
    if kind.__module__.partition(".")[0] == "tiltmeter":
        yield
        return
    try:
        yield
    except (Exception, SystemExit) as error:
        if isinstance(error, (TiltmeterError, *passed)):
            raise
        message = next(iter(str(error).splitlines()), "")
        raise InputError(
            f"{kind.__name__} cannot {doing}{_place_in(kind, error)}: {type(error).__name__}: {message};"
            " correct the class"
        ) from error


def _place_in(kind: type, error: BaseException) -> str:
    """Return the file of a class, and its last line in the traceback, in brackets; empty if unknown."""
    try:
        file = inspect.getsourcefile(kind)
    except TypeError:
        return ""
    if file is None:
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    return f" ({file}, line {lines[-1]})" if lines else f" ({file})"


def load_function(place: str) -> Callable[..., Any]:
    """Import and return MODULE:FUNCTION or FILE.py:FUNCTION.

    Modules in the working directory are found as well.

    Raises
    ------
    InputError
        The module cannot be imported or has no such function.
    """
    module, _, attribute = place.partition(":")
    try:
        with _working_folder():
            if file_of(place):
                function = load_from_file(place)
            else:
                function = getattr(import_module(module), attribute, None)
    except InputError:
        raise
    except SystemExit as error:
        raise InputError(f"{place}: the module {module} {ENDS_THE_PROGRAM}") from error
    except Exception as error:
        message = " ".join(str(error).split())
        raise InputError(
            f"{place}: the module {module} cannot be imported ({type(error).__name__}: {message})"
        ) from error
    if not callable(function):
        raise InputError(f"{place}: the module {module} has no function {attribute}")
    return cast("Callable[..., Any]", function)


@contextmanager
def _working_folder() -> Iterator[None]:
    """Make modules in the working directory importable, as `python -m` does (installed commands do not).

    Afterwards `sys.path` is restored, except for changes by the imported module.
    """
    if "" in sys.path:
        yield
        return
    sys.path.append("")
    try:
        yield
    finally:
        if "" in sys.path:
            position_from_end = sys.path[::-1].index("")
            del sys.path[-1 - position_from_end]
