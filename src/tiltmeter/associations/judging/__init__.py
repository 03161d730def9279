"""Extraction with a judge, in up to four stages."""

from tiltmeter._json import read_json
from tiltmeter.associations.judging._asking import NOT_ASKED
from tiltmeter.associations.judging._extraction import extract_with_judge, judge_wording

__all__ = ["NOT_ASKED", "extract_with_judge", "judge_wording", "read_json"]
