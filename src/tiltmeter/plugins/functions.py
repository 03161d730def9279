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
from typing import Any

from tiltmeter.errors import InputError, TiltmeterError, did_you_mean
from tiltmeter.plugins.registry import ENDS_THE_PROGRAM

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_IN_FILE = re.compile(r"(.+\.py):([A-Za-z_]\w*)")


def is_function(text: str) -> bool:
    """Return True if a text has the form MODULE:FUNCTION."""
    return _FUNCTION.fullmatch(text) is not None


def file_of(text: str) -> Path | None:
    """Return the file of a text of the form FILE.py:NAME, otherwise None."""
    found = _IN_FILE.fullmatch(text)
    return None if found is None else Path(found[1])


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
        known = [one for one in vars(module) if not one.startswith("_")]
        raise InputError(f"{file} does not define {name}: {did_you_mean(name, known)}")
    return getattr(module, name)


@contextmanager
def explained(kind: type, doing: str, *passed: type[Exception]) -> Iterator[None]:
    """Report an exception of a class that is not part of Tiltmeter as an InputError that names the class and the line of its file."""
    if kind.__module__.partition(".")[0] == "tiltmeter":
        yield
        return
    try:
        yield
    except (Exception, SystemExit) as error:
        if isinstance(error, (TiltmeterError, *passed)):
            raise
        try:
            file = inspect.getsourcefile(kind)
        except TypeError:
            file = None
        lines = [
            frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file
        ]
        where = f" ({file}, line {lines[-1]})" if lines else f" ({file})" if file else ""
        message = next(iter(str(error).splitlines()), "")
        raise InputError(
            f"{kind.__name__} cannot {doing}{where}: {type(error).__name__}: {message}; correct the class"
        ) from error


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
            found: Any = (
                load_from_file(place) if file_of(place) else getattr(import_module(module), attribute, None)
            )
    except InputError:
        raise
    except SystemExit as error:
        raise InputError(f"{place}: the module {module} {ENDS_THE_PROGRAM}") from error
    except Exception as error:
        message = " ".join(str(error).split())
        raise InputError(
            f"{place}: the module {module} cannot be imported ({type(error).__name__}: {message})"
        ) from error
    if not callable(found):
        raise InputError(f"{place}: the module {module} has no function {attribute}")
    function: Callable[..., Any] = found
    return function


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
            del sys.path[-1 - sys.path[::-1].index("")]
