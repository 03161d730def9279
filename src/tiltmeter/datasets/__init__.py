"""Outside data: a catalogue of what may be read, and a library that finds, fetches, checks and reads it.

None of the data is shipped. A file is looked for in the folders named by TILTMETER_DATA, then in the cache (TILTMETER_CACHE),
then in the sources its catalogue entry lists: a published package, the Hugging Face hub, a URL. Nothing is used unless its
size and sha256 are those of the catalogue, and data published as code is parsed, never executed.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
