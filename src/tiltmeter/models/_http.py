"""What all providers that speak HTTP share: one session, one request per answer, errors told apart, keys kept out of sight.

One request costs some 0.15 ms of processor time, nearly all of it in aiohttp: headers and addresses are prepared once,
bodies are plain JSON, and answers are read as dictionaries, not validated into objects.
"""

from __future__ import annotations

import json
import logging
import os
import re
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from time import perf_counter
from types import TracebackType
from typing import Any, NamedTuple, Self

import aiohttp
from multidict import CIMultiDict
from pydantic_core import from_json
from yarl import URL

from tiltmeter.errors import ProviderError
from tiltmeter.models._base import Completion, Message, ModelError, Sampling
from tiltmeter.models._errors import Complaint, clean, model_error, read_complaint
from tiltmeter.models._urls import checked_url

__all__ = ["HttpModel", "Key", "count", "key_from_environment"]

_CONNECT_SECONDS = 10.0
_KEEPALIVE_SECONDS = 30.0
_DNS_SECONDS = 300
_MOST_ADAPTATIONS = 5
_LARGEST_COUNT = 2**31 - 1
LARGEST_BODY = 64 << 20
"""Bytes of an answer that are read; the longest answers a model gives take some hundred kB."""
_REJECTED = re.compile(r"unsupported|not support|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed|deprecated|cannot both", re.I)
_NEUTRAL = {"temperature": 1, "top_p": 1}

_log = logging.getLogger("tiltmeter.models")


class Key(NamedTuple):
    """A secret and the environment variable it came from; printing it shows the variable only."""

    variable: str
    secret: str

    def __repr__(self) -> str:
        return f"Key({self.variable})"


def key_from_environment(variable: str, provider: str, *, needed: bool) -> Key | None:
    """The key kept in `variable`; None when there is none and none is needed.

    Raises
    ------
    ProviderError
        The variable is unset or empty although needed, or holds characters no header can carry.
    """
    secret = os.environ.get(variable, "").strip()
    if not secret:
        if needed:
            raise ProviderError(f"{provider} needs a key: set the environment variable {variable}")
        return None
    if not (secret.isascii() and secret.isprintable()):
        raise ProviderError(f"the key in the environment variable {variable} holds characters no key has: copy it again")
    return Key(variable, secret)


def count(value: object) -> int | None:
    """A number of tokens as an endpoint gave it, None when it is no sensible number."""
    return value if isinstance(value, int) and 0 <= value <= _LARGEST_COUNT else None


class HttpModel(ABC):
    """A model behind an HTTP endpoint; a subclass says how a request is written and how an answer is read.

    Raises
    ------
    InputError
        The base URL is none, or holds a user name, password or query.
    """

    def __init__(self, provider: str, model: str, *, base_url: str, path: str, key: Key | None, headers: Mapping[str, str]) -> None:
        base = checked_url(base_url)
        self._provider, self._model, self._base = provider, model, base
        self._url = URL(base + path)
        self._key = key
        self._headers = CIMultiDict(
            {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "tiltmeter", **headers}
        )
        self._session: aiohttp.ClientSession | None = None
        self._lengths: tuple[str, ...] = ()
        self._rejected: set[str] = set()

    @property
    def name(self) -> str:
        """`provider/model`."""
        return f"{self._provider}/{self._model}"

    @property
    def fingerprint(self) -> str:
        """Provider, model and base URL."""
        return f"{self._provider}/{self._model}@{self._base}"

    @property
    def endpoint(self) -> str:
        """Scheme, host and port."""
        return str(self._url.origin())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.fingerprint}>"

    async def __aenter__(self) -> Self:
        # The engine bounds concurrency and the time an answer may take; only connecting has its own limit here.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=_DNS_SECONDS, keepalive_timeout=_KEEPALIVE_SECONDS),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._headers,
            proxy=_proxy(self._url),
        )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def complete(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> Completion:
        """Answer `messages` with one request.

        A request the endpoint declines (400, not charged) because of a parameter's name is sent again in the form
        the endpoint takes, which is remembered: see `_adapt`.
        """
        for _ in range(_MOST_ADAPTATIONS):
            payload = self._payload(messages, sampling, sample)
            started = perf_counter()
            status, headers, raw = await self._post(json.dumps(payload).encode())
            latency = perf_counter() - started
            if status == 200:
                return self._read(self._object(raw), latency)
            complaint = read_complaint(raw)
            if status in (400, 422) and self._adapt(payload, complaint, status):
                continue
            if complaint.flagged and status in (400, 403):
                return Completion(None, "content_filter", refusal=self._clean(complaint.message), latency=latency)
            raise model_error(status, headers, complaint, self._sentence(status, headers, complaint))
        raise ModelError("bad_request", f"{self._url.host} accepts no form of this request", scope="fatal", status=400)

    @abstractmethod
    def _payload(self, messages: Sequence[Message], sampling: Sampling, sample: int) -> dict[str, Any]:
        """The request's body, without the parameters in `self._rejected`."""

    @abstractmethod
    def _read(self, answer: dict[str, Any], latency: float) -> Completion:
        """The completion in a 200 answer's body. Raises ModelError when there is none."""

    async def _post(self, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        if self._session is None:
            raise RuntimeError(f"{self!r} must be entered first: async with model")
        try:
            async with self._session.post(self._url, data=body, allow_redirects=False) as response:
                return response.status, response.headers, await self._whole(response.content)
        except (aiohttp.ClientError, OSError) as error:
            raise _connection_error(error, self._url) from None

    async def _whole(self, content: aiohttp.StreamReader) -> bytes:
        """An answer's body, unpacked. An endpoint that never ends one, or packs a huge one small, must not fill the memory."""
        blocks: list[bytes] = []
        size = 0
        while block := await content.readany():
            blocks.append(block)
            size += len(block)
            if size > LARGEST_BODY:
                said = f"{self._url.host} sent an answer of more than {LARGEST_BODY >> 20} MiB"
                raise ModelError("bad_response", said)
        return b"".join(blocks)

    def _object(self, raw: bytes) -> dict[str, Any]:
        """The JSON object in `raw`, read as UTF-8 whatever the headers say, for JSON is nothing else."""
        try:
            value = from_json(raw, cache_strings="keys")
        except ValueError:
            try:  # half a surrogate pair, which a cut emoji leaves behind: the answer was paid for, keep it
                value = from_json(json.dumps(json.loads(raw), ensure_ascii=False).encode("utf-8", errors="replace"))
            except (ValueError, RecursionError):
                raise self._bad_response(f"something that is not JSON: {self._clean(raw.decode('utf-8', errors='replace'))}") from None
        if not isinstance(value, dict):
            raise self._bad_response("JSON that is not an object")
        return value

    def _bad_response(self, what: str) -> ModelError:
        return ModelError("bad_response", f"{self._url.host} answered 200 with {what}", status=200)

    def _clean(self, text: str) -> str:
        return clean(text, (self._key.secret,) if self._key else ())

    def _sentence(self, status: int, headers: Mapping[str, str], complaint: Complaint) -> str:
        """One sentence on an answer that is not 200, with what to look at."""
        said = self._clean(complaint.message)
        sentence = f"{self._url.host} answered {status}" + (f": {said}" if said else "")
        if status in (401, 403):
            where = f"the key in {self._key.variable}" if self._key else "no key was sent"
            return f"{sentence} ({where})"
        if 300 <= status < 400:
            return f"{sentence} (it redirects to {self._clean(headers.get('Location', '?').split('?')[0])}: give that as base URL)"
        unversioned = self._url.path.endswith("/chat/completions") and not re.search(r"/v\d", self._base)
        if status == 404 and unversioned and "model" not in complaint.message.lower():
            return f"{sentence} (nothing at {self._url}; did you mean the base URL {self._base}/v1?)"
        return f"{sentence} (model {self._model!r} at {self._base})" if status == 404 else sentence

    def _adapt(self, payload: Mapping[str, Any], complaint: Complaint, status: int) -> bool:
        """Take up what the endpoint declined, so that the next request is written otherwise; whether that is so.

        The limit of an answer's length is sent under its other name. A seed (best effort everywhere) and a temperature
        or top_p of 1 (the default) are left out. Any other value would change what is measured, so it is the user's to
        decide: ModelError, fatal.
        """
        if not complaint.says(_REJECTED):
            return False
        words = [complaint.parameter] if complaint.parameter else re.findall(r"\w+", complaint.message[:2000])
        named = [word for word in words if word in payload and (word in self._lengths or word in _NEUTRAL or word == "seed")]
        if not named:
            return False
        parameter = next((name for name in named if name in _NEUTRAL and payload[name] == _NEUTRAL[name]), named[0])
        if parameter in self._lengths and not set(self._lengths) - self._rejected - {parameter}:
            return False
        value = payload[parameter]
        if parameter in _NEUTRAL and value != _NEUTRAL[parameter]:
            mend = f"leave it at the endpoint's default with -M {parameter}=default"
            raise ModelError("bad_request", f"{self.name} does not take {parameter} {value}: {mend}", scope="fatal", status=status)
        if parameter not in self._rejected and parameter not in self._lengths:
            _log.warning("%s does not take %s; it is left out (it was %s)", self.name, parameter, value)
        self._rejected.add(parameter)
        return True


def _proxy(url: URL) -> str | None:
    """The proxy the environment names for this endpoint, looked up once and not with every request."""
    if urllib.request.proxy_bypass(url.host or ""):
        return None
    return urllib.request.getproxies().get(url.scheme)


def _connection_error(error: Exception, url: URL) -> ModelError:
    place = f"{url.host}:{url.port}"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return ModelError("connection", f"the certificate of {place} cannot be trusted", scope="fatal")
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return ModelError("connection", f"the host {url.host} is not known")
    if isinstance(error, aiohttp.ClientConnectorError):
        reason = error.os_error.strerror or type(error.os_error).__name__
        return ModelError("connection", f"cannot connect to {place}: {clean(reason)}")
    if isinstance(error, TimeoutError):
        return ModelError("connection", f"cannot connect to {place} within {_CONNECT_SECONDS:g} s")
    if isinstance(error, aiohttp.ClientResponseError):
        return ModelError("bad_response", f"{place} does not speak HTTP properly")
    return ModelError("connection", f"the connection to {place} was lost ({type(error).__name__})")
