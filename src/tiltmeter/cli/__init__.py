"""The command `tiltmeter`: parses, calls, prints. No logic, and nothing heavy imported before a command needs it."""

from __future__ import annotations

import errno
import os
import sys

from tiltmeter.errors import EXIT_INPUT, TiltmeterError

__all__ = ["main"]


def main() -> None:
    """Run the command line; ends the process with the exit status of the command.

    0 done, 1 gate failed, 2 wrong usage or input, 3 run incomplete, 4 provider or authentication.
    """
    from tiltmeter.cli._app import app

    try:
        app()
    except TiltmeterError as error:
        _say(str(error))
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader of our output left: nothing is wrong
        sys.exit(0)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT):
            raise
        _say(f"cannot write {error.filename or 'a file'}: {error.strerror}")
        sys.exit(EXIT_INPUT)


def _say(sentence: str) -> None:
    print(f"tiltmeter: {sentence}", file=sys.stderr)
