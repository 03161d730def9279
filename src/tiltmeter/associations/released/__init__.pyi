from ._published import RELEASED, read_counts, read_released
from ._reanalysis import FACTS, LEVEL, MINIMUM, RULES, Families, Reanalysis, reanalyse

__all__ = [
    "FACTS",
    "LEVEL",
    "MINIMUM",
    "RELEASED",
    "RULES",
    "Families",
    "Reanalysis",
    "read_counts",
    "read_released",
    "reanalyse",
]
