"""One thing over HTTP, politely: in turn, tried again with growing pauses, never endlessly."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

import aiohttp

from tiltmeter._text import printable
from tiltmeter.benchmarks.sources._manners import Manners, Pace, retry_after

__all__ = ["Again", "Failed", "Fetcher", "Reply", "Unreachable"]

T = TypeVar("T")

_TRANSIENT = frozenset({408, 425, 429})
_CHUNK = 2**16


class Reply(NamedTuple):
    """A whole answer."""

    url: str
    """Where it came from in the end."""
    headers: Mapping[str, str]
    body: bytes
    charset: str | None


class Failed(Exception):
    """This one thing cannot be had; the message says why."""


class Unreachable(Failed):
    """The server does not answer at all."""


class Again(Exception):
    """Worth trying again, after so many seconds if the server said so."""

    def __init__(self, problem: str, after: float | None = None) -> None:
        super().__init__(problem)
        self.after = after


class Fetcher:
    """Asks one server; to be entered as an asynchronous context."""

    def __init__(self, manners: Manners) -> None:
        self._manners = manners
        self._pace = Pace(manners.rate)
        self._free = asyncio.Semaphore(manners.connections)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            headers={"User-Agent": self._manners.agent},
            timeout=aiohttp.ClientTimeout(total=self._manners.timeout),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=True,
        )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def get(self, url: str, params: Mapping[str, str], read: Callable[[Reply], T]) -> T:
        """What `read` makes of the answer; it may raise Again or Failed.

        Raises
        ------
        Failed
            It cannot be had, or not after all tries.
        Unreachable
            No connection to the server, after all tries.
        """
        last: Failed = Failed("it was not tried")
        for attempt in range(self._manners.tries):
            if attempt:
                await asyncio.sleep(self._manners.pause * 2 ** (attempt - 1) * random.uniform(0.75, 1.25))
            try:
                async with self._free:
                    await self._pace.turn()
                    reply = await self._once(url, params)
                return read(reply)
            except Again as error:
                last = Failed(f"{error}, {attempt + 1} times")
                if error.after is not None:
                    if error.after > self._manners.patience:
                        raise Failed(f"{error} and asks to wait for {error.after:.0f} seconds: try again later") from None
                    self._pace.hold(error.after)
            except aiohttp.ClientConnectorError as error:
                last = Unreachable(f"cannot connect to {error.host}:{error.port} ({_reason(error)})")
            except aiohttp.InvalidURL:
                raise Failed(f"{printable(url, one_line=True)!r} is no address") from None
            except aiohttp.TooManyRedirects:
                raise Failed("the server redirects in a circle") from None
            except TimeoutError:
                last = Failed(f"no whole answer within {self._manners.timeout:g} seconds, {attempt + 1} times")
            except (aiohttp.ClientError, OSError) as error:
                last = Failed(f"the connection was lost ({type(error).__name__}), {attempt + 1} times")
        raise last

    async def _once(self, url: str, params: Mapping[str, str]) -> Reply:
        if self._session is None:
            raise RuntimeError("a Fetcher must be entered first: async with fetcher")
        async with self._session.get(url, params=params or None) as response:
            status = response.status
            if status in _TRANSIENT or status >= 500:
                raise Again(f"the server answered {status}", retry_after(response.headers.get("Retry-After")))
            if status >= 400:
                hint = " (it may want to know whom to reach: set user_agent)" if status == 403 else ""
                raise Failed(f"the server answered {status}{hint}")
            body = bytearray()
            async for chunk in response.content.iter_chunked(_CHUNK):
                body += chunk
                if len(body) > self._manners.largest:
                    raise Failed(f"it is larger than {self._manners.largest} bytes")
            return Reply(str(response.url), response.headers, bytes(body), response.charset)


def _reason(error: aiohttp.ClientConnectorError) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate cannot be trusted"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the host is not known"
    return printable(error.os_error.strerror or type(error.os_error).__name__, one_line=True)
