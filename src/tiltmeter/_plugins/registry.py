"""A registry of plugins: names are mapped to "module:object" references, which are imported on first use.

Each package that has plugins makes one `Registry`: providers in `tiltmeter.models._providers`, probes in
`tiltmeter.probes._listing`, studies in `tiltmeter.runs._listings`, definitions in
`tiltmeter.runs._definitions`, features in `tiltmeter.features`, statistics in
`tiltmeter.benchmarks._definitions`. Other packages register plugins through entry points in the group
`tiltmeter.<kind>`, such as `tiltmeter.providers`. Listing names imports nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from operator import attrgetter
from typing import Any, Final

from tiltmeter.errors import InputError, TiltmeterError, check_known

ENDS_THE_PROGRAM: Final = (
    "ends the program while it is imported; put what it runs under: if __name__ == '__main__'"
)
"""End of the sentence about a module that raises SystemExit while it is imported."""


class Registry:
    """The plugins of one kind, by name.

    Parameters
    ----------
    kind
        Name of the kind in the plural; `tiltmeter.<kind>` is the group of its entry points.
    singular
        Name of one plugin in error messages.
    built_in
        References "module:object" of Tiltmeter's own plugins, by name.
    required
        What an object must be that is called, in error messages; None if the objects of this kind are not
        called.
    """

    def __init__(
        self, kind: str, singular: str, built_in: Mapping[str, str], required: str | None = None
    ) -> None:
        self.kind = kind
        self._singular = singular
        self._built_in = built_in
        self._required = required

    @cached_property
    def _references(self) -> dict[str, tuple[str, ...]]:
        """The references by name; a name has several references if plugins share it."""
        from importlib.metadata import entry_points  # lazy, because it takes a tenth of the time of --help

        references: dict[str, tuple[str, ...]] = {
            name: (reference,) for name, reference in self._built_in.items()
        }
        for point in entry_points(group=f"tiltmeter.{self.kind}"):
            registered = references.get(point.name, ())
            references[point.name] = tuple(dict.fromkeys((*registered, point.value)))
        return references

    def names(self) -> list[str]:
        """Return the registered names, in registration order (built-in first)."""
        return list(self._references)

    def is_built_in(self, name: str) -> bool:
        """Return whether the plugin of this name is one of Tiltmeter's own."""
        return name in self._built_in

    def reference(self, name: str) -> str:
        """Return the "module:object" reference registered under `name`, without importing it.

        Raises
        ------
        InputError
            The name is not registered (the message suggests the closest names), or registered twice.
        """
        check_known(name, self._references, f"unknown {self._singular} {name!r}")
        reference, *duplicates = self._references[name]
        if duplicates:
            raise InputError(
                f"two plugins of kind {self.kind} are named {name!r}: {reference} and {duplicates[0]}; "
                "uninstall one of them or rename its entry point"
            )
        return reference

    def load(self, name: str) -> Any:
        """Import and return the object registered under `name`.

        Raises
        ------
        InputError
            The name is not registered (the message suggests the closest names) or registered twice, or the
            plugin of another package cannot be imported.
        """
        reference = self.reference(name)
        module, _, attribute = reference.partition(":")
        try:
            plugin = attrgetter(attribute)(import_module(module))
        except TiltmeterError as error:
            if _is_outside(reference):
                raise type(error)(f"{reference}: {error}") from None
            raise
        except SystemExit as error:
            raise InputError(f"{reference} {ENDS_THE_PROGRAM}, or uninstall its package") from error
        except Exception as error:
            if isinstance(error, AttributeError) and attribute in str(error):
                raise InputError(
                    f"{module} does not define {attribute}; the module of a plugin"
                    f" must define '{attribute} = ...'"
                ) from error
            if not _is_outside(reference):
                raise
            raise InputError(
                f"{reference} cannot be imported ({type(error).__name__}:"
                f" {error}); fix or uninstall its package"
            ) from error
        if self._required is not None and not callable(plugin):
            raise InputError(
                f"{reference} is not {self._required} (found {type(plugin).__name__});"
                " fix or uninstall its package"
            )
        return plugin

    def load_all(self, load: Callable[[str], Any] | None = None) -> tuple[dict[str, Any], dict[str, str]]:
        """Load all plugins; return the usable objects by name, and the reasons for the unusable ones by name.

        Parameters
        ----------
        load
            Function to call instead of the method `load`; raises InputError for an unusable plugin.
        """
        usable: dict[str, Any] = {}
        unusable: dict[str, str] = {}
        for name in self.names():
            try:
                usable[name] = self.load(name) if load is None else load(name)
            except TiltmeterError as error:
                unusable[name] = str(error)
        return usable, unusable


def _is_outside(reference: str) -> bool:
    """Return whether a reference is to an object of another package."""
    return not reference.startswith("tiltmeter.")
