"""A timer for the steps of a run, which names slow steps without a progress display."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

PATIENCE = 2.0
"""Seconds after which a step without progress display is named."""
STEPS: Mapping[str, str] = {
    "design": "making the prompts",
    "collect": "collecting the responses",
    "extraction": "extracting phrases from the responses",
    "measures": "measuring the responses",
    "concepts": "grouping phrases into concepts",
    "tests": "testing the concepts",
    "findings": "computing the findings",
}
"""Sentences for the user by step."""


class Clock:
    """A timer that sums seconds by step over all models.

    Parameters
    ----------
    say
        Shows a sentence; it is called if a step takes longer than PATIENCE.
    """

    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self._say = say

    @contextmanager
    def timing(self, step: str) -> Iterator[None]:
        """Add the duration of the block to a step."""
        begun = time.monotonic()
        late = None
        if self._say is not None and step in STEPS:
            late = threading.Timer(PATIENCE, self._say, [STEPS[step]])
            late.daemon = True
            late.start()
        try:
            yield
        finally:
            if late is not None:
                late.cancel()
            seconds = self.seconds.get(step, 0.0) + time.monotonic() - begun
            self.seconds[step] = round(seconds, 3)
