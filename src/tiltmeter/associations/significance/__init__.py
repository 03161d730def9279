"""Which concepts a model attaches to which identity more than chance would."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
