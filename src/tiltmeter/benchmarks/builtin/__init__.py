"""Benchmarks that come with tiltmeter: texts, questions and roles of our own, so that they run with no outside data.

Each folder beside this file is one study: `study.yaml` (title, roles, templates), its texts, and where it is branched to other groups
the table `replacements.yaml`.
"""

from __future__ import annotations

from tiltmeter.benchmarks.builtin._load import NAMES, Builtin, builtin

__all__ = ["NAMES", "Builtin", "builtin"]
