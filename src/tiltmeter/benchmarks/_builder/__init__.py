"""Building of a benchmark from a spec: keywords find sentences in sources, and sentences become prompts."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
