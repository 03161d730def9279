from .discovery import (
    compare_counts,
    find_associations,
    permutation_p,
    score_counts,
    shuffled_counts,
)

__all__ = ["compare_counts", "find_associations", "permutation_p", "score_counts", "shuffled_counts"]
