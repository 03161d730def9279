"""How very many texts come: journal, concurrency, retries, limits, progress, prices.

with open_journal("journal.db") as journal:
    tally = generate(model, requests, sampling, journal=journal, limits=Limits(max_connections=128))
    table = journal.fetch([request_key(model.fingerprint, sampling, *request) for request in requests])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiltmeter.engine._display import NOTEBOOK, Display, in_notebook, open_display
    from tiltmeter.engine._engines import Engine, LocalEngine, open_engine
    from tiltmeter.engine._generate import agenerate, generate
    from tiltmeter.engine._journal import Journal, Row, Taken, open_journal
    from tiltmeter.engine._limits import Limits
    from tiltmeter.engine._prices import Cost, Price, Prices
    from tiltmeter.engine._request import Keys, Request, request_key
    from tiltmeter.engine._tally import Snapshot, Tally

__all__ = [
    "NOTEBOOK",
    "Cost",
    "Display",
    "Engine",
    "Journal",
    "Keys",
    "Limits",
    "LocalEngine",
    "Price",
    "Prices",
    "Request",
    "Row",
    "Snapshot",
    "Taken",
    "Tally",
    "agenerate",
    "generate",
    "in_notebook",
    "open_display",
    "open_engine",
    "open_journal",
    "request_key",
]

_HOMES = {
    "_display": ("NOTEBOOK", "Display", "open_display", "in_notebook"),
    "_engines": ("Engine", "LocalEngine", "open_engine"),
    "_generate": ("agenerate", "generate"),
    "_journal": ("Journal", "Row", "Taken", "open_journal"),
    "_limits": ("Limits",),
    "_prices": ("Cost", "Price", "Prices"),
    "_request": ("Keys", "Request", "request_key"),
    "_tally": ("Snapshot", "Tally"),
}


def __getattr__(name: str) -> Any:
    # Lazily: the journal needs SQLAlchemy, which listing and --help must not import.
    for module, names in _HOMES.items():
        if name in names:
            found = import_module(f"{__name__}.{module}")
            value = globals()[name] = getattr(found, name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
