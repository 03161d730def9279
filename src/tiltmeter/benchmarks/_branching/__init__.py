"""Branching: versions of prompts for other groups, and the search for the words to replace in them."""

from tiltmeter.benchmarks._branching.branches import (
    Branched,
    Proposal,
    branch,
    find_descriptors,
    propose_replacements,
)
from tiltmeter.benchmarks._branching.english_replacement import replace

__all__ = ["Branched", "Proposal", "branch", "find_descriptors", "propose_replacements", "replace"]
