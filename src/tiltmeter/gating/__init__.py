"""The gate: does a run pass, and why not. It knows findings and run.json only, never the method that made them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
