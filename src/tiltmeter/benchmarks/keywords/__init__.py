"""Keywords that find a concept's sentences: given, asked from a model, or taken from the concept's own pages."""

from tiltmeter.benchmarks.keywords._asked import KINDS, Asked, ask_keywords
from tiltmeter.benchmarks.keywords._from_pages import linked_keywords, similar_keywords
from tiltmeter.benchmarks.keywords._tables import given_keywords, join_keywords, nearest, non_containing

__all__ = [
    "KINDS",
    "Asked",
    "ask_keywords",
    "given_keywords",
    "join_keywords",
    "linked_keywords",
    "nearest",
    "non_containing",
    "similar_keywords",
]
