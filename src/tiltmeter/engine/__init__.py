"""How very many texts come: journal, concurrency, retries, limits, progress, prices.

with open_journal("journal.db") as journal:
    tally = generate(model, requests, sampling, journal=journal, limits=Limits(max_connections=128))
    table = journal.fetch([request_key(model.fingerprint, sampling, *request) for request in requests])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiltmeter.engine.display import Display, open_display
    from tiltmeter.engine.generate import agenerate, generate
    from tiltmeter.engine.journal import Journal, Row, Taken, open_journal
    from tiltmeter.engine.limits import Limits
    from tiltmeter.engine.prices import Price, Prices
    from tiltmeter.engine.request import Keys, Request, request_key
    from tiltmeter.engine.tally import Snapshot, Tally

__all__ = [
    "Display",
    "Journal",
    "Keys",
    "Limits",
    "Price",
    "Prices",
    "Request",
    "Row",
    "Snapshot",
    "Taken",
    "Tally",
    "agenerate",
    "generate",
    "open_display",
    "open_journal",
    "request_key",
]

_HOMES = {
    "display": ("Display", "open_display"),
    "generate": ("agenerate", "generate"),
    "journal": ("Journal", "Row", "Taken", "open_journal"),
    "limits": ("Limits",),
    "prices": ("Price", "Prices"),
    "request": ("Keys", "Request", "request_key"),
    "tally": ("Snapshot", "Tally"),
}


def __getattr__(name: str) -> Any:
    # Lazily: the journal needs SQLAlchemy, which listing and --help must not import.
    for module, names in _HOMES.items():
        if name in names:
            found = import_module(f"{__name__}.{module}")
            value = globals()[name] = getattr(found, name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
