"""Which concepts belong to one identity by definition or universal fact: they tell nothing about a model."""

from tiltmeter.associations.exclusivity._rules import RULES, drop_exclusive, exclusive_by_judge, exclusive_by_terms

__all__ = ["RULES", "drop_exclusive", "exclusive_by_judge", "exclusive_by_terms"]
