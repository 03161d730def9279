from .published import RELEASED, by_location, read_counts, read_released, summary, top
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
    "by_location",
    "read_counts",
    "read_released",
    "reanalyse",
    "summary",
    "top",
    "validate",
]
