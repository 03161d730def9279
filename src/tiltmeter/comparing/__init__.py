"""Two runs compared: what differs, how surely; and within one run, what hangs on the wording or on chance."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
