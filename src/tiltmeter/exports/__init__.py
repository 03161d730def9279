"""Export of findings and tables to the formats of other tools.

Each format is an entry of `FORMATS`; libraries are imported lazily.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
