"""Which concepts belong to one identity by definition or universal fact: they tell nothing about a model."""

from tiltmeter.associations.exclusivity._by_terms import exclusive_by_terms
from tiltmeter.associations.exclusivity._rules import RULES, drop_exclusive, exclusive_by_judge

__all__ = ["RULES", "drop_exclusive", "exclusive_by_judge", "exclusive_by_terms"]
