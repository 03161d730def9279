"""What the server tells the pages about permissions.

Which hosts are this machine, and whether code of runs may be run.
"""

from __future__ import annotations

import ipaddress

RUN_CODE = "run code"
"""Argument of the page that permits it to run code that study.yaml of a run names."""


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine: localhost or an address such as 127.0.0.1 or ::1."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
