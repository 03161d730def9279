"""Findings and tables in the formats of other tools. A format is one entry of `FORMATS`; its library is imported when it is used."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
