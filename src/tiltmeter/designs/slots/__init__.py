"""Matched sets from prompts whose author marked where they speak of a person.

Names are imported on first use; `__init__.pyi` lists them.

>>> from tiltmeter.designs.slots import Swap
>>> Swap.of("gender:women/men").lists
{'gender': ('women', 'men')}
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
