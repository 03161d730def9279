"""Comparisons of outcomes between groups: who is refused more often, and by how much.

Names are imported on first use; `__init__.pyi` lists them.

>>> from tiltmeter.comparisons import Groups
>>> Groups("gender", "gender", names=("women", "men")).attribute
'gender'
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
