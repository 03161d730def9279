"""For other people's tests: assertions on a model, and suites that plugins must pass."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
