"""Recognition of addresses of this machine and its network.

A page of another server could lead to them, by a redirect or by a name of such an address. What is there
(settings of a router, credentials of a cloud machine, an intranet) would then be stored in a benchmark as if
it were public.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection, Iterable
from typing import Final
from urllib.request import getproxies

from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

LOCAL: Final = "an address of this machine or its network"
_TRANSLATED: Final = ipaddress.IPv6Network("64:ff9b::/96")
"""IPv6 addresses that stand for IPv4 addresses (NAT64)."""
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")
"""IPv6 addresses that stood for IPv4 addresses (RFC 4291, deprecated)."""
_TRANSLATED_LOCALLY: Final = ipaddress.IPv6Network("64:ff9b:1::/48")
"""IPv6 addresses that a local network translates to IPv4 (RFC 8215); older versions of Python call them
global."""
_DEFAULT_PORTS: Final = frozenset({80, 443})


def is_local(address: str) -> bool:
    """Return whether an IP address is one of this machine or its network, or not of the public internet."""
    ip = ipaddress.ip_address(address.partition("%")[0])  # without the zone of IPv6
    if isinstance(ip, ipaddress.IPv6Address):
        embedded = ip.ipv4_mapped or ip.sixtofour
        if ip in _TRANSLATED or ip in _COMPATIBLE:
            embedded = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if embedded is not None:
            return is_local(str(embedded))
        if ip.is_site_local or ip in _TRANSLATED_LOCALLY:
            return True
    return not ip.is_global or ip.is_multicast or _is_of_this_machine(ip)


def _is_of_this_machine(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Return whether a public address is one of this machine: only to these can a socket be bound."""
    family = socket.AF_INET if isinstance(ip, ipaddress.IPv4Address) else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(ip), 0))
    except OSError:
        return False
    return True


def leads_to_local(url: str) -> bool:
    """Return whether the host of a URL has an address of this machine or its network."""
    host = _host(url)
    if host is None:
        return False
    try:
        entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        return False
    return any(is_local(str(endpoint[0])) for *_, endpoint in entries)


def local_hosts(urls: Iterable[str]) -> list[str]:
    """Return the hosts of the URLs that are on this machine or its network, in order, each once."""
    url_of_host = {_host(url): url for url in urls}
    return [host for host, url in url_of_host.items() if host is not None and leads_to_local(url)]


def _host(url: str) -> str | None:
    """Return the host of a URL as it is requested; None if the URL is not valid."""
    try:
        return URL(url.strip()).raw_host
    except ValueError:
        return None


def same_server(first: str, second: str) -> bool:
    """Return whether two URLs have the same host, and the same port or those of HTTP and HTTPS."""
    first_url = URL(first)
    second_url = URL(second)
    ports = {first_url.port, second_url.port}
    return first_url.raw_host == second_url.raw_host and (len(ports) == 1 or ports == _DEFAULT_PORTS)


class PublicResolver(AbstractResolver):
    """Resolver that refuses names of addresses of this machine or its network.

    A name is resolved again when a connection is opened, and its address may have changed since it was
    checked.

    Parameters
    ----------
    allowed
        Hosts that may have such addresses; hosts of proxies may, too.
    """

    def __init__(self, allowed: Collection[str]) -> None:
        self._allowed = allowed
        self._proxies = {URL(proxy).raw_host for proxy in getproxies().values() if "://" in proxy}
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a host; raises OSError if one of them is refused."""
        results = await self._resolver.resolve(host, port, family)
        may_be_local = host in self._allowed or host in self._proxies
        if not may_be_local and any(is_local(result["host"]) for result in results):
            raise OSError(f"{host} is {LOCAL}")
        return results

    async def close(self) -> None:
        """Release the resolver."""
        await self._resolver.close()
