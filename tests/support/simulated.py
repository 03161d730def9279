"""The simulated model over HTTP, in a thread of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from tiltmeter.models.sim import SimulatedModel
from tiltmeter.testing._simulated_server import SimulatedServer, learn_study


@contextmanager
def running(
    model: SimulatedModel, study: str | None = None, *, shared: Path | None = None, **params: str
) -> Iterator[str]:
    """Yield the base URL of a server, which ends with the `with` block.

    The model answers the prompts of the study (data in `shared`).
    """
    if study is not None:
        with patch.dict(os.environ, {} if shared is None else {"TILTMETER_DATA": str(shared / "data")}):
            assert learn_study(model, study, **params) == []
    with SimulatedServer(model) as server:
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="simulated-server", daemon=True
        )
        thread.start()
        try:
            yield server.url
        finally:
            server.shutdown()
            thread.join()
