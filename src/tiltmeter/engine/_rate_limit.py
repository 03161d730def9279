"""Rate limits of one endpoint.

The user's limits, an adaptive bound on concurrency, a shared pause, rate caps, and retries.

Concurrency follows additive increase, multiplicative decrease, as in TCP: the bound starts low and doubles
every round trip until the endpoint first reports overload (429, 503, 529); then it halves, and grows by one
per round trip. Only a request that was sent *after* the last cut may cut again, so that one burst of
rejections counts once. A pause applies to all requests to the endpoint. Rejected alternatives: latency as a
signal (answers of very different length look like congestion); a fixed cool-down between cuts (its right
length depends on the latency of the endpoint).

A request that is rejected again, while others are answered, slows down only itself. A long pause is tested by
one request every half minute, whose answer ends the pause: an endpoint may ask one prompt to wait for an
hour, and answer all others.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Final
from weakref import WeakValueDictionary

from tiltmeter.errors import InputError
from tiltmeter.models import Message, ModelError

START: Final = 8
"""Requests in flight before the first answers."""
LONGEST_PAUSE: float = 30.0
"""Seconds after which a pause is tested, and the longest pause without a wish of the endpoint."""
_OVERLOAD_KINDS = frozenset({"rate_limit", "overloaded"})
_OVERLOAD_STATUS = frozenset({429, 503, 529})
_RESERVED_FILES = 32
"""Files reserved for the journal, tables and libraries, in addition to open files and connections."""

_LONGEST_SLEEP = 1.0
"""Seconds between looks at a pause, which an answer may end."""
_FIRST_RETRY = 0.5
_LONGEST_RETRY = 30.0
NO_SERVER_AFTER: float = 3.0
"""Seconds without any connection after which a run ends."""
NOTHING_WORKS_AFTER: Final = 20
"""Requests in a row that are given up before a run ends."""
REVOKED_AFTER: Final = 5
"""Fatal errors in a row before a run ends whose key worked before."""
TOO_LONG_AFTER: Final = 3
"""Wishes to wait beyond the deadline before a run ends."""
_ABOUT_ONE_PROMPT = frozenset({"context_length", "content_filter"})
_FORBIDDEN = 403
"""Status of a key without permission, and of firewalls that reject one prompt; only repetitions with other
prompts tell which it is."""
_UNREACHED = frozenset({"connection", "proxy"})

_log = logging.getLogger("tiltmeter.engine")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the load of an endpoint and on the time to wait for an answer.

    Raises
    ------
    InputError
        A limit is not a positive number; the message names it and the value.

    Examples
    --------
    >>> import tiltmeter as tm
    >>> tm.Limits(max_connections=8, requests_per_minute=500).retries
    6
    """

    max_connections: int = 64
    """Maximum number of requests in flight; the adaptive limit is between 1 and this."""
    requests_per_minute: float | None = None
    """None: no cap. Requests are evenly spaced, so that no window of a minute contains more."""
    tokens_per_minute: float | None = None
    """None: no cap. Input plus output tokens, estimated before a request and corrected by its actual usage.
    """
    timeout: float = 120.0
    """Maximum duration of one attempt, in seconds."""
    retries: int = 6
    """Retries after transient errors. Waiting for a rate limit does not count; only the deadline ends it."""
    deadline: float = 900.0
    """Maximum duration of one request with all attempts and waiting times, in seconds; it ends requests that
    are always throttled."""

    def __post_init__(self) -> None:
        for name, least in (("max_connections", 1), ("retries", 0)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")
        for name in ("requests_per_minute", "tokens_per_minute", "timeout", "deadline"):
            value = getattr(self, name)
            if value is None and name.endswith("per_minute"):
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise InputError(f"{name} must be a positive number, not {value!r}")


def within_open_files(limits: Limits) -> Limits:
    """Return `limits`, with fewer connections if the process may not open as many files.

    Fewer connections are a warning in the log. Each connection is a file for the operating system. The soft
    limit of the process is raised first, as far as possible.
    """
    if sys.platform == "win32":
        return limits
    import resource

    try:
        open_now = sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:  # not available on this system
        open_now = 32
    needed = open_now + _RESERVED_FILES + limits.max_connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return limits
    raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    with suppress(OSError, ValueError):  # some systems have a further limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= needed:
        return limits
    fitting = max(1, limits.max_connections - (needed - soft))
    _log.warning(
        "this process may have only %d open files, so at most %d of %d connections are used; "
        "raise the limit with ulimit -n",
        soft, fitting, limits.max_connections,
    )  # fmt: skip
    return replace(limits, max_connections=fitting)


def is_overload(error: ModelError) -> bool:
    """Return whether an error reports overload of the endpoint, rather than another failure."""
    return error.scope == "transient" and (error.status in _OVERLOAD_STATUS or error.kind in _OVERLOAD_KINDS)


class _MinuteBudget:
    """A budget per minute with evenly spaced use: each use reserves the next free moment."""

    def __init__(self, per_minute: float | None) -> None:
        self._seconds_each = 60.0 / per_minute if per_minute else 0.0
        self._free_at = 0.0

    def reserve(self, amount: float, now: float) -> float:
        """Reserve `amount` and return the time from which it may be used."""
        moment = max(self._free_at, now)
        self._free_at = moment + amount * self._seconds_each
        return moment

    def correct(self, surplus: float) -> None:
        """Account for `surplus` units more (or, if negative, fewer) than reserved.

        One use accounts for at most a minute's budget.

        A use above the budget of a minute is more than the endpoint allows: the number is wrong, or the next
        requests are rejected, which slows them down.
        """
        self._free_at += min(surplus * self._seconds_each, 60.0)


class RateLimit:
    """The limiter for all requests to one endpoint, within one event loop.

    Call `enter` before a request, `leave` after it, and `succeeded` or `overloaded` depending on its outcome.
    A `local` model (in this process) gets the maximum number of requests from the start, because it answers
    them in batches.
    """

    def __init__(self, limits: Limits, *, local: bool = False) -> None:
        self._ceiling = limits.max_connections
        self._width = float(self._ceiling if local else min(START, self._ceiling))
        self._cut_at = 0.0
        """When the bound was last halved (monotonic clock); 0 if it never was."""
        self._cuts_in_a_row = 0
        self._slots = asyncio.Semaphore(int(self._width))
        self._surplus = 0
        """Slots to withdraw as soon as they are free, because the bound was lowered."""
        self._requests = _MinuteBudget(limits.requests_per_minute)
        self._tokens = _MinuteBudget(limits.tokens_per_minute)
        self._mean_output = 256.0
        self.in_flight = 0
        self.paused_until = 0.0
        self._paused_at = 0.0
        """When the latest pause began."""
        self._probe_at = math.inf
        """From when on one request tests whether a pause is still needed."""

    @property
    def width(self) -> int:
        """Requests that may be in flight now."""
        return int(self._width)

    def estimate(self, messages: Sequence[Message], max_tokens: int | None) -> float:
        """Estimate the tokens of a request: a quarter of its characters, plus an answer of average length."""
        output = self._mean_output if max_tokens is None else min(self._mean_output, max_tokens)
        return sum(len(message.content) for message in messages) / 4 + output

    async def enter(self, tokens: float) -> None:
        """Wait until one more request may be sent, then count it as in flight."""
        now = monotonic()
        moment = max(self._requests.reserve(1.0, now), self._tokens.reserve(tokens, now))
        if moment > now:
            await asyncio.sleep(moment - now)
        while True:
            await self._slots.acquire()
            now = monotonic()
            wait = self.paused_until - now
            if not self._surplus and wait > 0 and now >= self._probe_at:
                self._probe_at = now + LONGEST_PAUSE
                wait = 0.0
            if self._surplus or wait > 0:
                self._free_slot()
                await asyncio.sleep(min(wait, _LONGEST_SLEEP))
            else:
                self.in_flight += 1
                return

    def leave(self) -> None:
        """Note the end of a request, whatever its outcome."""
        self.in_flight -= 1
        self._free_slot()

    def succeeded(
        self, reserved: float, input_tokens: int | None, output_tokens: int | None, sent_at: float = 0.0
    ) -> None:
        """Note an answer to a request sent at `sent_at`.

        The bound rises, and the token budget is corrected by the actual usage. An answer to a request that
        was sent during a pause ends the pause.
        """
        self._cuts_in_a_row = 0
        if sent_at > self._paused_at:
            self.paused_until = 0.0
        if self._width < self._ceiling:
            growth = 1.0 / self._width if self._cut_at else 1.0
            self._set_width(min(self._width + growth, float(self._ceiling)))
        if output_tokens is not None:
            credible = min(output_tokens, 4 * self._mean_output)  # a single wrong number must not lead
            self._mean_output += 0.05 * (credible - self._mean_output)
            self._tokens.correct((input_tokens or 0) + output_tokens - reserved)

    def overloaded(self, sent_at: float, retry_after: float | None) -> None:
        """Note an overload reported for a request sent at `sent_at` (monotonic).

        The bound is halved once per burst, and all requests pause.
        """
        now = monotonic()
        if sent_at > self._cut_at:
            self._set_width(max(1.0, self._width / 2))
            self._cut_at = now
            self._cuts_in_a_row += 1
            if retry_after is None:
                pause = min(LONGEST_PAUSE, 0.5 * 2 ** min(self._cuts_in_a_row, 10))
                retry_after = random.uniform(0.5, 1.0) * pause
        if retry_after is not None and now + retry_after > self.paused_until:
            if self.paused_until <= now:
                self._paused_at, self._probe_at = now, now + LONGEST_PAUSE
            self.paused_until = now + retry_after

    def _set_width(self, width: float) -> None:
        added = int(width) - int(self._width)
        self._width = width
        self._surplus += max(0, -added)
        for _ in range(added):
            self._free_slot()

    def _free_slot(self) -> None:
        if self._surplus:
            self._surplus -= 1
        else:
            self._slots.release()


_RATE_LIMITS: WeakValueDictionary[tuple[asyncio.AbstractEventLoop, str, Limits], RateLimit] = (
    WeakValueDictionary()
)


def rate_limit_of(endpoint: str, limits: Limits, *, local: bool = False) -> RateLimit:
    """Return the rate limit of an endpoint in the running event loop.

    All concurrent users with the same limits share it.
    """
    place = (asyncio.get_running_loop(), endpoint, limits)
    return _RATE_LIMITS.setdefault(place, RateLimit(limits, local=local))


def retry_delay(error: ModelError, counted: int, elapsed: float, limits: Limits) -> float | None:
    """Return the seconds to wait before a retry, or None to give up the request.

    Parameters
    ----------
    counted
        Failed attempts so far, without rate limits.
    elapsed
        Seconds since the request was first sent.
    """
    if error.scope != "transient" or counted > limits.retries:
        return None
    doublings = min(max(counted - 1, 0), 16)
    longest = min(_LONGEST_RETRY, _FIRST_RETRY * 2.0**doublings)
    delay = random.uniform(0.0, longest)  # full jitter: what failed together must not be retried together
    if error.retry_after is not None:
        delay += error.retry_after
    return delay if elapsed + delay < limits.deadline else None


class Streak:
    """Detects that all requests fail, so that a run ends with one message instead of a million failures.

    Each method returns that message, or None to continue.
    """

    def __init__(self, endpoint: str, limits: Limits) -> None:
        self._endpoint = endpoint
        self._limits = limits
        self._unreachable_since: float | None = None
        self._reached = False
        self._fatal = 0
        self._too_long = 0
        self._given_up = 0
        self.worked = False
        """Whether any request was answered, in this run or, according to the journal, before it."""

    def answered(self) -> None:
        """Note an answer, and reset the counts of failures."""
        self.worked = self._reached = True
        self._fatal = self._given_up = self._too_long = 0

    def attempt_failed(self, error: ModelError, now: float) -> str | None:
        """Note a failed attempt at `now` (seconds on any monotonic clock)."""
        deadline = self._limits.deadline
        if error.retry_after is not None and error.retry_after > deadline:
            self._too_long += 1
            if self._too_long < TOO_LONG_AFTER:  # it may be about one request
                return None
            wait = f"asks to wait {error.retry_after:.0f} s, longer than the deadline of {deadline:g} s"
            return f"{self._endpoint} {wait}: run again later; answers received so far are kept ({error})"
        self._reached = self._reached or error.kind not in _UNREACHED
        self._unreachable_since = self._unreachable_since or now
        unreachable = not self._reached and now - self._unreachable_since >= NO_SERVER_AFTER
        return self._no_server(error) if unreachable else None

    def given_up(self, error: ModelError) -> str | None:
        """Note a request that was given up because of `error`."""
        if error.scope == "fatal":
            self._fatal += 1
            if not self.worked and (error.status != _FORBIDDEN or self._fatal >= REVOKED_AFTER):
                return str(error.detail)
            if not self.worked:
                return None
            if self._fatal >= REVOKED_AFTER:
                return f"{self._endpoint} worked before but now rejects all requests: {error.detail}"
        if error.kind in _ABOUT_ONE_PROMPT or (self.worked and error.scope == "permanent"):
            return None
        self._given_up += 1
        most = NOTHING_WORKS_AFTER
        if self.worked:
            most = max(2 * self._limits.max_connections, most)
        if self._given_up < most:
            return None
        if self.worked:
            failures = f"the last {self._given_up} requests were given up, the last with {error}"
            return f"{self._endpoint} worked before but {failures}"
        if not self._reached:
            return self._no_server(error)
        return f"{self._endpoint} answered none of the first {self._given_up} requests, the last with {error}"

    def _no_server(self, error: ModelError) -> str:
        if error.kind == "proxy":
            advice = "check the proxy, or add the host to no_proxy"
            return f"{self._endpoint} cannot be reached: {error.detail}; {advice}"
        return f"no server answers at {self._endpoint}: start it, or check the address ({error.detail})"
