"""Released results of the method, reported and analysed again; and how right the judge steps are."""

from tiltmeter.associations.released.published import RELEASED, by_location, read_counts, read_released, summary, top
from tiltmeter.associations.released.reanalysis import FACTS, LEVEL, MINIMUM, RULES, Families, Reanalysis, reanalyse
from tiltmeter.associations.released.validation import CONFIDENCE, DISAGREEMENTS, FIGURES, Validation, validate

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
