"""Who is compared, where, and the prompts that come of it."""

from tiltmeter.associations.grid._design import FACTORS, VECTORS, check_design, make_design
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
