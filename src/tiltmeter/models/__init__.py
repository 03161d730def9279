"""How one text comes from one model: the `Model` protocol, its providers, and the models that turn a text into numbers.

Nothing is imported before it is used; the names are those of `__init__.pyi`.
"""

import sys

import lazy_loader

from tiltmeter.listing_package import ListingPackage

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
sys.modules[__name__].__class__ = ListingPackage
