"""Extraction without a judge: what the words of a story predicate of each character."""

from tiltmeter.associations.lexical.attribution import extract

__all__ = ["extract"]
