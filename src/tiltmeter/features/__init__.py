"""Features: numeric properties of texts.

Features are computed by classifiers, a lexicon, sentence embeddings or the user's own functions; texts can
also be clustered, and pairs of texts compared. A text that cannot be scored is counted as missing, never as
neutral. Each model scores each distinct text once.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
