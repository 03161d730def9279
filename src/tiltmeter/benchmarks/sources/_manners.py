"""How politely a server is asked: how often, by whom, and how long to wait when it says no."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from time import monotonic, time

from tiltmeter.errors import InputError

__all__ = ["Manners", "Pace", "retry_after"]


@dataclass(frozen=True, slots=True)
class Manners:
    """Limits that hold for everything asked of one server."""

    rate: float = 5.0
    """Requests a second at most."""
    connections: int = 2
    """Requests under way at one time."""
    tries: int = 6
    """Requests for one thing before it is given up."""
    pause: float = 1.0
    """Seconds before the second try; doubled for each further one."""
    patience: float = 120.0
    """Seconds a server may ask to wait before the page is given up instead."""
    timeout: float = 60.0
    """Seconds one answer may take."""
    largest: int = 64 * 2**20
    """Bytes an answer may have."""
    user_agent: str | None = None
    """Who asks; Wikimedia wants a way to reach you in it (an address or a URL). None: name and version of Tiltmeter."""

    def __post_init__(self) -> None:
        for name in ("rate", "connections", "tries", "patience", "timeout", "largest"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"{name} must be more than 0, not {value}")
        if not (math.isfinite(self.pause) and self.pause >= 0):
            raise InputError(f"pause must be 0 or more seconds, not {self.pause}")
        agent = self.user_agent
        if agent is not None and not (agent.strip() and agent.isascii() and agent.isprintable()):
            raise InputError(f"user_agent must be printable ASCII text, not {agent!r}")

    @property
    def agent(self) -> str:
        """What is sent as User-Agent."""
        from importlib.metadata import version

        return self.user_agent or f"tiltmeter/{version('tiltmeter')} (benchmark building; aiohttp)"


class Pace:
    """Evenly spaced turns, and a pause that holds for all; lives in one event loop."""

    def __init__(self, rate: float) -> None:
        self._seconds_each = 1.0 / rate
        self._free_at = 0.0
        self._paused_until = 0.0

    async def turn(self) -> None:
        """Wait until the next request may be sent. Turns are taken one by one, so a pause moves all those who wait."""
        while True:
            now = monotonic()
            moment = max(self._free_at, self._paused_until)
            if moment <= now:
                self._free_at = now + self._seconds_each
                return
            await asyncio.sleep(moment - now)

    def hold(self, seconds: float) -> None:
        """Nothing is sent for so long."""
        self._paused_until = max(self._paused_until, monotonic() + seconds)


def retry_after(value: str | None) -> float | None:
    """Seconds a Retry-After header asks for, as a number or an HTTP date; None where it says nothing sensible."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time()
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
