"""Connections to endpoints: the proxy of the environment, and the errors of connections that failed."""

from __future__ import annotations

import ipaddress
import os
import socket
import urllib.request
from typing import Final, NamedTuple

import aiohttp
from yarl import URL

from tiltmeter.errors import ProviderError
from tiltmeter.models._base import ModelError
from tiltmeter.models._endpoints import clean, host_of

CONNECT_SECONDS: Final = 10.0
LOOPBACK_VARIABLE: Final = "TILTMETER_PROXY_LOOPBACK"
"""Environment variable that asks for the proxy also for addresses of this machine."""


class Proxy(NamedTuple):
    """An HTTP proxy; its text is its host and port, without credentials."""

    url: str
    variable: str
    """The environment variable that names it."""

    def __str__(self) -> str:
        address = URL(self.url)
        return f"{address.host}:{address.port} of {self.variable}"


def proxy_for(url: URL) -> Proxy | None:
    """Return the proxy of the environment for a URL, or None.

    Servers on this machine are reached directly: the proxy could not reach them, and would see the key. The
    environment variable `TILTMETER_PROXY_LOOPBACK` asks for the proxy nevertheless.

    Raises
    ------
    ProviderError
        The proxy is not an HTTP proxy, or its URL is not valid.
    """
    host = url.host or ""
    if is_loopback(host):
        is_direct = not os.environ.get(LOOPBACK_VARIABLE)
    else:
        is_direct = bool(urllib.request.proxy_bypass(host))
    address = urllib.request.getproxies().get(url.scheme)
    if is_direct or not address:
        return None
    if "://" not in address:
        address = f"http://{address}"
    variable = f"{url.scheme}_proxy"
    through = f"{host} would be reached through the proxy of the environment variable {variable}"
    if host_of(address) is None:
        raise ProviderError(
            f"{through}, which is not a URL such as http://proxy.example:3128: "
            f"correct it, or add {host} to no_proxy"
        )
    scheme = address.partition("://")[0].lower()
    if scheme not in ("http", "https"):
        raise ProviderError(
            f"{through}, whose type {clean(scheme)} is not supported: "
            f"use an HTTP proxy, or add {host} to no_proxy"
        )
    return Proxy(address, variable)


_LOOPBACK_NAMES = (
    "localhost",
    "localhost.localdomain",
    "localhost4",
    "localhost6",
    "ip6-localhost",
    "ip6-loopback",
)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine.

    This machine has the loopback addresses in any notation, and the address "any", which leads to them.
    """
    name = host.lower().removesuffix(".")
    if name in _LOOPBACK_NAMES or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(_in_four_parts(name))
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback or address.is_unspecified


def _in_four_parts(host: str) -> str:
    """Return an IPv4 address in any notation of the system (127.1, 0x7f000001) as four numbers.

    Other hosts are unchanged.
    """
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except (OSError, UnicodeError):
        return host


def connection_error(error: Exception, url: URL, proxy: Proxy | None, *, answered: bool) -> ModelError:
    """Return the error for a request that ended without an answer.

    Parameters
    ----------
    answered
        Whether the endpoint answered an earlier request.
    """
    place = f"{url.host}:{url.port}"
    through = f"{place} (through the proxy {proxy})" if proxy else place
    hint = ""
    if not answered and url.scheme == "http":
        hint = "; if it expects https, write https:// in the base URL"
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return ModelError("connection", f"the certificate of {through} cannot be trusted", scope="fatal")
        case aiohttp.ClientProxyConnectionError():
            return ModelError(
                "proxy",
                f"cannot connect to the proxy {proxy}, through which {place} is reached: {_reason(error)}",
            )
        case aiohttp.ClientHttpProxyError():
            return ModelError(
                "proxy",
                f"the proxy {proxy} answered {error.status} to the request for {place}: "
                f"{clean(error.message)}",
            )
        case aiohttp.ClientConnectorSSLError():
            return ModelError(
                "connection",
                f"{through} does not answer in TLS: if it expects http, write http:// in the base URL",
            )
        case aiohttp.ClientConnectorError():
            return ModelError("connection", f"cannot connect to {through}: {_reason(error)}")
        case TimeoutError():
            return ModelError("connection", f"cannot connect to {through} within {CONNECT_SECONDS:g} s")
        case aiohttp.ClientResponseError():
            return ModelError("bad_response", f"{through} sent an invalid HTTP response{hint}")
        case aiohttp.ClientPayloadError() if "decode" in str(error).lower():
            return ModelError("bad_response", f"{through} sent a body that cannot be decompressed")
        case aiohttp.ServerDisconnectedError():
            return ModelError("connection", f"{through} closed the connection without an answer{hint}")
    return ModelError("connection", f"the connection to {through} was lost ({type(error).__name__})")


def _reason(error: aiohttp.ClientConnectorError) -> str:
    return clean(error.os_error.strerror or type(error.os_error).__name__)
