"""A simulated model with planted, known bias: it answers every kind of prompt of the three methods.

README.md beside this file documents the dials. Nothing heavy is imported here: the server and the table of
planted odds load what they need when they are used.
"""

from __future__ import annotations

from tiltmeter.models.sim._dials import PRESETS, Dials
from tiltmeter.models.sim._model import LETTER_WORDS, STORY_WORDS, SimulatedModel, create
from tiltmeter.models.sim._stories import planted_rates, story_rates
from tiltmeter.models.sim._tones import TONES, Tone, tone_texts

__all__ = [
    "LETTER_WORDS",
    "PRESETS",
    "STORY_WORDS",
    "TONES",
    "Dials",
    "SimulatedModel",
    "Tone",
    "create",
    "planted_rates",
    "story_rates",
    "tone_texts",
]
