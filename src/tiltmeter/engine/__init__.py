"""Large numbers of requests to one model: journal, concurrency, retries, limits, progress, prices.

with open_journal("journal.db") as journal:
    tally = generate(model, requests, sampling, journal=journal, limits=Limits(max_connections=128))
    key_of = Keys(model.fingerprint, sampling)
    table = journal.fetch([key_of(*request) for request in requests])
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
