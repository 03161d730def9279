"""Who is compared, where, and the prompts that come of it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tiltmeter.associations.grid._grid import (
    ALIGNED,
    BUILT_IN_LANGUAGE,
    WITHIN_TYPE,
    Category,
    Descriptor,
    Grid,
    Pair,
    builtin_categories,
    load_grid,
)

if TYPE_CHECKING:
    from tiltmeter.associations.grid._design import FACTORS, VECTORS, check_design, make_design

__all__ = [
    "ALIGNED",
    "BUILT_IN_LANGUAGE",
    "FACTORS",
    "VECTORS",
    "WITHIN_TYPE",
    "Category",
    "Descriptor",
    "Grid",
    "Pair",
    "builtin_categories",
    "check_design",
    "load_grid",
    "make_design",
]


def __getattr__(name: str) -> Any:
    # Lazily: looking at a grid must not import Polars.
    if name in ("FACTORS", "VECTORS", "check_design", "make_design"):
        return getattr(import_module("tiltmeter.associations.grid._design"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
