"""Statistics on arrays: resampling, confidence intervals, significance tests and regression slopes.

Everything is based on NumPy and SciPy.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
