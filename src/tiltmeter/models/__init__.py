"""Models: the `Model` protocol and its providers, and models that turn text into numbers.

Submodules are imported on first use; the public names are those of `__init__.pyi`.

>>> from tiltmeter import models
>>> models.create_model("sim/fair").name
'sim/fair'
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
