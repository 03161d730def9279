"""Every reader of untrusted bytes, its contract, and ways to damage its input.

For the tests and for long runs by hand.
"""

from __future__ import annotations

from support.fuzzing import _answers, _documents, _endpoints, _pages, _stores, _tables
from support.fuzzing.contract import Finding, Target, examine
from support.fuzzing.mutate import mutated

__all__ = ["TARGETS", "Finding", "Target", "examine", "mutated"]

TARGETS = {
    target.name: target
    for home in (_answers, _endpoints, _tables, _documents, _stores, _pages)
    for target in home.targets()
}
