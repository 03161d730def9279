"""Packages that can be called: `tiltmeter.probes()` and `tiltmeter.models()` list what `tiltmeter.probes` and `tiltmeter.models` hold."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polars import DataFrame


class ListingPackage(ModuleType):
    """A package that lists, when it is called, what the function of its name in `tiltmeter.api` lists."""

    def __call__(self) -> DataFrame:
        """Return the table."""
        table: DataFrame = getattr(import_module("tiltmeter.api"), self.__name__.rpartition(".")[2])()
        return table
