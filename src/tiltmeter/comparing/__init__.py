"""Comparison of two models or runs, and the sensitivity of one run to wording and repetition."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
