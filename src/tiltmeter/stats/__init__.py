"""Numbers to estimates: resampling, intervals, tests and lines, in NumPy and SciPy; knows nothing of text or models."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
