"""The `tiltmeter` command.

It parses arguments, calls the Python API and prints; expensive imports are deferred to the commands.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from io import TextIOWrapper
from pathlib import Path
from typing import Final, TextIO

from tiltmeter.errors import EXIT_INPUT, EXIT_OK, InputError, TiltmeterError

__all__ = ["main"]

EXIT_INTERRUPTED: Final = 130
EXIT_SOFTWARE: Final = 70
"""EX_SOFTWARE of sysexits.h. Python's own exit status 1 means that a gate failed."""
_UNWRITABLE: Final = (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT)
"""Errors of the file system that the user can correct."""
_show_as_usual = warnings.showwarning


def main() -> None:
    """Run the command line and exit with the command's status.

    Exit statuses: 0 success, 1 gate failed, 2 invalid usage or input, 3 run incomplete, 4 provider or
    authentication error, 70 internal error (with its traceback), 130 interrupted.
    """
    try:
        status = _run_command()
        sys.stdout.flush()
    except TiltmeterError as error:
        _say(str(error))
        status = error.exit_code
    except BrokenPipeError:  # the reader closed the pipe, which is not an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = EXIT_OK
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
    except Exception as error:
        status = _unexpected(error)
    sys.exit(status)


def _run_command() -> int:
    """Run the command and return its exit status."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # print "?" for characters that the terminal cannot encode
    _check_text()
    import typer

    from tiltmeter._cli.application import command
    from tiltmeter.errors import Caveat, UnusablePlugin

    warnings.simplefilter("ignore", Caveat)  # reports print the caveats
    warnings.simplefilter("always", UnusablePlugin)
    warnings.showwarning = _show_warning
    try:
        command()
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):
            raise stop.__context__ from None  # Typer's status 1 would mean that a gate failed
        if isinstance(stop.__context__, typer.Abort):
            return EXIT_INTERRUPTED
        _refuse_exit_of_user_code(stop)
        return stop.code if isinstance(stop.code, int) else EXIT_OK
    return EXIT_OK


def _refuse_exit_of_user_code(stop: SystemExit) -> None:
    """Raise InputError if code of the user ended the program.

    Its exit status would be taken for a result of Tiltmeter.
    """
    import traceback

    origin = traceback.extract_tb(stop.__traceback__)[-1]
    if not {"typer", "click"}.intersection(Path(origin.filename).parts):
        raise InputError(
            f"{origin.filename}, line {origin.lineno} ended the program; a function that"
            " Tiltmeter calls must return instead"
        ) from stop


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print `UnusablePlugin` warnings on one line, and other warnings as Python does."""
    from tiltmeter._sanitising import printable
    from tiltmeter.errors import UnusablePlugin

    if issubclass(category, UnusablePlugin):
        print(printable(str(message), one_line=True), file=sys.stderr)
    else:
        _show_as_usual(message, category, filename, lineno, file, line)


def _check_text() -> None:
    """Reject arguments and variables that are not valid UTF-8.

    They could not be written to the files of a run.
    """
    texts = {f"argument {number}": text for number, text in enumerate(sys.argv[1:], 1)}
    for name, text in os.environ.items():
        if name.startswith("TILTMETER_"):
            texts[f"environment variable {name}"] = text
    for place, text in texts.items():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError(f"{place} is not UTF-8 text: {text!r}; write it in UTF-8") from None


def _unexpected(error: Exception) -> int:
    """Print an unexpected error with its traceback, and return the exit status."""
    if isinstance(error, OSError) and error.errno in _UNWRITABLE:
        _say(f"cannot write {error.filename or 'a file'}: {error.strerror}")
        return EXIT_INPUT
    import traceback

    from tiltmeter._sanitising import printable, redacted

    for line in "".join(traceback.format_exception(error)).splitlines():
        print(printable(redacted(line)), file=sys.stderr)
    _say("internal error; this is a bug in Tiltmeter. Please report it with the lines above")
    return EXIT_SOFTWARE


def _say(sentence: str) -> None:
    from tiltmeter._sanitising import printable, redacted

    print(f"tiltmeter: {printable(redacted(sentence), one_line=True)}", file=sys.stderr)
