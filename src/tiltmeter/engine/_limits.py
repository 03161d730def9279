"""What a user may bound: connections, rates, waiting."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tiltmeter.errors import InputError

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on how hard an endpoint is asked and how long an answer is waited for.

    Raises
    ------
    InputError
        A bound is not a positive number; the message names it and the value.
    """

    max_connections: int = 64
    """Requests in flight at most; the adaptive limit moves between 1 and this."""
    requests_per_minute: float | None = None
    """None: no cap. Requests are spaced evenly, so no window of a minute holds more."""
    tokens_per_minute: float | None = None
    """None: no cap. Input and output tokens together, estimated before a request and corrected by what it really used."""
    timeout: float = 120.0
    """Seconds one attempt may take."""
    retries: int = 6
    """Attempts after the first one that may fail in passing. Waiting out a rate limit does not count, only the deadline ends it."""
    deadline: float = 900.0
    """Seconds one request may take with all its attempts and waits."""

    def __post_init__(self) -> None:
        for name, least in (("max_connections", 1), ("retries", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")
        for name in ("requests_per_minute", "tokens_per_minute", "timeout", "deadline"):
            value = getattr(self, name)
            if value is None and name.endswith("per_minute"):
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
                raise InputError(f"{name} must be a positive number, not {value!r}")
