"""Renderers that write blocks to terminals, HTML pages, notebooks, Markdown, LaTeX and image files.

Renderers depend on blocks and run.json only, not on any method.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
