"""Models: the `Model` protocol and its providers, which generate text, and the models that turn text into numbers.

Submodules are imported on first use; the public names are those of `__init__.pyi`.
"""

import sys

import lazy_loader

from tiltmeter.listing_package import ListingPackage

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
sys.modules[__name__].__class__ = ListingPackage
