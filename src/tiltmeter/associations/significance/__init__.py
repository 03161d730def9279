"""Which concepts a model attaches to which identity more than chance would."""

from tiltmeter.associations.significance._find import DEFINITIONS, compare_counts, find_associations, score_counts
from tiltmeter.associations.significance._shuffled import permutation_p, shuffled_counts

__all__ = ["DEFINITIONS", "compare_counts", "find_associations", "permutation_p", "score_counts", "shuffled_counts"]
