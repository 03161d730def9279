"""Runs: how a study is carried through its five steps, and how a finished run is opened again."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
