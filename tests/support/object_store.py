"""An S3-compatible server (moto's) in a process of its own, which can be slow or refuse requests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CONTROL = "/-/control"


class ObjectStore:
    """A client of the server, for tests."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.environment = {
            "AWS_ENDPOINT_URL": address,
            "AWS_ACCESS_KEY_ID": "testing-id",
            "AWS_SECRET_ACCESS_KEY": "testing-secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def rule(
        self, method: str, name: str, *, status: int = 0, delay: float = 0.0, times: int = 10**9
    ) -> None:
        """Delay requests of this method whose path ends with `name`, or refuse them with `status`."""
        self._call({"method": method, "name": name, "status": status, "delay": delay, "times": times})

    def calm(self) -> None:
        """Forget all rules and requests."""
        self._call({"calm": True})

    def asked(self) -> list[str]:
        """Return the requests since `calm`, as "METHOD PATH", also those that are not answered yet."""
        requests: list[str] = self._call(None)
        return requests

    def put(self, path: str, content: bytes) -> None:
        """Put an object ("bucket/key"), or create a bucket."""
        self._send("PUT", path, content)

    def get(self, path: str) -> bytes | None:
        """Return an object, or None if there is none."""
        try:
            return self._send("GET", path)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 404:
                raise
            return None

    def keys(self, bucket: str) -> list[str]:
        """Return the objects of the bucket."""
        return re.findall(r"<Key>(.*?)</Key>", self._send("GET", f"{bucket}?list-type=2").decode())

    def delete(self, path: str) -> None:
        """Remove an object."""
        self._send("DELETE", path)

    def _send(self, method: str, path: str, content: bytes | None = None) -> bytes:
        request = urllib.request.Request(f"{self.address}/{path}", data=content, method=method)
        request.add_header("X-Tiltmeter-Test", "1")
        request.add_header("Content-Type", "application/octet-stream")
        request.add_header(
            "Authorization", "AWS4-HMAC-SHA256 Credential=testing-id/20260101/us-east-1/s3/aws4_request"
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            body: bytes = answer.read()
        return body

    def _call(self, command: Any) -> Any:
        return json.loads(self._send("POST", CONTROL.strip("/"), json.dumps(command).encode()))


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Run the server while the block lasts."""
    command = [sys.executable, str(Path(__file__))]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ | _KEYS
    ) as process:
        try:
            assert process.stdout is not None
            yield ObjectStore(process.stdout.readline().strip())
        finally:
            process.kill()


_KEYS = {
    "MOTO_CALL_RESET_API": "false",
    "AWS_ACCESS_KEY_ID": "testing-id",
    "AWS_SECRET_ACCESS_KEY": "testing-secret",
}
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Unruly:
    """An application that applies rules to requests and passes all others to the server `inside`."""

    def __init__(self, inside: Application) -> None:
        self._inside, self._lock = inside, threading.Lock()
        self._rules: list[dict[str, Any]] = []
        self._asked: list[str] = []

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if path == CONTROL:
            body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
            return self._control(json.loads(body), start)
        if "HTTP_X_TILTMETER_TEST" not in environ:
            with self._lock:
                self._asked.append(f"{method} {path}")
                rule = self._rule_for(method, path)
                if rule is not None:
                    rule["times"] -= 1
            if rule is not None:
                time.sleep(rule["delay"])
                if rule["status"]:
                    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
                    return _refused(rule["status"], start)
        return self._inside(environ, start)

    def _rule_for(self, method: str, path: str) -> dict[str, Any] | None:
        for rule in self._rules:
            if rule["times"] > 0 and rule["method"] == method and path.endswith(rule["name"]):
                return rule
        return None

    def _control(self, command: Any, start: Callable[..., Any]) -> Iterable[bytes]:
        with self._lock:
            requests = list(self._asked)
            if command is not None and "calm" in command:
                self._rules, self._asked = [], []
            elif command is not None:
                self._rules.append(command)
        body = json.dumps(requests).encode()
        start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]


ERROR_CODES = {403: "AccessDenied", 500: "InternalError", 503: "SlowDown"}
"""Codes of S3 by HTTP status."""


def _refused(status: int, start: Callable[..., Any]) -> Iterable[bytes]:
    code = ERROR_CODES[status]
    error = f"<Error><Code>{code}</Code><Message>{code} by the test</Message></Error>"
    body = f"<?xml version='1.0'?>{error}".encode()
    start(f"{status} {code}", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
    return [body]


def serve() -> None:
    """Listen at a free port of this machine and print the address."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    server = make_server(
        "127.0.0.1", 0, Unruly(DomainDispatcherApplication(create_backend_app)), threaded=True
    )
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve()
