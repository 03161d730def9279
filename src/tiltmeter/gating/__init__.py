"""Gate that decides whether a run passes. It depends only on findings and run.json, not on the method."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
