"""Features: text to number. Classifiers, a lexicon, sentence vectors, a user's function, clusters of texts, overlap of pairs.

A text that cannot be scored is missing and counted, never neutral; every model sees every distinct text once.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
