"""Exceptions and warnings of Tiltmeter, with the exit statuses of the command.

An error message is one sentence that names the file, line, key or flag that is wrong and says how to correct
it. Messages never contain API keys, because they are built from names and places, not from headers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar, Final

from tiltmeter._sanitising import printable

EXIT_OK: Final = 0
EXIT_GATE: Final = 1
EXIT_INPUT: Final = 2
EXIT_INCOMPLETE: Final = 3
EXIT_PROVIDER: Final = 4
EXIT_UNDECIDED: Final = 5

_BEGINNING: Final = 400
"""Number of characters kept at the beginning of a very long message, which names the place."""
_END: Final = 180
"""Number of characters kept at the end of a very long message, which names the remedy."""
_FEW_NAMES: Final = 20
"""Maximum number of names listed in a message."""


class TiltmeterError(Exception):
    """Base class of errors that end a command with one sentence instead of a traceback."""

    exit_code: ClassVar[int] = EXIT_INPUT

    def __str__(self) -> str:
        """Return the message on one line, without control characters.

        A very long message is shortened in the middle.
        """
        message = super().__str__()
        if len(message) > _BEGINNING + _END:
            message = f"{message[:_BEGINNING]} … {message[-_END:]}"
        return printable(message, one_line=True)


class InputError(TiltmeterError):
    """Invalid user input (a flag, a file, a key or a value): exit status 2."""


class ProviderError(TiltmeterError):
    """The model gives no responses at all (wrong key, wrong model, no server): exit status 4."""

    exit_code = EXIT_PROVIDER


class UnanswerableError(ProviderError):
    """The model gives no responses until the user changes something: the key, the model, the prompts.

    Asking again does not help.
    """


def did_you_mean(unknown: str, names: Sequence[str], likeness: float = 0.5) -> str:
    """Return a hint for an error message: the closest names, or all names if they are few.

    Parameters
    ----------
    likeness
        Minimum similarity of the closest names, from 0 to 1.
    """
    import difflib  # lazy, because only messages about mistakes need it

    closest = difflib.get_close_matches(unknown, names, n=3, cutoff=likeness)
    if closest:
        return f"did you mean {' or '.join(closest)}?"
    if len(names) <= _FEW_NAMES:
        return f"known: {', '.join(names)}"
    return f"there are {len(names)} known names"


def check_known(name: str, names: Iterable[str], problem: str, remedy: str = "") -> None:
    """Raise InputError if a name is unknown.

    The message is `problem`, followed by the closest names and `remedy`.
    """
    listed = list(names)
    if name not in listed:
        raise InputError(f"{problem}: {did_you_mean(name, listed)}{remedy}")


@contextmanager
def error_prefix(place: str) -> Iterator[None]:
    """Prefix the messages of errors raised within the block with a place (a file or a flag)."""
    try:
        yield
    except TiltmeterError as error:
        raise type(error)(f"{place}{error}") from error


class Caveat(UserWarning):
    """A reservation about the results of a run, identified by `code` and explained in docs/caveats/CODE.md.

    Use `warnings.simplefilter("ignore", tiltmeter.Ungraded)` to silence one, or `"error"` to raise it.
    """

    code: ClassVar[str]


class IncompleteRun(Caveat):
    """The run is incomplete; `Run.problems` lists what is missing."""

    code = "incomplete"


class Ungraded(Caveat):
    """A key metric has no mark, because too few responses could be parsed or the interval is too wide."""

    code = "ungraded"


class Underpowered(Caveat):
    """The interval of a key metric spans healthy to critical or worse, because the run has too few items."""

    code = "underpowered"


class UnvalidatedJudge(Caveat):
    """A judge annotated the responses, and its accuracy was not validated against human labels."""

    code = "judge-not-validated"


class OneName(Caveat):
    """An association depends on a single name and disappears without it."""

    code = "one-name"


class UnequalMissing(Caveat):
    """Responses about one group are missing more often than those about another."""

    code = "unequal-missing"


class MixedDefinitions(Caveat):
    """Results of different definitions are shown together; they must not be compared."""

    code = "mixed-definitions"


class UnconstrainedAnswers(Caveat):
    """With `-P answers=constrained`, some answers were not constrained.

    The model or its endpoint does not support it.
    """

    code = "unconstrained"


class ConstrainedRefusals(Caveat):
    """With `-P answers=constrained`, a model refuses more or less often than in free text.

    The caveat also applies to models that may do so, and to those of which it is not known.
    """

    code = "constrained-refusals"


class ServedModels(Caveat):
    """An endpoint says that it served another model than the requested one.

    The caveat also applies if it served several models, versions or providers.
    """

    code = "served-models"


class UnusablePlugin(UserWarning):
    """An installed plugin cannot be used and is omitted from a listing."""


_CAVEATS = (
    IncompleteRun,
    Ungraded,
    Underpowered,
    UnvalidatedJudge,
    OneName,
    UnequalMissing,
    MixedDefinitions,
    UnconstrainedAnswers,
    ConstrainedRefusals,
    ServedModels,
)
CAVEATS: Final[Mapping[str, type[Caveat]]] = {caveat.code: caveat for caveat in _CAVEATS}
"""All caveats by code."""
