"""Sentences of a text, and the words in them with their parts of speech."""

from tiltmeter.benchmarks.sentences._split import split_sentences
from tiltmeter.benchmarks.sentences._tagged import TAGGED, tagged, tagger

__all__ = ["TAGGED", "split_sentences", "tagged", "tagger"]
