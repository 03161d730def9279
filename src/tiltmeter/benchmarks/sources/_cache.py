"""Pages that were fetched, kept in a folder: what is in there is not fetched again."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from pathlib import Path
from typing import Any

from tiltmeter.errors import InputError

__all__ = ["Cache"]

_FORMAT = 1
"""To be raised when what is kept of a page changes its form or its meaning."""


class Cache:
    """One JSON file for each thing, by kind and name.

    A file is written under another name and then renamed, so a process killed at any moment leaves whole files only; two processes
    may use the same folder. What cannot be read counts as not kept.

    Raises
    ------
    InputError
        The folder cannot be made or written to.
    """

    def __init__(self, folder: Path, origin: str) -> None:
        self._folder, self._origin = folder, origin
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"the folder {folder} for fetched pages cannot be made ({error.strerror}): name another one") from error

    def get(self, kind: str, name: str) -> Any:
        """What was kept, None where nothing was."""
        try:
            kept = json.loads(self._path(kind, name).read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(kept, dict) or [kept.get("origin"), kept.get("name")] != [self._origin, name]:
            return None
        return kept.get("value")

    def put(self, kind: str, name: str, value: Any) -> None:
        """Keep a JSON value."""
        path = self._path(kind, name)
        whole = json.dumps({"origin": self._origin, "name": name, "value": value}, ensure_ascii=False)
        partial = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(whole.encode("utf-8", errors="replace"))
            partial.replace(path)
        except OSError as error:
            raise InputError(f"the folder {self._folder} for fetched pages cannot be written to ({error.strerror})") from error

    def _path(self, kind: str, name: str) -> Path:
        digest = hashlib.sha256(f"{_FORMAT}\0{self._origin}\0{name}".encode("utf-8", errors="replace")).hexdigest()
        return self._folder / kind / digest[:2] / f"{digest[:32]}.json"
