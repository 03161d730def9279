"""Extraction with a judge, in up to four stages."""

from tiltmeter.associations.judging._asking import NOT_ASKED
from tiltmeter.associations.judging._extraction import extract_with_judge
from tiltmeter.associations.judging._json import read_json

__all__ = ["NOT_ASKED", "extract_with_judge", "read_json"]
