"""Small catalogues, real wheels and a real HTTP server to fetch from."""

from __future__ import annotations

import hashlib
import threading
import zipfile
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from tiltmeter.datasets import Catalogue, Library

SAMPLE = b"word,score\nnurse,0.2\nsmith,0.8\n"
REQUIREMENT = "tiltmeter-sample==1.0"
WHEEL = "tiltmeter_sample-1.0-py3-none-any.whl"

Record = dict[str, Any]
MakeLibrary = Callable[..., Library]


def record(name: str, data: bytes, *sources: Mapping[str, str], **changes: Any) -> Record:
    """Return a complete catalogue entry for `data`, as in the catalogue file."""
    return {
        "name": name,
        "title": "A sample",
        "origin": "Made for a test.",
        "upstream": "https://example.org/sample",
        "version": "1",
        "licence": "CC0-1.0",
        "restricted": None,
        "licence_note": "Free.",
        "citation": "Author (2025). A sample.",
        "sha256": hashlib.sha256(data).hexdigest(),
        "size": len(data),
        "language": "en",
        "sources": list(sources) or [{"url": "http://127.0.0.1:9/nothing-listens-here"}],
        **changes,
    }


def member(path: str) -> dict[str, str]:
    return {"package": REQUIREMENT, "member": path}


def catalogue(*records: Record, wheel: Path | None = None) -> Catalogue:
    packages = {}
    if wheel is not None:
        data = wheel.read_bytes()
        packages[REQUIREMENT] = {
            "wheel": WHEEL,
            "sha256": hashlib.sha256(data).hexdigest(),
            "size": len(data),
        }
    return Catalogue.model_validate({"packages": packages, "entries": records})


def build_wheel(folder: Path, files: Mapping[str, bytes], requires_python: str = ">=99") -> Path:
    """Build a wheel of `files`; by default no Python version can install it."""
    info = "tiltmeter_sample-1.0.dist-info"
    identity = "Metadata-Version: 2.1\nName: tiltmeter-sample\nVersion: 1.0\n"
    metadata = f"{identity}Requires-Python: {requires_python}\nRequires-Dist: does-not-exist-anywhere\n"
    members = {
        **files,
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / WHEEL, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return folder / WHEEL


class Site:
    """A web site on this machine: answers by path, requests counted."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        self.requests: list[str] = []
        self.closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(site) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.requests.append(self.path)
                if self.path in site.answers:
                    site.answers[self.path](self)
                else:
                    self.send_error(404)

            def log_message(self, format: str, *args: object) -> None:
                """Write no log, so that the output of the tests stays clean."""

        return Handler

    def serve(
        self,
        path: str,
        data: bytes,
        *,
        status: int = 200,
        claimed: int | None = None,
        kind: str = "text/plain",
    ) -> str:
        """Answer `path` with `data`, claiming a length of `claimed` bytes."""

        def answer(request: BaseHTTPRequestHandler) -> None:
            request.send_response(status)
            request.send_header("Content-Type", kind)
            request.send_header("Content-Length", str(len(data) if claimed is None else claimed))
            request.end_headers()
            request.wfile.write(data)

        self.answers[path] = answer
        return self.address + path

    def redirect(self, path: str, target: str) -> str:
        """Answer `path` with a redirect to `target`."""

        def answer(request: BaseHTTPRequestHandler) -> None:
            request.send_response(302)
            request.send_header("Location", target)
            request.send_header("Content-Length", "0")
            request.end_headers()

        self.answers[path] = answer
        return self.address + path

    def hang(self, path: str) -> str:
        """Take requests for `path` and never answer them."""

        def answer(request: BaseHTTPRequestHandler) -> None:
            self.closing.wait(30)

        self.answers[path] = answer
        return self.address + path
