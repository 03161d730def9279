"""What to do after a request that gave no answer."""

from __future__ import annotations

import random
from typing import Final

from tiltmeter.engine._limits import Limits
from tiltmeter.models import ModelError

__all__ = ["Streak", "retry_delay"]

BASE: Final = 0.5
LONGEST: Final = 30.0
NO_SERVER_AFTER: Final = 3.0
NOTHING_WORKS_AFTER: Final = 20
REVOKED_AFTER: Final = 5
_ABOUT_ONE_PROMPT: Final = frozenset({"context_length", "content_filter"})


def retry_delay(error: ModelError, counted: int, elapsed: float, limits: Limits) -> float | None:
    """Seconds to wait before asking again, None when the request is to be given up.

    Parameters
    ----------
    counted
        Failed attempts so far that count (all but rate limits).
    elapsed
        Seconds since the request was first sent.
    """
    if error.scope != "transient" or counted > limits.retries:
        return None
    # Full jitter: requests that failed together must not come back together.
    delay = random.uniform(0.0, min(LONGEST, BASE * 2.0 ** min(max(counted - 1, 0), 16)))
    if error.retry_after is not None:
        delay += error.retry_after
    return delay if elapsed + delay < limits.deadline else None


class Streak:
    """Notices that nothing works (any more), so that a run of a million prompts ends with one sentence rather than a million failures.

    Each method gives that sentence, or None to go on.
    """

    def __init__(self, endpoint: str, limits: Limits) -> None:
        self._endpoint = endpoint
        self._limits = limits
        self._unreachable_since: float | None = None
        self._reached = False
        self._fatal = 0
        self._given_up = 0
        self.worked = False
        """Whether any request was answered, in this run or, as the journal shows, before it."""

    def answered(self) -> None:
        """An answer came: whatever failed before was not everything."""
        self.worked = self._reached = True
        self._fatal = self._given_up = 0

    def attempt_failed(self, error: ModelError, now: float) -> str | None:
        """One attempt failed at `now` (seconds on any steady clock)."""
        if error.retry_after is not None and error.retry_after > self._limits.deadline:
            return (
                f"{self._endpoint} asks to wait {error.retry_after:.0f} s, longer than the deadline of {self._limits.deadline:g} s: "
                f"run again later, answers so far are kept ({error})"
            )
        if error.kind != "connection":
            self._reached = True
        if self._reached:
            return None
        if self._unreachable_since is None:
            self._unreachable_since = now
        if now - self._unreachable_since < NO_SERVER_AFTER:
            return None
        return self._no_server(error)

    def given_up(self, error: ModelError) -> str | None:
        """A request was given up because of `error`."""
        if error.scope == "fatal":
            self._fatal += 1
            if not self.worked:
                return str(error.detail)
            if self._fatal >= REVOKED_AFTER:
                return f"{self._endpoint} worked before but now refuses everything: {error.detail}"
        if error.kind in _ABOUT_ONE_PROMPT or (self.worked and error.scope == "permanent"):
            return None
        self._given_up += 1
        if not self.worked and self._given_up >= NOTHING_WORKS_AFTER:
            if not self._reached:
                return self._no_server(error)
            return f"{self._endpoint} answered none of the first {self._given_up} requests, the last with {error}"
        if self.worked and self._given_up >= max(2 * self._limits.max_connections, NOTHING_WORKS_AFTER):
            return f"{self._endpoint} worked before but the last {self._given_up} requests were given up, the last with {error}"
        return None

    def _no_server(self, error: ModelError) -> str:
        return f"no server answers at {self._endpoint}: start it, or check the address ({error.detail})"
