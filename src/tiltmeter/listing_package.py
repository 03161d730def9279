"""Callable packages: `tiltmeter.probes()` and `tiltmeter.models()` list the contents of `tiltmeter.probes` and `tiltmeter.models`."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polars import DataFrame


class ListingPackage(ModuleType):
    """A package that, when called, returns the table of the function of the same name in `tiltmeter.api`."""

    def __call__(self) -> DataFrame:
        """Return the table of the corresponding function in `tiltmeter.api`."""
        table: DataFrame = getattr(import_module("tiltmeter.api"), self.__name__.rpartition(".")[2])()
        return table
