"""Base URLs as users give them."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from tiltmeter.errors import InputError
from tiltmeter.models._errors import clean

__all__ = ["checked_url"]


def checked_url(base_url: str) -> str:
    """The URL without a slash at its end.

    Raises
    ------
    InputError
        It is no http(s) URL, or holds a user name, password, query or fragment, where keys could hide.
    """
    try:
        parts = urlsplit(base_url)
        port_ok = parts.port is None or parts.port > 0
    except ValueError:
        parts, port_ok = urlsplit(""), False
    if parts.username or parts.password or parts.query or parts.fragment:
        place = f"{parts.scheme}://{parts.hostname}"
        raise InputError(f"the base URL at {place} holds a user name, password, query or fragment: give scheme, host, port and path only")
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_ok:
        bare = "" if "://" in base_url else re.sub(r"^https?(?=[:/]):?/*", "", base_url.strip()).lstrip("/")
        hint = (
            f"did you mean {'https' if base_url.startswith('https') else 'http'}://{clean(bare)}?"
            if bare
            else "it should look like http://127.0.0.1:8000/v1"
        )
        raise InputError(f"{clean(base_url)!r} is not a base URL: {hint if port_ok else 'its port is not a number from 1 to 65535'}")
    return base_url.rstrip("/")
