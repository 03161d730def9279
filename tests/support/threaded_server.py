"""A real HTTP server in a thread with its own event loop, for requests of any loop, thread or process."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Self

from aiohttp import web


class ThreadedServer:
    """A server as a context manager; subclasses define the answers.

    What goes wrong in its answering is raised at the end.
    """

    method = "GET"

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self._lock = threading.Lock()
        self._now = 0
        self._error: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._serve, name=type(self).__name__, daemon=True)
        self._ready = threading.Event()
        self.max_concurrent = 0
        """The most requests that were being answered at one time."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        raise NotImplementedError

    @property
    def root(self) -> str:
        """`http://127.0.0.1:PORT`."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def concurrent(self) -> int:
        """How many requests are being answered now."""
        return self._now

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(60):
            raise RuntimeError("the server did not start")
        if self._error is not None:
            raise self._error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(60)
        if kind is None and self._error is not None:
            raise self._error

    def _serve(self) -> None:
        try:
            asyncio.run(self._main())
        except Exception as error:
            self._error = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route(self.method, "/{path:.*}", self._handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", self._port, backlog=4096, reuse_address=True).start()
            self._port = runner.addresses[0][1]
            self._ready.set()
            await self._stopping.wait()
        finally:
            await runner.cleanup()
            await asyncio.sleep(
                0.01
            )  # a connection that was accepted at the last moment is closed in the next turns of the loop

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        with self._lock:
            self._now += 1
            self.max_concurrent = max(self.max_concurrent, self._now)
        try:
            return await self.answer(request)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:
            self._error = error
            return web.Response(status=500, text=f"the test's script failed: {error}")
        finally:
            with self._lock:
                self._now -= 1

    async def sleep(self, seconds: float) -> None:
        """Sleep, but not longer than the server lives."""
        assert self._stopping is not None
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return
