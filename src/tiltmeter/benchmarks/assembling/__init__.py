"""From sentences to prompts: beginnings of sentences to be continued, questions a model makes of them, prompts a user has."""

from tiltmeter.benchmarks.assembling._continuations import continuations
from tiltmeter.benchmarks.assembling._questions import NOT_ASKED, questions
from tiltmeter.benchmarks.assembling._rows import DROPPED, Assembled, given, subsample

__all__ = ["DROPPED", "NOT_ASKED", "Assembled", "continuations", "given", "questions", "subsample"]
