"""Blocks become a terminal's text, a page, a notebook, Markdown, LaTeX and pictures. Renderers know blocks and run.json, no method."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
