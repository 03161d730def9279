"""Findings and tables in the formats of other tools. A format is one entry of `FORMATS`; its library is imported when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiltmeter.exports._export import export
    from tiltmeter.exports._formats import FORMATS, Format, Wanted

__all__ = ["FORMATS", "Format", "Wanted", "export"]

_HOMES = {"FORMATS": "_formats", "Format": "_formats", "Wanted": "_formats", "export": "_export"}


def __getattr__(name: str) -> Any:
    # Lazily: the command's help must not import Polars.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
