"""A lazy registry of plugins: names are mapped to "module:object" references, which are imported on first use.

Built-in plugins are listed here or found by file name. Other packages register plugins through entry points in the
group `tiltmeter.<kind>`, such as `tiltmeter.providers`. Listing names imports nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

from tiltmeter.errors import InputError, TiltmeterError

KINDS = ("providers", "probes", "studies", "features", "statistics")
"""Kinds of plugins. Features and statistics are registered here only by other packages; the built-in ones are in
`tiltmeter.features.FEATURES` and `tiltmeter.stats.STATISTICS`.
"""

_PROVIDERS = {
    **dict.fromkeys(
        ("openai", "anthropic", "ollama", "vllm", "llamacpp", "openrouter", "together", "deepinfra", "groq", "gemini", "compatible"),
        "tiltmeter.models.http:create",
    ),
    "any": "tiltmeter.models.anyllm:create",
    "hf": "tiltmeter.datasets.local_models:create",
    "python": "tiltmeter.models.function:create",
    "replay": "tiltmeter.models.replay:create",
    "sim": "tiltmeter.models.sim:create",
}
# A study is registered as a callable that creates it. Its attributes title, description and parts (names) are shown in listings.
_STUDIES = {
    "genderbench": "tiltmeter.probes:suite",
    "associations": "tiltmeter.associations:suite",
    "benchmarks": "tiltmeter.benchmarks:suite",
}
# Modules of `tiltmeter.probes` that do not define a probe.
_NO_PROBES = {
    "__init__",
    "analysis",
    "base",
    "constrained",
    "contrasts",
    "label_corrections",
    "metric",
    "paper_suite",
    "presentation",
    "published",
    "relabelling",
    "second_reader",
    "shared",
    "table_probe",
}
_CALLABLE = {
    "providers": "a function that creates a model",
    "features": "a function of one text",
    "studies": "a callable that creates a study",
}
ENDS_THE_PROGRAM = "ends the program while it is imported; put what it runs under: if __name__ == '__main__'"
"""End of the sentence about a module that raises SystemExit while it is imported."""


def _probe_modules() -> dict[str, str]:
    """Return the built-in probes: every module of `tiltmeter.probes` defines one, except the shared modules."""
    folder = Path(__file__).parent / "probes"
    return {path.stem: f"tiltmeter.probes.{path.stem}:PROBE" for path in sorted(folder.glob("*.py")) if path.stem not in _NO_PROBES}


@cache
def _references(kind: str) -> dict[str, tuple[str, ...]]:
    """Return the references by name; a name has several references if plugins share it."""
    from importlib.metadata import entry_points  # lazy, because it takes a tenth of the time of --help

    built_in = _probe_modules() if kind == "probes" else {"providers": _PROVIDERS, "studies": _STUDIES}.get(kind, {})
    found: dict[str, tuple[str, ...]] = {name: (place,) for name, place in built_in.items()}
    for point in entry_points(group=f"tiltmeter.{kind}"):
        found[point.name] = tuple(dict.fromkeys((*found.get(point.name, ()), point.value)))
    return found


def names(kind: str) -> list[str]:
    """Return the names registered under `kind`, in registration order (built-in first)."""
    return list(_references(kind))


def did_you_mean(wrong: str, known: Sequence[str], likeness: float = 0.5) -> str:
    """Return a hint for an error message: the closest known names (of at least this similarity), or all names if they are few."""
    close = difflib.get_close_matches(wrong, known, n=3, cutoff=likeness)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"known: {', '.join(known)}" if len(known) <= 20 else f"there are {len(known)} known names"


def check_known(name: str, known: Iterable[str], wrong: str, rest: str = "") -> None:
    """Raise InputError if a name is unknown; the message is `wrong`, followed by the closest known names and `rest`."""
    there = list(known)
    if name not in there:
        raise InputError(f"{wrong}: {did_you_mean(name, there)}{rest}")


def reference(kind: str, name: str) -> str:
    """Return the "module:object" reference registered under `name`, without importing it.

    Raises
    ------
    InputError
        The name is not registered (the message suggests the closest names), or registered twice.
    """
    references = _references(kind)
    singular = {"studies": "study"}.get(kind, kind.removesuffix("s"))
    check_known(name, references, f"unknown {singular} {name!r}")
    place, *others = references[name]
    if others:
        raise InputError(
            f"two plugins of kind {kind} are named {name!r}: {place} and {others[0]}; uninstall one of them or rename its entry point"
        )
    return place


def load(kind: str, name: str) -> Any:
    """Import and return the object registered under `name`.

    Raises
    ------
    InputError
        The name is not registered (the message suggests the closest names) or registered twice, or the plugin of another package
        cannot be imported.
    """
    place = reference(kind, name)
    module, _, attribute = place.partition(":")
    try:
        found = attrgetter(attribute)(import_module(module))
    except TiltmeterError as error:
        raise type(error)(f"{place}: {error}") if _is_outside(place) else error from None
    except SystemExit as error:
        raise InputError(f"{place} {ENDS_THE_PROGRAM}, or uninstall its package") from error
    except Exception as error:
        if isinstance(error, AttributeError) and attribute in str(error):
            raise InputError(f"{module} does not define {attribute}; the module of a plugin must define '{attribute} = ...'") from error
        if not _is_outside(place):
            raise
        raise InputError(f"{place} cannot be imported ({type(error).__name__}: {error}); fix or uninstall its package") from error
    if kind in _CALLABLE and not callable(found):
        raise InputError(f"{place} is not {_CALLABLE[kind]} (found {type(found).__name__}); fix or uninstall its package")
    return found


def load_all(kind: str, load_one: Callable[[str], Any] | None = None) -> tuple[dict[str, Any], dict[str, str]]:
    """Load all plugins of a kind; return the usable objects by name, and the reasons for the unusable ones by name.

    Parameters
    ----------
    load_one
        Function to call instead of `load(kind, name)`; raises InputError for an unusable plugin.
    """
    found, broken = {}, {}
    for name in names(kind):
        try:
            found[name] = load(kind, name) if load_one is None else load_one(name)
        except TiltmeterError as error:
            broken[name] = str(error)
    return found, broken


def _is_outside(place: str) -> bool:
    return not place.startswith("tiltmeter.")
