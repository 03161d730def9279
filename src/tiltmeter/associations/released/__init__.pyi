from .published import RELEASED, read_counts, read_released
from .reanalysis import FACTS, LEVEL, MINIMUM, RULES, Families, Reanalysis, reanalyse
from .validation import CONFIDENCE, DISAGREEMENTS, FIGURES, Validation, validate

__all__ = [
    "CONFIDENCE",
    "DISAGREEMENTS",
    "FACTS",
    "FIGURES",
    "LEVEL",
    "MINIMUM",
    "RELEASED",
    "RULES",
    "Families",
    "Reanalysis",
    "Validation",
    "read_counts",
    "read_released",
    "reanalyse",
    "validate",
]
