"""Branching: the same prompts about other groups, by whole words replaced, and the search for the words to replace."""

from tiltmeter.benchmarks.branching._branch import Branched, branch
from tiltmeter.benchmarks.branching._descriptors import Descriptors, find_descriptors
from tiltmeter.benchmarks.branching._proposals import Proposal, propose_replacements
from tiltmeter.benchmarks.branching._replace import replace
from tiltmeter.benchmarks.branching._table import Replacements, read_table

__all__ = [
    "Branched",
    "Descriptors",
    "Proposal",
    "Replacements",
    "branch",
    "find_descriptors",
    "propose_replacements",
    "read_table",
    "replace",
]
