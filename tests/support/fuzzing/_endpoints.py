"""Readers of data from the network: of endpoints, of a wiki, of web servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.fuzzing.contract import Target
from tiltmeter.benchmarks._builder import Manners, MediaWiki, WebClient
from tiltmeter.benchmarks._builder.web import HttpReply
from tiltmeter.models import Message, ModelError, Sampling, create_model
from tiltmeter.models._http import HttpModel


def _body(value: object) -> bytes:
    return json.dumps(value).encode()


def _openai() -> Sequence[bytes]:
    message = {"role": "assistant", "content": "Yes.", "refusal": None, "reasoning_content": "hm"}
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "Yes."},
    ]
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    error = {
        "message": "no such model",
        "code": 429,
        "type": "x",
        "param": "seed",
        "metadata": {},
        "innererror": {"code": "y"},
    }
    return [
        _body({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}),
        _body({"choices": [{"message": {"content": parts}, "finish_reason": "length"}], "usage": usage}),
        _body({"error": error}),
    ]


def _anthropic() -> Sequence[bytes]:
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Yes."}]
    usage = {"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": 1}
    return [
        _body(
            {
                "content": content,
                "stop_reason": "end_turn",
                "stop_details": {"explanation": "x"},
                "usage": usage,
            }
        )
    ]


def _complaints() -> Sequence[bytes]:
    answer = {
        "error": {
            "message": "context length exceeded",
            "code": "context_length_exceeded",
            "type": "x",
            "param": "seed",
        }
    }
    return [_body(answer), _body([answer]), b"<html><title>502 Bad Gateway</title></html>"]


def _answered(model: HttpModel, status: int, headers: Mapping[str, str], body: bytes) -> object:
    """Return the completion of the model for this answer of its server."""

    async def posted(_: bytes) -> tuple[int, Mapping[str, str], bytes]:
        return status, headers, body

    setattr(model, "_post", posted)  # noqa: B010 - in the place of the network
    entries = asyncio.run(model.complete([Message("user", "Hello?")], Sampling(max_tokens=5, seed=1), 0))
    for number in (entries.input_tokens, entries.output_tokens):
        assert number is None or 0 <= number < 2**33
    for text in (entries.text, entries.thinking, entries.refusal, entries.finish_reason):
        assert text is None or isinstance(text, str)
    return entries


def _endpoint(name: str, model: str, seeds: Any, statuses: Sequence[int]) -> Target:
    def read(data: bytes, folder: Path) -> object:
        endpoint = create_model(model, base_url="http://127.0.0.1:9/v1")
        assert isinstance(endpoint, HttpModel)
        status = statuses[len(data) % len(statuses)]
        headers = {"Retry-After": data[:20].decode("latin-1"), "Location": data[:50].decode("latin-1")}
        return _answered(endpoint, status, headers, data)

    return Target(name, read, seeds, "json", refuses=(ModelError,))


def _wiki(data: bytes, folder: Path) -> object:
    async def ask() -> object:
        async def answered(url: str, params: Mapping[str, str]) -> HttpReply:
            return HttpReply(url, 200, {}, data)

        async with WebClient(folder / "cache", Manners(tries=1)) as client:
            setattr(client, "_ask", answered)  # noqa: B010 - in the place of the network
            wiki = MediaWiki(client, "http://127.0.0.1:9/api.php")
            return await asyncio.gather(wiki.page("Chad"), wiki.page("Sahel"), wiki.backlinks("Chad"))

    return asyncio.run(ask())


def _wiki_seeds() -> Sequence[bytes]:
    query = {"rightsinfo": {"text": "CC"}, "backlinks": [{"title": "Lake"}]}
    html = '<p>The <a href="/wiki/Lake" title="Lake">lake</a> is big.[1]</p>'
    links = [{"ns": 0, "title": "Lake", "exists": True}]
    parsed = {"title": "Chad", "text": html, "links": links, "properties": {"displaytitle": "Chad"}}
    return [_body({"query": query, "parse": parsed}), _body({"error": {"code": "maxlag", "info": "wait"}})]


def targets() -> list[Target]:
    """Return the readers of answers of servers."""
    failed = (400, 401, 403, 404, 422, 429, 500, 301, 402, 413, 503)
    return [
        _endpoint("OpenAI-compatible answer", "compatible/m", _openai, (200,)),
        _endpoint("Anthropic answer", "anthropic/m", _anthropic, (200,)),
        _endpoint("refused request", "compatible/m", _complaints, failed),
        Target("MediaWiki", _wiki, _wiki_seeds, "json"),
    ]
