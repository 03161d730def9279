"""External datasets: a catalogue of the available files, and a library that fetches, verifies and reads them.

Tiltmeter ships none of the data. It searches for a file in the folders named by TILTMETER_DATA, then in the
cache (TILTMETER_CACHE), then in the sources listed in the catalogue: a published package, the Hugging Face
Hub or a URL. A file is used only if its size and SHA-256 match the catalogue. Data published as Python source
is parsed, never executed.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
